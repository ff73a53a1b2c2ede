"""Servers that are programs: messages over pipes, and reports about those that misbehave."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from mcpdesk.client import child_process, hints
from mcpdesk.client.child_process import ChildProcess, ProgramCommand, ProgramEnded
from mcpdesk.client.connection import ServerConnection
from mcpdesk.errors import CallError, ConnectTimeout, InvalidAnswer
from mcpdesk.hosting.core_loop.core_thread import loop_factory
from tests.support.patience import WITHIN_S, until, within
from tests.support.processes import gone

ROOT = Path(__file__).parents[2]
HELLO = (sys.executable, "-m", "mcpdesk", "stdio", "--alone", str(ROOT / "sample_servers" / "hello"))
ANSWERING = """
import json, sys
def say(message): print(json.dumps(message), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    if asked["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "x", "version": "1"}
        say({"jsonrpc": "2.0", "id": asked["id"], "result": result})
    elif asked["method"] == "tools/list":
        TOOLS
    else:
        UNKNOWN
"""
LIST = 'say({"jsonrpc": "2.0", "id": asked["id"], "result": {"tools": []}})'
REFUSE = 'say({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}})'


def _python(text: str) -> ProgramCommand:
    return ProgramCommand((sys.executable, "-c", text))


def _scripted(tools: str = LIST, unknown: str = REFUSE) -> ProgramCommand:
    return _python(ANSWERING.replace("TOOLS", tools).replace("UNKNOWN", unknown))


class Heard:
    """Output of a program besides its answers, and its end."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.strays: list[bytes] = []
        self.pids: list[int] = []
        self.ended: list[ProgramEnded] = []
        self.first_line = asyncio.Event()

    def logged(self, line: str) -> None:
        """A line of stderr."""
        self.log.append(line)
        self.first_line.set()


@asynccontextmanager
async def _started(program: ProgramCommand, heard: Heard | None = None) -> AsyncIterator[ServerConnection]:
    heard = heard or Heard()
    transport = ChildProcess(
        program,
        on_log=heard.logged,
        on_stray=heard.strays.append,
        on_started=heard.pids.append,
        on_ended=heard.ended.append,
    )
    connection = ServerConnection(transport, {"name": "test", "version": "1"})
    try:
        async with within():
            yield connection
    finally:
        await connection.close()


async def _tools(connection: ServerConnection) -> list[str]:
    return [tool["name"] for tool in await connection.list_all("tools/list", "tools")]


@pytest.mark.process
async def test_a_program_is_spoken_to_in_its_newest_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "PROBE_S", WITHIN_S)  # a busy machine starts Python in more than 1.5 s
    heard = Heard()
    async with _started(ProgramCommand(HELLO), heard) as connection:
        assert (await connection.open()).revision.is_stateless
        assert "greet" in await _tools(connection)
        result = await connection.result("tools/call", {"name": "greet", "arguments": {"name": "Ada"}})
    assert "Ada" in str(result["content"])
    assert [ended.code for ended in heard.ended] == [0]


@pytest.mark.process
@pytest.mark.parametrize(
    "unknown",
    [
        REFUSE,
        'say({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32602, "message": "what?"}})',
        "pass",
    ],
    ids=["unknown method", "bad params", "silence"],
)
async def test_a_program_of_an_older_revision_gets_its_handshake(
    unknown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "PROBE_S", 0.3)
    async with _started(_scripted(unknown=unknown)) as connection:
        assert (await connection.open()).revision.name == "2025-06-18"
        assert await _tools(connection) == []


@pytest.mark.process
async def test_what_is_no_message_is_reported_and_does_no_harm() -> None:
    heard = Heard()
    chatty = f"print('starting up'); print('{{\"a\": 1}}'); {LIST}"
    async with _started(_scripted(tools=chatty), heard) as connection:
        assert await _tools(connection) == []
    assert heard.strays == [b"starting up", b'{"a": 1}']


@pytest.mark.process
async def test_a_batch_of_answers_is_taken_apart() -> None:
    batch = 'print(json.dumps([{"jsonrpc": "2.0", "id": asked["id"], "result": {"tools": []}}]), flush=True)'
    async with _started(_scripted(tools=batch)) as connection:
        assert await _tools(connection) == []


WRITES = "sys.stdout.write(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': {'tools': []}}) + END)"


@pytest.mark.process
@pytest.mark.parametrize(
    "end",
    ["''; sys.stdout.flush()", "chr(13); sys.stdout.flush()", "chr(0); sys.stdout.flush()", "''; break"],
)
async def test_a_message_without_a_newline_is_used_with_a_remark(end: str) -> None:
    async with _started(
        _scripted(WRITES.replace(" + END)", " + " + end.replace("; ", "); ", 1)))
    ) as connection:
        remarks: list[str] = []
        connection.remark_listeners.append(lambda remark, request: remarks.append(str(remark.kind)))
        assert await _tools(connection) == []
    assert remarks == ["unterminated"]


@pytest.mark.process
async def test_a_message_that_the_end_of_the_program_cuts_is_reported_as_its_end() -> None:
    cut = """sys.stdout.write('{"jsonrpc": "2.0", "id": %d, "result": {' % asked["id"]); sys.exit(3)"""
    async with _started(_scripted(cut)) as connection:
        remarks: list[str] = []
        connection.remark_listeners.append(lambda remark, request: remarks.append(remark.text))
        with pytest.raises(ProgramEnded, match="exit code 3"):
            await _tools(connection)
    assert len(remarks) == 1 and remarks[0].startswith("the output ended in the middle of a message")


@pytest.mark.process
async def test_answers_that_arrive_only_at_the_end_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "PROBE_S", 0.01)
    logs = "print(asked['method'], file=sys.stderr, flush=True)"
    text = ANSWERING.replace("print(json.dumps(message), flush=True)", "held.append(json.dumps(message))")
    text = text.replace('    if "id"', f'    {logs}\n    if "id"', 1)
    text = f"held = []{text}print(*held, sep=chr(10))"
    heard = Heard()
    async with _started(_python(text.replace("TOOLS", LIST).replace("UNKNOWN", REFUSE)), heard) as connection:
        opening = asyncio.create_task(connection.open())
        await until(lambda: "initialize" in heard.log)
        opening.cancel()
        await connection.close()
        assert "only after its input was closed" in connection.unexpected_bytes


