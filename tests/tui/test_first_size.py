"""Widgets are notified of their first size, also if Textual sends no event."""

from __future__ import annotations

import pytest
from textual.app import App
from textual.containers import Vertical
from textual.geometry import Size

from mcpdesk.tui.widgets.first_size import WithFirstResize
from tests.support.driven import driven
from tests.support.patience import until


class Deaf(Vertical):
    """Records its resize events."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Size] = []

    def on_mount(self) -> None:
        # A timer of the screen that comes just now does this.
        self.screen._compositor.update_widgets({self})

    def on_resize(self) -> None:
        self.heard.append(self.size)


class Hearing(WithFirstResize, Deaf):
    """The same with `WithFirstResize`."""


@pytest.mark.parametrize(("kind", "hears"), [(Hearing, True), (Deaf, False)])
async def test_a_widget_hears_of_its_first_size_once_also_where_textual_does_not_tell_it(
    kind: type[Deaf], hears: bool
) -> None:
    async with driven(App[None](), size=(60, 10)) as pilot:
        parent, widget = Vertical(), kind()
        await pilot.app.screen.mount(parent)
        await pilot.pause()
        await parent.mount(widget)
        await until(lambda: widget.size and bool(widget.heard) == hears, pilot)
        await pilot.pause()
        assert widget.heard == [Size(60, 10)] * hears, "Textual tells it now: this module can go"
