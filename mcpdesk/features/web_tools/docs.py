"""ReadDocs: a document of the web as readable text."""

from __future__ import annotations

import asyncio
import codecs
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from mcpdesk.errors import HandlerError
from mcpdesk.features.web_tools import page_text
from mcpdesk.protocol import content
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.authoring import tool
from mcpdesk.server.offer.tool import ToolResult
from mcpdesk.tools import check_libraries

if TYPE_CHECKING:
    from mcpdesk.features.web_tools.fetch import FetchedPage

MAX_WAIT_MS = 30_000
HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
TEXT_TYPES = ("text/", "application/json", "application/xml", "application/javascript", "application/yaml")
"""Beginnings of content types of texts."""
NO_CONTENT_TYPE = frozenset({"", "application/octet-stream"})
"""Content types that servers send for unknown files, including text files such as Makefile."""
TEXT_CHECK_BYTES = 4_096
"""Number of first bytes that must be valid text, for such a content type."""
NOTES_LENGTH = 500
"""Number of characters of a result that are reserved for the name of the file with the full text."""
PICTURE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
MAX_PICTURE_BYTES = 5 << 20

NO_TEXT = "the page has no text"
LATE_TEXT_HINT = " after its network was idle; scripts may write it later: try a longer wait_ms"

Format = Literal["text", "html", "markdown"]


class Document(Struct, frozen=True):
    """Properties of the document that was read.

    Attributes:
        url: URL after redirects
        way: Method: playwright or chromium (a browser ran its scripts), or fetch
        note: Remark about the document, if any
        truncated: True if part of the document is left out
        output_file: File with the full text, if it was too long to return
    """

    url: str
    title: str
    content_type: str
    format: str
    way: str
    bytes: int
    truncated: bool
    note: str = ""
    output_file: str | None = None


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
    wait_ms: Annotated[int, Meta(ge=0, le=MAX_WAIT_MS)] = 0,
) -> ToolResult[Document]:
    """Fetch URL content as markdown via headless browser. Returns the article, without navigation, after the
    page has loaded, its network is idle and `wait_ms` more have passed. If no browser is found, the page is
    read without running its scripts; the result reports this, and also if a page has no text or was still
    loading. Plain text, JSON, XML and images are returned unchanged, and PDF files as text if the library for
    that is installed. If a text is long, its start is returned, with the path of a file that has all of it.

    Args:
        url: The URL to fetch
        format: Output format: text, html, or markdown
        wait_ms: Wait time for page load in ms
    """
    from mcpdesk.features.web_tools.fetch import fetch

    allows_private = bool(ctx.hosted.options.settings.get("read_private_urls"))
    fetched = await fetch(url.strip(), allows_private=allows_private)
    is_untyped_html = not fetched.content_type and b"<html" in fetched.body[:2000].lower()
    if fetched.content_type in HTML_TYPES or is_untyped_html:
        return await _page(fetched, format, wait_ms, ctx)
    if _is_text(fetched):
        return await _result(_document(fetched, "text"), fetched.text, ctx)
    return await _other(fetched, ctx)


def _is_text(fetched: FetchedPage) -> bool:
    """Return True if the document is text, according to its content type or its first bytes."""
    content_type, first_bytes = fetched.content_type, fetched.body[:TEXT_CHECK_BYTES]
    if content_type not in NO_CONTENT_TYPE or not first_bytes or b"\0" in first_bytes:
        return content_type.startswith(TEXT_TYPES) or content_type.endswith(("+json", "+xml"))
    try:
        codecs.getincrementaldecoder("utf-8")().decode(first_bytes)
    except UnicodeDecodeError:
        return False
    return True


async def _page(fetched: FetchedPage, format: Format, wait_ms: int, ctx: Context) -> ToolResult[Document]:
    """Return the result for an HTML page."""
    check_libraries("ReadDocs")
    html, method, note = await _html(fetched, wait_ms, ctx)
    page = await asyncio.to_thread(_converted, html, format, fetched.url)
    if not page.text.strip():
        text_note = NO_TEXT if method == "fetch" else f"{NO_TEXT}{LATE_TEXT_HINT}"
        note = f"{text_note}; {note}" if note else text_note
    document = replace(
        _document(fetched, format),
        title=page.title[:500],
        way=method,
        note=note,
        truncated=page.is_cut or fetched.is_cut,
    )
    return await _result(document, page.text, ctx)


