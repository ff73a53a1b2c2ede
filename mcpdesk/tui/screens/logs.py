"""The log of servers, tools, child processes and stray prints: filter, list, and one entry in full."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Input, Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, LogLine
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.amounts import clock
from mcpdesk.tui.render.safe_text import clean, one_line
from mcpdesk.tui.widgets.fields import LineField
from mcpdesk.tui.widgets.line_list import LineList, Span
from mcpdesk.tui.widgets.menu import Choice, Menu

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp


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
    CLICKS_TO_CHOOSE = 2
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
            self._restore_cursor(self.selected)

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
        text = one_line(_main_line(line.text), room - len(more)) + more
        yield text + " " * max(0, room - cell_len(text)), "lines--muted" if line.level == "debug" else ""
        yield where, "lines--muted"

    def row_chosen(self, index: int) -> None:
        self.post_message(self.Opened())

    def watch_cursor(self) -> None:
        super().watch_cursor()
        self.post_message(self.Moved())

    def cursor_was_moved(self) -> None:
        """On the last line following goes on, elsewhere it ends."""
        self.following = self.cursor >= len(self.rows) - 1

    def on_mouse_scroll_up(self) -> None:
        """Reading further up ends following."""
        self.following = False

    def watch_following(self, following: bool) -> None:
        """Go to the end when following begins."""
        if following and self.rows:
            self.cursor = len(self.rows) - 1
        self.post_message(self.Moved())

    def _rebuild(self) -> None:
        chosen = self.selected
        self.rows = [line for line in self.lines if self.filter.admits(line)]
        self._restore_cursor(chosen)

    def _restore_cursor(self, chosen: LogLine | None) -> None:
        self.rows_changed()
        if self.following or chosen is None:
            self.cursor = len(self.rows) - 1
        else:
            self.cursor = next((n for n, row in enumerate(self.rows) if row.number >= chosen.number), 0)
        self.post_message(self.Moved())


def _main_line(text: str) -> str:
    """The most telling line: the first, or the last line of a traceback, which names the exception."""
    first, *others = text.rstrip().split("\n")
    is_stack = first.lstrip().startswith(('File "', "Traceback (most recent"))
    return others[-1] if is_stack and others else first


def _column(text: str, width: int) -> str:
    cut = one_line(text, width)
    return cut + " " * (width - cell_len(cut) + 1)


class LogsPane(Vertical):
    """Filter, list, status, and the whole text of one entry."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("logs")
    DEFAULT_CSS = """
    LogsPane {
        & > Input { display: none; border: none; height: 1; padding: 0 1; background: $panel; }
        & > Input:focus { border: none; }
        &.-filtering > Input { display: block; }
        & > .status { height: 1; color: $text-muted; background: $surface; padding: 0 1; text-wrap: nowrap; }
        & > .empty { display: none; height: 1fr; content-align: center middle; color: $text-muted; }
        &.-empty > .empty { display: block; }
        &.-empty > LogList { display: none; }
        & > VerticalScroll {
            display: none; height: auto; max-height: 40%; border-top: solid $border-blurred; padding: 0 1;
        }
        &.-detail > VerticalScroll { display: block; }
        & > VerticalScroll Static { height: auto; }
    }
    """
    app: DeskApp

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link
        self._newest = -1

    def compose(self) -> ComposeResult:
        """Filter above, status below."""
        yield LineField(placeholder="filter: words in text, source or place", compact=True)
        yield LogList()
        yield Static(classes="empty", markup=False)
        with VerticalScroll(can_focus=False):
            yield Static(markup=False)
        yield Static(classes="status", markup=False)

    def show_view(self, view: CoreView) -> None:
        """Add the lines that came since the last time."""
        if fresh := self.link.logs(self._newest):
            self._newest = fresh[-1].number
            self.listing.extend(fresh)
        elif not self.listing.lines:
            self._describe()

    @property
    def listing(self) -> LogList:
        """The lines."""
        return self.query_one(LogList)

    def action_filter(self) -> None:
        """Type words to filter by."""
        self.add_class("-filtering")
        self.query_one(Input).focus()

    def action_level(self) -> None:
        """Raise the lowest level shown; after the highest comes the lowest."""
        at = LEVELS.index(self.listing.filter.level)
        self._narrow(level=LEVELS[(at + 1) % (LEVELS.index("error") + 1)])

    @work
    async def action_source(self) -> None:
        """Show one source only."""
        counts: dict[str, int] = {}
        for line in self.listing.lines:
            counts[line.source] = counts.get(line.source, 0) + 1
        choices = [Choice("all sources", "*", f"{len(self.listing.lines)} lines")]
        choices += [Choice(name, name, f"{count} lines") for name, count in sorted(counts.items())]
        chosen = await self.app.push_screen_wait(Menu("Source", choices))
        if chosen is not None:
            self._narrow(source="" if chosen == "*" else chosen)

    def action_follow(self) -> None:
        """Stay at the newest line, or stop."""
        self.listing.following = not self.listing.following

    @on(LogList.Opened)
    def action_details(self) -> None:
        """Show all lines of an entry, or hide them."""
        self.toggle_class("-detail")
        self._describe()

    def action_reset(self) -> None:
        """Esc: first the details, then the filter."""
        if self.has_class("-detail"):
            self.remove_class("-detail")
            return
        self.remove_class("-filtering")
        self.query_one(Input).value = ""
        self.listing.narrow(LogFilter())
        self.listing.focus()

    @work
    async def action_copy(self) -> None:
        """Copy the text, the place or the whole line."""
        line = self.listing.selected
        if line is None:
            return
        choices = [Choice("text", line.text, line.text, "t"), Choice("line", _whole(line), _whole(line), "l")]
        if line.where:
            choices.append(Choice("place", line.where, line.where, "p"))
        if text := await self.app.push_screen_wait(Menu("Copy", choices)):
            self.app.copy(text, one_line(text, 40))

    @on(Input.Changed)
    def filter_typed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        self._narrow(words=tuple(event.value.lower().split()))

    @on(Input.Submitted)
    def filter_done(self) -> None:
        """Enter leads back to the list; an empty filter goes away."""
        self.set_class(bool(self.listing.filter.words), "-filtering")
        self.listing.focus()

    @on(LogList.Moved)
    def _describe(self) -> None:
        chosen, rows = self.listing.selected, self.listing
        self.query_one(".status", Static).update(_status(rows))
        self.set_class(not rows.rows, "-empty")
        if not rows.rows:
            self.query_one(".empty", Static).update(_empty(bool(rows.lines)))
        if self.has_class("-detail"):
            self.query_one("VerticalScroll Static", Static).update(_detail(chosen))

    def _narrow(self, **changes: object) -> None:
        self.listing.narrow(replace(self.listing.filter, **changes))  # type: ignore[arg-type]


