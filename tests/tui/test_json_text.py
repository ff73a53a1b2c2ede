from __future__ import annotations

import pytest

from mcpdesk.tui.render.json_text import at_path, compact, path_text, pretty, preview


def test_paths_read_like_code() -> None:
    assert path_text(()) == "$"
    assert path_text(("items", 0, "name")) == "items[0].name"
    assert path_text((0, "odd key", "x")) == '[0]["odd key"].x'


def test_values_are_found_by_path() -> None:
    assert at_path({"a": [1, {"b": 2}]}, ("a", 1, "b")) == 2
    for path in (("z",), ("a", 9), ("a", "b"), ("a", 0, "x")):
        with pytest.raises(LookupError):
            at_path({"a": [1]}, path)


def test_previews_are_cut_and_never_look_deep() -> None:
    assert preview({"a": [1], "b": "x"}, 80) == '{a: […], b: "x"}'
    assert len(preview({f"key{n}": n for n in range(100_000)}, 40)) == 40
    assert preview("x" * 10_000_000, 10) == '"xxxxxxxx…'


def test_numbers_beyond_64_bits_still_show() -> None:
    assert compact({"n": 2**70}) == '{"n":1180591620717411303424}'
    assert "1180591620717411303424" in pretty([2**70])
