"""An exception ends the screen alone: it is started again, and neither the core nor its clients notice."""

from __future__ import annotations

import http.client
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Thread

import pytest

from tests.support.folders import write
from tests.support.terminal import Desk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
F9, ESCAPE, CTRL_C, CTRL_Q, CTRL_R = "\x1b[20~", "\x1b", "\x03", "\x11", "\x12"
LEAVE_SCREEN = b"\x1b[?1049l"
PROGRAM = """
import sys
from mcpdesk.tui.screens.main_screen import MainScreen

def key_f9(self):
    password = "hunter2"
    raise ValueError("the pane broke")

MainScreen.key_f9 = key_f9
from mcpdesk.__main__ import main
sys.exit(main())
"""
TOOLS = '''
import asyncio
from pathlib import Path


async def hold(until: str, note: str = "") -> str:
    """Wait for a file."""
    while not Path(until).exists():
        await asyncio.sleep(0.01)
    return "held to the end"
'''


class Client:
    """One kept HTTP connection."""

    def __init__(self, port: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=120)
        self.connection.connect()
        self.socket = self.connection.sock

    def call(self, until: Path) -> str:
        params = {"name": "hold", "arguments": {"until": str(until)}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        accepted = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        self.connection.request("POST", "/mcp/small", body, accepted)
        said = self.connection.getresponse().read().decode()
        assert self.connection.sock is self.socket
        return said


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "small", {"mcp.json": '{"name": "small"}', "tools/hold.py": TOOLS})


@contextmanager
def client_of(desk: Desk) -> Iterator[Client]:
    client = Client(port_of(desk))
    try:
        yield client
    finally:
        client.socket.close()
        client.connection.close()


def desk_on(arguments: list[str], before: str = "") -> Desk:
    return Desk(arguments, columns=130, rows=40, program=(sys.executable, "-c", before + PROGRAM))


def port_of(desk: Desk) -> str:
    found = re.search(r"127\.0\.0\.1:(\d+)", desk.see(r"127\.0\.0\.1:\d+/"))
    assert found is not None
    return found[1]


def has_left_again(desk: Desk, left: int) -> bool:
    return desk.raw.count(LEAVE_SCREEN) > left


SLOWLY = "from mcpdesk.cli import screen_runs; screen_runs.CRASH_WINDOW_S = 600"
"""Counts crashes together that are further apart on a busy machine."""


def fail_three_times(desk: Desk) -> None:
    for times in range(3):
        desk.see("Wait for a file")
        left = desk.raw.count(LEAVE_SCREEN)
        desk.press(F9)
        desk.wait(partial(has_left_again, desk, left), "the end of the screen")
        desk.see("stays closed" if times == 2 else "started again")


def reports(own_folders: Path) -> list[str]:
    return [one.read_text() for one in sorted((own_folders / "state" / "crashes").glob("*.txt"))]


def test_screen_starts_again_where_it_was_while_calls_go_on(
    folder: Path, tmp_path: Path, own_folders: Path
) -> None:
    with desk_on([str(folder), "--port", "0"]) as desk, client_of(desk) as client:
        desk.see("Wait for a file")
        done = tmp_path / "done"
        answers: list[str] = []
        caller = Thread(target=lambda: answers.append(client.call(done)))
        caller.start()
        desk.press("2")
        desk.see(r"tools/call +hold")
        desk.press(F9)
        desk.see("The screen failed and was started again .*ValueError: the pane broke")
        assert re.search(r"tools/call +hold", desk.see("following"))  # the traffic, not the first screen
        done.touch()
        caller.join(20)
        assert "held to the end" in answers[0] and "held to the end" in client.call(done)
        desk.press("5")
        desk.see("The screen failed and was closed .*ValueError: the pane broke")
        desk.press(CTRL_Q)
        desk.see("Quit mcpdesk|^$")
        desk.press("y")
        assert desk.end() == 0
        assert b"hunter2" not in desk.raw
    (report,) = reports(own_folders)
    assert "in key_f9" in report and "ValueError: the pane broke" in report and "hunter2" not in report


def test_what_was_entered_and_called_is_there_again(folder: Path, tmp_path: Path) -> None:
    with desk_on([str(folder), "--port", "0"]) as desk:
        desk.see("Wait for a file")
        done = tmp_path / "done"
        desk.press("\r")
        desk.see("until")
        desk.press(str(done))
        desk.see(re.escape(str(done)[-20:]))
        desk.press(CTRL_R)
        desk.see(r"running|\d\.\d s")
        desk.press(ESCAPE)
        desk.press(F9)
        desk.see("was started again")
        desk.see(re.escape(str(done)[:20]))
        done.touch()
        desk.see("held to the end")


def test_screen_that_fails_at_once_stays_closed_until_enter_is_pressed(folder: Path, tmp_path: Path) -> None:
    done = tmp_path / "done"
    done.touch()
    with desk_on([str(folder), "--port", "0"], SLOWLY) as desk, client_of(desk) as client:
        fail_three_times(desk)
        desk.see(r"The server continues at http://127\.0\.0\.1:\d+/mcp/small")
        assert "held to the end" in client.call(done)
        desk.press("\r")
        desk.see("Wait for a file")
        fail_three_times(desk)
        desk.press(CTRL_C)
        assert desk.end() == 1


def test_capture_s_screen_starts_again_too(folder: Path, tmp_path: Path, own_folders: Path) -> None:
    done = tmp_path / "done"
    done.touch()
    with desk_on([str(folder), "--port", "0"]) as desk:
        with client_of(desk) as client:
            client.call(done)
        desk.see("tools/call +hold")
        left = desk.raw.count(LEAVE_SCREEN)
        desk.press(CTRL_Q)
        desk.wait(
            lambda: "Quit mcpdesk" in desk.text or has_left_again(desk, left), "the end, or the question"
        )
        if not has_left_again(desk, left):  # the client's connection still counts
            desk.press("y")
        desk.end()
    (capture,) = (own_folders / "state" / "captures").glob("*.jsonl")
    with desk_on(["open", str(capture)]) as desk:
        desk.see("tools/call +hold")
        desk.press(F9)
        desk.see("The screen failed and was started again")
        desk.see("tools/call +hold")
        desk.press(CTRL_Q)
        assert desk.end() == 0
