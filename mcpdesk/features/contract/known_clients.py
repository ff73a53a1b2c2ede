"""Known behaviour of MCP clients that affects the tools, resources and prompts of a server.

The file `known_clients.json` next to this module has one claim per behaviour: the client, how to detect the
case, the source, and the date. Clients change, so a claim is true only for its date.
"""

from __future__ import annotations

import ast
import datetime
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from mcpdesk.features.contract.lint import MAX_NAMED_PARAMETERS
from mcpdesk.hosting.folder.findings import Finding, Level
from mcpdesk.paths import PACKAGE

CLAIMS = PACKAGE / "features" / "contract" / "known_clients.json"
FEATURES = {"elicit": "elicitation", "elicit_url": "elicitation", "sample": "sampling", "list_roots": "roots"}
"""Client features that methods of a tool's context require, by name of the method."""
MAX_FILE_BYTES = 1 << 20
"""Maximum size in bytes of a Python file that is searched for uses of client features."""
MAX_DEPTH = 12
"""Maximum depth of the search in schemas."""
STALE_DAYS = 90
"""Age of a claim in days, above which reports mark it."""
LIMITS = {
    "called": "{:,} characters",
    "description": "{:,} characters",
    "instructions": "{:,} characters",
    "tool_count": "{:,} tools",
    "result_size": "{:,} characters of a result",
}
"""Text of the limit of a claim, by check."""


class Rule(Struct, frozen=True):
    """Parameters of a check. Each check uses only some of these fields."""

    most: int = 0
    """Maximum length in characters, or maximum number of tools."""
    form: str = ""
    """Pattern of the name that the client gives to a tool, with `{server}` and `{tool}`."""
    pattern: str = ""
    """Pattern that a name must match."""
    words: tuple[str, ...] = ()
    """Keywords that an input schema must not have at the top."""
    hint: str = ""
    """Member that the `annotations` or the `_meta` of a tool must have."""
    features: tuple[str, ...] = ()
    """Features that the client lacks."""


class Claim(Struct, frozen=True, forbid_unknown_fields=True):
    """Known behaviour of one client in one case."""

    client: str
    check: str
    """Key of the function in `CHECKS` that detects the case."""
    level: Level
    effect: str
    """Behaviour of the client, as a clause after the client's name and a colon.

    It may contain `{feature}`.
    """
    source: str
    """URL of the source."""
    date: str
    """Date such as `2026-11-26`, on which the source was published or read."""
    version: str = ""
    """Version of the client or model, if the source names it."""
    rule: Rule = Rule()

    @property
    def id(self) -> str:
        """Identifier of client and check, in the form of a SARIF rule id."""
        return f"{self.client.lower().replace(' ', '-')}/{self.check}"

    @property
    def limit(self) -> str:
        """Limit that the item exceeds, such as `64 characters`. Empty if the claim has none."""
        return LIMITS[self.check].format(self.rule.most) if self.check in LIMITS else ""

    def is_stale(self, today: datetime.date) -> bool:
        """Return True if the claim is older than `STALE_DAYS`."""
        return (today - datetime.date.fromisoformat(self.date)).days > STALE_DAYS


class OfferedItem(NamedTuple):
    """A tool, resource, template or prompt."""

    kind: str
    name: str
    definition: Mapping[str, Any]
    """Definition as a client receives it."""
    location: str = ""


class Offering(Struct, frozen=True):
    """All items that a server offers, and the client features that its code uses."""

    server: str
    instructions: str
    items: tuple[OfferedItem, ...]
    used_features: Mapping[str, str] = {}
    """File and line that uses each client feature (`elicitation`, `sampling` or `roots`)."""

    def of(self, *kinds: str) -> list[OfferedItem]:
        """Return the items of these kinds."""
        return [item for item in self.items if item.kind in kinds]


class Fact(NamedTuple):
    """Case that a claim applies to: a property of an item or of the server."""

    text: str
    item: OfferedItem | None = None
    """Item with the property, or None if it is a property of the server."""
    feature: str = ""
    """Client feature that the server uses, for the check `lacks`."""


class ClientFinding(NamedTuple):
    """Claim that applies to the server or to one of its items."""

    claim: Claim
    fact: Fact

    @property
    def effect(self) -> str:
        """Behaviour of the client, with the name of the feature and the limit inserted."""
        effect = self.claim.effect.format(feature=self.fact.feature)
        return f"{effect} (limit: {self.claim.limit})" if self.claim.limit else effect

    def finding(self) -> Finding:
        """Return the claim as a general finding."""
        item = self.fact.item
        message = f"{self.fact.text}; {self.claim.client}: {self.effect}"
        subject = f"{item.kind} {item.name}" if item else ""
        return Finding(self.claim.level, message, item.location if item else "", subject)


