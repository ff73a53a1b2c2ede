"""Text fields: control characters are shown, and sent unchanged."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.widgets import Input

import mcpdesk.tui
from mcpdesk.tui.forms.argument_editor import JsonEditor
from mcpdesk.tui.results.json_tree import JsonTree
from mcpdesk.tui.widgets.fields import MAX_SEARCH_LENGTH, LineField, SearchField, cut_message
from mcpdesk.tui.widgets.text_field import TextField
from tests.support.driven import driven
from tests.support.hostile import COMMANDS, hostile
from tests.support.workbench import bench, link_with, tool

VALUES = {"line": hostile("l"), "text": f"{hostile('t')}\n\r\n\x85{hostile('u')}", "any": {"k": hostile("j")}}
SCHEMA = {
    "type": "object",
    "properties": {
        "line": {"type": "string", "default": VALUES["line"]},
        "text": {"type": "string", "default": VALUES["text"]},
        "any": {"default": VALUES["any"]},
        "named": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "default": {COMMANDS: COMMANDS},
        },
    },
}
SENT = {**VALUES, "named": {COMMANDS: COMMANDS}}


@pytest.mark.slow
def test_no_other_module_of_the_screen_makes_a_text_field() -> None:
    """A field of the toolkit would keep control characters."""
    found = []
    for path in Path(mcpdesk.tui.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            made = (
                [node.func]
                if isinstance(node, ast.Call)
                else node.bases
                if isinstance(node, ast.ClassDef)
                else []
            )
            names = {each.id for each in made if isinstance(each, ast.Name)}
            found += [path.name] if names & {"Input", "MaskedInput", "TextArea"} else []
    assert sorted(found) == ["fields.py", "text_field.py"]


@pytest.mark.slow
async def test_arguments_with_control_characters_are_sent_as_they_are_as_form_and_as_json() -> None:
    async with bench(link_with(tool("echo", SCHEMA)), size=(120, 60)) as desk:
        fields = [*desk.app.screen.query(LineField), *desk.app.screen.query(TextField)]
        assert len(fields) > 4 and not any("\x1b" in getattr(each, "value", "") for each in fields)
        await desk.pilot.press("ctrl+r")
        await desk.until(lambda: len(desk.sent) == 1)
        assert desk.sent[0][1]["arguments"] == SENT
        await desk.pilot.press("ctrl+e")
        editor = desk.app.screen.query_one(JsonEditor)
        assert (
            editor.value() == SENT
            and "\\u001b" in editor.area.entered_text
            and "\\u009b" in editor.area.entered_text
        )
        await desk.pilot.press("ctrl+e")
        await desk.pilot.press("ctrl+r")
        await desk.until(lambda: len(desk.sent) == 2)
        assert desk.sent[1][1]["arguments"] == SENT


class Fields(App[None]):
    def compose(self) -> ComposeResult:
        yield LineField()
        yield TextField()


async def test_a_paste_is_stored_as_placeholders_and_undone_in_one_step() -> None:
    async with driven(Fields()) as pilot:
        line, text = pilot.app.query_one(LineField), pilot.app.query_one(TextField)
        for field in (line, text):
            field.focus()
            await pilot.pause()
            pilot.app.post_message(events.Paste("a\x1b[31m"))
            await pilot.pause()
            assert field.entered_text == "a\x1b[31m"
            assert "\x1b" not in (field.value if isinstance(field, Input) else field.text)
        text.undo()
        assert text.entered_text == ""
        text.insert("\x9b")
        text.replace("\x07", (0, 0), (0, 0))
        assert text.entered_text == "\x07\x9b" and not {"\x07", "\x9b"} & set(text.text)
        line.value = "\x07set\x1b"
        assert (
            line.entered_text == "\x07set\x1b"
            and line.value.isprintable() is False
            and "\x1b" not in line.value
        )


async def test_a_search_takes_as_much_of_a_paste_as_its_limit_allows_and_reports_the_rest() -> None:
    class Searching(App[None]):
        """A search field, and a tree to search."""

        def __init__(self) -> None:
            super().__init__()
            self.told: list[str] = []

        def compose(self) -> ComposeResult:
            yield SearchField()
            yield JsonTree({"a": 1})

        def notify(self, message: str, **_: Any) -> None:
            self.told.append(message)

    app = Searching()
    async with driven(app) as pilot:
        field, tree = app.query_one(SearchField), app.query_one(JsonTree)
        field.focus()
        field.value = "ab"
        field.cursor_position = 2
        await pilot.pause()
        app.post_message(events.Paste("x" * (MAX_SEARCH_LENGTH + 5) + "\nnext line"))
        await pilot.pause()
        assert field.value == "ab" + "x" * (MAX_SEARCH_LENGTH - 2)
        await pilot.press("y")
        assert len(field.value) == MAX_SEARCH_LENGTH and app.told == [cut_message(7), cut_message(1)]
        tree.focus()
        await pilot.press("slash", "a")
        app.post_message(events.Paste("x" * MAX_SEARCH_LENGTH))
        await pilot.pause()
        assert tree.query_text == "a" + "x" * (MAX_SEARCH_LENGTH - 1) and app.told[2:] == [cut_message(1)]


async def test_the_cursor_stands_behind_as_many_cells_as_are_drawn() -> None:
    async with driven(Fields()) as pilot:
        line = pilot.app.query_one(LineField)
        line.entered_text = "a\x1b\x9bb"
        await pilot.pause()
        left = line.cursor_screen_offset.x
        line.cursor_position = 0
        assert left - line.cursor_screen_offset.x == len("a\x1b\x9bb") + 1  # one more at the end of the text


@pytest.mark.slow
async def test_what_is_copied_out_of_a_field_is_what_is_meant() -> None:
    async with bench(link_with(tool("echo", SCHEMA))) as desk:
        field = desk.app.screen.query(LineField).filter("TextPart Input").first(LineField)
        field.focus()
        field.select_all()
        field.action_copy()
        assert desk.app.clipboard == VALUES["line"]
        desk.app.copy_to_clipboard("half \ud800")
        assert json.dumps(desk.app.clipboard) == '"half ?"'


async def test_a_text_field_can_be_drawn_before_its_styles_are_there() -> None:
    """A theme change or the mouse may cause a drawing during the mount."""

    class Fields(App[None]):
        def compose(self) -> ComposeResult:
            yield TextField("other", id="there")

    async with driven(Fields()) as pilot:
        fresh = TextField("some text")
        assert [line.text for line in fresh.render_lines(Region(0, 0, 4, 2))] == [" " * 4] * 2
        await pilot.app.mount(fresh)
        await pilot.pause()
        drawn = fresh.render_lines(Region(0, 0, 20, 3))
        assert "some text" in "".join(line.text for line in drawn)
