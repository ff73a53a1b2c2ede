"""`mcpdesk prompt`: a prompt with its arguments filled in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def test_arguments_are_filled_in(mcpdesk: Run, folder: Path) -> None:
    finished = mcpdesk("prompt", str(folder), "summarize", "text=a long tale")
    assert finished.stdout.strip() == "Please summarize: a long tale"
    assert finished.returncode == 0


def test_whole_result_is_printed_as_json(mcpdesk: Run, folder: Path) -> None:
    result = json.loads(mcpdesk("prompt", str(folder), "summarize", "text=x", "--json").stdout)
    assert result["messages"][0]["role"] == "user"


def test_missing_argument_is_a_protocol_error_that_names_it(mcpdesk: Run, folder: Path) -> None:
    finished = mcpdesk("prompt", str(folder), "summarize")
    assert finished.returncode == 4
    assert "text" in finished.stderr
