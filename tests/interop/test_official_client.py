"""The official client against the real programs: `serve`, and `stdio` with a separate core or as a pump."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from mcpdesk.protocol.revisions import LATEST
from tests.support.desk import running_desk
from tests.support.official import ROOT, WAYS, Heard, Place, session, stdio, text_of, transport

pytestmark = pytest.mark.process

every_way = pytest.mark.parametrize("place", WAYS, indirect=True)


@every_way
async def test_a_client_that_probes_finds_the_stateless_era(place: Place) -> None:
    async with Client(transport(place)) as client:
        assert client.protocol_version == LATEST.name
        assert client.server_capabilities.tools is not None
        assert (await client.call_tool("say", {"text": "found"})).content


@pytest.mark.requirement("4.5")
async def test_two_clients_at_once_hear_only_what_is_theirs(served: str, folder: Path) -> None:
    first, second = Heard(), Heard()
    async with (
        session(served, "2025-11-25", first) as one,
        session(stdio(folder), "2026-07-28", second) as two,
    ):
        answering = [(await client.call_tool("who", {})).content for client in (one, two)]
        assert answering[0] == answering[1]
        walks = [
            client.call_tool("steps", {"count": count}, progress_callback=heard.on_progress)
            for client, heard, count in ((one, first, 40), (two, second, 25))
        ]
        echoes = [
            client.call_tool("say", {"text": str(number)}) for client in (one, two) for number in range(20)
        ]
        _, _, *answers = await asyncio.gather(*walks, *echoes)
        assert [text_of(each) for each in answers] == [str(number) for number in range(20)] * 2
        await first.sees(lambda: len(first.progress) == 40)
        await second.sees(lambda: len(second.progress) == 25)
        assert {total for _, total, _ in first.progress} == {40}
        assert {total for _, total, _ in second.progress} == {25}


async def test_a_key_is_asked_for_where_a_tool_runs_programs() -> None:
    async with running_desk(ROOT / "sample_servers" / "desk", http=True) as desk:
        view = desk.view()
        url, sent = view.servers[0].url, {view.api_key_header: view.api_key}
        async with httpx2.AsyncClient(headers=sent) as http, Client(keyed(url, http)) as client:
            ran = await client.call_tool("Bash", {"command": "echo out; echo err >&2; exit 3"})
            assert ran.is_error and ran.structured_content is not None
            assert ran.structured_content["exit_code"] == 3
            assert (ran.structured_content["stdout"], ran.structured_content["stderr"]) == ("out\n", "err\n")
        async with httpx2.AsyncClient(headers={view.api_key_header: "guess"}) as http:
            with pytest.RaisesGroup(MCPError, flatten_subgroups=True, allow_unwrapped=True):
                async with Client(keyed(url, http)):
                    raise AssertionError("connected without the key")


@pytest.mark.requirement("3.8")
async def test_a_pipe_needs_no_key() -> None:
    folder = ROOT / "sample_servers" / "desk"
    async with (
        running_desk(folder, http=True, accepts_pumps=True) as desk,
        Client(transport(stdio(folder))) as client,
    ):
        assert desk.view().api_key
        ran = await client.call_tool("Bash", {"command": "exit 3"})
        assert ran.structured_content is not None and ran.structured_content["exit_code"] == 3


def keyed(url: str, http: httpx2.AsyncClient) -> Any:
    return streamable_http_client(url, http_client=http)
