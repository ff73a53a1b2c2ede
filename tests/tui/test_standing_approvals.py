"""The menu of what was approved for good."""

from __future__ import annotations

import time

from mcpdesk.link.values import GrantView
from mcpdesk.tui.forms.access_prompts import NONE, told, whom
from mcpdesk.tui.widgets.menu import Menu
from tests.support.frame import quiet_link, running_frame, toasts

CURSOR = GrantView("profiles", "Bash", "client:cursor 1.4", time.time() - 500)
ADA = GrantView("hello", "greet", "token:ada of https://id.example.org", time.time() - 5)


async def test_enter_ends_the_chosen_one() -> None:
    link = quiet_link()
    link.granted = (ADA, CURSOR)
    async with running_frame(link) as (app, pilot):
        await pilot.press("A")
        await pilot.pause()
        assert isinstance(app.screen, Menu)
        assert [choice.label for choice in app.screen.choices] == [
            "greet for ada of https://id.example.org",
            "Bash for cursor 1.4",
        ]
        await pilot.press("j", "enter")
        await pilot.pause()
        assert link.granted == (ADA,) and app.screen is app.main


async def test_escape_ends_none() -> None:
    link = quiet_link()
    link.granted = (ADA, CURSOR)
    async with running_frame(link) as (_, pilot):
        await pilot.press("A", "escape")
        await pilot.pause()
        assert link.granted == (ADA, CURSOR)


async def test_without_any_it_says_where_they_come_from() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("A")
        await pilot.pause()
        assert toasts(app) == [NONE] and app.screen is app.main


def test_a_name_of_a_client_and_the_holder_of_a_token_are_told_apart() -> None:
    assert told(CURSOR) == "Clients called cursor 1.4 may call Bash of profiles."
    assert told(ADA) == "Whoever has the token of ada of https://id.example.org may call greet of hello."
    assert whom(GrantView("s", "t", "client:\x1b[31m" + "x" * 90, 0.0)).startswith("␛[31mx")
