"""Several `mcpdesk serve` without shared files: each continues what another one began."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import CAPABILITIES_KEY, request_meta
from tests.cli.conftest import started_services
from tests.support.http_client import http_client

pytestmark = pytest.mark.timeout(120)
OLD, NEW = "o" * 32, "n" * 32
SEATS = '''
from dataclasses import dataclass
from mcpdesk.server.calls.context import Context

@dataclass
class Choice:
    name: str

async def book(ctx: Context) -> str:
    """Book a seat."""
    seat = await ctx.elicit("Which seat?", Choice, key="seat")
    meal = await ctx.elicit("Which meal?", Choice, key="meal")
    return f"{seat.content.name} and {meal.content.name}"
'''


async def booked(http: aiohttp.ClientSession, url: str, **more: Any) -> dict[str, Any]:
    """Response to one round of the call."""
    client = {"name": "traveller", "version": "1"}
    meta = request_meta(V2026_07_28, client) | {CAPABILITIES_KEY: {"elicitation": {}}}
    params = {"name": "book", "arguments": {}, "_meta": meta} | more
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": V2026_07_28.name,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "book",
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with http.post(url, json=message, headers=headers) as answer:
        return dict(await answer.json())


def coming_back(asked: dict[str, Any], key: str, name: str) -> dict[str, Any]:
    """Members that the next round adds."""
    answer = {"action": "accept", "content": {"name": name}}
    return {"requestState": asked["result"]["requestState"], "inputResponses": {key: answer}}


@pytest.mark.process
@pytest.mark.requirement("7.9")
async def test_rounds_go_on_with_any_process_that_has_the_secret_and_with_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "travel" / "tools").mkdir(parents=True)
    (tmp_path / "travel" / "tools" / "book.py").write_text(SEATS)
    with started_services() as start:
        urls = []
        for place, secrets in enumerate((f"{OLD},{NEW}", f"{NEW},{OLD}", "")):
            monkeypatch.setenv("MCPDESK_STATE_DIR", str(tmp_path / f"state{place}"))
            monkeypatch.setenv("MCPDESK_REQUEST_STATE_SECRET", secrets)
            service = start(str(tmp_path / "travel"), "--port", "0")
            urls.append(service.says(" at http").rpartition(" ")[2])
        first, second, stranger = urls
        async with http_client() as http:
            seat = await booked(http, first)
            window = coming_back(seat, "seat", "window")
            meal = await booked(http, second, **window)
            assert list(meal["result"]["inputRequests"]) == ["meal"]
            done = await booked(http, first, **coming_back(meal, "meal", "soup"))
            assert done["result"]["content"][0]["text"] == "window and soup"
            refused = await booked(http, stranger, **window)
            assert refused["error"] == {
                "code": -32602,
                "message": "requestState is not valid for this request",
            }
