"""The log as a list of lines: bounded, filtered, following its end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual import events
from textual.message import Message
from textual.reactive import reactive

from mcpdesk.link.values import LogLine
from mcpdesk.tui.render.amounts import clock
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.line_list import LineList, Span

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
BOUND = 20_000
"""Lines kept; the oldest fifth goes when there are more."""
_GLYPHS = {"warning": "!", "error": "✕", "critical": "✕", "alert": "✕", "emergency": "✕"}
_STYLES = {"debug": "lines--muted", "warning": "lines--warn", "!": "lines--warn", "✕": "lines--bad"}


@dataclass(frozen=True, slots=True)
class LogFilter:
    """What is shown: everything at or above `level`, of `source` (empty: any), with all of `words`."""

    level: str = LEVELS[0]
    source: str = ""
    words: tuple[str, ...] = ()

    def admits(self, line: LogLine) -> bool:
        """Whether a line is shown."""
        if rank(line.level) < rank(self.level) or (self.source and line.source != self.source):
            return False
        text = (
            f"{line.text} {line.source} {line.where} {line.server} {line.trace}".lower() if self.words else ""
        )
        return all(word in text for word in self.words)


def rank(level: str) -> int:
    """Severity from 0; an unknown level counts as info."""
    return LEVELS.index(level) if level in LEVELS else 1


class LogList(LineList):
    """Keeps the last `BOUND` lines; shows those the filter admits."""

    DEFAULT_CSS = """
    LogList { height: 1fr; }
    """
    following: reactive[bool] = reactive(True)

    @dataclass
    class Moved(Message):
        """The cursor stands on another line, or following changed."""

    @dataclass
    class Opened(Message):
        """The line under the cursor was chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[LogLine] = []
        self.rows: list[LogLine] = []
        self.filter = LogFilter()

    def extend(self, lines: Sequence[LogLine]) -> None:
        """Add newer lines."""
        self.lines.extend(lines)
        self.rows.extend(line for line in lines if self.filter.admits(line))
        if len(self.lines) > BOUND:
            del self.lines[: len(self.lines) - BOUND * 4 // 5]
            self._rebuild()
        else:
            self._settle(self.selected)

    def narrow(self, wanted: LogFilter) -> None:
        """Show other lines; the selected one stays selected if it is still shown."""
        self.filter = wanted
        self._rebuild()

    @property
    def selected(self) -> LogLine | None:
        """The line under the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    @property
    def row_count(self) -> int:
        return len(self.rows)

    def spans(self, index: int, width: int) -> Iterable[Span]:
        line = self.rows[index]
        glyph = _GLYPHS.get(line.level, " ")
        tone = _STYLES.get(glyph) or _STYLES.get(line.level, "")
        yield f" {clock(line.time)[: 12 if width >= 70 else 8]} ", "lines--muted"
        yield f"{glyph} {one_line(line.level, 8):<8} ", tone
        yield _column(line.source, 10), "lines--key"
        where = f"  {one_line(line.where, 40)} " if line.where and width >= 90 else ""
        room = max(10, width - (36 if width >= 70 else 32) - cell_len(where))
        others = line.text.count("\n")
        more = f" (+{others} lines)" if others else ""
        text = one_line(_telling(line.text), room - len(more)) + more
        yield text + " " * max(0, room - cell_len(text)), "lines--muted" if line.level == "debug" else ""
        yield where, "lines--muted"

    def row_chosen(self, index: int) -> None:
        self.post_message(self.Opened())

    def on_click(self, event: events.Click) -> None:
        """One click selects, two open."""
        event.prevent_default()
        if (index := event.style.meta.get("row")) is not None and index < len(self.rows):
            self.cursor = index
            self._heed()
            if event.chain > 1:
                self.row_chosen(index)

    def watch_cursor(self) -> None:
        super().watch_cursor()
        self.post_message(self.Moved())

    def action_cursor(self, by: int) -> None:
        super().action_cursor(by)
        self._heed()

    def action_page(self, by: int) -> None:
        super().action_page(by)
        self._heed()

    def action_first(self) -> None:
        super().action_first()
        self._heed()

    def action_last(self) -> None:
        super().action_last()
        self._heed()

    def on_mouse_scroll_up(self) -> None:
        """Reading further up ends following."""
        self.following = False

    def watch_following(self, following: bool) -> None:
        """Go to the end when following begins."""
        if following and self.rows:
            self.cursor = len(self.rows) - 1
        self.post_message(self.Moved())

    def _heed(self) -> None:
        self.following = self.cursor >= len(self.rows) - 1

    def _rebuild(self) -> None:
        chosen = self.selected
        self.rows = [line for line in self.lines if self.filter.admits(line)]
        self._settle(chosen)

    def _settle(self, chosen: LogLine | None) -> None:
        self.rows_changed()
        if self.following or chosen is None:
            self.cursor = len(self.rows) - 1
        else:
            self.cursor = next((n for n, row in enumerate(self.rows) if row.number >= chosen.number), 0)
        self.post_message(self.Moved())


def _telling(text: str) -> str:
    """The line that says most: the first, or of a stack the last, where it says what happened."""
    first, *others = text.rstrip().split("\n")
    is_stack = first.lstrip().startswith(('File "', "Traceback (most recent"))
    return others[-1] if is_stack and others else first


def _column(text: str, width: int) -> str:
    cut = one_line(text, width)
    return cut + " " * (width - cell_len(cut) + 1)
