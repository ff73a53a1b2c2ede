"""Script that serves the server object of a Python file or module over stdio.

Usage: `python_server.py FILE [OBJECT [ARGUMENT...]]` or `python_server.py -m MODULE [OBJECT]`. An empty
OBJECT stands for the only one. The file finds the ARGUMENTs in `sys.argv`. Supports any version of FastMCP
and of the official SDK. Runs under any Python, so it imports only the standard library.
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
    """Load the file or module, and serve until stdin ends."""
    words = sys.argv[1:]
    is_module = words[:1] == ["-m"]
    subject, *rest = words[1:] if is_module else words
    sys.argv = [subject, *rest[1:]]
    defined = load_module(subject) if is_module else load(Path(subject).resolve())
    serve(made(find(defined, rest[0] if rest else "", subject)))


def load_module(name: str) -> dict[str, Any]:
    """Import a module from the current folder, its `src`, or the environment. Return its global variables."""
    sys.path[0] = str(Path.cwd())  # this entry was the folder of this script
    sys.path.insert(1, str(Path.cwd() / "src"))
    return vars(importlib.import_module(name))


def made(value: Any) -> Any:
    """Return a server object. A function without arguments is called, because it makes the server."""
    if not inspect.isfunction(value):
        return value
    result = value()
    if inspect.isawaitable(result):
        import asyncio

        async def wait() -> Any:
            return await result

        return asyncio.run(wait())
    return result


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


def find(defined: dict[str, Any], name: str, path: str) -> Any:
    """Return the object with this name, or the only server object in the file or module `path`."""
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
