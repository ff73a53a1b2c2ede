"""What HTTP said around the messages of an exchange, each header with what is known of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from textual.content import Content

from mcpdesk.recorder.exchange import Exchange
from mcpdesk.recorder.header_checks import Checked, Verdict
from mcpdesk.recorder.index import Index
from mcpdesk.recorder.legible import http, http_checked
from mcpdesk.tui.render.safe_text import clean, one_line

MOST = 50
"""Exchanges of an operation that are laid out; the newest."""
_STYLES = {Verdict.GOOD: "$text-success", Verdict.BAD: "$text-error", Verdict.OPEN: "$text-muted"}


def http_text(index: Index, whole: Exchange, schema: Any = None) -> Content:
    """Request and response of an exchange and its parts; says so where there was no HTTP."""
    ones = [whole, *(index.exchange(row) for row in whole.parts[-MOST:])]
    blocks: list[Content] = []
    for one in ones:
        said = list(_blocks(index, one, schema if one.method == whole.method else None))
        if said and len(ones) > 1:
            said.insert(0, Content.styled(one_line(f"{one.method} #{one.id}"), "bold $text-primary"))
        blocks += said
    return Content("\n\n").join(blocks) if blocks else Content("This did not pass over HTTP.")


def _blocks(index: Index, one: Exchange, schema: Any) -> Iterator[Content]:
    """Request, then response, as far as there are any; what came by POST is held against its body."""
    if one.request is not None and (asked := http_checked(index, one, one.request, schema)) is not None:
        line, headers = asked
        if line.startswith("POST "):
            yield _block(line, [_checked(header) for header in sorted(headers, key=_weight)])
        else:
            yield from _as_it_was(index, one, one.request)
    if one.response is not None:
        yield from _as_it_was(index, one, one.response)


def _as_it_was(index: Index, one: Exchange, frame: int) -> Iterator[Content]:
    if (said := http(index, one, frame)) is not None:
        yield _block(said[0], [_plain(name, value) for name, value in said[1]])


def _block(line: str, headers: list[Content]) -> Content:
    return Content("\n").join([Content.styled(clean(line), "bold"), *headers])


def _checked(header: Checked) -> Content:
    """One header with glyph and words; one that is missing has no value."""
    style = _STYLES[header.verdict]
    glyph = header.verdict.value if header.words else " "
    value = f" {one_line(header.value)}" if header.value else ""
    return Content.assemble(
        (f"{glyph} ", style),
        (f"{one_line(header.name)}:", _name_style(header.name)),
        value,
        (f"  {header.words}" if header.words else "", style),
    )


def _plain(name: str, value: str) -> Content:
    return Content.assemble("  ", (f"{one_line(name)}: ", _name_style(name)), one_line(value))


def _weight(header: Checked) -> int:
    """Faults come first, then what was judged, then the rest."""
    return 0 if header.verdict is Verdict.BAD else 1 if header.words else 2


def _name_style(name: str) -> str:
    """Those the protocol itself reads stand out."""
    return "$text-primary" if name.lower().startswith("mcp-") else "$text-muted"
