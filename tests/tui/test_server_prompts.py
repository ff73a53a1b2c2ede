"""Adding a server at the desk, and taking one off it."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial

import pytest
from msgspec.structs import replace
from textual.widgets import Static

from mcpdesk.client.untrusted_file import UntrustedFile
from mcpdesk.protocol.methods import LOG_LEVELS
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.forms.question_dialog import QuestionScreen
from mcpdesk.tui.forms.server_prompts import AddServerPrompt, RootsPrompt
from mcpdesk.tui.forms.trust_prompt import TrustPrompt
from mcpdesk.tui.screens.main_screen import PANES
from mcpdesk.tui.screens.server_page import server_text
from mcpdesk.tui.screens.servers import ServersPane
from mcpdesk.tui.widgets.menu import Menu
from mcpdesk.tui.widgets.text_field import TextField
from mcpdesk.tui.workbench.item_pane import FirstToolInstructions
from tests.support.action_menu import choose_action
from tests.support.fake_link import FakeLink
from tests.support.frame import running_frame, toasts
from tests.support.patience import until


def done(outcome: bool | ValueError) -> Future[bool]:
    """A completed future."""
    future: Future[bool] = Future()
    if isinstance(outcome, ValueError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
    return future


class ChangingLink(FakeLink):
    """Sample servers that can be removed; the one that can be added is called `profiles-2`."""

    def add_server(self, text: str, agreed: str = "") -> Future[tuple[str, ...]]:
        names: Future[tuple[str, ...]] = Future()
        if text != "-- npx some server":
            names.set_exception(ValueError(f"No folder or file {text!r}."))
            return names
        added = replace(self.core.servers[0], name="profiles-2")
        self.catalogues["profiles-2"] = self.catalogues["profiles"]
        self.core = replace(self.core, servers=(*self.core.servers, added))
        names.set_result(("profiles-2",))
        return names

    def set_log_level(self, server: str, level: str) -> Future[bool]:
        self.core = replace(
            self.core, servers=(replace(self.core.servers[0], log_level=level), *self.core.servers[1:])
        )
        return done(True)

    def choose_roots(self, texts: list[str]) -> Future[bool]:
        if "oops" in texts:
            return done(ValueError("'oops' is not a folder"))
        self.core = replace(self.core, roots=tuple(texts))
        return done(True)

    def remove_server(self, server: str) -> None:
        self.core = replace(
            self.core, servers=tuple(one for one in self.core.servers if one.name != server), clients=()
        )


@pytest.mark.slow
async def test_a_server_is_added_once_what_is_typed_can_be() -> None:
    link = ChangingLink()
    link.asked = []
    async with running_frame(link, (80, 24)) as (app, pilot):
        await choose_action(pilot, "add a server")
        await until(lambda: isinstance(app.screen, AddServerPrompt), pilot)
        await pilot.press(*"x", "enter")
        told = app.screen.query_one("#trouble", Static)
        await until(lambda: "No folder or file 'x'." in str(told.visual), pilot)
        await pilot.press(
            "backspace", "minus", "minus", "space", *"npx", "space", *"some", "space", *"server"
        )
        assert not told.has_class("-shown")
        await pilot.press("enter")
        await until(lambda: app.server == "profiles-2", pilot)
        await until(lambda: "Added profiles-2." in toasts(app), pilot)


@pytest.mark.slow
async def test_an_added_server_is_selected_in_the_list_of_servers() -> None:
    link = ChangingLink()
    link.asked = []
    async with running_frame(link) as (app, pilot):
        await pilot.press("g", "s")
        await until(lambda: isinstance(app.main.pane, ServersPane), pilot)
        await pilot.press("ctrl+n")
        await until(lambda: isinstance(app.screen, AddServerPrompt), pilot)
        await pilot.press("minus", "minus", "space", *"npx", "space", *"some", "space", *"server", "enter")
        await until(lambda: shows_server(app, "profiles-2"), pilot)
        pane = app.main.pane
        assert isinstance(pane, ServersPane)
        await until(lambda: pane.selected_server == "profiles-2", pilot)


def shows_server(app: DeskApp, name: str) -> bool:
    return app.screen is app.main and app.server == name


@pytest.mark.slow
async def test_a_server_is_removed_once_its_losses_are_told() -> None:
    link = ChangingLink()
    async with running_frame(link, panes=PANES) as (app, pilot):
        await until(lambda: isinstance(app.screen, QuestionScreen) and app.screen.takes_keys, pilot)
        await pilot.press("escape")
        await until(lambda: app.server == "profiles" and app.screen is app.main, pilot)
        await choose_action(pilot, "remove this server")
        await until(lambda: isinstance(app.screen, Menu), pilot)
        menu = app.screen
        assert isinstance(menu, Menu)
        assert menu.choices[1].hint == "and lose 1 waiting question and 1 connected client"
        await pilot.press("n")
        await until(lambda: app.screen is app.main, pilot)
        assert len(link.core.servers) == 2
        first, second = (server.name for server in link.core.servers)
        for removed, following in ((first, second), (second, "")):
            assert app.server == removed
            await choose_action(pilot, "remove this server")
            await until(lambda: isinstance(app.screen, Menu), pilot)
            await pilot.press("y")
            await until(partial(shows_server, app, following), pilot)
        lesson = app.screen.query_one(FirstToolInstructions)
        await until(lambda: "adds another" in str(lesson.visual), pilot)


async def test_the_log_level_is_chosen_and_shown() -> None:
    link = ChangingLink()
    link.asked = []
    async with running_frame(link, (80, 24)) as (app, pilot):
        await until(lambda: app.server == "profiles", pilot)
        await choose_action(pilot, "log level")
        await until(lambda: "profiles sends no log messages." in toasts(app), pilot)
        link.set_log_level("profiles", "notice")
        await choose_action(pilot, "log level")
        await until(lambda: isinstance(app.screen, Menu), pilot)
        assert isinstance(app.screen, Menu)
        hints = {choice.value: choice.hint for choice in app.screen.choices}
        assert hints == {**dict.fromkeys(LOG_LEVELS, ""), "debug": "everything"}
        await pilot.press("down", "enter")
        await until(lambda: link.core.servers[0].log_level == "warning", pilot)
        assert "log messages from level warning up" in server_text(link.core.servers[0]).plain


@pytest.mark.slow
async def test_roots_are_edited_and_what_is_none_is_told() -> None:
    link = ChangingLink()
    link.asked = []
    link.core = replace(link.core, roots=("file:///srv",))
    async with running_frame(link, (80, 24)) as (app, pilot):
        await choose_action(pilot, "roots")
        await until(lambda: isinstance(app.screen, RootsPrompt), pilot)
        await pilot.press("escape")
        await until(lambda: app.screen is app.main, pilot)
        await choose_action(pilot, "roots")
        await until(lambda: isinstance(app.screen, RootsPrompt), pilot)
        field = app.screen.query_one(TextField)
        assert field.entered_text == "file:///srv"
        field.move_cursor(field.document.end)
        await pilot.press("enter", *"oops", "ctrl+s")
        told = app.screen.query_one("#trouble", Static)
        await until(lambda: "'oops' is not a folder" in str(told.visual), pilot)
        await pilot.press(*("backspace",) * 4, "slash", "a", "ctrl+s")
        await until(lambda: app.screen is app.main, pilot)
        assert link.core.roots == ("file:///srv", "/a")


class StrangeLink(ChangingLink):
    """A link whose added file needs agreement."""

    agreed: str | None = None

    def untrusted(self, text: str) -> Future[UntrustedFile | None]:
        file: Future[UntrustedFile | None] = Future()
        file.set_result(UntrustedFile("/clone/.mcp.json", "f" * 64, ("evil: starts sh -c \x1b[31mrm",)))
        return file

    def add_server(self, text: str, agreed: str = "") -> Future[tuple[str, ...]]:
        self.agreed = agreed
        return super().add_server("-- npx some server")


@pytest.mark.slow
async def test_a_file_is_added_once_the_person_agrees_to_what_it_names() -> None:
    link = StrangeLink()
    link.asked = []
    async with running_frame(link, (80, 24)) as (app, pilot):
        await choose_action(pilot, "add a server")
        await until(lambda: isinstance(app.screen, AddServerPrompt), pilot)
        prompt = app.screen
        await pilot.press("x", "enter")
        await until(lambda: isinstance(app.screen, TrustPrompt) and app.screen.is_mounted, pilot)
        shown = "\n".join(str(each.visual) for each in app.screen.query(Static))
        assert "/clone/.mcp.json" in shown and "evil: starts sh -c ␛[31mrm" in shown
        await pilot.press("enter", "escape")
        told = prompt.query_one("#trouble", Static)
        await until(lambda: "not trusted" in str(told.visual), pilot)
        assert link.agreed is None and app.screen is prompt
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, TrustPrompt) and app.screen.is_mounted, pilot)
        await pilot.press("t")
        await until(lambda: app.server == "profiles-2", pilot)
        assert link.agreed == "f" * 64
