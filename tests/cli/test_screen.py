"""Core and screen together, and what is left when they have gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.terminal import Desk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


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


def test_unknown_theme_is_told_and_the_desk_opens(folder: Path) -> None:
    with Desk([str(folder), "--port", "0", "--theme", "nothing"], columns=120, rows=30) as desk:
        desk.see("There is no theme called nothing")


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
