from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from mcpdesk.link.values import CatalogueItem, ItemKind, ModeView, Policy
from mcpdesk.tui.workbench.catalogue_list import (
    CatalogueList,
    CataloguePane,
    GroupRow,
    ItemRow,
    badges,
    catalogue_rows,
    items_in_mode,
)
from tests.support.fake_link import sample_catalogue
from tests.support.patience import until
from tests.support.widgets import Stage, staged


@asynccontextmanager
async def catalogue(*modes: ModeView) -> AsyncIterator[tuple[CataloguePane, Stage, Pilot[None]]]:
    """The sample catalogue, the focus on its rows."""
    pane = CataloguePane()
    async with staged(pane, (60, 30)) as (stage, pilot):
        pane.rows.load(sample_catalogue(), modes)
        pane.rows.focus()
        await pilot.pause()
        yield pane, stage, pilot


def name(pane: CataloguePane) -> str:
    """The name of the item under the cursor."""
    return pane.rows.item.name if pane.rows.item else ""


async def test_items_reasons_marks_and_badges_are_in_sight() -> None:
    async with catalogue() as (_, stage, _):
        for words in ("▾ Tools", "● user-profile", "✕ send-mail", "needs MAIL_TOKEN", "◌ clock", "! ↗"):
            assert words in stage.shown()


async def test_moving_passes_over_reasons_and_tells_the_item() -> None:
    async with catalogue() as (pane, stage, pilot):
        await pilot.press("j", "j", "j", "j", "j")
        assert name(pane) == "resource://getting-started"
        told = [one.item.name for one in stage.heard if isinstance(one, CatalogueList.Highlighted)]
        assert told[-1] == "resource://getting-started"


async def test_groups_fold_by_key_and_click() -> None:
    async with catalogue() as (_, stage, pilot):
        await pilot.press("left")
        assert "▸ Tools" in stage.shown()
        assert "place-order" not in stage.shown()
        await pilot.press("right")
        assert "place-order" in stage.shown()


BUILT_INS = tuple(
    CatalogueItem(ItemKind.TOOL, name, name, source="built-in") for name in ("Bash", "PlanMode", "ReadImage")
)


async def test_built_in_tools_are_a_folded_group_below_the_own_tools_and_stay_as_the_person_left_them() -> (
    None
):
    async with catalogue() as (pane, stage, pilot):
        pane.rows.load((*BUILT_INS, *sample_catalogue()))
        await until(lambda: "▸ Built-in tools" in stage.shown() and "Bash" not in stage.shown(), pilot)
        heading = next(line for line in stage.shown().splitlines() if "Built-in" in line)
        assert heading.rstrip(" │").endswith(" 3")
        assert stage.shown().index("user-profile") < stage.shown().index("Built-in tools")
        pane.rows.select(ItemKind.TOOL, "send-mail")
        await pilot.press("j", "right")
        await until(lambda: "▾ Built-in tools" in stage.shown() and "PlanMode" in stage.shown(), pilot)
        pane.rows.load((*BUILT_INS[:2], *sample_catalogue()))
        await until(lambda: "ReadImage" not in stage.shown() and "PlanMode" in stage.shown(), pilot)
        await pilot.press("left")
        pane.rows.load((*BUILT_INS, *sample_catalogue()))
        await until(lambda: "▸ Built-in tools" in stage.shown() and "PlanMode" not in stage.shown(), pilot)


async def test_folded_built_in_tools_are_found_by_the_filter_and_revealed() -> None:
    async with catalogue() as (pane, stage, pilot):
        pane.rows.load((*BUILT_INS, *sample_catalogue()))
        pane.filter.value = "planm"
        await until(lambda: "PlanMode" in stage.shown(), pilot)
        assert name(pane) == "PlanMode"
        pane.filter.value = ""
        await until(lambda: "user-profile" in stage.shown() and "PlanMode" not in stage.shown(), pilot)
        pane.reveal(BUILT_INS[2])
        await pilot.pause()
        assert name(pane) == "ReadImage"


