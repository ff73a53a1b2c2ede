"""The desk's own client, on the in-memory channel."""

from __future__ import annotations

import asyncio

import pytest

from mcpdesk.errors import LocalProtocolError
from mcpdesk.link.desk_client import DeskClient
from tests.support.served import Peer


async def test_calls_run_side_by_side_and_find_their_answers() -> None:
    client = DeskClient(
        Peer().endpoint, lambda function: asyncio.get_running_loop().call_soon(function) and None
    )
    stuck = client.request("tools/call", {"name": "forever"})
    quick = client.request("tools/call", {"name": "echo", "arguments": {"text": "x"}})
    failed = client.request("tools/call", {"name": "nope"})
    async with asyncio.timeout(5):
        outcome = await asyncio.wrap_future(quick.outcome)
        error = (await asyncio.wrap_future(failed.outcome)).error
    assert outcome.result is not None and outcome.raw.startswith(b'{"jsonrpc"')
    assert error is not None and error["code"] == -32602
    assert client.running == 1
    client.close()
    assert stuck.outcome.result().cancelled


async def test_params_json_cannot_carry_leave_no_call_behind() -> None:
    client = DeskClient(Peer().endpoint, lambda function: None)
    with pytest.raises(LocalProtocolError):
        client.request("tools/call", {"name": "echo", "arguments": {"text": 2**70}})
    assert client.running == 0
