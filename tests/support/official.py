"""The official SDK's client over real sockets and pipes, in every revision it speaks."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from mcpdesk.protocol.revisions import BY_NAME, REVISIONS

ROOT = Path(__file__).parents[2]
HANDSHAKES = tuple(revision.name for revision in REVISIONS if not revision.is_stateless)
STATELESS = tuple(revision.name for revision in REVISIONS if revision.is_stateless)
ALL = HANDSHAKES + STATELESS
WITHIN_S = 10.0


class Heard:
    """What a client was told besides answers."""

    def __init__(self) -> None:
        self.progress: list[tuple[float, float | None, str | None]] = []
        self.logs: list[types.LoggingMessageNotificationParams] = []
        self.messages: list[Any] = []
        self._came = asyncio.Event()

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, total, message))
        self._came.set()

    async def on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logs.append(params)
        self._came.set()

    async def on_message(self, message: Any) -> None:
        self.messages.append(message)
        self._came.set()

    def has(self, kind: type) -> bool:
        """Whether a notification of that type came."""
        return any(isinstance(message, kind) for message in self.messages)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something that was heard makes `holds` true."""
        async with asyncio.timeout(WITHIN_S):
            while not holds():
                self._came.clear()
                await self._came.wait()


def stdio(folder: Path, *options: str) -> StdioServerParameters:
    """How a client's configuration starts `mcpdesk stdio`."""
    passed = {name: value for name, value in os.environ.items() if name.startswith("MCPDESK_")}
    program = "from mcpdesk.__main__ import main; main()"
    arguments = ["-c", program, "stdio", str(folder), *options]
    return StdioServerParameters(command=sys.executable, args=arguments, env=passed, cwd=ROOT)


@asynccontextmanager
async def session(
    place: str | StdioServerParameters, revision: str, heard: Heard | None = None
) -> AsyncIterator[ClientSession]:
    """Connect to a URL or a program and agree on a revision."""
    told = heard or Heard()
    async with AsyncExitStack() as stack:
        transport = streamable_http_client(place) if isinstance(place, str) else stdio_client(place)
        read, write = await stack.enter_async_context(transport)
        client = await stack.enter_async_context(
            ClientSession(
                read,
                write,
                read_timeout_seconds=WITHIN_S,
                logging_callback=told.on_log,
                message_handler=told.on_message,
                client_info=types.Implementation(name="official", version="2"),
                log_level="info",
            )
        )
        await agree(client, revision)
        yield client


async def agree(client: ClientSession, revision: str) -> None:
    """Discover or shake hands; the SDK itself would always offer its newest revision of the handshake."""
    if BY_NAME[revision].is_stateless:
        await client.discover()
    else:
        params = types.InitializeRequestParams(
            protocol_version=revision,
            capabilities=types.ClientCapabilities(),
            client_info=types.Implementation(name="official", version="2"),
        )
        result = await client.send_request(types.InitializeRequest(params=params), types.InitializeResult)
        client.adopt(result)
        await client.send_notification(types.InitializedNotification())
    assert client.protocol_version == revision