@pytest.mark.process
async def test_the_end_of_a_program_is_named_until_the_next_run_answers(tmp_path: Path) -> None:
    ending = "if not os.path.exists(mark):\n    open(mark, 'w').close()\n    sys.exit('SHOP_KEY is required')"
    text = (
        f"import os, sys\nmark = {str(tmp_path / 'mark')!r}\nsys.stdin.readline()\n{ending}\ninput()\ninput()"
    )
    heard = Heard()
    async with _started(_python(text), heard) as connection:
        opening = asyncio.create_task(connection.open())
        await until(lambda: len(heard.pids) == 2)
        reason = "before it was started again, the program ended with exit code 1: SHOP_KEY is required"
        assert connection.unexpected_bytes == reason
        advice = hints.hint(ConnectTimeout(f"no answer to initialize within 8 s: {reason}"))
        assert advice.startswith("The program needs the environment variable SHOP_KEY: ")
        opening.cancel()


@pytest.mark.parametrize(
    ("message", "variable"),
    [
        ("GITHUB_TOKEN environment variable is required", "GITHUB_TOKEN"),
        ("Error: Missing BRAVE_API_KEY", "BRAVE_API_KEY"),
        ("KeyError: 'DB_URL'", "DB_URL"),
        ("please set the OPENAI_API_KEY variable", "OPENAI_API_KEY"),
        ("code: 'ERR_MODULE_NOT_FOUND', it is missing", ""),
        ("SIGTERM", ""),
    ],
)
def test_advice_names_a_missing_variable(message: str, variable: str) -> None:
    advice = hints.hint(ProgramEnded(1, [message]))
    assert (f"environment variable {variable}:" in advice) is bool(variable)


