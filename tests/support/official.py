"""The official SDK's client over real sockets and pipes: every way to a server, every revision."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import aiohttp
import anyio
import mcp_types as types
from mcp import Client
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from pydantic import FileUrl

from mcpdesk.protocol.revisions import BY_NAME, REVISIONS
from tests.support.features import having
from tests.support.patience import WITHIN_S, until

ROOT = Path(__file__).parents[2]
HANDSHAKES = tuple(revision.name for revision in REVISIONS if not revision.is_stateless)
STATELESS = tuple(revision.name for revision in REVISIONS if revision.is_stateless)
ALL = HANDSHAKES + STATELESS
WAYS = (
    "json",
    "events",
    "sse",
    "websocket",
    "stdio",
    "pump",
    *having("gateway", "gateway", "gateway socket"),
)
"""Streamable HTTP answered in either form, the transport before it, the pipes with and without a desk, and
the endpoints of the gateway dialect, which serve clients of the standard as well."""
Place = str | StdioServerParameters


class Heard:
    """Messages a client received besides answers."""

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
        """True if a notification of that type arrived."""
        return any(isinstance(message, kind) for message in self.messages)

    async def sees(self, holds: Callable[[], bool]) -> None:
        """Wait until a received message makes `holds` true."""
        await until(holds, self, changed=self._came)


def text_of(result: Any) -> str:
    """The one text of a tool's result."""
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def state_of(folder: Path) -> Path:
    """The state folder of the service of `folder`; programs of other state folders do not meet it."""
    return folder.parent / f"{folder.name}-state"


def stdio(folder: Path, *options: str) -> StdioServerParameters:
    """Command in a client's configuration that starts `mcpdesk stdio`, for the service of `folder` if any."""
    passed = {name: value for name, value in os.environ.items() if name.startswith("MCPDESK_")}
    if "--alone" not in options and state_of(folder).is_dir():
        passed["MCPDESK_STATE_DIR"] = str(state_of(folder))
    program = "from mcpdesk.__main__ import main; main()"
    arguments = ["-c", program, "stdio", str(folder), *options]
    return StdioServerParameters(command=sys.executable, args=arguments, env=passed, cwd=ROOT)


class Answers:
    """The user of a client: the answers given, and the questions received."""

    def __init__(self, action: Literal["accept", "decline", "cancel"] = "accept") -> None:
        self.action = action
        self.asked: list[str] = []

    async def elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params.message)
        is_form = self.action == "accept" and isinstance(params, types.ElicitRequestFormParams)
        content: dict[str, Any] | None = {"name": "Ada", "age": 36} if is_form else None
        return types.ElicitResult(action=self.action, content=content)

    async def sample(self, context: Any, params: Any) -> types.CreateMessageResult:
        self.asked.append("sample")
        text = types.TextContent(type="text", text="Good day")
        return types.CreateMessageResult(role="assistant", content=text, model="m")

    async def roots(self, context: Any) -> types.ListRootsResult:
        self.asked.append("roots")
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///home/ada"))])

    @property
    def callbacks(self) -> dict[str, Any]:
        """Callbacks as keyword arguments of both kinds of client."""
        return {
            "elicitation_callback": self.elicit,
            "sampling_callback": self.sample,
            "list_roots_callback": self.roots,
        }


CAPABLE = types.ClientCapabilities(
    elicitation=types.ElicitationCapability(
        form=types.FormElicitationCapability(), url=types.UrlElicitationCapability()
    ),
    sampling=types.SamplingCapability(),
    roots=types.RootsCapability(list_changed=True),
)
"""Capabilities that a client with answers declares in its handshake."""


