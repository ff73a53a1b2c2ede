"""One Python file of a server folder, loaded and read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mcpdesk.hosting.folder.file_items import FileItems
from mcpdesk.hosting.folder.loader import read_module
from mcpdesk.hosting.folder.module_items import ModuleFile
from mcpdesk.hosting.folder.namespace import Namespace
from tests.support.folders import write


@contextmanager
def module_file(folder: Path, text: str, name: str = "tools/my_file.py") -> Iterator[ModuleFile]:
    """The file with its module, loaded as by the loader."""
    namespace = Namespace(write(folder, {name: text}).resolve())
    try:
        module = namespace.load(namespace.folder / name)
        tree = namespace.sources[module.__name__].tree
        helpers: tuple[ast.Module, ...] = tuple(
            each.tree for each in namespace.imported_files(namespace.folder / name)
        )
        yield ModuleFile(module, name, tree, helpers, {"SET": "1"})
    finally:
        namespace.close()


def found_in(folder: Path, text: str, name: str = "tools/my_file.py", kind: str = "tool") -> FileItems:
    """Return the items of the file."""
    with module_file(folder, text, name) as file:
        return read_module(file, kind)
