"""A link as text that shows where it leads, and what is odd about it. Knows no widget."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from textual.content import Content

from mcpdesk.inbox.question import host_of
from mcpdesk.tui.render.text import clean

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


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


def oddities(link: str) -> Iterator[str]:
    """What a person should notice before they open it."""
    host = host_of(link)
    if not host:
        yield "not a link of the web: it is not opened here"
        return
    if "xn--" in host or not host.isascii():
        yield "the host is spelled with characters that can look like others"
    if "@" in urlsplit(link).netloc:
        yield "what stands before the @ is no host"
    if link.lower().startswith("http:") and host not in LOCAL:
        yield "http: others on the way can read along"
