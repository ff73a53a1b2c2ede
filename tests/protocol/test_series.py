"""A series gives what its messages were if each had been encoded by itself, in one piece or in many."""

from __future__ import annotations

import math
import sys

import orjson
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.protocol.series import MOST, Series, joined, merged

BEFORE, AFTER = b'{"%b":[', b"],\n}"
NUMBERS = st.lists(
    st.integers(1 - MOST, MOST - 1)
    | st.floats(-1e300, 1e300)
    | st.sampled_from([0, -0.0, sys.float_info.min])
)


def series(numbers: list[float]) -> Series:
    made = Series(BEFORE, AFTER, 1 << 20, math.inf)
    made.numbers += numbers
    return made


@given(NUMBERS, st.integers(0, 9), st.integers(0, 9), st.sampled_from([b"", b"\n", b"%d"]))
def test_what_comes_out_is_every_message(numbers: list[float], start: int, stop: int, between: bytes) -> None:
    whole = [BEFORE + orjson.dumps(number) + AFTER for number in numbers]
    each = series(numbers)
    alike = each.close()
    assert not each.is_open
    assert len(alike) == len(whole)
    assert list(alike) == alike[:] == whole
    assert alike[start:stop] == whole[start:stop]
    assert joined(alike, between) == joined(whole, between) == between.join(whole)
    for some in (alike, whole):
        assert joined(some, between, start) == between.join(whole[start:])
        assert joined(some, between, start, stop) == between.join(whole[start:stop])


@given(st.lists(st.lists(st.integers(0, 9), max_size=3) | st.integers(10, 99)))
def test_all_that_leaves_is_in_order(sent: list[list[int] | int]) -> None:
    messages: list[bytes] = []
    placed: list[tuple[int, Series]] = []
    expected: list[bytes] = []
    for each in sent:
        if isinstance(each, int):
            messages.append(b"%d" % each)
            expected.append(messages[-1])
        else:
            placed.append((len(messages), series([*each])))
            expected += [BEFORE + b"%d" % number + AFTER for number in each]
    leaving = merged(messages, placed)
    assert list(leaving) == expected
    assert not any(each.is_open for _, each in placed)


def test_as_many_as_there_is_room_for_take_up_no_more_whatever_they_are() -> None:
    for widest in (1 - MOST, -sys.float_info.max, -5e-324, -1.2345678901234567e-300):
        made = Series(BEFORE, AFTER, 10_000, math.inf)
        made.numbers += [widest] * made.most
        assert 0 < len(joined(made.close(), b"")) <= 10_000
