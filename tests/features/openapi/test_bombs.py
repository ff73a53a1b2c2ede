"""OpenAPI documents of strangers in YAML: bombs are refused with file and line, and at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.errors import DeskUserError
from mcpdesk.features.openapi.api_document import read_document
from tests.protocol.test_bounded_yaml import BOMBS


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS)
def test_bomb_is_refused_with_its_file_and_line(bomb: str, tmp_path: Path) -> None:
    file = tmp_path / "bomb.yaml"
    file.write_text(f"openapi: 3.1.0\n{BOMBS[bomb]}\n")
    with pytest.raises(DeskUserError) as refused:
        read_document(file)
    assert "bomb.yaml:" in f"{refused.value} {getattr(refused.value, 'place', '')}"
