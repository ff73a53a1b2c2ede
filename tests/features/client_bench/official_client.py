"""Client of the official SDK for a bench: calls the tool until the time is over.

Arguments: the mode of the client, the number of seconds, and a URL or the command of a server over stdio.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from pydantic import AnyUrl


class _Store:
    """Tokens in memory."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client: Any) -> None:
        self.client = client


def _login(url: str) -> OAuthClientProvider:
    returned: dict[str, str] = {}

    async def visit(address: str) -> None:
        async with httpx2.AsyncClient() as browser:
            location = (await browser.get(address)).headers["location"]
        query = parse_qs(urlsplit(location).query)
        returned.update({name: values[0] for name, values in query.items()})

    async def result() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(
            code=returned["code"], state=returned.get("state"), iss=returned.get("iss")
        )

    metadata = OAuthClientMetadata(
        client_name="official",
        redirect_uris=[AnyUrl("http://127.0.0.1:40404/callback")],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    return OAuthClientProvider(url, metadata, _Store(), visit, result)


async def main() -> None:
    """Run the client."""
    mode, seconds, *server = sys.argv[1:]
    if server[0].startswith("http"):
        async with create_mcp_http_client(auth=_login(server[0])) as http:
            await _use(streamable_http_client(server[0], http_client=http), mode, float(seconds))
    else:
        parameters = StdioServerParameters(command=server[0], args=server[1:], env=dict(os.environ))
        await _use(stdio_client(parameters), mode, float(seconds))


async def _use(transport: Any, mode: str, seconds: float) -> None:
    async with Client(transport, mode=mode) as client:
        end = time.monotonic() + seconds
        await client.call_tool("bench", {})
        while time.monotonic() < end:
            await asyncio.sleep(0.1)
            await client.call_tool("bench", {})


if __name__ == "__main__":
    asyncio.run(main())
