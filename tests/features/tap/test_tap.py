"""The tap as a client starts it: a process between real pipes, in front of a program."""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import psutil
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.readable_message import remarks
from mcpdesk.recorder.record import MAX_KEPT_BYTES, Direction
from tests.support.patience import WITHIN_S, wait_until
from tests.support.processes import gone

ROOT = Path(__file__).parents[3]
TAP = [sys.executable, "-m", "mcpdesk", "stdio", "--"]
PYTHON = [sys.executable, "-S", "-c"]
ECHO = [*PYTHON, "import os\nwhile d := os.read(0, 65536):\n while d: d = d[os.write(1, d):]"]
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
ODD = b'\n\r\n{"a":\x00 not json\xff\xfe\n  {"jsonrpc":"2.0","id":2,"result":{}}  \r\n[1,\n\x1b[2Jlog line\n'

PRETTY_SERVER = """
import os
for identifier in b"7", b"8":
    os.read(0, 65536)
    os.write(1, b'{"jsonrpc": "2.0",\\n "id": ' + identifier)
    os.read(0, 1)
    os.write(1, b',\\n "result": {}}\\n')
"""


Process = subprocess.Popen[bytes]
_started: list[Process] = []


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """End all processes that a test started."""
    yield
    while _started:
        process = _started.pop()
        process.kill()
        process.communicate()


def start(command: Sequence[str], *, stdin: int = -1, stdout: int = -1) -> Process:
    """A tap in front of a command."""
    process = subprocess.Popen([*TAP, *command], cwd=ROOT, bufsize=0, stdin=stdin, stdout=stdout, stderr=-1)
    _started.append(process)
    return process


def read(process: Process, size: int) -> bytes:
    """Read `size` bytes of its output."""
    assert process.stdout is not None
    data = b""
    while len(data) < size:
        assert select.select([process.stdout], [], [], WITHIN_S)[0], f"only {data!r} came"
        more = os.read(process.stdout.fileno(), size - len(data))
        assert more, f"ended after {data!r}"
        data += more
    return data


