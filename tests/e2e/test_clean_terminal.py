"""Commands without a screen at a real terminal: what hosted code and programs write is only text there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pexpect
import pytest

from mcpdesk.transports.clean_terminal import cleaned
from tests.support.features import having
from tests.support.patience import WITHIN_S

EVIL = "\x1b]52;c;UFdORUQ=\x07\x1b]0;TITLE\x07\x9b31m\u202e\x1b[31m"
WRITES = f"""
import atexit, logging, os, subprocess, sys, warnings
EVIL = {EVIL!r}
def write(where):
    sys.stderr.write(where + "-stream" + EVIL + "\\n")
    sys.__stderr__.write(where + "-original" + EVIL + "\\n")
    sys.__stderr__.flush()
    os.write(2, (where + "-descriptor" + EVIL + "\\n").encode())
    child = "import os, sys; os.write(2, sys.argv[1].encode())"
    subprocess.run([sys.executable, "-c", child, where + "-child" + EVIL + "\\n"])
    warnings.warn(where + "-warning" + EVIL, stacklevel=1)
    logging.getLogger("x").warning(where + "-logging" + EVIL)
    print(where + "-print" + EVIL)
"""
TOOLS = f"""{WRITES}
write("import")
atexit.register(lambda: os.write(2, ("end" + EVIL + "\\n").encode()))
atexit.register(lambda: os.write(1, ("out" + EVIL + "\\n").encode()))
async def shout() -> str:
    write("call")
    return "done" + EVIL
"""
PROGRAM = f"""{WRITES}
import json
def answer(message):
    match message["method"]:
        case "initialize":
            info = {{"name": EVIL, "version": EVIL}}
            return {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}}, "serverInfo": info}}
        case "tools/list":
            schema = {{"type": "object"}}
            return {{"tools": [{{"name": "shout", "description": "it" + EVIL, "inputSchema": schema}}]}}
        case "tools/call":
            os.write(2, ("call-descriptor" + EVIL + "\\n").encode())
            return {{"content": [{{"type": "text", "text": "done" + EVIL}}]}}
