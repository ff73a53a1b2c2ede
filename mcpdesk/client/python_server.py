"""Script that serves the server object of a Python file or module over stdio.

Usage: `python_server.py FILE [OBJECT [ARGUMENT...]]` or `python_server.py -m MODULE [OBJECT]`. If OBJECT is
empty, the only server object is used. The file receives the ARGUMENTs in `sys.argv`. Supports any version of
FastMCP and of the official SDK. Runs under any Python, so it imports only the standard library.
"""

from __future__ import annotations

import importlib
import inspect
import runpy
import sys
from pathlib import Path
from typing import Any

OBJECT_NAMES = ("mcp", "server", "app")
"""Usual names of a server object, most likely first."""
SERVER_PACKAGES = ("fastmcp", "mcp")
MODULE_NAME = "served_by_mcpdesk"
"""Module name for the file, because its own name may clash with a package."""


def main() -> None:
    """Load the file or module, and serve until stdin ends."""
    arguments = sys.argv[1:]
    is_module = arguments[:1] == ["-m"]
    subject, *remaining = arguments[1:] if is_module else arguments
    sys.argv = [subject, *remaining[1:]]
    global_variables = load_module(subject) if is_module else load(Path(subject).resolve())
    serve(make_server(find(global_variables, remaining[0] if remaining else "", subject)))


def load_module(name: str) -> dict[str, Any]:
    """Import a module from the current folder, its `src`, or the environment. Return its global variables."""
    sys.path[0] = str(Path.cwd())  # this entry was the folder of this script
    sys.path.insert(1, str(Path.cwd() / "src"))
    return vars(importlib.import_module(name))


def make_server(value: Any) -> Any:
    """Return the server object. A function is called without arguments, because it creates the server."""
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
    root = path.parent
    names = [] if path.stem == "__init__" else [path.stem]
    while (root / "__init__.py").is_file() and root.name.isidentifier():
        names.insert(0, root.name)
        root = root.parent
    is_packaged = root != path.parent and all(name.isidentifier() for name in names)
    if not is_packaged or names[0] in SERVER_PACKAGES:
        sys.path[0] = str(path.parent)  # this entry was the folder of this script
        return runpy.run_path(str(path), run_name=MODULE_NAME)
    sys.path[0] = str(root)
    sys.path.append(str(path.parent))  # for files that import their siblings without the package name
    return vars(importlib.import_module(".".join(names)))


def find(global_variables: dict[str, Any], name: str, path: str) -> Any:
    """Return the object with this name, or the only server object in the file or module `path`."""
    if name:
        if name not in global_variables:
            sys.exit(f"{path} has no {name}")
        return global_variables[name]
    server_objects = {key: value for key, value in global_variables.items() if _is_server(value)}
    for usual_name in OBJECT_NAMES:
        if usual_name in server_objects:
            return server_objects[usual_name]
    if len({id(value) for value in server_objects.values()}) == 1:
        return next(iter(server_objects.values()))
    if server_objects:
        sys.exit(f"{path} has several server objects: {', '.join(server_objects)}; name one as FILE:NAME")
    sys.exit(f"{path} has no server object to run, neither of FastMCP nor of the official SDK")


def serve(server: Any) -> None:
    """Serve over stdio with the method that the object's class supports."""
    if hasattr(server, "create_initialization_options"):
        import asyncio

        asyncio.run(_serve_low_level(server))
        return
    parameters = inspect.signature(server.run).parameters
    accepts_any_keyword = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    banner_option = {"show_banner": False} if "show_banner" in parameters else {}
    if "transport" in parameters or accepts_any_keyword:
        server.run(transport="stdio", **banner_option)
    else:
        server.run(**banner_option)


async def _serve_low_level(server: Any) -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


def _is_server(value: Any) -> bool:
    package = type(value).__module__.partition(".")[0]
    return package in SERVER_PACKAGES and callable(getattr(value, "run", None))


if __name__ == "__main__":
    main()