def write(process: Process, data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(data)


def captures(home: Path) -> list[Path]:
    return sorted((home / "state" / "captures").glob("*.jsonl"))


def capture(home: Path) -> Archive:
    """The capture of a tap that has ended, once all is written."""

    def ended() -> Archive | None:
        paths = captures(home)
        found = Archive(paths[0]) if paths else None
        return None if found is None or found.is_live else found

    found: Archive = wait_until(ended, home)
    return found


@pytest.mark.process
def test_every_byte_passes_at_once_and_nothing_is_added(own_folders: Path) -> None:
    tap = start(ECHO)
    for piece in (b"par", b"tial", b"\n", PING, ODD, b"no newline at the end"):
        write(tap, piece)
        assert read(tap, len(piece)) == piece  # before anything follows it
    rest, said = tap.communicate(timeout=WITHIN_S)
    assert (rest, said, tap.returncode) == (b"", b"", 0)


@pytest.mark.process
def test_what_passes_is_in_the_capture_with_direction_time_and_what_is_no_message(own_folders: Path) -> None:
    before = time.time()
    tap = start(ECHO)
    tap.communicate(PING + ODD + b"[unfinished", timeout=WITHIN_S)
    with_odd = [stripped for line in (PING + ODD + b"[unfinished").split(b"\n") if (stripped := line.strip())]
    found = capture(own_folders)
    frames = [frame for frame in found.frames(0, found.count) if frame is not None]
    for direction in Direction:
        assert [frame.data for frame in frames if frame.direction is direction] == with_odd
    assert all(before <= frame.time <= time.time() for frame in frames)
    found.index.catch_up(1)
    assert found.index.exchanges[0].method == "ping"
    lines = captures(own_folders)[0].read_bytes()
    assert b'"base64":' in lines and b'"text":"[unfinished"' in lines
    info = found.connections[1]
    assert info.transport == "stdio" and info.closed is not None and info.opened <= frames[0].time


@pytest.mark.process
def test_a_message_over_several_lines_passes_as_it_is_and_is_one_with_a_remark(own_folders: Path) -> None:
    asked = b'{\n  "jsonrpc": "2.0",\r\n  "id": 7,\n  "method": "tools/list"\n}\n'
    headed = b'Content-Length: 40\r\n\r\n{"jsonrpc":"2.0","id":8,"method":"ping"}'
    tap = start([*PYTHON, PRETTY_SERVER])
    for piece, identifier in ((asked, b"7"), (headed, b"8")):
        write(tap, piece)
        begun = b'{"jsonrpc": "2.0",\n "id": ' + identifier
        assert read(tap, len(begun)) == begun  # before the message is whole
        write(tap, b"\n")
        end = b',\n "result": {}}\n'
        assert read(tap, len(end)) == end
    tap.communicate(timeout=WITHIN_S)
    found = capture(own_folders)
    frames = [frame.data for frame in found.frames(0, found.count) if frame is not None]
    answer = b'{"jsonrpc": "2.0",\n "id": %b,\n "result": {}}'
    assert frames == [asked.strip(), answer % b"7", headed, answer % b"8"]
    index = found.index
    while index.catch_up(1):
        pass
    exchanges = list(index.exchanges)
    assert [(each.method, each.status) for each in exchanges] == [("tools/list", "ok"), ("ping", "ok")]
    told = [[str(each.kind) for each in remarks(index, one)] for one in exchanges]
    assert told == [["several-lines"], ["content-length", "several-lines"]]
    assert all(index.is_remarked(each.number) for each in exchanges)


@pytest.mark.process
@pytest.mark.parametrize("in_one_line", [True, False])
def test_fifty_megabytes_stream_through_both_ways_in_little_memory(
    in_one_line: bool, own_folders: Path
) -> None:
    body = bytes(50 << 20) if in_one_line else (b"x" * 1023 + b"\n") * (50 << 10)
    tap = start(ECHO)
    process = psutil.Process(tap.pid)
    most = [0]

    def watch() -> None:
        with suppress(psutil.Error):
            while True:
                most[0] = max(most[0], process.memory_info().rss)
                time.sleep(0.01)

    threading.Thread(target=watch, daemon=True).start()
    came, _ = tap.communicate(body + b"\n", timeout=6 * WITHIN_S)
    assert came == body + b"\n" and tap.returncode == 0
    assert most[0] < 150 << 20
    if in_one_line:
        frames = [frame for frame in capture(own_folders).frames(0, 2) if frame is not None]
        assert [(len(frame.data), frame.size) for frame in frames] == [(MAX_KEPT_BYTES, len(body))] * 2


@pytest.mark.process
def test_a_side_that_does_not_read_holds_the_other_one_up(own_folders: Path) -> None:
    tap = start([*PYTHON, "import time; print('ready', flush=True); time.sleep(60)"])
    assert tap.stdin is not None and read(tap, 6) == b"ready\n"
    os.set_blocking(tap.stdin.fileno(), False)
    taken = 0
    while select.select([], [tap.stdin], [], 1.0)[1]:
        taken += os.write(tap.stdin.fileno(), bytes(65536))
        assert taken < 2 << 20, "the tap stores output that its client does not read"
    tap.terminate()
    assert tap.wait(WITHIN_S) == 128 + signal.SIGTERM


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "code", "told"),
    [
        ("print('bye'); raise SystemExit(7)", 7, b""),
        ("import os; os.kill(os.getpid(), 9)", 137, b""),
        ("import sys; sys.stderr.write('a log line'); sys.stdout.close(); sys.exit(3)", 3, b"a log line"),
    ],
)
def test_it_ends_as_its_program_does_whose_stderr_is_its_own(
    program: str, code: int, told: bytes, own_folders: Path
) -> None:
    tap = start([*PYTHON, program])
    assert tap.stderr is not None
    assert tap.wait(WITHIN_S) == code and tap.stderr.read() == told


@pytest.mark.process
def test_a_program_that_cannot_be_started_is_told_in_one_sentence(own_folders: Path) -> None:
    tap = start(["no-such-program"])
    said = tap.communicate(timeout=WITHIN_S)
    assert tap.returncode == 3 and said[0] == b""
    assert said[1].startswith(b"mcpdesk: The program 'no-such-program' cannot be started: No such file")


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_are_the_programs(number: signal.Signals, own_folders: Path) -> None:
    catch = f"import os, signal, time; signal.signal({int(number)}, lambda *_: os._exit(9)); "
    # It sleeps again and again: Python calls no handler for a signal that comes just before a long sleep.
    wait = "print('ready', flush=True)\nwhile True: time.sleep(0.05)"
    tap = start([*PYTHON, f"{catch}{wait}"])
    assert read(tap, 6) == b"ready\n"
    tap.send_signal(number)
    assert tap.wait(WITHIN_S) == 9


