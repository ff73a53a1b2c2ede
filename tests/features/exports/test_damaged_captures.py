"""Exports of captures with gaps and impossible values."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from mcpdesk.features.exports.http_archive import har
from mcpdesk.features.exports.json_export import json_lines
from mcpdesk.features.exports.markdown_report import report
from mcpdesk.recorder.capture.capture_lines import lost_line
from tests.support.damaged_captures import numbered, opened, read_all


def test_gaps_are_stated_in_every_format(tmp_path: Path) -> None:
    lines = [numbered(0), numbered(9_900_000), lost_line(9_900_001, 9_900_006, "No space left on device")]
    archive = opened(tmp_path / "a.jsonl", [*lines, numbered(9_900_006)])
    index = read_all(archive)
    exported = [orjson.loads(line) for line in json_lines(index, range(3))]
    assert [one["kind"] for one in exported] == ["request", "gap", "request", "gap", "request"]
    assert exported[3] == {"kind": "gap", "frames": 5, "why": "No space left on device"}
    assert b"9,899,999 frames are missing in the capture" in b"".join(report(index, range(3)))
    assert "missing in the capture" in orjson.loads(b"".join(har(index, range(3))))["log"]["comment"]
    archive.close()


@pytest.mark.parametrize("status", ["9" * 5_000, "-1", "٤٠٤", "", "20 0", "²²²"])
def test_a_status_line_of_any_shape_is_exported(tmp_path: Path, status: str) -> None:
    answer = b'{"n":1,"t":0.5,"c":1,"d":"out","json":{"jsonrpc":"2.0","id":1,"result":{}}}\n'
    notes = [(0, "POST /mcp?" + "a&" * 999 + " HTTP/1.1"), (1, f"HTTP/1.1 {status} Word")]
    said = [orjson.dumps({"note": {"frame": at, "line": line, "headers": []}}) + b"\n" for at, line in notes]
    archive = opened(tmp_path / "a.jsonl", [numbered(0), answer, *said])
    (entry,) = orjson.loads(b"".join(har(read_all(archive), range(1))))["log"]["entries"]
    assert entry["time"] == 0 and 0 <= entry["response"]["status"] < 1_000
    archive.close()
