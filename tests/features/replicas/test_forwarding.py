"""Requests that are forwarded to another replica have that replica's answer, also if it is a refusal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request

from mcpdesk.auth.principal import Principal
from mcpdesk.features.replicas.group.forwarding import MOVED_HEADER, SocketRejected
from mcpdesk.features.replicas.http.other_replicas import OtherReplicas
from mcpdesk.features.replicas.http.request_forwarding import forward_request
from mcpdesk.protocol.marked_ids import MARK_LENGTH
from mcpdesk.transports.http.connections import CONNECTION


class Replicas:
    """Implements the parts of `ReplicaGroup` that forward requests: all others are alive."""

    id = "here"

    def __init__(self, **moved: str) -> None:
        self.asked: list[str] = []
        self.moved = moved
        self.sessions = SimpleNamespace(listen=lambda _: None)

    def is_alive(self, replica: str) -> bool:
        return bool(replica)

    @asynccontextmanager
    async def answer_of(self, replica: str, *_: object) -> AsyncIterator[Any]:
        self.asked.append(replica)
        moved = self.moved.get(replica)
        headers = [(MOVED_HEADER, moved)] if moved else [("Content-Type", "text/plain")]

        async def chunks() -> AsyncIterator[bytes]:
            yield f"from {replica}".encode()

        yield SimpleNamespace(status=202, headers=headers, chunks=chunks)

    @asynccontextmanager
    async def socket_of(self, replica: str, *_: object) -> AsyncIterator[Any]:
        self.asked.append(replica)
        raise SocketRejected(403, self.moved.get(replica, ""))
        yield


@pytest.mark.parametrize(("moved", "holder"), [({}, "there"), ({"there": "third"}, "third")])
async def test_the_answer_of_the_replica_that_has_it_is_sent_once(moved: dict[str, str], holder: str) -> None:
    replicas: Any = Replicas(**moved)
    sent: list[web.StreamResponse] = []

    async def forward(request: web.Request) -> web.StreamResponse:
        connection: Any = SimpleNamespace(abort=lambda: None)
        request[CONNECTION] = connection
        sent.append(await forward_request(request, replicas, "there"))
        return sent[0]

    app = web.Application()
    app.router.add_get("/", forward)
    async with TestClient(TestServer(app)) as client, client.get("/") as answer:
        assert (answer.status, await answer.text()) == (202, f"from {holder}")
    assert [each.status for each in sent] == [202] and replicas.asked[-1] == holder


async def test_a_refused_web_socket_is_refused_with_the_same_status() -> None:
    holder = "there".ljust(MARK_LENGTH, "-")
    replicas: Any = Replicas(**{holder: "third"})
    nothing: Any = SimpleNamespace()
    others = OtherReplicas(nothing, nothing, replicas)
    request = make_mocked_request("GET", "/ws")
    answer = await others.job(request, f"a{holder}b", [Principal("open")], is_socket=True)
    assert answer is not None and answer.status == 403
    assert replicas.asked == [holder, "third"]
