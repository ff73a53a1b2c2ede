"""Arguments edited as a form or as JSON."""

from __future__ import annotations

import pytest
from textual.notifications import Notify

from mcpdesk.tui.forms.argument_editor import (
    MAX_HIGHLIGHTED_CHARACTERS,
    Arguments,
    JsonEditor,
    installed_grammar,
)
from mcpdesk.tui.widgets.choice_box import TabStrip
from mcpdesk.tui.workbench.drafts import Draft, Drafts
from tests.support.fake_link import FakeLink, sample_catalogue
from tests.support.frame import toasts
from tests.support.patience import until
from tests.support.widgets import staged
from tests.support.workbench import bench


def draft(name: str = "user-profile") -> Draft:
    item = next(one for one in sample_catalogue() if one.name == name)
    return Drafts(FakeLink()).of("profiles", item)


async def test_what_is_typed_is_checked_at_once() -> None:
    arguments = Arguments()
    async with staged(arguments) as (stage, pilot):
        await arguments.load(draft())
        arguments.focus_first()
        await pilot.press("x", "backspace")
        await until(lambda: '✗ "" is shorter than 1 character' in stage.shown(), pilot)
        await pilot.press("y")
        await until(lambda: "✗" not in stage.shown(), pilot)


@pytest.mark.slow
@pytest.mark.parametrize("is_json", [False, True])
async def test_that_a_second_call_sends_what_does_not_fit_is_said_while_it_is_so(
    is_json: bool,
) -> None:
    link = FakeLink()
    async with bench(link, size=(80, 24)) as it:
        await it.pilot.press("enter", *["ctrl+e"] * is_json, "ctrl+r")
        await it.until(lambda: "! 1 problem; ctrl+r again sends it anyway" in it.shown())
        assert not link.calls and not toasts(it.app)
        if is_json:
            it.pane.arguments.editor.area.text = '{"userId": "7"}'
        else:
            await it.pilot.press("7")
        await it.until(lambda: "sends it anyway" not in it.shown())
        if is_json:
            it.pane.arguments.editor.area.text = '{"userId": ""}'
        else:
            await it.pilot.press("backspace")
        await it.until(lambda: "is shorter than" in it.shown())
        await it.pilot.press("ctrl+r")
        await it.until(lambda: "sends it anyway" in it.shown())
        await it.pilot.press("ctrl+r")
        await it.until(lambda: bool(it.sent) and "sends it anyway" not in it.shown())


@pytest.mark.slow
async def test_json_has_all_the_rows_of_its_box() -> None:
    async with bench(size=(80, 24)) as it:
        await it.pilot.press("enter", "ctrl+e")
        await it.pilot.press("ctrl+end", "backspace", "}")
        box, below = it.pane.arguments, it.pane.query_one(".problem")
        heights = [box.editor.area, below, box.query_one(TabStrip)]
        await it.until(lambda: sum(each.size.height for each in heights) == box.content_size.height)


@pytest.mark.slow
async def test_json_text_survives_going_to_another_item() -> None:
    arguments = Arguments()
    first, second = draft(), draft("slow-report")
    async with staged(arguments) as (_, pilot):
        await arguments.load(first)
        await arguments.toggle()
        arguments.editor.area.text = '{"userId": '
        await until(lambda: first.text == '{"userId": ', pilot)
        await arguments.load(second)
        assert not arguments.is_json
        await arguments.load(first)
        assert arguments.editor.area.text == '{"userId": '


@pytest.mark.slow
async def test_values_put_in_are_shown_as_json_where_the_form_cannot() -> None:
    arguments = Arguments()
    async with staged(arguments):
        await arguments.load(draft())
        await arguments.put({"userId": "9"})
        assert not arguments.is_json
        await arguments.put({"userId": "9", "tags": 5})
        assert arguments.is_json
        assert arguments.value() == {"userId": "9", "tags": 5}


async def test_nothing_is_an_empty_object() -> None:
    editor = JsonEditor()
    async with staged(editor):
        editor.load("")
        assert (editor.problem, editor.value()) == ("", {})


async def test_json_is_highlighted_with_the_extra() -> None:
    assert installed_grammar().count("tree-sitter") == 2, "the extra `syntax` is part of `dev`"
    editor = JsonEditor()
    async with staged(editor) as (stage, pilot):
        editor.load('{"a": 1, "b": "x"}')
        await until(lambda: '"a"' in stage.shown(), pilot)
        assert editor.area.is_syntax_aware
        drawn = {segment.text: segment.style for segment in editor.area.render_line(0)}
        assert drawn['"a"'] != drawn["1"], "keys and numbers look different"


@pytest.mark.parametrize(
    "fault", [None, ValueError("Incompatible Language version 99"), OSError("json.so: no such file")]
)
async def test_an_extra_that_is_installed_and_broken_is_reported(
    monkeypatch: pytest.MonkeyPatch, fault: Exception | None
) -> None:
    def language(name: str) -> None:
        if fault is not None:
            raise fault

    monkeypatch.setattr("textual.widgets._text_area.get_language", language)
    editor = JsonEditor()
    async with staged(editor) as (stage, pilot):
        for text in ('{"a": 1}', '{"a": 2}'):
            editor.load(text)
            assert (editor.area.text, editor.area.language) == (text, None)
        await until(lambda: any(isinstance(each, Notify) for each in stage.heard), pilot)
        [told] = [each.notification.message for each in stage.heard if isinstance(each, Notify)]
        assert "the extra `syntax` (tree-sitter" in told and "is broken: " in told
        assert str(fault or "called 'json'") in told and "pip install" in told


async def test_long_texts_are_not_highlighted() -> None:
    editor = JsonEditor()
    async with staged(editor) as (_, pilot):
        editor.load('"' + "x" * MAX_HIGHLIGHTED_CHARACTERS + '"')
        assert editor.area.language is None
        editor.load("1")
        if editor.area.language is not None:
            editor.area.text = '"' + "x" * MAX_HIGHLIGHTED_CHARACTERS + '"'
            await pilot.pause()
        assert editor.area.text == "1" or editor.area.language is None
