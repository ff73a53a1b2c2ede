"""`mcpdesk check` on a folder that `mcpdesk new` has made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Run


@pytest.mark.process
@pytest.mark.parametrize("part", ["", "tools", "resources", "prompts", "skills"])
def test_new_folder_has_no_warning(mcpdesk: Run, tmp_path: Path, part: str) -> None:
    place = tmp_path / "my-server.v2"
    made = mcpdesk("new", str(place), *(("--with", f"tests, {part}") if part else ()))
    assert made.returncode == 0, made.stderr
    checked = mcpdesk("check", str(place))
    assert checked.returncode == 0, checked.stdout
    assert " warning: " not in checked.stdout
    for kind in () if part else ("tool ", "resource ", "prompt "):
        assert f"\n{kind}" in f"\n{checked.stdout}"
