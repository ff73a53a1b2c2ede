"""Dialogs: modal screens that close once, among them a menu and a prompt for one line of text."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from textual import events, on
from textual.app import App, ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.fuzzy import Matcher
from textual.screen import ModalScreen
from textual.visual import VisualType
from textual.widgets import Input, Static

from mcpdesk.plain_text import from_field
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.safe_text import REASON_TAIL, one_line, shortened
from mcpdesk.tui.sequences import prefix_bindings
from mcpdesk.tui.terminal import KeyPause, is_typed
from mcpdesk.tui.widgets.fields import LineField, SearchField
from mcpdesk.tui.widgets.line_list import RowList, Span, column

Result = TypeVar("Result")


class Dialog(ModalScreen[Result]):
    """Modal screen. Keys typed while it opens or closes have no effect on it.

    Its content is in a container of the class `box`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for("dialog"), *prefix_bindings("g")]
    DEFAULT_CSS = """
    Dialog { align: center top; background: $background 50%; }
    Dialog:ansi { background: transparent; }
    Dialog > .box {
        max-width: 96%; height: auto; max-height: 88%; padding: 0 1; background: $surface;
        border: round $border; border-title-color: $text-primary; border-title-style: bold;
        border-subtitle-color: $text-muted;
    }
    Dialog > .box > Input, Dialog > .box > Input:focus {
        border: none; height: 1; padding: 0 1; background: $surface;
    }
    """

    async def action_help(self) -> None:
        """Show the keys of the dialog."""
        await self.run_action("app.show_help")

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close with a result. Does nothing if the dialog is not the active screen."""
        return super().dismiss(result) if self.is_active else AwaitComplete()

    @property
    def has_left(self) -> bool:
        """True if the dialog was closed. Its widgets may be missing then."""
        return self not in self.app.screen_stack

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable all actions until the widgets are mounted, because early keys are meant for the screen
        below.
        """
        return self.is_mounted

    async def on_event(self, event: events.Event) -> None:
        """Ignore keys of a closed dialog. Do not mount a dialog that was closed before it was mounted."""
        if isinstance(event, events.InputEvent):
            is_late = not self.is_active
        else:
            is_late = isinstance(event, (events.Mount, events.Resize)) and self.has_left
        if not is_late:
            await super().on_event(event)


class PageDialog(Dialog[None]):
    """Dialog that shows one scrollable text, the result of `page`."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("page")
    DEFAULT_CSS = """
    PageDialog { align: center middle; }
    PageDialog > .box { width: 84; padding: 0 2; scrollbar-size-vertical: 1; }
    PageDialog Static { height: auto; margin: 1 0; }
    """

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def page(self) -> VisualType:
        """Return the text. Called after mounting, when the styles of the dialog are available."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box") as box:
            box.border_title = Content(self._title)
            box.border_subtitle = "esc close"
            yield Static(markup=False)

    def on_mount(self) -> None:
        """Show the text and focus it, so that arrow keys scroll immediately."""
        self.query_one(Static).update(self.page())
        self.query_one(VerticalScroll).focus()

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)


DEFAULT_LINE_WIDTH = 66
"""Width in cells that a line of a menu is assumed to have before the first layout."""
MAX_WRAP_LOSS = 8
"""Number of cells that word wrapping may leave empty at the end of a row."""
KEY_PAUSE_S = 0.5
"""After a careful menu opens, letters choose nothing for this many seconds. Each typed letter extends this
time."""
BOX_SHARE = 0.8
"""Maximum height of the box of a menu, as a share of the screen."""
MAX_LABEL_WIDTH = 46
"""Maximum width in cells of a label before its hint."""


class Choice(Struct, frozen=True):
    """One line of a menu."""

    label: str
    value: Any
    hint: str = ""
    """Muted text after the label: its group, or a description."""
    key: str = ""
    """Text at the right end. In a menu without a filter, it is a single letter that chooses the line."""
    help: str = ""
    """One sentence below the list while the cursor is on this line."""
    words: str = ""
    """Additional search words in lower case, which are not shown."""


class ChoiceList(RowList[Choice]):
    """Lines of a menu."""

    DEFAULT_CSS = """
    ChoiceList { height: auto; max-height: 100%; min-height: 1; }
    """
    clicks_to_choose = 1

    def __init__(self, choices: Sequence[Choice]) -> None:
        super().__init__()
        self.rows = choices
        self.hint_start = hint_column(choices)

    def spans(self, index: int, width: int) -> Iterable[Span]:
        choice = self.rows[index]
        key = f" {choice.key} " if choice.key else ""
        label_width = max(4, width - cell_len(key) - 1)
        hint_start = min(self.hint_start, label_width)
        label = one_line(choice.label, hint_start if choice.hint else label_width)
        hint_width = label_width - hint_start - 2
        hint = self.hint_text(choice, hint_width) if hint_width > 2 else ""
        label_cell = column(label, hint_start + 2) if hint else label
        yield f" {label_cell}", ""
        yield column(hint, label_width - cell_len(label_cell)), "lines--muted"
        yield key, "lines--key"

    def hint_text(self, choice: Choice, width: int) -> str:
        """Return the hint of a line, with its middle cut out if it does not fit."""
        return shortened(choice.hint, width, REASON_TAIL)

    def replace(self, choices: Sequence[Choice]) -> None:
        """Replace the lines and select the first."""
        self.rows = choices
        self.cursor = 0
        self.rows_changed()
        self.post_message(self.Moved())


