"""Names become legal, stay apart, and lead back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.bridge.model_schemas import APIS, Names

PATTERN = APIS["openai"].tool_name


def legal(*names: str) -> list[str]:
    made = Names(names, PATTERN)
    return [made.legal(name) for name in names]


def test_legal_names_stay_as_they_are() -> None:
    assert legal("greet", "word-count", "A_1", "x" * 64) == ["greet", "word-count", "A_1", "x" * 64]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("user.profile", "user_profile"),
        ("a/b c", "a_b_c"),
        ("größe", "gro_e"),
        ("café", "cafe"),
        ("日本", "tool"),
    ],
)
def test_other_characters_are_replaced(name: str, told: str) -> None:
    assert legal(name) == [told]


def test_names_that_would_become_one_are_kept_apart() -> None:
    first, second, third = legal("a.b", "a_b", "a/b")
    assert second == "a_b"
    assert len({first, second, third}) == 3
    assert first.startswith("a_b_") and third.startswith("a_b_")


def test_long_names_are_cut_with_a_mark_that_is_always_the_same() -> None:
    one, other = legal("x" * 70 + "1", "x" * 70 + "2")
    assert len(one) == len(other) == 64 and one != other
    assert legal("x" * 70 + "1") == [one]


@pytest.mark.slow
@given(st.lists(st.text(max_size=80), max_size=12, unique=True))
def test_every_set_of_names_is_legal_distinct_and_reversible(names: list[str]) -> None:
    made = Names(names, PATTERN)
    told = [made.legal(name) for name in names]
    assert all(PATTERN.fullmatch(each) for each in told)
    assert len(set(told)) == len(names)
    assert [made.original(each) for each in told] == names
    assert all(PATTERN.fullmatch(name) is None for name in made.changed)


def test_a_server_of_very_many_odd_names_holds_nobody_up() -> None:
    names = [f"a.{number}" for number in range(50_000)]
    assert Names(names, PATTERN).legal("a.49999") == "a_49999"


def test_unknown_names_are_no_names() -> None:
    made = Names(["a"], PATTERN)
    with pytest.raises(KeyError):
        made.legal("b")
    with pytest.raises(KeyError):
        made.original("b")
