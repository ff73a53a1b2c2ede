"""Held messages on the screen: rules are entered, and messages changed, dropped and answered by keys."""

from __future__ import annotations

from pathlib import Path
from time import time

import pytest

from mcpdesk.features.holding.fault_dialog import FaultDialog
from mcpdesk.features.holding.held_message import HoldView
from mcpdesk.features.holding.hold_dialog import HeldList, HoldDialog
from mcpdesk.link.link import LinkCall
from mcpdesk.recorder.exchange_summary import summary
from mcpdesk.recorder.index.statistics import Subject
from mcpdesk.tui.forms.question_dialog import QuestionScreen
from mcpdesk.tui.screens.action_menu import ActionMenu
from mcpdesk.tui.widgets.fields import LineField
from tests.support.desk import RunningDesk, running_desk
from tests.support.dialog_hints import check_hints
from tests.support.folders import write
from tests.support.frame import quiet_link, running_frame, toasts
from tests.support.patience import result_of
from tests.support.workbench import Bench, bench

FILES = {
    "mcp.json": '{"name": "near"}',
    "tools/tools.py": """
        async def add(a: int, b: int) -> int:
            return a + b
        """,
}


@pytest.mark.slow
async def test_the_last_lines_of_the_dialogs_name_actions() -> None:
    link = quiet_link()
    async with running_frame(link) as (app, pilot):
        await check_hints(app, pilot, [FaultDialog(link), HoldDialog(link)])


def add(desk: RunningDesk, a: int) -> LinkCall:
    return desk.request("near", "tools/call", {"name": "add", "arguments": {"a": a, "b": 2}})


def text(call: LinkCall) -> str:
    return str(result_of(call.outcome).result)


async def choose(it: Bench, title: str) -> None:
    """Choose an action in the action menu of the traffic."""
    await it.pilot.press("space")
    await it.until(lambda: isinstance(it.app.screen, ActionMenu))
    await it.pilot.press(*("space" if char == " " else char for char in title), "enter")


async def opened(it: Bench, desk: RunningDesk, rule: str) -> None:
    """Open the dialog from the traffic, and hold."""
    await it.pilot.press("2")
    await it.until(lambda: bool(it.app.screen.query("TrafficList")))
    await choose(it, "hold messages")
    await it.until(lambda: isinstance(it.app.screen, HoldDialog))
    await it.pilot.press(*rule, "enter")
    await it.until(lambda: desk.feature_part(HoldView).rule == rule and isinstance(it.app.screen, HoldDialog))


@pytest.mark.slow
async def test_the_next_call_of_a_tool_is_held_from_the_workbench_and_edited_from_the_traffic(
    tmp_path: Path,
) -> None:
    async with (
        running_desk(write(tmp_path / "near", FILES)) as desk,
        bench(desk, size=(80, 24)) as it,  # type: ignore[arg-type]
    ):
        await it.open("add")
        await it.pilot.press("escape")
        await choose(it, "hold the next call")
        await it.until(lambda: desk.feature_part(HoldView).is_once)
        assert toasts(it.app)[-1] == "The next call of add is held; later ones pass."
        first = add(desk, 1)
        await it.until(lambda: len(desk.feature_part(HoldView).messages) == 1)
        second = add(desk, 10)
        await it.until(second.outcome.done)
        await it.pilot.press("2", "home")
        await it.until(lambda: "1 held · e on one edits it" in it.shown())
        await it.until(lambda: "e edit" in it.shown())
        await it.pilot.press("e")
        await it.until(lambda: isinstance(it.app.screen, HoldDialog))
        dialog = it.app.screen
        assert isinstance(dialog, HoldDialog)
        await it.until(lambda: dialog.editor.area.has_focus)
        row, column = dialog.editor.area.cursor_location
        assert dialog.editor.area.text.split("\n")[row][:column].endswith('"a": 1')
        await it.pilot.press("0", ",", "ctrl+r")
        await it.until(lambda: "invalid JSON" in it.shown())
        await it.pilot.press("backspace")
        await it.until(lambda: "invalid JSON" not in it.shown())
        await it.pilot.press("ctrl+r")
        await it.until(first.outcome.done)
        assert "12" in text(first)
        await it.pilot.press("R", "d", "t")
        assert "d: drop is now x" in toasts(it.app)


