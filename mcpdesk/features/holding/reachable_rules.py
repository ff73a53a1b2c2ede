"""Check that a rule can ever match a message.

A rule may use only facts that are known when the rule is applied. A request, for example, has no status,
duration or error yet. Decisions at the desk, and the speed compared with other calls, are known only in
recorded traffic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from mcpdesk.features.holding.held_message import HeldDirections
from mcpdesk.recorder.index.exchange import ExchangeKind, Status
from mcpdesk.recorder.index.query import All, AnyOf, Field, Limit, Node, Not

FROM_SERVERS = re.compile(r"notifications/|elicitation/|sampling/|roots/list")
"""Pattern for the methods of messages that are not requests of a client."""
_ANSWERED = frozenset(
    {Status.OK, Status.ERROR, Status.TOOL_ERROR, Status.ASKS, Status.NEGOTIATION, Status.MALFORMED}
)


class Moment(Struct, frozen=True):
    """Facts that are known about a kind of message when a rule is applied to it."""

    statuses: frozenset[Status]
    directions: frozenset[str]
    kind: ExchangeKind = ExchangeKind.REQUEST
    is_timed: bool = False
    """True if the duration of the exchange is known."""
    is_call: bool = False
    """True for a request of a client, and for the answer to such a request."""


REQUEST = Moment(frozenset({Status.PENDING}), frozenset({"in"}), is_call=True)
ANSWER = Moment(_ANSWERED, frozenset({"in"}), is_timed=True, is_call=True)
NOTIFICATION = Moment(frozenset({Status.SENT}), frozenset({"in", "out"}), ExchangeKind.NOTIFICATION)
QUESTION = Moment(frozenset({Status.PENDING}), frozenset({"out"}))
REPLY = Moment(_ANSWERED, frozenset({"out"}))
"""Kind of the reply of a client to a question of a server."""
HELD_MOMENTS: dict[HeldDirections, tuple[Moment, ...]] = {
    "requests": (REQUEST, NOTIFICATION, REPLY),
    "answers": (ANSWER, NOTIFICATION, QUESTION),
    "both": (REQUEST, ANSWER, NOTIFICATION, QUESTION, REPLY),
}
"""Kinds of messages that a rule for holding applies to, by the value of `directions`."""


def check_matches(node: Node, moments: Sequence[Moment]) -> None:
    """Check that the filter can match a message, and that every condition in it is known in time.

    Raises: ValueError.
    """
    for part in _leaves(node):
        if _is_known_later(part) and not any(_outcomes(part, each)[0] for each in moments):
            raise ValueError(f"{_written(part)} {_why(part, moments)}")
    if not any(_outcomes(node, each)[0] for each in moments):
        raise ValueError("the filter can never match: this rule does not see such messages")


def _leaves(node: Node) -> Iterator[Node]:
    match node:
        case All(nodes) | AnyOf(nodes):
            for part in nodes:
                yield from _leaves(part)
        case Not(inner):
            yield from _leaves(inner)
        case _:
            yield node


def _is_known_later(leaf: Node) -> bool:
    if isinstance(leaf, Limit):
        return leaf.what == "elapsed"
    return isinstance(leaf, Field) and leaf.name in ("status", "is")


def _outcomes(node: Node, moment: Moment) -> tuple[bool, bool]:
    """Return two values for a kind of message:

    True if the filter can match, and True if it can fail to match.
    """
    match node:
        case All(nodes):
            parts = [_outcomes(each, moment) for each in nodes]
            return all(may for may, _ in parts), any(may_not for _, may_not in parts)
        case AnyOf(nodes):
            parts = [_outcomes(each, moment) for each in nodes]
            return any(may for may, _ in parts), all(may_not for _, may_not in parts)
        case Not(inner):
            may, may_not = _outcomes(inner, moment)
            return may_not, may
        case Limit("elapsed", _, _):
            return moment.is_timed, True
        case Field("status", values):
            return _among(values, {each.value for each in moment.statuses})
        case Field("kind", values):
            return _among(values, {moment.kind.value})
        case Field("dir", values):
            return _among(values, moment.directions)
        case Field("is", _):
            return False, True
        case Field("tool", _) if not moment.is_call:
            return False, True
        case Field("method", values) if moment.is_call:
            return not all(map(FROM_SERVERS.search, values)), True
        case _:
            return True, True


def _among(values: Sequence[str], possible: set[str] | frozenset[str]) -> tuple[bool, bool]:
    allowed_values = set(values)
    return bool(allowed_values & possible), bool(possible - allowed_values)


def _written(leaf: Node) -> str:
    if isinstance(leaf, Field):
        return f"{leaf.name}:{'|'.join(leaf.values)}"
    assert isinstance(leaf, Limit)
    return f"{leaf.sign}{leaf.bound:g}s"


def _why(leaf: Node, moments: Sequence[Moment]) -> str:
    if isinstance(leaf, Field) and (leaf.name == "is" or leaf.values == ("slow",)):
        return "can never match: its value is only known after the rule has acted"
    if any(each.is_timed for each in moments):
        return "can never match: this rule acts after the answer arrived"
    return "can never match: its value is only known after the answer arrived, and this rule acts before"
