"""Core for one client over pipes. This module does not import click, because the client is waiting.

When a desk starts to host the same folder, the desk takes over the client as soon as no request is running.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mcpdesk.runtime.attach_point import AttachPoint
from mcpdesk.runtime.core_process import CLIENT_LEFT, JournalPrinter, StopRequests, capture_output
from mcpdesk.transports import pump, rendezvous

if TYPE_CHECKING:
    from socket import socket

    from mcpdesk.hosting.host import Host
    from mcpdesk.transports.descriptors import ClaimedDescriptors
    from mcpdesk.transports.pump import MovedToDesk
    from mcpdesk.transports.replay import ClientState
    from mcpdesk.transports.stdio import StdioTransport

GRACE_S = 4.5
"""Time limit of an orderly exit after a signal, or after the client has disconnected, in seconds."""
_log = logging.getLogger(__name__)


def run(
    folder: Path, mode: str, client_state: ClientState | None = None, *, is_alone: bool = False
) -> int | MovedToDesk:
    """Serve `folder` on stdin and stdout until the client disconnects, or a desk takes over.

    Return the exit code, or the desk that took over. `client_state` is the client's state from an earlier
    core. With `is_alone`, no desk takes over. Raises: DeskError if the folder cannot be hosted.
    """
    from msgspec.structs import replace

    from mcpdesk.hosting.core_loop import core_thread
    from mcpdesk.hosting.host import Host
    from mcpdesk.hosting.host_plan import plan_for

    host = Host(replace(plan_for((folder,), {}, os.environ, http=False), accepts_pumps=False))
    with ExitStack() as exit_stack, capture_output(host, "wire") as descriptors:
        host.load()
        core = _LoneCore(host, folder, mode, descriptors, is_alone)
        # The printer ends last, because tools may still print after the core has ended.
        printer = exit_stack.enter_context(JournalPrinter(host))
        # This is the default event loop of asyncio, because importing uvloop takes longer than it saves.
        handover = core_thread.run(core.serve(client_state, printer), host.turns.new_loop)
    return handover or 0


class _LoneCore:
    """Running core, with the transport of its client."""

    def __init__(
        self, host: Host, folder: Path, mode: str, descriptors: ClaimedDescriptors, is_alone: bool
    ) -> None:
        self._host = host
        self._folder = folder
        self._mode = mode
        self._descriptors = descriptors
        self._is_alone = is_alone
        self._transport: StdioTransport | None = None
        self._desk: socket | None = None
        """Socket of a desk that is ready to take over the client."""

    async def serve(self, client_state: ClientState | None, printer: JournalPrinter) -> MovedToDesk | None:
        """Serve until the client has left, or until a desk has taken it over."""
        host, loop = self._host, asyncio.get_running_loop()
        background_tasks: list[asyncio.Task[None]] = []

        def stop(reason: str) -> None:
            # After a disconnect, the transport finishes pending requests and then ends by itself.
            if reason != CLIENT_LEFT and self._transport is not None:
                loop.call_soon_threadsafe(self._transport.stop)

        # While a tool blocks the loop, the transport cannot notice a disconnect. A thread therefore watches
        # `client_fd`, too, and the process ends `grace_s` seconds after the disconnect.
        with StopRequests(stop, grace_s=GRACE_S, client_fd=self._descriptors.stdin_fd):
            try:
                await host.wake()
                # The client is waiting, so all other work starts later.
                background_tasks.append(asyncio.create_task(self._run_background()))
                background_tasks.append(asyncio.create_task(printer.keep_following()))
                return await self._serve_client(client_state)
            finally:
                for task in background_tasks:
                    task.cancel()
                for error in await asyncio.gather(*background_tasks, return_exceptions=True):
                    if isinstance(error, Exception):
                        _log.error("cannot search for a desk", exc_info=error)
                if self._desk is not None:
                    self._desk.close()
                await host.stop()

    async def _serve_client(self, client_state: ClientState | None) -> MovedToDesk | None:
        from mcpdesk.transports.stdio import StdioTransport

        descriptors, host = self._descriptors, self._host
        peer = rendezvous.process_name(os.getppid())
        while True:
            self._transport = transport = StdioTransport(
                descriptors.stdin_fd,
                descriptors.stdout_fd,
                partial(host.open_pipe, token=host.settings.token),
                peer=peer,
                mode=self._mode,
                client_state=client_state,
                session=pump.SESSION,
            )
            if self._desk is not None:
                transport.hand_over()
            await transport.serve()
            client_state = transport.next_client_state
            desk, self._desk = self._desk, None
            if client_state is None:
                if desk is not None:
                    desk.close()
                return None
            if desk is None:
                continue
            try:
                await asyncio.to_thread(pump.replay, desk, client_state)
            except (OSError, pump.RefusedByDesk) as error:
                host.journal.log("warning", "server", f"the desk did not take over: {error}")
            else:
                host.journal.log("info", "server", "a desk has begun to host the folder and takes over")
                return pump.MovedToDesk(desk, client_state)

    async def _run_background(self) -> None:
        """Watch the folder, accept screens, and listen for desks, until cancelled."""
        with AttachPoint(self._host, "stdio"):
            await self._host.open()
            if not self._is_alone:
                await self._listen_for_desks()
            await asyncio.Event().wait()

    async def _listen_for_desks(self) -> None:
        """Listen for desks that start later, and search for a desk that started earlier."""
        try:
            rendezvous.private_folder()
            meeting_socket = rendezvous.listen(rendezvous.waiting_point(self._folder))
        except OSError as error:
            self._host.journal.log("warning", "server", f"desks cannot find this client: {error}")
            return
        if meeting_socket is None:
            return
        loop = asyncio.get_running_loop()
        meeting_socket.listener.setblocking(False)
        try:
            while True:
                await self._connect_to_desk()
                # A desk that starts to host the folder connects here only to announce itself.
                announcement_socket, _ = await loop.sock_accept(meeting_socket.listener)
                announcement_socket.close()
        finally:
            meeting_socket.leave()

    async def _connect_to_desk(self) -> None:
        """Connect to the desk that hosts the folder, if any, and start the handover of the client."""
        try:
            desk = await asyncio.to_thread(pump.connect_and_greet, str(self._folder), self._mode)
        except (OSError, pump.RefusedByDesk) as error:
            return self._host.journal.log("warning", "server", f"the desk cannot be reached: {error}")
        earlier_desk, self._desk = self._desk, desk
        if earlier_desk is not None:
            earlier_desk.close()
        if self._desk is not None and self._transport is not None:
            self._transport.hand_over()
