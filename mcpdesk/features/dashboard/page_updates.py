"""Updates of all open pages of the dashboard, a few times a second.

A separate thread reads the core, so that calls are not delayed. The thread only works while a page is open.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.transports.http.event_stream import KEEP_ALIVE, KEEP_ALIVE_S, EventStream

if TYPE_CHECKING:
    from mcpdesk.features.dashboard.link_board import LatestExchanges, LinkBoard

PERIOD_S = 0.25
"""Seconds between two updates, and between two searches for pages that are silent or signed out."""
READING_PERIOD_S = 0.03
"""Seconds between two updates while older traffic is being read."""
MAX_PAGES = 32
"""Maximum number of open pages. If one more page opens, the oldest page is closed."""
MAX_UNREAD_BYTES = 1 << 20
"""Maximum number of bytes that a page has not read.

If a page has more, it receives no updates until it has read them, and then all data again.
"""
RETRY = b"retry: 2000\n\n"
"""Field of the stream with which a browser reconnects after two seconds."""

log = logging.getLogger(__name__)
T = TypeVar("T")


class DashboardPage:
    """One open page: its stream, its filter and its job."""

    def __init__(self, stream: EventStream, is_signed_in: Callable[[], bool]) -> None:
        self.id = secrets.token_urlsafe(12)
        self.stream = stream
        self.closed = asyncio.Event()
        self.filter_text = ""
        self.job = ""
        self.job_end = -1
        """Offset up to which the page has received the job's output."""
        self.has_core = False
        """True if the page has received all sections of the core, so that it only needs changes."""
        self.has_lines = False
        """True if the page has received all lines, so that it only needs changes."""
        self.is_signed_in = is_signed_in

    def send(self, name: str, data: bytes) -> None:
        """Send one event."""
        self.stream.put(b"event: %b\ndata: %b\n\n" % (name.encode(), data))

    def is_reading_fast(self) -> bool:
        """Return True if the page reads fast enough. Otherwise all data are sent again later."""
        if self.stream.queued < MAX_UNREAD_BYTES:
            return True
        self.has_core = self.has_lines = False
        return False


