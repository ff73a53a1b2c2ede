"""Answers made together leave together, and none of them spoils another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
from aiohttp import web

from mcpdesk.transports.base import Rules
from mcpdesk.transports.http.departures import MOST, Departures
from mcpdesk.transports.http.listener import Listener
from mcpdesk.transports.http.ready import ONE_WRITE, Ready
from tests.support.patience import WITHIN_S

ASKED = b"POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
MANY = 20
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Client:
    """A raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def body(self) -> bytes:
        """That of the next answer."""
        async with asyncio.timeout(WITHIN_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            size = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
            return await self.reader.readexactly(size)


@asynccontextmanager
async def asking(handler: Handler, count: int = MANY) -> AsyncIterator[tuple[Listener, list[Client]]]:
    """So many clients of a handler. Each has had an answer, so that lanes are there."""
    listener = Listener(handler, Rules)
    server = await asyncio.get_running_loop().create_server(listener, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    clients = [Client(*await asyncio.open_connection(*address)) for _ in range(count)]
    try:
        for client in clients:
            client.writer.write(ASKED % 0)
            await client.body()
        yield listener, clients
    finally:
        for client in clients:
            client.writer.close()
        server.close()
        await listener.shutdown(1)


def number(request: web.BaseRequest) -> int:
    return int(request.path[1:])


def ask(clients: list[Client]) -> None:
    """All at once, each with its number, from 1."""
    for at, client in enumerate(clients, 1):
        client.writer.write(ASKED % at)


async def test_each_gets_its_own_answer_and_is_concluded_after_all_were_sent() -> None:
    made: list[str] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        which = number(request)
        made.append(f"made {which}")
        return Ready(200, b"%d" % which, after=lambda: made.append(f"concluded {which}"))

    async with asking(handler) as (_, clients):
        for _ in range(3):
            made.clear()
            ask(clients)
            assert [await client.body() for client in clients] == [b"%d" % at for at in range(1, MANY + 1)]
            assert sorted(made) == sorted(
                f"{what} {at}" for what in ("made", "concluded") for at in range(1, MANY + 1)
            )
            # Several were made before the first of them was sent.
            assert made[1].startswith("made")


async def test_a_client_that_leaves_and_an_end_that_fails_cost_the_others_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails() -> None:
        raise ValueError("no end")

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        which = number(request)
        if which == 3:
            assert request.transport is not None
            request.transport.abort()
        return Ready(200, b"%d" % which, after=fails if which == 5 else None)

    async with asking(handler) as (_, clients):
        with caplog.at_level(logging.DEBUG, "mcpdesk.transports.http.departures"):
            ask(clients)
            others = [(at, client) for at, client in enumerate(clients, 1) if at != 3]
            assert [await client.body() for _, client in others] == [b"%d" % at for at, _ in others]
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await clients[2].body()
        ask(clients[3:5])
        assert [await client.body() for client in clients[3:5]] == [b"1", b"2"]
    assert "no end" in caplog.text and "left before its answer" in caplog.text


async def test_an_answer_that_cannot_be_sent_costs_the_others_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        which = number(request)
        return Ready(200, b"%d" % which, {"X-Name": "\ud800"} if which == 3 else None)

    async with asking(handler) as (_, clients):
        others = [(at, client) for at, client in enumerate(clients, 1) if at != 3]
        for _ in range(2):
            ask(clients)
            assert [await client.body() for _, client in others] == [b"%d" % at for at, _ in others]
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await clients[2].body()
    assert "could not be sent" in caplog.text


async def test_an_answer_on_its_way_arrives_before_the_connection_is_closed() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if number(request) == MANY:
            for connection in list(listener.connections):
                connection.force_close()
        return Ready(200, b"%d" % number(request))

    async with asking(handler) as (listener, clients):
        ask(clients)
        got = [await client.body() for client in clients[: MANY - 1]]
        assert got == [b"%d" % at for at in range(1, MANY)]


def test_no_more_are_held_than_gain_from_it() -> None:
    departures, concluded, seen = Departures(), [], []

    def work() -> None:
        for number in range(MOST + 1):
            departures.send(Ready(200, b"{}", after=partial(concluded.append, number)), None)
            seen.append(len(concluded))

    departures.gather(work)
    assert seen == [0] * (MOST - 1) + [MOST] * 2
    assert concluded == list(range(MOST + 1))


def test_a_large_answer_is_not_held() -> None:
    departures = Departures()
    departures.gather(lambda: departures.send(Ready(200, b"x" * ONE_WRITE), None))
    with pytest.raises(ConnectionResetError):
        departures.gather(lambda: departures.send(Ready(200, b"x" * (ONE_WRITE + 1)), None))


async def test_answers_of_all_sizes_arrive_whole() -> None:
    size = ONE_WRITE + 1

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return Ready(200, b"x" * size if number(request) % 2 else b"small")

    async with asking(handler) as (_, clients):
        ask(clients)
        sizes = [len(await client.body()) for client in clients]
    assert sizes == [size, 5] * (MANY // 2)


def test_what_is_held_leaves_when_the_work_fails() -> None:
    departures, concluded = Departures(), []

    def work() -> None:
        departures.send(Ready(200, b"{}", after=lambda: concluded.append(1)), None)
        assert concluded == []
        raise KeyError("stop")

    with pytest.raises(KeyError):
        departures.gather(work)
    assert concluded == [1]
