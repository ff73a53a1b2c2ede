"""Byte streams of clients to a server, and the sockets where `mcpdesk stdio FOLDER` finds this core.

A pump is the process that `mcpdesk stdio` starts: it copies bytes between a client and a core.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mcpdesk.auth.principal import TOKEN_VARIABLE
from mcpdesk.errors import TransportError
from mcpdesk.hosting.endpoint import HostedEndpoint
from mcpdesk.hosting.journal import Journal
from mcpdesk.transports import rendezvous

if TYPE_CHECKING:
    from mcpdesk.hosting.channel import Pipe
    from mcpdesk.hosting.hosted_folder import HostedFolder
    from mcpdesk.settings import Settings
    from mcpdesk.transports.pipe import OpenPipe, PipeRequest
    from mcpdesk.transports.unix import UnixListener

MAX_NAMED_TOOLS = 8
"""Maximum number of tools named in one log line."""
LEAVE_S = 0.5
"""Seconds that pumps are given to move to another server when this core stops or removes their server."""


class PipeOpener:
    """Opens the pipes of clients to the servers of a core. Use it on the core's loop."""

    def __init__(
        self,
        endpoint: Callable[[str, str], HostedEndpoint | None],
        folders: Mapping[str, HostedFolder],
        hidden_variables: Callable[[], Collection[str]],
        journal: Journal,
        settings: Settings,
    ) -> None:
        """Create the opener.

        `endpoint` finds a server by name and mode. `hidden_variables` returns the names of the secret
        variables.
        """
        self._endpoint = endpoint
        self._folders = folders
        self._hidden_variables = hidden_variables
        self._journal = journal
        self._settings = settings

    def open(self, request: PipeRequest, send: Callable[[bytes], None], token: str = "") -> Pipe:
        """Open a pipe. The arguments and errors are those of `OpenPipe`.

        `token` is a bearer token of the peer. If `request` has an environment, its `MCPDESK_TOKEN` is used.
        """
        server = request.server or ""
        peer = request.peer
        default_endpoint = self._endpoint(server, "")
        if default_endpoint is not None and default_endpoint.server.withheld:
            raise TransportError(default_endpoint.server.withheld)
        if (endpoint := self._endpoint(server, request.mode)) is None:
            raise TransportError(f"no server is called {request.server!r}")
        environment = request.environment
        if environment is not None:
            token = environment.get(TOKEN_VARIABLE, "").strip()
            if (folder := self._folders.get(endpoint.name)) is not None:
                environment = folder.environment_for(peer, environment, self._hidden_variables())
        limit = self._settings.max_body_bytes
        pipe = endpoint.pipe(request.transport, peer, send, limit, request.session, environment)

        def report(reason: str) -> None:
            text = f"{peer or 'the client'}: {reason}"
            self._journal.log("warning", "server", text, "", endpoint.name)

        if token:  # checked even without `auth.jwt`, which may be added later
            from mcpdesk.hosting.held_token import ClientToken

            pipe.expect(ClientToken(lambda: endpoint.access, pipe.dialogue.identify, token, report))
        is_checked = token and endpoint.access.verifier is not None
        if request.transport == "stdio" and not is_checked and (unlisted := _unlisted_text(endpoint)):
            explanation = f"{unlisted} listed for {peer or 'the client'}"
            if token:
                explanation += f", because mcp.json has no auth.jwt to check its {TOKEN_VARIABLE}"
            else:
                explanation += f", whose environment has no {TOKEN_VARIABLE}"
            self._journal.log("info", "server", explanation, "", endpoint.name)
        return pipe


def _unlisted_text(endpoint: HostedEndpoint) -> str:
    """Return the items that only clients with a token can see, as the beginning of a sentence."""
    if endpoint.access.requires_token:
        return f"{endpoint.name} needs a token: none of it is"
    names = endpoint.server.token_tools
    count_text = f" and {len(names) - MAX_NAMED_TOOLS} more" if len(names) > MAX_NAMED_TOOLS else ""
    verb = "is not" if len(names) == 1 else "are not"
    return f"{', '.join(names[:MAX_NAMED_TOOLS])}{count_text} {verb}" if names else ""


