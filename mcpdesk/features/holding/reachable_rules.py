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
"""Pattern for methods of notifications, and of a server's questions to its client."""
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
"""Kinds of messages that a hold rule applies to, by the value of `directions`."""


def check_matches(node: Node, moments: Sequence[Moment]) -> None:
    """Check that a filter can match one of these kinds of messages. Raises: ValueError."""
    for leaf in _leaves(node):
        if _is_known_later(leaf) and not any(_outcomes(leaf, each)[0] for each in moments):
            raise ValueError(f"{_filter_text(leaf)} {_reason(leaf, moments)}")
    if not any(_outcomes(node, each)[0] for each in moments):
        raise ValueError("the filter can never match: this rule does not see such messages")


def _leaves(node: Node) -> Iterator[Node]:
    """Yield the conditions of a filter, without its operators."""
    match node:
        case All(nodes) | AnyOf(nodes):
            for part in nodes:
                yield from _leaves(part)
        case Not(inner):
            yield from _leaves(inner)
        case _:
            yield node


def _is_known_later(leaf: Node) -> bool:
    """Return True if the value of a condition may not be known when a rule is applied."""
    if isinstance(leaf, Limit):
        return leaf.quantity == "elapsed"
    return isinstance(leaf, Field) and leaf.name in ("status", "is")


def _outcomes(node: Node, moment: Moment) -> tuple[bool, bool]:
    """Return two values: True if the filter can match messages of a kind, and True if it can fail to match
    them.
    """
    match node:
        case All(nodes):
            outcomes = [_outcomes(each, moment) for each in nodes]
            return all(can_match for can_match, _ in outcomes), any(can_fail for _, can_fail in outcomes)
        case AnyOf(nodes):
            outcomes = [_outcomes(each, moment) for each in nodes]
            return any(can_match for can_match, _ in outcomes), all(can_fail for _, can_fail in outcomes)
        case Not(inner):
            can_match, can_fail = _outcomes(inner, moment)
            return can_fail, can_match
        case Limit("elapsed", _, _):
            return moment.is_timed, True
        case Field("status", values):
            return _value_outcomes(values, {each.value for each in moment.statuses})
        case Field("kind", values):
            return _value_outcomes(values, {moment.kind.value})
        case Field("dir", values):
            return _value_outcomes(values, moment.directions)
        case Field("is", _):
            return False, True
        case Field("tool", _) if not moment.is_call:
            return False, True
        case Field("method", values) if moment.is_call:
            return not all(map(FROM_SERVERS.search, values)), True
        case _:
            return True, True


def _value_outcomes(values: Sequence[str], possible: set[str] | frozenset[str]) -> tuple[bool, bool]:
    """Return the outcomes of a condition with these values. `possible` has the values of the messages."""
    filter_values = set(values)
    return bool(filter_values & possible), bool(possible - filter_values)


def _filter_text(leaf: Node) -> str:
    """Return a condition as it is written in a filter."""
    if isinstance(leaf, Field):
        return f"{leaf.name}:{'|'.join(leaf.values)}"
    assert isinstance(leaf, Limit)
    return f"{leaf.sign}{leaf.bound:g}s"


def _reason(leaf: Node, moments: Sequence[Moment]) -> str:
    """Return the reason why a condition can never match, as a predicate."""
    if isinstance(leaf, Field) and (leaf.name == "is" or leaf.values == ("slow",)):
        return "can never match: its value is only known after the rule has acted"
    if any(each.is_timed for each in moments):
        return "can never match: this rule acts after the answer arrived"
    return "can never match: its value is only known after the answer arrived, and this rule acts before"
