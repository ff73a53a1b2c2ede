"""The metadata of the protected resource: at the path of each endpoint and at the root, for everybody."""

from __future__ import annotations

import pytest

from mcpdesk.auth.token_rules import Access
from tests.support.site import serving

WELL_KNOWN = "/.well-known/oauth-protected-resource"
GIVEN = Access(authorization_servers=("https://issuer.example",), scopes_supported=("read",))


@pytest.mark.requirement("11.3")
@pytest.mark.parametrize("path", ["", "/", "/mcp", "/mcp/sample", "/mcp/sample/", "/sample/mcp", "/v1/mcp"])
async def test_every_endpoint_is_described_under_the_address_it_was_asked_for(path: str) -> None:
    async with serving() as served:
        served.peer.server.access = GIVEN
        answer = await served.client.get(f"{served.url}{WELL_KNOWN}{path}")
        assert answer.status == 200 and answer.content_type == "application/json"
        assert await answer.json() == {
            "resource": served.url + (path.rstrip("/") or "/mcp"),
            "authorization_servers": ["https://issuer.example"],
            "scopes_supported": ["read"],
            "bearer_methods_supported": ["header"],
            "resource_name": "sample",
        }


@pytest.mark.requirement("11.3")
async def test_the_public_address_of_a_server_behind_a_proxy_is_the_one_that_counts() -> None:
    async with serving() as served:
        public = "https://h.example/tools/mcp"
        served.peer.server.access = Access(
            requires_token=True, authorization_servers=("https://issuer.example",), resource=public
        )
        answer = await served.client.get(f"{served.url}{WELL_KNOWN}/mcp/sample")
        assert (await answer.json())["resource"] == public
        refused = await served.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        where = 'resource_metadata="https://h.example/.well-known/oauth-protected-resource/tools/mcp"'
        assert refused.headers["WWW-Authenticate"] == f"Bearer {where}"


@pytest.mark.parametrize("path", ["/mcp/other", "/mcp/sample/ws", "/other", "/v1"])
async def test_what_is_not_served_has_no_metadata(path: str) -> None:
    async with serving() as served:
        served.peer.server.access = GIVEN
        assert (await served.client.get(f"{served.url}{WELL_KNOWN}{path}")).status == 404


async def test_there_is_none_where_nobody_gives_tokens_and_it_is_only_read() -> None:
    async with serving() as served:
        assert (await served.client.get(f"{served.url}{WELL_KNOWN}")).status == 404
        served.peer.server.access = GIVEN
        posted = await served.client.post(f"{served.url}{WELL_KNOWN}")
        assert (posted.status, posted.headers["Allow"]) == (405, "GET")
        assert (await served.client.get(f"{served.url}{WELL_KNOWN}x")).status == 404
