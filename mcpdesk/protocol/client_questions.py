"""Questions of a server to its client: terms of a request, form schemas per revision, and checks of answers.

Source: MCP basic/versioning, basic/patterns/mrtr, client/sampling, client/elicitation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import msgspec
from msgspec import Struct

from mcpdesk.late_pattern import LatePattern
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.revisions import Revision


class Terms(Struct, frozen=True):
    """Revision, capabilities and identity that apply to one stateless request or one session."""

    revision: Revision
    capabilities: dict[str, Any] = msgspec.field(default_factory=dict)
    client: str = ""
    """Self-reported name and version, for display only: `claude-code 2.1`."""
    log_level: int | None = None
    """Index into `LOG_LEVELS` of the lowest requested level, or None for no log messages."""
    unknown_level: Any = None
    """Invalid log level of the request, or None. The request is rejected after its method was checked."""


def display_name(implementation: object) -> str:
    """Return `name version` of a self-reported Implementation, or an empty string."""
    if not isinstance(implementation, dict):
        return ""
    parts = (implementation.get("title") or implementation.get("name"), implementation.get("version"))
    return " ".join([part for part in parts if isinstance(part, str) and part])[:80]


FORM: JSONObject = {"elicitation": {"form": {}}}
URL: JSONObject = {"elicitation": {"url": {}}}
SAMPLING: JSONObject = {"sampling": {}}
SAMPLING_TOOLS: JSONObject = {"sampling": {"tools": {}}}
SAMPLING_CONTEXT: JSONObject = {"sampling": {"context": {}}}
ROOTS: JSONObject = {"roots": {}}
"""`FORM` to `ROOTS` are the capabilities that questions need, in the form of `requiredCapabilities`."""

TASKS = "io.modelcontextprotocol/tasks"
"""Name of the tasks extension of 2026-07-28."""
ASKABLE = frozenset({"elicitation", "sampling", "roots"})
_MODES = frozenset({"form", "url"})
_NO_BACK_CHANNEL = LatePattern(
    r"back-?channel|server-initiated requests?.{0,80}(?:unavailable|not supported|not available)"
    r"|unavailable on 20\d\d-\d\d-\d\d connections",
    re.I | re.S,
)


def wants_older_revision(text: str) -> bool:
    """Return True if a message says that the server cannot ask its client questions in this revision."""
    return _NO_BACK_CHANNEL.regex.search(text[:4_000]) is not None


def can_be_asked(terms: Terms) -> bool:
    """Return True if the client declared a capability that a handler could use for questions."""
    return not ASKABLE.isdisjoint(terms.capabilities)


def declares_tasks(terms: Terms) -> bool:
    """Return True if the request declares the tasks extension."""
    extensions = terms.capabilities.get("extensions")
    return isinstance(extensions, dict) and isinstance(extensions.get(TASKS), dict)


def declares(terms: Terms, needed: JSONObject) -> bool:
    """Return True if the client declared the capability `needed`, and the revision supports it."""
    return all(_declares_capability(terms, name, frozenset(parts)) for name, parts in needed.items())


def _declares_capability(terms: Terms, name: str, parts: frozenset[str]) -> bool:
    """Return True if the client declared these parts of a capability, and the revision has them."""
    declared = terms.capabilities.get(name)
    if not isinstance(declared, dict):
        return False
    declared_parts = frozenset(declared)
    if name == "elicitation":
        if not terms.revision.has_elicitation:
            return False
        # An empty `elicitation` means forms. In revisions without modes, its members have no meaning.
        declared_parts = declared_parts & _MODES if terms.revision.has_elicitation_modes else frozenset()
        return parts <= (declared_parts or frozenset({"form"}))
    if name == "sampling" and parts and not terms.revision.has_sampling_tools:
        # In these revisions, `context` may be requested, although no capability for it exists.
        return "tools" not in parts
    return parts <= declared_parts


_NAMING_KEYWORDS = frozenset({"type", "title", "description", "default"})
_SUPPORTED_KEYWORDS: dict[str, frozenset[str]] = {
    "string": _NAMING_KEYWORDS | {"minLength", "maxLength", "format", "enum", "enumNames", "oneOf"},
    "number": _NAMING_KEYWORDS | {"minimum", "maximum"},
    "integer": _NAMING_KEYWORDS | {"minimum", "maximum"},
    "boolean": _NAMING_KEYWORDS,
    "array": _NAMING_KEYWORDS | {"minItems", "maxItems", "items"},
}
"""Schema keywords that clients support, by type of a field. Other keywords are removed."""
_CONSTRAINT_SENTENCES: dict[str, Callable[[Any], str]] = {
    "pattern": lambda pattern: f"Must match the pattern {pattern}.",
    "exclusiveMinimum": lambda bound: f"Must be more than {bound}.",
    "exclusiveMaximum": lambda bound: f"Must be less than {bound}.",
    "multipleOf": lambda step: f"Must be a multiple of {step}.",
    "uniqueItems": lambda _: "Must have no item twice.",
}
"""Functions that return a sentence for the description of a field, by keyword that forms do not support."""
_NUMERIC = frozenset({"exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_UNSUPPORTED_CONSTRAINTS: dict[str, tuple[frozenset[str], Callable[[Any], bool]]] = {
    "string": (frozenset({"pattern"}), lambda value: isinstance(value, str)),
    "number": (_NUMERIC, lambda value: _is_number(value)),
    "integer": (frozenset({"multipleOf"}), lambda value: _is_number(value)),
    "array": (frozenset({"uniqueItems"}), lambda value: value is True),
}
"""Constraints that forms cannot express, by type of a field: keywords, and a check of a keyword's value."""
_INCLUSIVE_BOUNDS: dict[str, tuple[str, Callable[[float], int], Callable[[list[float]], float]]] = {
    "exclusiveMinimum": ("minimum", lambda bound: math.floor(bound) + 1, max),
    "exclusiveMaximum": ("maximum", lambda bound: math.ceil(bound) - 1, min),
}
"""For each exclusive bound of an integer: the inclusive keyword that replaces it, the function that converts
the bound, and the function that returns the stricter of several bounds."""
_FORMATS = frozenset({"email", "uri", "date", "date-time"})
_WORD_START = re.compile(r"(?<=[a-z])([A-Z])")
_SECRET = LatePattern(
    r"\b(pass ?words?|passwd|pass ?phrases?|credentials?|api ?keys?|(private|secret|access|signing) keys?"
    r"|(access|auth|bearer|refresh|session) tokens?|card number|cvv|cvc)\b|\bsecret$"
)


