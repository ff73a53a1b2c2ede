"""Subscriptions of the desk at stateless servers: nothing is missed, and they are renewed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import orjson
import psutil
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from mcpdesk.client import timing
from mcpdesk.client.answers import resumption
from mcpdesk.client.connection import ServerConnection
from mcpdesk.client.http_transports import StreamableHttp
from mcpdesk.client.subscriptions import subscription as module
from mcpdesk.client.subscriptions.all_notifications import follow_notifications
from mcpdesk.client.subscriptions.resource_watch import ResourceWatch
from mcpdesk.client.subscriptions.subscription import MAX_FAILURES, Subscription
from mcpdesk.client.targets import UrlTarget
from mcpdesk.errors import HttpError
from mcpdesk.protocol.framing import EventFramer
from mcpdesk.upstream.target_transport import Reach
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support.desk import RunningDesk, running_desk
from tests.support.patience import until
from tests.support.scripted import DISCOVERED
from tests.upstream.test_channel_pass_through import NEWEST, official_at
from tests.upstream.test_upstream import names, upstream


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ACKNOWLEDGEMENT_TIMEOUT_S", 0.1)
    monkeypatch.setattr(module, "RENEW_S", 0.05)
    monkeypatch.setattr(timing, "RENEW_S", 0.05)


class Served:
    """The server's side of one subscription."""

    def __init__(self, served: ChangingServer, request: web.Request, message: Any) -> None:
        self.served = served
        self.stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        self._request = request
        self._id = message["id"]

    async def acknowledge(self) -> None:
        params = {"notifications": {"toolsListChanged": True}}
        await self._send({"method": "notifications/subscriptions/acknowledged", "params": params})

    async def complete(self) -> None:
        await self._send({"id": self._id, "result": {"resultType": "complete"}})

    async def limit(self) -> None:
        """Cut the stream; the next request to subscribe is answered with 429."""
        self.served.is_limited = True
        await self.cut()

    async def cut(self) -> None:
        assert self._request.transport is not None
        self._request.transport.abort()

    async def _send(self, message: dict[str, Any]) -> None:
        await self.stream.write(b"data: " + orjson.dumps({"jsonrpc": "2.0", **message}) + b"\n\n")


