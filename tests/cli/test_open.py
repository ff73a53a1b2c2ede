"""A capture from disk is shown as it was recorded; what is no capture is refused with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.cli.main import run
from mcpdesk.recorder.capture.recording import Recording
from tests.support.terminal import Desk
from tests.support.traffic import IN, OUT, call, connection, text


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    recording = Recording(tmp_path / "morning.jsonl")
    recording.start()
    recording.connect(connection(1))
    for number in range(3):
        recording.frame(1, IN, call(number, f"tool-{number}"))
        recording.frame(1, OUT, text(number, "x"))
    recording.frame(1, IN, call(9, "never-answered"))
    recording.close()
    assert recording.path is not None
    return recording.path


@pytest.mark.slow
def test_a_capture_is_shown_filtered_and_left(capture: Path) -> None:
    with Desk(["open", str(capture)], columns=100, rows=30) as desk:
        desk.see("4 exchanges")
        shown = desk.see("never-answered")
        assert "morning.jsonl" in shown and "read only" in shown and "! lost" in shown
        assert "Workbench" not in shown and "2 Traffic" in shown
        desk.press("/")
        desk.see("filter: words")
        desk.press("tool-1\r")
        desk.see("1 of 4 exchanges")
        desk.press("\x11")
        assert desk.end() == 0


def test_a_capture_that_was_cut_off_says_so_and_shows_the_rest(capture: Path) -> None:
    capture.write_bytes(capture.read_bytes()[:-20])
    with Desk(["open", str(capture)], columns=100, rows=30) as desk:
        desk.see("3 exchanges")
        desk.see("1 line of the capture cannot be read")
        desk.press("\x11")
        assert desk.end() == 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file"),
        (b"", "is not a capture of mcpdesk"),
        (b'{"log": {"version": "1.2"}}\n', "is not a capture of mcpdesk"),
        (b"\x89PNG\r\n\x1a\n\0\0", "is not a capture of mcpdesk"),
        (b'{"capture":1,"pa', "is not a capture of mcpdesk"),
    ],
)
def test_what_is_no_capture_is_refused(
    content: bytes | None, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.jsonl"
    if content is not None:
        path.write_bytes(content)
    assert run(["open", str(path)]) != 0
    said = capsys.readouterr()
    assert reason in said.err and "x.jsonl" in said.err and "mcpdesk settings" in said.err
    assert not said.out


def test_a_folder_is_no_capture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["open", str(tmp_path)]) != 0
    assert "Is a directory" in capsys.readouterr().err


def test_without_a_terminal_nothing_is_drawn(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["open", str(capture)]) != 0
    said = capsys.readouterr()
    assert "needs a terminal" in said.err and "Only a terminal can show a capture" in said.err


def test_a_capture_named_as_a_folder_leads_here(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([str(capture)]) != 0
    assert f"mcpdesk open {capture}" in capsys.readouterr().err