def flat_schema(schema: Mapping[str, Any], revision: Revision) -> JSONObject:
    """Return the schema of a form as a revision expresses it.

    References into `$defs` are replaced. Constraints that forms cannot express are added as text to the
    descriptions of the fields; `strict_schema` returns them as keywords. Raises: ValueError with the name of
    a field that is not a primitive, asks for a secret, or cannot be expressed in the revision.
    """
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, Mapping):
        raise ValueError('the schema of a form is {"type": "object", "properties": {...}}')
    definitions = schema.get("$defs") or {}
    fields = {name: _field(name, each, definitions, revision) for name, each in properties.items()}
    flat: JSONObject = {"type": "object", "properties": fields}
    required = [name for name in schema.get("required") or () if name in fields]
    return flat | {"required": required} if required else flat


def strict_schema(flat: JSONObject, schema: Mapping[str, Any]) -> JSONObject:
    """Return the form schema `flat` with more constraints: those of `schema` that forms cannot express."""
    definitions = schema.get("$defs") or {}
    source_fields = schema["properties"]
    fields = {
        name: field | _unsupported_constraints(_resolved(source_fields[name], definitions))
        for name, field in flat["properties"].items()
    }
    return flat | {"properties": fields}


def _resolved(field: Any, definitions: Mapping[str, Any]) -> JSONObject:
    return _normalized_field(
        _field_definition(_without_null(_field_definition(field, definitions)), definitions)
    )