sys.stderr.write("begun" + EVIL + "\\n")
sys.stderr.flush()
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message)
        error = {{"code": -32601, "message": "no" + EVIL}}
        outcome = {{"result": result}} if result else {{"error": error}}
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], **outcome}}), flush=True)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a server folder `evil` and a program `evil.py`."""
    folder = tmp_path / "evil"
    for name in ("tools", "cases", "resources", "prompts"):
        (folder / name).mkdir(parents=True)
    (folder / "mcp.json").write_text('{"name": "evil"}')
    (folder / "tools" / "shout.py").write_text(TOOLS)
    (folder / "resources" / "note.txt").write_text(f"note{EVIL}")
    (folder / "prompts" / "hello.md").write_text(f"---\ndescription: says hello\n---\nhello{EVIL}")
    (folder / "cases" / "a.yaml").write_text("- tool: shout\n  expect: {text: other}\n")
    (tmp_path / "evil.py").write_text(PROGRAM)
    return tmp_path


def _spawn(place: Path, arguments: Sequence[str]) -> pexpect.spawn:
    state, runtime = place / "state", place / "run"
    runtime.mkdir(mode=0o700)
    return pexpect.spawn(
        sys.executable,
        ["-m", "mcpdesk", *arguments],
        cwd=str(place),
        env={
            **os.environ,
            "MCPDESK_STATE_DIR": str(state),
            "XDG_RUNTIME_DIR": str(runtime),
            "NO_COLOR": "1",  # colours of our own are escape sequences, too
        },
        timeout=WITHIN_S,
    )


def _shown(terminal: pexpect.spawn) -> str:
    """All that reached the terminal until the command ended."""
    terminal.expect(pexpect.EOF)
    terminal.close()
    return _safe(terminal.before)


OWN_COLOUR = re.compile(r"(?m)^\x1b\[3[12]m([^\x1b]*)\x1b\[0m")
"""Red or green that a command of ours begins a line with, around text without commands."""


def _safe(data: bytes) -> str:
    text = OWN_COLOUR.sub(r"\1", data.decode())
    found = [each for each in text if each in "\x1b\x07\x9b\u202e"]
    assert not found, text
    return text


HOSTED = {
    "call": ["call", "evil", "shout"],
    "list": ["list", "evil"],
    "read": ["read", "evil", "evil://note"],
    "prompt": ["prompt", "evil", "hello"],
    "schemas": ["schemas", "evil", "--for", "openai"],
}
HOSTED |= having("contract", ("check", ["check", "evil"]))
HOSTED |= having("cases", ("test", ["test", "evil"]))
HOSTED |= having("load", ("load", ["load", "evil", "shout", "--for", "0.1"]))
SLOW = pytest.mark.slow


@pytest.mark.process
@pytest.mark.parametrize(
    "command", ["call", *(pytest.param(each, marks=SLOW) for each in HOSTED if each != "call")]
)
def test_hosted_code_sends_nothing_but_text_to_the_terminal(command: str, place: Path) -> None:
    shown = _shown(_spawn(place, HOSTED[command]))
    for each in (
        "import-stream",
        "import-original",
        "import-descriptor",
        "import-child",
        "import-warning",
        "end",
        "out",
    ):
        assert f"{each}␛]52;c;" in shown, shown
    if command == "call":
        for each in ("call-stream", "call-descriptor", "call-child", "call-logging", "done"):
            assert f"{each}␛]52;c;" in shown, shown


@SLOW
@pytest.mark.parametrize("command", ["serve", "watch"])
def test_a_command_that_runs_until_it_is_stopped_sends_nothing_but_text(command: str, place: Path) -> None:
    arguments = {"serve": ["serve", "evil", "--port", "0"], "watch": ["watch", "evil"]}[command]
    terminal = _spawn(place, arguments)
    terminal.expect({"serve": "http://", "watch": "import-descriptor"}[command])
    before = _safe(terminal.before)
    terminal.kill(signal.SIGTERM if command == "serve" else signal.SIGINT)
    shown = before + "import-descriptor" + _shown(terminal)
    assert "import-stream␛]52;c;" in shown


@SLOW
@pytest.mark.parametrize("arguments", [["stdio", "evil"], ["stdio", "--", sys.executable, "evil.py"]])
def test_what_a_client_starts_sends_nothing_but_text_on_stderr(arguments: list[str], place: Path) -> None:
    mark = "import-descriptor" if arguments[1] == "evil" else "begun"
    terminal = _spawn(place, arguments)
    terminal.expect(mark)
    terminal.sendeof()
    assert mark + "␛]52;c;" in _safe(terminal.before) + mark + _shown(terminal)


@SLOW
@pytest.mark.parametrize("command", [["call", "shout"], ["list"], *having("contract", ["check"])])
def test_a_program_sends_nothing_but_text_to_the_terminal(command: list[str], place: Path) -> None:
    shown = _shown(_spawn(place, [*command, "--", sys.executable, "evil.py"]))
    assert "shout" in shown or "done" in shown
    if command[0] == "call":
        assert "call-descriptor␛" in shown


@pytest.mark.process
def test_a_tap_whose_stderr_is_no_terminal_passes_every_byte(place: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "mcpdesk", "stdio", "--", sys.executable, "evil.py"],
        cwd=place, input=b"", capture_output=True, check=False, timeout=WITHIN_S,
        env={**os.environ, "MCPDESK_STATE_DIR": str(place / "state")},
    )  # fmt: skip
    assert f"begun{EVIL}\n".encode() in ended.stderr


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([b"a\x1b[31m"], "a␛[31m"),
        ([b"a\r", b"\nb"], "a\nb"),
        ([b"10%\r20%\r", b"30%"], "10%\n20%\n30%"),
        (["‮".encode()[:1], "‮".encode()[1:]], "‹202e›"),
        ([b"\xff\xfe"], "��"),
        ([b"\xe2\x80"], "�"),
        (["ä".encode()[:1], "ä".encode()[1:] + b"\n"], "ä\n"),
    ],
)
def test_bytes_become_text_wherever_they_are_cut(pieces: list[bytes], text: str) -> None:
    assert "".join(cleaned(iter(pieces))) == text
