"""Which actions can be done right now, and which widget does them. Palette and help both ask here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from textual.actions import parse
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget

from mcpdesk.tui.action import Action
from mcpdesk.tui.actions import BY_ID


@dataclass(frozen=True, slots=True)
class Reachable:
    """An action and the widget that has it."""

    action: Action
    owner: DOMNode
    focused: bool
    """Whether the owner holds the focus, or something in it does."""


def reachable(screen: Screen[Any], root: Widget | None = None) -> list[Reachable]:
    """What can be done: by the focused widget, outwards, then by the rest of what `root` shows."""
    chain: list[DOMNode] = list((screen.focused or screen).ancestors_with_self)
    if screen.app not in chain:
        chain.append(screen.app)
    own = [node for node in chain if node is not screen and node is not screen.app]
    shown = (root or screen).walk_children(Widget, with_self=True)
    aside = [node for node in shown if node.display and node not in chain]
    found: dict[str, Reachable] = {}
    for node in (*own, *aside, *(node for node in chain if node not in own)):
        for action in _actions_of(type(node)):
            if action.id not in found and _enabled(node, action):
                found[action.id] = Reachable(action, node, node in chain)
    return list(found.values())


@cache
def _actions_of(kind: type[DOMNode]) -> tuple[Action, ...]:
    return tuple(_declared(kind))


def _declared(kind: type[DOMNode]) -> Iterator[Action]:
    for base in kind.__mro__:
        for binding in base.__dict__.get("BINDINGS", ()):
            action = BY_ID.get(binding.id or "") if isinstance(binding, Binding) else None
            if action is not None and hasattr(kind, action.method):
                yield action


def _enabled(node: DOMNode, action: Action) -> bool:
    _, name, parameters = parse(action.name)
    return bool(node.check_action(name, parameters))