@cache
def claims() -> tuple[Claim, ...]:
    """Return all claims, ordered by client."""
    return msgspec.json.decode(CLAIMS.read_bytes(), type=tuple[Claim, ...])


def client_findings(offering: Offering, clients: Sequence[str] = ()) -> list[ClientFinding]:
    """Return the claims that apply to the offered items, most severe first.

    `clients` limits the result to these clients. If it is empty, all clients are checked.
    """
    findings = [
        ClientFinding(claim, fact)
        for claim in claims()
        if not clients or claim.client in clients
        for fact in CHECKS[claim.check](claim.rule, offering)
    ]
    return sorted(findings, key=lambda each: list(Level).index(each.claim.level))


def client_features(folder: Path) -> dict[str, str]:
    """Return the client features that a folder's code uses, each with its first use, such as
    `tools/a.py:3`.
    """
    first_uses = dict[str, str]()
    for path in sorted(folder.rglob("*.py")):
        relative = path.relative_to(folder)
        if (
            any(part.startswith((".", "_")) for part in relative.parts[:-1])
            or path.stat().st_size > MAX_FILE_BYTES
        ):
            continue
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, RecursionError):
            continue  # the loader reports the error
        for feature, line in _used_features(tree):
            first_uses.setdefault(feature, f"{relative.as_posix()}:{line}")
    return first_uses


