"""Messages that differ in one number: kept as those numbers until they leave together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from orjson import dumps

MOST = 1 << 63
"""What is smaller, and larger than its negative, every JSON encoder takes."""
_DIGITS = 25
"""Bytes such a number may take up."""


class Series:
    """Grows while it is open: whoever sends it closes it.

    `before` and `after` are the bytes around the numbers. Whoever adds one is to wait from `most` numbers or
    from `until` on, by `time.monotonic`.
    """

    __slots__ = ("_after", "_before", "is_open", "most", "numbers", "until")

    def __init__(self, before: bytes, after: bytes, room: int, until: float) -> None:
        """`room`: bytes they may take up."""
        self.numbers: list[float] = []
        """Each an `int` or a `float`, finite and less than `MOST`."""
        self.most = room // (len(before) + len(after) + _DIGITS)
        self.until = until
        self.is_open = True
        """Whether what is added now leaves with the rest."""
        self._before = before
        self._after = after

    def close(self) -> Alike:
        """The messages. Nothing is added any more."""
        self.is_open = False
        numbers = dumps(self.numbers)[1:-1]
        return Alike(self._before, self._after, numbers.split(b",") if numbers else [])


class Alike(Sequence[bytes]):
    """Messages that differ in a few bytes: joined in one go, and made one by one only when asked for."""

    __slots__ = ("_after", "_before", "_differing")

    def __init__(self, before: bytes, after: bytes, differing: list[bytes]) -> None:
        self._before = before
        self._after = after
        self._differing = differing

    def __len__(self) -> int:
        return len(self._differing)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self[:])

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...

    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        before, after = self._before, self._after
        if isinstance(index, slice):
            return [before + each + after for each in self._differing[index]]
        return before + self._differing[index] + after

    def joined(self, between: bytes, start: int, stop: int) -> bytes:
        """Those from `start` up to `stop` with bytes in between."""
        differing = self._differing
        if not differing[start:stop]:
            return b""
        between = self._after + between + self._before
        return b"%b%b%b" % (self._before, between.join(differing[start:stop]), self._after)


def merged(messages: Sequence[bytes], series: Sequence[tuple[int, Series]]) -> Sequence[bytes]:
    """All messages in order. Those of a series stand before the message at its place; series are closed."""
    if len(series) == 1 and not messages:
        return series[0][1].close()
    found: list[bytes] = []
    begun = 0
    for place, each in series:
        found += messages[begun:place]
        found += each.close()[:]
        begun = place
    found += messages[begun:]
    return found


def joined(messages: Sequence[bytes], between: bytes, start: int = 0, stop: int | None = None) -> bytes:
    """Messages from `start` up to `stop` with bytes in between."""
    if type(messages) is Alike:  # quicker than asking an abstract class
        return messages.joined(between, start, len(messages) if stop is None else stop)
    return between.join(messages[start:stop] if start or stop is not None else messages)
