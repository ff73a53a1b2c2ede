"""A server of this process as something that can be called: frames over memory, as every peer sends them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.client.answer_checks import is_response, result_of
from mcpdesk.client.line import IDENTITY, kinds_of
from mcpdesk.errors import CallError, RpcError
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject
from mcpdesk.protocol.revisions import LATEST
from mcpdesk.protocol.stateless import request_meta

if TYPE_CHECKING:
    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.hosting.host import Host
    from mcpdesk.recorder.record import ConnectionInfo, HttpNote
    from mcpdesk.server.server import Server


class HostedLine:
    """Requests to one server, on the loop they are made on. `host` is what is to be stopped at the end."""

    revision = LATEST
    mirrors = False

    def __init__(
        self, endpoint: HostedEndpoint, host: Host | None = None, principal: Principal = OPEN
    ) -> None:
        from mcpdesk.hosting.channel import Channel

        self.target = endpoint.name
        self.server: Mapping[str, Any] = {"name": endpoint.name, "version": endpoint.server.version}
        self.instructions = endpoint.server.instructions
        self._host = host
        self._channel = Channel(endpoint, "memory", "bridge", self._received, principal)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._ids = count(1)

    async def request(self, method: str, params: JSONObject, headers: Mapping[str, str]) -> JSONObject:
        """The result. Raises: RpcError, InvalidAnswer; LocalProtocolError for params JSON cannot carry."""
        identifier = next(self._ids)
        meta = request_meta(self.revision, IDENTITY) | params.get("_meta", {})
        frame = codec.request(identifier, method, params | {"_meta": meta})
        self._waiting[identifier] = asyncio.get_running_loop().create_future()
        try:
            self._channel.take(frame)
            message = await self._waiting[identifier]
        except asyncio.CancelledError:
            reason = {"requestId": identifier, "reason": "nobody waits any more"}
            self._channel.take(codec.notification("notifications/cancelled", reason))
            raise
        finally:
            del self._waiting[identifier]
        return result_of(message, identifier, self.target, kinds_of(params))

    async def close(self) -> None:
        """End its calls, and the server if it was started for this line."""
        self._channel.close("the caller has left")
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(CallError("closed while the call was under way", self.target))
        if self._host is not None:
            await self._host.stop()

    def _received(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            message = codec.decode(frame)
            waiting = self._waiting.get(message.get("id")) if is_response(message) else None
            if waiting is not None and not waiting.done():
                waiting.set_result(message)


async def host_folder(folder: Path, mode: str, token: str | None = None) -> HostedLine:
    """Host a server folder for one caller.

    Raises: ManifestError, DeskUserError when it cannot be hosted, or has no such mode; RpcError for a token
    that does not count.
    """
    from mcpdesk.hosting.host import Host
    from mcpdesk.hosting.host_plan import Plan, effective_settings

    settings = effective_settings({}, os.environ, folder).settings
    host = Host(Plan((folder,), settings, http=False, meet=False, watch=False))
    async with AsyncExitStack() as unless_hosted:
        unless_hosted.push_async_callback(host.stop)
        host.load()
        await host.wake()
        endpoint = host.endpoint("", mode)
        assert endpoint is not None
        line = HostedLine(endpoint, host, await caller(endpoint.server, token))
        unless_hosted.pop_all()
    return line


async def line_to(server: Server, token: str | None = None) -> HostedLine:
    """Call a server that was put together in code. Raises: RpcError for a token that does not count."""
    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.server.services import Services

    def log(*_: object, **__: object) -> None:
        """Nobody reads it."""

    principal = await caller(server, token)
    return HostedLine(HostedEndpoint(server, Services(log), Unrecorded()), principal=principal)


async def caller(server: Server, token: str | None) -> Principal:
    """Who calls. As over HTTP, a token is looked at where one makes a difference, and has to count there.

    Raises: RpcError (-32001), with the words a server has for it.
    """
    from mcpdesk.auth.access import INVALID
    from mcpdesk.auth.key_source import KeysMissing
    from mcpdesk.auth.token import Rejected

    if token is None or not server.access.is_asked:
        return OPEN
    try:
        return await server.access.verify(token)
    except Rejected:
        raise RpcError(ErrorCode.UNAUTHORIZED, INVALID, None, server.name) from None
    except KeysMissing:
        raise RpcError(ErrorCode.INTERNAL_ERROR, "Tokens cannot be checked now", None, server.name) from None


class Unrecorded:
    """Keeps no frames."""

    def connect(self, info: ConnectionInfo) -> None:
        """Nobody looks."""

    def frame(self, *_: Any, **__: Any) -> int:
        """Nobody looks."""
        return 0

    def together(self, *_: Any, **__: Any) -> int:
        """Nobody looks."""
        return 0

    def note(self, note: HttpNote) -> None:
        """Nobody looks."""
