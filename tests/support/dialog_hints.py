"""Keys in the last line of a dialog: their actions are named, as in all footers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Static

from mcpdesk.tui.widgets.menu import Dialog
from tests.support.patience import until

VERB_FORM = re.compile(r"(?:^|· |, )(?:enter|esc|ctrl\+[a-z]|[a-z/]) [a-z]+s\b")
"""Key with an effect, such as "enter adds". Dialogs name the action instead: "enter add"."""


async def check_hints(app: App[Any], pilot: Pilot[Any], dialogs: Iterable[Dialog[Any]]) -> None:
    """Open dialogs one after another, and check the keys in their last lines."""
    assert VERB_FORM.search("ctrl+s save · esc closes")
    for dialog in dialogs:
        await app.push_screen(dialog)
        await until(lambda: "esc" in last_line(app.screen), pilot)
        hints = last_line(app.screen)
        assert "esc close" in hints and not VERB_FORM.search(hints)
        await dialog.dismiss()


def last_line(dialog: Screen[Any]) -> str:
    """Keys at the bottom of a dialog: in the border, or in a line of text."""
    subtitle = str(dialog.query_one(".box").border_subtitle or "")
    return "\n".join([subtitle, *(str(one.visual) for one in dialog.query(".keys").results(Static))])
