"""Timers for callbacks: messages that a client receives later, once or repeatedly.

They continue after the end of the call, of the connection and of the server.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from mcpdesk.errors import HandlerError
from mcpdesk.jobs.process_table import is_running, process_identity
from mcpdesk.jobs.schedule import Schedule
from mcpdesk.storage import callbacks as callback_table
from mcpdesk.storage.callbacks import Callback

if TYPE_CHECKING:
    from mcpdesk.storage.database import StateData


class CoreIdentity(Struct, frozen=True):
    """Identity of this process among those that use the same state, and a function that checks whether
    another process runs.
    """

    mark: str = field(default_factory=lambda: process_identity(os.getpid()))
    is_running: Callable[[str], bool] = is_running
    detection_delay_s: float = 0.0
    """Maximum seconds from the end of a process until `is_running` returns False for it."""


Listener = Callable[[Callback, bool], None]
"""Function that is called with a callback that changed, and True if it has just fired."""
LogToSetter = Callable[[str, Any], bool]
"""Function that logs data at a level to the client that set a callback.

It returns False if that client has disconnected.
"""
MAX_ID = 1_000_000
"""Largest id that a caller may choose."""
MAX_CALLBACKS = 1_000
"""Maximum number of callbacks that have not fired."""
SCHEME = "callback://"


class CallbackTimers:
    """Callbacks of one server. `snapshot` and `version` may be read on any thread."""

    def __init__(
        self, data: StateData, clock: Callable[[], float] = time.time, core: CoreIdentity | None = None
    ) -> None:
        """`core` identifies this process among those that use the state. The default is the process id."""
        self.version = 0
        """Number that increases with every change."""
        self.snapshot: tuple[Callback, ...] = ()
        """All known callbacks, oldest first."""
        self._data = data
        self._clock = clock
        self._core = core or CoreIdentity()
        self._schedule = Schedule(self._fire_due, clock)
        self._setters: dict[int, LogToSetter] = {}
        self.log_to_clients: Callable[[str, Any], Iterable[str]] = lambda _level, _data: ()
        """Function that logs data to every client of the server, and returns the clients' names."""
        self.fires_due_callbacks = True
        """False if this process fires no callbacks, because another process that uses the state fires them.
        """
        self._listeners: list[Listener] = []
        self._has_loaded = False

    def subscribe(self, listener: Listener) -> None:
        """Call `listener(callback, has_fired)` whenever a callback is set, fires or is cancelled."""
        self._listeners.append(listener)

    async def wake(self) -> None:
        """Load the callbacks of a previous run. Callbacks that became due in the meantime fire once,
        immediately.
        """
        await self._refresh()
        if any(callback.due is not None for callback in self.snapshot):
            self._wake_schedule()

    async def set(
        self,
        message: str,
        delay_s: float,
        repeat_count: int,
        peer: str,
        log_to_setter: LogToSetter,
        callback_id: int | None = None,
    ) -> Callback:
        """Store a new callback. `callback_id` is its id, or None to generate one.

        Raises: HandlerError if `MAX_CALLBACKS` callbacks are pending, or if the id is not available.
        """
        now, core_mark = self._clock(), self._core.mark
        if callback_id is not None and not 1 <= callback_id <= MAX_ID:
            raise HandlerError(f"callback_id: {callback_id} is not allowed; use 1 to {MAX_ID}, or omit it")

        def work(connection: Any) -> Callback:
            if callback_table.count(connection) >= MAX_CALLBACKS:
                raise HandlerError(
                    f"{MAX_CALLBACKS} callbacks are already waiting, which is the limit; cancel some"
                )
            if callback_id is not None and not callback_table.release_id(connection, callback_id):
                problem = f"callback_id: {callback_id} is already waiting"
                raise HandlerError(f"{problem}; cancel it first, use another id, or omit it")
            return callback_table.add(
                connection, message, delay_s, repeat_count, peer, now, callback_id, core_mark
            )

        await self._refresh()
        try:
            callback = await self._data.run(work)
            self._setters[callback.id] = log_to_setter
            await self._refresh()
        except asyncio.CancelledError:
            self._wake_schedule()  # the callback may be stored already, and must not fire late
            raise
        self._wake_schedule()
        return callback

    async def get(self, number: int) -> Callback | None:
        """Return the callback with this number, or None."""
        return await self._data.run(lambda connection: callback_table.find(connection, number))

    async def all(self) -> tuple[Callback, ...]:
        """Return all stored callbacks, oldest first, including those of other processes."""
        await self._refresh()
        return self.snapshot

    async def cancel(self, number: int) -> Callback | None:
        """Cancel a callback. Return the callback, or None if the number is unknown."""
        callback = await self.get(number)
        if callback is not None and callback.due is not None:
            await self._data.run(lambda connection: callback_table.cancel(connection, number))
            await self._refresh()
            callback = await self.get(number)
        return callback

    async def fire(self, number: int) -> bool:
        """Fire a callback before its time. Return False if the callback is over."""
        callback = await self.get(number)
        return callback is not None and callback.due is not None and await self._fire([callback])

    async def missed(self, peer: str) -> list[Callback]:
        """Return callbacks that fired while neither the client that set them nor this peer was connected.

        Each callback is returned only once.
        """
        if not any(callback.fired for callback in self.snapshot):
            return []
        return await self._data.run(partial(callback_table.pop_missed, peer=peer))

    async def reload(self) -> None:
        """Load the changes of another process. Raises: StorageError."""
        await self._refresh()
        self._wake_schedule()

    async def close(self) -> None:
        """Stop firing. Pending callbacks stay in the file."""
        await self._schedule.close()

    def _wake_schedule(self) -> None:
        if self.fires_due_callbacks:
            self._schedule.wake()

    async def _fire_due(self) -> float | None:
        await self._refresh()
        now = self._clock()
        due = [each for each in self.snapshot if each.due is not None and each.due <= now]
        if due:
            await self._fire(due)
        return min((each.due for each in self.snapshot if each.due is not None), default=None)

    async def _fire(self, callbacks: Sequence[Callback]) -> bool:
        """Fire callbacks. Return True if any of them fired in this process."""
        now = self._clock()
        results = await self._data.run(
            lambda connection: [callback_table.fire(connection, callback, now) for callback in callbacks]
        )
        await self._refresh()
        return any(results)

    async def _refresh(self) -> None:
        """Load the callbacks and report changes, because another process may have fired them."""
        snapshot = await self._data.run(callback_table.all_callbacks)
        if snapshot == self.snapshot:
            self._has_loaded = True
            return
        earlier_callbacks = {callback.id: callback for callback in self.snapshot}
        self.snapshot = snapshot
        self.version += 1
        notified_peers: dict[int, list[str]] = {}
        for callback in snapshot if self._has_loaded else ():
            earlier = earlier_callbacks.get(callback.id)
            if callback != earlier:
                has_fired = callback.fired > (0 if earlier is None else earlier.fired)
                if has_fired:
                    notified_peers[callback.id] = self._notify_clients(callback)
                self._report_change(callback, has_fired=has_fired)
        self._has_loaded = True
        for number, peers in notified_peers.items():
            if peers:
                await self._data.run(partial(callback_table.mark_notified, number=number, peers=peers))

    def _notify_clients(self, callback: Callback) -> list[str]:
        """Notify the client that set a callback, or else every client. Return the names of the notified
        clients.
        """
        log_to_setter = self._setters.get(callback.id)
        if log_to_setter is not None:
            if log_to_setter("notice", fired_data(callback)):
                return [callback_table.CREATOR_KEY]
        elif callback.core != self._core.mark and self._core.is_running(callback.core):
            if self._core.detection_delay_s:
                asyncio.get_running_loop().call_later(
                    self._core.detection_delay_s, self._notify_clients_late, callback
                )
            return []  # the callback was set in another process, which notifies the client that set it
        return list(self.log_to_clients("notice", fired_data(callback)))

    def _notify_clients_late(self, callback: Callback) -> None:
        """Notify every client, if the process that had to notify the client that set the callback has
        ended.
        """
        if not self._core.is_running(callback.core):
            self.log_to_clients("notice", fired_data(callback))

    def _report_change(self, callback: Callback, *, has_fired: bool) -> None:
        if callback.due is None:
            self._setters.pop(callback.id, None)
        for listener in self._listeners:
            listener(callback, has_fired)


def uri_of(number: int) -> str:
    """Return the URI of a callback's resource."""
    return f"{SCHEME}{number}"


def fired_data(callback: Callback) -> dict[str, Any]:
    """Return the data that is sent when a callback fires, to the client that set the callback."""
    return {
        "callback_id": callback.id,
        "message": callback.message,
        "fired": callback.fired,
        "left": callback.remaining_firings,
    }
