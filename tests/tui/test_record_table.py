"""A list of objects as a table: sorted, filtered, copied, saved, and back to its JSON."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest

from mcpdesk.tui.results.record_table import RecordTable
from mcpdesk.tui.results.records import as_csv, as_table, records_of, sorted_rows
from mcpdesk.tui.results.result_content import savable_parts
from mcpdesk.tui.results.result_view import ResultView
from tests.support.frame import toasts
from tests.support.patience import until
from tests.support.widgets import staged
from tests.support.workbench import bench
from tests.tui.test_result_view import outcome

PEOPLE: list[dict[str, Any]] = [
    {"name": "Ada", "age": 36},
    {"name": "bob|x", "age": 9, "tags": ["a"]},
    {"name": None, "age": "old"},
    {"name": 'Cy "2", Jr', "age": 100},
]


@pytest.mark.parametrize(
    ("structured", "values", "path"),
    [
        (PEOPLE, [], ()),
        ({"result": PEOPLE, "total": 4}, [], ("result",)),
        (None, [PEOPLE], ()),
        (None, [{"items": PEOPLE}], ("items",)),
        (None, PEOPLE, ()),
    ],
)
def test_lists_of_objects_are_found_where_results_hold_them(structured: Any, values: Any, path: Any) -> None:
    found = records_of(structured, values)
    assert found is not None and found.path == path
    assert list(found.rows) == PEOPLE and found.columns == ("name", "age", "tags")


@pytest.mark.parametrize("value", [[], [1], [{}], {"a": 1}, {"a": PEOPLE, "b": PEOPLE}, "text", [PEOPLE, 1]])
def test_what_is_no_list_of_objects_is_no_table(value: Any) -> None:
    assert records_of(value, []) is None


def test_numbers_come_before_texts_and_nothing_comes_last() -> None:
    found = records_of(PEOPLE, [])
    assert found is not None
    assert sorted_rows(range(4), found, "age", is_descending=False) == [1, 0, 3, 2]
    assert sorted_rows(range(4), found, "age", is_descending=True) == [2, 3, 0, 1]
    assert sorted_rows(range(4), found, "name", is_descending=False) == [0, 1, 3, 2]


def test_csv_and_markdown_keep_what_looks_like_their_signs() -> None:
    columns = ("name", "age", "tags")
    assert (
        as_csv(PEOPLE, columns) == 'name,age,tags\nAda,36,\nbob|x,9,"[""a""]"\n,old,\n"Cy ""2"", Jr",100,\n'
    )
    assert as_table(PEOPLE[:2], columns) == (
        '| name | age | tags |\n| --- | --- | --- |\n| Ada | 36 |  |\n| bob\\|x | 9 | ["a"] |\n'
    )
    names = [part.name for part in savable_parts({"structuredContent": PEOPLE, "content": []}, "../my tool")]
    assert names == ["my-tool.csv", "my-tool.md", "my-tool.json"]


@pytest.mark.slow
async def test_a_table_is_sorted_filtered_and_leads_to_the_object() -> None:
    view = ResultView()
    many = [{"name": f"person {number:03}", "age": number % 7, "note": "x" * 60} for number in range(200)]
    content = [{"type": "text", "text": orjson.dumps(many).decode()}]
    async with staged(view, (60, 14)) as (stage, pilot):
        await view.show(outcome({"content": content}), {})
        table = view.query_one(RecordTable)
        await until(lambda: table.size.height > 1 and "person 000" in stage.shown(), pilot)
        table.focus()
        await until(lambda: table.has_focus, pilot)
        await pilot.press("right", "s", "s")
        await until(lambda: "age↓" in stage.shown() and "person 006" in stage.shown(), pilot)
        await pilot.press("slash", *"19", "enter")
        await until(lambda: "12 of 200 rows" in stage.shown() and "person 195" in stage.shown(), pilot)
        await pilot.click(table, offset=(3, 0))
        await until(lambda: "name↑" in stage.shown(), pilot)
        await pilot.press("down", "enter")
        await until(lambda: 'name: "person 119"' in stage.shown(), pilot)
        view.action_show_tab(-1)
        await until(lambda: "12 of 200 rows" in stage.shown(), pilot)


@pytest.mark.slow
async def test_the_tab_that_was_chosen_stays_and_a_result_without_a_list_has_no_table() -> None:
    view = ResultView()
    async with staged(view) as (stage, pilot):
        await view.show(outcome({"content": [], "structuredContent": PEOPLE}), {})
        await until(lambda: "Cy" in stage.shown(), pilot)
        view.action_show_tab(1)
        await view.show(outcome({"content": [], "structuredContent": PEOPLE}), {})
        await until(lambda: "no content" in stage.shown() and "Table 4" in stage.shown(), pilot)
        view.action_show_tab(-1)
        table = view.query_one(RecordTable)
        await until(lambda: table.size.height > 1, pilot)
        table.load(None)
        assert stage.shown(), "it may be drawn before it is hidden"
        await view.show(outcome({"content": [{"type": "text", "text": "plain"}]}), {})
        await until(lambda: "plain" in stage.shown() and "Table" not in stage.shown(), pilot)


@pytest.mark.slow
async def test_the_last_column_is_whole_where_there_is_room_and_rows_are_copied_as_what_they_are() -> None:
    rows = [{"city": f"Bergen {number}", "online": True} for number in range(30)]
    async with bench() as it:
        await it.pilot.press("enter", "7", "ctrl+r")
        await it.until(lambda: "ok" in it.title)
        view = it.pane.item_pane.result
        await view.show(outcome({"content": [], "structuredContent": rows}), {})
        await it.until(lambda: "Bergen 0" in it.shown())
        assert re.search(r"Bergen 0 +true  ", it.shown()) and "true…" not in it.shown()
        view.query_one(RecordTable).focus()
        await it.pilot.press("y", "c")
        await it.until(lambda: toasts(it.app) == ["copied 30 rows as CSV"])
