"""The width from which panes show details beside a list instead of below it."""

from __future__ import annotations

from textual.widget import Widget

BESIDE_FROM = 160
"""Minimum width in cells, including borders and padding, of a pane that shows its details beside the list."""


def has_room_beside(pane: Widget) -> bool:
    """Return True if a pane is wide enough for details beside its list."""
    return pane.outer_size.width >= BESIDE_FROM