@pytest.mark.slow
async def test_the_dialog_holds_only_the_next_match(tmp_path: Path) -> None:
    async with (
        running_desk(write(tmp_path / "near", FILES)) as desk,
        bench(desk, size=(80, 24)) as it,  # type: ignore[arg-type]
    ):
        await opened(it, desk, "tool:add")
        await it.pilot.press("slash", "tab", "tab", "right")
        await it.until(lambda: desk.feature_part(HoldView).is_once)
        assert "hold every match, or only the next one" in " ".join(it.shown().split())
        await it.pilot.press("enter")
        await it.until(lambda: "holding the next of requests; none held" in it.shown())


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_held_calls_are_changed_dropped_and_answered_by_keys(
    size: tuple[int, int], tmp_path: Path
) -> None:
    async with (
        running_desk(write(tmp_path / "near", FILES)) as desk,
        bench(desk, size=size) as it,  # type: ignore[arg-type]
    ):
        await opened(it, desk, "tool:add")
        await it.until(lambda: "none held" in it.shown())
        changed, answered, passed = add(desk, 1), add(desk, 10), add(desk, 100)
        await it.until(lambda: it.shown().count("→ request") == 3)
        assert '"a": 1,' in it.shown() and "r release" in it.shown()
        await it.pilot.press("enter")
        screen = it.app.screen
        assert isinstance(screen, HoldDialog)
        area = screen.editor.area
        area.load_text(area.text.replace('"a": 1,', '"a": "one",'))
        await it.pilot.press("ctrl+r")
        await it.until(lambda: it.shown().count("→ request") == 2)
        assert "a: must be an integer" in text(changed)
        await it.until(lambda: screen.listing.has_focus)
        await it.pilot.press("a")
        area.load_text(area.text.replace('"text": ""', '"text": "by hand"'))
        await it.pilot.press("ctrl+r")
        await it.until(answered.outcome.done)
        assert "by hand" in text(answered)
        await it.until(lambda: it.shown().count("→ request") == 1)
        area.load_text("{")
        await it.pilot.press("ctrl+r")
        await it.until(lambda: "invalid JSON" in it.shown())
        await it.pilot.press("x")
        await it.until(lambda: "→ request" not in it.shown())
        assert not passed.outcome.done()
        await it.pilot.press("escape")
        await it.until(lambda: "✎" in it.shown() and "holding requests: 0 held" in it.shown())
        if size[0] == 200:  # a line has room for the forwarded text
            await it.until(lambda: '✎ a="one"' in it.shown())


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_captured_answer_stands_in_for_a_tool_until_the_key_ends_it_and_every_screen_says_so(
    size: tuple[int, int], tmp_path: Path
) -> None:
    async with (
        running_desk(write(tmp_path / "near", FILES)) as desk,
        bench(desk, size=size) as it,  # type: ignore[arg-type]
    ):
        await it.until(add(desk, 1).outcome.done)
        await it.pilot.press("2")
        await it.until(lambda: "tools/call add" in it.shown())
        await it.pilot.press("G")
        await choose(it, "mock")
        await it.until(lambda: "Answer every tools/call add with this answer?" in it.shown())
        assert "For every client and all arguments" in it.shown() and not desk.feature_part(HoldView).canned
        await it.pilot.press("n")
        await it.until(lambda: "Answer every" not in it.shown())
        await choose(it, "mock")
        await it.until(lambda: "Answer every" in it.shown())
        await it.pilot.press("y")
        await it.until(lambda: "1 mocked" in it.shown())
        await it.pilot.press("1")
        await it.until(lambda: it.app.main.shown == "workbench")
        await it.until(lambda: bool({"M1", "mocked"} & set(it.shown().split("\n")[0].split())))
        await it.open("add")
        await it.pilot.press("5", "0", "tab", "2", "ctrl+r")
        await it.until(lambda: "✓ ok" in it.title and "a mock answered" in it.title)
        await it.app.main.show_screen("traffic")
        await it.pilot.press("G")
        await it.until(lambda: "tools/call add" in it.shown() and "\nM" in it.shown())
        one = list(desk.traffic.exchanges)[-1]
        assert summary(desk.traffic, one).arguments == "a=50, b=2"
        await it.pilot.press("enter")
        await it.until(lambda: "a mock answered at the desk" in it.shown())
        assert "a: 50" in it.shown() and "┄ at the desk" in it.shown() and "in the server" not in it.shown()
        await it.pilot.press("escape")
        await choose(it, "mock")
        await it.until(lambda: not desk.feature_part(HoldView).canned)
        served = add(desk, 50)
        await it.until(served.outcome.done)
        assert "'text': '52'" in text(served)
        assert [mark.how for mark in desk.traffic.marks] == ["answered from the capture"]
        await it.until(lambda: not {"M1", "mocked"} & set(it.shown().split("\n")[0].split()))


