"""Declaration of the methods of a link: intents, which a core carries out, and snapshots of its state.

The decorators `intent` and `snapshot` mark the methods in `link.py`. Links to cores in other processes
implement all these methods at once, in `execute` and `read_snapshot`. The types of arguments and results
come from the annotations.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from enum import Enum, auto
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from mcpdesk.link.values import CoreView

Method = TypeVar("Method", bound=Callable[..., Any])
First = TypeVar("First")


class Route(Enum):
    """Cores that carry out an intent, if a front end shows several cores."""

    EVERY_CORE = auto()
    ANY_CORE = auto()
    """One core. All cores give the same result."""
    WITH_SERVER = auto()
    """Every core that has the server in the first argument."""
    WITH_STATE = auto()
    """As `WITH_SERVER`, but only one core if the cores share the state of their servers."""
    SERVING = auto()
    """The core that serves the requests for the server in the first argument."""
    QUESTION = auto()
    """The core whose question has the number in the first argument."""
    CONNECTION = auto()
    """The core whose connection has the number in the first argument."""
    JOB = auto()
    """The core whose job has the id in the first argument."""
    CALLBACK = auto()
    """The core whose callback has the number in the second argument. The first argument is its server."""
    PLAN = auto()
    """The core that has a plan of the server and the session in the first two arguments."""
    ITEM = auto()
    """The core that has the item of the `Intent` in the first argument, or every core."""

    @property
    def is_for_many(self) -> bool:
        """True if several cores may carry out the intent."""
        return self in (Route.EVERY_CORE, Route.WITH_SERVER, Route.WITH_STATE)


class LinkMethod:
    """A declared method of `Link`."""

    def __init__(self, default: Callable[..., Any]) -> None:
        """`default` is the implementation for links that do not support the method."""
        self.default = default
        self.name = default.__name__

    @cached_property
    def hints(self) -> dict[str, Any]:
        """Types of the parameters by name, and the type `return`."""
        return get_type_hints(self.default)

    @cached_property
    def signature(self) -> inspect.Signature:
        """Signature of the method, with `self`."""
        return inspect.signature(self.default)


class LinkIntent(LinkMethod):
    """A method that makes a core do something or asks it for something."""

    def __init__(
        self, default: Callable[..., Any], route: Route, combine: Callable[[list[Any]], Any]
    ) -> None:
        super().__init__(default)
        self.route = route
        self.combine = combine
        """Function that combines the results of several cores."""

    @cached_property
    def has_result(self) -> bool:
        """False if callers do not wait for the intent. Its errors are then shown as notices."""
        return self.hints["return"] is not type(None)

    @cached_property
    def returns_future(self) -> bool:
        """True if the method returns a future. Other methods with a result wait for the core, so they must be
        called on a worker thread.
        """
        return get_origin(self.hints["return"]) is Future

    @property
    def result(self) -> Any:
        """Type of the result, or of the result of the future."""
        result = self.hints["return"]
        return get_args(result)[0] if self.returns_future else result

    @property
    def parameters(self) -> Any:
        """Type of a tuple of all arguments."""
        return tuple.__class_getitem__(tuple(kind for name, kind in self.hints.items() if name != "return"))


class LinkSnapshot(LinkMethod):
    """A method without parameters that returns a part of a core's state."""

    def __init__(self, default: Callable[..., Any], version: Callable[[CoreView], object] | None) -> None:
        super().__init__(default)
        self.version = version
        """Function that returns the version of the part. If it is None, the part is read at intervals."""


INTENTS: dict[str, LinkIntent] = {}
"""Intents by name."""
SNAPSHOTS: dict[str, LinkSnapshot] = {}
"""Snapshots by name."""


class Facet:
    """Base class of the facets of a link. A method that a link does not override ends in this class."""

    def execute(self, intent: LinkIntent, arguments: tuple[Any, ...]) -> Any:
        """Carry out an intent. `arguments` has a value for every parameter."""
        return intent.default(self, *arguments)

    def read_snapshot(self, snapshot: LinkSnapshot) -> Any:
        """Return a part of the state."""
        return snapshot.default(self)


def any_of(results: list[Any]) -> bool:
    """Return True if a result is true."""
    return any(results)


def intent(route: Route, combine: Callable[[list[Any]], Any] = any_of) -> Callable[[Method], Method]:
    """Declare a method of a facet as an intent. `combine` combines the results of several cores.

    The method returns None, a future, or a value. If it returns a value, it waits for the core.
    """

    def declare(default: Method) -> Method:
        link_intent = INTENTS[default.__name__] = LinkIntent(default, route, combine)

        @wraps(default)
        def method(link: Facet, *arguments: Any, **keywords: Any) -> Any:
            bound_arguments = link_intent.signature.bind(link, *arguments, **keywords)
            bound_arguments.apply_defaults()
            return link.execute(link_intent, bound_arguments.args[1:])

        return cast("Method", method)

    return declare


def snapshot(version: Callable[[CoreView], object] | None = None) -> Callable[[Method], Method]:
    """Declare a method of a facet as a snapshot of a part of the state, with the version of the part."""

    def declare(default: Method) -> Method:
        link_snapshot = SNAPSHOTS[default.__name__] = LinkSnapshot(default, version)

        @wraps(default)
        def method(link: Facet) -> Any:
            return link.read_snapshot(link_snapshot)

        return cast("Method", method)

    return declare


def union(results: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the names of all cores without duplicates."""
    return tuple(dict.fromkeys(name for names in results for name in names))


def first(results: Iterable[First | None]) -> First | None:
    """Return the first result that is not None."""
    return next((result for result in results if result is not None), None)
