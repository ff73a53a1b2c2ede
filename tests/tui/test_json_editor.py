from __future__ import annotations

import pytest

from mcpdesk.tui.forms.argument_editor import MAX_HIGHLIGHTED, JsonEditor
from tests.support.widgets import staged


async def test_a_text_is_edited_and_read() -> None:
    editor = JsonEditor()
    async with staged(editor) as (stage, pilot):
        editor.load('{"a": 1}')
        editor.area.focus()
        editor.area.move_cursor(editor.area.document.end)
        await pilot.press("backspace")
        assert editor.problem == "line 1, column 8: Expecting ',' delimiter"
        with pytest.raises(ValueError, match="line 1"):
            editor.value()
        await pilot.press("}")
        assert editor.value() == {"a": 1}
        editor.complain("[red]no")
        await pilot.pause()
        assert "✗ [red]no" in stage.shown()


async def test_nothing_is_an_empty_object() -> None:
    editor = JsonEditor()
    async with staged(editor):
        editor.load("")
        assert (editor.problem, editor.value()) == ("", {})


async def test_long_texts_are_not_highlighted() -> None:
    editor = JsonEditor()
    async with staged(editor) as (_, pilot):
        editor.load('"' + "x" * MAX_HIGHLIGHTED + '"')
        assert editor.area.language is None
        editor.load("1")
        if editor.area.language is not None:
            editor.area.text = '"' + "x" * MAX_HIGHLIGHTED + '"'
            await pilot.pause()
        assert editor.area.text == "1" or editor.area.language is None
