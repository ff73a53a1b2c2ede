"""Conversion of type hints to JSON Schema.

msgspec generates the schemas. This module adds descriptions from `Annotated` and from docstrings, the order
of the values in a `Literal` or an enum, and bounds from annotations of pydantic (`Field`) and
`annotated_types`. It reads the attributes of these annotations without importing the libraries.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import inspect
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct, field

DEFS = "#/$defs/"
BOUND_KEYWORDS = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
}
"""JSON Schema keywords for annotations of other libraries that bound a number."""
LENGTH_KEYWORDS: Mapping[type, tuple[str, str]] = {
    str: ("minLength", "maxLength"),
    bytes: ("minLength", "maxLength"),
    list: ("minItems", "maxItems"),
    tuple: ("minItems", "maxItems"),
    set: ("minItems", "maxItems"),
    frozenset: ("minItems", "maxItems"),
    dict: ("minProperties", "maxProperties"),
}
"""JSON Schema keywords for `min_length` and `max_length`, by type of the value."""
GENERAL_TYPES = (Any, object, dict, list, tuple, inspect.Signature.empty)
"""Types whose schema would allow any value, any object or any array."""


class HintError(Exception):
    """A type has no JSON Schema. The message contains the type."""


def schema_of(hint: Any) -> dict[str, Any]:
    """Return the schema of a type. Its named parts are under `$defs`. Raises: HintError."""
    try:
        (root,), defs = msgspec.json.schema_components(
            [hint], ref_template=DEFS + "{name}", schema_hook=_other_schema
        )
    except (TypeError, ValueError, NameError) as error:
        raise HintError(str(error).splitlines()[-1]) from error
    _improve_schemas(hint, defs, root)
    schema = dict(root)
    if str(root.get("$ref", "")).startswith(DEFS):
        schema = dict(defs[root["$ref"].removeprefix(DEFS)])
        schema.pop("title", None)
    for node in list(_objects([schema, defs])):
        if node is not defs:
            defs |= node.pop("$defs", {})
    used_definitions = _referenced_definitions(schema, defs)
    return {**schema, "$defs": used_definitions} if used_definitions else schema


def is_field(value: Any) -> bool:
    """Return True if a value is pydantic's `Field(...)`, as an annotation or as a default."""
    return type(value).__name__ == "FieldInfo" and hasattr(value, "default_factory")


def field_default(value: Any) -> Callable[[], Any] | None:
    """Return a function that creates the default of a `Field(...)`, or None if it has no default."""
    if callable(value.default_factory):
        factory: Callable[[], Any] = value.default_factory
        return factory
    default = value.default
    if default is ... or type(default).__name__ == "PydanticUndefinedType":
        return None
    return lambda: copy.deepcopy(default)


def with_msgspec_metadata(hint: Any) -> Any:
    """Convert annotations of other libraries in a hint, at any depth, to `msgspec.Meta`.

    Raises: HintError for a `Field` with an alias.
    """
    base, annotations = split_annotated(hint)
    parts = get_args(base)
    if parts and get_origin(base) is not Literal:
        base = _with_type_arguments(
            base, parts, tuple(each if each is ... else with_msgspec_metadata(each) for each in parts)
        )
    for annotation in annotations:
        base = Annotated[base, _as_meta(annotation, base)]
    return base


def _with_type_arguments(base: Any, parts: tuple[Any, ...], new_parts: tuple[Any, ...]) -> Any:
    """Return a generic type or union with other type arguments."""
    if parts == new_parts:
        return base
    origin = get_origin(base)
    return Union[new_parts] if origin in (Union, UnionType) else GenericAlias(origin, new_parts)  # noqa: UP007


def _as_meta(annotation: Any, base: Any) -> Any:
    """Convert an annotation to `msgspec.Meta`. Return texts, and annotations without keywords, unchanged."""
    if isinstance(annotation, str | msgspec.Meta):
        return annotation
    keywords = _keywords(annotation, base)
    text = getattr(annotation, "description" if is_field(annotation) else "documentation", None)
    text = text if isinstance(text, str) and text else None
    if not text and not keywords:
        return annotation
    return msgspec.Meta(description=text, extra_json_schema=keywords or None)


def _keywords(annotation: Any, base: Any) -> dict[str, Any]:
    """Return the JSON Schema keywords of another library's annotation, for a value of type `base`."""
    keywords: dict[str, Any] = {}
    for attribute, keyword in BOUND_KEYWORDS.items():
        bound = getattr(annotation, attribute, None)
        if isinstance(bound, int | float | Decimal) and not isinstance(bound, bool):
            keywords[keyword] = float(bound) if isinstance(bound, Decimal) else bound
    for index, attribute in enumerate(("min_length", "max_length")):
        length = getattr(annotation, attribute, None)
        is_minimum = index == 0
        if isinstance(length, int) and (length > 0 or not is_minimum):  # a minimum of 0 allows everything
            keywords |= {keyword_pair[index]: length for keyword_pair in _length_keywords(base)}
    pattern = getattr(annotation, "pattern", None)
    if pattern is not None:
        keywords["pattern"] = getattr(pattern, "pattern", pattern)
    return keywords | _field_keywords(annotation, base) if is_field(annotation) else keywords


