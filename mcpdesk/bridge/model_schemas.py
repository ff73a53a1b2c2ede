"""Tools of a server in the form of a model API: legal names, and input schemas in the API's dialect.

The dialect is JSON Schema 2020-12 with a self-contained object at the root. Anything that this dialect cannot
express is omitted, because an API rejects a whole request for one invalid tool. The server validates the
arguments against its own schema anyway.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from mcpdesk.errors import DeskUserError

ApiName: TypeAlias = Literal["openai", "anthropic"]
"""`openai`: Chat Completions API. `anthropic`: Messages API."""
CLAUDE_WORDS = frozenset({"anthropic", "claude", "haiku", "opus", "sonnet"})
"""Words in the names of Anthropic's models, including short forms."""


class ModelApi(Struct, frozen=True):
    """Rules of one API."""

    name: str
    tool_name: re.Pattern[str]
    argument_name: re.Pattern[str] | None
    """Pattern of valid argument names, or None if any name is valid."""
    max_name_length: int = 64
    max_description_length: int | None = None
    """Maximum length in characters of a description, or None for no limit."""
    max_tools: int | None = None
    """Maximum number of tools in one request, or None for no limit."""

    def shape(self, name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a tool in the form of a request to the API."""
        if self.name == "openai":
            function = {"name": name, "description": description, "parameters": schema}
            return {"type": "function", "function": function}
        return {"name": name, "description": description, "input_schema": schema}

    def shortened(self, description: str, hint: str = "") -> str:
        """Return a description and a hint on the next line, within the API's limit.

        A long description is cut between words. A hint that would need half of the limit is omitted.
        """
        max_length = self.max_description_length
        hint_line = f"\n{hint}" if hint and (max_length is None or len(hint) < max_length // 2) else ""
        if max_length is not None and len(description) + len(hint_line) > max_length:
            head = description[: max(0, max_length - len(hint_line) - 1)]
            description = (head.rsplit(None, 1)[0] if " " in head[-80:] else head).rstrip() + "…"
        return f"{description}{hint_line}".strip()


APIS: dict[str, ModelApi] = {
    "openai": ModelApi(
        "openai",
        tool_name=re.compile(r"[A-Za-z0-9_-]{1,64}"),
        argument_name=None,
        max_description_length=1024,
        max_tools=128,
    ),
    "anthropic": ModelApi(
        "anthropic",
        tool_name=re.compile(r"[A-Za-z0-9_-]{1,64}"),
        argument_name=re.compile(r"[A-Za-z0-9_.-]{1,64}"),
    ),
}
"""Rules by API. Both APIs reject a whole request for one invalid tool."""


def api_of_model(model: str) -> ApiName:
    """Return `anthropic` for any Claude model, and `openai` for all other models."""
    return "anthropic" if CLAUDE_WORDS & set(re.findall("[a-z]+", model.lower())) else "openai"


def configured_api(target: object) -> ApiName:
    """Return the API for the setting `model` of a folder, or of this process for any other target.

    Raises: DeskUserError for an invalid setting; ManifestError for an invalid manifest.
    """
    from mcpdesk.hosting.host_plan import effective_settings

    is_folder = isinstance(target, str | os.PathLike) and "://" not in str(target)
    folder = Path(target).expanduser() if isinstance(target, str | os.PathLike) and is_folder else None
    return api_of_model(effective_settings({}, os.environ, folder).settings.model)


def model_api(name: str) -> ModelApi:
    """Return the rules of the API of that name. Raises: DeskUserError if the name is unknown."""
    if name not in APIS:
        raise DeskUserError(f"Unknown model API {name!r}.", f"Known: {', '.join(APIS)}.")
    return APIS[name]


class ToolSchema:
    """One tool for one API. `definition` is the tool as in `tools/list`."""

    def __init__(self, definition: Mapping[str, Any], api: ModelApi, name: str) -> None:
        self.original = str(definition["name"])
        """Name of the tool at the server."""
        self.name = name
        """Name of the tool for the model."""
        argument_names = partial(
            Names, pattern=api.argument_name, max_length=api.max_name_length, empty="argument"
        )
        model_schema = ModelSchema(definition.get("inputSchema") or {}, argument_names)
        self.arguments = model_schema.names
        """Names of the arguments, at the server and for the model."""
        self.faulty = model_schema.faulty
        """Arguments and keywords whose schema is invalid and was omitted."""
        description = str(definition.get("description") or definition.get("title") or "").strip()
        self.description = api.shortened(description, model_schema.hint)
        self.is_cut = not self.description.startswith(description)
        """True if the description was cut to the API's limit."""
        self.schema = api.shape(name, self.description, model_schema.schema)
        """Entry for `tools` in a request to the API."""

    def for_server(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Rename a model's arguments to the names that the server uses. Unknown names are not changed."""
        original_names = {legal: original for original, legal in self.arguments.changed.items()}
        return {original_names.get(name, name): value for name, value in arguments.items()}


class ToolSchemas(list[dict[str, Any]]):
    """Schemas that can be used as `tools` in a request to the API.

    `names` maps the name that the model uses for a tool to the name at the server. `tools` has the
    `ToolSchema` of each tool, which also maps the names of arguments.
    """

    def __init__(self, definitions: Iterable[Mapping[str, Any]], api: ModelApi) -> None:
        tools = [definition for definition in definitions if is_for_model(definition)]
        names = Names([str(tool["name"]) for tool in tools], api.tool_name, api.max_name_length)
        self.api = api
        self.tools = [ToolSchema(tool, api, names.legal(str(tool["name"]))) for tool in tools]
        super().__init__(tool.schema for tool in self.tools)

    @property
    def names(self) -> dict[str, str]:
        """Names at the server, by the name that the model uses for the tool."""
        return {tool.name: tool.original for tool in self.tools}

    @property
    def remarks(self) -> list[str]:
        """Differences from the server's definitions, one sentence each."""
        messages = [
            f"{tool.original!r} is called {tool.name!r}" for tool in self.tools if tool.name != tool.original
        ]
        for tool in self.tools:
            for original, legal in tool.arguments.changed.items():
                messages.append(f"{tool.original}: the argument {original!r} is called {legal!r}")
            messages += [f"{tool.original}: its {each!r} is not a JSON Schema" for each in tool.faulty]
            if tool.is_cut:
                messages.append(
                    f"{tool.original}: the description was cut to {len(tool.description)} characters"
                )
        max_tools = self.api.max_tools
        if max_tools is not None and len(self) > max_tools:
            messages.append(
                f"{self.api.name} accepts at most {max_tools} tools in a request, not {len(self)}"
            )
        return messages


def is_for_model(definition: Mapping[str, Any]) -> bool:
    """Return True if a model may see a tool. Some tools are meant only for the user interface of a server.

    Source: MCP extensions.
    """
    meta = definition.get("_meta")
    interface = meta.get("ui") if isinstance(meta, Mapping) else None
    visibility = interface.get("visibility") if isinstance(interface, Mapping) else None
    return not isinstance(visibility, list) or "model" in visibility


MAX_DEPTH = 20
"""Maximum nesting depth of subschemas. A deeper subschema is replaced by an empty schema."""
MAX_GROUPS = 8
"""Maximum number of groups in the hint of a description."""
MAX_PARTS = 1_000
"""Maximum number of subschemas that are visited from one root. Definitions may refer to each other."""

_DROPPED_KEYWORDS = frozenset(
    {"$schema", "$id", "id", "$comment", "$anchor", "$dynamicAnchor", "$dynamicRef", "$vocabulary",
     "additionalItems", "dependencies", "definitions", "nullable"}
)  # fmt: skip
_SUBSCHEMA_MAP_KEYWORDS = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})
_SUBSCHEMA_KEYWORDS = frozenset(
    {"items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames",
     "unevaluatedItems", "unevaluatedProperties"}
)  # fmt: skip
_SUBSCHEMA_LIST_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NOT_AT_ROOT = ("allOf", "anyOf", "oneOf", "not", "enum", "const", "if", "then", "else", "$ref")
"""Keywords that no API accepts at the root of a schema."""


