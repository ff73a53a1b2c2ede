"""Question whether a configuration file is trusted, with everything it would start, contact and read."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from mcpdesk.link.values import UntrustedFile
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.safe_text import clean
from mcpdesk.tui.widgets.menu import Dialog


class TrustPrompt(Dialog[bool]):
    """Dialog with a file's commands, URLs and variables. The result is True if the person trusts the file.

    Enter does not confirm, because the person pressed enter to open this dialog and may press it twice.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("trust_prompt")
    DEFAULT_CSS = """
    TrustPrompt > .box { width: 96; margin-top: 2; }
    TrustPrompt VerticalScroll { height: auto; max-height: 16; margin: 1 0; }
    TrustPrompt Static { height: auto; }
    """

    def __init__(self, file: UntrustedFile) -> None:
        super().__init__()
        self._file = file

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = "Trust this file?"
            box.border_subtitle = "t trust this content and add it · n, esc close"
            yield Static(Content(clean(self._file.path, newlines=False)))
            with VerticalScroll() as scroll:
                lines = (clean(line, newlines=False) for line in self._file.lines)
                yield Static(Content("\n".join(lines)))
            scroll.can_focus = True
            yield Static(Content("Its programs run with your rights and your environment."))

    def on_mount(self) -> None:
        """Focus the lines, so that arrow keys scroll them."""
        self.query_one(VerticalScroll).focus()
