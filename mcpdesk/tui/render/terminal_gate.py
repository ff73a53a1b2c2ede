"""The last thing lines of the screen pass before they are written to the terminal."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from mcpdesk.plain_text import one_cell_each


class TerminalGate(LineFilter):
    """Takes control characters out of what is drawn, and draws the stand-ins of fields.

    Widgets get cleaned texts; this holds where one of them did not. Links that the terminal itself would
    follow are taken out, too: their addresses are strangers', and the desk opens links only when asked to.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments of a line, of the same widths."""
        return [_harmless(segment) for segment in segments]


def _harmless(segment: Segment) -> Segment:
    text, style, control = segment
    drawn = one_cell_each(text)
    has_link = style is not None and style.link
    if drawn is text and not has_link and not control:
        return segment
    return Segment(drawn, style.update_link(None) if style is not None and has_link else style)
