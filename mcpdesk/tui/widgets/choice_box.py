"""Selectors for one of a few labels: a choice box, tabs inside a screen, and buttons of one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.style import Style
from textual.widget import Widget

from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.menu import Choice, Menu

_UNSET_LABEL = "unset"
_MAX_UNFILTERED_CHOICES = 8
"""Maximum number of labels in a menu without a filter."""


class ChoiceBox(Widget, can_focus=True):
    """One line of labels. Left and right select the next label. Enter opens a menu if the labels do not fit.

    `index` is None if no label is selected, which is possible with `optional`.
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
        """The selection changed. `index` is None if it was cleared."""

        index: int | None

    def __init__(self, labels: Sequence[str], index: int | None, *, optional: bool = False) -> None:
        super().__init__()
        self._labels = [one_line(label) for label in labels]
        if optional:
            self._labels.append(_UNSET_LABEL)
        self._has_unset_label = optional
        self.set_reactive(ChoiceBox.index, index)

    @property
    def count(self) -> int:
        """Number of labels, not counting the label that clears the selection."""
        return len(self._labels) - self._has_unset_label

    @property
    def is_folded(self) -> bool:
        """True if the labels do not fit side by side."""
        return 0 < self.size.width < sum(cell_len(label) + 4 for label in self._labels) - 2

    @property
    def _selected_index(self) -> int | None:
        """Position of the selected label in `_labels`, or None if no label is selected."""
        return len(self._labels) - 1 if self.index is None and self._has_unset_label else self.index

    def render(self) -> Content:
        """Draw all labels with the selected one marked, or only the selected one if they do not fit."""
        selected = self._selected_index
        if self.is_folded:
            label = _UNSET_LABEL if selected is None else self._labels[selected]
            return Content.assemble((f"{label} ", "bold" if self.index is not None else "$text-muted"), "▾")
        return _clickable_labels(
            Content.styled(f"● {label}  ", "bold")
            if position == selected
            else Content.styled(f"○ {label}  ", "$text-muted")
            for position, label in enumerate(self._labels)
        )

    def action_step(self, by: int) -> None:
        """Select the next or previous label."""
        selected = self._selected_index
        self.pick(0 if selected is None else (selected + by) % len(self._labels))

    def action_open(self) -> None:
        """Open the menu, or select the next label if all are shown."""
        if not self.is_folded:
            self.action_step(1)
            return
        choices = [Choice(label, position) for position, label in enumerate(self._labels)]
        menu = Menu(
            "Choose",
            choices,
            filtered=len(choices) > _MAX_UNFILTERED_CHOICES,
            cursor=self._selected_index or 0,
        )
        self.app.push_screen(menu, self.pick)

    def on_click(self, event: events.Click) -> None:
        """Select the label under the mouse."""
        if self.is_folded:
            self.action_open()
        else:
            self.pick(event.style.meta.get("position"))

    def pick(self, position: int | None) -> None:
        """Select a label by its position in `_labels`. None changes nothing."""
        index = None if self._has_unset_label and position == len(self._labels) - 1 else position
        if position is not None and index != self.index:
            self.index = index
            self.post_message(self.Picked(index))


def _clickable_labels(labels: Iterable[Content]) -> Content:
    """Join labels side by side. For clicks, the style of each label has the meta value `position`."""
    labels_with_positions = (
        label.stylize(Style.from_meta({"position": position})) for position, label in enumerate(labels)
    )
    return Content("").join(labels_with_positions)


TAB_GAP = 2
"""Cells after each title."""


class TabStrip(Widget):
    """Tabs inside a screen. A click selects a tab. The parent widget handles keys."""

    DEFAULT_CSS = """
    TabStrip { height: 1; width: 1fr; padding: 0 1; color: $text-muted; }
    """

    current: reactive[int] = reactive(0)

    @dataclass
    class Picked(Message):
        """Another tab was selected."""

        index: int

    def __init__(self, titles: Sequence[str] = ()) -> None:
        super().__init__()
        self.titles = list(titles)

    def show(self, titles: Sequence[str]) -> None:
        """Replace the titles."""
        if list(titles) != self.titles:
            self.titles = list(titles)
            self.refresh()

    def render(self) -> Content:
        selected_style = "bold underline $text-primary"
        return _clickable_labels(
            Content.assemble((title, selected_style if index == self.current else ""), " " * TAB_GAP)
            for index, title in enumerate(self.titles)
        )

    def title_regions(self) -> Iterator[Region]:
        """Return the screen region of each title."""
        x, y = self.content_region.offset
        for title in self.titles:
            yield Region(x, y, cell_len(title), 1)
            x += cell_len(title) + TAB_GAP

    def action_step(self, by: int) -> None:
        """Select the next or previous tab."""
        self.pick((self.current + by) % len(self.titles))

    def pick(self, index: int) -> None:
        """Select a tab."""
        if index != self.current:
            self.current = index
            self.post_message(self.Picked(index))

    def on_click(self, event: events.Click) -> None:
        self.pick(event.style.meta.get("position", self.current))


class Chip(Widget, can_focus=True):
    """Button of one line: `+ add`. With `focusable=False` it is for the mouse only."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,space", "press", "Press", show=False)]
    DEFAULT_CSS = """
    Chip { width: auto; height: 1; padding: 0 1; color: $text-accent; }
    Chip:hover { background: $primary 25%; }
    Chip:focus { background: $primary 25%; text-style: bold; }
    Chip.-on { text-style: reverse; }
    """

    @dataclass
    class Pressed(Message):
        """The chip was clicked, or activated by a key."""

        chip: Chip

        @property
        def control(self) -> Chip:
            """This chip, for selectors of `on`."""
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
