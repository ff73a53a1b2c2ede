"""Built-in tools that a server folder may enable by name.

They are written like the tools of a server folder, as typed `async def`s with `@tool`. They access the core
through the `Context` of their call. A module is imported when a folder enables one of its tools. Names of
result classes are part of the output schemas that clients receive, so they must not change.
"""

from __future__ import annotations

import unicodedata

from mcpdesk.errors import HandlerError
from mcpdesk.feature import BuiltinTool
from mcpdesk.features import features_with

OWN_TOOLS = {
    "Bash": BuiltinTool("mcpdesk.tools.shell"),
    "AskUserQuestion": BuiltinTool("mcpdesk.tools.ask"),
    "BackgroundBash": BuiltinTool("mcpdesk.tools.shell"),
    "InvokeSkill": BuiltinTool("mcpdesk.tools.skills"),
    "KillBgTask": BuiltinTool("mcpdesk.tools.shell"),
    "ListBgTasks": BuiltinTool("mcpdesk.tools.shell"),
    "PlanMode": BuiltinTool("mcpdesk.tools.plan"),
    "ReadBgOutput": BuiltinTool("mcpdesk.tools.shell"),
    "ReadImage": BuiltinTool("mcpdesk.tools.images", {"PIL": "pillow"}),
    "SetCallback": BuiltinTool("mcpdesk.tools.callbacks"),
    "TaskManager": BuiltinTool("mcpdesk.tools.tasks"),
}


def _tools() -> dict[str, BuiltinTool]:
    tools = dict(OWN_TOOLS)
    for feature in features_with("builtin_tools"):
        tools |= feature.builtin_tools
    return tools


BUILTINS = _tools()
"""Tools by the name in `builtins` of `mcp.json`: first the tools of this package, then the tools of features.
"""
EXTRA = "tools"
"""Extra of the package that installs the libraries of the tools."""
INSTALL = f"pip install 'mcpdesk[{EXTRA}]'"
"""Command that installs these libraries."""


def library_problem(tool: str) -> str:
    """Return a message about libraries that a built-in tool needs but that are not installed, or "" if all
    are installed.
    """
    from importlib.util import find_spec

    libraries = BUILTINS[tool].libraries
    missing = [package for module, package in libraries.items() if find_spec(module) is None]
    if not missing:
        return ""
    clause = "which are not installed" if len(missing) > 1 else "which is not installed"
    return f"{tool} needs {' and '.join(missing)}, {clause}: {INSTALL}"


def check_libraries(tool: str) -> None:
    """Raises: HandlerError if a library that a built-in tool needs is not installed."""
    if problem := library_problem(tool):
        raise HandlerError(problem)


def stripped_text(parameter: str, value: str | None, limit: int) -> str:
    """Return a text argument without surrounding whitespace.

    Raises: HandlerError if it is missing or empty, longer than `limit` characters, or contains control
    characters.
    """
    text = (value or "").strip()
    if not text:
        raise HandlerError(f"{parameter}: is missing; give a text of 1 to {limit} characters")
    if len(text) > limit:
        raise HandlerError(f"{parameter}: has {len(text)} characters; at most {limit} are allowed")
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t":
            name = f"U+{ord(character):04X}"
            raise HandlerError(f"{parameter}: contains the control character {name}; use plain text")
    return text