@pytest.mark.slow
async def test_what_a_person_answered_is_told_apart_from_what_went_on_changed(tmp_path: Path) -> None:
    async with (
        running_desk(write(tmp_path / "near", FILES)) as desk,
        bench(desk) as it,  # type: ignore[arg-type]
    ):
        await opened(it, desk, "tool:add")
        call = add(desk, 1)
        await it.until(lambda: "→ request" in it.shown())
        await it.pilot.press("a", *"by hand", "ctrl+r")
        await it.until(call.outcome.done)
        assert "by hand" in text(call)
        await it.pilot.press("escape", "G", "enter")
        await it.until(lambda: "answered by hand at the desk: the server" in it.shown())
        assert "a: 1" in it.shown() and "this went on" not in it.shown()
        (one,) = (one for one in desk.traffic.exchanges if one.name == "add")
        assert summary(desk.traffic, one).arguments == "a=1, b=2"


@pytest.mark.slow
async def test_answers_are_held_and_all_go_on_when_the_rule_is_taken_away(tmp_path: Path) -> None:
    async with (
        running_desk(write(tmp_path / "near", FILES)) as desk,
        bench(desk) as it,  # type: ignore[arg-type]
    ):
        await opened(it, desk, "tool:add")
        dialog = it.app.screen
        assert isinstance(dialog, HoldDialog)
        dialog.query_one("LineField").focus()
        await it.pilot.press("tab", "right", "right")
        await it.until(lambda: desk.feature_part(HoldView).directions == "both")
        await it.pilot.press("left", "enter")
        await it.until(
            lambda: desk.feature_part(HoldView).directions == "answers" and dialog.listing.has_focus
        )
        await it.pilot.click("HoldDialog TabStrip", offset=(3, 0))
        await it.until(lambda: desk.feature_part(HoldView).directions == "requests")
        await it.pilot.click("HoldDialog TabStrip", offset=(12, 0))
        await it.until(lambda: desk.feature_part(HoldView).directions == "answers")
        calls = [add(desk, number) for number in range(3)]
        await it.until(lambda: it.shown().count("← answer") == 3)
        await it.pilot.press("space")
        await it.until(lambda: "release in 5 s" in it.shown())
        await it.pilot.press("end", "up", "enter")
        await it.until(lambda: "released in" in it.shown())
        await it.pilot.press("space")
        await it.until(lambda: "release all messages" in it.shown())
        await it.pilot.press("end", "enter")
        await it.until(lambda: all(call.outcome.done() for call in calls))
        held = add(desk, 7)
        await it.until(lambda: bool(desk.feature_part(HoldView).messages))
        await it.pilot.press("escape")
        await it.until(lambda: it.shown().count("‖ held") == 1 and "1 held" in it.shown())
        await it.pilot.press("1")
        await it.until(lambda: it.app.main.shown == "workbench" and it.shown().count("‖ held") == 1)
        await it.pilot.press("2")
        await it.until(lambda: it.app.main.shown == "traffic")
        await choose(it, "hold messages")
        await it.until(lambda: isinstance(it.app.screen, HoldDialog))
        it.app.screen.query_one("LineField").focus()
        await it.pilot.press("ctrl+u", "enter")
        await it.until(lambda: held.outcome.done() and not desk.feature_part(HoldView).rule)
        await it.pilot.press("escape")
        await it.until(lambda: not isinstance(it.app.screen, HoldDialog))
        await it.pilot.press("home", "enter", "enter", "shift+right")
        await it.until(lambda: "answer passed on after" in it.shown())


