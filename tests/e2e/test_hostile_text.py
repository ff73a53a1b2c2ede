"""No remote text controls the terminal, wherever it is shown, edited or printed.

Every place that a server's author, a client, or a file on the disk fills has a text in it that would set the
clipboard and the title, leave the screen and ask the terminal questions. A person then walks through the
program in a pseudo-terminal, and everything it wrote there is read.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpdesk.plain_text import harmless
from tests.support.features import having
from tests.support.hostile import commands, foreign, hostile, letters, write_folder, write_state
from tests.support.stdio_server import Server
from tests.support.terminal import Desk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
CALL, JSON, HISTORY, SAVED, QUIT, ESCAPE = "\x12", "\x05", "\x1bOR", "\x13", "\x11", "\x1b[27u"
F4, HOME, NEXT_TAB = "\x1bOS", "\x1b[H", "\x1b[1;2C"
NEAR = 1 << 12  # bytes within which a text is drawn
LEAVE, RING = b"\x1b[?1049l", "control \x07"


@pytest.fixture
def folder(tmp_path: Path, own_folders: Path) -> Path:
    """A hostile server folder, with hostile state files beside it."""
    write_state(own_folders / "state", "aa-echo")
    return write_folder(tmp_path / "hostile")


@pytest.fixture
def desk(folder: Path) -> Iterator[Desk]:
    """The desk on it, large enough to show much at once."""
    with Desk([str(folder), "--port", "0"], columns=150, rows=50) as desk:
        desk.see("s3␛")
        yield desk


def seen(desk: Desk, *tags: str) -> None:
    """Wait until each of the texts was drawn, its first command visible."""
    for tag in tags:
        begin = 0
        while not re.search(rf"{tag}(␛|\\u001b)", letters(desk.raw[begin:])):
            begin = max(0, len(desk.raw) - NEAR)
            desk.see(rf"{tag}(␛|\\u001b)")


def leave_field(desk: Desk) -> None:
    """Go to where letters are actions."""
    desk.press(ESCAPE)
    desk.see(r"\? help")


def see_field(desk: Desk, tag: str) -> None:
    """Wait until the argument `x` is that text: first its end, where the cursor is, then its beginning."""
    desk.see(r"x +\S*␈\[/x\](?s:.*f1 help)")
    desk.press(HOME)
    desk.see(rf"x +{tag}␛")


def open_item(desk: Desk, name: str, shows: str) -> None:
    """Choose an item in the catalogue."""
    leave_field(desk)
    desk.press(ESCAPE)
    desk.see(r"\n/ filter")  # the last one is gone
    desk.press("/")
    desk.see("f1 help")  # the keys of a field: letters are typed from now on
    desk.press(name)
    desk.see(rf"{name} [^\n]*\n.*\d+/\d+")
    desk.press("\r")
    desk.see(rf"(?s){shows}.*\? help")


def take_suggestion(desk: Desk, tag: str) -> None:
    """Fill the first field with the server's suggestion."""
    desk.press("\t")
    desk.see(rf"(?s){tag}␛.*f1 help")
    desk.press(F4)
    desk.see("Suggestions for")
    desk.press("\r")
    desk.see(r"\A(?!(?s:.*)Suggestions for)")


def assert_the_terminal_was_left_alone(desk: Desk, *, bells: int = 0, copied: str = "") -> None:
    """Quit the desk. It sent only its own commands, `bells` bells, and the copies that were asked for."""
    desk.press(QUIT)
    if copied:  # a client's job runs
        desk.see("Quit mcpdesk")
        desk.press("y")
    assert desk.end() == 0
    copy = f"string ]52;c;{base64.b64encode(harmless(copied).encode()).decode()}"
    assert foreign(desk.raw) == [RING] * bool(bells) + [copy] * bool(copied)
    sent = commands(desk.raw)
    assert sent[RING] == bells and sent["csi ?1049h"] == 1
    after = desk.raw.partition(LEAVE)[2]
    assert LEAVE not in after
    said = r"(The traffic was written to a capture, secrets included: mcpdesk open [\w./-]+)?"
    assert re.fullmatch(said, letters(after).strip())


def hostile_client(folder: Path) -> Server:
    """A client that sends only hostile text."""
    client = Server(folder)
    info = {
        "name": hostile("c0"),
        "version": hostile("c1"),
    }
    client.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
    client.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    calls = [
        ("tools/call", {"name": "aa-echo", "arguments": {"x": hostile("c3")},
                        "_meta": {"progressToken": hostile("c4")}}),
        ("tools/call", {"name": "cc-fails", "arguments": {}}),
        ("tools/call", {"name": "dd-breaks", "arguments": {hostile("c5"): hostile("c6")}}),
        ("prompts/get", {"name": "ask-about", "arguments": {"a": hostile("c7")}}),
        ("resources/read", {"uri": hostile("c8")}),
        (hostile("c9"), {}),
        ("tools/call", {"name": "BackgroundBash",
                        "arguments": {"command": f"printf '{hostile('w0')}'; sleep 60"}}),
        ("tools/call", {"name": "SetCallback",
                        "arguments": {"action": "set", "message": "w1\u202e", "delay_seconds": 600}}),
        ("tools/call", {"name": "TaskManager", "arguments": {"action": "create", "query": "w2\u202e"}}),
        ("tools/call", {"name": "PlanMode", "arguments": {"action": "enter", "goal": "w3\u202e"}}),
    ]  # fmt: skip
    for number, (method, params) in enumerate(calls, 2):
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        client.stdin.write(json.dumps(request).encode() + b"\n")
        client.stdin.flush()
        while json.loads(client.stdout.readline()).get("id") != number:
            pass
    return client


