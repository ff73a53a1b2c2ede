"""Connection between the core and the page of an app, which is not part of the app."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Final

from msgspec import Struct

from mcpdesk.protocol.jsonrpc import JSONObject

MAX_QUESTIONS = 4
"""Maximum number of questions that wait on one page. Further ones are declined."""
END_S = 1.0
"""Time limit in seconds for a page to read that its app has ended."""
MAX_NAME_LENGTH = 64
"""Maximum length in characters of a language or a time zone."""
MAX_HEIGHT_PIXELS = 20_000
"""Maximum height in pixels of an app that is shown in the page."""
DISPLAY_MODES: Final = ("inline", "fullscreen")
_NAME = re.compile(r"[A-Za-z0-9_+/-]+")


class PageFacts(Struct, frozen=True):
    """Facts about the page and its browser. They come from our own script, not from the app."""

    theme: str = "light"
    locale: str = "en"
    time_zone: str = "UTC"
    width: int = 800
    height: int = 600
    touch: bool = False
    hover: bool = True

    def container(self, mode: str) -> JSONObject:
        """Return the `containerDimensions` of a display mode."""
        if mode == "fullscreen":
            return {"width": self.width, "height": self.height}
        return {"width": self.width, "maxHeight": MAX_HEIGHT_PIXELS}


def page_facts(message: Any) -> PageFacts:
    """Return the facts in a message of the page. Invalid values are replaced by defaults."""
    values = message if isinstance(message, dict) else {}
    defaults = PageFacts()

    def name_value(key: str, default: str) -> str:
        value = values.get(key)
        is_name = isinstance(value, str) and len(value) <= MAX_NAME_LENGTH and _NAME.fullmatch(value)
        return value if isinstance(value, str) and is_name else default

    def size_value(key: str, default: int) -> int:
        value = values.get(key)
        return min(max(value, 0), MAX_HEIGHT_PIXELS) if isinstance(value, int) else default

    return PageFacts(
        "dark" if values.get("theme") == "dark" else "light",
        name_value("locale", defaults.locale),
        name_value("timeZone", defaults.time_zone),
        size_value("width", defaults.width),
        size_value("height", defaults.height),
        values.get("touch") is True,
        values.get("hover") is not False,
    )


class PageLink:
    """Messages to one page, and the person's answers to questions there."""

    def __init__(
        self, send: Callable[[str], Awaitable[object]], close: Callable[[], Awaitable[object]]
    ) -> None:
        """`send` sends a text to the page, and waits while the page does not read. `close` disconnects the
        page within a limited time.
        """
        self._send = send
        self._close = close
        self._numbers = count(1)
        self._questions: dict[int, asyncio.Future[bool]] = {}

    async def deliver(self, message: bytes) -> None:
        """Send a JSON-RPC message to the app or its sandbox."""
        await self._send(f'{{"view":{message.decode()}}}')

    async def show(self, state: JSONObject) -> None:
        """Show the facts about the app, or the reason why it cannot be shown."""
        await self._send_message("show", state)

    async def resize(self, width: int | None, height: int | None) -> None:
        """Change the size of the app."""
        await self._send_message("size", {"width": width, "height": height})

    async def show_mode(self, mode: str) -> None:
        """Change the display mode."""
        await self._send_message("mode", mode)

    async def note(self, title: str, text: str) -> None:
        """Show a message of the app to the person."""
        await self._send_message("note", {"title": title, "text": text})

    async def ask(self, text: str, agree: str, detail: str, link: str = "") -> bool:
        """Ask the person. Return True if the person agrees. `agree` is the text of the button for this.
        `link` is opened by the button, unless it is empty.
        """
        if len(self._questions) >= MAX_QUESTIONS:
            return False
        number = next(self._numbers)
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._questions[number] = answer
        try:
            await self._send_message(
                "ask", {"number": number, "text": text, "agree": agree, "detail": detail, "link": link}
            )
            return await answer
        finally:
            del self._questions[number]
            if answer.cancelled():
                await self._send_message("withdraw", number)

    def set_answer(self, number: Any, agreed: Any) -> None:
        """Use the person's answer to a question. Answers to unknown questions are ignored."""
        answer = self._questions.get(number) if isinstance(number, int) else None
        if answer is not None and not answer.done():
            answer.set_result(agreed is True)

    def decline_all(self) -> None:
        """Decline all questions, because the page was closed."""
        for answer in self._questions.values():
            if not answer.done():
                answer.set_result(False)

    async def end(self, reason: str) -> None:
        """End the app in the page, and disconnect the page."""
        self.decline_all()
        try:
            async with asyncio.timeout(END_S):
                await self._send_message("end", reason)
        except ConnectionError:
            return  # the page was closed in the meantime
        except TimeoutError:
            pass  # the page no longer reads
        await self._close()

    async def _send_message(self, kind: str, value: Any) -> None:
        await self._send(json.dumps({kind: value}))
