"""Clients of `mcpdesk stdio` keep working whichever process begins or ends: real processes, real pipes."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcpdesk.transports.replay import UNCERTAIN
from tests.support.patience import WITHIN_S
from tests.support.stdio_server import Server

if TYPE_CHECKING:
    from tests.cli.conftest import Service

    Serve = Callable[..., Service]

TOOLS = '''
import asyncio
import os
from pathlib import Path

from mcpdesk import Context, tool

HERE = Path(__file__).parents[1]


async def until_told(name: str) -> str:
    with (HERE / f"{name}.begun").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    os.write(2, f"{name} begun\\n".encode())
    while not (HERE / "go").exists():
        await asyncio.sleep(0.01)
    return str(os.getpid())


@tool(read_only=True)
async def who() -> str:
    """The process that answers."""
    return str(os.getpid())


@tool(idempotent=True)
async def look() -> str:
    """May be called twice."""
    return await until_told("look")


@tool(read_only=False, idempotent=False)
async def change() -> str:
    """May not be called twice."""
    return await until_told("change")


@tool
async def confirm(ctx: Context) -> str:
    """Ask the client."""
    answer = await ctx.elicit("Sure?", {"type": "object", "properties": {"yes": {"type": "boolean"}}})
    return str(answer)


@tool
async def touch(ctx: Context) -> str:
    """Change the note, and say so at two levels."""
    await ctx.info("quiet")
    await ctx.error("loud")
    ctx.resource_updated("resource://note")
    return "touched"
'''
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose tools return the process that answers, and wait until the file `go` exists."""
    place = tmp_path / "shared"
    (place / "tools").mkdir(parents=True)
    (place / "resources").mkdir()
    (place / "mcp.json").write_text('{"name": "shared", "builtins": ["BackgroundBash", "PlanMode"]}')
    (place / "tools" / "tools.py").write_text(TOOLS)
    (place / "resources" / "note.md").write_text("---\nuri: resource://note\n---\nhello")
    return place


