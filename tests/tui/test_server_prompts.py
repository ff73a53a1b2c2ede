"""Adding a server at the desk, and taking one off it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

from textual.widgets import Static

from mcpdesk.tui.forms.question_dialog import QuestionScreen
from mcpdesk.tui.forms.server_prompts import AddServerPrompt
from mcpdesk.tui.screens.main_screen import PANES
from mcpdesk.tui.widgets.menu import Menu
from mcpdesk.tui.workbench.item_pane import FirstToolLesson
from tests.support.fake_link import FakeLink
from tests.support.frame import running_frame, toasts
from tests.support.widgets import until


class ChangingLink(FakeLink):
    """Sample servers that can be removed; the one that can be added is called `profiles-2`."""

    def add_server(self, text: str) -> Future[tuple[str, ...]]:
        done: Future[tuple[str, ...]] = Future()
        if text != "-- npx some server":
            done.set_exception(ValueError(f"There is no folder and no file {text!r}."))
            return done
        added = replace(self.core.servers[0], name="profiles-2")
        self.catalogues["profiles-2"] = self.catalogues["profiles"]
        self.core = replace(self.core, servers=(*self.core.servers, added))
        done.set_result(("profiles-2",))
        return done

    def remove_server(self, server: str) -> None:
        self.core = replace(
            self.core, servers=tuple(one for one in self.core.servers if one.name != server), clients=()
        )


async def test_a_server_is_added_once_what_is_typed_can_be() -> None:
    link = ChangingLink()
    link.asked = []
    async with running_frame(link, (80, 24)) as (app, pilot):
        await pilot.press("N")
        await until(pilot, lambda: isinstance(app.screen, AddServerPrompt))
        await pilot.press(*"x", "enter")
        told = app.screen.query_one("#trouble", Static)
        await until(pilot, lambda: "no file 'x'" in str(told.visual))
        await pilot.press(
            "backspace", "minus", "minus", "space", *"npx", "space", *"some", "space", *"server"
        )
        assert not told.has_class("-shown")
        await pilot.press("enter")
        await until(pilot, lambda: app.server == "profiles-2")
        assert "profiles-2 is on the desk." in toasts(app)


async def test_a_server_is_removed_once_its_losses_are_told() -> None:
    link = ChangingLink()
    async with running_frame(link, panes=PANES) as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, QuestionScreen))
        await pilot.press("escape")
        await until(pilot, lambda: app.server == "profiles" and app.screen is app.main)
        await pilot.press("X")
        await until(pilot, lambda: isinstance(app.screen, Menu))
        menu = app.screen
        assert isinstance(menu, Menu)
        assert menu.choices[0].hint == "and lose 1 waiting question and 1 connected client"
        await pilot.press("n")
        await until(pilot, lambda: app.screen is app.main)
        assert len(link.core.servers) == 2
        for _ in range(2):
            await pilot.press("X")
            await until(pilot, lambda: isinstance(app.screen, Menu))
            await pilot.press("r")
            await until(pilot, lambda: app.screen is app.main)
        await until(pilot, lambda: app.server == "")
        lesson = app.screen.query_one(FirstToolLesson)
        await until(pilot, lambda: "N adds one" in str(lesson.visual))