class ChangingServer:
    """A stateless server over HTTP whose list the test changes, and whose subscriptions `serve` serves."""

    def __init__(self, serve: Callable[[ChangingServer, Served], Awaitable[None]]) -> None:
        self.tools = ["one"]
        self.subscriptions = 0
        self.was_listed = False
        self.is_limited = False
        self.refuses = False
        self.next_step = asyncio.Event()
        self._serve = serve

    async def answer(self, request: web.Request) -> web.StreamResponse:
        message = orjson.loads(await request.read())
        match message["method"]:
            case "server/discover":
                return _response(message, DISCOVERED)
            case "tools/list":
                self.was_listed = True
                tools = [{"name": name, "inputSchema": {"type": "object"}} for name in self.tools]
                result = {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"}
                return _response(message, result)
            case "subscriptions/listen" if self.refuses:
                return web.Response(status=403)
            case "subscriptions/listen" if self.is_limited:
                self.is_limited = False
                return web.Response(status=429)
            case "subscriptions/listen":
                self.subscriptions += 1
                subscription = Served(self, request, message)
                await subscription.stream.prepare(request)
                await self._serve(self, subscription)
                return subscription.stream
        return web.Response(status=404)


def _response(message: Any, result: dict[str, Any]) -> web.Response:
    body = orjson.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
    return web.Response(body=body, content_type="application/json")


@asynccontextmanager
async def site_of(served: ChangingServer) -> AsyncIterator[str]:
    """Serve it on 127.0.0.1; the URL of its endpoint."""
    app = web.Application()
    app.router.add_post("/mcp", served.answer)
    async with TestServer(app) as site:
        yield str(site.make_url("/mcp"))


@asynccontextmanager
async def changing(
    serve: Callable[[ChangingServer, Served], Awaitable[None]],
) -> AsyncIterator[tuple[ChangingServer, RunningDesk]]:
    """The server with a desk that is connected to it."""
    served = ChangingServer(serve)
    async with site_of(served) as url:
        plan = UpstreamPlan("far", UrlTarget(url), Reach(revision=NEWEST))
        async with running_desk(upstreams=[plan]) as desk:
            yield served, desk


async def test_a_change_before_a_late_acknowledgement_is_not_missed() -> None:
    async def serve(served: ChangingServer, subscription: Served) -> None:
        await served.next_step.wait()
        await subscription.acknowledge()
        await asyncio.Event().wait()

    async with changing(serve) as (served, desk):
        await until(lambda: names(desk, "far") == ["one"])
        served.tools.append("two")
        served.next_step.set()
        await until(lambda: names(desk, "far") == ["one", "two"])


async def test_lists_are_read_after_the_acknowledgement() -> None:
    was_listed_before = []

    async def serve(served: ChangingServer, subscription: Served) -> None:
        await asyncio.sleep(0.05)
        was_listed_before.append(served.was_listed)
        await subscription.acknowledge()
        await asyncio.Event().wait()

    async with changing(serve) as (_, desk):
        await until(lambda: names(desk, "far") == ["one"])
        assert was_listed_before == [False]


@pytest.mark.parametrize("end", [Served.complete, Served.cut, Served.limit])
async def test_an_ended_subscription_is_renewed_and_the_lists_are_read_again(
    end: Callable[[Served], Awaitable[None]],
) -> None:
    async def serve(served: ChangingServer, subscription: Served) -> None:
        await subscription.acknowledge()
        await served.next_step.wait()
        if served.subscriptions > 1:
            await asyncio.Event().wait()
        await end(subscription)

    async with changing(serve) as (served, desk):
        await until(lambda: names(desk, "far") == ["one"])
        served.tools.append("two")
        served.next_step.set()
        await until(lambda: names(desk, "far") == ["one", "two"])
        assert served.subscriptions == 2


async def test_subscriptions_that_end_at_once_are_not_opened_for_ever() -> None:
    async def serve(served: ChangingServer, subscription: Served) -> None:
        await subscription.acknowledge()
        await subscription.complete()

    served, renewals = ChangingServer(serve), 0
    log: list[str] = []

    def renewed() -> None:
        nonlocal renewals
        renewals += 1

    async with site_of(served) as url:
        connection = ServerConnection(StreamableHttp(url, {}), {"name": "t", "version": "1"})
        subscription = Subscription(connection, {}, renewed, log.append, renew_s=5, longest_pause_s=0.001)
        await subscription.follow()
        await connection.close()
    assert (served.subscriptions, renewals) == (MAX_FAILURES, MAX_FAILURES - 1)
    assert log == ["it was given up after 10 attempts: the server ended the subscription"]


async def test_followed_notifications_end_with_the_reason_why_they_cannot_be_renewed() -> None:
    async def serve(served: ChangingServer, subscription: Served) -> None:
        await subscription.acknowledge()
        served.refuses = True
        await subscription.complete()

    served, events = ChangingServer(serve), list[str]()
    async with site_of(served) as url:
        connection = ServerConnection(StreamableHttp(url, {}), {"name": "t", "version": "1"})
        with pytest.raises(HttpError, match="403"):
            await follow_notifications(
                connection, ["a://"], lambda: events.append("begun"), events.append, lambda: None
            )
        await connection.close()
    assert events == ["begun", "the server ended the subscription"]


class ForgetfulServer:
    """A server of the handshake era over HTTP. It forgets its session when the test says so."""

    def __init__(self) -> None:
        self.sessions = 0
        self.initialized = 0
        self.subscribed: list[str] = []
        """Session and URI of each subscription."""
        self.refused: set[str] = set()
        """URIs of resources that no longer exist."""
        self.is_forgetting = False
        """True if the server forgets each session as soon as its stream has begun."""
        self.has_events = False
        """True if the server sends an event on each stream."""
        self.loses_subscribers = False
        """True if the server forgets the session of each first attempt to subscribe to a resource."""
        self._is_lost = False
        self.is_mute = False
        """True if the server does not answer subscriptions to a resource."""
        self._streams: list[web.Request] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        message = orjson.loads(await request.read())
        if message["method"] == "initialize":
            self.sessions += 1
            self.initialized += 1
            agreed = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
            response = _response(message, agreed)
            response.headers["Mcp-Session-Id"] = self._session
            return response
        if "mcp-session-id" not in request.headers:
            return web.Response(status=400)
        if request.headers["mcp-session-id"] != self._session:
            return web.Response(status=404)
        if "id" not in message:
            return web.Response(status=202)
        uri = message["params"]["uri"]
        self.subscribed.append(f"{self._session} {uri}")
        if self.is_mute:
            await asyncio.Event().wait()
        self._is_lost = self.loses_subscribers and not self._is_lost
        if self._is_lost:
            self.sessions += 1
            return web.Response(status=404)
        if uri in self.refused:
            error = {"code": -32002, "message": "Resource not found"}
            body = orjson.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error})
            return web.Response(body=body, content_type="application/json")
        return _response(message, {})

    async def stream(self, request: web.Request) -> web.StreamResponse:
        if request.headers["mcp-session-id"] != self._session:
            return web.Response(status=404)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        await stream.write(b"retry: 0\n\n")
        if self.has_events:
            event = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
            await stream.write(b"data: " + orjson.dumps(event) + b"\n\n")
        if self.is_forgetting:
            self.sessions += 1
            return stream
        self._streams.append(request)
        await asyncio.Event().wait()
        return stream

    def restart(self) -> None:
        """Forget the session, and cut the streams."""
        self.sessions += 1
        for request in self._streams:
            assert request.transport is not None
            request.transport.abort()
        self._streams = []

    @property
    def has_stream(self) -> bool:
        return bool(self._streams)

    @property
    def _session(self) -> str:
        return f"s{self.sessions}"


