"""Refresh of keys: not for every token, but at once for an unknown key."""

from __future__ import annotations

import asyncio

import pytest

from mcpdesk.auth.keys import CONSTANT, Key, KeySet, KeysMissing, KeySource, RefreshPace, constant

PACE = RefreshPace(fresh_s=100, pause_s=10, trusted_s=1000)


def keys(*names: str, complaints: tuple[str, ...] = ()) -> KeySet:
    return KeySet([Key(name, {"X": lambda signed, signature: True}) for name in names], complaints)


class Place:
    """A store of keys, a clock, and a source over both."""

    def __init__(self, pace: RefreshPace = PACE) -> None:
        self.now = 0.0
        self.asked = 0
        self.answer: KeySet | Exception | None = keys("a")
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.loaded = asyncio.Event()
        self.told: list[str] = []
        self.source = KeySource(self.load, pace, self.told.append, lambda: self.now)

    async def load(self) -> KeySet | None:
        self.asked += 1
        await self.is_open.wait()
        self.loaded.set()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def knows(self, name: str) -> bool:
        return bool(await self.source.find("X", name))


async def test_a_place_is_asked_once_and_again_for_an_unknown_key() -> None:
    place = Place()
    assert await place.knows("a") and await place.knows("a") and place.asked == 1
    place.now, place.answer = 1, keys("b")
    assert await place.knows("b") and place.asked == 2  # replaced right after the first time
    place.now, place.answer = 10, keys("b", "c")
    assert not await place.knows("c") and place.asked == 2  # too soon after the second
    place.now = 11
    assert await place.knows("c") and place.asked == 3


async def test_a_flood_of_unknown_keys_does_not_reach_the_place() -> None:
    place = Place()
    assert not await place.knows("the first") and place.asked == 1  # what was just read is not read again
    for number in range(50):
        place.now += 0.1
        assert not await place.knows(f"unknown {number}")
    assert place.asked == 2
    place.now = 11
    assert not any(await asyncio.gather(*(place.knows(f"more {number}") for number in range(50))))
    assert place.asked == 3


async def test_a_place_that_failed_is_left_alone_whatever_key_is_looked_for() -> None:
    place = Place()
    assert await place.knows("a")
    place.now, place.answer = 1, OSError("it is gone")
    assert not await place.knows("b") and place.asked == 2
    place.now = 10
    assert not await place.knows("b") and place.asked == 2
    place.now, place.answer = 11, keys("b")
    assert await place.knows("b") and place.asked == 3


async def test_tokens_that_come_together_wait_for_one_answer() -> None:
    place = Place()
    place.is_open.clear()
    waiting = [asyncio.create_task(place.knows("a")) for _ in range(20)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    place.is_open.set()
    assert await asyncio.gather(*waiting[1:]) == [True] * 19
    assert place.asked == 1


async def test_keys_that_are_not_fresh_serve_while_the_place_is_asked() -> None:
    place = Place()
    assert await place.knows("a")
    place.now, place.answer = 101, keys("b")
    place.is_open.clear()
    assert await place.knows("a")
    place.is_open.set()
    place.loaded.clear()
    await place.loaded.wait()
    await asyncio.sleep(0)
    assert await place.knows("b")
    assert not await place.knows("a") and place.asked == 2


async def test_a_place_that_says_nothing_new_confirms_what_is_known() -> None:
    place = Place(RefreshPace(fresh_s=1, pause_s=0.1, waits=True))
    assert await place.knows("a")
    place.now, place.answer = 5, None
    assert await place.knows("a") and place.asked == 2


async def test_keys_outlive_the_place_for_a_while() -> None:
    place = Place()
    assert await place.knows("a")
    place.answer = OSError("it is gone")
    for place.now in (200.0, 500.0, 999.0):
        assert await place.knows("a")
    await asyncio.sleep(0)
    place.now = 1001
    with pytest.raises(KeysMissing, match="it is gone"):
        await place.knows("a")


@pytest.mark.parametrize("problem", [OSError("unreachable"), ValueError("no JWK set")])
async def test_a_place_without_keys_is_told_of_once_and_tried_again(problem: Exception) -> None:
    place = Place()
    place.answer = problem
    for _ in range(3):
        with pytest.raises(KeysMissing, match=str(problem)):
            await place.knows("a")
    assert (place.asked, place.told) == (1, [str(problem)])
    place.now, place.answer = 11, keys("a", complaints=("key 2 is left out",))
    assert await place.knows("a")
    assert place.told == [str(problem), "key 2 is left out"]


async def test_keys_that_do_not_change_are_read_once() -> None:
    told: list[str] = []
    source = KeySource(constant(keys(complaints=("too short",))), CONSTANT, told.append)
    for _ in range(3):
        assert not await source.find("X", None)
    assert told == ["too short"]


async def test_a_source_that_is_closed_leaves_nothing_behind() -> None:
    place = Place()
    place.is_open.clear()
    waiting = asyncio.create_task(place.knows("a"))
    await asyncio.sleep(0)
    place.source.close()
    with pytest.raises(KeysMissing, match="no keys were found yet"):
        await waiting
    place.source.close()
