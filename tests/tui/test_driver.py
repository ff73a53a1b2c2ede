"""The driver that knows about pictures; a whole program on a terminal is in tests/e2e/test_drawing.py."""

from __future__ import annotations

import asyncio
import os
import queue
import threading

import pytest
from textual.drivers.headless_driver import HeadlessDriver
from textual.drivers.linux_driver import LinuxDriver

from mcpdesk.tui.results.terminal_graphics import Graphics, GraphicsKind, TerminalAnswers
from mcpdesk.tui.terminal import DeskDriver, driver_of, graphics_of
from tests.support.frame import running_frame


async def test_a_desk_without_a_terminal_draws_half_blocks() -> None:
    async with running_frame() as (app, _):
        assert driver_of(app) is None
        assert await graphics_of(app) == Graphics(GraphicsKind.HALF_BLOCKS)


async def test_a_desk_without_colour_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running_frame() as (app, _):
        assert (await graphics_of(app)).kind is GraphicsKind.WORDS


async def test_a_terminal_is_driven_by_it_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_frame() as (app, _):
        assert app.get_driver_class() is DeskDriver
        assert issubclass(DeskDriver, LinuxDriver)
        monkeypatch.setattr(
            "textual.constants.DRIVER", "textual.drivers.headless_driver:HeadlessDriver", raising=True
        )
        assert app.get_driver_class() is HeadlessDriver


async def test_answers_are_no_keys_and_the_terminal_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, typing = os.pipe()
    async with running_frame() as (app, _):
        driver = DeskDriver(app)
        monkeypatch.setattr(driver, "_terminal", terminal)
        monkeypatch.setattr(driver, "_answers", TerminalAnswers(lambda: None))
        keys = queue.SimpleQueue[str]()
        monkeypatch.setattr(driver, "process_message", lambda event: keys.put(event.key))
        reader = threading.Thread(target=driver.run_input_thread)
        reader.start()
        os.write(typing, "\x1b[?62;4;22ca\x1b[6;20;10t\x1b_Gi=31;OK\x1b\\ü".encode())
        assert [keys.get(timeout=5), keys.get(timeout=5)] == ["a", "ü"]
        driver.exit_event.set()
        await asyncio.to_thread(reader.join, 5)
        assert not reader.is_alive() and driver.fileno == terminal
    os.close(typing)
    os.close(terminal)
