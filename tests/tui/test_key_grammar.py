"""One key grammar: a key has one meaning on all screens. Footer and action menu are true."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from textual.widget import Widget

from mcpdesk.link.values import UntrustedFile
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.tui.actions import ACTIONS, BY_ID, NO_KEY, bindings_for
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.dialog_actions import DIALOG_ACTIONS
from mcpdesk.tui.forms.access_prompts import TokenPrompt
from mcpdesk.tui.forms.server_prompts import AddServerPrompt, RootsPrompt
from mcpdesk.tui.forms.trust_prompt import TrustPrompt
from mcpdesk.tui.screens.action_menu import OMITTED_ACTIONS, action_choices
from mcpdesk.tui.screens.frame_lines import MAX_KEYS, DeskFooter
from mcpdesk.tui.screens.main_screen import PANES
from mcpdesk.tui.screens.palette import action_choices as palette_choices
from mcpdesk.tui.screens.palette import name_of
from mcpdesk.tui.widgets.column_menu import ColumnMenu
from mcpdesk.tui.widgets.menu import Dialog, LinePrompt, Menu
from mcpdesk.tui.widgets.path_prompt import PathPrompt
from tests.support.dialog_hints import check_hints
from tests.support.fake_link import FakeLink
from tests.support.frame import quiet_link, running_frame
from tests.support.patience import screen_lines, until

GRAMMAR = {
    "enter": "open choose details fold next_page",
    "escape": "back reset later dismiss",
    "q": "dismiss",
    "up": "choose move",
    "down": "choose move",
    "k": "move scroll",
    "j": "move scroll",
    "pageup": "scroll page",
    "pagedown": "scroll page",
    "left": "fold column step sideways",
    "h": "fold column step sideways",
    "right": "unfold column step sideways",
    "l": "unfold column step sideways",
    "tab": "take move",
    "shift+left": "show_tab",
    "shift+right": "show_tab",
    **{str(digit): "show_screen" for digit in range(1, 7)},
    "space": "action_menu",
    "backspace": "previous_page",
    "y": "copy copy_value copy_link",
    "w": "save export",
    "ctrl+n": "add add_item",
    "o": "pager page_result open_link open_app",
    "e": "edit edit_arguments",
    "r": "again replay fire restart start",
    "x": "cancel kill end decline disconnect remove stop",
    "s": "sort",
    "slash": "filter search find_field",
    "n": "next_hit",
    "N": "next_hit",
    "f": "follow watch toggle_always",
    "p": "pause",
    "z": "zoom",
    "m": "mark",
    "d": "compare",
    "a": "open_question",
    "c": "cancel",
    "colon": "palette",
    "question_mark": "show_help help dismiss",
    "f1": "show_help help dismiss",
    "ctrl+o": "jump dismiss",
    "ctrl+s": "saved keep",
    "exclamation_mark": "show_news",
    "less_than_sign": "widen_result",
    "greater_than_sign": "widen_result",
    "plus": "zoom_axis",
    "equals_sign": "zoom_axis",
    "minus": "zoom_axis",
    "asterisk": "unfold_all",
    **{
        f"{bracket}_square_bracket {key}": names
        for bracket in ("left", "right")
        for key, names in (
            ("e", "next_like next_bad"),
            ("s", "next_like"),
            ("k", "next_like"),
            ("l", "next_like"),
            ("m", "next_mark"),
            ("c", "next_change"),
        )
    },
    "g s": "servers",
    "g r": "to_result",
    "g h": "history",
    "g l": "logs",
    "g c": "edit_source",
    "g q": "next_question show_part",
    "g p": "show_part",
    "g t": "open show_call",
    "g n": "go_to",
    "v b": "wrap",
    "v w": "waterfall",
    "v r": "raw",
    "v z": "zero",
    "v f": "filters",
    "v l": "level",
    "v n": "only_new",
    "v s": "source",
    "v a": "unfold_all",
    "v o": "fold_all",
    "v h": "doctor",
    "v t": "login_steps",
    "v d": "show_save",
    "v c": "columns",
}
"""Key to the names of the actions that may have it. They mean the same, for different things.

