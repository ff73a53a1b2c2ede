"""ReadDocs: a document of the web, as a person would read it."""

from __future__ import annotations

import asyncio
import codecs
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from mcpdesk.protocol import content
from mcpdesk.server.authoring import tool
from mcpdesk.server.context import Context
from mcpdesk.server.tool import ToolResult

if TYPE_CHECKING:
    from mcpdesk.tools.web.fetch import Fetched
    from mcpdesk.tools.web.readable import Readable

MOST_WAIT_MS = 30_000
MOST_CHARACTERS = 1_000_000
"""Of text that is given; the rest is left out, and that is said."""
HTML = frozenset({"text/html", "application/xhtml+xml"})
TEXTS = ("text/", "application/json", "application/xml", "application/javascript", "application/yaml")
UNSAID = frozenset({"", "application/octet-stream"})
"""What servers say of a file they do not know, a text like Makefile among them."""
LOOKED_AT = 4_096
"""Bytes that have to read as a text then."""
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
MOST_PICTURE_BYTES = 5 << 20

Format = Literal["text", "html", "markdown"]


@dataclass(frozen=True, slots=True)
class Document:
    """What was read.

    Attributes:
        url: Where it was found, after redirects
        way: How it was got: playwright or chromium (a browser ran its scripts), or fetch
        note: What is to be known about it, if anything
    """

    url: str
    title: str
    content_type: str
    format: str
    way: str
    bytes: int
    truncated: bool
    note: str = ""


@tool(
    name="ReadDocs",
    title="Read a page of the web",
    read_only=True,
    destructive=False,
    idempotent=True,
    open_world=True,
    timeout=120,
)
async def read_docs(
    url: str,
    ctx: Context,
    format: Format = "markdown",
    wait_ms: Annotated[int, Meta(ge=0, le=MOST_WAIT_MS)] = 0,
) -> ToolResult[Document]:
    """Fetch URL content as markdown via headless browser. The article is given, without navigation. Where no
    browser is found the page is read without its scripts, and the result says so. Plain text, JSON and XML
    come as they are.

    Args:
        url: The URL to fetch
        format: Output format: text, html, or markdown
        wait_ms: Wait time for page load in ms
    """
    from mcpdesk.tools.web.fetch import fetch

    fetched = await fetch(url.strip(), private=ctx.home.options.read_private_urls)
    if fetched.content_type in HTML or (not fetched.content_type and b"<html" in fetched.body[:2000].lower()):
        return await _page(fetched, format, wait_ms, ctx)
    if _is_text(fetched):
        return _result(fetched, fetched.text, "", "text", "fetch", "")
    return _other(fetched)


def _is_text(fetched: Fetched) -> bool:
    kind, head = fetched.content_type, fetched.body[:LOOKED_AT]
    if kind not in UNSAID or not head or b"\0" in head:
        return kind.startswith(TEXTS) or kind.endswith(("+json", "+xml"))
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


async def _page(fetched: Fetched, format: Format, wait_ms: int, ctx: Context) -> ToolResult[Document]:
    html, way, note = await _html(fetched, wait_ms, ctx)
    page = await asyncio.to_thread(_converted, html, format)
    return _result(fetched, page.text, page.title, format, way, note, is_cut=page.is_cut)


async def _html(fetched: Fetched, wait_ms: int, ctx: Context) -> tuple[str, str, str]:
    """The page, the way it was got, and what is to be said of that."""
    from mcpdesk.tools.web.browser import BrowserError, draw, find_browser

    program = find_browser()
    if program is None:
        return fetched.text, "fetch", "no browser was found on this machine: scripts of the page did not run"
    private = ctx.home.options.read_private_urls
    try:
        async with ctx.home.browsers:
            drawn = await draw(
                program, fetched.url, wait_ms, ctx.environment, private=private, local=fetched.is_local
            )
    except BrowserError as error:
        return fetched.text, "fetch", f"scripts of the page did not run: {error}"
    return drawn.html, drawn.way, ""


def _converted(html: str, format: Format) -> Readable:
    from mcpdesk.tools.web import readable

    if format == "html":
        return readable.Readable(readable.title_of(html), html)
    return readable.plain(html) if format == "text" else readable.markdown(html)


def _other(fetched: Fetched) -> ToolResult[Document]:
    """A document that is no text: pictures are shown, others described."""
    kind = fetched.content_type or "unknown type"
    note = f"{kind}, {len(fetched.body):,} bytes: not a text"
    document = _document(fetched, "", "none", "fetch", note)
    told = content.text(f"{fetched.url}\n[{note}]")
    if kind in PICTURES and len(fetched.body) <= MOST_PICTURE_BYTES:
        return ToolResult((told, content.image(fetched.body, kind)), document)
    return ToolResult((told,), document)


def _result(
    fetched: Fetched, text: str, title: str, format: str, way: str, note: str, *, is_cut: bool = False
) -> ToolResult[Document]:
    is_cut = is_cut or len(text) > MOST_CHARACTERS
    document = _document(fetched, title, format, way, note, is_cut=is_cut)
    notes = [note] if note else []
    if document.truncated:
        notes.append("the document is larger than what is given")
    body = text[:MOST_CHARACTERS] or "(no text)"
    return ToolResult((content.text("\n\n".join([body, *(f"[{each}]" for each in notes)])),), document)


def _document(
    fetched: Fetched, title: str, format: str, way: str, note: str, *, is_cut: bool = False
) -> Document:
    return Document(
        url=fetched.url,
        title=title[:500],
        content_type=fetched.content_type,
        format=format,
        way=way,
        bytes=len(fetched.body),
        truncated=is_cut or fetched.is_cut,
        note=note,
    )
