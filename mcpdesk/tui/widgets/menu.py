"""A small modal list to choose from: palette, copy menus, themes, servers, yes or no."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.cells import cell_len
from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.fuzzy import Matcher
from textual.widgets import Input, Static

from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.dialog import Dialog
from mcpdesk.tui.widgets.fields import LineField
from mcpdesk.tui.widgets.line_list import RowList, Span, column

LABEL_CELLS = 36
"""Column at which hints begin at the latest."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One line of a menu."""

    label: str
    value: Any
    hint: str = ""
    """Muted text after the label: group, or what it is."""
    key: str = ""
    """Shown at the right end; in a menu without a filter a single letter chooses the line."""
    help: str = ""
    """One sentence below the list while the cursor is on it."""


class ChoiceList(RowList[Choice]):
    """The lines of a menu."""

    DEFAULT_CSS = """
    ChoiceList { height: auto; max-height: 100%; min-height: 1; }
    """
    clicks_to_choose = 1

    def __init__(self, choices: Sequence[Choice]) -> None:
        super().__init__()
        self.rows = choices
        self._hints_at = max((min(cell_len(one.label), LABEL_CELLS) for one in choices), default=0)

    def spans(self, index: int, width: int) -> Iterable[Span]:
        choice = self.rows[index]
        key = f" {choice.key} " if choice.key else ""
        room = max(4, width - cell_len(key) - 1)
        start = min(self._hints_at, room)
        label = one_line(choice.label, start if choice.hint else room)
        hint = one_line(choice.hint, room - start - 2) if room - start > 4 else ""
        named = column(label, start + 2) if hint else label
        yield f" {named}", ""
        yield column(hint, room - cell_len(named)), "lines--muted"
        yield key, "lines--key"

    def replace(self, choices: Sequence[Choice]) -> None:
        """Show other lines, from the first."""
        self.rows = choices
        self.cursor = 0
        self.rows_changed()
        self.post_message(self.Moved())


class Menu(Dialog[Any]):
    """A dialog whose result is the value of the chosen line, or None after esc.

    `passed` is called with the value under the cursor, for previews.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Close", show=False),
        Binding("down,ctrl+n", "move(1)", "Down", show=False),
        Binding("up", "move(-1)", "Up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
    ]
    DEFAULT_CSS = """
    Menu { align: center top; background: $background 50%; }
    Menu > Vertical {
        width: 70; max-width: 96%; height: auto; max-height: 80%; margin: 2 0;
        border: round $border; border-title-color: $text-primary; border-title-style: bold;
        background: $surface; padding: 0;
    }
    Menu Input { border: none; height: 1; padding: 0 1; margin: 0 0 1 0; background: $surface; }
    Menu Input:focus { border: none; }
    Menu ChoiceList { max-height: 1fr; }
    Menu .help { height: 1; color: $text-muted; padding: 0 1; margin-top: 1; text-wrap: nowrap; }
    Menu.-bare .help { display: none; }
    Menu:ansi { background: transparent; }
    """

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        filtered: bool = False,
        cursor: int = 0,
        passed: Callable[[Any], None] | None = None,
    ) -> None:
        super().__init__()
        self.title_text = title
        self.choices = tuple(choices)
        self.filtered = filtered
        self._start = cursor
        self._passed = passed
        self.set_class(not any(choice.help for choice in choices), "-bare")

    def compose(self) -> ComposeResult:
        """Filter, lines, and help for the line under the cursor."""
        box = Vertical()
        box.border_title = Content(one_line(self.title_text))
        box.border_subtitle = "enter choose · esc close"
        with box:
            if self.filtered:
                yield LineField(placeholder="type to search", compact=True)
            yield ChoiceList(self.choices)
            yield Static("", classes="help", markup=False)

    def on_mount(self) -> None:
        """Put the cursor where it was asked for."""
        self.query_one(Input if self.filtered else ChoiceList).focus()
        self.listing.cursor = self._start

    @property
    def listing(self) -> ChoiceList:
        """The lines."""
        return self.query_one(ChoiceList)

    def action_move(self, by: int) -> None:
        """Move the cursor while the filter has the focus."""
        self.listing.action_cursor(by)

    def action_page(self, by: int) -> None:
        """Move the cursor by pages."""
        self.listing.action_page(by)

    def on_key(self, event: events.Key) -> None:
        """A letter chooses its line where nothing is typed."""
        if self.filtered:
            return
        for choice in self.choices:
            if choice.key and choice.key == event.character:
                event.stop()
                self.dismiss(choice.value)

    def on_click(self, event: events.Click) -> None:
        """A click beside the box closes it."""
        if event.widget is self:
            self.dismiss(None)

    @on(Input.Changed)
    def _filter_changed(self, event: Input.Changed) -> None:
        self.listing.replace(search(self.choices, event.value))

    @on(Input.Submitted)
    @on(ChoiceList.Opened)
    def _chosen(self) -> None:
        """Close with the value at once: the next key is not for the menu."""
        if (choice := self.listing.selected) is not None:
            self.dismiss(choice.value)

    @on(ChoiceList.Moved)
    def _moved(self) -> None:
        """Show help for the line and let the caller preview it."""
        if (choice := self.listing.selected) is not None:
            self.query_one(".help", Static).update(Content(one_line(choice.help)))
            if self._passed is not None:
                self._passed(choice.value)


async def is_confirmed(app: App[Any], question: str, do: Choice, instead: str) -> bool:
    """Ask before something is done; `instead` is the label of the other choice. Must run in a worker."""
    return bool(await app.push_screen_wait(Menu(question, [do, Choice(instead, False, key="n")])))


def search(choices: Sequence[Choice], query: str) -> list[Choice]:
    """Fuzzy search over labels and hints, best first; equally good ones keep their order."""
    if not query.strip():
        return list(choices)
    matcher = Matcher(query.strip())
    scored = [
        (max(matcher.match(choice.label), 0.7 * matcher.match(f"{choice.hint} {choice.label}")), choice)
        for choice in choices
    ]
    return [choice for score, choice in sorted(scored, key=lambda pair: -pair[0]) if score > 0]