class ModelSchema:
    """Input schema for a model.

    `schema` is the schema for the API. `names` maps between the argument names in this schema and the names
    at the server. `groups` are alternative sets of required arguments, which the root of a schema cannot
    express. `faulty` lists the arguments and keywords whose schema is invalid.
    """

    def __init__(self, source: Mapping[str, Any], argument_names: Callable[[list[str]], Names]) -> None:
        """`source` is the tool's schema. `argument_names` finds legal names for the server's names."""
        modern = _as_2020_12(source, 0)
        root = _RootArguments(modern)
        properties: dict[str, Any] = root.properties
        self.names = argument_names(list(properties))
        self.groups = [[self.names.legal(name) for name in group] for group in root.groups]
        schema = {key: value for key, value in modern.items() if key not in _NOT_AT_ROOT}
        schema |= {
            "type": "object",
            "properties": {self.names.legal(name): each for name, each in properties.items()},
        }
        schema.pop("required", None)
        if root.required:
            schema["required"] = [self.names.legal(name) for name in properties if name in root.required]
        self.schema: dict[str, Any] = _without_dangling_references(schema, schema)
        self.faulty = _drop_faulty(self.schema)

    @property
    def hint(self) -> str:
        """Text about the groups for the tool's description, or "" without groups."""
        if not self.groups:
            return ""
        group_texts = [" and ".join(group) for group in self.groups[:MAX_GROUPS]]
        return f"Give one of: {'; '.join(group_texts)}."


