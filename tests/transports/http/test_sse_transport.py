"""The HTTP transport of 2024-11-05."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
import pytest

from mcpdesk.transports.base import Rules
from mcpdesk.transports.http import http_service
from tests.support.patience import until, within
from tests.support.site import Served, serving


class Stream:
    """An open event stream, and where its messages are posted."""

    def __init__(self, served: Served, answer: aiohttp.ClientResponse) -> None:
        self.served = served
        self.answer = answer
        self.place = ""

    async def event(self) -> tuple[str, str]:
        """The next event's name and data; comments are skipped."""
        fields: dict[str, str] = {}
        async with within():
            while line := (await self.answer.content.readline()).decode():
                if line == "\n" and fields:
                    return fields["event"], fields["data"]
                name, _, value = line.rstrip("\n").partition(": ")
                if name:
                    fields[name] = value
        raise AssertionError("the stream ended")

    async def message(self) -> dict[str, Any]:
        name, data = await self.event()
        assert name == "message"
        return dict(orjson.loads(data))

    async def post(self, body: Any, **headers: str) -> int:
        data = body if isinstance(body, bytes) else orjson.dumps(body)
        named = {"Content-Type": "application/json"} | {
            key.replace("_", "-"): v for key, v in headers.items()
        }
        async with self.served.client.post(self.served.url + self.place, data=data, headers=named) as answer:
            return answer.status

    async def request(self, identifier: Any, method: str, params: dict[str, Any]) -> None:
        body = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params}
        assert await self.post(body) == 202

    async def shake_hands(self, revision: str = "2024-11-05") -> dict[str, Any]:
        client = {"name": "old", "version": "1"}
        await self.request(
            0, "initialize", {"protocolVersion": revision, "capabilities": {}, "clientInfo": client}
        )
        answer = await self.message()
        assert await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}) == 202
        return answer


@asynccontextmanager
async def listening(served: Served) -> AsyncIterator[Stream]:
    headers = {"Accept": "text/event-stream"}
    async with served.client.get(f"{served.url}/mcp/sample/sse", headers=headers) as answer:
        assert answer.content_type == "text/event-stream"
        stream = Stream(served, answer)
        name, stream.place = await stream.event()
        assert name == "endpoint"
        yield stream


@pytest.mark.requirement("4.15", "12.3")
async def test_the_first_event_says_where_to_post_and_cannot_be_guessed() -> None:
    start = "/mcp/sample/messages?connection="
    async with serving() as served, listening(served) as one, listening(served) as two:
        assert one.place.startswith(start) and two.place.startswith(start)
        first, second = (each.place.removeprefix(start) for each in (one, two))
        assert len(first) >= 32
        assert first[:8] != second[:8] and first[-8:] != second[-8:]


async def test_a_session_of_the_revision() -> None:
    async with serving() as served, listening(served) as stream:
        assert (await stream.shake_hands())["result"]["protocolVersion"] == "2024-11-05"
        await stream.request(1, "tools/call", {"name": "steps", "_meta": {"progressToken": "p"}})
        came = [await stream.message()]
        while "id" not in came[-1]:
            came.append(await stream.message())
        assert sum(each.get("method") == "notifications/progress" for each in came) == 3
        served.peer.services.subscriptions.list_changed("sample", "tool")
        assert (await stream.message())["method"] == "notifications/tools/list_changed"
        info = max(served.recorder.connections.values(), key=lambda each: each.number)
        assert (info.transport, info.revision, info.peer) == ("sse", "2024-11-05", "old 1")
        assert served.recorder.notes[0].line == "POST /mcp/sample/messages?connection=*** HTTP/1.1"


@pytest.mark.requirement("2.3", "2.4")
async def test_batches_are_taken_from_sessions_of_their_revision_only() -> None:
    batch = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in (1, 2)]
    async with serving() as served, listening(served) as one, listening(served) as two:
        await one.shake_hands("2025-03-26")
        assert await one.post(batch) == 202
        _, answers = await one.event()
        assert [each["id"] for each in orjson.loads(answers)] == [1, 2]
        await two.shake_hands("2024-11-05")
        assert await two.post(batch) == 400


async def test_messages_count_against_the_bodies_held_only_while_they_are_taken() -> None:
    text = "y" * 400
    async with serving(Rules(max_bodies_bytes=1000)) as served, listening(served) as stream:
        for number in range(5):
            await stream.request(number, "ping", {"text": text})
            assert (await stream.message())["id"] == number


async def test_messages_reach_their_own_connection_only() -> None:
    async with serving() as served, listening(served) as one, listening(served) as two:
        await one.shake_hands()
        await two.request(5, "ping", {})
        assert (await two.message())["id"] == 5
        await one.request(6, "ping", {})
        assert (await one.message())["id"] == 6


async def test_what_cannot_be_taken_is_refused_in_the_post() -> None:
    async with serving(Rules(max_body_bytes=2048)) as served, listening(served) as stream:
        assert await stream.post(b"{") == 400
        assert await stream.post([]) == 400
        assert await stream.post({"id": 1}) == 400
        assert await stream.post(b"{}", Content_Type="text/plain") == 415
        assert await stream.post(b" " * 3000) == 413
        stream.place = "/mcp/sample/messages?connection=guess"
        assert await stream.post(b"{}") == 404
        stream.place = "/mcp/sample/messages"
        assert await stream.post(b"{}") == 404


async def test_closing_the_stream_ends_everything() -> None:
    async with serving() as served:
        async with listening(served) as stream:
            await stream.shake_hands()
            await stream.request(1, "tools/call", {"name": "forever"})
            await until(lambda: any(not each.is_idle for each in served.hosted.dialogues.values()))
            [call] = next(iter(served.hosted.dialogues.values())).conversation.running
            stream.answer.close()
        await until(lambda: call.task is None and not served.hosted.dialogues)
        assert call.stop == "the client disconnected"
        assert await stream.post({"jsonrpc": "2.0", "id": 2, "method": "ping"}) == 404


async def test_the_end_of_the_server_ends_the_stream_and_cuts_nothing_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_service, "SHUTDOWN_S", 10.0)  # streams that end by themselves need none
    async with serving() as served, listening(served) as stream, within():
        await stream.shake_hands()
        await served.service.close()
        # A stream that is cut off has no last chunk: reading it would raise an error.
        assert b"data:" not in await stream.answer.content.read()


@pytest.mark.requirement("12.4")
async def test_the_key_is_asked_for_on_every_request() -> None:
    async with serving(Rules(api_key="secret")) as served:
        async with served.client.get(f"{served.url}/mcp/sample/sse?api_key=secret") as answer:
            assert answer.status == 403
        headers = {"X-API-Key": "secret"}
        async with served.client.get(f"{served.url}/mcp/sample/sse", headers=headers) as answer:
            stream = Stream(served, answer)
            _, stream.place = await stream.event()
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            assert await stream.post(ping) == 403
            assert await stream.post(ping, X_API_Key="secret") == 202
