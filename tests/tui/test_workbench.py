from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace
from textual.widgets import Input, TextArea

from mcpdesk.link.link import Link
from mcpdesk.link.values import Catalogue, CatalogueItem, ItemKind, Progress
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.forms.argument_editor import Arguments
from mcpdesk.tui.render.amounts import duration
from mcpdesk.tui.results.json_tree import JsonTree
from mcpdesk.tui.results.result_view import CallButton, ResultContent, ResultView
from mcpdesk.tui.screens import workbench
from mcpdesk.tui.screens.workbench import WorkbenchPane
from mcpdesk.tui.traffic.traffic_list import TrafficList
from mcpdesk.tui.widgets import menu
from mcpdesk.tui.widgets.menu import Menu
from mcpdesk.tui.workbench.catalogue_list import CatalogueList
from tests.support.desk import running_desk
from tests.support.driven import driven
from tests.support.fake_link import FakeLink
from tests.support.features import needs_feature
from tests.support.folders import save, write
from tests.support.lingering import Lingering
from tests.support.patience import WITHIN_S, until, within
from tests.support.workbench import Bench, bench, link_with, tool


@pytest.mark.slow
async def test_typing_arguments_and_calling_shows_the_result() -> None:
    async with bench() as it:
        await it.pilot.press("enter", "7", "ctrl+r")
        await it.until(lambda: bool(re.search(r"✓ ok [\d.]+ [mµ]?s", it.title)))
        traffic = it.link.traffic
        call = traffic.exchange(len(traffic.exchanges) - 1)
        await it.until(lambda: f"✓ ok {duration(call.elapsed(call.ended))}" in it.title)
        assert it.sent == [
            ("tools/call", {"name": "user-profile", "arguments": {"userId": "7", "verbose": False}})
        ]
        tree = it.pane.query_one("#structured", JsonTree)
        await it.until(lambda: tree.row_count == 6)


@pytest.mark.slow
async def test_the_catalogue_is_there_first_and_keys_wait_for_what_comes_beside_it() -> None:
    add_other_parts = WorkbenchPane._add_other_parts
    with pytest.MonkeyPatch.context() as later:
        later.setattr(WorkbenchPane, "_add_other_parts", lambda pane: None)
        link = FakeLink()
        link.asked = []
        app = DeskApp(cast(Link, link))
        async with driven(app, size=(120, 40)) as pilot:
            it = Bench(app, pilot, link)
            await it.until(lambda: "user-profile" in it.shown())
            assert not app.screen.query(ResultView) and not app.screen.query(TrafficList)
            assert it.pane.holds_keys and it.pane.item is None
            await pilot.click(CatalogueList, offset=(6, 3))
            add_other_parts(it.pane)
            add_other_parts(it.pane)
            await it.until(lambda: it.pane.item is not None and not it.pane.holds_keys)
            await it.until(lambda: "ctrl+r calls the tool" in it.shown())
            assert it.pane.item == it.pane.catalogue.rows.item and it.sent == []
            assert len(app.screen.query(ResultView)) == 1
            await it.until(it.has_opened)


@pytest.mark.slow
async def test_enter_and_a_click_open_a_tool_and_call_nothing() -> None:
    tools = [tool(name, {"type": "object"}) for name in ("first", "second")]
    async with bench(link_with(*tools)) as it:
        await it.pilot.press("down", "enter")
        await it.until(lambda: it.pane.item == tools[1])
        await it.until(it.has_opened)
        await it.pilot.press("enter", "enter")
        await it.pilot.click(CatalogueList, offset=(6, 1))
        await it.until(lambda: it.pane.item == tools[0])
        await it.until(it.has_opened)
        await it.pilot.click(CatalogueList, offset=(6, 1))
        await it.until(it.has_opened)
        assert it.sent == []


class HeldTimer:
    """A timer that fires when the test says so."""

    def __init__(self, fire: Callable[[], object]) -> None:
        self.fire, self.is_stopped = fire, False

    def stop(self) -> None:
        self.is_stopped = True


