"""The relay of several commands onto one connection, in process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from mcpdesk.client.connection import AnswerQuestion, Questions, ServerConnection
from mcpdesk.client.flows import CallObserver
from mcpdesk.client.targets import CommandTarget
from mcpdesk.client.unix_pipe import UnixPipe
from mcpdesk.errors import DeskUserError, RpcError
from mcpdesk.features.open_connections import relay
from mcpdesk.features.open_connections.activity import Activity
from mcpdesk.features.open_connections.relay import NO_PERSON, Relay, RelayCaller
from mcpdesk.features.open_connections.relay_client import RelayClient
from mcpdesk.features.open_connections.relay_messages import REVISION
from mcpdesk.inbox.inbox import Inbox
from mcpdesk.protocol import codec
from mcpdesk.protocol.revisions import BY_NAME
from mcpdesk.upstream.upstream import UpstreamState, UpstreamStatus
from tests.features.open_connections import tea_server
from tests.support.patience import in_time, until

ME = {"name": "test", "version": "1"}


class Kettle:
    """The tea server at one end of a socket pair, on this loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = tea_server.Server()
        self.received: list[dict[str, Any]] = []
        self.writer: asyncio.StreamWriter
        monkeypatch.setattr(tea_server, "send", self._send)

    def _send(self, **message: Any) -> None:
        self.writer.write(codec.encode({"jsonrpc": "2.0", **message}) + b"\n")

    async def serve(self, end: socket.socket) -> None:
        reader, self.writer = await asyncio.open_unix_connection(sock=end)
        while line := await reader.readline():
            message = codec.decode(line)
            self.received.append(message)
            self.server.receive(message)
        self.writer.close()

    def methods(self) -> list[str]:
        return [each["method"] for each in self.received if "method" in each]