class Client(Server):
    """A client of `mcpdesk stdio`. `lines` holds all received messages."""

    def __init__(self, folder: Path, *options: str) -> None:
        super().__init__(folder, *options)
        self.lines: list[dict[str, Any]] = []
        self.number = 100

    def send(self, method: str, params: dict[str, Any], number: int | None = None) -> int:
        """A request; returns its id."""
        self.number += 1
        identifier = number or self.number
        message = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params}
        self.stdin.write(json.dumps(message).encode() + b"\n")
        self.stdin.flush()
        return identifier

    def call(self, tool: str, **arguments: Any) -> int:
        """A call; returns its id."""
        return self.send("tools/call", {"name": tool, "arguments": arguments})

    def line(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for a line like that."""
        while line := self.stdout.readline():
            self.lines.append(json.loads(line))
            if wanted(self.lines[-1]):
                return self.lines[-1]
        raise AssertionError(f"it ended: {self.lines[-3:]} {self.stderr.read()!r}")

    def answer(self, number: int) -> dict[str, Any]:
        """The answer to a request."""

        def is_it(line: dict[str, Any]) -> bool:
            return line.get("id") == number and "method" not in line

        return next(filter(is_it, self.lines), None) or self.line(is_it)

    def text(self, number: int) -> str:
        """The text a call gave."""
        return str(self.answer(number)["result"]["content"][0]["text"])

    def who(self) -> int:
        """The process that answers now."""
        return int(self.text(self.call("who")))

    def is_served_by(self, process: int) -> bool:
        """Call until another process answers; True if it is the given one."""
        before = self.who()
        while before != process and (now := self.who()) == before:
            continue
        return before == process or now == process

    def answers(self, number: int) -> int:
        """Number of answers to a request so far; a ping makes sure that all earlier ones were read."""
        self.answer(self.send("ping", {}))
        return sum(line.get("id") == number and "method" not in line for line in self.lines)


@pytest.fixture
def client(folder: Path) -> Iterator[Callable[..., Client]]:
    """Starts clients, and ends them after the test."""
    started: list[Client] = []

    def start(*options: str, shakes: bool = True) -> Client:
        started.append(Client(folder, *options))
        if shakes:
            started[-1].shake_hands()
            started[-1].stdin.flush()
        return started[-1]

    def give_up() -> None:
        for each in started:
            each.process.kill()

    bound = threading.Timer(3 * WITHIN_S, give_up)  # then a blocked reader sees the end of the stream
    bound.start()
    yield start
    bound.cancel()
    for each in started:
        each.close()


Start = Callable[..., Client]


def served(serve: Serve, folder: Path) -> Service:
    """A running `mcpdesk serve`."""
    service = serve(str(folder), "--port", "0")
    service.says("serving shared")
    return service


@pytest.mark.slow
def test_what_is_started_later_takes_over_and_its_end_gives_back(
    folder: Path, client: Start, serve: Serve
) -> None:
    first, second = client(), client()
    assert first.who() == first.process.pid and second.who() == second.process.pid
    for number in (signal.SIGKILL, signal.SIGTERM):
        service = served(serve, folder)
        assert first.is_served_by(service.process.pid) and second.is_served_by(service.process.pid)
        service.end(number)
        assert first.is_served_by(first.process.pid) and second.is_served_by(second.process.pid)
    assert second.end()[0] == 0 and first.who() == first.process.pid


@pytest.mark.process
def test_running_call_ends_where_it_began_and_the_next_goes_to_the_one_that_took_over(
    folder: Path, client: Start, serve: Serve
) -> None:
    one = client()
    slow = one.call("change")
    while b"change begun" not in one.stderr.readline():
        continue
    service = served(serve, folder)
    assert one.who() == one.process.pid
    (folder / "go").touch()
    assert one.text(slow) == str(one.process.pid)
    assert one.is_served_by(service.process.pid)
    assert one.answers(slow) == 1


@pytest.mark.process
def test_call_on_a_killed_desk_is_repeated_if_it_may_be_and_else_said_to_be_uncertain(
    folder: Path, client: Start, serve: Serve
) -> None:
    service = served(serve, folder)
    one = client()
    assert one.who() == service.process.pid
    look, change = one.call("look"), one.call("change")
    assert {service.says(" begun").split()[-2] for _ in range(2)} == {"look", "change"}
    service.end(signal.SIGKILL)
    error = one.answer(change)["error"]
    assert error == {"code": -32603, "message": UNCERTAIN}
    (folder / "go").touch()
    assert one.text(look) == str(one.process.pid)
    assert (one.answers(look), one.answers(change)) == (1, 1)
    assert (folder / "look.begun").read_text().split() == [str(service.process.pid), str(one.process.pid)]
    assert (folder / "change.begun").read_text().split() == [str(service.process.pid)]


@pytest.mark.process
def test_call_of_the_stateless_era_on_a_killed_desk_is_repeated(
    folder: Path, client: Start, serve: Serve
) -> None:
    service = served(serve, folder)
    one = client(shakes=False)
    listen = one.send(
        "subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": META}, number=7
    )
    one.line(lambda line: line.get("method") == "notifications/subscriptions/acknowledged")
    look = one.send("tools/call", {"name": "look", "arguments": {}, "_meta": META})
    change = one.send("tools/call", {"name": "change", "arguments": {}, "_meta": META})
    assert {service.says(" begun").split()[-2] for _ in range(2)} == {"look", "change"}
    service.end(signal.SIGKILL)
    assert one.answer(change)["error"]["message"] == UNCERTAIN
    (folder / "go").touch()
    assert one.text(look) == str(one.process.pid)
    (folder / "tools" / "more.py").write_text("async def more() -> str:\n    return ''\n")
    changed = [line for line in one.lines if line.get("method") == "notifications/tools/list_changed"]
    tagged = {"io.modelcontextprotocol/subscriptionId": listen}
    assert [line["params"]["_meta"] for line in changed] == [tagged]  # the client must list again
    one.line(lambda line: line.get("method") == "notifications/tools/list_changed")
    told = [line for line in one.lines if line.get("method", "").endswith("acknowledged")]
    assert len(told) == 1 and not [line for line in one.lines if line.get("id") == listen]


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_client_asked_for_is_kept_in_both_directions(
    folder: Path, client: Start, serve: Serve, number: int
) -> None:
    one = client()
    one.answer(one.send("logging/setLevel", {"level": "error"}))
    one.answer(one.send("resources/subscribe", {"uri": "resource://note"}))
    service = served(serve, folder)
    assert one.is_served_by(service.process.pid)
    for _ in range(2):
        one.lines.clear()
        touched = one.call("touch")
        one.line(lambda line: line.get("method") == "notifications/resources/updated")
        one.answer(touched)
        logged = [line["params"] for line in one.lines if line.get("method") == "notifications/message"]
        assert [each["data"] for each in logged] == ["loud"]
        service.end(number)
        assert one.is_served_by(one.process.pid)


@pytest.mark.process
@pytest.mark.parametrize("is_stateless", [False, True])
def test_plan_mode_stays_with_its_client_in_both_directions(
    folder: Path, client: Start, serve: Serve, is_stateless: bool
) -> None:
    meta = {"_meta": META} if is_stateless else {}
    one, other = client(shakes=not is_stateless), client(shakes=not is_stateless)

    def call(of: Client, name: str, **arguments: str) -> str:
        return of.text(of.send("tools/call", {"name": name, "arguments": arguments, **meta}))

    def moves_to(of: Client, process: int) -> None:
        while call(of, "who") != str(process):
            continue

    assert "Plan mode is on" in call(one, "PlanMode", action="enter", goal="Move house")
    for number in (signal.SIGKILL, signal.SIGTERM):
        service = served(serve, folder)
        moves_to(one, service.process.pid)
        moves_to(other, service.process.pid)
        assert "plan mode is on" in call(one, "BackgroundBash", command="true")
        assert "plan mode is on" not in call(other, "BackgroundBash", command="true")
        assert "Goal: Move house" in call(one, "PlanMode", action="status")
        service.end(number)
        moves_to(one, one.process.pid)
        assert "plan mode is on" in call(one, "BackgroundBash", command="true")
    assert "Plan mode is off" in call(one, "PlanMode", action="exit")


@pytest.mark.process
def test_client_is_told_that_the_catalogue_may_have_changed(
    folder: Path, client: Start, serve: Serve
) -> None:
    one = client()
    assert one.who() == one.process.pid
    service = served(serve, folder)
    assert one.is_served_by(service.process.pid)
    assert "notifications/tools/list_changed" in [line.get("method") for line in one.lines]


@pytest.mark.process
def test_question_of_a_killed_desk_is_taken_back(folder: Path, client: Start, serve: Serve) -> None:
    service = served(serve, folder)
    one = client(shakes=False)
    hands = {
        "protocolVersion": "2025-06-18",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "x"},
    }
    one.answer(one.send("initialize", hands | {"clientInfo": {"name": "x", "version": "1"}}))
    one.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    asking = one.call("confirm")
    question = one.line(lambda line: line.get("method") == "elicitation/create")
    service.end(signal.SIGKILL)
    cancelled = one.line(lambda line: line.get("method") == "notifications/cancelled")
    assert cancelled["params"]["requestId"] == question["id"]
    assert one.answer(asking)["error"]["message"] == UNCERTAIN


@pytest.mark.process
def test_service_that_ends_finishes_what_runs_while_new_requests_wait(
    folder: Path, client: Start, serve: Serve
) -> None:
    service = served(serve, folder)
    one = client()
    slow = one.call("change")
    service.says("change begun")
    service.process.terminate()
    service.says("finishing running calls")
    new = one.call("who")
    (folder / "go").touch()
    assert one.text(slow) == str(service.process.pid)
    # One that was on its way when the end began may be answered there; nothing is refused.
    assert int(one.text(new)) in (one.process.pid, service.process.pid)
    assert one.is_served_by(one.process.pid)
    assert (one.answers(slow), one.answers(new)) == (1, 1)
    assert service.process.wait() == 0


@pytest.mark.process
def test_second_service_of_a_folder_takes_over_when_the_first_is_killed(
    folder: Path, client: Start, serve: Serve
) -> None:
    first = served(serve, folder)
    second = served(serve, folder)
    one = client()
    assert one.who() == first.process.pid
    first.end(signal.SIGKILL)
    while (now := one.who()) == one.process.pid:  # for a moment, it may be its own
        continue
    assert now == second.process.pid


@pytest.mark.process
def test_client_that_wants_to_be_alone_is_left_alone(folder: Path, client: Start, serve: Serve) -> None:
    alone, other = client("--alone"), client()
    service = served(serve, folder)
    assert other.is_served_by(service.process.pid)
    assert alone.who() == alone.process.pid


@pytest.mark.process
def test_client_whose_program_runs_stays_with_it(folder: Path, client: Start, serve: Serve) -> None:
    one, other = client(), client()
    one.answer(one.call("BackgroundBash", command="exec sleep 60"))
    service = served(serve, folder)
    assert other.is_served_by(service.process.pid)
    assert one.who() == one.process.pid


@pytest.mark.slow
def test_programs_with_different_state_folders_do_not_meet(
    folder: Path, tmp_path: Path, client: Start, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = served(serve, folder)
    together = client()
    assert together.who() == service.process.pid
    monkeypatch.setenv("MCPDESK_STATE_DIR", str(tmp_path / "elsewhere"))
    apart = client()
    assert apart.who() == apart.process.pid
    other = served(serve, folder)
    assert apart.is_served_by(other.process.pid)
    assert together.who() == service.process.pid


@pytest.mark.process
def test_last_request_before_the_end_of_input_is_answered_by_the_desk(
    folder: Path, client: Start, serve: Serve
) -> None:
    service = served(serve, folder)
    one = client()
    number = one.call("who")
    one.stdin.close()
    assert one.text(number) == str(service.process.pid)
    assert one.stdout.read() == b"" and one.process.wait() == 0