def _field_keywords(annotation: Any, base: Any) -> dict[str, Any]:
    """Return the JSON Schema keywords of pydantic's `Field`. Raises: HintError for an alias."""
    if getattr(annotation, "validation_alias", None) or getattr(annotation, "alias", None):
        raise HintError("Field(alias=...) is not supported: an argument has the name of its parameter")
    keywords: dict[str, Any] = {}
    for each in annotation.metadata:
        keywords |= _keywords(each, base)
    if isinstance(annotation.title, str) and annotation.title:
        keywords["title"] = annotation.title
    if annotation.examples:
        keywords["examples"] = list(annotation.examples)
    if getattr(annotation, "deprecated", None):
        keywords["deprecated"] = True
    if isinstance(annotation.json_schema_extra, Mapping):
        keywords |= annotation.json_schema_extra
    return keywords


def _length_keywords(base: Any) -> set[tuple[str, str]]:
    """Return the pairs of JSON Schema keywords for the minimum and maximum length of a type, or of all
    members of a union.
    """
    base, _ = split_annotated(base)
    if get_origin(base) in (Union, UnionType):
        return {keyword_pair for part in get_args(base) for keyword_pair in _length_keywords(part)}
    origin = get_origin(base) or base
    matches = [
        keyword_pair
        for kind, keyword_pair in LENGTH_KEYWORDS.items()
        if isinstance(origin, type) and issubclass(origin, kind)
    ]
    return set(matches[:1])


def with_description(hint: Any, description: str) -> Any:
    """Add a description to a hint.

    A description in `msgspec.Meta`, or a text in `Annotated`, takes precedence over `description`.
    """
    base, annotations = split_annotated(hint)
    texts = [each for each in annotations if isinstance(each, str)]
    other_annotations = [each for each in annotations if not isinstance(each, str)]
    if any(isinstance(each, msgspec.Meta) and each.description for each in other_annotations):
        text = ""
    else:
        text = texts[0] if texts else description
    if text:
        other_annotations.append(msgspec.Meta(description=text))
    for annotation in other_annotations:
        base = Annotated[base, annotation]
    return base


