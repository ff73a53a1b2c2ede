"""`serve` says which tool holds it up, while it does."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.folders import write

if TYPE_CHECKING:
    from tests.cli.conftest import Service

FILES = {
    "mcp.json": '{"name": "slow", "version": "1", "settings": {"tool_timeout_ms": 500}}',
    "tools/work.py": """
        import time
        from helpers import pause

        async def first() -> str:
            \"\"\"Stand first in the file, and hold up nobody.\"\"\"
            return "first"

        async def direct() -> str:
            \"\"\"Hold up everything.\"\"\"
            time.sleep(1.2)
            return "finished"

        async def through_a_helper() -> str:
            \"\"\"Hold up everything in a function of another file.\"\"\"
            pause(1.2)
            return "finished"
        """,
    "helpers.py": """
        import time

        def pause(seconds: float) -> None:
            time.sleep(seconds)
        """,
}


def called(url: str, tool: str) -> str:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(url, json.dumps(message).encode(), headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return str(answer.read().decode())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "place"), [("direct", "tools/work.py:10"), ("through-a-helper", "helpers.py:4")]
)
def test_the_tool_and_the_line_are_logged_within_a_second_and_the_call_timed_out(
    serve: Callable[..., Service], tmp_path: Path, tool: str, place: str
) -> None:
    service = serve(str(write(tmp_path / "slow", FILES)), "--port", "0")
    found = re.search(r"http://[\d.]+:\d+/mcp/slow", service.says("/mcp/slow"))
    assert found is not None
    answers: list[str] = []
    caller = threading.Thread(target=lambda: answers.append(called(found.group(), tool)))
    began = time.monotonic()
    caller.start()
    line = service.says("holds up the server")
    seen_s = time.monotonic() - began
    assert f"warning {tool}: " in line and line.endswith(f"({place})") and seen_s < 1.2
    caller.join()
    assert "not finished within its limit of 0.5 s" in answers[0]
    assert service.end() == 0
    assert not [each for each in service.lines if "holds up" in each and each != line]