@asynccontextmanager
async def forgetful() -> AsyncIterator[tuple[ForgetfulServer, ServerConnection]]:
    """The server with a connection to it."""
    served, app = ForgetfulServer(), web.Application()
    app.router.add_post("/mcp", served.answer)
    app.router.add_get("/mcp", served.stream)
    async with TestServer(app) as site:
        connection = ServerConnection(StreamableHttp(str(site.make_url("/mcp")), {}), {"name": "t"})
        try:
            yield served, connection
        finally:
            await connection.close()


async def test_followed_notifications_continue_in_a_new_session_when_the_server_forgot_theirs() -> None:
    events: list[str] = []
    async with forgetful() as (served, connection):
        following = asyncio.create_task(
            follow_notifications(
                connection,
                ["a://"],
                lambda: events.append("begun"),
                events.append,
                lambda: events.append("renewed"),
            )
        )
        await until(lambda: events == ["begun"] and served.has_stream)
        served.restart()
        await until(lambda: events[1:] == ["the server has forgotten the session", "renewed"])
        await until(lambda: served.has_stream)
        assert served.subscribed == ["s1 a://", "s3 a://"]
        assert not following.done()
        following.cancel()


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "RENEW_S", 0.001)
    monkeypatch.setattr(resumption, "MIN_RETRY_S", 0.001)


@pytest.mark.usefixtures("no_pauses")
async def test_a_server_that_loses_every_session_is_given_up_with_the_reason() -> None:
    events = list[str]()
    async with forgetful() as (served, connection):
        served.is_forgetting = True
        with pytest.raises(HttpError, match="the server lost 10 sessions in succession: HTTP 404"):
            await follow_notifications(connection, [], lambda: None, events.append, lambda: None)
        assert served.initialized == timing.MAX_RENEWALS
        assert set(events) == {"the server has forgotten the session"}


@pytest.mark.usefixtures("no_pauses")
async def test_sessions_with_events_are_renewed_without_limit() -> None:
    async with forgetful() as (served, connection):
        served.is_forgetting = served.has_events = True
        connection.listen()
        await until(lambda: served.initialized > 2 * timing.MAX_RENEWALS)


@pytest.mark.usefixtures("no_pauses")
async def test_a_server_that_loses_the_session_of_each_subscription_is_given_up() -> None:
    async with forgetful() as (served, connection):
        await connection.open()
        following = asyncio.create_task(
            follow_notifications(connection, ["a://"], lambda: None, lambda reason: None, lambda: None)
        )
        await until(lambda: served.subscribed and served.has_stream)
        served.loses_subscribers = True
        served.restart()
        with pytest.raises(HttpError, match="lost 10 sessions in succession"):
            await following


