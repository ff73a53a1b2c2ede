"""Python type hints for the schemas of an OpenAPI document, with a `TypedDict` for each object with members.

A hint is as exact as Python allows. Python cannot express some schemas, such as alternatives of several
objects, or additional members of any name. The hint then accepts more values, and the service rejects those
that are invalid.
"""

from __future__ import annotations

import json
import keyword
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from mcpdesk.features.openapi.api_document import MAX_REFERENCE_CHAIN
from mcpdesk.plain_text import clean

WIDTH = 100
"""Line width of generated code."""
MAX_DEPTH = 12
"""Maximum depth of nested objects. Deeper objects are `Any`."""
MAX_MODELS = 300
"""Maximum number of generated classes. Further objects are `dict`."""
MAX_STEPS = 50_000
"""Maximum number of schemas visited per document. Nested alternatives can make this number very large."""
MAX_VALUES = 100
"""Maximum number of values in an enumeration. An enumeration with more values becomes `str`."""
MAX_DESCRIPTION_LENGTH = 1000
"""Maximum number of characters of a description. OpenAI's API allows 1,024."""
MODELS = "models"
"""Name of the generated module with the types."""
_RESERVED_NAMES = {"Any", "Annotated", "Literal", "NotRequired", "TypedDict", "Meta", "Context"}
_MAX_INTEGER = 2**63


class Hint(Struct, frozen=True):
    """A type hint in Python."""

    text: str
    kind: str
    """Kind of the value: `str`, `int`, `float`, `bool`, `list`, `object`, `union` or `any`."""
    uses: frozenset[str] = frozenset()
    """Required imports, such as `typing.Any` or `models.Pet`."""
    is_nullable: bool = False
    bounds: tuple[str, ...] = ()
    """Keywords of `Meta`, such as `ge=1`."""

    @property
    def bounded(self) -> str:
        """Type hint including its bounds."""
        annotated_text = (
            f"Annotated[{self.text}, Meta({', '.join(self.bounds)})]" if self.bounds else self.text
        )
        if not self.is_nullable or self.kind == "any":
            return annotated_text
        return f'{annotated_text[:-1]} | None"' if self.is_forward else f"{annotated_text} | None"

    @property
    def is_forward(self) -> bool:
        """True if the hint is the name of a class that is not complete yet."""
        return self.text.startswith('"')

    @property
    def imports(self) -> frozenset[str]:
        """Imports required by `bounded`."""
        return self.uses | ({"typing.Annotated", "mcpdesk.Meta"} if self.bounds else set())


ANY = Hint("Any", "any", frozenset({"typing.Any"}))
ANY_OBJECT = Hint("dict[str, Any]", "object", frozenset({"typing.Any"}))
_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}


class ObjectMembers(Struct, frozen=True):
    """Members of an object, including those of its `allOf`."""

    properties: Mapping[str, Any] = {}
    required: frozenset[str] = frozenset()
    additional: Any = None
    """Value of `additionalProperties`, or None."""
    description: str = ""


