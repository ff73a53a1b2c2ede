"""Items that a server offers, in ordered collections that notify listeners of changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

MAX_NAME_LENGTH = 100
"""Maximum length in characters of a name in a search for similar names. A larger search is too slow."""
MAX_COMPARED_NAMES = 300
"""Maximum number of names in a search for similar names."""
_IGNORED_FIELDS = frozenset({"handler", "reader", "renderer", "completers", "source"})
"""Fields that are not compared: functions and the source line. The fingerprints of the code are compared
instead.
"""


def similar_name(name: str, names: Collection[str]) -> str:
    """Return the most similar name, or "" if no name is similar. Names that differ only in case, `_` and `-`
    come first.
    """
    if len(name) > MAX_NAME_LENGTH:
        return ""
    plain_name = _comparable_name(name)
    similar_names = [each for each in names if _comparable_name(each) == plain_name]
    if not similar_names and len(names) <= MAX_COMPARED_NAMES:
        import difflib

        similar_names = difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    return similar_names[0] if similar_names else ""


def _comparable_name(name: str) -> str:
    return name.replace("_", "-").casefold()


class Item(Struct, frozen=True, eq=False, kw_only=True):
    """Definition of an item. Items are equal if their content and code fingerprint are equal."""

    title: str = ""
    description: str = ""
    icons: tuple[dict[str, Any], ...] = ()
    meta: dict[str, Any] = field(default_factory=dict)
    is_offered: bool = True
    """If False, the item is registered, but hidden until a handler offers it."""
    source: str = ""
    """Source line such as `tools/user_profile.py:9`, or `built-in`."""
    fingerprint: str = ""
    """Value that changes with the item's code. A reload compares the fingerprints."""

    @property
    def is_folder_code(self) -> bool:
        """True if the item comes from a Python file in the server's folder."""
        return self.source.rpartition(":")[0].endswith(".py")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(
            getattr(self, name) == getattr(other, name)
            for name in self.__struct_fields__
            if name not in _IGNORED_FIELDS
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


T = TypeVar("T", bound=Item)


class Unavailable(Struct, frozen=True):
    """Item that is not offered, with the reason."""

    name: str
    reason: str
    source: str
    is_serving: bool = False
    """True if the previous version of the item is still offered."""
    is_fit: bool = False
    """True if the item is valid but lacks a requirement, such as a variable or a program."""
    is_logged: bool = False
    """True if its traceback is already in the log. The traceback ends with the reason."""


class Registry(Generic[T]):
    """Items of one kind, in the order of clients' lists."""

    def __init__(self, kind: str, key: Callable[[T], str]) -> None:
        self.kind = kind
        self.version = 0
        """Number that increases with every change."""
        self.changed: frozenset[str] = frozenset()
        """Names of the items that the last change added or altered. The first load is not a change."""
        self.unavailable: tuple[Unavailable, ...] = ()
        self.key = key
        """Function that returns the unique name of an item."""
        self._all_items: dict[str, T] = {}
        """Offered and hidden items, by name."""
        self.items: dict[str, T] = {}
        """Offered items by name. Every change, even of code alone, creates a new dictionary."""
        self._offer_choices: dict[str, bool] = {}
        """Choices of handlers, by name: True to offer an item, False to hide it."""
        self._listeners: list[Callable[[str], None]] = []

    def __iter__(self) -> Iterator[T]:
        return iter(self.items.values())

    def __len__(self) -> int:
        return len(self.items)

    def get(self, name: str) -> T | None:
        """Return the item with that name, or None."""
        return self.items.get(name)

    def suggestion(self, name: str) -> str:
        """Return text such as `; did you mean ret-bytes?` if a similar name is offered, else ""."""
        name_in_registry = similar_name(name, self.items)
        return f"; did you mean {name_in_registry}?" if name_in_registry else ""

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Call `listener(kind)` after every change."""
        self._listeners.append(listener)

    def replace(self, items: Iterable[T], unavailable: Iterable[Unavailable] = ()) -> bool:
        """Replace all items. Return True if the offered items have changed.

        Raises: ValueError if two items have the same name; nothing is replaced then.
        """
        new_items: dict[str, T] = {}
        for item in items:
            name = self.key(item)
            if name in new_items:
                raise ValueError(f"two {self.kind}s are called {name!r}")
            new_items[name] = item
        self._all_items = new_items
        return self._apply_choices(tuple(unavailable))

    def offer(self, name: str) -> bool:
        """Offer a known item from now on, even after a reload. Return True if the item was not offered
        before.

        Raises: LookupError if the name is unknown.
        """
        return self._choose(name, True)

    def withdraw(self, name: str) -> bool:
        """Hide a known item until it is offered again. Return True if the item was offered.

        Raises: LookupError if the name is unknown.
        """
        return self._choose(name, False)

    def _choose(self, name: str, is_offered: bool) -> bool:
        if name not in self._all_items:
            raise LookupError(f"no {self.kind} is called {name!r}")
        self._offer_choices[name] = is_offered
        return self._apply_choices(self.unavailable)

    def _apply_choices(self, unavailable: tuple[Unavailable, ...]) -> bool:
        return self._set_items(
            {
                name: item
                for name, item in self._all_items.items()
                if self._offer_choices.get(name, item.is_offered)
            },
            unavailable,
        )

    def _set_items(self, new_items: dict[str, T], unavailable: tuple[Unavailable, ...]) -> bool:
        """Offer exactly these items. Return True if the offered items have changed."""
        is_first_load = self.version == 0
        changed_names = frozenset(name for name, item in new_items.items() if self.items.get(name) != item)
        has_changed = (
            bool(changed_names)
            or new_items.keys() != self.items.keys()
            or list(new_items) != list(self.items)
        )
        if not has_changed and unavailable == self.unavailable:
            self.items = new_items
            return False
        self.items, self.unavailable = new_items, unavailable
        if has_changed:
            self.changed = frozenset() if is_first_load else changed_names
        self.version += 1
        for listener in self._listeners:
            listener(self.kind)
        return has_changed


class Selection(Registry[T]):
    """Some items of another registry, selected by name, in the same order. It is updated after each change of
    that registry.

    `offer` and `withdraw` apply to the other registry.
    """

    def __init__(self, registry: Registry[T], names: Iterable[str] = ()) -> None:
        super().__init__(registry.kind, registry.key)
        self.names = frozenset(names)
        """Names of the items that may be offered. A change takes effect with the next `select_items`."""
        self._registry = registry
        registry.subscribe(self._on_registry_change)
        self.select_items()

    def _on_registry_change(self, _kind: str) -> None:
        self.select_items()

    def select_items(self) -> bool:
        """Offer the selected items that the other registry offers now.

        Return True if the offered items have changed.
        """
        selected_items = {name: item for item in self._registry if (name := self.key(item)) in self.names}
        return self._set_items(
            selected_items, tuple(each for each in self._registry.unavailable if each.name in self.names)
        )

    def replace(self, items: Iterable[T], unavailable: Iterable[Unavailable] = ()) -> bool:
        """Raise TypeError, because only the other registry defines items."""
        raise TypeError(f"a selection can only contain {self.kind}s of its registry")

    def offer(self, name: str) -> bool:
        """Offer a known item from now on. It appears here only if it is selected. Raises: LookupError."""
        return self._registry.offer(name)

    def withdraw(self, name: str) -> bool:
        """Hide a known item. Raises: LookupError."""
        return self._registry.withdraw(name)
