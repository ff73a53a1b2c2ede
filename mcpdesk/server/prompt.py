"""A prompt: its definition and how it becomes messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcpdesk.server.completion import Completer
    from mcpdesk.server.context import Context

Renderer = Callable[[dict[str, str], "Context"], Awaitable[Any]]
"""Arguments and a context in; a str (one user message) or a list of wire messages out."""


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """One argument; values are strings."""

    name: str
    description: str = ""
    title: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt."""

    name: str
    renderer: Renderer = field(compare=False)
    title: str = ""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()
    icons: tuple[dict[str, Any], ...] = ()
    meta: dict[str, Any] = field(default_factory=dict)
    completers: Mapping[str, Completer] = field(default_factory=dict, compare=False)
    """By argument: what suggests values for it."""
    is_offered: bool = True
    """False: served only from when a handler offers it."""
    source: str = field(default="", compare=False)
    fingerprint: str = ""