def hint_column(choices: Iterable[Choice]) -> int:
    """Return the column at which the hints of lines begin."""
    return max((min(cell_len(choice.label), MAX_LABEL_WIDTH) for choice in choices), default=0)


class Menu(Dialog[Any]):
    """Dialog whose result is the value of the chosen line, or None after esc.

    `preview` is called with the value under the cursor.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("menu")
    DEFAULT_CSS = """
    Menu > .box { width: 70; max-height: 80%; margin: 2 0; padding: 0; }
    Menu > .box > Input { margin-bottom: 1; }
    Menu ChoiceList { max-height: 1fr; }
    Menu .nothing { display: none; color: $text-warning; padding: 0 1; height: auto; }
    Menu.-empty .nothing { display: block; }
    Menu.-empty ChoiceList { display: none; }
    Menu .help { height: 1; color: $text-muted; padding: 0 1; margin-top: 1; text-wrap: nowrap; }
    Menu.-bare .help { display: none; }
    """

    key_hint = "enter choose · esc close"
    """Text on the lower border of the box."""
    no_match_advice = "Fewer letters find more."
    """Advice shown if no line matches the search."""

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        filtered: bool = False,
        cursor: int = 0,
        preview: Callable[[Any], None] | None = None,
        is_careful: bool = False,
        help_rows: int = 1,
    ) -> None:
        """Create a menu.

        With `is_careful`, a text that the person was typing when the menu opened chooses nothing. `help_rows`
        is the height of the help below the lines. If it has several rows, the help is wrapped.
        """
        super().__init__()
        self._key_pause = KeyPause(KEY_PAUSE_S if is_careful else 0.0)
        self._has_typed_text = False
        self.title_text = title
        self.choices = tuple(choices)
        self.filtered = filtered
        self._initial_cursor = cursor
        self._preview = preview
        self._help_rows = help_rows
        self.set_class(not any(choice.help for choice in choices), "-bare")

    def compose(self) -> ComposeResult:
        """Compose the filter, the lines, and the help for the selected line."""
        box = Vertical(classes="box")
        box.border_title = Content(one_line(self.title_text))
        box.border_subtitle = self.key_hint
        with box:
            if self.filtered:
                yield SearchField(placeholder="type to search", compact=True)
            yield self.new_listing()
            yield Static("", classes="nothing", markup=False)
            help_text = Static("", classes="help", markup=False)
            help_text.styles.height = self._help_rows
            help_text.styles.text_wrap = "wrap" if self._help_rows > 1 else "nowrap"
            yield help_text

    def on_mount(self) -> None:
        """Put the cursor on the initial line."""
        self.query_one(Input if self.filtered else ChoiceList).focus()
        self.listing.cursor = self._initial_cursor
        self._key_pause.begin()

    def on_resize(self) -> None:
        """Leave room for the help below the lines. In a box with automatic height, long lists hide it."""
        box = self.query_one(".box")
        if box.styles.height is None or box.styles.height.is_auto:
            filter_rows = 2 * self.filtered
            other_rows = filter_rows + (0 if self.has_class("-bare") else 1 + self._help_rows)
            max_rows = int(self.size.height * BOX_SHARE) - box.styles.margin.height - 2 - other_rows
            self.listing.styles.max_height = max(1, max_rows)

    def ignores(self, event: events.Event) -> bool:
        """Return True if a key is probably part of a text typed for the screen below."""
        is_enter_alone = isinstance(event, events.Key) and event.key == "enter" and not self._has_typed_text
        if not is_typed(event) or is_enter_alone or not self._key_pause.ignores_key():
            return False
        self._has_typed_text = True
        self.query_one(".box").border_subtitle = "keys typed before you saw this were ignored · esc close"
        return True

    def new_listing(self) -> ChoiceList:
        """Create the list of the lines."""
        return ChoiceList(self.choices)

    @property
    def listing(self) -> ChoiceList:
        """List of the lines."""
        return self.query_one(ChoiceList)

    def action_move(self, by: int) -> None:
        """Move the cursor while the filter has the focus."""
        self.listing.action_cursor(by)

    def action_page(self, by: int) -> None:
        """Move the cursor by pages."""
        self.listing.action_page(by)

    def on_key(self, event: events.Key) -> None:
        """Choose the line whose key is typed, in a menu without a filter."""
        if self.filtered:
            return
        for choice in self.choices:
            if choice.key and choice.key == event.character:
                event.stop()
                self.choose(choice)

    def on_click(self, event: events.Click) -> None:
        """Close the menu on a click outside its box."""
        if event.widget is self:
            self.dismiss(None)

    @on(Input.Changed)
    def _filter_changed(self, event: Input.Changed) -> None:
        self.show_matches(from_field(event.value))

    def show_matches(self, typed_text: str) -> None:
        """Show the lines for a typed text."""
        self.show_lines(search(self.choices, typed_text), typed_text)

    def show_lines(self, matches: Sequence[Choice], typed_text: str) -> None:
        """Show the lines that match a typed text. If there are none, show a message."""
        self.set_class(not matches, "-empty")
        if not matches:
            message = f"Nothing matches “{one_line(typed_text, MAX_NAME_LENGTH)}”. {self.no_match_advice}"
            self.query_one(".nothing", Static).update(Content(message))
            self.query_one(".help", Static).update("")
        self.listing.replace(matches)

    @on(Input.Submitted)
    @on(ChoiceList.Opened)
    def _line_chosen(self) -> None:
        if (choice := self.listing.selected) is not None:
            self.choose(choice)

    def choose(self, choice: Choice) -> None:
        """Close with the value immediately, so that the menu does not handle the next key."""
        self.dismiss(choice.value)

    @on(ChoiceList.Moved)
    def _cursor_moved(self) -> None:
        """Show the help of the line and call the preview."""
        if (choice := self.listing.selected) is not None:
            self.query_one(".help", Static).update(Content(self._help_of(choice)))
            if self._preview is not None:
                self._preview(choice.value)

    def _help_of(self, choice: Choice) -> str:
        """Return the help of a line, with its middle cut out if it does not fit."""
        line_width = self.query_one(".help", Static).content_size.width or DEFAULT_LINE_WIDTH
        max_width = self._help_rows * line_width - (self._help_rows - 1) * MAX_WRAP_LOSS
        return shortened(choice.help, max_width, REASON_TAIL)


async def is_confirmed(app: App[Any], question: str, confirm: Choice, cancel_label: str) -> bool:
    """Ask for confirmation. Must run in a worker.

    `confirm` is the choice that confirms. It gets the key y. The other choice, with `cancel_label`, is
    selected at first, so enter and the key that opened the menu confirm nothing.
    """
    choices = [Choice(cancel_label, False, key="n", help=confirm.help), replace(confirm, key="y")]
    return bool(await app.push_screen_wait(Menu(question, choices)))


def search(choices: Sequence[Choice], query: str) -> list[Choice]:
    """Return the choices that match a query, best first. Equally good choices keep their order.

    First are choices in which every typed word is the beginning of a word: in the label alone, then in label
    and hidden words. Then follow choices whose label contains the typed letters in this order, and finally
    those with the typed words in label, hint or help.
    """
    typed_words = re.findall(r"\w+", query.lower())
    if not typed_words:
        return list(choices) if not query.strip() else []
    matcher = Matcher(query.strip())
    scored_choices = [(_score(candidate, typed_words, matcher), candidate) for candidate in choices]
    return [
        choice
        for score, choice in sorted(scored_choices, key=lambda pair: pair[0], reverse=True)
        if any(score)
    ]


def _score(choice: Choice, typed_words: Sequence[str], matcher: Matcher) -> tuple[int, float, bool]:
    """Return the quality of a match for sorting. All members are zero or False if nothing matches."""
    word_score = 0
    if _has_word_beginnings(choice.label, typed_words):
        word_score = 2
    elif _has_word_beginnings(f"{choice.label} {choice.words}", typed_words):
        word_score = 1
    text = f"{choice.label} {choice.hint} {choice.help}".lower()
    return word_score, matcher.match(choice.label), all(word in text for word in typed_words)


def _has_word_beginnings(text: str, typed_words: Sequence[str]) -> bool:
    """Return True if each typed word is the beginning of a word of the text."""
    words = re.findall(r"\w+", text.lower())
    return all(any(word.startswith(typed_word) for word in words) for typed_word in typed_words)


async def ask_moment(app: App[Any]) -> float | None:
    """Ask for a time. Return it in Unix seconds, or None if the person cancels. Must run in a worker."""
    from mcpdesk.recorder.index.query import QueryError, moment_of

    prompt = LinePrompt("Go to a time", "12:03, 12:03:40, or how long ago: 5m", "go there")
    if not (text := await app.push_screen_wait(prompt)):
        return None
    try:
        return moment_of(text, time.time())
    except QueryError as error:
        app.notify(one_line(f"{text}: {error.message}"), severity="warning", markup=False)
        return None


MAX_NAME_LENGTH = 40
"""Maximum length of a name in characters."""


class LinePrompt(Dialog[str]):
    """Prompt for a name or another text of one line. The result is empty if the person cancels."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("line_prompt")
    DEFAULT_CSS = "LinePrompt > .box { width: 60; margin-top: 4; }"

    def __init__(self, title: str, placeholder: str = "a name", enter_action: str = "save") -> None:
        """Create a prompt. `enter_action` is the action of Enter, shown below the line."""
        super().__init__()
        self._title = title
        self._placeholder = placeholder
        self._enter_action = enter_action

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = self._title
            box.border_subtitle = f"enter {self._enter_action} · esc close"
            yield LineField(placeholder=self._placeholder, max_length=MAX_NAME_LENGTH, compact=True)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(from_field(event.value).strip())