async def _html(fetched: FetchedPage, wait_ms: int, ctx: Context) -> tuple[str, str, str]:
    """Return the HTML of the page, the method with which it was loaded, and a note about the loading."""
    from mcpdesk.features.web_tools.browser import BrowserError, find_browser, render

    program = find_browser()
    if program is None:
        return fetched.text, "fetch", "no browser was found on this machine: scripts of the page did not run"
    allows_private = bool(ctx.hosted.options.settings.get("read_private_urls"))
    try:
        async with ctx.hosted.browsers:
            page = await render(
                program,
                fetched.url,
                wait_ms,
                ctx.environment,
                allows_private=allows_private,
                allows_local=fetched.is_local,
            )
    except BrowserError as error:
        return fetched.text, "fetch", f"scripts of the page did not run: {error}"
    if not page.is_loading:
        return page.html, page.method, ""
    hint = "; a longer wait_ms may give more" if wait_ms < MAX_WAIT_MS else ""
    return page.html, page.method, f"the page was still loading when the wait of {wait_ms} ms ended{hint}"


def _converted(html: str, format: Format, url: str) -> page_text.Readable:
    if format == "html":
        return page_text.markup(html, url)
    return page_text.plain(html) if format == "text" else page_text.markdown(html, url)


async def _other(fetched: FetchedPage, ctx: Context) -> ToolResult[Document]:
    """Return a document that is not text: an image as an image, a PDF file as its text.

    Raises: HandlerError for any other document.
    """
    from mcpdesk.tools.conversion import converted, form_of

    content_type, size = fetched.content_type or "unknown type", len(fetched.body)
    file_form = "pdf" if content_type == "application/pdf" else form_of(fetched.body)
    source = f"url: {fetched.url}"
    if fetched.is_cut:
        source += f" (only the first {size:,} bytes were read)"
    if file_form == "pdf":
        conversion = await converted("pdf-text", fetched.body, ctx.environment, source)
        pages = conversion.facts["pages"]
        note = f"PDF, {pages} page{'s' if pages != 1 else ''}"
        if not conversion.data.strip():
            note += "; it has no text: its pages may be pictures"
        document = replace(
            _document(fetched, "text"),
            title=conversion.facts["title"],
            note=note,
            truncated=fetched.is_cut or conversion.facts["is_cut"],
        )
        return await _result(document, conversion.data.decode(), ctx)
    body = fetched.body
    if file_form == "heic":
        body, content_type = (await converted("heic", body, ctx.environment, source)).data, "image/png"
    if content_type in PICTURE_TYPES and len(body) <= MAX_PICTURE_BYTES:
        note = f"{fetched.content_type or content_type}, {size:,} bytes: a picture"
        heading = content.text(f"{fetched.url}\n[{note}]")
        document = replace(_document(fetched, "none"), note=note)
        return ToolResult((heading, content.image(body, content_type)), document)
    hint = "download it and use a program for files of that kind"
    raise HandlerError(f"{source} is not text but {content_type} ({size:,} bytes); {hint}")


async def _result(document: Document, text: str, ctx: Context) -> ToolResult[Document]:
    """Return the part of the text that fits, and write the full text to a file."""
    from mcpdesk.jobs.output import write_text

    notes = [document.note] if document.note else []
    if document.truncated:
        notes.append("the document is larger than the part that was read")
    max_length = ctx.hosted.options.output_chars - sum(len(each) + 4 for each in notes)
    if len(text) > max_length:
        max_length -= NOTES_LENGTH
        omission = f"{len(text) - max_length:,} characters more"
        document = replace(document, truncated=True)
        try:
            path = await asyncio.to_thread(write_text, ctx.hosted.outputs, text, ctx.hosted.output_budget)
            document = replace(document, output_file=str(path))
            notes.append(f"{omission}; the full text is in {path}")
        except OSError as error:
            notes.append(f"{omission}, which could not be written to a file: {error.strerror}")
    body = text[:max_length] or "(no text)"
    return ToolResult((content.text("\n\n".join([body, *(f"[{each}]" for each in notes)])),), document)


def _document(fetched: FetchedPage, format: str) -> Document:
    return Document(
        url=fetched.url,
        title="",
        content_type=fetched.content_type,
        format=format,
        way="fetch",
        bytes=len(fetched.body),
        truncated=fetched.is_cut,
    )
