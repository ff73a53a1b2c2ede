"""Files with what is kept of HTTP sessions: damaged, too large, wanted by two, on a disk that fails."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.protocol.handshake import SessionState
from mcpdesk.transports.http import session_records as module
from mcpdesk.transports.http.session_records import Record, SessionRecords, hashed, read_records, seal


def record(name: str, **more: Any) -> Record:
    """One that was used just now."""
    state = SessionState({"protocolVersion": "2025-11-25"}, True)
    return Record(hashed(name), time.time(), "place", seal(name, "", ""), **{"state": state, **more})


def left(folder: Path, *records: Record) -> None:
    """What a process leaves that ends."""
    ended = SessionRecords(folder, 60)
    ended.write(records)
    ended.close(records)


def test_a_session_is_taken_by_one_process_alone(tmp_path: Path) -> None:
    first, second = record("first"), record("second")
    left(tmp_path, first, second)
    one, other = SessionRecords(tmp_path, 60), SessionRecords(tmp_path, 60)
    assert one.find(first.id) == other.find(first.id) == first
    assert (one.take(first), other.take(first)) == (True, False)
    assert one.find(first.id) is other.find(first.id) is None
    assert other.take(second)
    # Nothing is left of the process that ended: its file is gone.
    assert {path.name.endswith(".jsonl") for path in tmp_path.iterdir()} == {True}
    assert len(list(tmp_path.iterdir())) == 2


def test_what_cannot_be_written_costs_nobody_elses_session(tmp_path: Path) -> None:
    nested: dict[str, Any] = {}
    for _ in range(20_000):
        nested = {"x": nested}
    deep = record("deep", state=SessionState({"capabilities": nested}))
    lone = record("lone", state=SessionState({"clientInfo": {"name": "\ud800"}}))
    long = record("long", state=SessionState({"clientInfo": {"name": "x" * module.LONGEST}}))
    usual = record("usual")
    left(tmp_path, deep, lone, long, usual)
    (path,) = tmp_path.iterdir()
    assert read_records(path.read_bytes()) == {usual.id: usual}


def test_a_damaged_line_costs_no_other(tmp_path: Path) -> None:
    first, second = record("first"), record("second")
    left(tmp_path, first, second)
    (path,) = tmp_path.iterdir()
    one, two = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(one + b"\xff\xfe{\n" + b"[" * 5_000 + b"\n\n" + two + two[:20])
    records = SessionRecords(tmp_path, 60)
    assert records.find(first.id) == first
    assert records.take(first) and not records.take(first)
    assert read_records(path.read_bytes()) == {second.id: second}


def test_the_file_does_not_grow_with_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLACK_BYTES", 500)
    records = SessionRecords(tmp_path, 60)
    for number in range(200):
        records.write([record("one"), record("two", restarts=number)])
        (path,) = tmp_path.iterdir()
        assert path.stat().st_size < 4_000
    assert read_records(path.read_bytes())[hashed("two")].restarts == 199
    records.close([])
    assert not list(tmp_path.iterdir())


def test_a_disk_that_fails_is_told_of_once_and_written_when_it_can_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, one, two = tmp_path / "sessions", record("one"), record("two")
    folder.touch()
    records = SessionRecords(folder, 60)
    with caplog.at_level(logging.WARNING):
        records.write([one])
        records.write([two])
    assert len(caplog.records) == 1
    folder.unlink()
    records.write([])
    (path,) = folder.iterdir()
    assert read_records(path.read_bytes()) == {one.id: one, two.id: two}


def test_a_session_that_was_not_used_for_long_is_not_found(tmp_path: Path) -> None:
    old = record("old")
    left(tmp_path, old)
    assert SessionRecords(tmp_path, 60).find(old.id) == old
    assert SessionRecords(tmp_path, -1).find(old.id) is None
    assert not list(tmp_path.iterdir())