async def test_built_in_tools_are_unfolded_on_a_server_without_other_tools_and_in_a_mode() -> None:
    review = ModeView("review", "", ("PlanMode", "user-profile"))
    async with catalogue() as (pane, stage, pilot):
        pane.rows.load(BUILT_INS)
        await until(lambda: "▾ Built-in tools" in stage.shown() and "Bash" in stage.shown(), pilot)
    rows = catalogue_rows(
        items_in_mode(review, (*BUILT_INS, *sample_catalogue())),
        "",
        frozenset({"built-in"}),
        has_built_in_group=False,
    )
    assert [row.item.name for row in rows if isinstance(row, ItemRow)][:2] == ["PlanMode", "user-profile"]


async def test_the_filter_narrows_while_typing_and_escape_clears_it() -> None:
    async with catalogue() as (pane, stage, pilot):
        pane.filter.focus()
        await pilot.press(*"orde")
        pane.rows.focus()
        await pilot.pause()
        pane.filter.focus()
        await pilot.press("r")
        assert pane.filter.value == "order", "it is continued, not replaced"
        await until(lambda: "1/4" in stage.shown() and "user-profile" not in stage.shown(), pilot)
        await pilot.press("down", "escape")
        await until(lambda: "user-profile" in stage.shown(), pilot)
        assert pane.filter.value == ""


async def test_a_reload_keeps_the_cursor_on_its_item() -> None:
    async with catalogue() as (pane, _, pilot):
        pane.rows.select(ItemKind.PROMPT, "greet")
        pane.rows.load((CatalogueItem(ItemKind.TOOL, "aaa", "aaa"), *sample_catalogue()))
        await pilot.pause()
        assert name(pane) == "greet"


async def test_a_hidden_item_is_revealed() -> None:
    async with catalogue() as (pane, _, pilot):
        pane.filter.value = "order"
        await pilot.pause()
        pane.reveal(next(one for one in sample_catalogue() if one.name == "greet"))
        await pilot.pause()
        assert name(pane) == "greet"


async def test_an_action_asks_for_the_next_policy_of_a_tool_and_of_nothing_else() -> None:
    async with catalogue() as (pane, stage, pilot):
        pane.rows.select(ItemKind.TOOL, "place-order")
        pane.rows.action_choose_policy()
        await pilot.pause()
        pane.rows.select(ItemKind.PROMPT, "greet")
        pane.rows.action_choose_policy()
        await pilot.pause()
        asked = [one.item.name for one in stage.heard if isinstance(one, CatalogueList.PolicyAsked)]
        assert asked == ["place-order"]
        assert [one.message for one in stage._notifications] == ["Only tools have a policy."]


@pytest.mark.slow
async def test_the_tools_of_a_mode_are_shown_and_all_of_them_again() -> None:
    missing = (("lok", "no tool 'lok'"),)
    review = ModeView("review", "Look, change nothing.", ("user-profile",), missing)
    async with catalogue(review) as (pane, stage, pilot):
        pane.rows.action_pick_mode()
        await until(lambda: "1 tool, 1 missing" in stage.shown(), pilot)
        await pilot.press("1")
        await until(lambda: "▾ Tools of review" in stage.shown(), pilot)
        assert "✕ lok" in stage.shown() and "place-order" not in stage.shown()
        assert name(pane) == "user-profile"
        pane.rows.load(sample_catalogue()[:1], (review,))
        pane.rows.action_pick_mode()
        await until(lambda: "all tools  1 tool " in stage.shown(), pilot)
        await pilot.press("1")
        pane.rows.load(sample_catalogue()[1:], (ModeView("review", "", ("place-order",)),))
        await until(lambda: "place-order" in stage.shown() and "lok" not in stage.shown(), pilot)
        pane.rows.action_pick_mode()
        await until(lambda: "all tools" in stage.shown(), pilot)
        await pilot.press("0")
        await until(lambda: "slow-report" in stage.shown(), pilot)


async def test_a_server_without_modes_says_how_to_have_some() -> None:
    async with catalogue() as (pane, stage, pilot):
        pane.rows.action_pick_mode()
        await until(lambda: any("mcp.json names" in one.message for one in stage._notifications), pilot)


