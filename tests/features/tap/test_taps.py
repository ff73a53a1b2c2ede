"""Running taps and watching desks: frames are shown, and neither is affected by the end of the other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from mcpdesk import private_files
from mcpdesk.cli.main import run
from mcpdesk.features.tap.taps import running_taps
from mcpdesk.link.capture_link import CaptureLink
from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture.recording import Recording
from tests.support.patience import WITHIN_S, wait_until
from tests.support.terminal import Desk
from tests.support.traffic import IN, OUT, call, connection, text

ROOT = Path(__file__).parents[3]
CAT = [sys.executable, "-m", "mcpdesk", "stdio", "--", "cat"]


@contextmanager
def tap() -> Iterator[subprocess.Popen[bytes]]:
    """A tap that has carried something, and is registered."""
    with subprocess.Popen(CAT, cwd=ROOT, stdin=-1, stdout=-1, bufsize=0) as process:
        try:
            say(process, call(1, "first"))
            state = Path(os.environ["MCPDESK_STATE_DIR"])
            wait_until(lambda: process.pid in [each.pid for each in running_taps(state)])
            yield process
        finally:
            process.kill()


def say(process: subprocess.Popen[bytes], message: bytes) -> None:
    """Send a message, which the server echoes."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(message + b"\n")
    assert process.stdout.readline() == message + b"\n"


@pytest.mark.process
def test_taps_that_run_are_listed_and_killed_ones_forgotten(
    own_folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tap() as older, tap() as newer:
        newest, oldest = running_taps(own_folders / "state")
        assert (newest.pid, oldest.pid) == (newer.pid, older.pid) and newest.command == ("cat",)
        assert run(["open", "--live"]) == 0
        told = capsys.readouterr().out
        assert (
            newest.capture in told
            and "cat" in told
            and told.index(str(newer.pid)) < told.index(oldest.capture)
        )
        newer.kill()
        newer.wait(WITHIN_S)
        wait_until(lambda: [each.pid for each in running_taps(own_folders / "state")] == [older.pid])
        assert older.stdin is not None
        older.stdin.close()
        assert older.wait(WITHIN_S) == 0
    assert list((own_folders / "state" / "taps").iterdir()) == []
    assert run(["open", "--live"]) == 0
    assert "No tap is running" in capsys.readouterr().err
    assert run(["open"]) == 0  # captures are listed instead
    assert "No tap is running" in capsys.readouterr().err


@pytest.mark.process
def test_a_desk_shows_what_passes_as_it_passes_and_its_end_is_not_noticed() -> None:
    with tap() as process, Desk(["open"], columns=100, rows=30) as desk:
        assert "live, messages can be held" in desk.see("first")
        say(process, call(2, "second"))
        desk.see("second")
        desk.process.kill(9)
        say(process, call(3, "third"))
        assert process.poll() is None


@pytest.mark.process
def test_a_tap_is_listed_by_attach_and_attached_to(capsys: pytest.CaptureFixture[str]) -> None:
    with tap() as process:
        assert run(["attach", "--list"]) == 0
        titles, row = (line.split() for line in capsys.readouterr().out.splitlines())
        assert dict(zip(titles, row, strict=False)) | {"SINCE": ""} == {
            "NAME": "cat", "PID": str(process.pid), "KIND": "tap", "SINCE": "", "ADDRESS": row[4],
        }  # fmt: skip
        with Desk(["attach", "cat"], columns=100, rows=30) as desk:
            desk.see("first")
            desk.see("attached to tap cat .*: it continues when you leave")
            say(process, call(2, "second"))
            desk.see("second")
            desk.press("\x11")
            assert desk.end() == 0
        say(process, call(3, "third"))


@pytest.mark.process
def test_the_end_of_a_tap_is_told_on_a_desk_that_looks_on() -> None:
    with tap() as process, Desk(["open"], columns=100, rows=30) as desk:
        desk.see("first")
        process.kill()
        assert "a capture, read only" in desk.see("the process that wrote the capture has ended")
        desk.press("\x11")
        assert desk.end() == 0


@pytest.mark.slow
def test_a_capture_that_is_written_is_followed_into_its_further_parts(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "a.jsonl", max_file_bytes=4_000)
    recording.start()
    recording.connect(connection(1))
    recording.frame(1, IN, call(0, "tool-0"))
    wait_until(lambda: (tmp_path / "a.jsonl").stat().st_size > 200)
    archive = Archive(tmp_path / "a.jsonl")
    link = CaptureLink(archive)
    assert archive.is_live and link.view().capture_grows
    for number in range(1, 100):
        recording.frame(1, OUT, text(number - 1, "æ" * number))
        recording.frame_batch(1, IN, [call(number, f"tool-{number}"), b'{"jsonrpc":"2.0","method":"x"}'])
        if not number % 20:
            wait_until(lambda shown=number: archive.count == 3 * shown + 1)  # type: ignore[misc]
    recording.frame(1, OUT, b"[" + b"1," * 300_000 + b"1]")
    wait_until(lambda: archive.count == 299)
    assert (tmp_path / "a.3.jsonl").exists() and link.view().capture_grows and not link.notices()
    assert archive.connections[1].closed is None
    recording.close()
    wait_until(link.notices)
    assert not link.view().capture_grows and archive.connections[1].closed is not None
    assert [notice.text for notice in link.notices()] == ["the process that wrote the capture has ended"]
    index = link.traffic
    while index.catch_up():
        pass
    assert sum(one.response is not None for one in index.exchanges) == 99
    assert len(index.frame_bytes(298)) == 600_003
    assert Archive(tmp_path / "a.jsonl").count == archive.count and archive.unreadable == 0
    link.close()


def test_a_line_that_is_half_written_waits_for_its_rest(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    recording = Recording(whole)
    recording.start()
    recording.connect(connection(1))
    recording.frame_batch(1, IN, [call(number, "æ") for number in range(5)])
    recording.frame(1, OUT, b"{" + b" " * 300_000 + b"}")
    recording.close()
    data = whole.read_bytes()
    path = tmp_path / "growing.jsonl"
    with path.open("wb", buffering=0) as growing:
        private_files.hold(growing.fileno())
        growing.write(data[:100])
        archive = Archive(path)
        for start, stop in pairwise([*range(100, 1200, 7), len(data) - 5, len(data)]):
            growing.write(data[start:stop])
            archive.read_new_data()
            assert archive.unreadable == 0
    assert archive.count == 6 and [frame.size for frame in archive.frames(0, 6) if frame][5] == 300_002
    archive.read_new_data()
    assert not archive.is_live and archive.count == 6
