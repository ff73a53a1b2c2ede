"""Page of the last saves: changes of the contract, and of the outcome of each recorded call."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from typing import ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.css.query import NoMatches
from textual.getters import query_one
from textual.widgets import Static

from mcpdesk.protocol.catalogue.contract import ContractVerdict
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.amounts import clock, counted, duration
from mcpdesk.tui.render.safe_text import clean, one_line
from mcpdesk.tui.results.after_call import differences
from mcpdesk.tui.widgets.line_list import RowList, Span, column
from mcpdesk.tui.widgets.menu import Dialog
from mcpdesk.tui.workbench.recording import RecordingReplay, ReplayRow, Save, Saves

MAX_CHANGES = 100
"""Maximum number of changes of a contract that are shown."""
MAX_DESCRIPTION_LINES = 10
"""Maximum number of lines of an old and of a new description that are shown."""
_MAX_NAME_WIDTH = 24
_VERDICT_STYLES = {
    ContractVerdict.BREAKING: "$text-error",
    ContractVerdict.COMPATIBLE: "$text-success",
    ContractVerdict.WORDING: "$text-muted",
}


class ReplayList(RowList[ReplayRow]):
    """One line per recorded call."""

    def spans(self, index: int, width: int) -> Iterable[Span]:
        """Yield verdict, tool, old and new duration, and arguments."""
        row = self.rows[index]
        glyph, word, style = row.verdict.value
        yield column(f" {glyph} {word}", 15), style
        yield column(one_line(row.tool, _MAX_NAME_WIDTH), self._name_width + 2), "lines--key"
        durations = [row.recorded_outcome.elapsed_s]
        if row.new_outcome is not None:
            durations.append(row.new_outcome.elapsed_s)
        yield f"{' → '.join(map(duration, durations))}  ", "lines--muted"
        yield one_line(row.arguments_text), ""

    @property
    def _name_width(self) -> int:
        return min(_MAX_NAME_WIDTH, max(cell_len(row.tool) for row in self.rows))

    def keys_of(self, row: ReplayRow) -> tuple[Hashable, ...]:
        return (id(row),)


class SavePage(Dialog[None]):
    """Dialog with the effects of a save. At first it shows the last save.

    `start` begins to repeat the recorded calls, and `stop` makes no further calls.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("save_page")
    DEFAULT_CSS = """
    SavePage { align: center middle; }
    SavePage > .box { width: 120; height: 88%; }
    SavePage #contract { height: auto; max-height: 30%; scrollbar-size-vertical: 1; }
    SavePage .replay-status { color: $text-muted; margin-top: 1; }
    SavePage ReplayList { height: 1fr; min-height: 3; }
    SavePage #difference {
        height: 1fr; border-top: solid $foreground 20%; scrollbar-size-vertical: 1;
    }
    SavePage #difference .role { text-style: bold; color: $text-accent; }
    SavePage #difference Static, SavePage #contract Static { height: auto; }
    """
    rows = query_one(ReplayList)

    def __init__(
        self, saves: Saves, server: str, start: Callable[[], object], stop: Callable[[], object]
    ) -> None:
        super().__init__()
        self._saves, self._server, self._start, self._stop = saves, server, start, stop
        self._selected_save: Save | None = None
        """Earlier save that the person selected, or None to show the latest save."""
        self._is_ready = False
        saves.update_page = self.update_rows
        self._drawn_difference: tuple[object, object] | None = None
        """Row whose difference is shown, and its verdict at that time."""

    def compose(self) -> ComposeResult:
        """Compose the contract, the calls, and the difference of one of them."""
        with Vertical(classes="box") as box:
            box.border_title = ""
            with VerticalScroll(id="contract"):
                yield Static(markup=False)
            yield Static(classes="replay-status", markup=False)
            yield ReplayList()
            yield VerticalScroll(id="difference")

    def on_mount(self) -> None:
        """Show the current state, and receive updates."""
        self._is_ready = True
        self.rows.focus()
        self.update_rows()

    def on_unmount(self) -> None:
        """Stop receiving updates."""
        self._is_ready, self._saves.update_page = False, None

    def update_rows(self) -> None:
        """Show the changes since the last update."""
        if self._is_ready:
            with suppress(NoMatches):  # the page is closing, and some widgets are removed
                self._show_rows()

    def _show_rows(self) -> None:
        saves, saves_of_server = self._saves, self._saves.of(self._server)
        save = self._displayed_save
        replay = save.replay
        title = _title(saves_of_server, saves_of_server.index(save))
        self.query_one(".box").border_title = f"{one_line(self._server, _MAX_NAME_WIDTH)}: {title}"
        self.query_one("#contract Static", Static).update(_contract_text(save))
        is_latest = save is saves_of_server[-1]
        self.query_one(".replay-status", Static).update(_replay_status(replay, is_latest=is_latest))
        always_text = "on" if saves.replays_at_every_save else "off"
        step_hint = "← → earlier, later · " if len(saves_of_server) > 1 else ""
        hints = f"{step_hint}r repeat · x stop · f at every save: {always_text} · esc close"
        self.query_one(".box").border_subtitle = hints
        self.rows.show(() if replay is None else replay.rows)

    @property
    def _displayed_save(self) -> Save:
        """Save that is shown: the selected one if it is still stored, else the latest."""
        saves_of_server = self._saves.of(self._server)
        selected_save = self._selected_save
        if selected_save is not None and selected_save in saves_of_server:
            return selected_save
        return saves_of_server[-1]

    @on(ReplayList.Moved)
    async def _show_difference(self) -> None:
        row = self.rows.selected
        difference = (row, row.verdict if row is not None else None)
        if difference == self._drawn_difference:
            return
        self._drawn_difference = difference
        container = self.query_one("#difference", VerticalScroll)
        await container.remove_children()
        if row is not None and row.new_outcome is not None:
            await container.mount_all(differences(row.recorded_outcome, row.new_outcome))

    def action_step(self, by: int) -> None:
        """Show an earlier or a later save."""
        saves_of_server = self._saves.of(self._server)
        index = max(0, min(len(saves_of_server) - 1, saves_of_server.index(self._displayed_save) + by))
        self._selected_save = None if index == len(saves_of_server) - 1 else saves_of_server[index]
        self.update_rows()

    def action_start(self) -> None:
        """Repeat the calls with the current code."""
        self._selected_save = None
        self._start()

    def action_stop(self) -> None:
        """Make no further calls."""
        self._stop()

    def action_toggle_always(self) -> None:
        """Toggle whether the calls are repeated after each save."""
        self._saves.replays_at_every_save = not self._saves.replays_at_every_save
        self.update_rows()


