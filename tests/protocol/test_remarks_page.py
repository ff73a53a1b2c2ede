"""The page on remarks has every kind."""

from __future__ import annotations

import re
from pathlib import Path

from mcpdesk.protocol.reading.remark import RemarkKind

PAGE = Path(__file__).parents[2] / "docs" / "remarks.md"


def test_every_kind_of_remark_has_a_row() -> None:
    rows = re.findall(r"^\| `([a-z0-9-]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(RemarkKind)
