"""A part of a registry: some of its items, by name, under the same rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from mcpdesk.server.registry import Offerable, Registry, Unavailable

T = TypeVar("T", bound=Offerable)


class Selection(Registry[T]):
    """Those items of `whole` that are named, in its order. It follows every change of it.

    What is offered or withdrawn here is so in the whole registry.
    """

    def __init__(self, whole: Registry[T], names: Iterable[str] = ()) -> None:
        super().__init__(whole.kind, whole.key)
        self.names = frozenset(names)
        """What may be served; a change counts from the next `follow`."""
        self._whole = whole
        whole.subscribe(self._changed)
        self.follow()

    def _changed(self, _kind: str) -> None:
        self.follow()

    def follow(self) -> bool:
        """Serve what the whole registry serves now and is named; says whether that changed."""
        fresh = {name: item for item in self._whole if (name := self.key(item)) in self.names}
        return self._put(fresh, tuple(each for each in self._whole.unavailable if each.name in self.names))

    def replace(self, items: Iterable[T], unavailable: Iterable[Unavailable] = ()) -> bool:
        """Raises: TypeError, always: what there is, the whole registry says."""
        raise TypeError(f"the {self.kind}s of a selection are those of its registry")

    def offer(self, name: str) -> bool:
        """Serve a known item from now on, here if it is named. Raises: LookupError."""
        return self._whole.offer(name)

    def withdraw(self, name: str) -> bool:
        """Serve a known item no longer. Raises: LookupError."""
        return self._whole.withdraw(name)
