"""Comparison of two captures: calls that only one of them has, and calls that differ.

Secrets are masked.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any

import orjson
from msgspec import Struct

from mcpdesk.protocol import codec
from mcpdesk.recorder.index.exchange import Exchange, ExchangeKind
from mcpdesk.recorder.index.traffic_index import Index, last_round
from mcpdesk.recorder.masking import mask_text
from mcpdesk.recorder.readable_message import message

SLOWER_FACTOR = 2.0
"""A call counts as slower if it took at least this many times as long as the other call."""
MIN_DIFFERENCE_MS = 50.0
"""Minimum difference in milliseconds between durations. Smaller differences are ignored."""
MAX_DIFFERENCES = 50
"""Maximum number of differences that are reported for one call."""


class RecordedCall(Struct, frozen=True):
    """Request of a capture with its response."""

    number: int
    method: str
    name: str
    took_ms: float | None
    """Duration in milliseconds, or None if the call had not ended."""
    content: dict[str, Any]
    """`arguments`, `status`, and `result` or `error`, all without `_meta`."""


class CallDifference(Struct, frozen=True):
    """Path at which two calls differ, and the values in both calls. A missing value is None."""

    path: str
    a: Any
    b: Any


class Change(Struct, frozen=True):
    """Call that differs between the captures.

    If only one capture has the call, `a` or `b` is None for the other.
    """

    kind: str
    """`differs`, `only in a`, `only in b`, `slower` or `faster`."""
    a: RecordedCall | None
    b: RecordedCall | None
    differences: tuple[CallDifference, ...] = ()


class CaptureDiff(Struct, frozen=True):
    """Differences between two captures."""

    same_count: int
    """Number of pairs with equal content. Pairs of different durations are also in `changes`."""
    changes: tuple[Change, ...]


def compare(a: Index, b: Index) -> CaptureDiff:
    """Compare the calls of two captures.

    Calls with the same method and name are paired. Calls with equal arguments are paired first, then the
    other calls in order.
    """
    unpaired_calls: dict[tuple[str, str], deque[RecordedCall]] = defaultdict(deque)
    for call in calls(b):
        unpaired_calls[call.method, call.name].append(call)
    calls_of_a = list(calls(a))
    changes: list[Change] = []
    same_count = 0
    pairs = _paired_by_arguments(calls_of_a, unpaired_calls)
    for call in calls_of_a:
        candidates = unpaired_calls[call.method, call.name]
        other = pairs.get(call.number) or (candidates.popleft() if candidates else None)
        if other is None:
            changes.append(Change("only in a", call, None))
        elif differences := tuple(_differences(call.content, other.content))[:MAX_DIFFERENCES]:
            changes.append(Change("differs", call, other, differences))
        else:
            same_count += 1
            if kind := _pace_change(call.took_ms, other.took_ms):
                changes.append(Change(kind, call, other))
    unpaired = sorted(
        (call for candidates in unpaired_calls.values() for call in candidates), key=lambda call: call.number
    )
    return CaptureDiff(same_count, (*changes, *(Change("only in b", None, call) for call in unpaired)))


def calls(index: Index) -> Iterator[RecordedCall]:
    """Yield the requests of a capture in order, except those that are part of another exchange."""
    for number in index.operations.lines:
        exchange = index.exchange(number)
        if exchange.kind is ExchangeKind.REQUEST:
            yield _call(index, exchange)


def _call(index: Index, exchange: Exchange) -> RecordedCall:
    """Return a request with its last response, without `_meta`."""
    last = last_round(index, exchange)
    request = {} if exchange.request is None else message(index, exchange, exchange.request).value
    response = {} if last.response is None else message(index, last, last.response).value
    content: dict[str, Any] = {"status": exchange.status.value}
    params = request.get("params") if isinstance(request, dict) else request
    content["arguments"] = params.get("arguments", params) if isinstance(params, dict) else params
    if isinstance(response, dict):
        content |= {key: response[key] for key in ("result", "error") if key in response}
    else:
        content["result"] = response
    took_ms = None if exchange.ended is None else round(exchange.elapsed(0) * 1000, 3)
    return RecordedCall(
        exchange.number, exchange.method, mask_text(exchange.name), took_ms, _without_meta(content)
    )


def _without_meta(content: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a call without `_meta`, which differs every time."""
    return {
        key: {member: member_value for member, member_value in value.items() if member != "_meta"}
        if isinstance(value, dict)
        else value
        for key, value in content.items()
    }


def _paired_by_arguments(
    calls_of_a: list[RecordedCall], unpaired_calls: dict[tuple[str, str], deque[RecordedCall]]
) -> dict[int, RecordedCall]:
    """Pair calls with equal arguments, and remove the paired calls from `unpaired_calls`.

    `unpaired_calls` has the calls of the other capture, by method and name. The result maps the number of a
    call in `calls_of_a` to the equal call of the other capture.
    """
    calls_by_arguments: dict[tuple[str, str, bytes], deque[RecordedCall]] = defaultdict(deque)
    for (method, name), group_calls in unpaired_calls.items():
        for call in group_calls:
            calls_by_arguments[method, name, _arguments_key(call)].append(call)
    pairs: dict[int, RecordedCall] = {}
    for call in calls_of_a:
        if candidates := calls_by_arguments[call.method, call.name, _arguments_key(call)]:
            pairs[call.number] = candidates.popleft()
    matched_numbers = {call.number for call in pairs.values()}
    for key, group_calls in unpaired_calls.items():
        unpaired_calls[key] = deque(call for call in group_calls if call.number not in matched_numbers)
    return pairs


def _arguments_key(call: RecordedCall) -> bytes:
    """Return the encoded arguments of a call. Equal arguments have equal keys."""
    return codec.dumps(call.content["arguments"], option=orjson.OPT_SORT_KEYS, default=str)


def _differences(a: Any, b: Any, path: str = "") -> Iterator[CallDifference]:
    """Yield the paths at which two JSON values differ."""
    if type(a) is type(b) and isinstance(a, dict):
        for key in {**a, **b}:
            yield from _differences(a.get(key), b.get(key), f"{path}.{key}" if path else key)
    elif type(a) is type(b) and isinstance(a, list):
        for index in range(max(len(a), len(b))):
            item_a = a[index] if index < len(a) else None
            item_b = b[index] if index < len(b) else None
            yield from _differences(item_a, item_b, f"{path}[{index}]")
    elif a != b:
        yield CallDifference(path, a, b)


def _pace_change(a: float | None, b: float | None) -> str:
    """Compare two durations in milliseconds: `slower` or `faster`, or "" if they are similar or unknown."""
    if a is None or b is None or abs(a - b) < MIN_DIFFERENCE_MS:
        return ""
    if b >= SLOWER_FACTOR * a:
        return "slower"
    return "faster" if a >= SLOWER_FACTOR * b else ""