async def test_a_cursor_that_moves_quickly_opens_the_first_item_and_the_one_on_which_it_rests() -> None:
    tools = [tool(name, {"type": "object"}) for name in ("first", "second", "third", "fourth")]
    timers: list[HeldTimer] = []

    def hold(pane: WorkbenchPane, delay: float, fire: Callable[[], object]) -> HeldTimer:
        timers.append(HeldTimer(fire))
        return timers[-1]

    async with bench(link_with(*tools)) as it:
        it.pane.catalogue.rows.action_cursor(1)
        await it.until(lambda: it.pane.item == tools[1])
        await it.until(it.has_opened)
        with pytest.MonkeyPatch.context() as later:
            later.setattr(WorkbenchPane, "set_timer", hold)
            later.setattr(workbench, "_CURSOR_PAUSE_S", WITHIN_S)  # also on a busy machine
            it.pane.catalogue.rows.action_cursor(1)
            it.pane.catalogue.rows.action_cursor(1)
            await it.until(lambda: len(timers) == 2)
        assert [timer.is_stopped for timer in timers] == [True, False]
        assert it.pane.item is None
        timers[1].fire()
        await it.until(lambda: it.pane.item == tools[3])


@pytest.mark.slow
async def test_a_click_on_the_call_button_calls() -> None:
    async with bench(link_with(tool("first", {"type": "object"}))) as it:
        await it.pilot.click(CallButton)
        await it.until(lambda: it.sent == [("tools/call", {"name": "first", "arguments": {}})])


@pytest.mark.slow
async def test_enter_in_the_last_field_goes_on_to_the_call_button_and_the_next_enter_calls() -> None:
    async with bench(link_with(tool("first", {"properties": {"x": {"type": "string"}}}))) as it:
        await it.pilot.press("enter", "a", "enter")
        await it.until(lambda: isinstance(it.app.focused, CallButton))
        assert it.sent == []
        await it.pilot.press("enter")
        await it.until(lambda: it.sent == [("tools/call", {"name": "first", "arguments": {"x": "a"}})])


@pytest.mark.slow
async def test_a_resource_without_variables_is_read_by_enter() -> None:
    async with bench() as it:
        await it.open("file:///config.json")
        await it.until(lambda: it.sent == [("resources/read", {"uri": "file:///config.json"})])


@pytest.mark.slow
async def test_a_destructive_tool_asks_before_it_is_called_until_told_not_to_in_this_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drop = tool("drop", {"type": "object"}, annotations={"destructiveHint": True})
    async with bench(link_with(drop)) as it:

        async def answer(*keys: str) -> int:
            await it.pilot.press("ctrl+r")
            await it.until(lambda: isinstance(it.app.screen, Menu))
            await it.pilot.press(*keys)
            await it.until(lambda: it.app.screen is it.app.main)
            await it.app.workers.wait_for_complete()
            await it.until(lambda: it.pane.draft is not None and it.pane.draft.call is None)
            return len(it.sent)

        monkeypatch.setattr(menu, "KEY_PAUSE_S", 60.0)
        assert [await answer(*keys) for keys in ([*"yes", "enter", "escape"], ["enter"])] == [0, 0]
        monkeypatch.setattr(menu, "KEY_PAUSE_S", 0.0)
        assert [await answer(key) for key in ("n", "escape", "enter", "y")] == [0, 0, 0, 1]
        assert await answer("s", "down", "down", "enter") == 2
        await it.pilot.press("ctrl+r")
        await it.until(lambda: len(it.sent) == 3)
        await it.until(lambda: it.pane.draft is not None and it.pane.draft.call is None)
        await it.pilot.press("r")
        await it.until(lambda: len(it.sent) == 4)


