"""Panes are imported when they are first visited."""

from __future__ import annotations

import subprocess
import sys

from mcpdesk.tui.screens.clients import ClientsPane
from mcpdesk.tui.screens.logs import LogsPane
from mcpdesk.tui.screens.main_screen import PANES
from tests.support.frame import quiet_link


def test_frame_imports_no_pane() -> None:
    code = "import sys, mcpdesk.tui.app; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20)
    names = set(out.stdout.split())
    assert {name for name in names if name.startswith("mcpdesk.tui.screens.")} == {
        "mcpdesk.tui.screens.frame_lines",
        "mcpdesk.tui.screens.main_screen",
    }
    assert not names & {"aiohttp", "PIL", "jsonschema_rs", "mcpdesk.tui.palette", "mcpdesk.tui.widgets.menu"}


def test_table_makes_panes() -> None:
    link = quiet_link()
    assert isinstance(PANES["clients"](link), ClientsPane)  # type: ignore[arg-type]
    assert isinstance(PANES["logs"](link), LogsPane)  # type: ignore[arg-type]