def _replay_status(replay: RecordingReplay | None, *, is_latest: bool) -> str:
    """Return the state of the recorded calls: not repeated, or the summary of their results."""
    if not is_latest and (replay is None or not replay.has_begun):
        return "Calls of read-only tools were not repeated."
    if replay is None:
        return ""
    if not replay.rows:
        return "No recorded calls of read-only tools (with readOnlyHint)."
    if not replay.has_begun:
        calls = counted(len(replay.rows), "recorded call")
        return f"{calls} of read-only tools, not repeated. r calls the tools again, and compares the results."
    problem = f" · {one_line(replay.problem)}" if replay.problem else ""
    return f"Calls of read-only tools: {replay.summary}{' …' * replay.is_running}{problem}"


def _title(saves_of_server: Sequence[Save], index: int) -> str:
    """Return `what the last save changed · 13:02:11`, `save 2 of 4 · 13:01:40` or `before the first save`."""
    save = saves_of_server[index]
    if not save.time:
        return "before the first save"
    time_text = clock(save.time)[:8]
    if index == len(saves_of_server) - 1:
        return f"what the last save changed · {time_text}"
    real_saves = [candidate for candidate in saves_of_server if candidate.time]
    return f"save {real_saves.index(save) + 1} of {len(real_saves)} · {time_text}"


def _contract_text(save: Save) -> Content:
    """Format the items that could not be loaded, and the changes of the definitions that clients receive."""
    lines = [
        Content.styled(f"✕ not loaded: {one_line(reason)}", "$text-error") for reason in save.load_problems
    ]
    changes = save.changes
    for change in changes[:MAX_CHANGES]:
        verdict = (f"{change.verdict:<11}", _VERDICT_STYLES[change.verdict])
        source = save.sources.get((change.kind, change.name), "")
        location = (f"  {one_line(source)}", "$text-muted")
        lines.append(Content.assemble(verdict, one_line(str(change)), location))
        if change.was or change.now:
            sides = (("-", change.was, "$text-error"), ("+", change.now, "$text-success"))
            lines += [
                Content.styled(f"{sign:>13} {line}", style)
                for sign, text, style in sides
                for line in clean(text).splitlines()[:MAX_DESCRIPTION_LINES]
            ]
    if len(changes) > MAX_CHANGES:
        lines.append(Content(f"… {len(changes) - MAX_CHANGES:,} more"))
    if not lines:
        lines.append(Content.styled("No change for clients.", "$text-muted"))
    return Content("\n").join(lines)