@pytest.mark.slow
async def test_a_call_right_after_the_cursor_moved_is_of_the_tool_under_the_cursor() -> None:
    tools = [tool(name, {"type": "object"}) for name in ("first", "second", "third")]
    async with bench(link_with(*tools)) as it:
        it.pane.show_highlighted(CatalogueList.Highlighted(tools[1]))
        it.pane.show_highlighted(CatalogueList.Highlighted(tools[2]))
        assert it.pane.item is None, "what is drawn is hidden, so nothing else can be called"
        it.pane.action_call()
        await it.until(lambda: it.sent == [("tools/call", {"name": "third", "arguments": {}})])
        assert it.pane.item == tools[2]


@pytest.mark.slow
async def test_one_key_leads_to_the_result_from_the_catalogue_and_while_typing() -> None:
    async with bench() as it:
        await it.pilot.press("g", "r")
        assert it.app.focused is it.pane.item_pane.result.content
        await it.pilot.press("escape", "enter", "f8")
        await it.until(lambda: it.app.focused is it.pane.item_pane.result.content)


@pytest.mark.slow
async def test_arguments_that_do_not_fit_are_held_back_once() -> None:
    async with bench() as it:
        await it.pilot.press("ctrl+r")
        await it.pilot.pause()
        assert it.sent == []
        assert "✗ required" in it.shown()
        await it.pilot.press("ctrl+r")
        await it.until(lambda: len(it.sent) == 1)


@pytest.mark.slow
async def test_failures_appear_while_typing_and_go_again() -> None:
    async with bench() as it:
        await it.open("place-order")
        await it.pilot.press("a", "tab", "backspace", "9", "9", "9")
        await it.until(lambda: "✗ 999 is greater" in it.shown())
        await it.pilot.press("backspace")
        await it.until(lambda: "✗ 999" not in it.shown() and "✗ 99" not in it.shown())


@pytest.mark.slow
async def test_the_same_value_is_edited_as_form_and_as_json() -> None:
    async with bench() as it:
        await it.pilot.press("enter", "4", "2", "ctrl+e")
        arguments = it.pane.query_one(Arguments)
        await it.until(lambda: arguments.is_json)
        assert arguments.editor.area.text == '{\n  "userId": "42",\n  "verbose": false\n}'
        arguments.editor.area.text = '{"userId": "43", "tags": ["a"]}'
        await it.pilot.press("ctrl+e")
        await it.until(lambda: not arguments.is_json)
        assert arguments.value() == {"userId": "43", "tags": ["a"]}
        assert it.pane.query_one("#form").query(Input).first().value == "43"


@pytest.mark.slow
async def test_text_that_is_no_json_stays_with_line_and_column() -> None:
    async with bench() as it:
        await it.pilot.press("enter", "ctrl+e")
        arguments = it.pane.query_one(Arguments)
        await it.until(lambda: arguments.is_json)
        arguments.editor.area.text = '{\n "userId": }'
        await it.pilot.press("ctrl+e")
        await it.until(lambda: "✗ line 2, column 12" in it.shown())
        assert arguments.is_json
        await it.pilot.press("ctrl+r")
        await it.pilot.pause()
        assert it.sent == []


@pytest.mark.slow
async def test_a_value_the_form_cannot_show_stays_json() -> None:
    async with bench() as it:
        await it.pilot.press("enter", "ctrl+e")
        arguments = it.pane.query_one(Arguments)
        await it.until(lambda: arguments.is_json)
        arguments.editor.area.text = '{"userId": "1", "tags": "x"}'
        await it.until(lambda: "✗ tags" in it.shown())
        await it.pilot.press("ctrl+e")
        await it.until(lambda: "the form cannot show" in it.shown())
        assert arguments.is_json


@pytest.mark.slow
@pytest.mark.parametrize("out_of", ["field", "JSON", "result"])
async def test_escape_leads_back_to_the_catalogue_where_digits_are_keys(out_of: str) -> None:
    async with bench() as it:
        await it.open("user-profile")
        assert isinstance(it.app.focused, Input)
        if out_of == "JSON":
            await it.pilot.press("ctrl+e")
            await it.until(lambda: isinstance(it.app.focused, TextArea))
            await it.pilot.press("escape")
        elif out_of == "result":
            it.pane.query_one(ResultContent).focus()
        await it.pilot.press("escape")
        assert it.pane.catalogue.rows.has_focus
        await it.pilot.press("4")
        await it.until(lambda: it.app.main.shown == "clients")