@pytest.mark.process
async def test_a_flood_on_stderr_holds_nothing_up() -> None:
    heard = Heard()
    flood = f"sys.stderr.write('noise\\n' * 200_000); {LIST}"
    async with _started(_scripted(tools=flood), heard) as connection:
        assert await _tools(connection) == []
    assert len(heard.log) == 200_000


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "told"),
    [
        (ProgramCommand(("no-such-program-here",)), "program 'no-such-program-here' does not exist"),
        (ProgramCommand((str(ROOT / "README.md"),)), "is not executable"),
        (
            ProgramCommand((sys.executable,), folder=Path("/no/such/folder")),
            "folder /no/such/folder does not exist",
        ),
        (ProgramCommand(("a\0b",)), "cannot be started: embedded null byte"),
        (ProgramCommand((sys.executable,), {"A": "b\0c"}), "cannot be started: embedded null byte"),
        (_python("import sys; sys.exit('no database at 1.2.3.4')"), "exit code 1: no database at 1.2.3.4"),
        (_python("raise SystemExit(0)"), "ended with exit code 0"),
        (_python("import os; os.kill(os.getpid(), 9)"), "ended by SIGKILL"),
        (_python("import os, time\nif os.fork(): os._exit(7)\ntime.sleep(60)"), "ended with exit code 7"),
        (_python("import sys; sys.stdin.close(); import time; time.sleep(0.2)"), "ended with exit code 0"),
        (_python("import os, time; os.close(1); time.sleep(60)"), "SIGTERM.*it closed its standard output"),
    ],
    ids=[
        "missing",
        "not executable",
        "no folder",
        "NUL",
        "NUL in a variable",
        "says why",
        "quiet",
        "killed",
        "forks",
        "reads nothing",
        "writes nothing",
    ],
)
async def test_a_program_that_cannot_be_used_is_named_with_the_reason(
    program: ProgramCommand, told: str
) -> None:
    if "close(1)" in program.argv[-1] and "uvloop" in type(asyncio.get_running_loop()).__module__:
        pytest.skip("uvloop reports the end of stdout when the program exits")
    async with _started(program) as connection:
        with pytest.raises(CallError, match=told) as failed:
            await connection.open()
    assert (hints.hint(failed.value) == hints.NO_FOLDER) == (program.folder is not None)


@pytest.mark.process
async def test_a_program_may_close_its_stdout_while_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "CLOSED_STDOUT_WAIT_S", 0.05)
    heard = Heard()
    ending = ANSWERING.replace("TOOLS", LIST).replace("UNKNOWN", REFUSE)
    ending += "import os, time; sys.stdout.flush(); os.close(1); time.sleep(0.3); os._exit(0)"
    async with _started(_python(ending), heard) as connection:
        assert await _tools(connection) == []
    assert [ended.code for ended in heard.ended] == [0]
    assert heard.log == []


@pytest.mark.process
async def test_a_call_fails_when_the_program_ends_under_it_and_the_next_one_starts_it_again(
    tmp_path: Path,
) -> None:
    heard = Heard()
    dying = f"import os; os.path.exists('again') or (open('again', 'w').close(), os._exit(3)); {LIST}"
    program = ProgramCommand(_scripted(tools=dying).argv, folder=tmp_path)
    async with _started(program, heard) as connection:
        with pytest.raises(ProgramEnded, match="exit code 3"):
            await _tools(connection)
        assert await _tools(connection) == []
    assert len(heard.pids) == 2


@pytest.mark.process
async def test_an_answer_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "MAX_LINE_BYTES", 1 << 20)
    async with _started(_scripted(tools="print('x' * (2 << 20), flush=True)")) as connection:
        with pytest.raises(InvalidAnswer, match="exceeds 1048576 bytes"):
            await _tools(connection)


@pytest.mark.process
async def test_nothing_the_program_started_is_left_when_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "EXIT_TIMEOUT_S", 1.0)
    heard = Heard()
    stubborn = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, file=sys.stderr, flush=True)\n"
        "while True: time.sleep(1)"
    )
    async with _started(_python(stubborn), heard) as connection:
        opening = asyncio.create_task(connection.open())
        await heard.first_line.wait()
        family = [psutil.Process(heard.pids[0]), psutil.Process(int(heard.log[0]))]
        opening.cancel()
    assert gone(family)


def test_a_program_is_opened_called_and_ended_on_uvloop() -> None:
    """Transports of uvloop do not inherit from asyncio's."""
    pytest.importorskip("uvloop")
    heard = Heard()

    async def use() -> None:
        async with _started(_scripted(), heard) as connection:
            await connection.open()
            assert await _tools(connection) == []

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        assert type(runner.get_loop()).__module__ == "uvloop"
        runner.run(use())
    assert len(heard.pids) == 1
    assert len(heard.ended) == 1
