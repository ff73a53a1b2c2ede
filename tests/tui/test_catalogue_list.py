from __future__ import annotations

from mcpdesk.link.values import CatalogueItem, ItemKind, ModeView
from mcpdesk.tui.workbench.catalogue_list import CatalogueList, CataloguePane
from tests.support.fake_link import sample_catalogue
from tests.support.widgets import staged, until


async def test_items_reasons_marks_and_badges_are_in_sight() -> None:
    pane = CataloguePane()
    async with staged(pane, (40, 24)) as (stage, pilot):
        pane.rows.load(sample_catalogue())
        await pilot.pause()
        shown = stage.shown()
        for words in ("▾ Tools", "● user-profile", "✕ send-mail", "needs MAIL_TOKEN", "◌ clock", "! ↗"):
            assert words in shown


async def test_moving_passes_over_reasons_and_tells_the_item() -> None:
    pane = CataloguePane()
    async with staged(pane, (40, 24)) as (stage, pilot):
        pane.rows.load(sample_catalogue())
        pane.rows.focus()
        await pilot.press("j", "j", "j", "j", "j")
        assert pane.rows.item is not None
        assert pane.rows.item.name == "resource://getting-started"
        told = [one.item.name for one in stage.heard if isinstance(one, CatalogueList.Highlighted)]
        assert told[-1] == "resource://getting-started"


async def test_groups_fold_by_key_and_click() -> None:
    pane = CataloguePane()
    async with staged(pane, (40, 24)) as (stage, pilot):
        pane.rows.load(sample_catalogue())
        pane.rows.focus()
        await pilot.press("left")
        assert "▸ Tools" in stage.shown()
        assert "place-order" not in stage.shown()
        await pilot.press("right")
        assert "place-order" in stage.shown()


async def test_the_filter_narrows_while_typing_and_escape_clears_it() -> None:
    pane = CataloguePane()
    async with staged(pane, (40, 24)) as (stage, pilot):
        pane.rows.load(sample_catalogue())
        pane.filter.focus()
        await pilot.press(*"order")
        await until(pilot, lambda: "1/4" in stage.shown() and "user-profile" not in stage.shown())
        await pilot.press("down", "escape")
        await until(pilot, lambda: "user-profile" in stage.shown())
        assert pane.filter.value == ""


async def test_a_reload_keeps_the_cursor_on_its_item() -> None:
    pane = CataloguePane()
    async with staged(pane, (40, 24)) as (_, pilot):
        pane.rows.load(sample_catalogue())
        pane.rows.select(ItemKind.PROMPT, "greet")
        pane.rows.load((CatalogueItem(ItemKind.TOOL, "aaa", "aaa"), *sample_catalogue()))
        await pilot.pause()
        assert pane.rows.item is not None
        assert pane.rows.item.name == "greet"


async def test_a_hidden_item_is_revealed() -> None:
    pane = CataloguePane()
    async with staged(pane, (40, 24)) as (_, pilot):
        pane.rows.load(sample_catalogue())
        pane.filter.value = "order"
        await pilot.pause()
        pane.reveal(next(one for one in sample_catalogue() if one.name == "greet"))
        await pilot.pause()
        assert pane.rows.item is not None
        assert pane.rows.item.name == "greet"


async def test_two_thousand_items_stay_fluid() -> None:
    pane = CataloguePane()
    async with staged(pane, (40, 24)) as (_, pilot):
        pane.rows.load(tuple(CatalogueItem(ItemKind.TOOL, f"tool-{n}", f"tool-{n}") for n in range(2000)))
        pane.rows.focus()
        await pilot.press("G")
        assert pane.rows.item is not None
        assert pane.rows.item.name == "tool-1999"
        pane.rows.filter("tool-1234")
        assert pane.rows.item is not None
        assert pane.rows.item.name == "tool-1234"


async def test_a_key_asks_for_the_next_policy_of_a_tool_and_of_nothing_else() -> None:
    pane = CataloguePane()
    async with staged(pane, (40, 24)) as (stage, pilot):
        pane.rows.load(sample_catalogue())
        pane.rows.focus()
        pane.rows.select(ItemKind.TOOL, "place-order")
        await pilot.press("p")
        pane.rows.select(ItemKind.PROMPT, "greet")
        await pilot.press("p")
        asked = [one.item.name for one in stage.heard if isinstance(one, CatalogueList.PolicyAsked)]
        assert asked == ["place-order"]
        assert [one.message for one in stage._notifications] == ["Only tools have a policy."]


async def test_the_tools_of_a_mode_are_shown_and_all_of_them_again() -> None:
    pane = CataloguePane()
    review = ModeView(
        "review", "Look, change nothing.", ("user-profile",), (("lok", "there is no tool 'lok'"),)
    )
    async with staged(pane, (60, 30)) as (stage, pilot):
        pane.rows.load(sample_catalogue(), (review,))
        pane.rows.focus()
        await pilot.press("m")
        await until(pilot, lambda: "1 tool, 1 missing" in stage.shown())
        await pilot.press("1")
        await until(pilot, lambda: "▾ Tools of review" in stage.shown())
        assert "✕ lok" in stage.shown() and "place-order" not in stage.shown()
        assert pane.rows.item is not None and pane.rows.item.name == "user-profile"
        pane.rows.load(sample_catalogue()[:1], (review,))
        await pilot.press("m")
        await until(pilot, lambda: "all tools  1 tool " in stage.shown())
        await pilot.press("1")
        pane.rows.load(sample_catalogue()[1:], (ModeView("review", "", ("place-order",)),))
        await until(pilot, lambda: "place-order" in stage.shown() and "lok" not in stage.shown())
        await pilot.press("m")
        await until(pilot, lambda: "all tools" in stage.shown())
        await pilot.press("0")
        await until(pilot, lambda: "slow-report" in stage.shown())


async def test_a_server_without_modes_says_how_to_have_some() -> None:
    pane = CataloguePane()
    async with staged(pane, (60, 24)) as (stage, pilot):
        pane.rows.load(sample_catalogue())
        pane.rows.focus()
        await pilot.press("m")
        assert any("mcp.json names them" in one.message for one in stage._notifications)


async def test_keys_in_an_empty_catalogue_do_nothing() -> None:
    pane = CataloguePane()
    async with staged(pane, (40, 20)) as (stage, pilot):
        pane.rows.load(())
        pane.rows.focus()
        await pilot.press("left", "right", "h", "l", "j", "k", "g", "G", "enter", "p", "space")
        assert pane.rows.has_focus and pane.rows.item is None
        pane.rows.load(sample_catalogue())
        await until(pilot, lambda: "slow-report" in stage.shown())
