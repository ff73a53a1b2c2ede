"""A link as text that shows where it leads. Knows no widget."""

from __future__ import annotations

from urllib.parse import urlsplit

from textual.content import Content

from mcpdesk.inbox.question import host_of
from mcpdesk.tui.render.text import clean


def link_text(link: str) -> Content:
    """The whole link, its host emphasised."""
    if not host_of(link):
        return Content(clean(link, newlines=False))
    place = urlsplit(link).netloc
    host = place.rpartition("@")[2]
    before, _, after = link.partition(place)
    lead = before + place.removesuffix(host)
    return Content.assemble(
        clean(lead, newlines=False),
        (clean(host, newlines=False), "bold underline $text-accent"),
        clean(after, newlines=False),
    )