class Upstream:
    """The part of an upstream server that the relay uses."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection
        self.plan = SimpleNamespace(target=CommandTarget(("tea",)))
        self.status = UpstreamStatus(UpstreamState.READY)
        self.listeners: list[Any] = []
        self.status_listeners: list[Any] = []
        connection.listeners.append(self._notified)

    def _notified(self, method: str, params: dict[str, Any]) -> None:
        for each in self.listeners:
            each(method, params)

    def end(self, reason: str) -> None:
        self.status = UpstreamStatus(UpstreamState.ENDED, problems=(reason,))
        for each in self.status_listeners:
            each()


class Bench:
    """A relay to the tea server, to which commands connect."""

    def __init__(self, kettle: Kettle) -> None:
        self.kettle = kettle
        self.inbox, self.activity = Inbox(), Activity()
        self.relay = Relay("tea", self.inbox, self.activity)
        self.tasks: list[asyncio.Task[None]] = []
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        self._begin(kettle.serve(theirs))
        self.inbox_questions: dict[str, AnswerQuestion] = {"roots/list": self._no_roots}
        self.connection = ServerConnection(
            UnixPipe(ours, "tea"),
            ME,
            questions=self.relay.wrap_questions("tea", lambda: self.inbox_questions),
        )
        self.upstream = Upstream(self.connection)
        self.relay.attach(self.upstream)  # type: ignore[arg-type]

    async def _no_roots(self, params: Any, subject: str) -> dict[str, Any]:
        return {"roots": []}

    def _begin(self, work: Any) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    @asynccontextmanager
    async def command(self, answers: Questions | None = None) -> AsyncIterator[ServerConnection]:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=theirs)
        self._begin(self.relay.serve(reader, writer))
        transport = RelayClient(ours, "tea")
        connection = ServerConnection(
            transport, ME, questions=lambda: answers or {}, revision=BY_NAME[REVISION]
        )
        try:
            await connection.open()
            yield connection
        finally:
            await connection.close()

    async def close(self) -> None:
        self.relay.close()
        await self.connection.close()
        await in_time(asyncio.gather(*self.tasks, return_exceptions=True))


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    made = Bench(Kettle(monkeypatch))
    yield made
    await made.close()


async def call(connection: ServerConnection, tool: str, observer: CallObserver | None = None) -> str:
    """Text of the result of a call."""
    result = await in_time(connection.result("tools/call", {"name": tool}, observer=observer))
    return str(result["content"][0]["text"])


async def test_commands_share_one_session(bench: Bench) -> None:
    async with bench.command() as first, bench.command() as second:
        assert [await call(first, "inc"), await call(second, "inc"), await call(first, "inc")] == list("123")
        assert (bench.activity.clients, bench.activity.calls) == (2, 3)
        agreement = await first.discover_server()
        assert agreement.server["name"] == "tea" and "resources" in agreement.capabilities
    assert bench.kettle.methods().count("initialize") == 1
    await until(lambda: bench.activity.clients == 0)


async def test_errors_of_the_server_reach_the_command_unchanged(bench: Bench) -> None:
    async with bench.command() as command:
        with pytest.raises(RpcError, match="no tasks/list") as caught:
            await command.result("tasks/list")
        assert caught.value.code == -32601


async def test_progress_has_the_token_of_the_command(bench: Bench) -> None:
    class Seen(CallObserver):
        steps: list[tuple[float, float | None, str]] = []

        def progressed(self, progress: float, total: float | None, message: str) -> None:
            self.steps.append((progress, total, message))

    async with bench.command() as first, bench.command() as second:
        await call(second, "inc")
        assert await call(first, "brew", Seen()) == "brewed"
        assert Seen.steps == [(1, 2, "steeping")]
        assert await call(second, "brew") == "brewed without a token"


async def test_a_question_goes_to_the_command_that_called(bench: Bench) -> None:
    def answering(tea: str) -> Questions:
        async def elicit(params: Any, subject: str) -> dict[str, Any]:
            assert params["message"] == "Which tea?"
            return {"action": "accept", "content": {"tea": tea}}

        return {"elicitation/create": elicit}

    async with bench.command(answering("green")) as first, bench.command(answering("black")) as second:
        assert "green" in await call(first, "ask")
        assert "black" in await call(second, "ask")


async def test_a_question_is_refused_at_once_if_no_person_can_answer(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    async with bench.command() as command:
        assert NO_PERSON in await call(command, "ask")
    assert "the command runs without a terminal" in capsys.readouterr().err


async def test_a_question_waits_at_an_attached_desk_if_the_command_has_no_terminal(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    async def at_desk(params: Any, subject: str) -> dict[str, Any]:
        assert subject == "ask"
        return {"action": "accept", "content": {"tea": "white"}}

    bench.inbox.audience = 1
    bench.inbox_questions["elicitation/create"] = at_desk
    async with bench.command() as command:
        assert "white" in await call(command, "ask")
    assert "answer the question at the desk" in capsys.readouterr().err


async def test_a_command_that_leaves_cancels_its_call(bench: Bench) -> None:
    async with bench.command() as command:
        waiting = asyncio.ensure_future(command.request("tools/call", {"name": "wait"}))
        await until(lambda: bench.kettle.methods()[-1:] == ["tools/call"])
    await until(lambda: bench.kettle.server.cancelled)
    with pytest.raises(Exception, match=r"closed|ended"):
        await waiting


async def test_a_command_that_leaves_is_asked_no_more_questions(bench: Bench) -> None:
    ours, theirs = socket.socketpair()
    _, writer = await asyncio.open_unix_connection(sock=theirs)
    caller = RelayCaller(bench.relay, writer)
    capabilities: dict[str, Any] = {"elicitation": {}}
    caller.receive(codec.request(1, "initialize", {"capabilities": capabilities}))
    await until(lambda: caller.can_answer("elicitation/create"))
    await caller.close()
    ours.close()
    assert not caller.can_answer("elicitation/create")


async def test_only_commands_that_watch_a_resource_receive_its_updates(bench: Bench) -> None:
    async with bench.command() as watcher, bench.command() as other:
        seen: dict[str, list[str]] = {"watcher": [], "other": []}
        watcher.listeners.append(lambda method, params: seen["watcher"].append(method))
        other.listeners.append(lambda method, params: seen["other"].append(method))
        await watcher.result("resources/subscribe", {"uri": "tea://pot"})
        await call(other, "touch")
        await until(lambda: "notifications/message" in seen["other"])
        await until(lambda: len(seen["watcher"]) == 2)
        assert seen["watcher"] == ["notifications/resources/updated", "notifications/message"]
        assert seen["other"] == ["notifications/message"]
    await until(lambda: "resources/unsubscribe" in bench.kettle.methods())


async def test_resource_uri_that_is_no_text_does_not_stop_the_connection(bench: Bench) -> None:
    async with bench.command() as command:
        await in_time(command.result("tools/list"))
        bench.kettle._send(method="notifications/resources/updated", params={"uri": {}})
        await in_time(command.result("tools/list"))
        await in_time(command.result("resources/unsubscribe", {"uri": []}))
    assert bench.kettle.received[-1]["params"]["uri"] == []


async def test_calls_after_the_end_of_the_program_say_what_to_do(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    async with bench.command() as idle, bench.command() as command:
        await call(command, "inc")
        bench.upstream.end("the program ended with exit code 7")
        with pytest.raises(DeskUserError, match="has ended") as caught:
            await in_time(idle.wait_until_notifications_end())
        assert caught.value.exit_code == 3
    assert "exit code 7" in capsys.readouterr().err
    with pytest.raises(DeskUserError, match="exit code 7") as refused:
        async with bench.command():
            pass
    assert "mcpdesk up" in refused.value.hint and refused.value.exit_code == 3


async def test_a_restart_ends_the_commands_that_only_listen(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    async with bench.command() as watcher:
        bench.upstream.status = UpstreamStatus(UpstreamState.CONNECTING)
        bench.upstream.status_listeners[0]()
        with pytest.raises(DeskUserError, match="has ended"):
            await in_time(watcher.wait_until_notifications_end())
    assert "started again" in capsys.readouterr().err


async def test_a_command_from_before_a_restart_does_not_end_the_watches_of_later_ones(bench: Bench) -> None:
    pot = {"uri": "tea://pot"}
    async with bench.command() as older:
        await older.result("resources/subscribe", pot)
        waiting = asyncio.ensure_future(older.request("tools/call", {"name": "wait"}))
        await until(lambda: bench.kettle.methods()[-1:] == ["tools/call"])
        bench.upstream.end("exit code 7")
        bench.upstream.status = UpstreamStatus(UpstreamState.READY)
        async with bench.command() as newer:
            await newer.result("resources/subscribe", pot)
            await older.close()
            await until(lambda: bench.activity.clients == 1)
            await call(newer, "inc")
            assert "resources/unsubscribe" not in bench.kettle.methods()
    with pytest.raises(Exception, match=r"closed|ended"):
        await waiting


async def test_one_command_has_a_limited_number_of_notifications_and_resources(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(relay, "MAX_REQUESTS", 1)
    monkeypatch.setattr(relay, "MAX_WATCHED_RESOURCES", 1)
    async with bench.command() as command:
        await command.result("resources/subscribe", {"uri": "tea://pot"})
        with pytest.raises(RpcError, match="at most 1 resources"):
            await command.result("resources/subscribe", {"uri": "tea://cup"})
        waiting = asyncio.ensure_future(command.request("tools/call", {"name": "wait"}))
        await until(lambda: bench.kettle.methods()[-1:] == ["tools/call"])
        await command.notify("notifications/example", {})
        with pytest.raises(RpcError, match="requests are running"):
            await command.result("tools/list")
    assert "notifications/example was not sent" in capsys.readouterr().err
    assert "notifications/example" not in bench.kettle.methods()
    with pytest.raises(Exception, match=r"closed|ended"):
        await waiting


async def test_a_new_session_is_reported_and_watches_again(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    async with bench.command() as watcher:
        await watcher.result("resources/subscribe", {"uri": "tea://pot"})
        for notify in bench.connection.new_session_listeners:
            notify()
        await until(lambda: bench.kettle.methods().count("resources/subscribe") == 2)
        await watcher.result("ping")
    assert "forgotten the session" in capsys.readouterr().err


async def test_a_connection_is_idle_only_without_commands_and_other_use() -> None:
    activity, is_used = Activity(), True
    activity.join()
    waiting = asyncio.ensure_future(activity.until_idle(0.01, lambda: is_used))
    await asyncio.sleep(0.05)
    assert not waiting.done() and activity.idle_s == 0
    activity.leave()
    is_used = False
    await in_time(waiting)