@pytest.mark.process
def test_a_state_folder_that_cannot_be_written_costs_the_capture_only(
    own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_folders / "file").write_text("in the way")
    monkeypatch.setenv("MCPDESK_STATE_DIR", str(own_folders / "file"))
    tap = start(ECHO)
    came, said = tap.communicate(PING * 1000, timeout=WITHIN_S)
    assert came == PING * 1000 and tap.returncode == 0
    assert said.startswith(b"mcpdesk: messages are not recorded: ") and b"Traceback" not in said


# SIGKILL of each process: the effect on the others. The table is in docs/any-server.md, too.

STUBBORN = (
    "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
)
FAMILY = (
    "import subprocess, sys, time; "
    "subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)']); "
    "print('ready', flush=True); time.sleep(60)"
)
CLIENT = (
    "import subprocess, sys; tap = subprocess.Popen(sys.argv[1:], stdin=-1, stdout=-1); "
    "print(tap.pid, tap.stdout.readline(), flush=True); sys.stdin.read()"
)


@pytest.fixture
def family() -> Iterator[list[psutil.Process]]:
    """Processes of a test; they have ended after it."""
    seen: list[psutil.Process] = []
    yield seen
    for process in seen:
        with suppress(psutil.Error):
            process.kill()


def programs_of(tap: int) -> list[psutil.Process]:
    """Child processes of a tap, besides its guard."""
    process = psutil.Process(tap)
    return [each for each in process.children(recursive=True) if each.cmdline() != process.cmdline()]


def started(program: str, step: str) -> subprocess.Popen[bytes]:
    """A tap on a program that has sent nothing, that has answered, or that does not answer a request."""
    tap = start([*PYTHON, program])
    wait_until(lambda: not (step == "begin" and not programs_of(tap.pid)))
    if step != "begin":
        assert read(tap, 6) == b"ready\n"
    if step == "call":
        write(tap, PING)
    return tap


STEPS = pytest.mark.parametrize("step", ["begin", "pause", "call"])


@pytest.mark.process
@STEPS
@pytest.mark.parametrize("program", [FAMILY, STUBBORN])
def test_killed_child_ends_its_family_and_the_tap_and_the_client_sees_the_end(
    program: str, step: str, own_folders: Path, family: list[psutil.Process]
) -> None:
    tap = started(program, step)
    family += programs_of(tap.pid)
    family[0].kill()
    left, _ = tap.communicate(timeout=WITHIN_S)
    assert tap.returncode == 137 and (b"ready\n" if step == "begin" else b"").startswith(left)
    for process in family:
        assert gone([process])
    assert capture(own_folders).connections[1].closed is not None


