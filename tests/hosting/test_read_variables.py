"""Environment variables that the code of a folder reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.hosting.folder import read_variables
from mcpdesk.hosting.folder.read_variables import variables_in
from tests.support.folders import write


def test_variables_with_a_literal_name_are_found_in_every_file(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "a.py": "import os\nos.environ['A1']\nos.environ.get(\n    \"A2\", '')\nos.getenv('A3')\n",
            "tools/deep/b.py": "environ.pop('B1')\nenviron.setdefault('B2', 'x')\nos.getenv(COMPUTED)\n",
            "tools/notes.txt": "os.getenv('TEXT')",
            ".hidden/a.py": "os.getenv('HIDDEN')",
            "__pycache__/a.py": "os.getenv('CACHED')",
            "venv/a.py": "os.getenv('INSTALLED')",
            "node_modules/a.py": "os.getenv('PACKAGED')",
        },
    )
    (tmp_path / "broken.py").symlink_to(tmp_path / "missing")
    (tmp_path / "octets.py").write_bytes(b"# \xff\nos.getenv('C1')\n")
    assert variables_in(tmp_path) == {"A1", "A2", "A3", "B1", "B2", "C1"}


def test_the_search_has_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_variables, "MAX_FILES", 2)
    monkeypatch.setattr(read_variables, "MAX_BYTES", 40)
    late = "os.getenv('FIRST')".ljust(40) + "os.getenv('LATE')"
    write(tmp_path, {"a.py": late, "b.py": "os.getenv('SECOND')", "c.py": "os.getenv('THIRD')"})
    assert variables_in(tmp_path) == {"FIRST", "SECOND"}
