"""Find, recognize and check the command with which a client's configuration starts this program.

Configuration files outlive the Python environment where this program runs. `uvx`, `pipx run` and
`uv run --with` create such an environment in a cache, which may be cleaned at any time. Therefore a path
inside a cached environment is never written to a configuration file.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote, urlsplit

from mcpdesk.errors import DeskUserError

VARIABLE = "MCPDESK_PROGRAM"
"""Environment variable that overrides the command to write. Meant for packagers."""
NAME = "mcpdesk"
INSTALL_HINT = (
    f"Install it first, with `uv tool install {NAME}` or `pipx install {NAME}`, or set {VARIABLE} to a "
    "command that starts it."
)
_RUNNERS = {"uvx": (), "uv": ("tool", "run"), "pipx": ("run",)}
"""Programs that run a package in a temporary environment, with their subcommand."""
_SOURCE_FLAGS = {"uvx": "--from", "uv": "--from", "pipx": "--spec"}
"""Option of each runner that names the package to install."""
_PACKAGE = re.compile(rf"{NAME}(?:\[[\w,-]+\])?(?:[@=<>~!].*)?")
_VARIABLE = re.compile(r"\$|\{\w+:")
"""Beginning of a variable in a command: `${NAME}`, or `{env:NAME}` in OpenCode."""
_CACHE_NAMES = frozenset({".cache", "Caches"})
_CACHE_TAG = "CACHEDIR.TAG"
_LASTING_CACHES = (("pypoetry", "virtualenvs"),)
"""Folders in a cache that remain when the cache is cleaned, each as consecutive parts of a path."""
_INTERPRETER = re.compile(rb"\A#![ \t]*(/[^\s]+)|^'''exec' '?(/[^'\"\r\n]+?)'? \"\$0\"", re.MULTILINE)
"""Interpreter of a script: in its `#!` line, or in an `exec` line if the path is too long for `#!`."""


def own_command() -> tuple[str, ...]:
    """Return a permanent command that starts this program from any folder.

    Raises: DeskUserError if this environment is temporary and no other command starts the program.
    """
    return lasting_command(started_command(), os.environ, temporary_folders(os.environ), package_source())


def started_command(script: str = "", executable: str = "") -> tuple[str, ...]:
    """Return the command that started this program, with absolute paths."""
    script, executable = script or sys.argv[0], executable or sys.executable
    for candidate in (Path(script), Path(executable).with_name(NAME)):
        if candidate.name in (NAME, f"{NAME}.exe") and candidate.is_file() and os.access(candidate, os.X_OK):
            return (str(candidate.absolute()),)
    return (executable, "-m", NAME)


def lasting_command(
    started: tuple[str, ...], environ: Mapping[str, str], temporary: Collection[Path], source: str | None
) -> tuple[str, ...]:
    """Return the command to write into a configuration file.

    In this order: the command in the variable `MCPDESK_PROGRAM`; `started`, unless it is in a temporary
    folder; another `mcpdesk` on PATH; `uvx` or `pipx`. `source` is the package in the form that `uvx` and
    `pipx` accept, or None if the package cannot be installed again. Raises: DeskUserError if no permanent
    command exists.
    """
    if configured_command := shlex.split(environ.get(VARIABLE, "")):
        return tuple(configured_command)
    if not is_temporary(Path(started[0]), temporary):
        return started
    path = environ.get("PATH", os.defpath)
    for folder in path.split(os.pathsep):
        script = shutil.which(NAME, path=folder) if folder and Path(folder).name != "shims" else None
        if script and not is_temporary(Path(script), temporary):
            return (str(Path(script).absolute()),)
    environment = Path(started[0]).parent.parent
    if source is None:
        raise DeskUserError(
            f"{NAME} runs from the temporary environment {environment}, and the package that it was "
            "installed from is temporary, too: clients could not start it later.",
            INSTALL_HINT,
        )
    for runner in ("uvx", "pipx"):
        program = shutil.which(runner, path=path)
        if program and not is_temporary(Path(program), temporary):
            flags = () if source == NAME else (_SOURCE_FLAGS[runner], source)
            return (str(Path(program).absolute()), *_RUNNERS[runner], *flags, NAME)
    raise DeskUserError(
        f"{NAME} runs from the temporary environment {environment}: clients could not start it later.",
        INSTALL_HINT,
    )


def temporary_folders(environ: Mapping[str, str]) -> frozenset[Path]:
    """Return the folders whose content may be deleted automatically."""
    folders = [tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"]
    for variable in ("XDG_CACHE_HOME", "UV_CACHE_DIR", "PIP_CACHE_DIR"):
        if folder := environ.get(variable):
            folders.append(folder)
    return frozenset(path for folder in folders for path in (Path(folder).absolute(), Path(folder).resolve()))


def is_temporary(path: Path, temporary: Collection[Path]) -> bool:
    """Return True if a file, or its link target, is in a temporary folder or a cache."""
    return any(_is_in_cache(candidate, temporary) for candidate in {path.absolute(), path.resolve()})


def _is_in_cache(path: Path, temporary: Collection[Path]) -> bool:
    """Return True if a path is in a folder that may be deleted automatically."""
    if any(path.parts[index : index + 2] in _LASTING_CACHES for index in range(len(path.parts))):
        return False
    for folder in path.parents:
        if folder in temporary or folder.name in _CACHE_NAMES:
            return True
        # A virtual environment also has the tag, so that backups skip it. It is not a cache.
        if (folder / _CACHE_TAG).is_file() and not (folder / "pyvenv.cfg").is_file():
            return True
    return False


def package_source() -> str | None:
    """Return the installed package in the form that a runner such as `uvx` accepts.

    For a package from a package index, this is the package's name. None if the package was installed from a
    temporary file or folder.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        direct_url = distribution(NAME).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    return source_of(direct_url, temporary_folders(os.environ))


