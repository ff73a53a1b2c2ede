"""What an author gives for suggestions, a list or a function per argument, as completers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mcpdesk.errors import HandlerError, RegistrationError
from mcpdesk.hosting.module_file import awaitable
from mcpdesk.protocol.jsonrpc import invalid_params
from mcpdesk.server.completion import Completer
from mcpdesk.server.context import Context

SHAPE = "a list of texts, or a function of (value), (value, arguments) or (value, arguments, ctx)"


def completers(given: Mapping[str, Any], names: Iterable[str], place: str) -> dict[str, Completer]:
    """A completer for each named argument.

    Raises: RegistrationError for a name that is no argument, or for what suggests nothing.
    """
    known = list(names)
    for name in given:
        if name not in known:
            allowed = f"there are {', '.join(known)}" if known else "there is none"
            raise RegistrationError(f"complete names {name!r}, which is no argument; {allowed}", place)
    return {name: _completer(name, source, place) for name, source in given.items()}


def listed(choices: Iterable[str]) -> Completer:
    """Suggests of fixed choices those that start with what was typed, then those that contain it."""
    fixed = tuple(dict.fromkeys(choices))

    async def suggest(typed: str, _given: dict[str, str], _context: Context) -> list[str]:
        sought = typed.casefold()
        fitting = [each for each in fixed if sought in each.casefold()]
        return sorted(fitting, key=lambda each: not each.casefold().startswith(sought))

    return suggest


def _completer(name: str, source: Any, place: str) -> Completer:
    if callable(source):
        return _called(name, source, place)
    if isinstance(source, list | tuple) and source and all(isinstance(each, str) for each in source):
        return listed(source)
    raise RegistrationError(f"complete[{name!r}] has to be {SHAPE}", place)


def _parameters(function: Callable[..., Any]) -> int:
    """How many it takes; 0 for what does not say."""
    try:
        return len(inspect.signature(function).parameters)
    except ValueError:
        return 0


def _called(name: str, function: Callable[..., Any], place: str) -> Completer:
    wanted = _parameters(function)
    if wanted not in (1, 2, 3):
        raise RegistrationError(f"complete[{name!r}] has to be {SHAPE}", place)

    awaited = awaitable(function)

    async def suggest(typed: str, given: dict[str, str], context: Context) -> Iterable[str]:
        try:
            found = await awaited(*(typed, given, context)[:wanted])
        except HandlerError as error:
            raise invalid_params(error.message, error.data) from error
        return [found] if isinstance(found, str) else found or ()

    return suggest
