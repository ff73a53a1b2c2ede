"""The table of actions: every row works by key, by palette, and is in the help."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter

import pytest
from textual.binding import Binding
from textual.dom import DOMNode

import mcpdesk.tui
from mcpdesk.tui.action import Action
from mcpdesk.tui.actions import ACTIONS, BY_ID, FEATURE_ACTIONS, key_names, reachable
from mcpdesk.tui.screens.overlays import MENU_KEY, HelpScreen
from mcpdesk.tui.screens.palette import ACTION_NAMES, SEARCH_WORDS, action_choices, name_of
from tests.support.frame import quiet_link, running_frame


def classes_with_actions() -> dict[str, list[type[DOMNode]]]:
    """Action id to the classes whose bindings, own or inherited, carry it."""
    found: dict[str, list[type[DOMNode]]] = {}
    for module in pkgutil.walk_packages(mcpdesk.tui.__path__, "mcpdesk.tui."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, DOMNode):
                for name in ids_of(value):
                    found.setdefault(name, []).append(value)
    return found


def ids_of(kind: type[DOMNode]) -> set[str]:
    """Ids of all bindings of a class."""
    bindings = [binding for base in kind.__mro__ for binding in base.__dict__.get("BINDINGS", ())]
    return {binding.id for binding in bindings if isinstance(binding, Binding) and binding.id}


OWNERS = classes_with_actions()


def test_every_action_has_a_widget_that_can_do_it() -> None:
    for action in ACTIONS:
        owners = OWNERS.get(action.id, [])
        assert owners, f"{action.id}: no widget sets BINDINGS = bindings_for({action.scope!r})"
        names = ", ".join(owner.__name__ for owner in owners)
        assert any(callable(getattr(owner, action.method, None)) for owner in owners), (
            f"{action.id}: {names} has no {action.method}"
        )


def is_only_for_some_items(action: Action) -> bool:
    """Whether the key of an action is another action's key while items without it are selected."""
    of_feature = FEATURE_ACTIONS.get(action.id)
    return of_feature is not None and of_feature.applies is not None


def test_no_key_means_two_things_in_one_scope() -> None:
    every = (action for action in ACTIONS if not is_only_for_some_items(action))
    keys = Counter((action.scope, key) for action in every for key in action.keys.split(",") if key)
    assert [scope_and_key for scope_and_key, number in keys.items() if number > 1] == []


def test_every_action_has_an_id_a_title_and_keys_with_names() -> None:
    assert len(BY_ID) == len(ACTIONS)
    known = {"esc", "tab", "space", "home", "end", "pgup", "pgdn", "del", "f10"}
    for action in ACTIONS:
        assert action.title and action.group, action.id
        assert not action.help or action.help.endswith("."), action.id
        names = {name.lstrip("^⇧⌥") for name in key_names(action.keys).replace(",", "").split()}
        assert {name for name in names if len(name) > 2} <= known, action.id


@pytest.mark.slow
@pytest.mark.parametrize("screen", ["clients", "logs"])
async def test_what_can_be_done_is_in_help_and_palette(screen: str) -> None:
    async with running_frame(quiet_link()) as (app, pilot):
        await app.main.show_screen(screen)
        await pilot.pause()
        expected = {action for action in ACTIONS if action.scope in (screen, "main", "app")}
        offered = {choice.label: choice.help for choice in action_choices(app)}
        for action in expected:
            assert action.name == "palette" or offered[name_of(action)].endswith(action.help or action.title)
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        rows = {row for rows in app.screen.groups.values() for row in rows}
        assert {(key_names(a.keys) or MENU_KEY, a.title, a.help) for a in expected} <= rows


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "action", [a for a in ACTIONS if a.keys and a.scope in ("app", "main")], ids=lambda a: a.id
)
async def test_every_key_of_the_frame_does_its_action(
    action: Action, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_frame(quiet_link()) as (app, pilot):
        owner = app if action.scope == "app" else app.main
        done: list[tuple[object, ...]] = []
        monkeypatch.setattr(type(owner), action.method, lambda self, *given: done.append(given))
        keys = [key for key in action.keys.split(",") if key]
        for key in keys:
            await pilot.press(*key.split())
        assert len(done) == len(keys)


async def test_action_a_widget_refuses_is_not_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_frame() as (app, _):
        monkeypatch.setattr(type(app.main), "check_action", lambda self, name, given: name != "zoom")
        ids = {found.action.id for found in reachable(app.main, app.main.pane)}
        assert "main.zoom" not in ids and "main.jump" in ids


@pytest.mark.slow
async def test_what_can_be_done_is_that_of_the_pane_that_is_up_inner_widgets_first() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("4", "5")
        await pilot.pause()
        scopes = list(dict.fromkeys(found.action.scope for found in reachable(app.main, app.main.pane)))
        assert scopes == ["logs", "main", "app"]
        app.main.set_focus(None)
        ids = {one.action.id for one in reachable(app.main, app.main.pane)}
        assert {"logs.follow", "main.jump"} <= ids


def test_in_the_palette_every_action_has_a_name_that_stands_alone() -> None:
    assert set(ACTION_NAMES) | set(SEARCH_WORDS) <= set(BY_ID)
    named = [name_of(action) for action in ACTIONS if action.scope != "question" and action.name != "palette"]
    assert len(set(named)) == len(named)
    assert [name for name in named if not name[0].isupper() or len(name.split()) < 2] == []
