"""An app on a screen in memory, driven by a pilot that waits until the app is idle, on a busy machine too."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from time import monotonic, process_time
from typing import Any, TypeVar

from textual.app import App
from textual.events import Key
from textual.keys import KEY_NAME_REPLACEMENTS, REPLACED_KEYS, key_to_character
from textual.pilot import Pilot

from mcpdesk.tui.app import DeskApp
from tests.support.patience import screen_lines, until

T = TypeVar("T")

LOOK_S = 0.01
IDLE_S = LOOK_S / 10
MAX_S = 1.0
KEY_LOOKS = 20


class CountingExecutor(ThreadPoolExecutor):
    """The loop's threads. `pending` is the work that is not done, begun or not."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="asyncio")
        self.pending: set[Future[Any]] = set()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future = super().submit(fn, *args, **kwargs)
        self.pending.add(future)
        future.add_done_callback(self.pending.discard)
        return future


class PatientPilot(Pilot[T]):
    """A pilot that also waits for the loop's threads.

    Textual's own takes a process that uses no processor for idle, even if it gets none.
    """

    def __init__(self, app: App[T], threads: CountingExecutor) -> None:
        super().__init__(app)
        self._threads = threads
        # Time limit of a key's effect; None is the limit of `until`.
        self.key_s: float | None = None

    async def press(self, *keys: str) -> None:
        for key in keys:
            self.app.post_message(_pressed(key))
            await self._taken(key)
            await self._idle()
            await self.app.animator.wait_until_complete()
        await self._handle()

    async def pause(self, delay: float | None = None) -> None:
        if delay is not None:
            await super().pause(delay)
            return
        await self._handle()
        await self._idle()
        await self._handle()

    async def _handle(self) -> None:
        """Let the app handle all messages, and paint its screen."""
        if self.app.is_running and self.app.screen_stack:
            await super().pause(0)

    async def _taken(self, key: str) -> None:
        """Wait until a key has taken effect. The desk holds keys back while a dialog or form may open."""
        reached = asyncio.Event()
        self.app.call_later(reached.set)

        def has_taken_effect() -> bool:
            is_held = isinstance(self.app, DeskApp) and self.app.keys.is_busy
            return not self.app.is_running or (reached.is_set() and not is_held)

        for _ in range(KEY_LOOKS):
            if has_taken_effect():
                return
            await asyncio.sleep(IDLE_S)
        await until(has_taken_effect, f"pressed {key!r}", within_s=self.key_s)

    async def _idle(self) -> None:
        """Wait until the loop and its threads have nothing to do, at most about a second."""
        end = monotonic() + MAX_S
        while True:
            used = process_time()
            await asyncio.sleep(LOOK_S)
            is_idle = process_time() - used < IDLE_S and not self._threads.pending
            if is_idle or monotonic() >= end:
                return


def _pressed(key: str) -> Key:
    """Key event of a key's name, or of a character."""
    if len(key) == 1 and not key.isalnum():
        name = unicodedata.name(key).lower().replace("-", "_").replace(" ", "_")
        return Key(KEY_NAME_REPLACEMENTS.get(name, name), key)
    return Key(key, key if len(key) == 1 else key_to_character(REPLACED_KEYS.get(key, key)))


@asynccontextmanager
async def driven(
    app: App[T],
    *,
    size: tuple[int, int] | None = (80, 24),
    notifications: bool = False,
    tooltips: bool = False,
) -> AsyncIterator[PatientPilot[T]]:
    """Run an app in memory until the block ends."""
    threads = CountingExecutor()
    asyncio.get_running_loop().set_default_executor(threads)
    async with app.run_test(size=size, notifications=notifications, tooltips=tooltips):
        yield PatientPilot(app, threads)


class OnScreen:
    """An app on a screen in memory, and its pilot."""

    def __init__(self, app: DeskApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition of the screen is true."""
        await until(condition, self.pilot)

    def shown(self) -> str:
        """The screen as text."""
        return "\n".join(screen_lines(self.app))
