"""The view of a call's outcome."""

from __future__ import annotations

from functools import partial

import orjson
import pytest

from mcpdesk.features import VARIABLE
from mcpdesk.link.values import CallOutcome, Progress
from mcpdesk.tui.results.result_view import (
    MAX_MARKS,
    LinkChip,
    ResultView,
    RunningView,
    schema_marks,
    verdict,
)
from tests.support.fake_link import FakeCall
from tests.support.patience import until
from tests.support.widgets import staged


def outcome(
    result: dict[str, object] | None = None, error: dict[str, object] | None = None, **more: bool
) -> CallOutcome:
    body = {"error": error} if error else {"result": result}
    return CallOutcome(result, error, orjson.dumps({"jsonrpc": "2.0", "id": 1, **body}), 0.0031, **more)


def test_verdicts_say_it_in_glyph_and_word() -> None:
    assert verdict(outcome({}))[0] == "✓ ok 3.1 ms 36 B"
    assert verdict(outcome({"isError": True}))[0].startswith("✗ tool error 3.1 ms")
    assert verdict(outcome(None, {"code": -32602, "message": "x"}))[0].startswith(
        "✗ protocol error -32602 3.1 ms"
    )
    cancelled = CallOutcome(None, {"code": 1}, b"", 2.0, cancelled=True)
    assert verdict(cancelled)[0] == "⊘ cancelled 2.0 s"
    assert verdict(cancelled, is_still_running=True)[0] == "⊘ stopped waiting 2.0 s"


async def test_blocks_are_drawn_in_order() -> None:
    view = ResultView()
    content = [
        {"type": "text", "text": "plain [b]text[/b] \x1b[31m"},
        {"type": "text", "text": "# Title\n\n* point"},
        {"type": "text", "text": '{"a": 1}'},
        {"type": "resource_link", "uri": "x://y", "name": "why"},
    ]
    async with staged(view) as (stage, pilot):
        await view.show(outcome({"content": content}), {})
        await until(lambda: "x://y" in stage.shown() and "Title" in stage.shown(), pilot)
        positions = [
            stage.shown().index(words) for words in ("plain [b]text[/b] ␛[31m", "Title", "a: 1", "why")
        ]
        assert positions == sorted(positions)
        view.query_one(LinkChip).focus()
        await pilot.press("enter")
        followed = [one.uri for one in stage.heard if isinstance(one, ResultView.Followed)]
        assert followed == ["x://y"]


async def test_an_image_is_described_if_nothing_draws_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "pictures")
    view = ResultView()
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    async with staged(view) as (stage, pilot):
        await view.show(outcome({"content": [image]}), {})
        await until(lambda: "image/png, 3 B · w saves it" in stage.shown(), pilot)


async def test_a_result_can_be_maximised_from_each_of_its_tabs() -> None:
    view = ResultView()
    async with staged(view) as (stage, _):
        await view.show(outcome({"content": [{"type": "text", "text": "long"}]}), {})
        for inner in ("#content", "#structured", "#raw"):
            assert stage.screen.maximize(view.query_one(inner))
            assert stage.screen.maximized is view
            stage.screen.minimize()


async def test_tabs_show_structured_content_and_the_raw_message() -> None:
    view = ResultView()
    async with staged(view) as (stage, pilot):
        await view.show(outcome({"content": [], "structuredContent": {"n": 5}}), {("n",): "5 is too much"})
        view.action_show_tab(1)
        await until(lambda: "n: 5  ✗ 5 is too much" in stage.shown(), pilot)
        view.action_show_tab(1)
        await until(lambda: 'jsonrpc: "2.0"' in stage.shown(), pilot)


async def test_a_refusal_names_the_key_that_gives_a_token() -> None:
    view = ResultView()
    async with staged(view) as (stage, pilot):
        for code, told in ((-32001, "F6 sets a token"), (-32003, "F6 sets another token")):
            await view.show(outcome(None, {"code": code, "message": "no"}), {})
            await until(partial(lambda hint: hint in stage.shown(), told), pilot)
        cannot = "Cannot send 'elicitation/create': this transport context has no back-channel."
        await view.show(outcome(None, {"code": -32600, "message": cannot}), {})
        await until(lambda: "selects an older revision" in stage.shown(), pilot)
        words = "Elicitation: server-initiated requests are unavailable on 2026-07-28 connections"
        failed = {"isError": True, "content": [{"type": "text", "text": words}]}
        await view.show(outcome(failed), {})
        await until(lambda: "the tool reports" in stage.shown() and "selects an old" in stage.shown(), pilot)
        await view.show(outcome(None, {"code": -32602, "message": "unknown"}), {})
        await until(lambda: "unknown" in stage.shown(), pilot)
        assert "token" not in stage.shown()


async def test_errors_show_message_and_data() -> None:
    view = ResultView()
    async with staged(view) as (stage, pilot):
        await view.show(outcome(None, {"code": -32602, "message": "bad [args]", "data": {"why": "so"}}), {})
        await until(lambda: "bad [args]" in stage.shown() and 'why: "so"' in stage.shown(), pilot)


