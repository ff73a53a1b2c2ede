"""`fastmcp.json`: a server of FastMCP, its environment and its variables, in one file.

The paths in an untrusted file are not accessed. Once a person has trusted the file, `python_command`
completes the command. The environment of the project is looked up earlier, in the folder of the file and
above. It is a part of what the person trusts, so that an environment that is added later does not run without
a question.

Source: FastMCP documentation, Project Configuration (2026-11).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcpdesk.client.configs.entry_values import InvalidEntry, pairs_at, text_at, texts_at
from mcpdesk.client.configs.python_commands import RUNNER, project_python, usual_python, uv_for
from mcpdesk.client.configs.servers import ConfiguredServer
from mcpdesk.errors import DeskUserError

SUFFIX = "fastmcp.json"
PYTHON = "python"
"""Placeholder for the active Python, or the one on PATH. `python_command` replaces it by a path."""
UV_OPTIONS = {"dependencies": "--with", "editable": "--with-editable"}
"""Option of uv by key of `environment`, for lists."""


def is_fastmcp(document: Any) -> bool:
    """Return True if a configuration describes a server of FastMCP."""
    source = document.get("source") if isinstance(document, dict) else None
    return isinstance(source, dict) and "path" in source


def fastmcp_server(path: Path, document: Mapping[str, Any]) -> ConfiguredServer:
    """Return the server of a file. It runs over stdio, even if the file names another transport.

    A value that cannot be used becomes the server's `problem`.
    """
    stem = path.name.removesuffix(SUFFIX).removesuffix(path.suffix).strip(".")
    name = stem or path.resolve().parent.name or "server"
    try:
        return _server(name, path.resolve().parent, document)
    except (DeskUserError, OSError, ValueError) as error:
        return ConfiguredServer(name, problem=str(error).rstrip("."))


def python_command(server: ConfiguredServer) -> tuple[str, ...]:
    """Return the command of a server with a `python_file`.

    Call this only for a trusted file, because it looks up the paths of the file. Raises: DeskUserError if
    the Python file does not exist.
    """
    file, quoted_path = Path(server.python_file), repr(server.python_file[:200])
    try:
        if not file.is_file():
            raise DeskUserError(f"{server.name}: source.path: no file {quoted_path}.")
        python = usual_python() if server.argv[0] == PYTHON else server.argv[:1]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DeskUserError(f"{server.name}: source.path: {quoted_path} cannot be used: {reason}.") from None
    return (*python, *server.argv[1:])


def _server(name: str, folder: Path, document: Mapping[str, Any]) -> ConfiguredServer:
    """Parse a file in `folder`. Raises: InvalidEntry, DeskUserError, OSError or ValueError."""
    source, environment, deployment = (
        _object_at(document, key) for key in ("source", "environment", "deployment")
    )
    for key, section, allowed in (("source", source, "filesystem"), ("environment", environment, "uv")):
        if (kind := text_at(section, "type")) not in ("", allowed):
            raise InvalidEntry(f"{key}.type is {kind[:80]!r}; allowed: {allowed}")
    file = folder / text_at(source, "path")
    runner_arguments = [str(RUNNER), str(file), text_at(source, "entrypoint")]
    arguments = texts_at(deployment, "args")
    python = project_python(folder)
    return ConfiguredServer(
        name,
        (*_python(folder, file, environment, python), *runner_arguments, *arguments),
        pairs_at(deployment, "env"),
        str(folder / text_at(deployment, "cwd")),
        python_file=str(file),
        project_python=python,
    )


def _python(
    folder: Path, file: Path, environment: Mapping[str, Any], python: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the command of the Python that runs the file.

    If the file declares an environment, uv creates it. Otherwise the command is `python`, that of the
    project, or `PYTHON` if the project has none.
    """
    options: list[str] = []
    if version := text_at(environment, "python"):
        options.append(f"--python={version}")
    for key, option in UV_OPTIONS.items():
        base = folder if key == "editable" else None
        options += [f"{option}={base / each if base else each}" for each in texts_at(environment, key)]
    if requirements := text_at(environment, "requirements"):
        options.append(f"--with-requirements={folder / requirements}")
    project = text_at(environment, "project")
    options.append(f"--project={folder / project}" if project else "--no-project")
    if options == ["--no-project"]:
        return python or (PYTHON,)
    return (uv_for(f"the environment of {file.name} has packages"), "run", *options, "python")


def _object_at(keys: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = keys.get(key)
    if value is not None and not isinstance(value, dict):
        raise InvalidEntry(f"{key} must be an object")
    return value or {}
