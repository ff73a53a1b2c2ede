"""Cases of a folder that `mcpdesk new` has made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import mcpdesk as mcpdesk

if TYPE_CHECKING:
    from tests.cli.conftest import Run


@pytest.mark.process
@pytest.mark.parametrize("part", ["tools", "resources", "prompts", "skills"])
def test_cases_of_a_single_part_pass(mcpdesk: Run, tmp_path: Path, part: str) -> None:
    place = tmp_path / "demo"
    assert mcpdesk("new", str(place), "--with", f"tests, {part}").returncode == 0
    tested = mcpdesk("test", str(place))
    assert tested.returncode == 0, tested.stdout + tested.stderr
