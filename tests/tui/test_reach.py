"""Which actions can be done from where."""

from __future__ import annotations

from mcpdesk.tui.actions import reachable
from tests.support.frame import running_frame


async def test_inner_widgets_come_before_outer_ones() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("5")
        await pilot.pause()
        scopes = list(dict.fromkeys(found.action.scope for found in reachable(app.main, app.main.pane)))
        assert scopes == ["logs", "main", "app"]


async def test_panes_that_are_not_up_are_left_out() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("5", "4")
        await pilot.pause()
        scopes = {found.action.scope for found in reachable(app.main, app.main.pane)}
        assert "clients" in scopes and "logs" not in scopes


async def test_widgets_beside_the_focus_count_as_well() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("5")
        await pilot.pause()
        app.main.set_focus(None)
        found = {one.action.id: one for one in reachable(app.main, app.main.pane)}
        assert not found["logs.follow"].focused and found["main.jump"].focused


async def test_action_a_widget_refuses_is_not_reachable(monkeypatch) -> None:
    async with running_frame() as (app, _):
        monkeypatch.setattr(type(app.main), "check_action", lambda self, name, given: name != "zoom")
        ids = {found.action.id for found in reachable(app.main, app.main.pane)}
        assert "main.zoom" not in ids and "main.jump" in ids