@pytest.mark.slow
async def test_another_server_shows_its_own_items_whatever_was_filtered_before() -> None:
    link = FakeLink()
    greet = tool("greet", {"type": "object"})
    link.catalogues["hello"] = Catalogue("hello", 1, (greet,))
    async with bench(link) as it:
        await it.pilot.press("slash", *"profile", "enter")
        it.app.main.server = "hello"
        await it.until(lambda: it.pane.item == greet)
        assert it.pane.catalogue.filter.value == "" and it.pane.catalogue.rows.item == greet


@pytest.mark.slow
@pytest.mark.parametrize("turns", [4, 20, 40])
async def test_items_opened_in_quick_succession_leave_nothing_half_done(turns: int) -> None:
    async with bench() as it:
        items = it.link.catalogue(it.app.server).items
        for at in (3, 1, 3, 1, 0):
            it.pane._open(items[at])
            for _ in range(turns):
                await asyncio.sleep(0)
        await it.app.workers.wait_for_complete()
        await it.pilot.pause()  # which waits for every widget to react
        draft = it.pane.item_pane.arguments.draft
        assert draft is not None and it.pane.item == items[0] == draft.item
        pumps = {task for task in asyncio.all_tasks() if task.get_name().startswith("message pump")}
        assert pumps == {widget._task for widget in it.app._registry}


@pytest.mark.slow
async def test_a_running_call_shows_progress_and_can_be_cancelled() -> None:
    async with bench() as it:
        await it.open("slow-report")
        await it.pilot.press("ctrl+r")
        await it.until(lambda: "running" in it.title)
        await it.until(lambda: "30% (3 of 10)" in it.shown() and "reading day 3" in it.shown())
        assert "opened the book" in it.shown()
        it.link.calls[-1].progress = Progress(7, 10, "reading day 7")
        await it.until(lambda: "reading day 7" in it.shown())
        await it.pilot.press("ctrl+x")
        await it.until(lambda: "⊘ stopped waiting" in it.title)


@pytest.mark.slow
async def test_two_tools_run_at_once_and_each_keeps_its_result() -> None:
    async with bench() as it:
        await it.open("slow-report")
        await it.pilot.press("ctrl+r")
        await it.until(lambda: "running" in it.title)
        await it.open("user-profile")
        await it.pilot.press("1", "ctrl+r")
        await it.until(lambda: "✓ ok" in it.title)
        it.link.calls[0].finish({"content": [{"type": "text", "text": "all summed up"}]})
        await it.pilot.pause()
        await it.open("slow-report")
        await it.until(lambda: "all summed up" in it.shown())
        await it.open("user-profile")
        await it.until(lambda: "Ada" in it.shown())


@pytest.mark.slow
async def test_errors_say_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(menu, "KEY_PAUSE_S", 0.0)
    async with bench() as it:
        await it.open("place-order")
        await it.pilot.press("ctrl+r", "ctrl+r")
        await it.until(lambda: isinstance(it.app.screen, Menu))
        await it.pilot.press("y")
        await it.until(lambda: it.app.screen is it.app.main and "✗ tool error" in it.title)
        await it.until(lambda: "the oven is cold" in it.shown())
    async with bench(link_with(tool("nowhere", {}))) as it:
        await it.pilot.press("ctrl+r")
        await it.until(lambda: "✗ protocol error -32602" in it.title)
        await it.until(lambda: "Unknown tool: nowhere" in it.shown())