def split_annotated(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Split a hint into its type and its `Annotated` metadata. Remove `Required` and `NotRequired`."""
    if get_origin(hint) in (NotRequired, Required):
        (hint,) = get_args(hint)
    if get_origin(hint) is Annotated:
        base, *annotations = get_args(hint)
        return base, tuple(annotations)
    return hint, ()


def without_none(hint: Any) -> Any:
    """Return a hint without None. A parameter that may be omitted need not accept null."""
    base, annotations = split_annotated(hint)
    parts = [part for part in get_args(base) if part is not NoneType]
    if get_origin(base) not in (Union, UnionType) or len(parts) == len(get_args(base)):
        return hint
    base = Union[tuple(parts)]  # noqa: UP007 (their number varies)
    for annotation in annotations:
        base = Annotated[base, annotation]
    return base


def is_too_general(hint: Any) -> bool:
    """Return True if a hint is too general for a useful schema, such as `Any`, `dict` or `list[dict]`."""
    base, _ = split_annotated(hint)
    if base in GENERAL_TYPES or getattr(base, "__name__", "") == "ToolResult":
        return True
    arguments = get_args(base)
    if get_origin(base) in (Union, UnionType):
        return any(is_too_general(each) for each in arguments)
    return bool(arguments) and get_origin(base) in (list, dict, tuple) and is_too_general(arguments[-1])


def has_no_structure(hint: Any) -> bool:
    """Return True if a hint allows text, bytes or None. These have no structure."""
    base, _ = split_annotated(hint)
    if get_origin(base) in (Union, UnionType):
        return any(has_no_structure(each) for each in get_args(base))
    return base in (str, bytes, None, NoneType)


def from_json(target: type, value: Any) -> Any:
    """Convert a JSON value to a path, or to a model of another library."""
    if target is Path:
        return Path(value)
    if hasattr(target, "model_validate"):
        return target.model_validate(value)
    # msgspec requires this exception for unknown types. `schema_of` has already rejected them.
    raise NotImplementedError(f"JSON cannot be converted to {target}")


def _other_schema(unknown_type: type) -> dict[str, Any]:
    if unknown_type is Path:
        return {"type": "string"}
    if hasattr(unknown_type, "model_json_schema"):
        schema: dict[str, Any] = unknown_type.model_json_schema(ref_template=DEFS + "{model}")
        return schema
    # Do not raise NotImplementedError. If the type has a description, msgspec would then generate a schema
    # that contains only the description.
    raise HintError(f"type {unknown_type} is not supported")


def _improve_schemas(hint: Any, defs: dict[str, Any], root: dict[str, Any]) -> None:
    """Improve the generated schemas `defs` and `root` in place. Add descriptions, and list the values of an
    enum in the order of its definition.
    """
    orders: dict[frozenset[Any], list[Any]] = {}
    """Values of each enum or `Literal` in the order of their definition, by the set of the values."""
    for part in _types(hint, set()):
        if get_origin(part) is Literal:
            values = [value.value if isinstance(value, enum.Enum) else value for value in get_args(part)]
            orders[frozenset(values)] = values
        elif isinstance(part, type) and issubclass(part, enum.Enum):
            values = [member.value for member in part]
            orders[frozenset(values)] = values
        elif _has_fields(part):
            _describe(part, defs.get(part.__name__, {}))
    for node in _objects([defs, root]):
        if node.get("required") == []:
            del node["required"]
        enum_values = node.get("enum")
        if isinstance(enum_values, list):
            node["enum"] = orders.get(frozenset(enum_values), enum_values)
            if "type" not in node and all(isinstance(value, str) for value in enum_values):
                node["type"] = "string"


def _describe(owner: Any, schema: dict[str, Any]) -> None:
    """Add the author's descriptions to the schema of a class with fields, and to its fields."""
    doc = read_docstring(owner.__doc__)
    if "description" in schema:
        schema["description"] = doc.text
    properties = schema.get("properties", {})
    for name, hint in _fields(owner).items():
        if name not in properties:
            continue
        base, annotations = split_annotated(hint)
        for annotation in (_as_meta(each, base) for each in annotations):
            if isinstance(annotation, msgspec.Meta) and annotation.extra_json_schema:
                properties[name] |= annotation.extra_json_schema
            text = annotation.description if isinstance(annotation, msgspec.Meta) else annotation
            if isinstance(text, str) and text:
                properties[name].setdefault("description", text)
        if text := doc.parameters.get(name, ""):
            properties[name].setdefault("description", text)


def _types(hint: Any, seen: set[int]) -> Iterator[Any]:
    """Yield every type in a hint, once."""
    base, _ = split_annotated(hint)
    if id(base) in seen:
        return
    seen.add(id(base))
    yield base
    if get_origin(base) is Literal:
        return
    parts = list(get_args(base))
    if _has_fields(base):
        parts += _fields(base).values()
    for part in parts:
        yield from _types(part, seen)


def _has_fields(part: Any) -> bool:
    return isinstance(part, type) and (
        dataclasses.is_dataclass(part) or issubclass(part, msgspec.Struct) or typing.is_typeddict(part)
    )


def _fields(owner: Any) -> Mapping[str, Any]:
    return get_type_hints(owner, include_extras=True)


def _objects(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node:
        if isinstance(child, dict | list):
            yield from _objects(child)


def _referenced_definitions(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    """Return the definitions that a schema refers to, directly or indirectly, in their order."""
    used_names: set[str] = set()
    pending: list[Any] = [schema]
    while pending:
        for node in _objects(pending.pop()):
            name = str(node.get("$ref", "")).removeprefix(DEFS)
            if name in defs and name not in used_names:
                used_names.add(name)
                pending.append(defs[name])
    return {name: value for name, value in defs.items() if name in used_names}


SECTION = (
    r"(?m)^\s*(?:(?:Args|Arguments|Parameters|Params|Attributes|Returns|Raises|Yields|Examples?|Notes?)"
    r"\s*:?\s*$"
    r"|:param\b|:returns?:|:raises\b|@param\b)"
)
STRUCTURED_LINE = r"(?m)^(?:\s|[-*+>|#`~]|\d+[.)]\s)"
"""Matches the beginning of a line that must not be joined with the previous one, such as a list item."""


class Doc(Struct, frozen=True):
    """A parsed docstring."""

    text: str = ""
    """Text before the first section. It may have several paragraphs."""
    parameters: dict[str, str] = field(default_factory=dict)
    """Description of each parameter, on one line."""


def read_docstring(docstring: str | None) -> Doc:
    """Parse a docstring in Google, NumPy, Sphinx or Epydoc style. A plain docstring needs no parser."""
    cleaned = inspect.cleandoc(docstring or "")
    if "\n" not in cleaned and cleaned[:1] not in (":", "@"):
        return Doc(cleaned)
    section = re.search(SECTION, cleaned)
    if section is None:
        return Doc(_without_line_wraps(cleaned))
    from docstring_parser import parse

    try:
        parsed = parse(cleaned)
    except Exception:  # the parser rejects some formats, but the text is usable
        return Doc(_without_line_wraps(cleaned))
    parameters = {each.arg_name: " ".join((each.description or "").split()) for each in parsed.params}
    return Doc(_without_line_wraps(cleaned[: section.start()].rstrip()), parameters)


def _without_line_wraps(text: str) -> str:
    """Join lines that were wrapped in the source. Lists, tables and code stay unchanged."""
    paragraphs = re.split(r"\n[ \t]*\n", text)
    return "\n\n".join(
        each if re.search(STRUCTURED_LINE, each) else each.replace("\n", " ") for each in paragraphs
    )
