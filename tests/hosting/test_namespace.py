"""Modules of a folder: private, found by plain imports, and reloaded with their helpers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.hosting.folder.namespace import ROOT, Namespace
from tests.support.folders import write


@pytest.fixture
def opened() -> Iterator[list[Namespace]]:
    """Namespaces to be closed after the test."""
    namespaces: list[Namespace] = []
    yield namespaces
    for each in namespaces:
        each.close()


def open_folder(opened: list[Namespace], folder: Path, files: dict[str, str]) -> Namespace:
    namespace = Namespace(write(folder, files).resolve())
    opened.append(namespace)
    return namespace


def value(namespace: Namespace, name: str) -> Any:
    return namespace.load(namespace.folder / name).VALUE


def test_plain_imports_find_files_beside_then_in_the_folder(opened: list[Namespace], tmp_path: Path) -> None:
    files = {
        "tools/a.py": "import near, far, package.inner\nfrom package import inner as again\n"
        "VALUE = [near.VALUE, far.VALUE, package.inner.VALUE, again is package.inner]",
        "tools/near.py": "VALUE = 'beside'",
        "near.py": "VALUE = 'above'",
        "far.py": "VALUE = 'above'",
        "package/__init__.py": "",
        "package/inner.py": "from . import other\nfrom .other import VALUE",
        "package/other.py": "VALUE = 'relative'",
    }
    assert value(open_folder(opened, tmp_path, files), "tools/a.py") == ["beside", "above", "relative", True]


def test_imports_under_src_find_src_first(opened: list[Namespace], tmp_path: Path) -> None:
    files = {
        "src/tools/a.py": "from shared import VALUE",
        "src/shared.py": "VALUE = 'src'",
        "shared.py": "VALUE = 'folder'",
    }
    assert value(open_folder(opened, tmp_path, files), "src/tools/a.py") == "src"


def test_standard_library_and_packages_are_not_shadowed(opened: list[Namespace], tmp_path: Path) -> None:
    files = {
        "tools/json.py": "import json, orjson\nVALUE = json.dumps([1])",
        "tools/late.py": "def _f():\n    import helper\n    return helper.VALUE\nVALUE = _f()",
        "helper.py": "VALUE = 'late'",
    }
    namespace = open_folder(opened, tmp_path, files)
    assert value(namespace, "tools/json.py") == "[1]"
    assert value(namespace, "tools/late.py") == "late"


def test_tracebacks_show_the_real_file(opened: list[Namespace], tmp_path: Path) -> None:
    namespace = open_folder(opened, tmp_path, {"tools/a.py": "\n\n1 / 0"})
    with pytest.raises(ZeroDivisionError) as caught:
        namespace.load(namespace.folder / "tools/a.py")
    last = caught.traceback[-1]
    assert (Path(str(last.path)), last.lineno + 1) == (namespace.folder / "tools/a.py", 3)


def test_no_compiled_files_are_left_in_the_folder(opened: list[Namespace], tmp_path: Path) -> None:
    namespace = open_folder(opened, tmp_path, {"a.py": "import b\nVALUE = 1", "b.py": ""})
    namespace.load(namespace.folder / "a.py")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.py", "b.py"]


def reload(namespace: Namespace, files: dict[str, str]) -> None:
    write(namespace.folder, files)
    namespace.refresh()


def test_circular_imports_work_and_end(opened: list[Namespace], tmp_path: Path) -> None:
    namespace = open_folder(opened, tmp_path, {"a.py": "import b\nVALUE = 1", "b.py": "import a\nVALUE = 2"})
    assert value(namespace, "a.py") == 1
    reload(namespace, {"b.py": "import a\nVALUE = 33"})
    assert value(namespace, "a.py") == 1
    assert value(namespace, "b.py") == 33


def test_closed_namespace_leaves_nothing_behind(tmp_path: Path) -> None:
    namespace = Namespace(write(tmp_path, {"tools/a.py": "VALUE = 1"}).resolve())
    namespace.load(namespace.folder / "tools/a.py")
    namespace.close()
    assert not [name for name in sys.modules if name.startswith(namespace.prefix)]
    assert ROOT in sys.modules