Keys that are not listed, which are those with ctrl or alt and function keys, have one action.
"""
OF_DIALOGS = {"question": {"space", *"1234567890"}, "trust_prompt": set("tn")}
"""Keys that choose an option in a dialog. The dialog covers the screens where they have another meaning."""


def keys_of(keys: str) -> list[str]:
    return keys.split(",") if keys else []


def test_every_key_has_the_meaning_of_the_grammar() -> None:
    for action in ACTIONS:
        name = action.name.partition("(")[0]
        for key in set(keys_of(action.keys)) - OF_DIALOGS.get(action.scope, set()):
            if key in GRAMMAR:
                assert name in GRAMMAR[key].split(), f"{key} means {GRAMMAR[key]}, not {name} ({action.id})"
            else:
                is_function_key = key[0] == "f" and key[1:].isdigit()
                assert "+" in key or is_function_key, f"{key} is not a key of the grammar ({action.id})"


def test_no_other_key_has_two_meanings() -> None:
    names = defaultdict(set)
    for action in ACTIONS:
        for key in keys_of(action.keys):
            if key not in GRAMMAR and key not in OF_DIALOGS.get(action.scope, set()):
                names[key].add(action.name.partition("(")[0])
    assert {key: each for key, each in names.items() if len(each) > 1} == {}


def test_a_former_key_of_an_action_is_not_its_key_now() -> None:
    for action in ACTIONS:
        assert not set(keys_of(action.former_keys)) & set(keys_of(action.keys)), action.id


def test_an_action_without_a_key_has_a_binding_that_a_keymap_can_change() -> None:
    for scope in {action.scope for action in ACTIONS}:
        bindings: list[Any] = bindings_for(scope)
        ids = dict.fromkeys(each.id for each in bindings)
        assert list(ids) == [each.id for each in ACTIONS if each.scope == scope]
        assert all(each.key for each in bindings)


def focusable(app: DeskApp) -> list[Widget]:
    """Widgets of the shown pane, one of each class."""
    assert app.main.pane is not None
    found: dict[type[Widget], Widget] = {}
    for one in app.main.pane.walk_children(Widget, with_self=True):
        if one.focusable and one.is_on_screen:
            found.setdefault(type(one), one)
    return list(found.values())


@pytest.mark.slow
@pytest.mark.parametrize("screen", PANES)
async def test_on_every_pane_footer_and_action_menu_are_true(
    screen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, object]] = []
    real = DeskApp.run_action

    async def run_action(self: DeskApp, action: Any, namespace: Any = None, *rest: Any) -> bool:
        if "begin_sequence" in str(action):
            return await real(self, action, namespace, *rest)
        if not self._check_action_state(str(action), namespace):
            return False  # Textual tries the next binding of the key
        done.append((str(action), namespace))
        return True

    async with running_frame(quiet_link(), size=(200, 60), panes=PANES) as (app, pilot):
        await until(lambda: app.main.pane is not None, pilot)
        await app.main.show_screen(screen)
        await pilot.pause()
        for widget in focusable(app):
            widget.focus()
            await pilot.pause()
            parts = app.main.query_one(DeskFooter).parts
            assert len(parts) <= MAX_KEYS, [str(part.text) for part in parts]
            active = app.main.active_bindings
            shown = {part.action.removeprefix("press('").removesuffix("')") for part in parts}
            with monkeypatch.context() as patch:
                patch.setattr(DeskApp, "run_action", run_action)
                for key in shown:
                    done.clear()
                    await pilot.press(*key.split())
                    assert done == [(active[key].binding.action, active[key].node)], (widget, key)
            listed = {choice.value.action.id for choice in action_choices(app.main)}
            bound = {each.binding.id for each in active.values() if each.enabled and each.binding.id}
            bound -= {active[NO_KEY].binding.id} if NO_KEY in active else set()
            assert bound - OMITTED_ACTIONS <= listed, widget


def empty_link() -> FakeLink:
    """A desk without servers, clients, traffic, questions and log lines."""
    link = quiet_link()
    link.core = replace(link.core, servers=(), clients=())
    link.catalogues.clear()
    link.log_lines = []
    link.recording = Recording(None)
    link.traffic = link.recording.index
    return link


def look(app: DeskApp) -> object:
    """Everything that a key may change: dialog, focus, text of the screen, news and clipboard."""
    shown = "\n".join(screen_lines(app))
    return app.screen, app.focused, shown, len(app.news_log), app.clipboard, app.is_running


def is_changed(app: DeskApp, before: object) -> bool:
    """True if something differs from an earlier `look`."""
    return look(app) != before


@pytest.mark.slow
@pytest.mark.parametrize("screen", PANES)
@pytest.mark.parametrize("link_of", [empty_link, quiet_link])
async def test_every_key_in_the_footer_does_something(screen: str, link_of: Any) -> None:
    async with running_frame(link_of(), size=(200, 60), panes=PANES) as (app, pilot):
        await until(lambda: app.main.pane is not None, pilot)
        await app.main.show_screen(screen)
        await pilot.pause(0.2)
        parts = app.main.query_one(DeskFooter).parts
        shown = {part.action.removeprefix("press('").removesuffix("')") for part in parts}
        assert {"ctrl+p", "question_mark"} <= shown
        for key in sorted(shown - {"ctrl+q"}, key=lambda key: (key != "ctrl+r", key)):
            before = look(app)
            await pilot.press(*key.split())
            try:
                await until(partial(is_changed, app, before), pilot)
            except AssertionError as error:
                raise AssertionError(f"{key} is in the footer and does nothing") from error
            while app.screen is not app.main:
                await pilot.press("escape")
            await app.main.show_screen(screen)
            app.main.settle_focus()
            await pilot.pause()


@pytest.mark.slow
async def test_every_action_has_a_key_or_is_in_the_menu_and_the_palette() -> None:
    listed: set[str] = set()
    async with running_frame(quiet_link(), panes=PANES) as (app, pilot):
        await until(lambda: app.main.pane is not None, pilot)
        for screen in PANES:
            await app.main.show_screen(screen)
            await pilot.pause()
            for widget in focusable(app):
                widget.focus()
                await pilot.pause()
                in_menu = {choice.value.action.id for choice in action_choices(app.main)}
                named = {entry.label for entry in palette_choices(app)}
                assert {name_of(BY_ID[each]) for each in in_menu if each.startswith(f"{screen}.")} <= named
                listed |= in_menu
    needs_item = {
        "json.copy_path",
        "catalogue.pick_mode",
        "traffic.open_app_of_call",
        "traffic_list.clear_marks",
    }
    elsewhere = {action.id for action in DIALOG_ACTIONS} | needs_item
    without = {action.id for action in ACTIONS if not action.keys} - elsewhere
    assert without <= listed, "an action without a key must be in the action menu"


@pytest.mark.slow
async def test_the_last_line_of_every_dialog_names_actions() -> None:
    link = quiet_link()
    file = UntrustedFile("/clone/.mcp.json", "f" * 64, ("weather: starts npx",))
    dialogs: list[Dialog[Any]] = [
        AddServerPrompt(link),
        RootsPrompt(link),
        TokenPrompt(link, link.view().servers[0]),
        TrustPrompt(file),
        LinePrompt("Name"),
        PathPrompt("Write 3 rows to a new file", Path("rows.csv")),
        Menu("Choose", ()),
        ColumnMenu(tuple, lambda name: None),
    ]
    async with running_frame(link) as (app, pilot):
        await check_hints(app, pilot, dialogs)
