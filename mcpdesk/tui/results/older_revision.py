"""Offer to repeat a call in an older revision that allows the server to send requests during the call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from mcpdesk.protocol.client_questions import wants_older_revision
from mcpdesk.protocol.revisions import LATEST, LATEST_HANDSHAKE
from mcpdesk.tui.widgets.choice_box import Chip

if TYPE_CHECKING:
    from mcpdesk.link.link import Link
    from mcpdesk.link.values import UpstreamView

OLDER_REVISION = LATEST_HANDSHAKE.name
"""Newest revision that lets servers send requests."""
_HINT = 'Space, then "revision", selects an older revision for this server. It can then ask during a call.'
RECONNECT_TIMEOUT_S = 30.0
"""Timeout in seconds for a server to be ready in another revision."""
_CHECK_PERIOD_S = 0.05
"""Seconds between two checks whether the server is ready."""


class OlderRevision(Vertical):
    """Hint, and a button that repeats the call in an older revision."""

    DEFAULT_CSS: ClassVar[str] = """
    OlderRevision { height: auto; }
    OlderRevision Static { height: auto; }
    """

    class CallAgain(Message):
        """The button was pressed: the call, with all its effects, must be repeated."""

    def compose(self) -> ComposeResult:
        yield Static(Content(_HINT), classes="note")
        yield Chip(f"▸ call again in {OLDER_REVISION}")

    @on(Chip.Pressed)
    def _press(self, event: Chip.Pressed) -> None:
        event.stop()
        self.post_message(self.CallAgain())


def older_revision_offer(text: str) -> Iterator[OlderRevision]:
    """Yield the offer if an error text means that the server cannot ask its client in this revision."""
    if wants_older_revision(text):
        yield OlderRevision()


async def reconnect_in_older_revision(link: Link, server: str) -> bool:
    """Reconnect to a server in `OLDER_REVISION`, unless it already uses an older revision.

    Return False on failure, and for a hosted server. A hosted server has no fixed revision and can ask in
    every revision.
    """
    if (upstream := _upstream(link, server)) is None:
        return False
    if upstream.revision != LATEST.name:
        return True
    link.reconnect_with_revision(server, OLDER_REVISION)
    try:
        async with asyncio.timeout(RECONNECT_TIMEOUT_S):
            while (upstream := _upstream(link, server)) is not None and upstream.state != "failed":
                if upstream.state == "ready" and upstream.revision != LATEST.name:
                    return True
                await asyncio.sleep(_CHECK_PERIOD_S)
    except TimeoutError:
        pass
    return False


def _upstream(link: Link, server: str) -> UpstreamView | None:
    return next((view.upstream for view in link.view().servers if view.name == server), None)