@pytest.mark.slow
async def test_history_survives_a_restart_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "key": {"type": "string", "format": "password"}},
    }
    async with bench(link_with(tool("log-in", schema)), history=path) as it:
        await it.pilot.press("enter", "a", "d", "a", "tab", "s", "3", "ctrl+r")
        await it.until(lambda: "error" in it.title)
        assert it.sent[0][1]["arguments"] == {"name": "ada", "key": "s3"}
    assert "s3" not in path.read_text()
    async with bench(link_with(tool("log-in", schema)), history=path) as it:
        await it.pilot.press("g", "h")
        await it.until(lambda: isinstance(it.app.screen, Menu))
        await it.pilot.press("enter")
        await it.until(lambda: isinstance(it.app.focused, Input) and it.app.focused.value == "ada")


@pytest.mark.slow
async def test_the_same_call_again_is_one_key() -> None:
    async with bench() as it:
        await it.pilot.press("enter", "7", "ctrl+r")
        await it.until(lambda: "✓ ok" in it.title)
        await it.pilot.press("8", "escape")
        it.pane.catalogue.rows.focus()
        await it.pilot.press("r")
        await it.until(lambda: len(it.sent) == 2)
        assert it.sent[1][1]["arguments"]["userId"] == "7"


@pytest.mark.slow
async def test_resources_are_read_and_shown_as_their_type_says() -> None:
    async with bench() as it:
        await it.open("resource://getting-started")
        await it.until(lambda: "Getting started" in it.shown() and "✓ ok" in it.title)
        await it.open("file:///config.json")
        await it.until(lambda: "debug: false" in it.shown())
        await it.open("file:///logo.png")
        await it.until(lambda: "image/png" in it.shown())
        assert [method for method, _ in it.sent] == ["resources/read"] * 3


@pytest.mark.slow
async def test_templates_ask_for_their_variables() -> None:
    async with bench() as it:
        await it.open("users://{id}/avatar{?size}")
        await it.pilot.press("a", "/", "b", "ctrl+r")
        await it.until(lambda: len(it.sent) == 1)
        assert it.sent == [("resources/read", {"uri": "users://a%2Fb/avatar"})]


@pytest.mark.slow
async def test_prompts_show_their_messages_with_roles() -> None:
    async with bench() as it:
        await it.open("summarize")
        await it.pilot.press("h", "i", "ctrl+r")
        await it.until(lambda: "Summarize: hi" in it.shown())
        assert "user" in it.shown()
        assert it.sent == [("prompts/get", {"name": "summarize", "arguments": {"text": "hi"}})]


@pytest.mark.slow
async def test_an_unavailable_tool_says_why_instead_of_being_called() -> None:
    async with bench() as it:
        await it.open("send-mail")
        await it.pilot.press("ctrl+r")
        await it.until(lambda: "unavailable: needs MAIL_TOKEN" in it.shown())
        assert it.sent == []


@pytest.mark.slow
async def test_violations_of_the_output_schema_are_marked() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "integer"}}}
    async with bench(link_with(tool("user-profile", {}, outputSchema=schema))) as it:
        await it.pilot.press("ctrl+r")
        await it.until(lambda: "Structured ✗1" in it.shown())
        assert "⚠ structuredContent breaks the output schema: name: " in it.shown()
        it.pane.query_one(ResultView).content.focus()
        await it.pilot.press("shift+right")
        await it.until(lambda: "✗ name: must be an integer, not a string" in it.shown())


@pytest.mark.slow
async def test_five_megabytes_of_text_do_not_freeze_the_screen() -> None:
    async with bench() as it:
        await it.open("slow-report")
        await it.pilot.press("ctrl+r")
        await it.until(lambda: "running" in it.title)
        it.link.calls[-1].finish({"content": [{"type": "text", "text": "word " * 1_000_000}]})
        started = time.thread_time()  # what others do on the machine does not count
        await it.until(lambda: "5.0 MB" in it.title)
        await it.until(lambda: "word word" in it.shown())
        assert time.thread_time() - started < 2