async def test_a_resource_that_a_new_session_lacks_does_not_end_the_subscription() -> None:
    events, refused = list[str](), list[tuple[str, str]]()
    async with forgetful() as (served, connection):
        following = asyncio.create_task(
            follow_notifications(
                connection,
                ["a://", "b://"],
                lambda: events.append("begun"),
                events.append,
                lambda: events.append("renewed"),
                lambda uri, reason: refused.append((uri, reason)),
            )
        )
        await until(lambda: events == ["begun"] and served.has_stream)
        served.refused.add("a://")
        served.restart()
        await until(lambda: "renewed" in events or following.done())
        assert not following.done()
        assert refused == [("a://", "Resource not found")] and served.subscribed[-1] == "s3 b://"
        following.cancel()


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_an_attempt_to_follow_that_fails_leaves_no_listener(is_cancelled: bool) -> None:
    async with forgetful() as (served, connection):
        served.refused.add("a://")
        served.is_mute = is_cancelled
        following = asyncio.create_task(
            follow_notifications(connection, ["a://"], lambda: None, lambda reason: None, lambda: None)
        )
        if is_cancelled:
            await until(lambda: served.subscribed)
            following.cancel()
        await asyncio.wait([following])
        assert following.cancelled() == is_cancelled
        assert connection.new_session_listeners == []


def test_a_server_cannot_have_its_stream_resumed_without_a_pause() -> None:
    framer = EventFramer(1000)
    framer.retry_ms = 0
    assert resumption.pause_s(framer) == resumption.MIN_RETRY_S


async def test_watched_resources_are_subscribed_to_again_in_a_new_session() -> None:
    async with forgetful() as (served, connection):
        watch = ResourceWatch(connection)
        watch.add("a://")
        await until(lambda: served.subscribed and served.has_stream)
        served.restart()
        await until(lambda: served.subscribed == ["s1 a://", "s3 a://"])
        assert watch.updates == {"a://": 1}, "updates may have been missed"
        watch.close()


async def test_watched_resources_count_an_update_when_their_subscription_is_renewed() -> None:
    async def serve(served: ChangingServer, subscription: Served) -> None:
        await subscription.acknowledge()
        if served.subscriptions == 1:
            await subscription.complete()
        else:
            await asyncio.Event().wait()

    async with site_of(ChangingServer(serve)) as url:
        connection = ServerConnection(StreamableHttp(url, {}), {"name": "t", "version": "1"})
        watch = ResourceWatch(connection)
        watch.add("a://")
        await until(lambda: watch.updates == {"a://": 1})
        watch.close()
        await connection.close()


async def test_an_acknowledgement_belongs_to_one_subscription() -> None:
    async def serve(served: ChangingServer, subscription: Served) -> None:
        await subscription.acknowledge()
        await asyncio.Event().wait()

    renewals: list[int] = []
    async with site_of(ChangingServer(serve)) as url:
        connection = ServerConnection(StreamableHttp(url, {}), {"name": "t", "version": "1"})
        following = []
        for number in range(2):
            subscription = Subscription(connection, {}, partial(renewals.append, number), lambda reason: None)
            following.append(asyncio.create_task(subscription.follow()))
            await subscription.wait_until_begun()
        assert renewals == []
        for task in following:
            task.cancel()
        await connection.close()


@pytest.mark.process
async def test_a_program_that_a_call_has_started_again_is_subscribed_to_again() -> None:
    async with official_at("program") as target:
        plan = UpstreamPlan("far", target, Reach(revision=NEWEST))
        async with running_desk(upstreams=[plan]) as desk:
            await until(lambda: upstream(desk, "far").state == "ready")
            first = _subscriptions(desk)
            for child in psutil.Process().children(recursive=True):
                if "tests.support.official_server" in " ".join(child.cmdline()):
                    child.kill()
            await until(lambda: upstream(desk, "far").state == "ended")
            await desk.outcome("far", "tools/call", {"name": "add", "arguments": {"a": 1, "b": 1}})
            await until(lambda: upstream(desk, "far").state == "ready")
            assert (first, _subscriptions(desk)) == (1, 2)


def _subscriptions(desk: RunningDesk) -> int:
    desk.traffic.catch_up()
    return [each.method for each in desk.traffic.exchanges].count("subscriptions/listen")