@pytest.mark.slow
async def test_an_answer_that_is_no_json_is_shown_as_it_came() -> None:
    view = ResultView()
    async with staged(view) as (stage, pilot):
        await view.show(CallOutcome(None, {"code": 1, "message": "x"}, b"<html>", 0.1), {})
        view.action_show_tab(-1)
        await until(lambda: "<html>" in stage.shown(), pilot)


@pytest.mark.slow
async def test_what_a_search_in_a_block_finds_is_on_the_screen() -> None:
    view = ResultView()
    rows = {f"key{number}": number for number in range(60)}
    content = [
        {"type": "text", "text": "\n".join(f"line {number}" for number in range(9))},
        {"type": "text", "text": orjson.dumps({**rows, "needle": "FOUND"}).decode()},
        {"type": "text", "text": "the end"},
    ]
    async with staged(view, (60, 12)) as (stage, pilot):
        await view.show(outcome({"content": content}), {})
        await until(lambda: "line 8" in stage.shown(), pilot)
        view.query_one("JsonTree.block").focus()
        await pilot.press("slash", *"needle")
        await until(lambda: "FOUND" in stage.shown(), pilot)
        assert "/needle" in stage.shown(), "what is searched for is on the screen, too"
        view.content.scroll_home(animate=False)
        await pilot.press("enter", "n")
        await until(lambda: "FOUND" in stage.shown(), pilot)


async def test_a_new_result_begins_at_its_top_and_keys_go_to_both_ends() -> None:
    view = ResultView()

    def lines_of(word: str) -> CallOutcome:
        text = "\n".join(f"{word} {number}." for number in range(60))
        return outcome({"content": [{"type": "text", "text": text}]})

    async with staged(view, (60, 12)) as (stage, pilot):
        await view.show(lines_of("old"), {})
        view.content.focus()
        await pilot.press("G")
        await until(lambda: "old 59." in stage.shown(), pilot)
        await pilot.press("home")
        await until(lambda: "old 0." in stage.shown(), pilot)
        await pilot.press("G")
        await until(lambda: "old 59." in stage.shown(), pilot)
        await view.show(lines_of("new"), {})
        await until(lambda: "new 0." in stage.shown(), pilot)


async def test_a_tab_without_anything_to_show_says_so_and_does_not_show_null() -> None:
    view = ResultView()
    async with staged(view) as (stage, pilot):
        view.action_show_tab(1)
        await until(lambda: "No message yet." in stage.shown(), pilot)
        await view.show(outcome({"content": [{"type": "text", "text": "hi"}]}), {})
        await until(lambda: "No structured content." in stage.shown(), pilot)
        assert "null" not in stage.shown()
        await view.show(outcome({"content": [], "structuredContent": {"a": "there"}}), {})
        await until(lambda: "there" in stage.shown(), pilot)


async def test_progress_and_logs_appear_as_they_come() -> None:
    call = FakeCall("tools/call", {}, 1)
    async with staged(RunningView(call)) as (stage, pilot):
        await until(lambda: "running …" in stage.shown(), pilot)
        call.progress = Progress(1, 4, "one [b]of four")
        call.logs.append("\x1b[2Jfirst line")
        parts = ("25% (1 of 4)", "one [b]of four", "␛[2Jfirst line")
        await until(lambda: all(part in stage.shown() for part in parts), pilot)
        call.progress = Progress(7)
        await until(lambda: "25%" not in stage.shown() and "7" in stage.shown(), pilot)


def test_violations_are_found_at_their_path() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}
    assert schema_marks(schema, {"a": [1, "x"]}) == {("a", 1): "must be an integer, not a string"}


def test_a_missing_part_is_marked_at_its_parent() -> None:
    schema = {
        "properties": {"a": {"required": ["b"], "properties": {"b": {}}, "additionalProperties": False}}
    }
    assert schema_marks(schema, {"a": {}}) == {("a",): "b is required"}
    assert schema_marks(schema, {"a": {"b": 1, "c": 1}}) == {("a", "c"): "is not known; allowed: b"}


def test_a_pattern_of_a_server_does_not_hold_up_the_screen() -> None:
    marks = schema_marks({"properties": {"a": {"pattern": "^(a|aa)+(?=b)b$"}}}, {"a": "a" * 500})
    assert marks[("a",)].startswith("takes too many steps to check against the pattern ")


def test_nothing_is_said_without_schema_or_value_or_with_a_broken_one() -> None:
    assert schema_marks(None, {}) == {}
    assert schema_marks({"type": "object"}, None) == {}
    assert schema_marks({"type": 5}, {}) == {}
    assert schema_marks({"$ref": "https://example.org/x"}, {}) == {}


def test_marks_are_bounded() -> None:
    assert len(schema_marks({"items": {"type": "string"}}, list(range(1000)))) == MAX_MARKS