def test_the_workbench_draws_and_edits_nothing_a_terminal_would_obey(desk: Desk, own_folders: Path) -> None:
    seen(desk, "s0", "s2", "s3", "s5", "s7", "s8", "s9", "sa", "sb")
    desk.press(JSON)
    seen(desk, "s0")
    desk.see(r"\\u001b\]0;T")
    desk.press(JSON)
    desk.see("(?s)s4␛.*s9␛.*f1 help")  # the first field has the cursor: it may show its end
    open_item(desk, "echo", "t1␛")
    seen(desk, "t0", "t1")
    desk.press(CALL)
    seen(desk, "t6")
    desk.press(HISTORY)
    seen(desk, "h0", "h1")
    desk.press("j\r")
    see_field(desk, "h0")
    desk.press(SAVED)
    seen(desk, "h2")
    desk.see(r"h3\\u0")  # its middle is cut out
    desk.press("\r")
    see_field(desk, "h3")
    desk.press(CALL)
    desk.see(r'(?s)x: ("|text\b.*)h3␛')  # a string in several lines, once the width of the pane is known
    last = json.loads((own_folders / "state" / "calls.jsonl").read_text().splitlines()[-1])
    assert last["arguments"] == {"x": hostile("h3")}, "it is sent as it was, though drawn otherwise"
    open_item(desk, "blocks", "Blocks")
    desk.press(CALL)
    seen(desk, "b0", "b1", "b2", "b3")
    for name, tag in (("fails", "f0"), ("breaks", "f1")):
        open_item(desk, name, "(Fail|Break)")
        desk.press(CALL)
        seen(desk, tag)
    open_item(desk, "zxr1", "r2␛")
    seen(desk, "r1", "r2")
    desk.press(CALL)
    seen(desk, "r3")
    open_item(desk, "wwr4", "id ")
    take_suggestion(desk, "r5")
    open_item(desk, "about", "p1␛")
    take_suggestion(desk, "p2")
    desk.press(CALL)
    seen(desk, "p3")
    open_item(desk, "wqwq/", "k0␛")
    desk.press(CALL)
    seen(desk, "k1")
    assert_the_terminal_was_left_alone(desk)


def test_questions_command_no_terminal(desk: Desk) -> None:
    open_item(desk, "asks", "Ask")
    desk.press(CALL)
    desk.see(r"(?s)asks · waiting ([2-9]|\d\d) s.*q0")  # keys count by then
    seen(desk, "q0", "q1", "q2", "q3")
    desk.press("\r")
    desk.see(r"(?s)asks · waiting ([2-9]|\d\d) s.*q4")
    seen(desk, "q4", "q5", "q6", "q7", "q8")
    desk.press("1\r")
    desk.see("Result ─ ✓")
    seen(desk, "q3")
    assert_the_terminal_was_left_alone(desk, bells=1)


def test_what_clients_send_commands_no_terminal_on_any_screen(desk: Desk, folder: Path) -> None:
    desk.see("http://127.0.0.1")  # clients can join its core now
    client = hostile_client(folder)
    try:
        desk.press("2")
        seen(desk, "c0", "c9")
        desk.press("/")
        desk.see("f1 help")
        desk.press("tool:aa-echo\r")
        desk.see(r"1 of|1 exchange")
        desk.press("\r")
        seen(desk, "c3", "c4")
        desk.press("\r")
        desk.see("/ search")
        desk.press(NEXT_TAB * 2)
        seen(desk, "t3", "t4", "t5")
        desk.press("jjjy")  # past the level and the logger
        desk.see("copied")
        desk.press("e")
        see_field(desk, "c3")
        desk.press(CALL)
        desk.see(r'(?s)x: ("|text\b.*)c3␛')
        leave_field(desk)
        desk.press("2")
        desk.see(r"\d of \d+ exchanges")
        desk.press("vf")
        seen(desk, "h4")
        desk.press(f"{ESCAPE}{ESCAPE}3")
        desk.see("w0")
        for shows in ("w1", "w2", "w3"):
            desk.press(NEXT_TAB)
            desk.see(f"{shows}‹202e›")
        desk.press("4")
        seen(desk, "c1")
        desk.see("s sort")
        desk.press("\r")
        desk.see(r"peer:.*c0␛.*\n.*time")  # and its messages are found
        desk.press("5")
        seen(desk, "t2")
    finally:
        client.close()
    assert_the_terminal_was_left_alone(desk, copied=hostile("t3"))


@pytest.mark.parametrize(
    "arguments",
    [
        *having("contract", ("check",)),
        ("list",),
        ("list", "--json"),
        ("call", "aa-echo", f"x={hostile('c3')}"),
        ("call", "aa-echo", f"x={hostile('c3')}", "--json"),
        ("call", "cc-fails"),
        ("call", "dd-breaks"),
        ("call", hostile("c4")),
        ("read", "test://one"),
        ("read", "test://one", "--json"),
        ("prompt", "ask-about", f"a={hostile('c5')}"),
        ("schemas", "--for", "openai"),
    ],
    ids=lambda arguments: "-".join(word.partition("\x1b")[0] for word in arguments),
)
def test_commands_print_nothing_a_terminal_would_obey(folder: Path, arguments: tuple[str, ...]) -> None:
    with Desk([arguments[0], str(folder), *arguments[1:]], columns=200, rows=50) as program:
        program.end()
        assert foreign(program.raw) == []
        assert "␛]52" in letters(program.raw) or "\\u001b]52" in letters(program.raw)


def test_a_pipe_gets_a_resource_byte_for_byte(folder: Path) -> None:
    words = [sys.executable, "-m", "mcpdesk", "read", str(folder), "test://one"]
    assert subprocess.run(words, capture_output=True, check=True, timeout=60).stdout == hostile("r3").encode()
