"""Task lists on the activity screen: what is done is ticked, the current task is marked."""

from __future__ import annotations

from mcpdesk.link.values import TodoView
from mcpdesk.tui.activity.section import SectionList
from mcpdesk.tui.activity.todo_panel import TodoPanel, TodoRow
from mcpdesk.tui.screens.activity import ActivityPane
from mcpdesk.tui.widgets.menu import Menu
from tests.support.activity import activity, detail, link_with, part, row_texts, tabs, todo, until
from tests.support.fake_link import FakeLink


def sample() -> FakeLink:
    return link_with(
        todo(1, "Release", "x changelog", "tag", is_current=True),
        todo(2, "Chores", "x sweep", completed=5.0),
        todo(3, "Later"),
    )


def listing(pane: ActivityPane) -> SectionList[TodoView, TodoRow]:
    return part(pane, TodoPanel).listing


def rows(pane: ActivityPane) -> list[str]:
    return [" ".join(row.split()) for row in row_texts(listing(pane))]


async def test_the_current_task_comes_first_and_what_is_done_is_folded() -> None:
    async with activity(sample(), show="tasks") as (_, _, pane):
        assert rows(pane) == [
            "▾ ● current 1 Release 1/2",
            "✓ [x] 1 changelog",
            "[ ] 2 tag",
            "○ open 3 Later no steps",
            "▸ ✓ done 2 Chores 1/1",
        ]
        assert tabs(pane)[3] == "Tasks ○2"


async def test_enter_folds_and_the_selected_row_stays_selected() -> None:
    link = sample()
    async with activity(link, show="tasks") as (_, pilot, pane):
        await pilot.press("j", "enter")
        assert rows(pane)[0].startswith("▸ ● current") and len(rows(pane)) == 3
        assert listing(pane).cursor == 0
        await pilot.press("G", "space")
        assert rows(pane)[-1] == "✓ [x] 1 sweep" and listing(pane).cursor == 2
        link.todo_list = [*link.todo_list, todo(4, "New", is_current=False)]
        link.works()
        await until(pilot, lambda: any("New" in row for row in rows(pane)))
        chosen = listing(pane).selected
        assert chosen is not None and chosen[0].name == "Chores"


async def test_a_step_that_is_ticked_shows_at_once_and_in_full() -> None:
    link = link_with(todo(1, "Release", "a step\nof two lines \x1b[31m"))
    async with activity(link, show="tasks") as (_, pilot, pane):
        await pilot.press("j")
        panel = part(pane, TodoPanel)
        await until(pilot, lambda: "a step\nof two lines ␛[31m" in detail(panel))
        assert "open" in detail(panel) and "0 of 1 steps done" in detail(panel)
        link.todo_list = [todo(1, "Release", "x a step\nof two lines \x1b[31m")]
        link.works()
        await until(pilot, lambda: rows(pane)[1].startswith("✓ [x] 1 a step"))
        await until(pilot, lambda: "completed at" in detail(panel))


async def test_servers_are_named_where_there_are_several_and_words_narrow() -> None:
    link = link_with(todo(1, "Release"), todo(1, "Holidays", "pack", server="hello"))
    async with activity(link, show="tasks") as (_, pilot, pane):
        assert all(name in " ".join(rows(pane)) for name in ("profiles", "hello"))
        await pilot.press("slash", *"pack", "enter")
        assert len(rows(pane)) == 2 and "Holidays" in rows(pane)[0]


async def test_a_task_is_copied_as_a_list() -> None:
    async with activity(sample(), show="tasks") as (app, pilot, _):
        await pilot.press("y")
        await until(pilot, lambda: isinstance(app.screen, Menu))
        await pilot.press("t")
        await until(pilot, lambda: app.clipboard == "# Release\n\n- [x] changelog\n- [ ] tag")
