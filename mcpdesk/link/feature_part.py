"""Base classes of the state that a feature adds to a link, and of requests about this state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from msgspec import Struct

Result = TypeVar("Result", bound=bool | int | str)
Part = TypeVar("Part", bound="FeaturePart")


class FeatureStates(Protocol):
    """States of the features of one core."""

    def feature_part(self, kind: type[Part]) -> Part:
        """Return the state of one kind."""


class Intent(Struct, Generic[Result], frozen=True, tag=True):
    """Request of a front end to a feature of a core. `Result` is the type of its result."""

    for_one_core: ClassVar[bool] = False
    """True if only one core must carry out the request. It is used if a front end shows several cores, and
    chooses a core for which `is_possible` is True.
    """

    @classmethod
    def combined(cls, results: Sequence[Result]) -> Result:
        """Combine the results of several cores."""
        return min(results)

    def is_possible(self, core: FeatureStates) -> bool:
        """Return True if a core with these states can carry out the request."""
        return True

    @property
    def item(self) -> int | None:
        """Number of the item that the request is about, or None if the request sets something for the whole
        core.
        """
        return None

    def with_item(self, number: int) -> Self:
        """Return the same request about the item with another number."""
        return self

    @property
    def key(self) -> object:
        """Identifies what the request sets for the whole core.

        Cores that join later get this request, unless a later one has the same key. If the key is None, they
        do not get it.
        """
        return type(self)


class FeaturePart(Struct, frozen=True):
    """State of a feature of a core.

    Created without arguments, it is the state of a core without the feature.
    """

    part_name: ClassVar[str]
    """Name of the state in messages between a core and a screen."""
    intents: ClassVar[Sequence[type[Intent[Any]]]] = ()
    """Kinds of requests about this state."""

    def with_offset(self, offset: int, core: str) -> Self:
        """Return the state with `offset` added to its numbers, and with the name of its core."""
        return self

    def as_masked(self, masked: Self) -> Self:
        """Return the state to show instead of this state.

        `masked` is a copy of this state without secrets.
        """
        return masked

    @classmethod
    def merged(cls, parts: Sequence[Self]) -> Self:
        """Merge the states of several cores."""
        return parts[0] if parts else cls()
