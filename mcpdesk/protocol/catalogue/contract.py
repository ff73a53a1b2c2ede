"""Comparison of two versions of a server's definitions. It decides which changes may break clients."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeGuard

from msgspec import Struct

Definitions = Mapping[tuple[str, str], Mapping[str, Any]]
"""JSON object of each item, by kind and name such as `("tool", "echo")`."""
_IGNORED_MEMBERS = frozenset({"_meta", "icons", "resources"})
"""Members of a definition that are not part of the contract, such as the digests of a skill's files."""
MAX_DEPTH = 12
"""Maximum number of schema levels that are compared."""
_LOWER_LIMITS = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER_LIMITS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_TEXT_KEYWORDS = ("title", "description", "examples", "$comment", "icons", "annotations", "_meta")
"""Members that only people and models read. Calls do not depend on these members."""
ANY_OF = "anyOf"
_COMPARED_KEYWORDS = frozenset(
    {
        *("type", "enum", "properties", "required", "items", "additionalProperties", "default"),
        *("$ref", "$defs", "definitions", "$schema"),
        *_LOWER_LIMITS,
        *_UPPER_LIMITS,
        *_TEXT_KEYWORDS,
    }
)


class ContractVerdict(StrEnum):
    """Effect of a change on a client that knows the earlier definitions, the most severe first."""

    BREAKING = "breaking"
    """The client may fail."""
    COMPATIBLE = "compatible"
    """The client continues to work."""
    WORDING = "wording"
    """Only texts for people and models have changed."""


class ContractChange(Struct, frozen=True):
    """One difference between two versions of the definitions."""

    kind: str
    name: str
    description: str
    """Description of the difference, as a clause after the name of the item: `"id" is required now`."""
    verdict: ContractVerdict
    was: str = ""
    """Earlier text if a description has changed. Otherwise empty."""
    now: str = ""
    """New text if a description has changed. Otherwise empty."""

    @property
    def is_breaking(self) -> bool:
        """True if a client that knows the earlier definitions may fail."""
        return self.verdict is ContractVerdict.BREAKING

    def __str__(self) -> str:
        return f"{self.name}: {self.description}"


