"""Commands that serve the server object of a Python file or module, in the environment of its project."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import stat
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from mcpdesk.errors import DeskUserError

RUNNER = Path(__file__).parents[1] / "python_server.py"
MODULE = "module:"
"""Prefix of a target that is a module, such as `module:package.server:app`."""
PROJECT_LEVELS = 3
"""Number of folders above a file, or above the current folder, that are searched for an environment."""
ENVIRONMENTS = (".venv", "venv")
MAX_MODULE_NAME_LENGTH = 200
"""Maximum number of characters of a module name that is recognised without the prefix."""
_SCRIPT = re.compile(r"(?m)^# /// script$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def file_command(path: Path, name: str, packages: Sequence[str]) -> tuple[str, ...]:
    """Return the command that serves an object of a Python file. `name` is empty for the only object.

    If the file or `packages` declare dependencies, uv creates the environment. Otherwise the environment is
    that of the file's project, the active environment, or that of the Python on PATH. Raises: DeskUserError.
    """
    runner_arguments = (str(RUNNER), str(path), *((name,) if name else ()))
    requirements = [*_dependencies(path), *packages]
    if requirements:
        return (*_uv_with(requirements, path.name), *runner_arguments)
    return (*python_of(path.parent), *runner_arguments)


def module_command(module: str, name: str, packages: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return the command that serves an object of a module, which is imported in `folder`.

    Raises: DeskUserError.
    """
    if not _MODULE.fullmatch(module):
        raise DeskUserError(f"{module[:80]!r} is not the name of a module.", "Example: package.server:app.")
    runner_arguments = (str(RUNNER), "-m", module, *((name,) if name else ()))
    if packages:
        return (*_uv_with(packages, module), *runner_arguments)
    return (*python_of(folder), *runner_arguments)


def module_target(text: str, folder: Path) -> tuple[str, str] | None:
    """Return the module and the object that a text names, or None if it does not name a module.

    Without the prefix `module:`, the text has a dot, and the package is in `folder` or its `src`.
    """
    if text.startswith(MODULE):
        module, _, name = text.removeprefix(MODULE).partition(":")
        return module, name
    module, _, name = text.partition(":")
    if "." not in module or not _MODULE.fullmatch(module) or (name and not name.isidentifier()):
        return None
    if module.endswith((".py", ".json", ".toml", ".jsonl")):
        return None
    if len(module) > MAX_MODULE_NAME_LENGTH:
        return None
    path = Path(*module.split("."))
    roots = (folder, folder / "src")
    has_module = any((root / path).is_dir() or (root / f"{path}.py").is_file() for root in roots)
    return (module, name) if has_module else None


def module_files(module: str, folder: Path) -> tuple[Path, ...]:
    """Return the package or the file of a module if it is in `folder` or its `src`, or else ()."""
    top_level_name = module.partition(".")[0]
    paths = (
        path
        for root in (folder, folder / "src")
        for path in (root / top_level_name, root / f"{top_level_name}.py")
    )
    return tuple(path for path in paths if path.exists())[:1]


def python_of(folder: Path) -> tuple[str, ...]:
    """Return the command of the Python in the environment of a project, or else `usual_python`."""
    return project_python(folder) or usual_python()


def project_python(folder: Path) -> tuple[str, ...]:
    """Return the command of the Python in the environment of a project, or () if it has none.

    The environment is a `.venv` or `venv` in the folder or above, that of Poetry, or that of uv.
    """
    folders = [each for each in [folder, *folder.parents][:PROJECT_LEVELS] if _is_protected(each)]
    for project_folder in folders:
        for python in _python_paths(project_folder):
            if python.exists():
                return (str(python),)
    project = next((each for each in folders if (each / "uv.lock").is_file()), None)
    if project is not None and (uv := shutil.which("uv")):
        return (uv, "run", "--project", str(project), "python")
    return ()


def usual_python() -> tuple[str, ...]:
    """Return the command of the Python in the active environment, or else of the one on PATH."""
    if active := os.environ.get("VIRTUAL_ENV"):
        python = _python_in(Path(active))
        if python.exists():
            return (str(python),)
    return (shutil.which("python3") or shutil.which("python") or "python3",)


def _is_protected(folder: Path) -> bool:
    """Return True if only this user and root can put a program into a folder."""
    if sys.platform == "win32":
        return True
    try:
        status = folder.stat()
    except OSError:
        return False
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & stat.S_IWOTH


def _python_paths(folder: Path) -> Iterator[Path]:
    """Yield the possible paths of the Python of the project in a folder."""
    for name in ENVIRONMENTS:
        yield _python_in(folder / name)
    if (folder / "poetry.lock").is_file():
        for environment in sorted(_poetry_environments(folder)):
            yield _python_in(environment)


def _python_in(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _poetry_environments(folder: Path) -> Iterator[Path]:
    """Yield the environments that Poetry made for a project.

    Source: Poetry 2, `EnvManager.generate_env_name`.
    """
    digest = hashlib.sha256(os.path.normcase(os.path.realpath(folder)).encode()).digest()
    suffix = base64.urlsafe_b64encode(digest).decode()[:8]
    if environments_path := os.environ.get("POETRY_VIRTUALENVS_PATH"):
        yield from Path(environments_path).glob(f"*-{suffix}-py*")
        return
    caches = [Path.home() / ".cache" / "pypoetry", Path.home() / "Library" / "Caches" / "pypoetry"]
    if cache := os.environ.get("POETRY_CACHE_DIR"):
        caches = [Path(cache)]
    for cache_folder in caches:
        yield from (cache_folder / "virtualenvs").glob(f"*-{suffix}-py*")


def _uv_with(requirements: Sequence[str], name: str) -> tuple[str, ...]:
    return (
        uv_for(f"{name} needs {', '.join(requirements)}"),
        "run",
        "--no-project",
        *[f"--with={each}" for each in requirements],
    )


def uv_for(reason: str) -> str:
    """Return the path of uv. Raises: DeskUserError with the reason if it is not installed."""
    uv = shutil.which("uv")
    if uv is None:
        hint = (
            "Install uv (https://docs.astral.sh/uv), or run the file with a Python that has these packages."
        )
        raise DeskUserError(f"{reason}, which uv can install.", hint)
    return uv


def _dependencies(path: Path) -> list[str]:
    """Return the dependencies that a file's script block declares. Source: PEP 723."""
    try:
        match = _SCRIPT.search(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DeskUserError(f"{path} cannot be read: {error}.") from None
    if match is None:
        return []
    lines = [line[2:] if line.startswith("# ") else line[1:] for line in match["content"].splitlines()]
    try:
        dependencies = tomllib.loads("\n".join(lines)).get("dependencies", [])
    except tomllib.TOMLDecodeError as error:
        raise DeskUserError(f"{path}: its script block is not valid TOML: {error}.") from None
    return [each for each in dependencies if isinstance(each, str)] if isinstance(dependencies, list) else []
