"""What the library says of a wrong value, in our words and with the way to it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest
from msgspec import Struct

from mcpdesk.hosting.folder.manifest_errors import joined, parted, spoken, steps


class Inner(Struct):
    run: list[str]
    how: Literal["a", "b"] = "a"


class Outer(Struct):
    entries: list[Inner] = []


@pytest.mark.parametrize(
    ("given", "way", "told"),
    [
        ([], "", "has to be an object, got a list"),
        ({"entries": 5}, "entries", "has to be a list, got a whole number"),
        ({"entries": [{"run": ["x", None]}]}, "entries[0].run[1]", "has to be a text, got null"),
        ({"entries": [{}]}, "entries[0]", "lacks the key run"),
        ({"entries": [{"run": [], "how": "c"}]}, "entries[0].how", "'c' is not allowed; allowed: a, b"),
    ],
)
def test_a_complaint_is_put_into_words_and_placed(given: Any, way: str, told: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(given, Outer)
    message, where = parted(caught.value)
    assert (joined(steps(where)), spoken(message, "a, b")) == (way, told)


def test_a_way_leads_as_far_as_it_is_told() -> None:
    assert steps(".tools[...].scopes[1]") == ("tools",)