class TypeWriter:
    """Writes the type hints of one document, and the classes they need."""

    def __init__(self, resolve: Callable[[Any], Any]) -> None:
        self._resolve = resolve
        self._class_names = dict[str, str]()
        """Class names by reference, or by `inline NAME` for a schema without a reference."""
        self._unfinished = set[str]()
        """Names of classes that are being written."""
        self._classes = dict[str, str]()
        """Texts of the complete classes, by name."""
        self._imports = set[str]()
        self._steps = 0
        """Number of schemas visited."""

    def module(self) -> str:
        """Return the text of the module with all classes, or "" if no classes are needed."""
        if not self._classes:
            return ""
        head = '"""Types of the parameters of the service."""\n\n' + import_lines(self._imports)
        body = "\n\n".join(self._classes.values())
        return f"{head}\n\n{body}" if body.startswith("#") else f"{head}\n\n\n{body}"

    def hint(self, schema: Any, name: str, depth: int = 0) -> Hint:
        """Return the hint for a schema. If the hint needs a class, the class is named after `name`.

        Raises: UnsupportedOperation.
        """
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        schema = self._resolve(schema)
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH or self._exceeds_limit():
            return ANY
        if reference is not None:
            name = str(reference).rpartition("/")[2]
        return self._resolved_hint(schema, name, str(reference or ""), depth)

    def members(self, schema: Any, depth: int = 0) -> ObjectMembers | None:
        """Return the members of an object, or None if it is not an object or its members are unknown.

        Raises: UnsupportedOperation.
        """
        schema = self._resolve(schema)
        if not isinstance(schema, Mapping) or depth > MAX_REFERENCE_CHAIN or self._exceeds_limit():
            return None
        properties, required = dict[str, Any](), set[str]()
        additional = schema.get("additionalProperties")
        for each in _list_at(schema, "allOf"):
            if (part := self.members(each, depth + 1)) is not None:
                properties |= part.properties
                required |= part.required
                additional = part.additional if additional is None else additional
        if isinstance(own_properties := schema.get("properties"), Mapping):
            properties |= {str(key): each for key, each in own_properties.items()}
        required |= {str(each) for each in _list_at(schema, "required")}
        properties = {key: each for key, each in properties.items() if not self._is_read_only(each)}
        is_object = "object" in _types(schema) or properties or additional is not None
        if not is_object:
            return None
        description = str(schema.get("description") or "")
        return ObjectMembers(properties, frozenset(required & properties.keys()), additional, description)

    def _exceeds_limit(self) -> bool:
        """Count one visited schema. Return True if the limit is exceeded; the schema then becomes `Any`."""
        self._steps += 1
        return self._steps > MAX_STEPS

    def resolved(self, schema: Any) -> Mapping[str, Any]:
        """Return a schema, or the schema that it refers to.

        Empty if the result is not an object. Raises: UnsupportedOperation.
        """
        target = self._resolve(schema)
        return target if isinstance(target, Mapping) else {}

    def _is_read_only(self, schema: Any) -> bool:
        return self.resolved(schema).get("readOnly") is True

    def _resolved_hint(self, schema: Mapping[str, Any], name: str, reference: str, depth: int) -> Hint:
        """Return the hint for a resolved schema. `reference` is its `$ref`, or ""."""
        types = _types(schema)
        is_nullable = schema.get("nullable") is True or "null" in types
        values = _list_at(schema, "enum") or ([schema["const"]] if "const" in schema else [])
        if values:
            hint = _literal(values, types)
            return _with_nullable(hint, is_nullable or None in values)
        members = self.members(schema)
        options = _list_at(schema, "oneOf") or _list_at(schema, "anyOf")
        if members is not None and (members.properties or not options):
            hint = self._object(members, name, reference, depth)
        elif options:
            hint = self._union([self.hint(each, name, depth + 1) for each in options if not _is_null(each)])
            is_nullable = is_nullable or any(map(_is_null, options))
        elif len(parts := _list_at(schema, "allOf")) == 1:
            hint = self.hint(parts[0], name, depth + 1)
        elif "array" in types:
            item_hint = self.hint(schema.get("items", {}), name, depth + 1)
            bounds = _bounds(schema, "list")
            hint = Hint(f"list[{item_hint.bounded}]", "list", item_hint.imports, bounds=bounds)
        else:
            kinds = [_SCALARS[each] for each in types if each in _SCALARS]
            hint = self._union([Hint(kind, kind, bounds=_bounds(schema, kind)) for kind in kinds])
        return _with_nullable(hint, is_nullable or hint.is_nullable)

    def _object(self, members: ObjectMembers, name: str, reference: str, depth: int) -> Hint:
        """Return the hint for an object: a class, or `dict` if its members have no known names."""
        if not members.properties:
            if not isinstance(members.additional, Mapping) or not members.additional:
                return ANY_OBJECT
            value_hint = self.hint(members.additional, f"{name}_value", depth + 1)
            return Hint(f"dict[str, {value_hint.bounded}]", "object", value_hint.imports)
        if members.additional not in (None, False) or len(self._classes) >= MAX_MODELS:
            return ANY_OBJECT
        class_name = self._class_name(name, reference)
        uses = frozenset({f"{MODELS}.{class_name}"})
        if class_name in self._unfinished:
            return Hint(f'"{class_name}"', "object", uses)
        if class_name not in self._classes:
            self._unfinished.add(class_name)
            try:
                text = self._class(class_name, members, depth)
            finally:
                self._unfinished.discard(class_name)
            self._classes[class_name] = text
        return Hint(class_name, "object", uses)

    def _class(self, class_name: str, members: ObjectMembers, depth: int) -> str:
        """Return the text of a `TypedDict` with these members."""
        hints = {
            key: self.hint(each, f"{class_name}_{key}", depth + 1) for key, each in members.properties.items()
        }
        descriptions = {key: self._description(each) for key, each in members.properties.items()}
        for hint in hints.values():
            self._imports |= {each for each in hint.imports if not each.startswith(f"{MODELS}.")}
        self._imports.add("typing.TypedDict")
        if members.required != hints.keys():
            self._imports.add("typing.NotRequired")
        hint_texts = {
            key: hint.bounded if key in members.required else f"NotRequired[{hint.bounded}]"
            for key, hint in hints.items()
        }
        doc = members.description or f"Members of `{class_name}`."
        if all(map(_is_member, hints)):
            body = "\n".join(f"    {key}: {hint}" for key, hint in hint_texts.items())
            return f"class {class_name}(TypedDict):\n{docstring(doc, descriptions, 'Attributes')}\n\n{body}\n"
        self._imports.add("typing.Annotated")
        lines = [
            f"        {quoted(key)}: {_annotated(hint.bounded, descriptions[key], key in members.required)},"
            for key, hint in hints.items()
        ]
        comment = textwrap.indent(textwrap.fill(one_line(doc)[:MAX_DESCRIPTION_LENGTH], WIDTH - 2), "# ")
        return "\n".join(
            [
                comment,
                f"{class_name} = TypedDict(",
                f"    {quoted(class_name)},",
                "    {",
                *lines,
                "    },",
                ")\n",
            ]
        )

    def _description(self, schema: Any) -> str:
        description = schema.get("description") if isinstance(schema, Mapping) else ""
        return str(description or self.resolved(schema).get("description") or "")

    def _class_name(self, name: str, reference: str) -> str:
        key = reference or f"inline {name}"
        if key not in self._class_names:
            class_name = "".join(part[:1].upper() + part[1:] for part in words(name)) or "Value"
            class_name = f"Value{class_name}" if class_name[0].isdigit() else class_name
            used_names = _RESERVED_NAMES | set(self._class_names.values())
            self._class_names[key] = unique_name(class_name, used_names | set(keyword.kwlist))
        return self._class_names[key]

    def _union(self, hints: Sequence[Hint]) -> Hint:
        """Return a union of hints, or a less exact hint if a value cannot be assigned to one alternative."""
        distinct_hints = list(dict.fromkeys(hints))
        kinds = [hint.kind for hint in distinct_hints]
        if "int" in kinds and "float" in kinds:
            distinct_hints = [hint for hint in distinct_hints if hint.kind != "int"]
            kinds = [hint.kind for hint in distinct_hints]
        if len(distinct_hints) == 1:
            return distinct_hints[0]
        if kinds and set(kinds) == {"object"}:
            return ANY_OBJECT
        is_forward = any(hint.is_forward for hint in distinct_hints)
        if not distinct_hints or "any" in kinds or is_forward or len(set(kinds)) < len(kinds):
            return ANY
        uses = frozenset().union(*(hint.imports for hint in distinct_hints))
        text = " | ".join(_without_null(hint).bounded for hint in distinct_hints)
        return Hint(text, "union", uses, any(hint.is_nullable for hint in distinct_hints))