def _status(rows: LogList) -> Content:
    wanted = rows.filter
    count = (
        f"{len(rows.rows)} of {len(rows.lines)}" if len(rows.rows) != len(rows.lines) else f"{len(rows.rows)}"
    )
    pieces = [
        "following" if rows.following else "not following",
        f"{count} lines",
        f"level {wanted.level}+",
        f"source {one_line(wanted.source, 20) or 'all'}",
    ]
    if wanted.words:
        pieces.append("with " + one_line(" ".join(wanted.words), 40))
    return Content(" · ".join(pieces))


def _empty(hidden: bool) -> Content:
    if hidden:
        return Content("No line passes the filter. Esc shows all.")
    return Content(
        "Nothing was said yet.\n"
        "print(), logging and ctx.log() in a tool, and stderr of children, appear here."
    )


def _detail(line: LogLine | None) -> Content:
    if line is None:
        return Content("")
    place = "  ".join(
        part for part in (line.server, line.source, line.where, line.trace and f"trace {line.trace}") if part
    )
    head = Content.styled(f"{clock(line.time)}  {line.level}  {one_line(place)}", "$text-muted")
    return Content("\n").join([head, Content(clean(line.text))])


def _whole(line: LogLine) -> str:
    parts = (clock(line.time), line.level, line.server, line.source, line.where, line.text)
    return "  ".join(part for part in parts if part)
