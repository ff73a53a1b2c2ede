"""Answers of a core that may be in another process. The screen does not block while it waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mcpdesk.errors import DeskUserError
from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, ServerView
from mcpdesk.recorder.index.exchange import Exchange
from mcpdesk.recorder.index.traffic_index import Index, last_round
from mcpdesk.tui.render.safe_text import command_lines, one_line

if TYPE_CHECKING:
    from textual.app import App

Result = TypeVar("Result")
ANSWER_TIMEOUT_S = 30.0
"""Maximum seconds for which an action waits for the core."""
FRAME_CHECK_S = 0.05
"""Seconds between two checks whether a requested frame has arrived."""


class _ConfigRequest(NamedTuple):
    """Request for a configuration, and the state of the server at that time."""

    state: tuple[object, ...]
    answer: Future[str]


class ClientConfigs:
    """Configurations with which clients can use a server, requested from the core.

    A configuration is requested again when its server has changed. When it arrives, the link reports a
    change, and the screen is drawn again.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._requests: dict[tuple[str, str], _ConfigRequest] = {}

    def lines(self, view: CoreView, server: ServerView, client: str, width: int) -> list[str]:
        """Return the configuration of a client as lines of at most `width` cells.

        If it has not arrived yet, return a line that says so. If the core refused it, return its error.
        """
        state = (server.url, server.is_started, server.folder, view.api_key, view.gone)
        request = self._requests.get((server.name, client))
        if request is None or request.state != state:
            names = {one.name for one in view.servers}
            self._requests = {key: old for key, old in self._requests.items() if key[0] in names}
            request = _ConfigRequest(state, self._link.client_config(server.name, client))
            self._requests[server.name, client] = request
        if not request.answer.done():
            return ["… loading from the core"]
        if (error := request.answer.exception()) is not None:
            return [one_line(str(error))]
        return command_lines(request.answer.result(), view.api_key, width)


async def answer_of(app: App[None], future: Future[Result], subject: str) -> Result | None:
    """Wait for an answer of the core. `subject` names the answer in notifications.

    After an error or `ANSWER_TIMEOUT_S` seconds, notify the person and return None.
    """
    try:
        if not future.done():
            app.notify(f"Requesting {subject} from the core.", markup=False)
        return await asyncio.wait_for(asyncio.wrap_future(future), ANSWER_TIMEOUT_S)
    except TimeoutError:
        error = "the core does not answer"
    except (ValueError, DeskUserError) as problem:
        error = one_line(str(problem))
    app.notify(f"{subject[:1].upper()}{subject[1:]} unavailable: {error}", severity="warning", markup=False)
    return None


def frames_of(index: Index, exchange: Exchange) -> list[int]:
    """Return the request and response frames of an exchange, of its last round, and of its parts."""
    exchanges = [exchange, last_round(index, exchange), *(index.exchange(part) for part in exchange.parts)]
    frame_numbers = (frame for one in exchanges for frame in (one.request, one.response))
    return list(dict.fromkeys(frame for frame in frame_numbers if frame is not None))


async def fetch_exchanges(app: App[None], index: Index, numbers: Iterable[int]) -> None:
    """Wait until the frames of some exchanges are available. On a timeout, notify the person."""
    frames = [
        frame
        for number in numbers
        for frame in frames_of(index, index.exchange(number))
        if not index.is_available(frame)
    ]
    if not frames:
        return
    app.notify("Requesting all bytes of large messages from the core.")
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            for frame in frames:
                while not index.is_available(frame):  # noqa: ASYNC110 (a frame may be deleted and requested again)
                    await asyncio.sleep(FRAME_CHECK_S)
    except TimeoutError:
        app.notify("The core does not answer: large messages are incomplete.", severity="warning")
