"""The driver that knows about pictures; a whole program on a terminal is in tests/e2e/test_drawing.py."""

from __future__ import annotations

import pytest
from textual import events
from textual.drivers.headless_driver import HeadlessDriver
from textual.drivers.linux_driver import LinuxDriver

from mcpdesk.tui.results.terminal_graphics import Answers, Graphics, Kind
from mcpdesk.tui.terminal import DeskDriver, _Parser, driver_of, graphics_of
from tests.support.frame import running_frame


async def test_a_desk_without_a_terminal_draws_half_blocks() -> None:
    async with running_frame() as (app, _):
        assert driver_of(app) is None
        assert await graphics_of(app) == Graphics(Kind.HALF_BLOCKS)


async def test_a_desk_without_colour_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running_frame() as (app, _):
        assert (await graphics_of(app)).kind is Kind.WORDS


async def test_a_terminal_is_driven_by_it_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_frame() as (app, _):
        assert app.get_driver_class() is DeskDriver
        assert issubclass(DeskDriver, LinuxDriver)
        monkeypatch.setattr(
            "textual.constants.DRIVER", "textual.drivers.headless_driver:HeadlessDriver", raising=True
        )
        assert app.get_driver_class() is HeadlessDriver


def test_answers_are_no_keys_and_do_not_end_the_input() -> None:
    parser = _Parser(Answers(lambda: None).take)
    assert list(parser.feed("\x1b[?62;4;22c")) == []
    keys = [event.key for event in parser.feed("a\x1b[6;20;10tb") if isinstance(event, events.Key)]
    assert keys == ["a", "b"]
    assert list(parser.feed("")) == []
