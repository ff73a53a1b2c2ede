"""The modes of a folder for a front end, rebuilt only after changes."""

from __future__ import annotations

import json
from pathlib import Path

from mcpdesk.hosting.hosted_folder import HostedFolder
from mcpdesk.hosting.journal import Journal
from mcpdesk.link.local.local_catalogue import ModeList
from mcpdesk.settings import resolve

TOOLS = '''
from mcpdesk import tool

async def look() -> str:
    """Look."""
    return "seen"
'''
LACKING = '''
@tool(requires_env="MODE_LIST_TEST_KEY")
async def send() -> str:
    """Send."""
    return "sent"
'''


def write(folder: Path, modes: object) -> None:
    (folder / "mcp.json").write_text(json.dumps({"name": "listed", "modes": modes}))


async def test_modes_say_what_they_offer_and_why_not(tmp_path: Path) -> None:
    folder = tmp_path / "listed"
    (folder / "tools").mkdir(parents=True)
    (folder / "tools/look.py").write_text(TOOLS)
    (folder / "tools/send.py").write_text("from mcpdesk import tool\n" + LACKING)
    write(folder, {})
    hosted = HostedFolder(folder, resolve({"state_dir": tmp_path / "state"}, {}).settings, Journal())
    modes = ModeList(hosted)
    assert modes.views() == ()
    write(folder, {"all": {"tools": ["send", "look", "look", "lok"], "description": "everything"}})
    await hosted.reload()
    (mode,) = modes.views()
    assert (mode.name, mode.description, mode.tools) == ("all", "everything", ("look",))
    assert mode.missing == (
        ("send", "needs MODE_LIST_TEST_KEY, an environment variable that is not set"),
        ("lok", "no tool 'lok'; did you mean look?"),
    )
    assert modes.views() is modes.views()
    (folder / "tools/look.py").write_text(TOOLS.replace("look", "lok"))
    await hosted.reload()
    assert modes.views()[0].tools == ("lok",)