@pytest.mark.process
@pytest.mark.parametrize("program", [FAMILY, STUBBORN])
def test_killed_client_ends_the_tap_and_a_program_that_does_not_care(
    program: str, own_folders: Path, family: list[psutil.Process]
) -> None:
    client = subprocess.Popen(
        [*PYTHON, CLIENT, *TAP, *PYTHON, program],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    assert client.stdout is not None
    tap, _, ready = client.stdout.readline().decode().partition(" ")
    assert "ready" in ready
    family += [psutil.Process(int(tap)), *programs_of(int(tap))]
    client.kill()
    client.communicate()
    for process in family:
        assert gone([process])
    assert capture(own_folders).connections[1].closed is not None


@pytest.mark.process
@STEPS
@pytest.mark.parametrize("program", [FAMILY, STUBBORN])
def test_killed_tap_ends_its_family_and_the_client_sees_the_end(
    program: str, step: str, own_folders: Path, family: list[psutil.Process]
) -> None:
    tap = started(program, step)
    family += psutil.Process(tap.pid).children(recursive=True)
    tap.kill()
    left, _ = tap.communicate(timeout=WITHIN_S)
    assert (b"ready\n" if step == "begin" else b"").startswith(left)
    for process in family:
        assert gone([process])


@pytest.mark.process
def test_a_killed_tap_left_a_capture_of_what_passed(own_folders: Path) -> None:
    tap = start(ECHO)
    write(tap, PING)
    assert read(tap, len(PING)) == PING
    wait_until(lambda: any(each.read_bytes().count(b'"ping"') >= 2 for each in captures(own_folders)))
    tap.kill()
    tap.communicate()
    left = capture(own_folders)
    assert left.count == 2 and left.unreadable == 0 and left.connections[1].closed is not None


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_without_its_recorder_a_tap_goes_on(
    number: signal.Signals, own_folders: Path, family: list[psutil.Process]
) -> None:
    tap = start(ECHO)
    write(tap, PING)
    assert read(tap, len(PING)) == PING
    (program,) = programs_of(tap.pid)
    (recorder,) = set(psutil.Process(tap.pid).children()) - {program}
    family.append(recorder)
    wait_until(lambda: captures(own_folders))  # earlier, it also has the pipes of the program
    recorder.send_signal(number)
    body = bytes(4 << 20) + b"\n"
    for _ in range(10):
        threading.Thread(target=write, args=(tap, body), daemon=True).start()
        assert read(tap, len(body)) == body
    assert tap.stdin is not None
    tap.stdin.close()
    tap.stdin = None
    assert tap.wait(WITHIN_S) == 0


# Between clients and servers of others

SERVERS = {
    "python": [sys.executable, "-m", "tests.support.official_server", "stdio"],
    "everything": ["npx", "-y", "@modelcontextprotocol/server-everything"],
}


@pytest.mark.process
@pytest.mark.parametrize("server", ["python", pytest.param("everything", marks=pytest.mark.slow)])
def test_a_whole_conversation_of_the_official_client_is_the_same_on_both_sides_of_the_tap(
    server: str, own_folders: Path, tmp_path: Path
) -> None:
    if server == "everything" and not has_everything():
        pytest.skip("npx cannot start @modelcontextprotocol/server-everything here")
    tee = [sys.executable, str(ROOT / "tests/support/tee_pipe.py")]
    argv = [*tee, str(tmp_path / "outer"), *TAP, *tee, str(tmp_path / "inner"), *SERVERS[server]]

    async def converse() -> int:
        # The end of the server is part of it: its last bytes have to come through, too.
        place = StdioServerParameters(command=argv[0], args=argv[1:], cwd=ROOT, env=dict(os.environ))
        async with Client(stdio_client(place)) as client:
            tools = await client.list_tools()
            for tool in tools.tools:
                arguments = {"a": 2, "b": 3, "message": "æ\u2028\x00", "name": "x"}
                needed = tool.input_schema.get("properties", {})
                with anyio.move_on_after(2), suppress(Exception):
                    await client.call_tool(tool.name, {k: v for k, v in arguments.items() if k in needed})
            with suppress(Exception):
                await client.list_resources()
                await client.list_prompts()
            return len(tools.tools)

    assert anyio.run(converse) > 3
    for side in ("in", "out"):
        outer, inner = (tmp_path / f"{place}.{side}" for place in ("outer", "inner"))
        assert len(outer.read_bytes()) > 500 and outer.read_bytes() == inner.read_bytes()
    found = capture(own_folders)
    for direction, side in ((Direction.IN, "in"), (Direction.OUT, "out")):
        frames = (frame for frame in found.frames(0, found.count) if frame is not None)
        recorded = [found.frame_bytes(frame.number) for frame in frames if frame.direction is direction]
        assert recorded == (tmp_path / f"inner.{side}").read_bytes().splitlines()
    assert "mcp" in found.connections[1].peer


def has_everything() -> bool:
    """True if npm can install the server, or has installed it before."""
    if shutil.which("npx") is None:
        return False
    try:
        found = subprocess.run(
            SERVERS["everything"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return b"Starting" in found.stderr


@pytest.mark.process
def test_random_chunks_from_a_socket_as_node_uses_them(own_folders: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)  # as a client may have left it
        tap = start(ECHO, stdin=theirs.fileno(), stdout=theirs.fileno())
        theirs.close()
        chunks = [random.Random(7).randbytes(size) for size in (1, 5, 70_000, 4096, 1 << 20)]
        wanted, came = b"".join(chunks), bytearray()
        threading.Thread(target=ours.sendall, args=(wanted,), daemon=True).start()
        ours.settimeout(WITHIN_S)
        while len(came) < len(wanted):
            came += ours.recv(1 << 16)
        ours.shutdown(socket.SHUT_WR)
        assert bytes(came) == wanted and tap.wait(WITHIN_S) == 0
