from __future__ import annotations

import random
from typing import Any

from mcpdesk.tui.results.json_tree import SLICE, Outline, RowKind


def paths(outline: Outline) -> list[tuple[str | int, ...]]:
    return [row.path for row in outline.rows]


def test_small_values_start_unfolded() -> None:
    outline = Outline({"a": {"b": [1, 2]}, "c": None})
    assert paths(outline) == [(), ("a",), ("a", "b"), ("a", "b", 0), ("a", "b", 1), ("c",)]


def test_large_values_start_with_their_first_level_only() -> None:
    outline = Outline({f"k{n}": {"x": list(range(50))} for n in range(40)})
    assert len(outline.rows) == 41


def test_scalars_are_a_single_row() -> None:
    assert len(Outline(3).rows) == 1
    assert not Outline(3).can_open(Outline(3).rows[0])


def test_folding_removes_what_is_below_and_unfolding_restores_it() -> None:
    outline = Outline({"a": {"b": [1, 2]}, "c": 1})
    before = paths(outline)
    outline.toggle(1)
    assert paths(outline) == [(), ("a",), ("c",)]
    outline.toggle(1)
    assert paths(outline) == before


def test_long_arrays_are_laid_out_in_slices() -> None:
    outline = Outline(list(range(1000)))
    assert len(outline.rows) == 1 + SLICE + 1
    assert outline.rows[-1].kind is RowKind.MORE
    assert outline.rows[-1].value == 800
    for _ in range(4):
        outline.toggle(len(outline.rows) - 1)
    assert paths(outline)[1:] == [(n,) for n in range(1000)]


def test_folding_again_forgets_no_slices_below_it() -> None:
    outline = Outline({"a": list(range(500))}, room=0)
    outline.open(1)
    outline.toggle(len(outline.rows) - 1)
    outline.toggle(0)
    outline.toggle(0)
    assert len([row for row in outline.rows if row.kind is RowKind.VALUE]) == 2 + 400


def test_reveal_unfolds_down_to_a_path_beyond_the_first_slice() -> None:
    outline = Outline({"a": [{"n": n} for n in range(700)]})
    at = outline.reveal(("a", 650, "n"))
    assert outline.rows[at].path == ("a", 650, "n")
    assert outline.rows[at].value == 650


def test_reveal_of_a_missing_path_stops_at_the_nearest_value() -> None:
    outline = Outline({"a": {"b": 1}})
    assert outline.rows[outline.reveal(("a", "z", 3))].path == ("a",)


def test_marked_paths_are_revealed_and_announced_above() -> None:
    outline = Outline({"a": {"b": {"c": 1}}}, {("a", "b", "c"): "too small"}, room=0)
    assert ("a", "b", "c") in paths(outline)
    assert outline.holds_mark(outline.rows[1])
    assert not outline.holds_mark(outline.rows[-1])


def test_search_finds_keys_and_scalars_in_order() -> None:
    value = {"Name": "Ada", "list": ["lovelace", 12, True], "ada": None}
    outline = Outline(value)
    assert outline.find("ada") == [("Name",), ("ada",)]
    assert outline.find("true") == [("list", 2)]
    assert outline.find("12") == [("list", 1)]
    assert outline.find("") == []


def test_strings_with_line_breaks_unfold_to_their_lines() -> None:
    outline = Outline({"text": "one\ntwo\n" + "x" * 250})
    outline.open(1)
    lines = [row.value for row in outline.rows if row.kind is RowKind.TEXT]
    assert lines == ["one", "two", "x" * 100, "x" * 100, "x" * 50]


def test_unfolding_everything_is_bounded() -> None:
    outline = Outline([[[n] * 50 for n in range(50)] for _ in range(50)], room=0)
    outline.open_below(0, limit=1000)
    assert 1000 <= len(outline.rows) <= 1300


def test_random_folding_keeps_rows_consistent() -> None:
    rng = random.Random(7)

    def build(depth: int) -> Any:
        if depth == 0 or rng.random() < 0.3:
            return rng.choice([1, "text", None, True])
        if rng.random() < 0.5:
            return [build(depth - 1) for _ in range(rng.randrange(5))]
        return {f"k{n}": build(depth - 1) for n in range(rng.randrange(5))}

    outline = Outline([build(4) for _ in range(300)])
    for _ in range(300):
        outline.toggle(rng.randrange(len(outline.rows)))
        seen = [row.path for row in outline.rows if row.kind is RowKind.VALUE]
        assert len(seen) == len(set(seen))
        for at, row in enumerate(outline.rows[1:], 1):
            parent = outline.rows[outline.parent(at)]
            assert parent.depth == row.depth - 1
            assert outline.is_open(parent)
