"""The real program in a pseudo-terminal, from the first screen to the shell's prompt."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.stdio_server import Server
from tests.support.terminal import Desk

pytestmark = pytest.mark.timeout(120)
slow = pytest.mark.slow
CTRL_Q, CTRL_R, ESCAPE = "\x11", "\x12", "\x1b"
NEXT_TAB, PREVIOUS_TAB = "\x1b[1;2C", "\x1b[1;2D"
LEAVE_SCREEN, SHOW_CURSOR = b"\x1b[?1049l", b"\x1b[?25h"
GREET = '''
async def greet(name: str = "Ada") -> str:
    """Greet somebody."""
    print("a stray print")
    return f"Hello, {name}!"
'''
STUCK = '''
import time

async def stuck() -> str:
    """Block the loop."""
    time.sleep(100)
    return ""
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A server folder with one tool."""
    tools = tmp_path / "small" / "tools"
    tools.mkdir(parents=True)
    (tools / "greet.py").write_text(GREET)
    return tmp_path / "small"


@pytest.mark.process
@pytest.mark.parametrize(
    ("columns", "rows"), [(80, 24), pytest.param(120, 40, marks=slow), pytest.param(200, 60, marks=slow)]
)
def test_tool_is_called_and_the_desk_is_left(folder: Path, columns: int, rows: int) -> None:
    with Desk([str(folder), "--port", "0"], columns=columns, rows=rows) as desk:
        desk.see("http://127.0.0.1:")
        desk.see("Greet somebody")
        desk.press(CTRL_R)
        desk.see("Hello, Ada!")
        desk.press("2")
        desk.see("tools/call")
        desk.press(CTRL_Q)
        assert desk.end() == 0
        assert LEAVE_SCREEN in desk.raw and SHOW_CURSOR in desk.raw


@slow
def test_tiny_terminal_is_survived(folder: Path) -> None:
    with Desk([str(folder), "--port", "0"], columns=20, rows=5) as desk:
        desk.see(r"\S")
        desk.press(CTRL_Q)
        assert desk.end() == 0


@slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_restores_the_terminal(folder: Path, number: int) -> None:
    with Desk([str(folder), "--port", "0"]) as desk:
        desk.see("Greet somebody")
        os.kill(desk.process.pid, number)
        assert desk.end() == 0
        assert LEAVE_SCREEN in desk.raw and SHOW_CURSOR in desk.raw


@slow
def test_stuck_tool_does_not_hold_the_person(folder: Path) -> None:
    (folder / "tools" / "stuck.py").write_text(STUCK)
    (folder / "tools" / "greet.py").unlink()
    with Desk([str(folder), "--port", "0"], columns=160, rows=40) as desk:
        desk.see("http://127.0.0.1:")
        desk.see("Block the loop")
        desk.press(CTRL_R)
        desk.see(r"stuck \d.*tools/stuck.py:6")
        desk.press("5")
        desk.see("Logs")
        desk.press(CTRL_Q)
        desk.see("Quit mcpdesk")
        desk.press("y")
        assert desk.end() == 0


@slow
def test_stray_prints_are_log_lines_with_their_place(folder: Path) -> None:
    with Desk([str(folder), "--port", "0"], columns=120, rows=40) as desk:
        desk.see("Greet somebody")
        desk.press(CTRL_R)
        desk.see("Hello, Ada!")
        desk.press("5")
        desk.see(r"tools/greet.py:4.*a stray print|a stray print.*tools/greet.py:4")


@slow
def test_broken_file_is_shown_and_the_rest_serves(folder: Path) -> None:
    (folder / "tools" / "broken.py").write_text("1 / 0\n")
    with Desk([str(folder), "--port", "0"], columns=120, rows=40) as desk:
        desk.see("broken")
        desk.see("greet")


@slow
def test_taken_port_makes_the_desk_move_and_say_so(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with Desk([str(folder), "--port", str(port)], columns=120, rows=40) as desk:
            desk.see(f"Port {port} is taken")


@slow
def test_address_that_is_not_ours_ends_the_desk_with_a_sentence(folder: Path) -> None:
    with Desk([str(folder), "--http", "192.0.2.1:0"]) as desk:
        assert desk.end() == 3
        assert b"192.0.2.1" in desk.raw
        assert b"Traceback" not in desk.raw


@slow
def test_without_a_terminal_the_way_out_is_told(folder: Path, repository: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "mcpdesk", str(folder)],
        cwd=repository, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert finished.returncode == 2
    assert "needs a terminal" in finished.stderr
    assert "mcpdesk serve" in finished.stderr
    assert finished.stdout == ""


@slow
def test_bundled_sample_is_the_default() -> None:
    with Desk(["--port", "0"], columns=120, rows=40) as desk:
        desk.see("brew-coffee")
        desk.see(r"▸ Built-in tools +13")
        desk.see("key ●|key")


@slow
def test_what_a_client_leaves_running_is_followed_and_ended(folder: Path) -> None:
    tools = ["BackgroundBash", "SetCallback", "TaskManager", "PlanMode"]
    (folder / "mcp.json").write_text(json.dumps({"name": "small", "builtins": tools}))
    colours = "printf '\\033]0;evil\\007\\033[32mgreen\\033[0m %s\\n' $((6*7)); exec sleep 600"
    calls = (
        ("BackgroundBash", {"command": colours}),
        ("TaskManager", {"action": "create", "query": "Release 1.2"}),
        ("TaskManager", {"action": "add", "query": "", "text": "tag it"}),
        ("SetCallback", {"action": "set", "message": "stretch your legs", "delay_seconds": 600}),
        ("PlanMode", {"action": "enter", "goal": "Tidy up"}),
    )
    with Desk([str(folder), "--port", "0"], columns=120, rows=40) as desk:
        desk.see("http://127.0.0.1")  # clients can join its core now
        client = Server(folder)
        try:
            client.shake_hands()
            for number, (name, arguments) in enumerate(calls, 2):
                made = client.ask("tools/call", {"name": name, "arguments": arguments}, number)
                assert not made["result"].get("isError"), made
            desk.see(r"● plan mode +▸ 1 job +◷ (9:\d\d|10:00)")
            desk.press("3")
            desk.see("(?s)▸ running .*green 42")
            assert b"\x1b]0;evil" not in desk.raw
            desk.press(NEXT_TAB)
            desk.see("in 9:.*stretch your legs")
            desk.press("r")
            desk.see("✓ fired")
            desk.press(NEXT_TAB)
            desk.see(r"(?s)● current.*Release 1.2.*\[ \].*tag it")
            desk.press(NEXT_TAB)
            desk.see("(?s)plan mode is ON.*Plan: Tidy up")
            desk.press(CTRL_Q)
            desk.see("(?s)Quit mcpdesk.*1 running job")
            desk.press("n")
            desk.see(r"(?s)\A(?!.*Quit mcpdesk)")  # until it is gone, it takes what is typed
            desk.press(PREVIOUS_TAB * 3)
            desk.see("▸ running")
            desk.press("x")
            desk.see("Kill printf")
            desk.press("y")
            desk.see("☓ killed")
        finally:
            client.close()