def _unsupported_constraints(field: JSONObject) -> JSONObject:
    """Return the constraints of a field that forms cannot express."""
    if field["type"] not in _UNSUPPORTED_CONSTRAINTS:
        return {}
    keywords, is_valid = _UNSUPPORTED_CONSTRAINTS[field["type"]]
    return {keyword: value for keyword, value in field.items() if keyword in keywords and is_valid(value)}


def _with_constraint_text(field: JSONObject, constraints: JSONObject) -> JSONObject:
    """Return a field whose description ends with the constraints that forms cannot express."""
    sentences = [_CONSTRAINT_SENTENCES[keyword](value) for keyword, value in constraints.items()]
    if not sentences:
        return field
    text = str(field.get("description") or "").rstrip()
    if text and text[-1] not in ".!?:;)":
        text += "."
    return field | {"description": " ".join([text, *sentences] if text else sentences)}


def _field(name: str, definition: Any, definitions: Mapping[str, Any], revision: Revision) -> JSONObject:
    """Return a field of a form as a revision expresses it. Raises: ValueError with its name."""
    field = _resolved(definition, definitions)
    field_type = field.get("type")
    if field_type == "array":
        field["items"] = _items(name, _field_definition(field.get("items"), definitions))
    if not isinstance(field_type, str) or field_type not in _SUPPORTED_KEYWORDS:
        raise ValueError(
            f"{name}: a form holds texts, numbers, booleans and choices among texts, nothing nested"
        )
    if field_type == "string" and (_is_secret(name) or _is_secret(field.get("title"))):
        raise ValueError(f"{name}: a form must not ask for secrets; open a page for it with ctx.elicit_url")
    result = {key: value for key, value in field.items() if key in _SUPPORTED_KEYWORDS[field_type]}
    if result.get("format") not in _FORMATS:
        result.pop("format", None)
    if result.get("default", ...) is None:
        del result["default"]
    result = _with_constraint_text(result, _unsupported_constraints(field))
    return result if revision.has_elicitation_modes else _without_modes(name, result, revision)


def _is_secret(label: object) -> bool:
    """Return True if a name or title denotes a password, a key or a card."""
    if not isinstance(label, str):
        return False
    words = _WORD_START.sub(r" \1", label).replace("_", " ").replace("-", " ").lower()
    return _SECRET.regex.search(words) is not None


def _field_definition(field: Any, definitions: Mapping[str, Any]) -> JSONObject:
    """Return a field with its reference replaced by the definition."""
    if not isinstance(field, Mapping):
        return {}
    reference = field.get("$ref")
    if not isinstance(reference, str):
        return dict(field)
    target = definitions.get(reference.removeprefix("#/$defs/"))
    own_members = {key: value for key, value in field.items() if key != "$ref"}
    return {**target, **own_members} if isinstance(target, Mapping) else own_members


def _without_null(field: JSONObject) -> JSONObject:
    """Return a nullable field as an optional field."""
    choices = field.get("anyOf")
    if not isinstance(choices, list):
        return field
    non_null = [each for each in choices if each != {"type": "null"}]
    other_rules = {key: value for key, value in field.items() if key != "anyOf"}
    return {**non_null[0], **other_rules} if len(non_null) == 1 else field


