"""Dialog for fault rules, one per line. The rules delay, lose or cut messages."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from mcpdesk.features.holding.held_message import SetFaults, hold_view
from mcpdesk.link.link import Link
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.menu import Dialog
from mcpdesk.tui.widgets.text_field import TextField

_HELP = """\
delay 2s 10% for tool:echo     delay 0.5s..3s for peer:claude     lose 5%     cut 10% for tool:echo
error -32000 "busy" 20%     session 2% (404 over HTTP)     seed 7 (another random sequence)
ctrl+r apply the rules; an empty field ends all faults · esc close without changes"""


class FaultDialog(Dialog[None]):
    """Editor of the fault rules. Errors are shown below the editor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "apply", "Set the rules", show=False, priority=True),
        Binding("escape", "dismiss(None)", "Close", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    FaultDialog > .box { width: 96%; max-width: 110; height: 16; max-height: 90%; }
    FaultDialog TextField { height: 1fr; padding: 0; background: transparent; }
    FaultDialog .wrong { height: auto; color: $text-error; display: none; }
    FaultDialog .wrong.-shown { display: block; }
    FaultDialog .keys { height: auto; color: $text-muted; }
    """
    area = query_one(TextField)

    def __init__(self, link: Link, suggested_filter: str = "") -> None:
        """Create the dialog. `suggested_filter` is used in an example rule if no faults are set."""
        super().__init__()
        self._link = link
        self._suggested_filter = suggested_filter

    def compose(self) -> ComposeResult:
        """Compose rules, errors and keys."""
        with Vertical(classes="box") as box:
            box.border_title = "Faults by rule"
            example = f"# delay 2s 10% for {self._suggested_filter or 'tool:NAME'}\n"
            yield TextField(hold_view(self._link).faults or example, compact=True, show_line_numbers=True)
            yield Static(classes="wrong", markup=False)
            yield Static(Content(_HELP), classes="keys", markup=False)

    def on_mount(self) -> None:
        """Focus the end of the rules."""
        self.area.focus()
        self.area.move_cursor(self.area.document.end)

    @work
    async def action_apply(self) -> None:
        """Set the rules. If they contain an error, show the error instead."""
        error_line = self.query_one(".wrong", Static)
        try:
            await asyncio.wrap_future(self._link.do(SetFaults(self.area.entered_text)))
        except ValueError as error:
            error_line.update(Content(f"✗ {one_line(str(error))}"))
            error_line.add_class("-shown")
            return
        self.dismiss(None)