class PageUpdates:
    """Sends the changes of one core to all open pages."""

    def __init__(self, board: LinkBoard) -> None:
        self.board = board
        self.pages: dict[str, DashboardPage] = {}
        self.lines: dict[str, LatestExchanges] = {}
        """Lines of the traffic that open pages show, by filter."""
        self._sections: dict[str, tuple[object, bytes]] = {}
        """Sections of the core, with their JSON, by name."""
        self._thread = ThreadPoolExecutor(1, "dashboard")
        self._update_task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._last_keep_alive = time.monotonic()

    def add(self, page: DashboardPage) -> None:
        """Add an opened page."""
        self.pages[page.id] = page
        self.board.attend(1)
        page.stream.put(RETRY)
        page.send("hello", encode({"page": page.id, "now": time.time()}))
        if self._update_task is None:
            self._update_task = asyncio.get_running_loop().create_task(self._run())
        self._wake.set()

    def make_room(self) -> None:
        """Close the oldest page, so that a new one can open."""
        page = next(iter(self.pages.values()))
        page.send("closed", b'{"pages":%d}' % len(self.pages))
        page.closed.set()
        self.remove(page)

    def remove(self, page: DashboardPage) -> None:
        """Remove a closed page."""
        if self.pages.pop(page.id, None) is not None:
            self.board.attend(-1)
        self._wake.set()

    async def watch(self, page: DashboardPage, filter_text: str, job: str) -> None:
        """Change the filter and the job of a page. Raises: DeskError for an invalid filter."""
        await self._lines(filter_text)
        page.has_lines = page.has_lines and filter_text == page.filter_text
        page.filter_text = filter_text
        if job != page.job:
            page.job, page.job_end = job, -1
        self._wake.set()

    async def on_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function on the dashboard's thread. The function may take milliseconds."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    async def close(self) -> None:
        """Close all pages."""
        for page in self.pages.values():
            page.closed.set()
        if self._update_task is not None:
            self._update_task.cancel()
            await asyncio.wait([self._update_task])
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _lines(self, filter_text: str) -> LatestExchanges:
        """Return the lines for a filter. All pages with this filter share them. Raises: DeskError."""
        if filter_text not in self.lines:
            lines = await self.on_thread(self.board.lines, filter_text)
            self.lines.setdefault(filter_text, lines)
        return self.lines[filter_text]

    async def _run(self) -> None:
        """Update the pages regularly, as long as a page is open."""
        try:
            while self.pages:
                self._wake.clear()
                is_behind = False
                try:
                    is_behind = await self._update()
                except Exception:
                    # The page stays open with outdated data. The error is logged.
                    log.exception("the dashboard could not be updated")
                await self._pause(READING_PERIOD_S if is_behind else PERIOD_S)
        finally:
            self._update_task = None
            self.lines.clear()

    async def _pause(self, seconds: float) -> None:
        """Wait until the next update is due. A new page, or a page with a new filter, is updated at once."""
        await asyncio.sleep(READING_PERIOD_S)  # the minimum time between two updates
        try:
            async with asyncio.timeout(seconds - READING_PERIOD_S):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _update(self) -> bool:
        """Update all pages. Return True if older traffic must still be read."""
        now = time.monotonic()
        must_keep_alive = now - self._last_keep_alive > KEEP_ALIVE_S
        if must_keep_alive:
            self._last_keep_alive = now
        for page in self.pages.values():
            if page.stream.is_broken or not page.is_signed_in():
                page.closed.set()
            elif must_keep_alive:
                page.stream.put(KEEP_ALIVE)
        await self._send_core()
        is_behind = await self._send_lines()
        await self._send_output()
        return is_behind

    async def _send_core(self) -> None:
        """Send changed sections to the pages, and all sections to new pages."""
        sections = await self.on_thread(self.board.sections)
        changed = {
            name: (value, encode(value))
            for name, value in sections.items()
            if name not in self._sections or self._sections[name][0] is not value
        }
        self._sections |= changed
        for page in list(self.pages.values()):
            if page.is_reading_fast():
                for name, (_, data) in (changed if page.has_core else self._sections).items():
                    page.send(name, data)
                page.has_core = True

    async def _send_lines(self) -> bool:
        """Send the lines of the traffic. Return True if older traffic must still be read."""
        filter_texts = {page.filter_text for page in self.pages.values()}
        self.lines = {text: lines for text, lines in self.lines.items() if text in filter_texts}
        is_behind = False
        for text in filter_texts:
            lines = await self._lines(text)
            changes, all_lines = await self.on_thread(
                lambda lines: (lines.changes(), lines.everything()), lines
            )
            is_behind = is_behind or bool(all_lines["behind"]) or all_lines["done"] < 1
            pages = [
                page for page in self.pages.values() if page.filter_text == text and page.is_reading_fast()
            ]
            needs_all = any(not page.has_lines for page in pages)
            complete_data = encode({"filter": text, "all": True, **all_lines}) if needs_all else b""
            changes_data = encode({"filter": text, **changes}) if changes is not None else b""
            for page in pages:
                data = changes_data if page.has_lines else complete_data
                if data:
                    page.send("traffic", data)
                page.has_lines = True
        return is_behind

    async def _send_output(self) -> None:
        """Send new output of the job that each page shows."""
        for page in list(self.pages.values()):
            if not page.job or not page.is_reading_fast():
                continue
            job, end = page.job, page.job_end
            piece = await self.on_thread(self.board.output, job, end)
            if page.id not in self.pages or page.job != job or page.job_end != end:
                continue
            if piece is None:
                page.send("output", encode({"job": job, "none": True}))
                page.job = ""
            elif piece["end"] != end:
                page.job_end = piece["end"]
                page.send("output", encode({"job": job, "fresh": end < 0, **piece}))


def encode(value: Any) -> bytes:
    """Encode any value as JSON, including numbers and lone surrogates that are invalid in messages."""
    try:
        return codec.encode(value)
    except ProtocolError:
        return json.dumps(value, default=dict, ensure_ascii=False).encode("utf-8", "replace")
