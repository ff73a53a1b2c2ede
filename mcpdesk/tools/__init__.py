"""The built-in tools a server folder may switch on by name.

They are written as a server folder's own tools are: typed `async def`s under `@tool`, with what they need of
the process taken from their context. A module is imported when a folder asks for one of its tools. The names
of their result classes appear in the output schemas that clients get, so they stay as they are.
"""

from __future__ import annotations

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
