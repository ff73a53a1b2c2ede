"""Script that serves the server object of a Python file over stdio: `python_server.py FILE [OBJECT]`.

Supports any version of FastMCP and of the official SDK. Runs under any Python, so it imports only the
standard library.
"""

from __future__ import annotations

import importlib
import inspect
import runpy
import sys
from pathlib import Path
from typing import Any

NAMES = ("mcp", "server", "app")
"""Usual names of a server object, most likely first."""
PACKAGES = ("fastmcp", "mcp")
MODULE = "served_by_mcpdesk"
"""Module name for the file, because its own name may clash with a package."""


def main() -> None:
    """Load the file and serve until stdin ends."""
    path, name = Path(sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) > 2 else ""
    serve(find(load(path), name, path))


def load(path: Path) -> dict[str, Any]:
    """Run a file and return its global variables.

    The module name is not `__main__`, so that the file does not start a server itself. A file in a package is
    imported as a submodule, so that its relative imports work.
    """
    root, names = path.parent, [] if path.stem == "__init__" else [path.stem]
    while (root / "__init__.py").is_file() and root.name.isidentifier():
        names.insert(0, root.name)
        root = root.parent
    is_packaged = root != path.parent and all(name.isidentifier() for name in names)
    if not is_packaged or names[0] in PACKAGES:
        sys.path[0] = str(path.parent)  # this entry was the folder of this script
        return runpy.run_path(str(path), run_name=MODULE)
    sys.path[0] = str(root)
    sys.path.append(str(path.parent))  # for files that import their siblings without the package name
    return vars(importlib.import_module(".".join(names)))


def find(defined: dict[str, Any], name: str, path: Path) -> Any:
    """Return the server object with this name, or the only one in the file."""
    if name:
        if name not in defined:
            sys.exit(f"{path} has no {name}")
        return defined[name]
    servers = {key: value for key, value in defined.items() if _is_server(value)}
    for usual in NAMES:
        if usual in servers:
            return servers[usual]
    if len({id(value) for value in servers.values()}) == 1:
        return next(iter(servers.values()))
    if servers:
        sys.exit(f"{path} has several server objects: {', '.join(servers)}; name one as FILE:NAME")
    sys.exit(f"{path} has no server object to run, neither of FastMCP nor of the official SDK")


def serve(server: Any) -> None:
    """Serve over stdio with the method that the object's class supports."""
    if hasattr(server, "create_initialization_options"):
        import asyncio

        asyncio.run(_serve_low_level(server))
        return
    accepted = inspect.signature(server.run).parameters
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in accepted.values())
    quiet = {"show_banner": False} if "show_banner" in accepted else {}
    if "transport" in accepted or takes_any:
        server.run(transport="stdio", **quiet)
    else:
        server.run(**quiet)


async def _serve_low_level(server: Any) -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def _is_server(value: Any) -> bool:
    package = type(value).__module__.partition(".")[0]
    return package in PACKAGES and callable(getattr(value, "run", None))


if __name__ == "__main__":
    main()