def source_of(direct_url: str | None, temporary: Collection[Path]) -> str | None:
    """Return the package of a `direct_url.json` in the form that a runner accepts. Source: PEP 610."""
    if direct_url is None:
        return NAME
    try:
        content: dict[str, Any] = json.loads(direct_url)
        url, version_control = str(content["url"]), content.get("vcs_info")
        if version_control:
            return f"{version_control['vcs']}+{url}@{version_control['commit_id']}"
    except (ValueError, KeyError, TypeError):
        return None
    parts = urlsplit(url)
    if parts.scheme != "file":
        return url
    path = Path(unquote(parts.path))
    return str(path) if path.exists() and not is_temporary(path, temporary) else None


def own_arguments(command: object, args: object) -> tuple[str, ...] | None:
    """Return the leading `args` of an entry that only serve to start this program.

    For the console script `mcpdesk`, the result is empty. For a Python interpreter, it is `-m mcpdesk`. For
    `uvx`, `uv` or `pipx`, it ends with the package. None if the entry starts another program.
    """
    if not isinstance(command, str) or not isinstance(args, list):
        return None
    name = PurePath(command).name.removesuffix(".exe")
    if name == NAME:
        return ()
    if args[:2] == ["-m", NAME]:
        return ("-m", NAME)
    subcommand = _RUNNERS.get(name)
    if subcommand is None or tuple(args[: len(subcommand)]) != subcommand:
        return None
    package_index = len(subcommand)
    if args[package_index : package_index + 1] == [_SOURCE_FLAGS[name]]:
        package_index += 2
    if len(args) <= package_index or not _PACKAGE.fullmatch(str(args[package_index])):
        return None
    return tuple(map(str, args[: package_index + 1]))


def failure_reason(command: Sequence[str], environ: Mapping[str, str], temporary: Collection[Path]) -> str:
    """Return the reason why a command will not start this program, now or later, or "" if no reason is known.

    The command is never started, because it may be from an untrusted file. A relative path, or a path with
    variables such as `${workspaceFolder}`, is not checked, because only the client can resolve it.
    """
    if list(command) == shlex.split(environ.get(VARIABLE, "")):
        return ""
    program = Path(command[0])
    if _VARIABLE.search(command[0]):
        return ""
    if program.name == command[0]:
        return "" if shutil.which(command[0]) else f"{command[0]} is not on the PATH"
    if not program.is_absolute():
        return ""
    if not program.exists():
        return f"{program} does not exist"
    if is_temporary(program, temporary):
        return f"{program} is in a cache or a temporary folder"
    if not os.access(program, os.X_OK) or not program.is_file():
        return f"{program} is not a program"
    if (interpreter := _interpreter(program)) and not Path(interpreter).exists():
        return f"the interpreter of {program} does not exist: {interpreter}"
    flag = _SOURCE_FLAGS.get(program.name.removesuffix(".exe"), "")
    if flag and flag in command[1:-1]:
        source = Path(command[command.index(flag) + 1])
        if source.is_absolute() and (not source.exists() or is_temporary(source, temporary)):
            return f"the package {source} does not exist, or is in a temporary folder"
    return ""


def _interpreter(script: Path) -> str:
    """Return the interpreter that a script declares, or "" for a binary.

    If the script declares several interpreters, return the first that does not exist, or else the first.
    """
    try:
        with script.open("rb") as file:
            start = file.read(4096)
    except OSError:
        return ""
    if not start.startswith(b"#!"):
        return ""
    interpreters = [os.fsdecode(first or second) for first, second in _INTERPRETER.findall(start)]
    missing_interpreters = [each for each in interpreters if not os.path.exists(each)]
    return next(iter(missing_interpreters + interpreters), "")
