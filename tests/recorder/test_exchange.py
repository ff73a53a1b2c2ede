"""Kinds stand in the order a table keeps them in."""

from __future__ import annotations

from mcpdesk.recorder.index.exchange import KINDS
from mcpdesk.recorder.index.message_heads import Shape


def test_kinds_are_in_the_order_of_shapes() -> None:
    assert [kind.name for kind in KINDS] == [shape.name for shape in Shape]