@pytest.mark.slow
@needs_feature("contract")
async def test_a_result_over_the_limit_of_a_known_client_says_so_once() -> None:
    async with bench() as it:
        await it.open("slow-report")
        await it.pilot.press("ctrl+r")
        await it.until(lambda: "running" in it.title)
        it.link.calls[-1].finish({"content": [{"type": "text", "text": "word " * 12_000}]})
        await it.until(lambda: "⚠ the result has 60,000 characters; Claude Code: saves" in it.shown())
        await it.pane.item_pane.draw_result()
        await it.pilot.pause()
        assert it.shown().count("Claude Code:") == 1
        await it.pilot.press("ctrl+r")
        await it.until(lambda: "running" in it.title)
        it.link.calls[-1].finish({"content": [{"type": "text", "text": "word " * 9_000}]})
        await it.until(lambda: "45.0 kB" in it.title or "ok" in it.title)
        await it.until(lambda: "word word" in it.shown())
        assert "Claude Code:" not in it.shown()


@pytest.mark.slow
async def test_links_are_followed() -> None:
    async with bench() as it:
        await it.open("slow-report")
        await it.pilot.press("ctrl+r")
        await it.until(lambda: "running" in it.title)
        link = {"type": "resource_link", "uri": "file:///config.json", "name": "settings"}
        it.link.calls[-1].finish({"content": [link]})
        await it.until(lambda: "settings" in it.shown())
        await it.pilot.press("tab", "tab", "tab", "enter")
        await it.until(lambda: "debug: false" in it.shown())


async def test_an_empty_server_teaches_how_to_add_a_tool() -> None:
    link = link_with()
    link.asked = []
    app = DeskApp(link)
    async with driven(app, size=(80, 24)) as pilot:
        await pilot.pause(0.1)
        it = Bench(app, pilot, link)
        await it.until(lambda: "tools/hello.py" in it.shown())


@pytest.mark.slow
async def test_a_reload_shows_the_new_form_and_keeps_what_was_entered() -> None:
    async with bench(link_with(tool("t", {"type": "object", "properties": {"a": {"type": "string"}}}))) as it:
        await it.pilot.press("enter", "x")
        schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
        it.link.catalogues["profiles"] = Catalogue("profiles", 2, (tool("t", schema),))
        servers = tuple(replace(one, catalogue_version=2) for one in it.link.core.servers)
        it.link.core = replace(it.link.core, servers=servers)
        await it.until(lambda: [one.value for one in it.pane.query_one("#form").query(Input)] == ["x", ""])


@pytest.mark.slow
async def test_every_size_shows_form_and_result() -> None:
    for size, title in (((80, 24), ""), ((120, 40), "─Traffic──"), ((200, 60), "Traffic of User profile─")):
        async with bench(size=size) as it:
            await it.pilot.press("enter", "7", "ctrl+r")
            await it.until(lambda: '"Ada"' in it.shown())
            assert "userId *" in it.shown()
            assert title in it.shown() if title else "─Traffic" not in it.shown()


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_form_is_as_high_and_wide_after_the_first_call_as_before(size: tuple[int, int]) -> None:
    async with bench(size=size) as it:
        await it.pilot.press("enter", "7")
        await it.until(lambda: "userId *" in it.shown())
        form, before = it.pane.arguments, it.pane.arguments.region
        fields = [part.region.bottom for part in form.form.query("FormPart") if part.region]
        assert max(fields) < form.region.bottom, "all fields are in sight"
        await it.pilot.press("ctrl+r")
        await it.until(lambda: '"Ada"' in it.shown() and "✓ ok" in it.title)
        after = it.pane.arguments.region
        assert (after.offset, after.width) == (before.offset, before.width)
        if size[0] == 80:  # elsewhere the strip below has a line more
            assert after.height == before.height


