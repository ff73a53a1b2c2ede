from __future__ import annotations

from dataclasses import replace

from mcpdesk.link.values import CatalogueItem, ItemKind, ModeView, Policy
from mcpdesk.tui.workbench.catalogue_rows import (
    CatalogueRow,
    GroupRow,
    ItemRow,
    ProblemRow,
    badges,
    items_in_mode,
    rows,
)
from tests.support.fake_link import sample_catalogue


def names(found: list[CatalogueRow]) -> list[str]:
    return [row.item.name for row in found if isinstance(row, ItemRow)]


def test_groups_come_with_their_counts_and_problems_with_their_reason() -> None:
    found = rows(sample_catalogue(), "", frozenset())
    groups = [row for row in found if isinstance(row, GroupRow)]
    assert [(group.kind, group.total) for group in groups] == [
        (ItemKind.TOOL, 4),
        (ItemKind.RESOURCE, 4),
        (ItemKind.TEMPLATE, 2),
        (ItemKind.PROMPT, 2),
    ]
    broken = next(
        at for at, row in enumerate(found) if isinstance(row, ItemRow) and row.item.name == "send-mail"
    )
    assert isinstance(found[broken + 1], ProblemRow)


def test_folded_groups_keep_their_heading_only() -> None:
    found = rows(sample_catalogue(), "", frozenset({ItemKind.TOOL}))
    assert isinstance(found[1], GroupRow)


def test_the_filter_is_fuzzy_over_names_and_reads_descriptions() -> None:
    assert names(rows(sample_catalogue(), "usprf", frozenset()))[0] == "user-profile"
    assert names(rows(sample_catalogue(), "progress", frozenset())) == ["slow-report"]
    assert names(rows(sample_catalogue(), "zzz", frozenset())) == []


def test_the_filter_ranks_and_says_what_it_matched() -> None:
    items = (CatalogueItem(ItemKind.TOOL, "deep-order", "x"), CatalogueItem(ItemKind.TOOL, "order", "x"))
    found = rows(items, "order", frozenset())
    assert names(found) == ["order", "deep-order"]
    assert isinstance(found[1], ItemRow)
    assert found[1].hits == (0, 1, 2, 3, 4)


def test_filtering_unfolds() -> None:
    assert names(rows(sample_catalogue(), "order", frozenset(ItemKind)))[0] == "place-order"


def test_annotations_become_words() -> None:
    item = next(one for one in sample_catalogue() if one.name == "place-order")
    assert [badge.word for badge in badges(item)] == ["destructive", "open world"]


def test_a_policy_is_a_word_with_its_origin_and_a_glyph_of_its_own() -> None:
    plain = CatalogueItem(ItemKind.TOOL, "a", "a")
    assert badges(plain) == []
    asks = replace(plain, policy=Policy.ASK, policy_origin="mcp.json")
    denied = replace(plain, policy=Policy.DENY, policy_origin="chosen at the desk")
    told = [(badge.word, badge.glyph) for one in (asks, denied) for badge in badges(one)]
    assert told == [("ask (mcp.json)", "?"), ("deny (chosen at the desk)", "⊘")]
    assert badges(replace(plain, policy_origin="mcp.json")) == []


def test_a_mode_leaves_its_tools_in_its_order_and_says_what_it_lacks() -> None:
    items = sample_catalogue()
    assert items_in_mode(None, items) == list(items)
    mode = ModeView(
        "review", "", ("slow-report", "user-profile"), (("send-mail", "x"), ("lok", "no such tool"))
    )
    seen = items_in_mode(mode, items)
    tools = [(one.name, one.problem) for one in seen if one.kind is ItemKind.TOOL]
    assert [name for name, _ in tools] == ["slow-report", "user-profile", "send-mail", "lok"]
    assert "MAIL_TOKEN" in tools[2][1] and tools[3][1] == "no such tool"
    assert [one for one in seen if one.kind is not ItemKind.TOOL] == [
        one for one in items if one.kind is not ItemKind.TOOL
    ]