class PumpSockets:
    """Sockets on which pumps find one core. Use it on the core's loop."""

    def __init__(self, open_pipe: OpenPipe, journal: Journal, state: str) -> None:
        """Create the object without sockets.

        `state` is the state folder if the user chose one. Pumps and cores find each other only with the same
        state folder.
        """
        self._open_pipe = open_pipe
        self._journal = journal
        self._state = state
        self._listeners: dict[str, UnixListener] = {}
        """Listeners by server."""
        self._takeovers: dict[str, asyncio.Task[None]] = {}
        """Tasks by server. Each waits until the other process that serves the folder ends."""
        self._is_leaving = False

    async def listen(self, name: str, folder: Path) -> None:
        """Listen for pumps of a server. If another process already listens, wait until it ends."""
        if not await self._listen_at(name, folder):
            self._journal.log("info", "server", f"another process already answers for {folder}")
            self._takeovers[name] = asyncio.create_task(self._take_over_later(name, folder))

    async def leave(self, name: str) -> None:
        """Stop listening for the pumps of a server, and send its pumps to another process."""
        if (takeover := self._takeovers.pop(name, None)) is not None:
            takeover.cancel()
            await asyncio.gather(takeover, return_exceptions=True)
        if (listener := self._listeners.pop(name, None)) is not None:
            await listener.send_away(LEAVE_S)
            await listener.close()

    async def send_away(self) -> None:
        """Ask pumps without a running call to use another process. Stop waiting for other processes."""
        for takeover in self._takeovers.values():
            takeover.cancel()
        await asyncio.gather(*self._takeovers.values(), return_exceptions=True)
        if not self._is_leaving:
            self._is_leaving = True
            await asyncio.gather(*(listener.send_away(LEAVE_S) for listener in self._listeners.values()))

    async def close(self) -> None:
        """Close every connection."""
        await asyncio.gather(*(listener.close() for listener in self._listeners.values()))

    def disconnect(self, connection: int) -> bool:
        """Close one connection. Return False if no pump has that connection."""
        return any(listener.disconnect(connection) for listener in self._listeners.values())

    async def _listen_at(self, name: str, folder: Path) -> bool:
        """Listen on the socket of a folder. Return False if another process listens there.

        Processes that serve the folder to only one client are notified.
        """
        from mcpdesk.transports.unix import UnixListener

        try:
            listening_socket = await self._occupy(folder)
            if listening_socket is None:
                return False
            listener = UnixListener(listening_socket, self._open_pipe, name)
            try:
                await listener.start()
            except BaseException:
                await asyncio.to_thread(listening_socket.leave)
                raise
            self._listeners[name] = listener
            await asyncio.to_thread(rendezvous.announce_desk, folder, self._state)
        except OSError as error:
            self._journal.log(
                "warning", "server", f"other processes cannot find this one for {folder}: {error}"
            )
        return True

    async def _occupy(self, folder: Path) -> rendezvous.ListeningSocket | None:
        """Occupy the socket of a folder, on a worker thread.

        Return None if another process has it. Raises: OSError.
        """
        occupy_task = asyncio.ensure_future(
            asyncio.to_thread(rendezvous.listen_for_folder, folder, self._state)
        )
        try:
            return await asyncio.shield(occupy_task)
        except asyncio.CancelledError:
            occupy_task.add_done_callback(_release_socket)
            raise

    async def _take_over_later(self, name: str, folder: Path) -> None:
        """Wait until the process that serves a folder ends, then listen instead of it."""
        while not await self._listen_at(name, folder):
            with contextlib.suppress(OSError):
                desk_socket = await asyncio.to_thread(rendezvous.find_desk, folder, self._state)
                if desk_socket is not None:
                    reader, writer = await asyncio.open_unix_connection(sock=desk_socket)
                    try:
                        # The other process sends nothing, so this returns when that process ends.
                        await reader.read()
                    finally:
                        writer.close()


def _release_socket(occupy_task: asyncio.Future[rendezvous.ListeningSocket | None]) -> None:
    """Release a folder socket that was occupied after the wait for it was cancelled."""
    if (
        not occupy_task.cancelled()
        and occupy_task.exception() is None
        and (listening_socket := occupy_task.result())
    ):
        listening_socket.leave()
