"""The built-in tools a server folder may switch on by name.

They are written as a server folder's own tools are: typed `async def`s under `@tool`, with what they need of
the process taken from their context. A module is imported when a folder asks for one of its tools. The names
of their result classes appear in the output schemas that clients get, so they stay as they are.
"""

from __future__ import annotations

import unicodedata

from mcpdesk.errors import HandlerError

BUILTINS = {
    "Bash": "mcpdesk.tools.shell",
    "AskUserQuestion": "mcpdesk.tools.ask",
    "BackgroundBash": "mcpdesk.tools.shell",
    "InvokeSkill": "mcpdesk.tools.skills",
    "KillBgTask": "mcpdesk.tools.shell",
    "ListBgTasks": "mcpdesk.tools.shell",
    "PlanMode": "mcpdesk.tools.plan",
    "ReadBgOutput": "mcpdesk.tools.shell",
    "ReadDocs": "mcpdesk.tools.web.docs",
    "ReadImage": "mcpdesk.tools.images",
    "SetCallback": "mcpdesk.tools.callbacks",
    "TaskManager": "mcpdesk.tools.tasks",
    "WebSearch": "mcpdesk.tools.web.search",
}
"""Name, as in `builtins` of `mcp.json`, to the module with the tool of that name."""


def given(parameter: str, value: str | None, limit: int) -> str:
    """A text that a caller gave, without blanks around it.

    Raises: HandlerError when it is missing or empty, has more than `limit` characters, or control characters.
    """
    text = (value or "").strip()
    if not text:
        raise HandlerError(f"{parameter}: is missing; give a text of 1 to {limit} characters")
    if len(text) > limit:
        raise HandlerError(f"{parameter}: has {len(text)} characters; at most {limit} are allowed")
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t":
            raise HandlerError(
                f"{parameter}: holds the control character U+{ord(character):04X}; plain text is allowed"
            )
    return text
