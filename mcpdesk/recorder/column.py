"""Columns of the index: arrays, or such as drop their oldest values while positions stay the same."""

from __future__ import annotations

from array import array
from collections.abc import MutableSequence
from typing import Any, Generic, Protocol, TypeVar

Value = TypeVar("Value")


class Column(Protocol[Value]):
    """What the index needs of an array."""

    def append(self, value: Value, /) -> None:
        """Add a value at the end."""

    def __getitem__(self, at: int, /) -> Value: ...
    def __setitem__(self, at: int, value: Value, /) -> None: ...
    def __len__(self) -> int: ...


class RollingColumn(Generic[Value]):
    """A column that can drop its oldest values. Positions count from the first value there ever was.

    One thread changes it. Others may read at any time: what they see is from before a `drop` or after it.
    """

    __slots__ = ("_held",)

    def __init__(self, code: str = "") -> None:
        """`code` is the type code of an array; without it the values are any objects."""
        values: Any = array(code) if code else []
        self._held: tuple[int, MutableSequence[Value]] = (0, values)

    @property
    def base(self) -> int:
        """Position of the oldest value."""
        return self._held[0]

    def append(self, value: Value, /) -> None:
        """Add a value at the end."""
        self._held[1].append(value)

    def drop(self, base: int) -> None:
        """Drop the values before position `base`."""
        before, values = self._held
        if base > before:
            self._held = base, values[base - before :]

    def between(self, start: int, stop: int) -> MutableSequence[Value]:
        """A copy of the values from `start` up to `stop`, as far as they were not dropped."""
        base, values = self._held
        return values[max(0, start - base) : max(0, stop - base)]

    def __len__(self) -> int:
        base, values = self._held
        return base + len(values)

    def __getitem__(self, at: int, /) -> Value:
        base, values = self._held
        if at < base:
            raise IndexError(f"{at} was dropped; the oldest is {base}")
        return values[at - base]

    def __setitem__(self, at: int, value: Value, /) -> None:
        base, values = self._held
        if at >= base:
            values[at - base] = value
