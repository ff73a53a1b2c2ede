"""A choice of one of a few labels, side by side or in a menu; and small buttons of one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.menu import Choice, Menu

_NONE = "unset"
_FILTERED_ABOVE = 8


class ChoiceBox(Widget, can_focus=True):
    """One line of labels. Left and right step through them; enter opens a menu where they do not fit.

    `index` is None while none is picked, which `optional` allows.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "Previous", show=False),
        Binding("right", "step(1)", "Next", show=False),
        Binding("enter,space", "open", "Choose", show=False),
    ]
    DEFAULT_CSS = """
    ChoiceBox { height: 1; width: 1fr; }
    ChoiceBox:focus { background: $primary 25%; }
    """

    index: reactive[int | None] = reactive(None)

    @dataclass
    class Picked(Message):
        """Another label was picked; None: the choice was unset."""

        index: int | None

    def __init__(self, labels: Sequence[str], index: int | None, *, optional: bool = False) -> None:
        super().__init__()
        self._labels = [one_line(label) for label in labels]
        self._optional = optional
        self.set_reactive(ChoiceBox.index, index)

    @property
    def is_folded(self) -> bool:
        """Whether the labels do not fit side by side."""
        return sum(cell_len(label) + 4 for label in self._shown_labels) - 2 > max(20, self.size.width)

    def render(self) -> Content:
        """All labels with the picked one marked, or only the picked one where they do not fit."""
        if self.is_folded:
            label = _NONE if self.index is None else self._labels[self.index]
            return Content.assemble((f"{label} ", "bold" if self.index is not None else "$text-muted"), "▾")
        picked = self._slot
        parts = [
            (f"● {label}  ", "bold") if at == picked else (f"○ {label}  ", "$text-muted")
            for at, label in enumerate(self._shown_labels)
        ]
        return Content.assemble(*parts)

    def action_step(self, by: int) -> None:
        """Pick the next or previous label."""
        self._pick((self._slot + by) % len(self._shown_labels) if self._slot is not None else 0)

    def action_open(self) -> None:
        """Open the menu, or pick the next label where all are shown."""
        if not self.is_folded:
            self.action_step(1)
            return
        choices = [Choice(label, at) for at, label in enumerate(self._shown_labels)]
        menu = Menu("Choose", choices, filtered=len(choices) > _FILTERED_ABOVE, cursor=self._slot or 0)
        self.app.push_screen(menu, self._pick_chosen)

    def on_click(self, event: events.Click) -> None:
        """Pick the label under the mouse."""
        if self.is_folded:
            self.action_open()
            return
        left = 0
        for at, label in enumerate(self._shown_labels):
            left += cell_len(label) + 4
            if event.x < left:
                self._pick(at)
                return

    @property
    def _shown_labels(self) -> list[str]:
        return [*self._labels, _NONE] if self._optional else self._labels

    @property
    def _slot(self) -> int | None:
        if self.index is None:
            return len(self._labels) if self._optional else None
        return self.index

    def _pick_chosen(self, slot: int | None) -> None:
        if slot is not None:
            self._pick(slot)

    def _pick(self, slot: int) -> None:
        index = None if slot == len(self._labels) else slot
        if index != self.index:
            self.index = index
            self.post_message(self.Picked(index))


class Chip(Widget, can_focus=True):
    """A button of one line: `+ add`. With `focusable=False` it is for the mouse only."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,space", "press", "Press", show=False)]
    DEFAULT_CSS = """
    Chip { width: auto; height: 1; padding: 0 1; color: $text-accent; }
    Chip:hover { background: $primary 25%; }
    Chip:focus { background: $primary 25%; text-style: bold; }
    Chip.-on { text-style: reverse; }
    """

    @dataclass
    class Pressed(Message):
        """The chip was clicked, or entered by key."""

        chip: Chip

        @property
        def control(self) -> Chip:
            """The chip, for selectors of `on`."""
            return self.chip

    def __init__(self, label: str, classes: str = "", tooltip: str = "", focusable: bool = True) -> None:
        super().__init__(classes=classes)
        self.label = label
        self.tooltip = tooltip or None
        self.can_focus = focusable

    def render(self) -> Content:
        return Content(self.label)

    def action_press(self) -> None:
        """Press the chip."""
        self.post_message(self.Pressed(self))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.action_press()
