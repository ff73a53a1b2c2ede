"""The driver and the gate of the terminal; a whole program on a terminal is in tests/e2e/test_drawing.py."""

from __future__ import annotations

import asyncio
import os
import queue
import re
import threading
from collections.abc import Sequence

import pytest
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.color import Color
from textual.content import Content
from textual.drivers.headless_driver import HeadlessDriver
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import LineFilter
from textual.widget import Widget
from textual.widgets import DataTable, Input, Label, OptionList, Select, Static, TextArea, Tree

from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.terminal import KEY_POLL_S, DeskDriver, KeyQueue, TerminalGate
from tests.support.driven import driven
from tests.support.frame import running_frame
from tests.support.hostile import COMMANDS
from tests.support.patience import until


async def test_a_terminal_is_driven_by_it_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_frame() as (app, _):
        assert app.get_driver_class() is DeskDriver
        assert issubclass(DeskDriver, LinuxDriver)
        monkeypatch.setattr(
            "textual.constants.DRIVER", "textual.drivers.headless_driver:HeadlessDriver", raising=True
        )
        assert app.get_driver_class() is HeadlessDriver


class Opening(App[None]):
    """Two fields; the focus moves to the second when something has been opened, at a busy moment."""

    def __init__(self) -> None:
        super().__init__()
        self.is_opening = True
        self._keys = KeyQueue(self, super().on_event, lambda: self.is_opening)

    def compose(self) -> ComposeResult:
        yield Input(id="before")
        yield Input(id="after")

    async def on_event(self, event: events.Event) -> None:
        """Keys go through the queue."""
        if isinstance(event, events.Key) and not event.is_forwarded:
            await self._keys.put(event)
        else:
            await super().on_event(event)

    async def open(self) -> None:
        """Move the focus while the queue's next look at its keys already waits for its turn."""
        await asyncio.sleep(5 * KEY_POLL_S)
        self.is_opening = False
        self.query_one("#after").focus()


async def test_a_key_waits_until_the_focus_has_moved() -> None:
    app = Opening()
    async with driven(app) as pilot:
        await pilot.press("x")
        app.call_later(app.open)
        await until(lambda: any(field.value for field in app.query(Input)), pilot)
        assert app.query_one("#after", Input).value == "x"


async def test_answers_are_no_keys_and_the_terminal_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, typing = os.pipe()
    async with running_frame() as (app, _):
        driver = DeskDriver(app)
        monkeypatch.setattr(driver, "_terminal", terminal)
        driver.without_replies = lambda typed: typed.replace("\x1b[?62;4;22c", "")
        keys = queue.SimpleQueue[str]()
        monkeypatch.setattr(driver, "process_message", lambda event: keys.put(event.key))
        reader = threading.Thread(target=driver.run_input_thread)
        reader.start()
        os.write(typing, "\x1b[?62;4;22caü".encode())
        assert [keys.get(timeout=5), keys.get(timeout=5)] == ["a", "ü"]
        driver.exit_event.set()
        await asyncio.to_thread(reader.join, 5)
        assert not reader.is_alive() and driver.fileno == terminal
    os.close(typing)
    os.close(terminal)


UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
TEXT = COMMANDS.replace("[/x]", "")


class Careless(App[None]):
    """Passes remote text to the toolkit's widgets unchanged."""

    GATE = TerminalGate()

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), self.GATE]

    def compose(self) -> ComposeResult:
        yield Static(Text(TEXT), markup=False)
        yield Label(TEXT, markup=False)
        yield Input(TEXT)
        yield Input(placeholder=TEXT)
        yield TextArea(TEXT)
        yield OptionList(Text(TEXT))
        yield Select([(Content(TEXT), 1)], value=1)
        yield Tree(Text(TEXT))
        table: DataTable[Text] = DataTable()
        table.add_column("x")
        table.add_row(Text(TEXT))
        yield table

    def on_mount(self) -> None:
        self.query_one(Static).border_title = Content(TEXT)
        self.query_one(Static).styles.border = ("round", "white")
        self.notify(TEXT, markup=False)


@pytest.mark.slow
async def test_no_widget_of_the_toolkit_draws_a_control_character() -> None:
    async with driven(Careless(), size=(120, 80)) as pilot:
        await pilot.pause()
        lines = [
            line
            for each in pilot.app.screen.walk_children(Widget)
            for line in each.render_lines(each.size.region)
        ]
        assert len(lines) > 20 and not any(UNSAFE.search(line.text) for line in lines)


async def test_the_desk_has_the_gate_behind_all_filters_of_the_toolkit() -> None:
    async with running_frame() as (app, _):
        assert isinstance(app, DeskApp) and isinstance(app.get_line_filters()[-1], TerminalGate)


def test_links_for_the_terminal_itself_are_not_drawn() -> None:
    linked = Segment("here", Style(link="https://a.example/\x1b\\\x1b]0;T\x07", bold=True))
    (drawn,) = TerminalGate().apply([linked], Color(0, 0, 0))
    assert drawn.text == "here" and drawn.style is not None and drawn.style.bold and not drawn.style.link