@pytest.mark.slow
async def test_f2_leaves_the_dialog_for_the_question_that_waits(tmp_path: Path) -> None:
    asks = """
        from mcpdesk import Context

        async def ask(context: Context) -> str:
            form = {"type": "object", "properties": {"name": {"type": "string"}}}
            return str((await context.elicit("Who is there?", form)).action)
        """
    async with (
        running_desk(write(tmp_path / "near", {**FILES, "tools/asks.py": asks})) as desk,
        bench(desk) as it,  # type: ignore[arg-type]
    ):
        await opened(it, desk, "tool:add")
        desk.request("near", "tools/call", {"name": "ask", "arguments": {}})
        await it.until(lambda: bool(it.app.main.questions.waiting))
        await it.pilot.press("f2")
        await it.until(lambda: isinstance(it.app.screen, QuestionScreen))
        await it.until(lambda: "Who is there?" in it.shown())
        assert desk.feature_part(HoldView).rule == "tool:add"


@pytest.mark.slow
async def test_keys_are_for_the_first_message_that_comes_unless_the_filter_is_being_changed(
    tmp_path: Path,
) -> None:
    async with (
        running_desk(write(tmp_path / "near", FILES)) as desk,
        bench(desk, size=(80, 24)) as it,  # type: ignore[arg-type]
    ):
        await opened(it, desk, "tool:add")
        await it.pilot.press("escape")
        await choose(it, "hold messages")
        await it.until(lambda: isinstance(it.app.screen, HoldDialog))
        first = add(desk, 1)
        await it.until(lambda: "→ request" in it.shown())
        await it.pilot.press("r")
        assert "3" in text(first)
        await it.until(lambda: "none held" in it.shown())
        await it.pilot.press("escape")
        await choose(it, "hold messages")
        await it.until(lambda: isinstance(it.app.screen, HoldDialog) and "none held" in it.shown())
        await it.pilot.press("slash", "end", "x")
        second = add(desk, 2)
        await it.until(lambda: "→ request" in it.shown())
        await it.pilot.press("r")
        assert not second.outcome.done() and "xr" in it.shown()


@pytest.mark.slow
async def test_when_nothing_waits_any_more_an_empty_filter_ends_it_by_keys(tmp_path: Path) -> None:
    async with (
        running_desk(write(tmp_path / "near", FILES)) as desk,
        bench(desk, size=(80, 24)) as it,  # type: ignore[arg-type]
    ):
        await opened(it, desk, "tool:add")
        await it.pilot.press("slash", "ctrl+u", *"nonsense:x", "enter")
        await it.until(lambda: bool(it.app.screen.query(".keys.-wrong")))
        assert "nonsense" in it.shown() and desk.feature_part(HoldView).rule == "tool:add"
        await it.pilot.press("ctrl+u", *"tool:add", "enter")
        await it.until(lambda: isinstance(it.app.focused, HeldList))
        for keys in (["r"], ["enter", "ctrl+r"]):
            call = add(desk, 1)
            await it.until(lambda: "→ request" in it.shown() and isinstance(it.app.focused, HeldList))
            await it.pilot.press(*keys)
            await it.until(lambda: "none held" in it.shown())
            await it.pilot.pause()
            assert call.outcome.done() and isinstance(it.app.focused, HeldList)
        await it.pilot.press("slash", "ctrl+u", "enter")
        await it.until(lambda: toasts(it.app)[-1:] == ["Holding is off"])
        assert not desk.feature_part(HoldView).rule and isinstance(it.app.focused, LineField)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_esc_leaves_the_editor_for_the_list_and_the_keys_named_are_those_of_the_focus(
    size: tuple[int, int], tmp_path: Path
) -> None:
    async with (
        running_desk(write(tmp_path / "near", FILES)) as desk,
        bench(desk, size=size) as it,  # type: ignore[arg-type]
    ):
        await it.pilot.press("2")
        await it.until(lambda: bool(it.app.screen.query("TrafficList")))
        await choose(it, "hold messages")
        await it.until(lambda: "enter start holding" in it.shown() and "esc close" in it.shown())
        await it.pilot.press(*"tool:add", "enter")
        await it.until(lambda: isinstance(it.app.focused, HeldList) and "none held" in it.shown())
        assert "esc close" in it.shown()
        await it.pilot.press("1")
        held = add(desk, 1)
        await it.until(lambda: "r release" in it.shown())
        assert desk.feature_part(HoldView).rule == "tool:add"
        for key, sends in (("enter", "ctrl+r release as shown"), ("a", "ctrl+r send this answer")):
            await it.pilot.press(key)
            await it.until(lambda sends=sends: sends in it.shown())  # type: ignore[misc]
            assert "x drop" not in it.shown() and "esc back to the list" in it.shown()
            await it.pilot.press("escape")
            await it.until(lambda: isinstance(it.app.focused, HeldList) and "x drop" in it.shown())
            assert "ctrl+r" not in it.shown()
        await it.pilot.press("r")
        await it.until(held.outcome.done)
        assert "3" in text(held) and desk.feature_part(HoldView).rule == "tool:add"


