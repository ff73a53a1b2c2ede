"""Calls counted by tool and by client, the same for a running core and for a capture of it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.protocol.phases import Phases
from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index import statistics
from mcpdesk.recorder.index.statistics import MAX_SLOTS, OTHER, CallTally, SlotTimes, Subject
from mcpdesk.recorder.index.statistics_rows import ALL_CALLS, ALL_REQUESTS, as_csv, as_json, rows_of
from mcpdesk.recorder.index.table import between
from mcpdesk.recorder.record import FAULT, Direction, HeldMark
from tests.support.traffic import (
    IN,
    OPENED,
    OUT,
    asks,
    call,
    connection,
    error,
    notification,
    request,
    result,
    retry,
    settle,
    text,
)

SCHEMA = {"name": "echo", "description": "Say it again.", "inputSchema": {"type": "object"}}


def exchange(
    recording: Recording, number: int, asked: bytes, answer: bytes, began: float, took: float
) -> None:
    recording.frame(number, IN, asked, at=began)
    recording.frame(number, OUT, answer, at=began + took)


def two_clients(recording: Recording) -> Recording:
    """Ten calls of two tools by two clients, one of each kind of failure, and messages that are not calls."""
    recording.connect(connection(1, "claude"))
    recording.connect(connection(2, "cursor"))
    exchange(recording, 1, request(0, "tools/list"), result(0, {"tools": [SCHEMA]}), OPENED, 0.001)
    for at in range(1, 7):
        exchange(recording, 1, call(at, "echo"), text(at, "x" * 36), OPENED + at, at / 1000)
    exchange(recording, 2, call(1, "echo"), text(1, "no", is_error=True), OPENED + 7, 0.5)
    exchange(recording, 2, call(2, "other"), error(2), OPENED + 8, 0.25)
    recording.frame(2, IN, call(3, "other"), at=OPENED + 9)
    recording.frame(2, IN, notification("notifications/cancelled", {"requestId": 3}), at=OPENED + 9.5)
    recording.frame(2, IN, call(4, "other"), at=OPENED + 9)
    recording.connect(connection(2, "cursor", closed=OPENED + 11))
    recording.frame(1, OUT, request(9, "ping"), at=OPENED + 10)
    settle(recording)
    return recording


def test_calls_are_counted_by_tool_and_by_client() -> None:
    counted = two_clients(Recording(None)).index.statistics
    echo, other = (counted.sums(Subject.TOOL)["profiles", name] for name in ("echo", "other"))
    assert (echo.calls, echo.errors, other.calls, other.errors) == (7, 1, 3, 2)
    assert echo.received == sum(len(call(at, "echo")) for at in (1, 2, 3, 4, 5, 6, 1))
    assert echo.sent == 6 * len(text(1, "x" * 36)) + len(text(1, "no", is_error=True))
    assert echo.tokens == 6 * round(len('[{"type":"text","text":""}]') / 3.6 + 10) + 8
    assert echo.quantile(0.5) == pytest.approx(0.004, rel=0.1) and echo.slowest_s == pytest.approx(0.5)
    assert echo.quantile(0.99) == pytest.approx(0.5, rel=0.1)
    clients = counted.sums(Subject.CLIENT)
    assert {name: tally.calls for (_, name), tally in clients.items()} == {"claude": 6, "cursor": 4}
    assert [(name, tally.calls) for name, tally in counted.tools_of("profiles", "cursor")] == [
        ("other", 3),
        ("echo", 1),
    ]
    assert [name for name, _ in counted.clients_of("profiles", "echo")] == ["claude", "cursor"]
    methods = {name: tally.calls for (_, name), tally in counted.sums(Subject.METHOD).items()}
    assert methods == {"tools/list": 1, "tools/call": 10}


def test_resources_and_prompts_are_calls_of_a_client_and_other_requests_are_not() -> None:
    recording = Recording(None)
    recording.connect(connection(1, "claude"))
    recording.connect(connection(2, "quiet"))
    asked = ("initialize", "tools/list", "tools.call", "resources/read", "prompts.get", "completion/complete")
    for at, method in enumerate(asked, 1):
        exchange(recording, 1, request(at, method), result(at, {}), OPENED + at, 0.001)
    exchange(recording, 2, request(1, "ping"), error(1), OPENED, 0.001)
    settle(recording)
    counted = recording.index.statistics
    clients = {row.name: (row.calls, row.errors) for row in rows_of(counted, Subject.CLIENT, {})}
    assert clients == {ALL_CALLS: (3, 0), "claude": (3, 0), "quiet": (0, 0)}
    called = {row.name: (row.calls, row.errors) for row in rows_of(counted, Subject.TOOL, {})}
    tool = next(name for name in called if name not in (ALL_CALLS, "resources/read", "prompts/get"))
    assert called == {ALL_CALLS: (3, 0), tool: (1, 0), "resources/read": (1, 0), "prompts/get": (1, 0)}
    assert [name for name, _ in counted.clients_of("profiles", "resources/read")] == ["claude"]
    assert {name for name, _ in counted.tools_of("profiles", "claude")} == called.keys() - {ALL_CALLS}
    methods = {row.name: row.calls for row in rows_of(counted, Subject.METHOD, {})}
    assert methods[ALL_REQUESTS] == 7 and methods["tools/call"] == methods["prompts/get"] == 1


def test_a_capture_has_the_same_numbers_with_the_cost_of_definitions(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "one.jsonl")
    recording.start()
    two_clients(recording)
    recording.close()
    index = Archive(tmp_path / "one.jsonl").index
    index.catch_up(float("inf"))
    while index.statistics.update(0.0):
        assert index.statistics.done < 1
    for subject in Subject:
        live, read = (rows_of(each.statistics, subject, {}) for each in (recording.index, index))
        assert live == read
    definitions = index.statistics.definitions()
    assert definitions == {("profiles", "echo"): 21}
    rows = {row.name: row for row in rows_of(index.statistics, Subject.TOOL, definitions)}
    assert (rows["echo"].definition_tokens, rows["other"].definition_tokens) == (21, None)
    assert (rows[ALL_CALLS].calls, rows[ALL_CALLS].definition_tokens) == (10, 21)
    clients = rows_of(index.statistics, Subject.CLIENT, definitions)
    assert {row.definition_tokens for row in clients} == {21}


def test_an_operation_in_rounds_is_one_call() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    recording.frame(1, IN, call(1, "order"), at=OPENED)
    recording.frame(1, OUT, asks(1, "state", size="How large?"), at=OPENED + 1)
    settle(recording)
    assert recording.index.statistics.sums(Subject.TOOL) == {}
    recording.frame(1, IN, retry(2, "order", "state", size={"cups": 1}), at=OPENED + 9)
    recording.frame(1, OUT, text(2, "done"), at=OPENED + 10)
    settle(recording)
    (tally,) = recording.index.statistics.sums(Subject.TOOL).values()
    assert tally.calls == 1 and tally.slowest_s == pytest.approx(2), "eight seconds were the client's"
    assert tally.received == len(call(1, "order")) + len(retry(2, "order", "state", size={"cups": 1}))


def test_what_a_call_waited_for_a_person_is_no_part_of_what_it_took() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    for at, person_s in enumerate((0, 30, 0)):
        recording.frame(1, IN, call(at, "Bash"), at=OPENED + 60 * at)
        answered = OPENED + 60 * at + person_s + 0.5
        phases = Phases(answered, handler=500_000, person=person_s * 1_000_000)
        recording.frame(1, OUT, text(at, "done"), at=answered, phases=phases)
    settle(recording)
    (tally,) = recording.index.statistics.sums(Subject.TOOL).values()
    assert tally.calls == 3 and tally.slowest_s == pytest.approx(0.5)
    assert tally.waited_s == pytest.approx(30)


def held(recording: Recording, at: float, seconds: float, how: str, number: int = 1) -> None:
    sent = Direction.IN if how == "passed on" else Direction.OUT
    recording.mark(HeldMark(1, sent, number, OPENED + at, seconds, how))


def test_what_a_call_was_held_by_a_person_is_no_part_of_what_it_took(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "held.jsonl")
    recording.start()
    recording.connect(connection(1))
    recording.frame(1, IN, call(1, "Bash"), at=OPENED)
    held(recording, 23, 23, "passed on")
    held(recording, 24, 0.9, "notifications/message passed on")
    held(recording, 34.02, 10, "changed")
    recording.frame(1, OUT, text(1, "done"), at=OPENED + 34.5)
    recording.frame(1, IN, call(1, "Late"), at=OPENED + 40)
    held(recording, 42, 2, f"late {FAULT} 1")
    recording.frame(1, OUT, text(1, "done"), at=OPENED + 42.25)
    recording.frame(1, IN, call(7, "order"), at=OPENED + 50)
    held(recording, 53, 3, "passed on", 7)
    recording.frame(1, OUT, asks(7, "state", size="How large?"), at=OPENED + 54)
    recording.frame(1, IN, retry(8, "order", "state", size={"cups": 1}), at=OPENED + 60)
    held(recording, 65, 5, "passed on", 8)
    recording.frame(1, OUT, text(8, "done"), at=OPENED + 66)
    settle(recording)
    recording.close()
    capture = Archive(tmp_path / "held.jsonl").index
    capture.catch_up(float("inf"))
    capture.statistics.update(float("inf"))
    for index in (recording.index, capture):
        sums = index.statistics.sums(Subject.TOOL)
        took = {name: round(tally.slowest_s, 3) for (_, name), tally in sums.items()}
        assert took == {"Bash": 1.5, "Late": 2.25, "order": 2.0}


def test_pictures_and_files_cost_no_text_tokens() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    picture = {"type": "image", "data": "A" * 30_000, "mimeType": "image/png"}
    exchange(recording, 1, call(1, "draw"), result(1, {"content": [picture]}), OPENED, 0.1)
    exchange(recording, 1, call(2, "read"), text(2, "é" * 180_000), OPENED, 0.1)
    settle(recording)
    tools = {name: tally.tokens for (_, name), tally in recording.index.statistics.sums(Subject.TOOL).items()}
    assert tools["draw"] < 30 and tools["read"] == pytest.approx(100_000, rel=0.01)


def test_names_that_strangers_make_up_cost_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MAX_TALLIES", 5)
    recording = Recording(None)
    recording.connect(connection(1))
    for at in range(50):
        exchange(recording, 1, call(at, f"tool {at}"), error(at), OPENED, 0.1)
    settle(recording)
    tools = recording.index.statistics.sums(Subject.TOOL)
    assert len(tools) == 6 and tools["profiles", OTHER].calls == 45


def test_slots_become_longer_and_lose_nothing() -> None:
    times = SlotTimes()
    tally, late = CallTally(times), CallTally(times)
    for second in range(10 * MAX_SLOTS):
        tally.add(1, OPENED + second, 0.001 * second, 1, 1, 0)
    late.add(1, OPENED + 10 * MAX_SLOTS - 1, 9.0, 1, 1, 0)
    assert times.length_s == 16 and len(tally.rates) <= MAX_SLOTS
    assert sum(tally.rates) == 10 * MAX_SLOTS and set(tally.rates[:-1]) == {16}
    assert list(tally.longest) == sorted(tally.longest)
    tally.merge(late)
    assert tally.longest[-1] == 9.0 and tally.calls == 10 * MAX_SLOTS + 1


def test_the_table_is_written_as_csv_and_json() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    exchange(recording, 1, call(1, "=HYPERLINK()"), text(1, "x"), OPENED, 0.1)
    settle(recording)
    rows = rows_of(recording.index.statistics, Subject.TOOL, {})
    whole, evil = csv.DictReader(as_csv(rows).splitlines())
    assert (whole["name"], whole["calls"], evil["name"]) == (ALL_CALLS, "1", "'=HYPERLINK()")
    assert json.loads(as_json(rows))[1]["name"] == "=HYPERLINK()"


def test_a_percentile_is_the_time_of_a_call_and_none_from_a_gap_between_calls() -> None:
    tally = CallTally(SlotTimes())
    for took_s in (0.0201, 0.0204, 0.6012, 0.6023, 0.6046):
        tally.add(0, OPENED, took_s, 0, 0, 0)
    assert [tally.quantile(share) for share in (0.2, 0.4, 0.5, 0.95)] == [0.0204, 0.0204, 0.6046, 0.6046]


class Dropping(dict[int, Any]):
    """Values of a table whose rows are dropped after the first access, as by another thread."""

    drop: Callable[[], object]

    def __getitem__(self, key: int) -> Any:
        value = super().__getitem__(key)
        self.drop()
        return value

    def get(self, key: int, default: Any = None) -> Any:
        value = super().get(key, default)
        self.drop()
        return value


@pytest.mark.parametrize("name", ["labels", "response"])
def test_rows_that_are_dropped_while_they_are_read_are_left_out(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    exchange(recording, 1, request(0, "tools/list"), result(0, {"tools": [SCHEMA]}), OPENED, 0.001)
    recording.frame(1, IN, call(1, "echo"))
    settle(recording)
    counted, table = recording.index.statistics, recording.index.table
    assert sum(counted.running().values()) == len(counted.definitions()) == 1
    values = table.labels if name == "labels" else dict(enumerate(between(table.response, 0, len(table))))
    dropping = Dropping(values)
    dropping.drop = lambda: table.drop(len(table))
    monkeypatch.setattr(table, name, dropping)
    assert not (counted.running() if name == "labels" else counted.definitions())
