"""Text of strangers, fit to be read, to be edited and to be JSON."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from mcpdesk.plain_text import (
    clean,
    from_field,
    hidden_characters,
    json_escaped,
    one_cell_each,
    to_field,
    with_placeholders,
)

UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
CHARACTERS = st.one_of(
    st.characters(),
    st.characters(max_codepoint=0xFF),
    st.characters(min_codepoint=0x2000, max_codepoint=0x2070),
    st.characters(min_codepoint=0x10_0000, max_codepoint=0x10_00FF),
    st.sampled_from(["\U0010f8ff", "\U0010d800", "\ud800", "\r\n", "\x85"]),
)
TEXTS = st.lists(CHARACTERS, max_size=12).map("".join)


@given(TEXTS, st.booleans())
def test_what_a_field_shows_is_harmless_and_means_the_same_text(text: str, lines: bool) -> None:
    shown = to_field(text, keeps_lines=lines)
    assert from_field(shown) == text
    assert not UNSAFE.search(shown.replace("\n", "").replace("\t", "") if lines else shown)


@given(TEXTS)
def test_what_is_pasted_into_a_field_becomes_placeholders_of_one_cell_once(text: str) -> None:
    shown = with_placeholders(text)
    assert with_placeholders(shown) == shown and len(shown) == len(text)
    assert not UNSAFE.search(shown)


@given(TEXTS)
def test_nothing_harmful_is_drawn_whatever_is_given(text: str) -> None:
    assert not UNSAFE.search(one_cell_each(text))
    assert not UNSAFE.search(clean(text, newlines=False))


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    "character", [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), "\u202e", "\ufeff"]
)
def test_drawing_takes_as_many_cells_as_were_laid_out(character: str) -> None:
    assert cell_len(one_cell_each(f"a{character}b")) == cell_len(f"a{character}b")
    held = to_field(f"a{character}b")
    assert cell_len(one_cell_each(held)) == cell_len(held) == 3
    assert "␛" in one_cell_each(to_field("\x1b"))


@pytest.mark.slow
@given(st.dictionaries(TEXTS, TEXTS))
def test_escaped_json_is_the_same_json(value: dict[str, str]) -> None:
    escaped = json_escaped(json.dumps(value, indent=1, ensure_ascii=False))
    assert json.loads(escaped) == value
    assert not UNSAFE.search(escaped.replace("\n", ""))


KEPT = "👨\u200d👩\u200d👧 1\ufe0f\u20e3 \u2764\ufe0f \u0645\u06cc\u200c\u062e"
"""Joiners and presentation selectors that belong to an emoji or a letter."""
HIDDEN = (
    "a󠁉b", "󠄀", "a\u200db", "\u200d\u200d", "x\ufe0f", "\ufe01", "\u00ad", "\u034f", "\u3164",
    "\u2800", "\u180e", "𝅳", "\u115f", "\u202e", "\x1b[2J",
)  # fmt: skip


@pytest.mark.parametrize("text", HIDDEN)
def test_hidden_characters_of_every_kind_are_shown_and_can_be_edited(text: str) -> None:
    shown = clean(text)
    assert shown != text and hidden_characters(shown) == [] and clean(shown) == shown
    assert json.loads(f'"{json_escaped(text)}"') == text and hidden_characters(json_escaped(text)) == []
    field = to_field(text)
    assert hidden_characters(field) == [] and from_field(field) == text
    assert hidden_characters(text)


def test_joiners_stay_where_letters_and_pictures_need_them() -> None:
    assert clean(KEPT) == json_escaped(KEPT) == to_field(KEPT) == KEPT and hidden_characters(KEPT) == []


def test_hidden_characters_are_told_by_kind() -> None:
    assert hidden_characters("a󠁁 \u202e \x1b") == [
        "escape or other control characters",
        "characters that reorder text",
        "invisible Unicode tags",
    ]


def test_each_character_that_reorders_text_is_told_as_one() -> None:
    for code in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)):
        assert hidden_characters(f"a{chr(code)}b") == ["characters that reorder text"], hex(code)


def test_the_placeholder_of_pictures_in_kittys_protocol_is_drawn() -> None:
    assert one_cell_each("\U0010eeee\u0305") == "\U0010eeee\u0305"
