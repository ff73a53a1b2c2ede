"""Key sequences: a prefix such as `g`, followed by a second key. A pause shows the possible second keys."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from textual import events
from textual.app import App, ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.timer import Timer
from textual.widgets import Static

from mcpdesk.tui.actions import key_name

PREFIXES = ("g", "right_square_bracket", "left_square_bracket", "v")
SHOW_AFTER_S = 0.5
"""Seconds after the prefix until the possible second keys are shown."""


def prefix_bindings(*prefixes: str) -> list[BindingType]:
    """Return the bindings that begin sequences, for the application or for a dialog."""
    return [Binding(prefix, f"app.begin_sequence({prefix!r})", show=False) for prefix in prefixes]


def is_prefix(active_bindings: Mapping[str, ActiveBinding], key: str) -> bool:
    """Return True if a key begins a sequence at present: it types no text and has no other action.

    `active_bindings` are those of the screen, by key. The caller passes them, because Textual determines them
    again at each access, which takes milliseconds.
    """
    active = active_bindings.get(key)
    return active is not None and active.binding.action == f"app.begin_sequence({key!r})"


def choices_after(screen: Screen[Any], prefix: str) -> dict[str, ActiveBinding]:
    """Return the active bindings of sequences with a prefix, by their second key."""
    return {
        key.partition(" ")[2]: active
        for key, active in screen.active_bindings.items()
        if key.startswith(f"{prefix} ") and active.enabled
    }


class ChoiceLine(Static):
    """Second key with the title of its action. A click has the same effect as the key."""

    def __init__(self, key: str, title: str) -> None:
        key_text = (f" {key_name(key)} ", "bold $footer-key-foreground")
        super().__init__(Content.assemble(key_text, (f" {title} ", "")), markup=False)
        self._key = key

    def on_click(self, event: events.Click) -> None:
        """Press the key."""
        event.stop()
        self.app.simulate_key(self._key)


class SequenceBox(ModalScreen[None]):
    """Second keys of a sequence with their titles, above the footer. `Sequences` handles the keys."""

    AUTO_FOCUS = ""
    DEFAULT_CSS = """
    SequenceBox { align: right bottom; background: transparent; }
    SequenceBox > .box {
        width: auto; min-width: 20; max-width: 96%; height: auto; max-height: 88%; margin: 0 1 1 0;
        background: $surface; border: round $border;
        border-title-color: $text-primary; border-title-style: bold; border-subtitle-color: $text-muted;
    }
    SequenceBox ChoiceLine { width: auto; min-width: 100%; height: 1; text-wrap: nowrap; }
    SequenceBox ChoiceLine:hover { background: $boost; }
    """

    def __init__(self, prefix: str, titles: Mapping[str, str]) -> None:
        super().__init__()
        self._prefix = prefix
        self._titles = titles

    def compose(self) -> ComposeResult:
        """Compose one line for each second key."""
        with Vertical(classes="box") as box:
            box.border_title = Content(key_name(self._prefix))
            box.border_subtitle = "esc close"
            for key, title in self._titles.items():
                yield ChoiceLine(key, title)

    def on_click(self) -> None:
        """End the sequence."""
        self.app.simulate_key("escape")


class Sequences:
    """Handles the key sequences of an application. It receives the key after a prefix before any widget."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._prefix = ""
        """Prefix that was typed, or "" if no sequence has begun."""
        self._choices: dict[str, ActiveBinding] = {}
        self._screen: Screen[Any] | None = None
        """Screen on which the sequence began."""
        self._box: SequenceBox | None = None
        self._timer: Timer | None = None

    def begin(self, prefix: str) -> bool:
        """Begin a sequence. Return False if no sequence on this screen begins with this key."""
        self.end()
        screen = self._app.screen
        if choices := choices_after(screen, prefix):
            self._prefix, self._choices, self._screen = prefix, choices, screen
            self._timer = self._app.set_timer(SHOW_AFTER_S, partial(self._show, prefix))
        return bool(choices)

    def end(self) -> None:
        """Forget the prefix, and close the box."""
        if self._timer is not None:
            self._timer.stop()
        if self._box is not None and self._app.screen is self._box:
            self._app.pop_screen()
        self._prefix, self._choices = "", {}
        self._screen = self._box = self._timer = None

    def end_unless_shown(self) -> None:
        """Forget the prefix after a click, which may have moved the focus. The box handles its own clicks."""
        if self._box is None:
            self.end()

    async def handle(self, event: events.Event) -> bool:
        """Handle the key after a prefix. Return False if the event is not a part of a sequence."""
        if not self._prefix:
            return False
        prefix, choices = self._prefix, self._choices
        is_same_screen = self._app.screen in (self._screen, self._box)
        self.end()
        if not isinstance(event, events.Key) or not is_same_screen:
            return False
        if (chosen := choices.get(event.key)) is not None:
            await self._app.run_action(chosen.binding.action, chosen.node)
        elif event.is_printable:
            sequence = key_name(f"{prefix} {event.key}")
            second_keys = " ".join(key_name(key) for key in choices)
            message = f"{sequence} has no action here: {key_name(prefix)} takes {second_keys}"
            self._app.notify(message, markup=False)
        else:
            return event.key == "escape"
        return True

    def _show(self, prefix: str) -> None:
        """Show the possible second keys, if the sequence has not ended in the meantime."""
        if self._prefix == prefix and self._box is None and self._app.screen is self._screen:
            titles = {key: active.binding.description for key, active in self._choices.items()}
            self._box = SequenceBox(prefix, titles)
            self._app.push_screen(self._box)