def _without_null(hint: Hint) -> Hint:
    return Hint(hint.text, hint.kind, hint.uses, bounds=hint.bounds)


def _with_nullable(hint: Hint, is_nullable: bool) -> Hint:
    return Hint(hint.text, hint.kind, hint.uses, is_nullable, hint.bounds)


def _literal(values: Sequence[Any], types: Sequence[str]) -> Hint:
    """Return a `Literal` of texts or whole numbers. For other values, return a less exact hint."""
    scalars = [each for each in dict.fromkeys(map(_scalar_or_none, values)) if each is not None]
    kinds = {type(each) for each in scalars}
    if not scalars or len(scalars) > MAX_VALUES or kinds not in ({str}, {int}):
        kind = next((_SCALARS[each] for each in types if each in _SCALARS), "")
        return Hint(kind, kind) if kind else ANY
    literals = ", ".join(quoted(each) if isinstance(each, str) else repr(each) for each in scalars)
    kind = "str" if kinds == {str} else "int"
    return Hint(f"Literal[{literals}]", kind, frozenset({"typing.Literal"}))


def _scalar_or_none(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else None


def _bounds(schema: Mapping[str, Any], kind: str) -> tuple[str, ...]:
    """Return the constraints of a schema besides its type, as keywords of `Meta`."""
    return tuple(f"{key}={value}" for key, value in _bound_values(schema, kind))


def _bound_values(schema: Mapping[str, Any], kind: str) -> Iterator[tuple[str, str]]:
    if kind in ("int", "float"):
        for inclusive, exclusive, inclusive_word, exclusive_word in (
            ("minimum", "exclusiveMinimum", "ge", "gt"),
            ("maximum", "exclusiveMaximum", "le", "lt"),
        ):
            bound, exclusive_value = _number(schema.get(inclusive), kind), schema.get(exclusive)
            if bound is not None:  # in OpenAPI 3.0, the exclusive keyword is a flag
                yield (exclusive_word if exclusive_value is True else inclusive_word), repr(bound)
            elif (exclusive_bound := _number(exclusive_value, kind)) is not None:
                yield exclusive_word, repr(exclusive_bound)
    elif kind in ("str", "list"):
        word = "Length" if kind == "str" else "Items"
        min_length, max_length = (_number(schema.get(f"{end}{word}"), "int") for end in ("min", "max"))
        if min_length is not None and min_length > 0:
            yield "min_length", repr(min_length)
        if max_length is not None and max_length >= 0:
            yield "max_length", repr(max_length)
    pattern = schema.get("pattern")
    if kind == "str" and isinstance(pattern, str) and _is_usable_pattern(pattern):
        yield "pattern", quoted(pattern)


def _number(value: Any, kind: str) -> float | None:
    """Return a bound, or None if it is missing or cannot be used. A bound of the kind `int` must be whole."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MAX_INTEGER:
        return None
    if kind == "int":
        return int(value) if value == int(value) else None
    return value


def _is_usable_pattern(pattern: str) -> bool:
    """Return True if a pattern is valid in Python and not too long."""
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return len(pattern) < 200


def _types(schema: Mapping[str, Any]) -> list[str]:
    type_name = schema.get("type")
    return [
        str(each) for each in (type_name if isinstance(type_name, list) else [type_name]) if each is not None
    ]


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and _types(schema) == ["null"]


def _list_at(schema: Mapping[str, Any], key: str) -> list[Any]:
    value = schema.get(key)
    return value if isinstance(value, list) else []


def _is_member(name: str) -> bool:
    """Return True if a class can have a member with this name."""
    return (
        name.isidentifier() and name.isascii() and not keyword.iskeyword(name) and not name.startswith("__")
    )


def _annotated(hint: str, description: str, is_required: bool) -> str:
    text = (
        f"Annotated[{hint}, {quoted(one_line(description)[:MAX_DESCRIPTION_LENGTH])}]"
        if description
        else hint
    )
    return text if is_required else f"NotRequired[{text}]"


def words(name: str) -> list[str]:
    """Return the ASCII words of a name in any style: `pet` and `Id` for `petId`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return re.findall(r"[A-Za-z0-9]+", spaced)


def snake_case(name: str, fallback: str) -> str:
    """Return a name in the style of Python variables, or `fallback` if no characters remain."""
    identifier = "_".join(words(name)).lower() or fallback
    identifier = f"{fallback}_{identifier}" if identifier[0].isdigit() else identifier
    return (
        f"{identifier}_" if keyword.iskeyword(identifier) or keyword.issoftkeyword(identifier) else identifier
    )


def unique_name(name: str, used_names: set[str], max_length: int = 80) -> str:
    """Return the name, cut to `max_length`, with a number appended if the name is already in use."""
    candidate = name if len(name) <= max_length else name[:max_length].rstrip("_")
    count = 1
    while candidate in used_names:
        count += 1
        suffix = f"_{count}"
        candidate = name[: max_length - len(suffix)].rstrip("_") + suffix
    return candidate


def quoted(text: str) -> str:
    """Return a text as a Python literal."""
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else repr(text)


def one_line(text: str) -> str:
    """Return a text without line breaks and control characters."""
    return " ".join(clean(text).split())


def docstring(text: str, descriptions: Mapping[str, str], section: str, indent: str = "    ") -> str:
    """Return a docstring with a text, and with a section that describes parameters or members.

    The texts are escaped.
    """
    safe_text = clean(text).replace("\\", "\\\\").replace('"""', "'''").strip()
    if len(safe_text) > MAX_DESCRIPTION_LENGTH:
        safe_text = safe_text[:MAX_DESCRIPTION_LENGTH].rsplit(" ", 1)[0].rstrip("\\") + " ..."
    head, _, rest = safe_text.partition("\n")
    if not head.endswith((".", "!", "?")):
        head += "."
    paragraphs = [head, *(each for each in re.split(r"\n\s*\n", rest) if each.strip())]
    text_width = WIDTH - len(indent)
    parts = [
        "\n".join(textwrap.wrap(one_line(each), text_width - 3, break_long_words=False))
        for each in paragraphs
    ]
    lines = [
        textwrap.fill(
            f"{name}: {one_line(description)}".replace("\\", "\\\\")
            .replace('"""', "'''")[:MAX_DESCRIPTION_LENGTH]
            .rstrip("\\"),
            text_width,
            initial_indent="    ",
            subsequent_indent="        ",
            break_long_words=False,
        )
        for name, description in descriptions.items()
        if one_line(description)
    ]
    if lines:
        parts.append(f"{section}:\n" + "\n".join(lines))
    text = "\n\n".join(parts)
    body = f'"""{text}\n"""' if "\n" in text else f'"""{text}"""'
    return textwrap.indent(body, indent)


def import_lines(names: set[str]) -> str:
    """Return import statements for these names, one for each module. Modules of the folder come last."""
    modules = dict[str, list[str]]()
    for each in sorted(names):
        module, _, name = each.rpartition(".")
        modules.setdefault(module, []).append(name)
    groups = dict[int, list[str]]()
    for module in sorted(modules, key=lambda module: (_group_number(module), module)):
        module_names = sorted(modules[module], key=str.lower)
        line = f"from {module} import {', '.join(module_names)}"
        if len(line) > WIDTH:
            name_lines = "\n".join(f"    {name}," for name in module_names)
            line = f"from {module} import (\n{name_lines}\n)"
        groups.setdefault(_group_number(module), []).append(line)
    return "\n\n".join("\n".join(lines) for lines in groups.values())


def _group_number(module: str) -> int:
    """Return the position of a module's group of imports: standard library, mcpdesk, the folder."""
    return {"json": 0, "typing": 0, "mcpdesk": 1}.get(module, 2)