def _normalized_field(field: JSONObject) -> JSONObject:
    """Return a field with two changes.

    An enum of texts gets the type `string`. Exclusive bounds of an integer become inclusive.
    """
    if "const" in field:
        field = {**field, "enum": [field["const"]]}
    if field.get("type") == "integer":
        for exclusive_keyword, (keyword, round_bound, stricter_of) in _INCLUSIVE_BOUNDS.items():
            if _is_number(field.get(exclusive_keyword)):
                limits = [
                    round_bound(field[exclusive_keyword]),
                    *([field[keyword]] if _is_number(field.get(keyword)) else []),
                ]
                field = {**field, keyword: stricter_of(limits)}
    texts = field.get("enum")
    if "type" not in field and isinstance(texts, list) and all(isinstance(each, str) for each in texts):
        return {"type": "string"} | field
    return field


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _items(name: str, items: JSONObject) -> JSONObject:
    if "anyOf" in items:
        return {"anyOf": items["anyOf"]}
    if isinstance(items.get("enum"), list):
        return {"type": "string", "enum": items["enum"]}
    raise ValueError(f"{name}: a list in a form is a choice among given texts")


def _without_modes(name: str, field: JSONObject, revision: Revision) -> JSONObject:
    """Return the field as the first revision with forms expresses it."""
    if field["type"] == "array":
        raise ValueError(f"{name}: revision {revision} does not support multiple choice")
    if field["type"] != "boolean":
        field.pop("default", None)
    titled_choices = field.pop("oneOf", None)
    if titled_choices is not None:
        field["enum"] = [each["const"] for each in titled_choices]
        field["enumNames"] = [each.get("title", each["const"]) for each in titled_choices]
    return field


ACTIONS = ("accept", "decline", "cancel")


def read_answer(result: Any, find_fault: Callable[[Any], str] | None, fields: frozenset[str]) -> Any:
    """Return the action and the content of a client's answer. Fields that were not requested are omitted.

    `find_fault` is a function that returns the reason why the content does not match the schema, or an empty
    string. `find_fault` is None if no content is expected. Raises: ValueError for an invalid answer.
    """
    if not isinstance(result, dict) or result.get("action") not in ACTIONS:
        raise ValueError(f"an answer needs an action: {', '.join(ACTIONS)}")
    if result["action"] != "accept" or find_fault is None:
        return result["action"], None
    content = result.get("content", {})
    if not isinstance(content, dict):
        raise ValueError("the content of an answer is an object")
    values = {name: value for name, value in content.items() if name in fields}
    if fault := find_fault(values):
        raise ValueError(f"the content does not fit the schema that was sent: {fault}")
    return result["action"], values


def check_turns(messages: Sequence[JSONObject]) -> None:
    """Check that after each message with tool uses, the next message contains their results and nothing else.

    Raises: ValueError with the number of the message, counted from 1.
    """
    awaited_ids: frozenset[object] = frozenset()
    for number, message in enumerate(messages, 1):
        blocks = blocks_of(message)
        results = _ids(blocks, "tool_result", "toolUseId")
        if results and (message.get("role") != "user" or len(results) != len(blocks)):
            raise ValueError(f"message {number}: tool results must be in a separate message of the user")
        if frozenset(results) != awaited_ids:
            raise ValueError(f"message {number}: {_result_mismatch(awaited_ids, results)}")
        uses = _ids(blocks, "tool_use", "id")
        if uses and message.get("role") != "assistant":
            raise ValueError(f"message {number}: only the assistant uses tools")
        awaited_ids = frozenset(uses)
    if awaited_ids:
        raise ValueError(f"message {len(messages)}: no message with the results of its tool uses follows")


def blocks_of(message: JSONObject) -> list[JSONObject]:
    """Return the content blocks of a message, which may contain one block or a list."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    return [block for block in blocks if isinstance(block, dict)]


def _ids(blocks: Iterable[JSONObject], kind: str, key: str) -> list[object]:
    return [block.get(key) for block in blocks if block.get("type") == kind]


def _result_mismatch(awaited_ids: frozenset[object], results: Iterable[object]) -> str:
    missing = sorted(str(each)[:40] for each in awaited_ids.difference(results))
    if missing:
        return f"it must contain the results of the tool uses {', '.join(missing)}"
    unknown_ids = sorted(str(each)[:40] for each in frozenset(results) - awaited_ids)
    return f"no earlier tool use has the id {', '.join(unknown_ids)}"