class _RootArguments:
    """Arguments that a schema declares at its root, directly or through keywords such as `allOf`.

    `required` has the arguments that are always required. `groups` are alternative sets of further ones.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._remaining_parts = MAX_PARTS
        self.properties: dict[str, Any] = {}
        self.groups: list[list[str]] = []
        self.required = self._collect(schema, 0)

    def _collect(self, part: Any, depth: int) -> set[str]:
        """Collect the arguments of one part. Return the names that this part always requires."""
        self._remaining_parts -= 1
        if not isinstance(part, dict) or depth > MAX_DEPTH or self._remaining_parts < 0:
            return set()
        for name, schema in _mapping(part.get("properties")).items():
            earlier = self.properties.get(name)
            is_same = earlier is None or earlier == schema
            self.properties[name] = schema if is_same else _either_schema(earlier, schema)
        required = {name for name in _list(part.get("required")) if isinstance(name, str)}
        if isinstance(part.get("$ref"), str):
            required |= self._collect(_resolved(self._schema, part["$ref"]), depth + 1)
        for subschema in _list(part.get("allOf")):
            required |= self._collect(subschema, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            required_by_branch = [self._collect(each, depth + 1) for each in _list(part.get(keyword))]
            if not required_by_branch:
                continue
            common = set.intersection(*required_by_branch)
            required |= common
            groups = [sorted(names - common) for names in required_by_branch]
            if all(groups):
                self.groups += groups
        for keyword in ("then", "else"):
            self._collect(part.get(keyword), depth + 1)
        for name in required - self.properties.keys():
            self.properties[name] = {}
        return required


def _either_schema(first: Any, second: Any) -> dict[str, Any]:
    alternatives = first["anyOf"] if isinstance(first, dict) and list(first) == ["anyOf"] else [first]
    return {"anyOf": alternatives if second in alternatives else [*alternatives, second]}


def _as_2020_12(schema: Any, depth: int) -> Any:
    """Convert a schema of any draft to 2020-12."""
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return {}
    result: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _DROPPED_KEYWORDS or keyword.startswith("x-"):
            continue
        if keyword in _SUBSCHEMA_MAP_KEYWORDS:
            result[keyword] = {name: _as_2020_12(each, depth + 1) for name, each in _mapping(value).items()}
        elif keyword in _SUBSCHEMA_LIST_KEYWORDS:
            result[keyword] = [_as_2020_12(each, depth + 1) for each in _list(value)]
        elif keyword in _SUBSCHEMA_KEYWORDS:
            result[keyword] = value if isinstance(value, bool | list) else _as_2020_12(value, depth + 1)
            if isinstance(value, list):  # older drafts describe a tuple by a list in `items`
                result["prefixItems"] = [_as_2020_12(each, depth + 1) for each in value]
                result["items"] = _as_2020_12(schema.get("additionalItems", True), depth + 1)
        elif not _is_deeper(value, MAX_DEPTH):
            result[keyword] = value
    _convert_definitions(schema, result, depth)
    _convert_bounds(result)
    _convert_dependencies(schema, result, depth)
    _convert_type(schema, result)
    return result


def _convert_definitions(schema: Mapping[str, Any], result: dict[str, Any], depth: int) -> None:
    """Move `definitions` of older drafts to `$defs`. Remove a reference to another document."""
    older_definitions = _mapping(schema.get("definitions"))
    if older_definitions:
        definitions = {name: _as_2020_12(each, depth + 1) for name, each in older_definitions.items()}
        result["$defs"] = definitions | result.get("$defs", {})
    reference = result.get("$ref")
    if reference is None:
        return
    if isinstance(reference, str) and reference.startswith("#"):
        result["$ref"] = reference.replace("#/definitions/", "#/$defs/", 1)
    else:
        del result["$ref"]  # the reference points to another document


def _convert_bounds(result: dict[str, Any]) -> None:
    """Convert `exclusiveMinimum: true` of draft 4 to a number. Likewise the maximum."""
    for exclusive_keyword, keyword in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(result.get(exclusive_keyword), bool):
            is_exclusive = result.pop(exclusive_keyword)
            if is_exclusive and keyword in result:
                result[exclusive_keyword] = result.pop(keyword)


def _convert_dependencies(schema: Mapping[str, Any], result: dict[str, Any], depth: int) -> None:
    """Split `dependencies` of older drafts into `dependentRequired` and `dependentSchemas`."""
    for name, each in _mapping(schema.get("dependencies")).items():
        if isinstance(each, list):
            result.setdefault("dependentRequired", {})[name] = each
        else:
            result.setdefault("dependentSchemas", {})[name] = _as_2020_12(each, depth + 1)


def _convert_type(schema: Mapping[str, Any], result: dict[str, Any]) -> None:
    """Convert `nullable: true` of OpenAPI to the type null, and give every array `items`."""
    kind = result.get("type")
    if schema.get("nullable") is True and isinstance(kind, str):
        kind = result["type"] = [kind, "null"]
    if (kind == "array" or (isinstance(kind, list) and "array" in kind)) and "items" not in result:
        result["items"] = {}  # one API requires `items` even if the array may contain any items


def _without_dangling_references(part: Any, schema: dict[str, Any]) -> Any:
    """Return a part of `schema` without references to parts that do not exist in `schema`."""
    if isinstance(part, list):
        return [_without_dangling_references(each, schema) for each in part]
    if not isinstance(part, dict):
        return part
    result = {}
    for key, value in part.items():
        if key == "$ref" and isinstance(value, str) and _resolved(schema, value) is None:
            continue
        result[key] = _without_dangling_references(value, schema)
    return result


def _drop_faulty(schema: dict[str, Any]) -> list[str]:
    """Remove invalid parts of a schema; return the names of the affected arguments and keywords."""
    from jsonschema_rs import meta

    if meta.is_valid(schema):
        return []
    arguments = schema["properties"]
    faulty = [name for name, each in arguments.items() if not meta.is_valid(each)]
    for name in faulty:
        description = arguments[name].get("description") if isinstance(arguments[name], dict) else None
        arguments[name] = {"description": description} if isinstance(description, str) else {}
    faulty_keywords = [
        keyword
        for keyword, value in schema.items()
        if keyword != "properties" and not meta.is_valid({keyword: value})
    ]
    for keyword in faulty_keywords:
        del schema[keyword]
    return faulty + faulty_keywords


def _resolved(schema: Any, reference: str) -> Any:
    """Return the target of a local reference, or None if it does not exist."""
    value = schema
    for step in reference.removeprefix("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        elif isinstance(value, Mapping) and step in value:
            value = value[step]
        else:
            return None
    return value


def _is_deeper(value: Any, levels: int) -> bool:
    """Return True if a value has more than `levels` levels of nested objects and lists."""
    if not value or not isinstance(value, Mapping | list):
        return False
    children = value.values() if isinstance(value, Mapping) else value
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in children)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


_DIGEST_LENGTH = 8
"""Number of hash characters that distinguish shortened names."""


class Names:
    """Maps a server's names to unique names that an API allows, and back. Allowed names do not change."""

    def __init__(
        self,
        originals: Iterable[str],
        pattern: re.Pattern[str] | None,
        max_length: int = 64,
        empty: str = "tool",
    ) -> None:
        """`pattern` matches a legal name. If it is None, every name is legal.

        `empty` is the legal name for a name without legal characters.
        """
        unique_names = list(dict.fromkeys(originals))
        self._legal: dict[str, str] = {}
        self._original: dict[str, str] = {}
        for name in unique_names:
            if pattern is None or pattern.fullmatch(name):
                self._add(name, name)
        plain_names = {
            name: _plain_name(name, pattern, empty) for name in unique_names if name not in self._legal
        }
        plain_counts = Counter(plain_names.values())
        for name, plain in plain_names.items():
            is_shared = plain in self._original or plain_counts[plain] > 1
            needs_hash = is_shared or len(plain) > max_length
            self._add(name, _name_with_hash(plain, name, max_length) if needs_hash else plain)

    def legal(self, original: str) -> str:
        """Return the name for the API. Raises: KeyError for an unknown name."""
        return self._legal[original]

    def original(self, legal: str) -> str:
        """Return the name for the server. Raises: KeyError for an unknown name."""
        return self._original[legal]

    @property
    def changed(self) -> dict[str, str]:
        """Changed names, by original."""
        return {original: legal for original, legal in self._legal.items() if original != legal}

    def _add(self, original: str, legal: str) -> None:
        self._legal[original] = legal
        self._original[legal] = original


def _plain_name(name: str, pattern: re.Pattern[str] | None, empty: str) -> str:
    """Return the name in legal characters. Accents are removed; other illegal characters become `_`."""
    without_accents = "".join(
        char for char in unicodedata.normalize("NFKD", name) if not unicodedata.combining(char)
    )
    legal_name = "".join(
        char if pattern is None or pattern.fullmatch(char) else "_" for char in without_accents
    )
    return re.sub(r"_{2,}", "_", legal_name).strip("_") or empty


def _name_with_hash(plain: str, name: str, max_length: int) -> str:
    """Return the shortened name with a hash of the original name, which is the same on every run."""
    digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=_DIGEST_LENGTH // 2).hexdigest()
    return f"{plain[: max_length - _DIGEST_LENGTH - 1]}_{digest}"
