"""A Python file of a server folder that has been run: its module, its text, and where things stand in it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol

from msgspec import Struct

from mcpdesk.errors import RegistrationError
from mcpdesk.hosting.digest import digest

Function = Callable[..., Any]


class Origin(Protocol):
    """What an item was read from."""

    def place(self, function: Function) -> str:
        """Where a function stands, to be shown."""


class ModuleFile(Struct, frozen=True):
    """A module and what is known of its file."""

    module: ModuleType
    path: str
    """Relative to the server folder, with slashes."""
    tree: ast.Module
    helpers: tuple[ast.Module, ...]
    """Files of the folder it imports, directly or not."""
    environment: Mapping[str, str]

    def place(self, function: Function) -> str:
        """`tools/user_profile.py:9`: where a function's `def` stands."""
        node = self._node(function)
        line = node.lineno if node is not None else inspect.unwrap(function).__code__.co_firstlineno
        return f"{self.path}:{line}"

    def fingerprints(self, functions: Sequence[Function]) -> Iterator[str]:
        """One for each: changes when the function, or anything it may use in its file and helpers, changes in
        meaning. The others of `functions` are not among that."""
        nodes = [self._node(each) for each in functions]
        own = {id(node) for node in nodes}
        others = (*(node for node in self.tree.body if id(node) not in own), *self.helpers)
        shared = digest("\n".join(map(ast.dump, others)).encode())
        for function, found in zip(functions, nodes, strict=True):
            yield digest(f"{shared}\n{function.__qualname__}\n{ast.dump(found) if found else ''}".encode())

    def _node(self, function: Function) -> ast.stmt | None:
        name = inspect.unwrap(function).__name__
        kinds = (ast.AsyncFunctionDef, ast.FunctionDef)
        return next(
            (node for node in reversed(self.tree.body) if isinstance(node, kinds) and node.name == name), None
        )

    def line_of(self, name: str) -> int:
        """The line on which the module assigns a name; 1 when it does so nowhere."""
        for node in self.tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return node.lineno
        return 1


def awaitable(function: Function) -> Callable[..., Awaitable[Any]]:
    """A function as one to be awaited; a plain `def` runs in a worker thread.

    Raises: RegistrationError for a generator.
    """
    if inspect.iscoroutinefunction(function):
        return function
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise RegistrationError(
            f"{function.__name__} yields; return one value, and report on the way with ctx"
        )
    from mcpdesk.server import sync_context  # many folders have async functions alone

    return sync_context.awaitable(function)


def dashed(name: str) -> str:
    """A Python name as the name of a tool: `user_profile` is `user-profile`."""
    return name.strip("_").replace("_", "-")
