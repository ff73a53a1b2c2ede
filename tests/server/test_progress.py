"""Progress made from what is known already is what encoding it whole gives."""

from __future__ import annotations

from itertools import product
from typing import Any

import orjson
import pytest

from mcpdesk.errors import LocalProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.series import Series, merged
from mcpdesk.server.calls.progress import Progress

TOKENS: list[Any] = ["t", "", '%b %d "progress":0 é\n', 0, 2**53]
TOTALS: list[Any] = [None, 3, 3, 3.0, 0.1 + 0.2, None, float("inf"), float("nan"), 7]
AMOUNTS: list[Any] = [0, 0.5, 1, 1e300, True, 2**63 - 1]


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("has_messages", [False, True])
def test_every_message_is_as_if_it_were_encoded_whole(token: Any, has_messages: bool) -> None:
    progress = Progress(token, has_messages)
    for total, amount, message, tag in product(TOTALS, AMOUNTS, ("", "é"), (None, {"a": 1})):
        params: dict[str, Any] = {"progressToken": token, "progress": amount}
        if total in (3, 7, 0.1 + 0.2):
            params["total"] = total
        if message and has_messages:
            params["message"] = message
        if tag is not None:
            params["_meta"] = tag
        whole = codec.encode({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        assert progress.frame(amount, total, message, tag) == whole
        assert progress.sent is amount


@pytest.mark.parametrize("amount", [2**70, object()])
def test_what_is_no_number_of_json_is_refused_as_ever(amount: Any) -> None:
    progress = Progress("t", True)
    for message in ("", "m"):
        with pytest.raises(LocalProtocolError):
            progress.frame(amount, None, message)
    with pytest.raises(LocalProtocolError):
        progress.frame(1, 2**70)
    assert progress.frame(1, None).endswith(b'"progress":1}}')


class Taking:
    """An outlet that keeps what it is given, with places for series or without."""

    may_send = True
    must_drain = False

    def __init__(self, has_series: bool) -> None:
        self.messages: list[bytes] = []
        self.placed: list[tuple[int, Series]] = []
        self._has_series = has_series

    def send(self, message: bytes) -> None:
        self.messages.append(message)
        for _, series in self.placed:
            series.is_open = False

    def series(self, before: bytes, after: bytes) -> Series | None:
        if not self._has_series:
            return None
        self.placed.append((len(self.messages), Series(before, after, 1 << 20, 1e300)))
        return self.placed[-1][1]

    async def drain(self) -> None: ...

    def keep_alive(self) -> None: ...

    async def let_go(self, retry_ms: int) -> bool:
        return False


@pytest.mark.parametrize("has_series", [False, True])
def test_reports_are_the_messages_one_by_one_whatever_is_sent_in_between(has_series: bool) -> None:
    reports = [*product(TOTALS, AMOUNTS), (3, 1), (3, 2), (3, 2.5), (3, 3), (None, 2**63), (None, -(2**63))]
    outlet, progress = Taking(has_series), Progress("t", True)
    expected: list[bytes] = []
    for count, (total, amount) in enumerate(reports):
        expected.append(Progress("t", True).frame(amount, total))
        progress.report(amount, total, outlet)
        assert progress.sent is amount
        if count % 5 == 4:
            outlet.send(b"between")
            expected.append(b"between")
    assert list(merged(outlet.messages, outlet.placed)) == expected


def test_a_number_json_has_not_is_refused_and_the_next_one_sent() -> None:
    outlet, progress = Taking(True), Progress("t", True)
    progress.report(1, None, outlet)
    for amount, total in ((2**70, None), (2, 2**70)):
        with pytest.raises(LocalProtocolError):
            progress.report(amount, total, outlet)
    progress.report(3, None, outlet)
    frames = [orjson.loads(each)["params"]["progress"] for each in merged(outlet.messages, outlet.placed)]
    assert frames == [1, 3]


def test_a_call_that_goes_on_elsewhere_reports_there() -> None:
    first, second, progress = Taking(True), Taking(True), Progress("t", True)
    for amount, outlet in enumerate((first, first, second, second, first)):
        progress.report(amount, None, outlet)
    heard = [
        [orjson.loads(each)["params"]["progress"] for each in merged(outlet.messages, outlet.placed)]
        for outlet in (first, second)
    ]
    assert heard == [[0, 1, 4], [2, 3]]
