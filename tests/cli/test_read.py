"""`mcpdesk read`: text as text, bytes as bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def test_text_is_printed_without_its_front_matter(mcpdesk: Run, folder: Path) -> None:
    finished = mcpdesk("read", str(folder), "resource://notes")
    assert (finished.stdout, finished.returncode) == ("# Notes\n", 0)


def test_bytes_are_written_as_they_are(folder: Path, repository: Path) -> None:
    (folder / "resources" / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n\xff")
    command = [sys.executable, "-m", "mcpdesk", "read", str(folder), "resource://dot"]
    (folder / "resources" / "dot.bin").unlink()
    finished = subprocess.run(command, cwd=repository, capture_output=True, timeout=120, check=True)
    assert finished.stdout == b"\x89PNG\r\n\x1a\n\xff"


def test_whole_result_is_printed_as_json(mcpdesk: Run, folder: Path) -> None:
    result = json.loads(mcpdesk("read", str(folder), "resource://notes", "--json").stdout)
    assert result["contents"][0]["uri"] == "resource://notes"


def test_unknown_resource_is_a_protocol_error(mcpdesk: Run, folder: Path) -> None:
    finished = mcpdesk("read", str(folder), "resource://none")
    assert finished.returncode == 4
    assert "resource://none" in finished.stderr
