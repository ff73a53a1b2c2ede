"""Dialog of the palette: a search field, and lines in groups.

Entries are added in small steps, because thousands of tools would otherwise delay the screen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import chain

from rich.cells import cell_len
from textual import work
from textual.content import Content

from mcpdesk.errors import DeskUserError
from mcpdesk.link.values import SettingView
from mcpdesk.tui.render.safe_text import REASON_TAIL, clean, shortened
from mcpdesk.tui.screens.palette_index import Heading, PaletteEntry, PaletteIndex, PaletteSearch, entries_of
from mcpdesk.tui.widgets.line_list import Span, column
from mcpdesk.tui.widgets.menu import Choice, ChoiceList, Menu, PageDialog, hint_column

FIRST_STEP_TIME_S = 0.02
"""Seconds for adding entries before the palette opens."""
STEP_TIME_S = 0.004
"""Seconds of one step that adds or searches entries after the palette has opened. The pause between two steps
has the same length."""
SETTINGS_TIMEOUT_S = 5.0
"""Seconds to wait for the settings of a core in another process."""
MAX_KEY_CELLS = 24
"""Maximum width in cells of a key, or of the name of a server, at the end of a line."""
_SEARCH_GROUP = "palette search"
"""Group of the worker that continues a search."""


class SettingScreen(PageDialog):
    """Dialog with the value of a setting, and the ways to change it."""

    def __init__(self, setting: SettingView) -> None:
        super().__init__(f"Setting {setting.name}")
        self._setting = setting

    def page(self) -> Content:
        setting = self._setting
        lines = [
            Content(setting.help),
            Content(""),
            Content.assemble(("value    ", "$text-muted"), (clean(setting.value), "bold")),
            Content.assemble(("origin   ", "$text-muted"), clean(setting.origin)),
            Content.assemble(("allowed  ", "$text-muted"), setting.allowed),
            Content(""),
            Content.styled("To change it, use one of these and start mcpdesk again:", "$text-muted"),
            *(Content(f"  {method}") for method in setting.changed_by),
            Content(""),
            Content.styled("mcpdesk settings --explain describes all settings.", "$text-muted"),
        ]
        return Content("\n").join(lines)


class PaletteList(ChoiceList):
    """Lines of the palette. The cursor skips headings."""

    def spans(self, index: int, width: int) -> Iterable[Span]:
        choice = self.rows[index]
        if isinstance(choice, Heading):
            is_note = choice.label.startswith("…")
            indent, style = ("   ", "lines--muted") if is_note else (" ", "lines--head")
            yield indent + choice.label, style
            return
        key = f" {shortened(choice.key, MAX_KEY_CELLS)} " if choice.key else " "
        room = max(4, width - cell_len(key) - 1)
        start = min(self.hint_start + 2, room)
        label = shortened(choice.label, start - 2 if choice.hint else room - 2)
        hint = shortened(choice.hint, room - start - 2, REASON_TAIL) if room - start > 4 else ""
        label_column = column(f"  {label}", start + 2) if hint else f"  {label}"
        yield f" {label_column}", ""
        yield column(hint, room - cell_len(label_column)), "lines--muted"
        yield key, "lines--key"

    def show_lines(self, lines: Sequence[Choice], selected: Choice | None = None) -> None:
        """Replace the lines. Select `selected`, or the first entry if `lines` does not contain `selected`."""
        self.hint_start = hint_column(entries_of(lines))
        self.rows = lines
        self.cursor = next((index for index, line in enumerate(lines) if line is selected), 0)
        self.rows_changed()
        self.post_message(self.Moved())

    def replace(self, choices: Sequence[Choice]) -> None:
        self.show_lines(choices)

    @property
    def selected(self) -> Choice | None:
        """Entry under the cursor, or None if the list is empty."""
        choice = super().selected
        return None if isinstance(choice, Heading) else choice

    def validate_cursor(self, cursor: int) -> int:
        """Move the cursor away from a heading: in the same direction, or back if no entry follows."""
        cursor = super().validate_cursor(cursor)
        if not self.rows:
            return cursor
        rows_below, rows_above = range(cursor, self.row_count), range(cursor, -1, -1)
        is_moving_up = cursor < self.cursor
        candidates = chain(rows_above, rows_below) if is_moving_up else chain(rows_below, rows_above)
        return next((row for row in candidates if not isinstance(self.rows[row], Heading)), cursor)

    def watch_cursor(self) -> None:
        """Scroll the cursor into view, with the heading above the first entry."""
        super().watch_cursor()
        if self.cursor == 1:
            self.scroll_to(y=0, animate=False, immediate=True)

    def choose_row(self, index: int) -> None:
        if not isinstance(self.rows[index], Heading):
            super().choose_row(index)


class Palette(Menu):
    """Menu in groups, wide enough for a sentence beside each name."""

    DEFAULT_CSS = """
    Palette > .box { width: 110; height: 80%; }
    Palette ChoiceList { height: 1fr; }
    Palette .help { height: 2; text-wrap: wrap; }
    """
    no_match_advice = (
        "Search for an action, a tool, a server or a setting by name; esc, then ? lists the keys."
    )

    def __init__(
        self,
        entries: Iterator[PaletteEntry],
        settings: Future[tuple[SettingView, ...]],
        entry_of: Callable[[SettingView], PaletteEntry],
    ) -> None:
        """Create the palette. Entries that need more than `FIRST_STEP_TIME_S` are added after it has opened.

        `entry_of` returns the entry of a setting.
        """
        self._index = PaletteIndex()
        self._entries, self._settings, self._entry_of = entries, settings, entry_of
        self._is_complete = self._add_entries(FIRST_STEP_TIME_S) and settings.done()
        if self._is_complete:
            self._add_settings()
        super().__init__("Palette", self._index.lines(""), filtered=True)
        self.remove_class("-bare")
        self._typed_text = ""

    def new_listing(self) -> ChoiceList:
        return PaletteList(self.choices)

    def on_mount(self) -> None:
        """Select the first entry, and add the remaining entries."""
        listing = self.listing
        listing.hint_start = hint_column(entries_of(self.choices))
        listing.cursor = 1
        if not self._is_complete:
            self._add_remaining_entries()

    def show_matches(self, typed_text: str) -> None:
        """Show the lines that match a text.

        A first step runs at once, and its lines are shown. A longer search continues in steps, and shows all
        lines at its end.
        """
        self._typed_text = typed_text
        search = self._index.search(typed_text)
        if search.advance(FIRST_STEP_TIME_S):
            self.workers.cancel_group(self, _SEARCH_GROUP)
        else:
            self._run_search(search)
        self.show_lines(search.lines(), typed_text)

    @work(group=_SEARCH_GROUP, exclusive=True)
    async def _run_search(self, search: PaletteSearch) -> None:
        await _run_in_steps(search.advance)
        self._show_result(search)

    def _add_entries(self, time_limit_s: float) -> bool:
        """Add entries for about `time_limit_s` seconds. Return True if none are left."""
        end = time.perf_counter() + time_limit_s
        for entry in self._entries:
            self._index.add(entry)
            if time.perf_counter() > end:
                return False
        return True

    def _add_settings(self) -> None:
        if not self._settings.cancelled() and self._settings.exception() is None:
            for setting in self._settings.result():
                self._index.add(self._entry_of(setting))

    @work
    async def _add_remaining_entries(self) -> None:
        """Add the remaining entries, and then the settings."""
        await _run_in_steps(self._add_entries)
        self._search_again()
        with suppress(TimeoutError, ValueError, DeskUserError):
            await asyncio.wait_for(asyncio.wrap_future(self._settings), SETTINGS_TIMEOUT_S)
            self._add_settings()
            self._search_again()

    def _search_again(self) -> None:
        """Search for the typed text again, because entries were added."""
        self._run_search(self._index.search(self._typed_text))

    def _show_result(self, search: PaletteSearch) -> None:
        """Show all lines of a search. A line that the person moved to stays selected."""
        listing = next(iter(self.query(PaletteList)), None)
        if listing is None:  # the palette is closing, and some widgets are removed
            return
        selected = listing.selected if listing.cursor > 1 else None
        self.show_lines(search.lines(), self._typed_text)
        if selected is not None:
            listing.show_lines(listing.rows, selected)


async def _run_in_steps(advance: Callable[[float], bool]) -> None:
    """Call `advance` with the time limit `STEP_TIME_S` until it returns True. Pause between the calls."""
    is_done = False
    while not is_done:
        await asyncio.sleep(STEP_TIME_S)
        is_done = advance(STEP_TIME_S)
