"""What tools, resources and prompts have in common: when two of them are the same."""

from __future__ import annotations

from msgspec import Struct

_OURS = frozenset({"handler", "reader", "renderer", "completers", "source"})
"""Fields that say how an item is served, not what it is: its fingerprint stands for the code."""


class Item(Struct, frozen=True, eq=False):
    """A definition. It equals one that offers the same, whatever code stands behind it."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(
            getattr(self, name) == getattr(other, name)
            for name in self.__struct_fields__
            if name not in _OURS
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]
