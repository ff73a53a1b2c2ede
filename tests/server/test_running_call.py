"""Permission to call, and the end of a call."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mcpdesk.auth.access import Access
from mcpdesk.auth.principal import Principal
from mcpdesk.errors import RemoteProtocolError
from mcpdesk.protocol.client_questions import Terms
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.server.calls.running_call import Call
from tests.support.served import Peer


def make_call() -> Call:
    return Call(1, "tools/call", {}, Terms(V2026_07_28), Peer().channel)


async def test_a_token_that_is_required_is_missed_until_its_claims_are_known() -> None:
    call = make_call()
    call.check_token(False)
    with pytest.raises(RemoteProtocolError, match="missing JWT"):
        call.check_token(True)
    call.principal = Principal("token", claims={"sub": "ada"})
    call.check_token(True)


async def test_a_token_that_lacks_a_scope_or_ended_meanwhile_does_not_count() -> None:
    call = make_call()
    call.principal = Principal("token", claims={"sub": "ada"}, scopes=frozenset({"read"}))
    call.check_token(True, ("read",))
    with pytest.raises(RemoteProtocolError, match="lacks the scope send") as refused:
        call.check_token(True, ("read", "send"))
    assert (refused.value.code, refused.value.data) == (-32003, {"scope": "read send"})
    call.principal = Principal("token", claims={"sub": "ada"}, expires=1.0)
    with pytest.raises(RemoteProtocolError, match="invalid JWT"):
        call.check_token(True)


async def test_a_tool_that_requires_a_token_does_not_run_without_one() -> None:
    peer = Peer()
    peer.server.tools.replace([replace(tool, requires_jwt=True) for tool in peer.server.tools])
    peer.modern(1, "tools/call", {"name": "echo", "arguments": {"text": "x"}})
    told = "Unauthorized: missing JWT; tokens are sent over HTTP, but this call came from within mcpdesk"
    assert (await peer.response(1))["error"] == {"code": -32001, "message": told}


@pytest.mark.parametrize(
    ("transport", "told"),
    [
        ("stdio", "missing JWT; over stdio, set MCPDESK_TOKEN in the environment of the client"),
        ("unix", "missing JWT; tokens are sent over HTTP, but this call came over a Unix socket"),
        ("http", r"missing JWT$"),
    ],
)
async def test_a_call_without_a_token_learns_how_one_is_given(transport: str, told: str) -> None:
    call = Call(1, "tools/call", {}, Terms(V2026_07_28), Peer().channel, transport)
    with pytest.raises(RemoteProtocolError, match=told):
        call.check_token(True)


async def test_the_desk_is_not_told_of_ways_it_does_not_go() -> None:
    call = Call(1, "tools/call", {}, Terms(V2026_07_28), Peer().channel, "memory", "desk")
    with pytest.raises(RemoteProtocolError, match=r"^Unauthorized: missing JWT$"):
        call.check_token(True)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "echo", "arguments": {"text": "x"}}),
        ("resources/read", {"uri": "resource://note"}),
        ("prompts/get", {"name": "summarize", "arguments": {"topic": "bees"}}),
    ],
)
async def test_a_server_that_requires_a_token_runs_nothing_without_one(
    method: str, params: dict[str, object]
) -> None:
    peer = Peer()
    peer.server.access = Access(requires_token=True)
    peer.modern(1, method, params)
    assert (await peer.response(1))["error"]["code"] == -32001
