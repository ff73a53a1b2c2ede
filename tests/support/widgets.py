"""A bare app around one widget, and what a test wants to know of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.widget import Widget

from mcpdesk.tui.forms.form import Form
from mcpdesk.tui.forms.form_model import form_node
from tests.support.driven import driven
from tests.support.patience import screen_lines


class Stage(App[None]):
    """Holds one widget and keeps the messages that reach it."""

    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self.widget = widget
        self.heard: list[Message] = []

    def compose(self) -> ComposeResult:
        yield self.widget

    async def _on_message(self, message: Message) -> None:
        self.heard.append(message)
        await super()._on_message(message)

    def shown(self) -> str:
        """The screen as text."""
        return "\n".join(screen_lines(self))


@asynccontextmanager
async def staged(
    widget: Widget, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[Stage, Pilot[None]]]:
    """Show one widget until the block ends."""
    stage = Stage(widget)
    async with driven(stage, size=size) as pilot:
        yield stage, pilot


@asynccontextmanager
async def form_of(
    schema: dict[str, Any], value: Any = None, size: tuple[int, int] = (80, 40)
) -> AsyncIterator[tuple[Form, Pilot[None], Stage]]:
    """A form for a schema, the focus in its first field."""
    node = form_node(schema)
    if value is not None:
        node.put(value)
    form = Form(node)
    async with staged(form, size) as (stage, pilot):
        form.focus_first()
        await pilot.pause()
        yield form, pilot, stage


"A bare app around one widget, and what a test wants to know of it."