async def test_keys_in_an_empty_catalogue_do_nothing() -> None:
    async with catalogue() as (pane, stage, pilot):
        pane.rows.load(())
        await pilot.press("left", "right", "h", "l", "j", "k", "g", "G", "enter", "p", "space")
        assert pane.rows.has_focus and pane.rows.item is None
        pane.rows.load(sample_catalogue())
        await until(lambda: "slow-report" in stage.shown(), pilot)


def names(query: str, folded: frozenset[ItemKind] = frozenset()) -> list[str]:
    found = catalogue_rows(sample_catalogue(), query, folded)
    return [row.item.name for row in found if isinstance(row, ItemRow)]


def test_groups_come_with_their_counts() -> None:
    found = catalogue_rows(sample_catalogue(), "", frozenset())
    groups = [(row.group, row.item_count) for row in found if isinstance(row, GroupRow)]
    assert groups == list(zip(list(ItemKind)[:4], (4, 4, 2, 2), strict=True))


def test_the_filter_is_fuzzy_over_names_reads_descriptions_and_unfolds() -> None:
    assert names("usprf")[0] == "user-profile"
    assert names("progress") == ["slow-report"]
    assert names("zzz") == []
    assert names("order", frozenset(ItemKind))[0] == "place-order"


def test_the_filter_ranks_and_says_what_it_matched() -> None:
    items = (CatalogueItem(ItemKind.TOOL, "deep-order", "x"), CatalogueItem(ItemKind.TOOL, "order", "x"))
    _, first, second = catalogue_rows(items, "order", frozenset())
    assert first == ItemRow(items[1], (0, 1, 2, 3, 4))
    assert isinstance(second, ItemRow) and second.item is items[0]


def test_annotations_and_policies_become_words_and_glyphs() -> None:
    item = next(one for one in sample_catalogue() if one.name == "place-order")
    assert [badge.word for badge in badges(item)] == ["destructive", "open world"]
    plain = CatalogueItem(ItemKind.TOOL, "a", "a", policy_origin="mcp.json")
    assert badges(plain) == []
    denied = replace(plain, policy=Policy.DENY, policy_origin="chosen at the desk")
    told = [badges(one)[0][:2] for one in (replace(plain, policy=Policy.ASK), denied)]
    assert told == [("ask (mcp.json)", "?"), ("deny (chosen at the desk)", "⊘")]


def test_a_mode_leaves_its_tools_in_its_order_and_says_what_it_lacks() -> None:
    items = sample_catalogue()
    assert items_in_mode(None, items) == list(items)
    missing = (("send-mail", "x"), ("lok", "no such tool"))
    seen = items_in_mode(ModeView("review", "", ("slow-report", "user-profile"), missing), items)
    tools = [(one.name, one.problem) for one in seen if one.kind is ItemKind.TOOL]
    assert [name for name, _ in tools] == ["slow-report", "user-profile", "send-mail", "lok"]
    assert "MAIL_TOKEN" in tools[2][1] and tools[3][1] == "no such tool"
    others = [one for one in items if one.kind is not ItemKind.TOOL]
    assert [one for one in seen if one.kind is not ItemKind.TOOL] == others


def test_a_skill_has_a_shelf_of_its_own_and_says_how_many_files_it_has() -> None:
    def skill(name: str, resources: object) -> CatalogueItem:
        entry = {"uri": name, "frontmatter": {}, "resources": resources}
        return CatalogueItem(ItemKind.SKILL, name, "refunds", "Pay back.", definition=entry)

    items = [skill("skill://a/SKILL.md", [{}]), skill("skill://b/SKILL.md", "dynamic")]
    items.append(CatalogueItem(ItemKind.SKILL, "broken", "broken", problem="needs a name, a text"))
    group, *rows = catalogue_rows(items, "", frozenset())
    assert isinstance(group, GroupRow) and (group.group, group.item_count) == (ItemKind.SKILL, 3)
    assert [[each.word for each in badges(row.item)] for row in rows if isinstance(row, ItemRow)] == [
        ["1 file"],
        ["cannot be verified"],
        [],
    ]