def _used_features(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the client feature and the line of each call of a method in `FEATURES`.

    A call counts if its object is a parameter of the function, because a context is passed as a parameter.
    """
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        argument_names = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}
        for node in ast.walk(function):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
                    if name in argument_names and method in FEATURES:
                        yield FEATURES[method], node.lineno


def _full_tool_name(rule: Rule, offering: Offering) -> Iterator[Fact]:
    for tool in offering.of("tool"):
        full_name = rule.form.format(server=offering.server, tool=tool.name)
        if len(full_name) > rule.most:
            subject = f"with its server it is {full_name}," if full_name != tool.name else "its name has"
            yield Fact(f"{subject} {len(full_name)} characters", tool)


def _tool_name(rule: Rule, offering: Offering) -> Iterator[Fact]:
    for tool in offering.of("tool"):
        if not re.fullmatch(rule.pattern, tool.name, re.DOTALL):
            yield Fact(f"its name of {len(tool.name)} characters does not match {rule.pattern}", tool)


def _description(rule: Rule, offering: Offering) -> Iterator[Fact]:
    for tool in offering.of("tool"):
        length = len(str(tool.definition.get("description") or ""))
        if length > rule.most:
            yield Fact(f"its description has {length:,} characters", tool)


def _instructions(rule: Rule, offering: Offering) -> Iterator[Fact]:
    if len(offering.instructions) > rule.most:
        yield Fact(f"the instructions have {len(offering.instructions):,} characters")


def _tool_count(rule: Rule, offering: Offering) -> Iterator[Fact]:
    if (count := len(offering.of("tool"))) > rule.most:
        yield Fact(f"{count} tools")


def _result_size(rule: Rule, offering: Offering) -> Iterator[Fact]:
    names = [
        tool.name for tool in offering.of("tool") if rule.hint not in (tool.definition.get("_meta") or {})
    ]
    yield from _combined_fact(f"tools without {rule.hint} in _meta", names)


def _root_keyword(rule: Rule, offering: Offering) -> Iterator[Fact]:
    for tool in offering.of("tool"):
        if keywords := [word for word in rule.words if word in _input_schema(tool)]:
            yield Fact(f"its input schema has {', '.join(keywords)} at the top", tool)


def _parameter_name(rule: Rule, offering: Offering) -> Iterator[Fact]:
    for tool in offering.of("tool"):
        properties = _input_schema(tool).get("properties")
        names = properties if isinstance(properties, Mapping) else ()
        if bad_names := [str(name) for name in names if not re.fullmatch(rule.pattern, str(name))]:
            yield Fact(f"parameters called {_joined(map(repr, bad_names))}", tool)


def _array_items(rule: Rule, offering: Offering) -> Iterator[Fact]:
    for tool in offering.of("tool"):
        bad_paths = [
            path
            for path, part in _subschemas(_input_schema(tool))
            if _has_type(part, "array") and "items" not in part
        ]
        if bad_paths:
            yield Fact(f"lists without items: {_joined(bad_paths)}", tool)


def _reference(rule: Rule, offering: Offering) -> Iterator[Fact]:
    for tool in offering.of("tool"):
        if bad_paths := [
            path or "the arguments" for path, part in _subschemas(_input_schema(tool)) if "$ref" in part
        ]:
            yield Fact(f"its input schema has $ref in {_joined(bad_paths)}", tool)


def _open_object(rule: Rule, offering: Offering) -> Iterator[Fact]:
    names = [
        tool.name
        for tool in offering.of("tool")
        if any(
            isinstance(part.get("additionalProperties"), Mapping)
            for _, part in _subschemas(_input_schema(tool))
        )
    ]
    yield from _combined_fact("tools with an object whose members have a schema but no names", names)


def _output_type(rule: Rule, offering: Offering) -> Iterator[Fact]:
    for tool in offering.of("tool"):
        schema = tool.definition.get("outputSchema")
        if isinstance(schema, Mapping) and schema.get("type") != "object":
            yield Fact('its output schema has no "type": "object"', tool)


def _structured_output(rule: Rule, offering: Offering) -> Iterator[Fact]:
    names = [tool.name for tool in offering.of("tool") if "outputSchema" in tool.definition]
    yield from _combined_fact("tools with structured output", names)


def _unsaid_hint(rule: Rule, offering: Offering) -> Iterator[Fact]:
    names = [
        tool.name
        for tool in offering.of("tool")
        if rule.hint not in (tool.definition.get("annotations") or {})
    ]
    yield from _combined_fact(f"tools without {rule.hint}", names)


def _lacks(rule: Rule, offering: Offering) -> Iterator[Fact]:
    """Yield a fact for each feature that the server uses and the client lacks."""
    tasks = [
        tool.name
        for tool in offering.of("tool")
        if (tool.definition.get("execution") or {}).get("taskSupport") in ("optional", "required")
    ]
    uses = {
        "resources": _counted(len(offering.of("resource", "template")), "resource"),
        "prompts": _counted(len(offering.of("prompt")), "prompt"),
        "tasks": f"tools that can be tasks: {_joined(tasks)}" if tasks else "",
        **{
            feature: f"{feature} is used in {location}"
            for feature, location in offering.used_features.items()
        },
    }
    for feature in rule.features:
        if use := uses.get(feature, ""):
            yield Fact(use, feature=feature)


CHECKS: dict[str, Callable[[Rule, Offering], Iterator[Fact]]] = {
    "called": _full_tool_name,
    "tool_name": _tool_name,
    "description": _description,
    "instructions": _instructions,
    "tool_count": _tool_count,
    "result_size": _result_size,
    "root_keyword": _root_keyword,
    "parameter_name": _parameter_name,
    "array_items": _array_items,
    "reference": _reference,
    "open_object": _open_object,
    "output_type": _output_type,
    "structured_output": _structured_output,
    "unsaid_hint": _unsaid_hint,
    "lacks": _lacks,
}
"""Checks by name. Each yields a fact for each case that a claim applies to."""


def _input_schema(tool: OfferedItem) -> Mapping[str, Any]:
    schema = tool.definition.get("inputSchema")
    return schema if isinstance(schema, Mapping) else {}


def _subschemas(schema: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a schema and its subschemas, each with its path, such as `filters.sort` or `items[]`."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return
    yield path, schema
    for key in ("properties", "$defs", "definitions"):
        named_parts = schema.get(key)
        for name, part in named_parts.items() if isinstance(named_parts, Mapping) else ():
            yield from _subschemas(part, f"{path}.{name}" if path else str(name), depth + 1)
    for key in ("anyOf", "oneOf", "allOf"):
        options = schema.get(key)
        for part in options if isinstance(options, list) else ():
            yield from _subschemas(part, path, depth + 1)
    yield from _subschemas(schema.get("items"), f"{path}[]", depth + 1)


def _has_type(schema: Mapping[str, Any], expected_type: str) -> bool:
    type_name = schema.get("type")
    return type_name == expected_type or (isinstance(type_name, list) and expected_type in type_name)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count > 1)}" if count else ""


def _combined_fact(subject: str, names: Sequence[str]) -> Iterator[Fact]:
    """Yield one fact about all these names."""
    if names:
        yield Fact(f"{subject}: {_joined(names)}")


def _joined(names: Sequence[str] | Iterator[str]) -> str:
    """Join the first `MAX_NAMED_PARAMETERS` distinct names. Append the number of the others."""
    unique_names = list(dict.fromkeys(names))
    more = (
        f" and {len(unique_names) - MAX_NAMED_PARAMETERS} more"
        if len(unique_names) > MAX_NAMED_PARAMETERS
        else ""
    )
    return ", ".join(unique_names[:MAX_NAMED_PARAMETERS]) + more