@pytest.mark.slow
async def test_what_is_typed_for_a_held_message_stays_until_the_message_is_gone(tmp_path: Path) -> None:
    async with (
        running_desk(write(tmp_path / "near", FILES)) as desk,
        bench(desk, size=(80, 24)) as it,  # type: ignore[arg-type]
    ):
        await opened(it, desk, "tool:add")
        first, second = add(desk, 1), add(desk, 10)
        await it.until(lambda: it.shown().count("→ request") == 2)
        await it.pilot.press("enter", "0")
        await it.until(lambda: '"a": 10,' in it.shown() and "→✎request" in it.shown())
        await it.pilot.press("escape", "a", *"by hand")
        await it.until(lambda: '"text": "by hand"' in it.shown())
        await it.pilot.press("escape", "escape")
        await it.until(lambda: it.app.screen is it.app.main and " e edit " in it.shown())
        await it.pilot.press("e")
        await it.until(lambda: isinstance(it.app.screen, HoldDialog))
        assert it.app.screen.query_one(HeldList).cursor == 1, "the message of the selected line"
        it.app.screen.query_one(HeldList).focus()  # `e` began in the text
        await it.pilot.press("home")
        await it.until(lambda: isinstance(it.app.screen, HoldDialog) and '"a": 10,' in it.shown())
        assert "r release as changed" in it.shown()
        await it.pilot.press("j")
        await it.until(lambda: "r release ·" in it.shown())
        await it.pilot.press("a")
        await it.until(lambda: '"text": ""' in it.shown())
        await it.pilot.press("escape", "k", "a")
        await it.until(lambda: '"text": "by hand"' in it.shown())
        await it.pilot.press("escape", "r")
        await it.until(first.outcome.done)
        assert "12" in text(first) and not second.outcome.done()
        await it.until(lambda: "tools/call add was released, changed" in it.app.news_log[-1][2])
        await it.until(lambda: "→✎request" not in it.shown())
        await it.pilot.press("r")
        await it.until(second.outcome.done)


@pytest.mark.slow
async def test_statistics_do_not_count_the_time_a_person_held_a_call(tmp_path: Path) -> None:
    async with (
        running_desk(write(tmp_path / "near", FILES)) as desk,
        bench(desk) as it,  # type: ignore[arg-type]
    ):
        await opened(it, desk, "tool:add")
        held = add(desk, 1)
        await it.until(lambda: any(time() - one.since > 2 for one in desk.feature_part(HoldView).messages))
        await it.until(lambda: isinstance(it.app.focused, HeldList))
        await it.pilot.press("r")
        await it.until(held.outcome.done)
        await it.pilot.press("escape", "6")
        await it.until(lambda: "1 call " in it.shown() and "slowest" in it.shown())
        (tally,) = desk.traffic.statistics.sums(Subject.TOOL).values()
        assert tally.calls == 1 and tally.slowest_s < 2
