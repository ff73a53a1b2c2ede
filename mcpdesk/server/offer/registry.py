"""Items that a server offers: ordered collections that notify listeners of changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

LONGEST_NAME = 100
MOST_COMPARED = 300
"""Maximum characters and items for a similarity search, which takes milliseconds beyond these."""


_OURS = frozenset({"handler", "reader", "renderer", "completers", "source"})
"""Fields that equality ignores: functions and source. The fingerprint represents the code."""


class Item(Struct, frozen=True, eq=False, kw_only=True):
    """Definition of an item. Equality compares its content and the fingerprint of its code."""

    title: str = ""
    description: str = ""
    icons: tuple[dict[str, Any], ...] = ()
    meta: dict[str, Any] = field(default_factory=dict)
    is_offered: bool = True
    """False: the item is known, but is served only after a handler offers it."""
    source: str = ""
    """`tools/user_profile.py:9`, or `built-in`."""
    fingerprint: str = ""
    """Value that changes with the code of the item, so that a reload detects the change."""

    @property
    def is_folder_code(self) -> bool:
        """True for a function in a Python file of the server's folder."""
        return self.source.rpartition(":")[0].endswith(".py")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(
            getattr(self, name) == getattr(other, name)
            for name in self.__struct_fields__
            if name not in _OURS
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


T = TypeVar("T", bound=Item)


class Unavailable(Struct, frozen=True):
    """Item that is left out, with a reason. `serving` is True if an older version of it is still served."""

    name: str
    reason: str
    source: str
    serving: bool = False
    is_fit: bool = False
    """True if the item itself is valid, but lacks something it needs, such as a variable or a program."""
    is_logged: bool = False
    """True if the log has its traceback already, which ends with the reason."""


class Registry(Generic[T]):
    """Items of one kind, in serving order. `key` returns an item's unique name.

    `version` increases with every change. `changed` has the names of items that the last change of the served
    items added or altered; the first load does not count as a change.
    """

    def __init__(self, kind: str, key: Callable[[T], str]) -> None:
        self.kind = kind
        self.version = 0
        self.changed: frozenset[str] = frozenset()
        self.unavailable: tuple[Unavailable, ...] = ()
        self.key = key
        self._known: dict[str, T] = {}
        self.items: dict[str, T] = {}
        """Served items, by name. Every change, even of code alone, creates a new dictionary."""
        self._chosen: dict[str, bool] = {}
        self._listeners: list[Callable[[str], None]] = []

    def __iter__(self) -> Iterator[T]:
        return iter(self.items.values())

    def __len__(self) -> int:
        return len(self.items)

    def get(self, name: str) -> T | None:
        """Return the item of that name, or None."""
        return self.items.get(name)

    def suggestion(self, name: str) -> str:
        """Return `; did you mean ret-bytes?` if an unknown name is similar to a served one, else ""."""
        if len(name) > LONGEST_NAME:
            return ""
        plain = name.replace("_", "-").casefold()
        near = [each for each in self.items if each.replace("_", "-").casefold() == plain]
        if not near and len(self.items) <= MOST_COMPARED:
            import difflib

            near = difflib.get_close_matches(name, self.items, n=1, cutoff=0.75)
        return f"; did you mean {near[0]}?" if near else ""

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Call `listener(kind)` after every change."""
        self._listeners.append(listener)

    def replace(self, items: Iterable[T], unavailable: Iterable[Unavailable] = ()) -> bool:
        """Replace all items. Return True if the served items changed.

        Raises: ValueError if two items share a name; nothing is replaced then.
        """
        fresh: dict[str, T] = {}
        for item in items:
            name = self.key(item)
            if name in fresh:
                raise ValueError(f"two {self.kind}s are called {name!r}")
            fresh[name] = item
        self._known = fresh
        return self._serve(tuple(unavailable))

    def offer(self, name: str) -> bool:
        """Serve a known item from now on, also after a reload. Return True if it was not served before.

        Raises: LookupError if the name is unknown.
        """
        return self._choose(name, True)

    def withdraw(self, name: str) -> bool:
        """Stop serving a known item until it is offered again. Return True if it was served.

        Raises: LookupError if the name is unknown.
        """
        return self._choose(name, False)

    def _choose(self, name: str, is_offered: bool) -> bool:
        if name not in self._known:
            raise LookupError(f"no {self.kind} is called {name!r}")
        self._chosen[name] = is_offered
        return self._serve(self.unavailable)

    def _serve(self, refused: tuple[Unavailable, ...]) -> bool:
        return self._put(
            {name: item for name, item in self._known.items() if self._chosen.get(name, item.is_offered)},
            refused,
        )

    def _put(self, fresh: dict[str, T], refused: tuple[Unavailable, ...]) -> bool:
        """Serve exactly these items. Return True if that changed the served items."""
        is_first = self.version == 0
        altered = frozenset(name for name, item in fresh.items() if self.items.get(name) != item)
        served_changed = bool(altered) or fresh.keys() != self.items.keys() or list(fresh) != list(self.items)
        if not served_changed and refused == self.unavailable:
            self.items = fresh
            return False
        self.items, self.unavailable = fresh, refused
        if served_changed:
            self.changed = frozenset() if is_first else altered
        self.version += 1
        for listener in self._listeners:
            listener(self.kind)
        return served_changed


class Selection(Registry[T]):
    """Named items of `whole`, in its order. Follows every change of it.

    Offering or withdrawing an item here applies to the whole registry.
    """

    def __init__(self, whole: Registry[T], names: Iterable[str] = ()) -> None:
        super().__init__(whole.kind, whole.key)
        self.names = frozenset(names)
        """Names that may be served; a change takes effect with the next `follow`."""
        self._whole = whole
        whole.subscribe(self._changed)
        self.follow()

    def _changed(self, _kind: str) -> None:
        self.follow()

    def follow(self) -> bool:
        """Serve the named items that the whole registry serves now.

        Return True if that changed the served items.
        """
        fresh = {name: item for item in self._whole if (name := self.key(item)) in self.names}
        return self._put(fresh, tuple(each for each in self._whole.unavailable if each.name in self.names))

    def replace(self, items: Iterable[T], unavailable: Iterable[Unavailable] = ()) -> bool:
        """Raises: TypeError, always, because the whole registry defines the items."""
        raise TypeError(f"a selection can only contain {self.kind}s of its registry")

    def offer(self, name: str) -> bool:
        """Serve a known item from now on, here only if it is named. Raises: LookupError."""
        return self._whole.offer(name)

    def withdraw(self, name: str) -> bool:
        """Stop serving a known item. Raises: LookupError."""
        return self._whole.withdraw(name)