@pytest.mark.slow
async def test_the_title_of_a_long_form_tells_the_place_and_json_has_room() -> None:
    properties = {f"f{number}": {"type": "string"} for number in range(1, 61)}
    long = {"type": "object", "properties": properties}
    short = {"type": "object", "properties": {"only": {"type": "string"}}}
    async with bench(link_with(tool("long", long), tool("short", short)), size=(80, 24)) as it:
        await it.open("long")
        await it.until(lambda: "Arguments ─ 1 of 60" in it.shown())
        await it.pilot.press(*["tab"] * 18)
        await it.until(lambda: "Arguments ─ 19 of 60" in it.shown() and "f19" in it.shown())
        await it.open("short")
        await it.until(lambda: "only" in it.shown() and "of 60" not in it.shown())
        room = it.pane.item_pane.query_one("#work").size.height
        await it.until(lambda: it.pane.arguments.size.height <= 4 < it.pane.item_pane.result.size.height)
        await it.pilot.press("ctrl+e")
        await it.until(lambda: it.pane.arguments.size.height >= room // 3)


@pytest.mark.slow
async def test_the_strip_is_as_high_as_its_lines_and_the_result_has_the_rest(tmp_path: Path) -> None:
    tool = 'async def greet() -> str:\n    """Greet."""\n    return "hi"\n'
    folder = write(tmp_path, {"mcp.json": '{"name": "own"}', "tools/a.py": tool})
    async with running_desk(folder) as link:
        app = DeskApp(link)
        async with driven(app, size=(120, 48)) as pilot:
            await until(lambda: bool(app.screen.query("#workbench TrafficList")), pilot)
            pane = app.screen.query_one(WorkbenchPane)
            strip, upper = pane.traffic_box, pane.query_one("#upper")

            def heights() -> tuple[int, int]:
                return strip.outer_size.height, strip.outer_size.height + upper.outer_size.height

            await until(lambda: heights() == (2, pane.size.height), pilot)
            # Of 1, 2 and 20 calls. The traffic may show a call after its outcome.
            for more, height in ((1, 2), (1, 3), (18, pane.size.height // 4)):
                for _ in range(more):
                    await asyncio.wrap_future(link.request("own", "tools/call", {"name": "greet"}).outcome)
                wanted = (height, pane.size.height)
                await until(partial(lambda wanted: heights() == wanted, wanted), pilot)


@pytest.mark.slow
async def test_a_real_core_is_called_and_its_traffic_shown(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "add.py").write_text(
        'async def add(one: int, other: int = 2) -> int:\n    """Add."""\n    return one + other\n'
    )
    async with running_desk(tmp_path) as link:
        app = DeskApp(link)
        async with driven(app, size=(120, 40)) as pilot:
            it = Bench(app, pilot, link)
            await it.until(
                lambda: bool(app.screen.query("WorkbenchPane ItemPane")) and it.pane.item is not None
            )
            await it.open("add")
            await pilot.press("x", "4", "0", "ctrl+r")
            await it.until(lambda: "✓ ok" in it.title)
            await it.until(lambda: "42" in it.shown())
            await it.until(lambda: "tools/call add" in it.shown())
            await pilot.press("backspace", "1", "ctrl+r")
            await it.until(lambda: "43" in it.shown())
            await pilot.press("escape", "d")
            await it.until(lambda: "Compare the last result with" in it.shown())
            await pilot.press("enter")
            await it.until(lambda: bool(re.search('"42" +│ +"43"', it.shown())))


@pytest.mark.slow
async def test_a_line_of_the_strip_opens_on_the_traffic_screen(tmp_path: Path) -> None:
    tool = 'async def greet() -> str:\n    """Greet."""\n    return "hi"\n'
    folder = write(tmp_path, {"mcp.json": '{"name": "own"}', "tools/a.py": tool})
    async with running_desk(folder) as link:
        app = DeskApp(link)
        async with driven(app, size=(120, 40)) as pilot:
            await until(lambda: bool(app.screen.query("#workbench TrafficList")), pilot)
            await asyncio.wrap_future(link.request("own", "tools/call", {"name": "greet"}).outcome)
            strip = app.screen.query_one("#workbench TrafficList", TrafficList)
            await until(lambda: len(strip.view.lines) == 1, pilot)
            strip.focus()
            await pilot.press("enter")
            await until(lambda: bool(app.screen.query("TrafficPane.-detail")), pilot)
            assert app.main.shown == "traffic"


@pytest.mark.slow
async def test_a_folder_with_a_mistake_in_its_manifest_is_shown_and_picked_up_once_mended(
    tmp_path: Path,
) -> None:
    tool = 'async def greet() -> str:\n    """Greet."""\n    return "hi"\n'
    folder = write(tmp_path, {"mcp.json": '{"name": "own",\n "tols": []}', "tools/a.py": tool})
    async with running_desk(folder, watch=True, withholds_invalid=True) as link:
        app = DeskApp(link)
        async with driven(app, size=(80, 24)) as pilot:
            it = Bench(app, pilot, link)
            await it.until(lambda: "tols: unknown key" in it.shown())
            await pilot.press("enter")
            await it.until(
                lambda: "mcp.json:2" in it.shown() and "✕ unavailable: tols: unknown key" in it.shown()
            )
            await pilot.press("ctrl+r")
            assert it.pane.draft is not None and not it.pane.draft.call
            save(folder / "mcp.json", '{"name": "own"}')
            await it.until(lambda: [item.name for item in link.catalogue("own").items] == ["greet"])
            await it.open("greet")
            await pilot.press("ctrl+r")
            await it.until(lambda: "✓ ok" in it.title)


@pytest.mark.slow
async def test_a_result_that_arrives_while_the_last_one_goes_is_shown_and_the_screen_lives() -> None:
    async with bench(link_with(tool("user-profile", {}))) as it:
        slow = Lingering()
        await it.pane.query_one(ResultContent).mount(slow)
        it.pane.action_call()
        async with within():
            await slow.leaves.wait()
        draft = it.pane.draft
        assert draft is not None
        await until(lambda: draft.outcome is not None)
        await until(lambda: sum(each.group == "result" for each in it.app.workers) == 2)
        slow.may_go.set()
        await it.until(lambda: "✓ ok" in it.title and not slow.is_attached)
        await it.pilot.press("slash")
        await it.until(lambda: it.pane.catalogue.filter.has_focus)


def unavailable(words: int, **more: Any) -> CatalogueItem:
    """An omitted tool, with a reason of so many words."""
    reason = "needs " + " ".join(f"<{number}>" for number in range(words))
    return CatalogueItem(ItemKind.TOOL, "mail", "mail", problem=reason, **more)


@pytest.mark.slow
async def test_the_whole_of_why_a_tool_is_unavailable_can_be_read_on_a_small_terminal() -> None:
    async with bench(link_with(unavailable(100)), size=(80, 24)) as it:
        await it.pilot.press("enter")
        await it.until(lambda: all(f"<{number}>" in it.shown() for number in range(100)))
        assert "✕ unavailable: needs <0>" in it.shown() and "─Unavailable─" in it.shown()
        it.link.catalogues["profiles"] = Catalogue("profiles", 2, (unavailable(1000),))
        servers = tuple(replace(one, catalogue_version=2) for one in it.link.core.servers)
        it.link.core = replace(it.link.core, servers=servers)
        await it.until(lambda: "<120>" in it.shown())
        assert "<990>" not in it.shown(), "the catalogue shows only the last words"
        await it.pilot.press("tab")
        assert isinstance(it.app.focused, ResultContent)
        await it.pilot.press("G")
        await it.until(lambda: "<990>" in it.shown() and "<999>" in it.shown())


@pytest.mark.slow
async def test_why_an_older_version_serves_is_told_in_full_until_it_is_called() -> None:
    definition: dict[str, Any] = {"inputSchema": {}}
    async with bench(link_with(unavailable(50, stale=True, definition=definition)), size=(80, 24)) as it:
        await it.pilot.press("enter")
        await it.until(lambda: "<49>" in it.shown() and "ctrl+r calls the tool." in it.shown())
        await it.pilot.press("ctrl+r")
        await it.until(lambda: "Result ─" in it.title)
        await it.until(lambda: "ctrl+r calls" not in it.shown())