def place_of(way: str, url: str, folder: Path) -> Place:
    """Place a client connects to by one of `WAYS`, for the server of `folder` that a desk serves at `url`."""
    base = url.rpartition("/mcp/")[0]
    places: dict[str, Place] = {
        "json": url,
        "events": f"{url}?stream=1",
        "sse": f"{url}/sse",
        "websocket": f"{url.replace('http', 'ws', 1)}/ws",
        "gateway": f"{base}/v1/mcp",
        "gateway socket": f"{base.replace('http', 'ws', 1)}/v1/ws/mcp",
        "stdio": stdio(folder, "--alone"),
        "pump": stdio(folder),
    }
    return places[way]


def transport(place: Place) -> Any:
    """The SDK's transport to a place."""
    if not isinstance(place, str):
        return stdio_client(place)
    if place.startswith("ws"):
        return websocket_client(place)
    return _sse_client(place) if place.endswith("/sse") else streamable_http_client(place)


@asynccontextmanager
async def _sse_client(url: str) -> AsyncIterator[Any]:
    """The SDK's own transport, without the error it raises for a message that arrives during its end."""
    try:
        async with sse_client(url) as streams:
            yield streams
    except* anyio.BrokenResourceError:
        pass


@asynccontextmanager
async def websocket_client(url: str) -> AsyncIterator[Any]:
    """The SDK's streams over an aiohttp WebSocket, because the SDK has no client for WebSockets."""
    to_client, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_client = anyio.create_memory_object_stream[SessionMessage](0)
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(url, protocols=("mcp",)) as socket,
        to_client, read, write, from_client,
        anyio.create_task_group() as group,
    ):  # fmt: skip

        async def receive() -> None:
            with suppress(anyio.BrokenResourceError):  # a client that has left reads no more
                async for frame in socket:
                    message = types.jsonrpc_message_adapter.validate_json(frame.data, by_name=False)
                    await to_client.send(SessionMessage(message))
            await to_client.aclose()

        async def send() -> None:
            async for each in from_client:
                await socket.send_str(each.message.model_dump_json(by_alias=True, exclude_unset=True))

        group.start_soon(receive)
        group.start_soon(send)
        yield read, write
        group.cancel_scope.cancel()


@asynccontextmanager
async def session(
    place: Place, revision: str, heard: Heard | None = None, answers: Answers | None = None
) -> AsyncIterator[ClientSession]:
    """Connect to a place and agree on a revision."""
    received = heard or Heard()
    async with AsyncExitStack() as stack:
        read, write = await stack.enter_async_context(transport(place))
        client = await stack.enter_async_context(
            ClientSession(
                read,
                write,
                read_timeout_seconds=WITHIN_S,
                logging_callback=received.on_log,
                message_handler=received.on_message,
                client_info=types.Implementation(name="official", version="2"),
                log_level="info",
                **({} if answers is None else answers.callbacks),
            )
        )
        await agree(client, revision, types.ClientCapabilities() if answers is None else CAPABLE)
        yield client


@asynccontextmanager
async def answering(place: Place, revision: str, answers: Answers) -> AsyncIterator[ClientSession | Client]:
    """A client that answers questions; in the stateless era the SDK's `Client` does so."""
    if BY_NAME[revision].is_stateless:
        async with Client(
            transport(place), mode=revision, read_timeout_seconds=WITHIN_S, **answers.callbacks
        ) as client:
            yield client
    else:
        async with session(place, revision, answers=answers) as opened:
            yield opened


async def agree(
    client: ClientSession, revision: str, capabilities: types.ClientCapabilities | None = None
) -> None:
    """Discover or shake hands; the SDK itself would always offer its newest revision of the handshake."""
    if BY_NAME[revision].is_stateless:
        await client.discover()
    else:
        params = types.InitializeRequestParams(
            protocol_version=revision,
            capabilities=capabilities or types.ClientCapabilities(),
            client_info=types.Implementation(name="official", version="2"),
        )
        result = await client.send_request(types.InitializeRequest(params=params), types.InitializeResult)
        client.adopt(result)
        await client.send_notification(types.InitializedNotification())
    assert client.protocol_version == revision
