"""Parts of an object that are made when somebody asks for them: a server nobody calls waits for none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class part(Generic[T_co]):
    """Decorates a method that makes an attribute. There is only ever one, whichever threads ask for it."""

    def __init__(self, make: Callable[[Any], T_co]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, owner: Any, kind: type) -> T_co:
        made: T_co = owner.__dict__.setdefault(self._name, self._make(owner))
        return made
