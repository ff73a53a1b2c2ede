"""What servers, tools, children and stray prints say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, LogLine
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.amounts import clock
from mcpdesk.tui.render.safe_text import clean, one_line
from mcpdesk.tui.widgets.fields import LineField
from mcpdesk.tui.widgets.log_list import LEVELS, LogFilter, LogList
from mcpdesk.tui.widgets.menu import Choice, Menu

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp


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

    def look(self, view: CoreView) -> None:
        """Take the lines that came since."""
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
