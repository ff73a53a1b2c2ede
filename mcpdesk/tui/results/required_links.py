"""Links that must be opened before a server answers a call (error -32042), with buttons for each.

Source: MCP 2025-11-25 client/elicitation
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from mcpdesk.inbox.question import host_of, link_warnings
from mcpdesk.tui.forms.question_text import link_text, open_link
from mcpdesk.tui.render.safe_text import clean
from mcpdesk.tui.widgets.choice_box import Chip

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp

URL_REQUIRED = -32042
"""Code of the error with links."""
MAX_LINKS = 10
"""Maximum number of links that have buttons. The data of the error contains all links."""


class RequiredLink(NamedTuple):
    """Link, with the server's message about it."""

    url: str
    message: str


def required_links(error: dict[str, Any]) -> list[RequiredLink]:
    """Return the links in the data of an error. Empty for other errors, and if the data are invalid."""
    data = error.get("data")
    if error.get("code") != URL_REQUIRED or not isinstance(data, dict):
        return []
    elicitations = data.get("elicitations")
    if not isinstance(elicitations, list):
        return []
    return [
        RequiredLink(item["url"], item["message"] if isinstance(item.get("message"), str) else "")
        for item in elicitations
        if isinstance(item, dict) and isinstance(item.get("url"), str) and item["url"]
    ]


def link_widgets(error: dict[str, Any]) -> Iterator[Widget]:
    """Yield the links of an error with their buttons, and instructions."""
    links = required_links(error)
    if not links:
        return
    yield Static(Content("Open in a browser, finish there, and call again (ctrl+r)."), classes="note")
    for link in links[:MAX_LINKS]:
        yield LinkActions(link)
    if len(links) > MAX_LINKS:
        yield Static(Content(f"… {len(links) - MAX_LINKS:,} more links in the data"), classes="note")


class LinkActions(Vertical):
    """Link with the buttons that open and copy it."""

    DEFAULT_CSS: ClassVar[str] = """
    LinkActions { height: auto; margin-top: 1; }
    LinkActions Static { height: auto; }
    LinkActions Horizontal { height: 1; }
    """

    def __init__(self, link: RequiredLink) -> None:
        super().__init__()
        self.link = link

    def compose(self) -> ComposeResult:
        if self.link.message:
            yield Static(Content(clean(self.link.message)))
        yield Static(link_text(self.link.url))
        if warnings := [f"! {remark}" for remark in link_warnings(self.link.url)]:
            yield Static(Content("\n".join(warnings)), classes="fault")
        with Horizontal():
            if host_of(self.link.url):
                yield Chip("▸ open in browser", classes="open")
            yield Chip("▸ copy link", classes="copy")

    @on(Chip.Pressed, ".open")
    async def _open(self, event: Chip.Pressed) -> None:
        event.stop()
        await open_link(self.app, self.link.url, "▸ copy link copies it")

    @on(Chip.Pressed, ".copy")
    def _copy(self, event: Chip.Pressed) -> None:
        event.stop()
        cast("DeskApp", self.app).copy(self.link.url, "the link")
