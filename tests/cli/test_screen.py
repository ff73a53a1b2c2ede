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


def test_broken_manifest_is_told_before_anything_is_drawn(folder: Path) -> None:
    (folder / "mcp.json").write_text("{")
    with Desk([str(folder)]) as desk:
        assert desk.end() == 2
        assert b"mcp.json:1:" in desk.raw
        assert b"\x1b[?1049h" not in desk.raw
