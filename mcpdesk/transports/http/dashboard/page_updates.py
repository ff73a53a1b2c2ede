"""Keeps all open pages of the dashboard up to date by looking at the core a few times a second.

A thread of its own does the looking, so that calls do not wait for it. Without a page nothing runs.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.transports.http.dashboard.dashboard_data import Board, TrafficLines
from mcpdesk.transports.http.event_stream import KEEP_ALIVE, KEEP_ALIVE_S, EventStream

PERIOD_S = 0.25
"""Time between two updates of the pages, and between two checks for silent and signed-out ones."""
SOON_S = 0.03
"""Time between two updates while older traffic is still being read."""
MOST_PAGES = 32
"""Pages open at a time; a further one closes another."""
MOST_UNREAD = 1 << 20
"""Bytes a page may leave unread. Beyond that it is sent nothing, and later everything anew."""
RETRY = b"retry: 2000\n\n"

log = logging.getLogger(__name__)
T = TypeVar("T")


class DashboardPage:
    """One open page: what it watches, and the stream to it."""

    def __init__(self, stream: EventStream, is_welcome: Callable[[], bool], whose: str = "") -> None:
        self.id = secrets.token_urlsafe(12)
        self.stream = stream
        self.over = asyncio.Event()
        self.filter_text = ""
        self.job = ""
        self.job_end = -1
        """Where the output it was sent ends."""
        self.knows_core = False
        self.knows_lines = False
        """Whether it was sent everything once, and now needs changes only."""
        self.is_welcome = is_welcome
        self.whose = whose
        """The sign-in it belongs to."""

    def tell(self, name: str, data: bytes) -> None:
        """Send one event."""
        self.stream.put(b"event: %b\ndata: %b\n\n" % (name.encode(), data))

    def follow(self, filter_text: str, job: str) -> None:
        """Watch something else."""
        self.knows_lines = self.knows_lines and filter_text == self.filter_text
        self.filter_text = filter_text
        if job != self.job:
            self.job, self.job_end = job, -1

    def keeps_up(self) -> bool:
        """Whether the page reads fast enough; if not, it is sent everything anew later."""
        if self.stream.queued < MOST_UNREAD:
            return True
        self.knows_core = self.knows_lines = False
        return False


class PageUpdates:
    """Sends all open pages of one board what changes."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.pages: dict[str, DashboardPage] = {}
        self.lanes: dict[str, TrafficLines] = {}
        """The traffic that open pages watch, by filter."""
        self._sections: dict[str, tuple[object, bytes]] = {}
        self._thread: ThreadPoolExecutor | None = None
        self._beats_aio: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._kept_alive = time.monotonic()

    def add(self, page: DashboardPage) -> None:
        """Add a page that was opened."""
        self.pages[page.id] = page
        self.board.attend(1)
        page.stream.put(RETRY)
        page.tell("hello", encode({"page": page.id, "now": time.time()}))
        if self._beats_aio is None:
            self._beats_aio = asyncio.get_running_loop().create_task(self._beat())
        self._wake.set()

    def make_room(self) -> None:
        """Close the oldest page of the sign-in with the most open pages."""
        pages = self.pages.values()
        counts = Counter(page.whose for page in pages)
        page = max(pages, key=lambda each: counts[each.whose])  # of equals the first, which is the oldest
        page.tell("closed", b'{"pages":%d}' % len(pages))
        page.over.set()
        self.remove(page)

    def remove(self, page: DashboardPage) -> None:
        """Remove a page that was closed."""
        if self.pages.pop(page.id, None) is not None:
            self.board.attend(-1)
        self._wake.set()

    async def follow(self, page: DashboardPage, filter_text: str, job: str) -> None:
        """Change what a page watches. Raises: DeskError for a wrong filter."""
        await self.lane(filter_text)
        page.follow(filter_text, job)
        self._wake.set()

    async def lane(self, filter_text: str) -> TrafficLines:
        """Return the lines of a filter, shared by all pages that use it. Raises: DeskError."""
        if filter_text not in self.lanes:
            lane = await self.apart(self.board.lines, filter_text)
            self.lanes.setdefault(filter_text, lane)
        return self.lanes[filter_text]

    async def apart(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function that takes milliseconds on the dashboard's thread."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "dashboard")
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    async def close(self) -> None:
        """End all pages."""
        for page in self.pages.values():
            page.over.set()
        if self._beats_aio is not None:
            self._beats_aio.cancel()
            await asyncio.wait([self._beats_aio])
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _beat(self) -> None:
        try:
            while self.pages:
                self._wake.clear()
                is_behind = False
                try:
                    is_behind = await self._look()
                except Exception:
                    # A page that shows old things is better than none; what went wrong is news for the log.
                    log.exception("the dashboard could not be brought up to date")
                await self._rest(SOON_S if is_behind else PERIOD_S)
        finally:
            self._beats_aio = None
            self.lanes.clear()

    async def _rest(self, seconds: float) -> None:
        """Wait until the next update; a page that opens or watches something else is served at once."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return
        # But not more often than pages can be drawn.
        await asyncio.sleep(max(0.0, SOON_S - (time.monotonic() - began)))

    async def _look(self) -> bool:
        """Update all pages once; True when there is more older traffic to read."""
        self._drop_pages()
        await self._tell_core()
        is_behind = await self._tell_lines()
        await self._tell_output()
        now = time.monotonic()
        if now - self._kept_alive > KEEP_ALIVE_S:
            self._kept_alive = now
            for page in self.pages.values():
                page.stream.put(KEEP_ALIVE)
        return is_behind

    def _drop_pages(self) -> None:
        for page in self.pages.values():
            if page.stream.is_broken or not page.is_welcome():
                page.over.set()

    async def _tell_core(self) -> None:
        sections = await self.apart(self.board.sections)
        changed = {
            name: (value, encode(value))
            for name, value in sections.items()
            if name not in self._sections or self._sections[name][0] is not value
        }
        self._sections |= changed
        for page in list(self.pages.values()):
            if page.keeps_up():
                for name, (_, data) in (changed if page.knows_core else self._sections).items():
                    page.tell(name, data)
                page.knows_core = True

    async def _tell_lines(self) -> bool:
        wanted = {page.filter_text for page in self.pages.values()}
        self.lanes = {text: lane for text, lane in self.lanes.items() if text in wanted}
        is_behind = False
        for text in wanted:
            lane = await self.lane(text)
            news, whole = await self.apart(_looked, lane)
            is_behind = is_behind or bool(whole["behind"]) or whole["done"] < 1
            shown = encode({"filter": text, **news}) if news is not None else b""
            everything = b""
            for page in list(self.pages.values()):
                if page.filter_text != text or not page.keeps_up():
                    continue
                if page.knows_lines:
                    if shown:
                        page.tell("traffic", shown)
                    continue
                everything = everything or encode({"filter": text, "all": True, **whole})
                page.tell("traffic", everything)
                page.knows_lines = True
        return is_behind

    async def _tell_output(self) -> None:
        for page in list(self.pages.values()):
            if not page.job or not page.keeps_up():
                continue
            job, end = page.job, page.job_end
            piece = await self.apart(self.board.output, job, end)
            if page.id not in self.pages or page.job != job or page.job_end != end:
                continue
            if piece is None:
                page.tell("output", encode({"job": job, "none": True}))
                page.job = ""
            elif piece["end"] != end:
                page.job_end = piece["end"]
                page.tell("output", encode({"job": job, "fresh": end < 0, **piece}))


def _looked(lane: TrafficLines) -> tuple[Mapping[str, Any] | None, Mapping[str, Any]]:
    news = lane.look()
    return news, lane.everything()


LARGEST = 1 << 53
"""Larger numbers are not exact in a browser, and are sent as text."""


def encode(value: Any) -> bytes:
    """Encode any value as JSON; what JSON cannot carry is replaced by the nearest that it can."""
    try:
        return codec.encode(value)
    except ProtocolError:
        return codec.encode(_sayable(value))


def _sayable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_sayable(str(key)): _sayable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_sayable(item) for item in value]
    if isinstance(value, int) and abs(value) > LARGEST:
        return str(value)
    return value
