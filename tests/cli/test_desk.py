"""What the desk asks of the terminal before it begins."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from mcpdesk.cli.desk import require_terminal
from mcpdesk.errors import DeskUserError
from tests.support.ports import free_port
from tests.support.terminal import Desk


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

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
    with pytest.raises(DeskUserError, match="leave the redirection out"):
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
    captures = list((own_folders / "state" / "captures").glob("*-small*.jsonl"))
    assert len(captures) == 2
    assert all("chatter" in capture.read_text() for capture in captures)
    assert (own_folders / "state" / "calls.jsonl").exists()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_unknown_theme_is_told_and_the_desk_opens(folder: Path) -> None:
    with Desk([str(folder), "--port", "0", "--theme", "nothing"], columns=120, rows=30) as desk:
        desk.see("There is no theme called nothing")


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_broken_manifest_is_shown_and_the_folder_served_once_it_is_mended(folder: Path) -> None:
    whole = (folder / "mcp.json").read_text()
    (folder / "mcp.json").write_text(whole.replace("}}", '}\n "tols": 1}'))
    with Desk([str(folder), "--port", "0"]) as desk:
        assert "✕ mcp.json" in desk.see("unavailable: not JSON")
        (folder / "mcp.json").write_text(whole.replace("page_size", "max_tasks"))
        desk.see("settings.max_tasks can count from")
        (folder / "mcp.json").write_text(whole.replace('{"page_size": 2}', "{}"))
        desk.see("Greet somebody")
        desk.press("\x11")
        assert desk.end() == 0


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_broken_first_manifest_that_may_set_anything_holds_the_others_back(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (folder / "mcp.json").write_text('{"settings": {')
    with Desk([str(folder), str(tmp_path / "other"), "--port", "0"], columns=120, rows=30) as desk:
        desk.see("unavailable: not JSON")
        desk.see("other is not served")
        desk.press("\x11")
        assert desk.end() == 0
