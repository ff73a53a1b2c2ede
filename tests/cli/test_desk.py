"""The desk and `mcpdesk open`: requirements on the terminal, the screen, and the state after the end."""

from __future__ import annotations

import io
import os
import select
import sys
import termios
import tty
from pathlib import Path

import pytest

from mcpdesk.cli import screen_runs
from mcpdesk.cli.desk import require_terminal
from mcpdesk.cli.main import run
from mcpdesk.errors import DeskUserError
from mcpdesk.recorder.capture.recording import Recording
from tests.support.ports import free_port
from tests.support.terminal import Desk
from tests.support.tiers import open_terminal
from tests.support.traffic import IN, OUT, call, connection, text


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_terminal_is_asked_for_on_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for stdin, stderr in ((io.StringIO(), Terminal()), (Terminal(), io.StringIO()), (None, Terminal())):
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stderr", stderr)
        with pytest.raises(DeskUserError) as caught:
            require_terminal()
        assert "mcpdesk serve" in caught.value.hint


def test_dumb_terminal_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    require_terminal()
    monkeypatch.setenv("TERM", "dumb")
    with pytest.raises(DeskUserError, match="dumb"):
        require_terminal()


def test_a_desk_whose_stderr_is_a_file_says_why_where_the_person_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with pytest.raises(DeskUserError, match="do not redirect it"):
        require_terminal()
    assert "The desk draws on stderr" in shown.getvalue()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_end_of_the_desk_frees_its_port_and_keeps_capture_and_calls(folder: Path, own_folders: Path) -> None:
    port = free_port()
    for _ in range(2):
        with Desk([str(folder), "--port", str(port)], columns=120, rows=40) as desk:
            desk.see(f"http://127.0.0.1:{port}/mcp/small")
            desk.see("Greet somebody")
            desk.press("jjj")
            desk.see("Print something on the way")
            desk.press("\x12")
            desk.see("said")
            desk.press("\x11")
            assert desk.end() == 0
            assert "The traffic was written to a capture, secrets included: mcpdesk open " in desk.text
    captures = list((own_folders / "state" / "captures").glob("*-small*.jsonl"))
    assert len(captures) == 2
    assert all("chatter" in capture.read_text() for capture in captures)
    assert (own_folders / "state" / "calls.jsonl").exists()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_unknown_theme_is_told_and_the_desk_opens(folder: Path) -> None:
    with Desk([str(folder), "--port", "0", "--theme", "nothing"], columns=120, rows=30) as desk:
        desk.see("Theme nothing does not exist")


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_broken_manifest_is_shown_and_the_folder_served_once_it_is_mended(folder: Path) -> None:
    whole = (folder / "mcp.json").read_text()
    (folder / "mcp.json").write_text(whole.replace("}}", '}\n "tols": 1}'))
    with Desk([str(folder), "--port", "0"], columns=120, rows=30) as desk:
        assert "✕ mcp.json" in desk.see("unavailable: not JSON")
        (folder / "mcp.json").write_text(whole.replace("page_size", "max_tasks"))
        desk.see("settings.max_tasks take effect")
        (folder / "mcp.json").write_text(whole.replace('{"page_size": 2}', "{}"))
        desk.see("Greet somebody")
        desk.press("\x11")
        assert desk.end() == 0


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


@pytest.mark.process
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


def test_without_a_terminal_nothing_is_drawn(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["open", str(capture)]) != 0
    said = capsys.readouterr()
    assert "needs a terminal" in said.err and "open the file: each line is a JSON object" in said.err


def test_without_a_name_the_captures_there_are_are_listed_the_newest_first(
    own_folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["open"]) != 0
    assert "no captures exist" in capsys.readouterr().err
    folder = own_folders / "state" / "captures"
    folder.mkdir(parents=True)
    for day in range(1, 15):
        path = folder / f"2026-11-{day:02}T10-00-00-shop.jsonl"
        path.write_bytes(b"x" * 2_000)
        os.utime(path, (day * 86_400, day * 86_400))
    assert run(["open"]) == 0
    said = capsys.readouterr()
    title, *lines = said.out.splitlines()
    assert title.split() == ["written", "size", "capture"] and len(lines) == 12
    assert lines[0].endswith("2026-11-14T10-00-00-shop.jsonl") and "2.0 kB" in lines[0]
    assert "2 older captures" in said.err and "mcpdesk open FILE" in said.err


@pytest.mark.parametrize("words", [[], ["open"]])
def test_exchanges_as_json_lines_are_told_from_a_capture(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported = tmp_path / "exported.jsonl"
    exported.write_text('{"number":1,"time":"2026-11-02T10:00:00Z","kind":"request"}\n')
    assert run([*words, str(exported)]) != 0
    said = capsys.readouterr().err
    assert "exported.jsonl is not a capture, but an export as JSON Lines" in said
    assert "Export traffic as a capture" in said


def test_a_capture_named_as_a_folder_leads_here(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([str(capture)]) != 0
    assert f"mcpdesk open {capture}" in capsys.readouterr().err


@pytest.mark.process
def test_settings_and_screen_are_put_back() -> None:
    outer, inner = open_terminal()
    try:
        before = termios.tcgetattr(inner)
        terminal = screen_runs.Terminal(inner)
        tty.setraw(inner)
        terminal.restore()
        assert termios.tcgetattr(inner) == before
        assert os.read(outer, 4096).decode() == screen_runs.LEAVE_SCREEN
    finally:
        os.close(inner)
        os.close(outer)


@pytest.mark.process
def test_ctrl_s_does_not_stop_what_a_screen_writes() -> None:
    outer, inner = open_terminal()
    try:
        before = termios.tcgetattr(inner)
        terminal = screen_runs.Terminal(inner)
        terminal.ignore_ctrl_s()
        os.write(outer, b"\x13")
        terminal.write("drawn")
        said = b""
        while b"drawn" not in said:
            readable, _, _ = select.select([outer], [], [], 10)
            assert readable, said
            said += os.read(outer, 4096)
        terminal.restore_settings()
        assert termios.tcgetattr(inner) == before
    finally:
        termios.tcflow(inner, termios.TCOON)
        os.close(inner)
        os.close(outer)


def test_what_is_no_terminal_is_left_alone() -> None:
    source, sink = os.pipe()
    try:
        screen_runs.Terminal(sink).restore()
        os.close(sink)
        assert os.read(source, 100) == b""
    finally:
        os.close(source)
