"""Whether a JSON Schema is small and closed enough to be compiled. Looks at the schema only, never at values.

The validator has no budget of its own: a schema that doubles its work at every level, or refers to itself
without going deeper into the value, would hold the interpreter or crash it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from mcpdesk.errors import DeskError

MAX_NODES = 4_000
MAX_DEPTH = 48
MAX_EVALUATIONS = 512
"""How often one place of a value may be looked at."""
MAX_CHAIN = 128
"""How many schemas may apply to one place by way of each other."""

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
SAME_PLACE = ("not", "if", "then", "else")
SAME_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
SAME_PLACE_MAPS = ("dependentSchemas", "dependencies")
DEEPER = ("additionalProperties", "propertyNames", "unevaluatedProperties", "items", "additionalItems",
          "contains", "unevaluatedItems", "contentSchema")  # fmt: skip
DEEPER_LISTS = ("prefixItems", "items")
DEEPER_MAPS = ("properties", "patternProperties", "$defs", "definitions")


class SchemaError(DeskError):
    """A schema cannot be used; the message says why."""


def check_bounds(schema: dict[str, Any]) -> None:
    """Refuse a schema that could cost too much.

    Raises: SchemaError for references out of the document, references to nothing, endless references, and
    more nodes, depth or evaluations of one place than allowed.
    """
    _check_size(schema)
    document = _Document(schema)
    seen: set[int] = set()
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        document.evaluations(node)
        waiting.extend(document.same_place(node))
        waiting.extend(_deeper(node))


class _Document:
    """One schema document: its anchors, and what its parts cost."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._anchors = dict(_anchors(root))
        self._costs: dict[int, int] = {}

    def evaluations(self, node: Any, chain: tuple[int, ...] = ()) -> int:
        """How many schemas are applied to the place this one is applied to."""
        if not isinstance(node, dict):
            return 1
        key = id(node)
        if key in self._costs:
            return self._costs[key]
        if key in chain:
            raise SchemaError("the schema refers to itself without going deeper into the value")
        if len(chain) >= MAX_CHAIN:
            raise SchemaError(f"more than {MAX_CHAIN} schemas apply to one place by way of each other")
        total = 1
        for part in self.same_place(node):
            total += self.evaluations(part, (*chain, key))
        if total > MAX_EVALUATIONS:
            raise SchemaError(f"one place of a value would be checked more than {MAX_EVALUATIONS} times")
        self._costs[key] = total
        return total

    def same_place(self, node: dict[str, Any]) -> Iterator[Any]:
        """The schemas that apply to the same place as `node`."""
        for word in REFERENCES:
            if isinstance(node.get(word), str):
                yield self._target(node[word])
        yield from _parts(node, SAME_PLACE, SAME_PLACE_LISTS, SAME_PLACE_MAPS)

    def _target(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise SchemaError(
                f"$ref {reference!r} leaves the schema; only references that start with # are allowed"
            )
        fragment = unquote(reference[1:])
        if fragment and not fragment.startswith("/"):
            if fragment not in self._anchors:
                raise SchemaError(f"$ref {reference!r} points to nothing")
            return self._anchors[fragment]
        node: Any = self._root
        for part in fragment.split("/")[1:]:
            node = _step(node, part.replace("~1", "/").replace("~0", "~"), reference)
        return node


def _step(node: Any, part: str, reference: str) -> Any:
    if isinstance(node, dict) and part in node:
        return node[part]
    if isinstance(node, list) and part.isdecimal() and int(part) < len(node):
        return node[int(part)]
    raise SchemaError(f"$ref {reference!r} points to nothing")


def _check_size(schema: dict[str, Any]) -> None:
    """Count containers level by level; also ends on a structure that contains itself."""
    level: list[Any] = [schema]
    nodes = depth = 0
    while level:
        depth += 1
        nodes += len(level)
        if depth > MAX_DEPTH:
            raise SchemaError(f"the schema is nested more than {MAX_DEPTH} levels deep")
        if nodes > MAX_NODES:
            raise SchemaError(f"the schema has more than {MAX_NODES} objects and lists")
        level = [child for node in level for child in _values(node) if isinstance(child, dict | list)]


def _values(node: Any) -> Iterator[Any]:
    return iter(node.values() if isinstance(node, dict) else node)


def _anchors(root: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    waiting: list[Any] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield from _own_anchors(node, node is root)
        waiting.extend(child for child in _values(node) if isinstance(child, dict | list))


def _own_anchors(node: dict[str, Any], is_root: bool) -> Iterator[tuple[str, Any]]:
    for word in ("$anchor", "$dynamicAnchor"):
        if isinstance(node.get(word), str):
            yield node[word], node
    identity = node.get("$id")
    if isinstance(identity, str) and identity.startswith("#"):
        yield identity[1:], node
    elif isinstance(identity, str) and not is_root:
        raise SchemaError(f"$id {identity!r} lies inside the schema; only the whole schema may have one")


def _deeper(node: dict[str, Any]) -> Iterator[Any]:
    return _parts(node, DEEPER, DEEPER_LISTS, DEEPER_MAPS)


def _parts(
    node: dict[str, Any], singles: tuple[str, ...], lists: tuple[str, ...], maps: tuple[str, ...]
) -> Iterator[Any]:
    for word in singles:
        if isinstance(node.get(word), dict):
            yield node[word]
    for word in lists:
        if isinstance(node.get(word), list):
            yield from node[word]
    for word in maps:
        if isinstance(node.get(word), dict):
            yield from node[word].values()