def contract_part(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a definition that belongs to the contract."""
    return {key: value for key, value in definition.items() if key not in _IGNORED_MEMBERS}


def contract_changes(before: Definitions, after: Definitions) -> list[ContractChange]:
    """Return the differences between two versions of the definitions, the most severe first."""
    changes = [
        ContractChange(kind, name, description, verdict, *texts)
        for kind, name in dict.fromkeys([*before, *after])
        for description, verdict, *texts in dict.fromkeys(
            _item_differences(kind, before.get((kind, name)), after.get((kind, name)))
        )
    ]
    return sorted(changes, key=lambda change: list(ContractVerdict).index(change.verdict))


Differences = Iterator[tuple[str, ContractVerdict] | tuple[str, ContractVerdict, str, str]]
"""Description and verdict of each difference. For a changed text, also the earlier and the new text."""


def _item_differences(kind: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> Differences:
    """Yield the differences between two versions of one item. None stands for a missing version."""
    if old is None:
        yield "is new", ContractVerdict.COMPATIBLE
        return
    if new is None:
        yield "was removed", ContractVerdict.BREAKING
        return
    for member in ("title", "description"):
        if old.get(member) != new.get(member):
            yield f"the {member} changed", ContractVerdict.WORDING, *_texts(old, new, member)
    yield from _annotations(_mapping(old.get("annotations")), _mapping(new.get("annotations")))
    if old.get("mimeType") != new.get("mimeType"):
        new_type, old_type = new.get("mimeType", "missing"), old.get("mimeType", "missing")
        yield f"its media type is {new_type} now, was {old_type}", ContractVerdict.BREAKING
    if kind == "prompt":
        yield from _Comparison(_prompt_schema(old), _prompt_schema(new)).run()
    if kind == "tool":
        yield from _Comparison(old.get("inputSchema") or {}, new.get("inputSchema") or {}).run()
        yield from _result_differences(old.get("outputSchema"), new.get("outputSchema"))
        was, now = ((one.get("execution") or {}).get("taskSupport") for one in (old, new))
        if was != now:
            is_breaking = "required" in (was, now)
            yield f"a call {_TASK_PHRASES.get(str(now), 'cannot be a task')} now", _verdict(is_breaking)


def _texts(old: Mapping[str, Any], new: Mapping[str, Any], member: str) -> tuple[str, str]:
    """Return the earlier and the new text of a member. Both are empty if the text has not changed."""
    was, now = (str(one.get(member) or "") for one in (old, new))
    return ("", "") if was == now else (was, now)


def _annotations(old: Mapping[str, Any], new: Mapping[str, Any]) -> Differences:
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            change = f"{name} is {json.dumps(new[name])} now" if name in new else f"{name} was removed"
            yield change, ContractVerdict.WORDING if name == "title" else ContractVerdict.COMPATIBLE


_TASK_PHRASES = {"optional": "may be a task", "required": "must be a task"}


def _result_differences(old: Any, new: Any) -> Differences:
    if old and new:
        yield from _Comparison(old, new, is_result=True).run()
    elif old or new:
        change = "its result has a schema now" if new else "its result no longer has a schema"
        yield change, _verdict(not new)


def _verdict(is_breaking: bool) -> ContractVerdict:
    return ContractVerdict.BREAKING if is_breaking else ContractVerdict.COMPATIBLE


def _prompt_schema(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a prompt as a schema."""
    arguments = [one for one in definition.get("arguments") or () if isinstance(one, dict) and "name" in one]
    return {
        "properties": {one["name"]: {"description": one.get("description", "")} for one in arguments},
        "required": [one["name"] for one in arguments if one.get("required")],
    }


class _Comparison:
    """Compares two versions of one schema. Inputs must not become narrower, results must not become wider."""

    def __init__(self, old: Mapping[str, Any], new: Mapping[str, Any], is_result: bool = False) -> None:
        self._old, self._new, self._is_result = old, new, is_result
        self._compared_references: set[tuple[Any, Any]] = set()
        """Pairs of references that were followed. Each pair of targets is compared once."""

    def run(self) -> Differences:
        """Yield all differences."""
        if self._old != self._new:
            yield from self._schema_differences(self._old, self._new, "", 0)

    def _schema_differences(self, old: Any, new: Any, path: str, depth: int) -> Differences:
        """Yield the differences between two schemas at a path, and between the schemas below them."""
        references = tuple(one.get("$ref") if isinstance(one, Mapping) else None for one in (old, new))
        if references in self._compared_references:
            return
        if references != (None, None):
            self._compared_references.add((references[0], references[1]))
        old, new = _resolved(self._old, old), _resolved(self._new, new)
        if not isinstance(old, Mapping) or not isinstance(new, Mapping) or depth > MAX_DEPTH:
            if old != new:
                yield f"{self._subject(path)} has a different schema", ContractVerdict.BREAKING
            return
        if any(old.get(keyword) != new.get(keyword) for keyword in _TEXT_KEYWORDS):
            change = f"{self._subject(path)} has a different description"
            yield change, ContractVerdict.WORDING, *_texts(old, new, "description")
        if ANY_OF in old or ANY_OF in new:
            was, now = _choices(self._old, old), _choices(self._new, new)
            all_old_remain = all(one in now for one in was)
            all_new_existed = all(one in was for one in now)
            if all_old_remain or all_new_existed:
                yield from self._choice_differences(was, now, path)
                old, new = _parts_besides_choices(old, new)
        yield from self._type_differences(old, new, path)
        yield from self._limit_differences(old, new, path)
        yield from self._member_differences(old, new, path, depth)
        if "items" in old or "items" in new:
            yield from self._schema_differences(
                old.get("items", {}), new.get("items", {}), f"{path}[]", depth + 1
            )

    def _choice_differences(self, was: list[Any], now: list[Any], path: str) -> Differences:
        """Yield a change for the added alternatives, and another one for the removed alternatives."""
        added = [one for one in now if one not in was]
        removed = [one for one in was if one not in now]
        if added:
            change = f"may also be {_type_names(added)} now"
            verdict = self._direction_verdict(is_narrower=False, is_wider=True)
            yield f"{self._subject(path)} {change}", verdict
        if removed:
            change = f"may no longer be {_type_names(removed)}"
            verdict = self._direction_verdict(is_narrower=True, is_wider=False)
            yield f"{self._subject(path)} {change}", verdict

    def _type_differences(self, old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Differences:
        """Yield the changes of types, enumerated values and defaults."""
        for keyword, verb in (("type", "is"), ("enum", "is one of")):
            was, now = _as_list(old.get(keyword)), _as_list(new.get(keyword))
            if was == now or (was and now and sorted(map(repr, was)) == sorted(map(repr, now))):
                continue
            is_wider = now is None or (was is not None and all(_includes(now, one) for one in was))
            is_narrower = was is None or (now is not None and all(_includes(was, one) for one in now))
            allowed = "anything" if now is None else " or ".join(map(str, now))
            yield (
                f"{self._subject(path)} {verb} {allowed} now",
                self._direction_verdict(is_narrower, is_wider),
            )
        if old.get("default") != new.get("default"):
            is_now = f"is {new['default']} by default now" if "default" in new else "has no default now"
            yield f"{self._subject(path)} {is_now}", ContractVerdict.COMPATIBLE

    def _limit_differences(self, old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Differences:
        """Yield the changes of limits, and of keywords that no other method compares."""
        for keyword in sorted(old.keys() | new.keys()):
            was, now = old.get(keyword), new.get(keyword)
            is_limit = keyword in _LOWER_LIMITS + _UPPER_LIMITS
            if was == now or (keyword in _COMPARED_KEYWORDS and not is_limit):
                continue
            if _is_number(was) and _is_number(now):
                is_narrower = now > was if keyword in _LOWER_LIMITS else now < was
                is_wider = is_limit and not is_narrower
            else:  # a new keyword makes the schema narrower, a removed one makes it wider
                is_narrower = was is None
                is_wider = now is None
            change = f"{keyword} is {now} now" if now is not None else f"{keyword} {was} was removed"
            if not _is_plain(was) or not _is_plain(now):
                change = f"{keyword} changed"
            yield f"{self._subject(path)}: {change}", self._direction_verdict(is_narrower, is_wider)

    def _member_differences(
        self, old: Mapping[str, Any], new: Mapping[str, Any], path: str, depth: int
    ) -> Differences:
        """Yield the changes of an object's members, and of the rule for other members."""
        old_members, new_members = (_mapping(one.get("properties")) for one in (old, new))
        old_required, new_required = (set(map(str, one.get("required") or ())) for one in (old, new))
        for name in dict.fromkeys([*old_members, *new_members]):
            member_path = f"{path}.{name}" if path else name
            if name not in new_members:
                yield f"{self._subject(member_path)} was removed", ContractVerdict.BREAKING
            elif name not in old_members:
                change = "is new and required" if name in new_required else "is new"
                is_breaking = name in new_required and not self._is_result
                yield f"{self._subject(member_path)} {change}", _verdict(is_breaking)
            else:
                yield from self._schema_differences(
                    old_members[name], new_members[name], member_path, depth + 1
                )
        for name in sorted((old_required ^ new_required) - (old_members.keys() ^ new_members.keys())):
            member_path = f"{path}.{name}" if path else name
            is_required = name in new_required
            change = "is required now" if is_required else "is optional now"
            yield (
                f"{self._subject(member_path)} {change}",
                self._direction_verdict(is_required, not is_required),
            )
        was, now = old.get("additionalProperties", True), new.get("additionalProperties", True)
        if was != now:
            change = "different other members"
            if now is False:
                change = "no other members"
            elif was is False:
                change = "any other members"
            yield f"{self._subject(path)}: {change} now", self._direction_verdict(now is False, was is False)

    def _direction_verdict(self, is_narrower: bool, is_wider: bool) -> ContractVerdict:
        """Return the verdict on a change of the allowed values.

        Inputs may only become wider, and results only narrower. A change that is both or neither, such as a
        different pattern, may break clients.
        """
        is_allowed = is_narrower if self._is_result else is_wider
        return _verdict(not is_allowed or is_narrower == is_wider)

    def _subject(self, path: str) -> str:
        if self._is_result:
            return f'"{path}" of the result' if path else "the result"
        return f'"{path}"' if path else "the arguments"


def _resolved(root: Mapping[str, Any], schema: Any) -> Any:
    """Return a schema, or the target of its `$ref` within the root."""
    reference = schema.get("$ref") if isinstance(schema, Mapping) else None
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return schema
    value: Any = root
    for key in reference[2:].split("/"):
        value = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping):
        return schema
    return {**value, **_without(schema, ("$ref",))}


def _choices(root: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Any]:
    """Return the alternatives of a schema without descriptions. A schema without `anyOf` is one alternative.

    An alternative with several types is split by type.
    """
    alternatives = schema.get(ANY_OF)
    schemas = [_resolved(root, one) for one in alternatives] if isinstance(alternatives, list) else [schema]
    undescribed = [_without(one, (*_TEXT_KEYWORDS, "default")) for one in schemas if isinstance(one, Mapping)]
    return [one | {"type": kind} if "type" in one else one for one in undescribed for kind in _kinds(one)]


def _kinds(schema: Mapping[str, Any]) -> list[Any]:
    return _as_list(schema.get("type")) or [None]


def _parts_besides_choices(
    old: Mapping[str, Any], new: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the parts of two schemas that must be compared in addition to their alternatives.

    If only one of the schemas has `anyOf`, these parts are the defaults, because the other schema was
    compared as one alternative.
    """
    if ANY_OF in old and ANY_OF in new:
        return _without(old, (ANY_OF,)), _without(new, (ANY_OF,))
    return _only_keywords(old, ("default",)), _only_keywords(new, ("default",))


def _without(schema: Mapping[str, Any], keywords: Container[str]) -> dict[str, Any]:
    return {key: each for key, each in schema.items() if key not in keywords}


def _only_keywords(schema: Mapping[str, Any], keywords: Container[str]) -> dict[str, Any]:
    return {key: each for key, each in schema.items() if key in keywords}


def _as_list(value: Any) -> list[Any] | None:
    if value is None or isinstance(value, list):
        return value
    return [value]


def _includes(options: list[Any], value: Any) -> bool:
    """Return True if a type or value is among the options. `integer` is included in `number`."""
    return value in options or (value == "integer" and "number" in options)


def _type_names(schemas: list[Any]) -> str:
    """Return the types of schemas in words: `string or null`."""
    return " or ".join(dict.fromkeys(str(one.get("type", "something else")) for one in schemas))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)
