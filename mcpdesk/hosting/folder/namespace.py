"""Python modules of one server folder, kept apart from those of other folders.

Each folder has a private package in `sys.modules`. Inside the folder, `import helper` first looks for the
folder's own `helper.py`: next to the importing file, then in `src/`, then in the folder itself. A name of the
standard library always means the standard library. A changed file is reloaded together with the files that
import it.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from itertools import count
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from msgspec import Struct

from mcpdesk.hosting.folder.file_items import digest

ROOT = "mcpdesk_folders"
"""Package in `sys.modules` that contains the packages of all folders."""
OUTSIDE_NAMES = sys.stdlib_module_names | {"mcpdesk"}
"""Names of modules that are never searched for in a folder."""

_numbers = count(1)


_ATTEMPTS = 5
"""Number of attempts to parse a file.

Python before 3.11.8 and 3.12.2 fails if two threads parse at the same time, because they share a depth
counter (CPython's issue 106905). The next attempt succeeds.
"""


def _compiled(data: bytes, path: Path) -> tuple[ast.Module, CodeType]:
    """Return the syntax tree and the code of a file. Raises: SyntaxError, ValueError."""
    for _ in range(_ATTEMPTS):
        with suppress(SystemError):
            tree = ast.parse(data, str(path))
            break
    else:
        tree = ast.parse(data, str(path))
    return tree, compile(tree, str(path), "exec", dont_inherit=True)


class SourceFile(Struct, frozen=True):
    """State of a file when its module was loaded."""

    path: Path
    tree: ast.Module
    digest: str
    """Hash of the file's content."""
    imported_paths: frozenset[Path]
    """Files of the folder that this file imports."""


class Namespace:
    """Private package of one server folder. `folder` is an absolute path without symbolic links."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = f"{ROOT}.{re.sub(r'[^A-Za-z0-9_]', '_', folder.name)}_{next(_numbers)}"
        self.sources: dict[str, SourceFile] = {}
        self._unloaded: dict[str, tuple[ModuleType, SourceFile]] = {}
        """Modules that `refresh` unloaded, until `restore_unchanged` restores or drops them."""
        self._builtins = {**vars(builtins), "__import__": self._import}
        _FINDER.namespaces[self.prefix] = self
        sys.modules[self.prefix] = _package(self.prefix, folder)

    def close(self) -> None:
        """Remove every module. Code that is running is not affected."""
        _FINDER.namespaces.pop(self.prefix, None)
        for name in [name for name in sys.modules if f"{name}.".startswith(f"{self.prefix}.")]:
            del sys.modules[name]

    def refresh(self, outdated: Iterable[Path] = ()) -> None:
        """Unload each module that is out of date.

        A module is out of date if its file or a file that it imports has changed or is among `outdated`.
        """
        for name in self._outdated_modules(outdated):
            module = sys.modules.pop(name, None)
            source = self.sources.pop(name)
            if module is not None:
                self._unloaded[name] = module, source
                _unbind_from_package(name)

    def restore_unchanged(self) -> None:
        """Restore unloaded modules that were not loaded again. Modules of deleted files stay unloaded."""
        for name, (module, source) in self._unloaded.items():
            if name not in sys.modules and source.path.is_file():
                sys.modules[name] = module
                self.sources[name] = source
                _bind_in_package(name, module)
        self._unloaded.clear()

    def load(self, path: Path) -> ModuleType:
        """Return the module of a file, and load it if needed. Raises any exception of the file's code."""
        return importlib.import_module(self.name_of(path))

    def name_of(self, path: Path) -> str:
        """Return the full module name of a file or folder in the server folder."""
        parts = path.relative_to(self.folder).with_suffix("").parts
        return ".".join((self.prefix, *(parts[:-1] if parts[-1:] == ("__init__",) else parts)))

    def imported_files(self, path: Path) -> Iterator[SourceFile]:
        """Yield the files that a file imports, directly or indirectly."""
        by_path = {source.path: source for source in self.sources.values()}
        pending = [path]
        known_files = {path}
        while pending:
            source = by_path.get(pending.pop())
            if source is None:
                continue
            for imported_path in sorted(source.imported_paths - known_files):
                known_files.add(imported_path)
                pending.append(imported_path)
                if imported_path in by_path:
                    yield by_path[imported_path]

    def spec(self, fullname: str) -> ModuleSpec | None:
        """Return the import spec of a module of the folder, or None if the module does not exist."""
        base = self.folder.joinpath(*fullname[len(self.prefix) + 1 :].split("."))
        for path, package_path in (
            (base / "__init__.py", [str(base)]),
            (base.with_name(base.name + ".py"), None),
        ):
            if path.is_file():
                loader: Any = _FileLoader(self, path)
                return spec_from_file_location(
                    fullname, path, loader=loader, submodule_search_locations=package_path
                )
        if not base.is_dir():
            return None
        spec = ModuleSpec(fullname, None, is_package=True)
        spec.submodule_search_locations = [str(base)]
        return spec

    def execute(self, module: ModuleType, path: Path) -> None:
        """Run the code of a file in its module. Imports in this code search the folder first."""
        data = path.read_bytes()
        if b"# /// script" in data:
            from mcpdesk.hosting.folder.requirements import check_script  # rarely needed

            check_script(data, path.relative_to(self.folder).as_posix())
        tree, code = _compiled(data, path)
        module.__dict__["__builtins__"] = self._builtins
        exec(code, module.__dict__)
        imported_paths = frozenset(self._imported_files_of(tree, path))
        self.sources[module.__name__] = SourceFile(path, tree, digest(data), imported_paths)

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Import a module for the folder's code. Replaces `__import__` in this code."""
        folder = self._folder_of(name, (globals or {}).get("__file__")) if level == 0 else None
        if folder is None:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        package = self.name_of(folder / "x").rpartition(".")[0]
        module = builtins.__import__(f"{package}.{name}", None, None, fromlist or ("__name__",), 0)
        return module if fromlist else sys.modules[f"{package}.{name.partition('.')[0]}"]

    def _folder_of(self, name: str, importer: str | None) -> Path | None:
        """Return the folder where an `import` finds the module, or None if the module does not belong to this
        folder.
        """
        top_name = name.partition(".")[0]
        if top_name in OUTSIDE_NAMES or importer is None:
            return None
        importer_folder = Path(importer).parent
        candidates = (importer_folder, self.folder / "src", self.folder)
        return next((folder for folder in candidates if _has_module(folder, top_name)), None)

    def _imported_files_of(self, tree: ast.Module, path: Path) -> Iterator[Path]:
        """Yield the files of the folder that are named in a file's import statements."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._module_files(self._folder_of(alias.name, str(path)), alias.name)
            elif isinstance(node, ast.ImportFrom):
                module = node.module or ""
                folder = path.parents[node.level - 1] if node.level else self._folder_of(module, str(path))
                for alias in node.names:
                    yield from self._module_files(folder, f"{module}.{alias.name}".strip("."))

    def _module_files(self, folder: Path | None, name: str) -> Iterator[Path]:
        """Yield the existing files of a module and its parent packages. None of them if `folder` is None."""
        parts = name.split(".") if folder is not None else ()
        for part in parts:
            assert folder is not None
            folder = folder / part
            yield from (
                path for path in (folder.with_name(part + ".py"), folder / "__init__.py") if path.is_file()
            )

    def _outdated_modules(self, outdated: Iterable[Path]) -> list[str]:
        """Return the names of the modules that `refresh` must unload."""
        changed_paths = {
            source.path for source in self.sources.values() if _current_digest(source.path) != source.digest
        }.union(outdated)
        while True:
            importers = {
                source.path for source in self.sources.values() if source.imported_paths & changed_paths
            } - changed_paths
            if not importers:
                return [name for name, source in self.sources.items() if source.path in changed_paths]
            changed_paths |= importers


class _FileLoader:
    """Module loader that writes no compiled files into the author's folder."""

    def __init__(self, namespace: Namespace, path: Path) -> None:
        self._namespace = namespace
        self._path = path

    def create_module(self, _spec: ModuleSpec) -> None:
        """Return None, so that the import system creates the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the file's code in the module."""
        self._namespace.execute(module, self._path)


class _Finder:
    """Finder in `sys.meta_path` for the modules of all server folders."""

    def __init__(self) -> None:
        self.namespaces: dict[str, Namespace] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of a server folder by its full name. None for other modules."""
        if not fullname.startswith(f"{ROOT}."):
            return None
        namespace = self.namespaces.get(".".join(fullname.split(".")[:2]))
        return None if namespace is None else namespace.spec(fullname)


def _package(name: str, folder: Path | None = None) -> ModuleType:
    """Create an empty package whose modules are in a folder."""
    module = ModuleType(name)
    module.__path__ = [] if folder is None else [str(folder)]
    return module


def _has_module(folder: Path, name: str) -> bool:
    """Return True if a folder contains a Python file, or a subfolder with Python files, of this name."""
    subfolder = folder / name
    return (folder / f"{name}.py").is_file() or (subfolder.is_dir() and any(subfolder.glob("*.py")))


def _bind_in_package(name: str, module: ModuleType) -> None:
    """Set a module as an attribute of its package."""
    parent, _, leaf = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], leaf, module)


def _unbind_from_package(name: str) -> None:
    """Remove the attribute of a package for a module."""
    parent, _, leaf = name.rpartition(".")
    if parent in sys.modules:
        vars(sys.modules[parent]).pop(leaf, None)


def _current_digest(path: Path) -> str:
    """Return the hash of a file's content, or "" if the file cannot be read."""
    try:
        return digest(path.read_bytes())
    except OSError:
        return ""


_FINDER = _Finder()
sys.meta_path.insert(0, _FINDER)
sys.modules.setdefault(ROOT, _package(ROOT))
