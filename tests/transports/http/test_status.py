"""Plain facts, which anybody may ask for."""

from __future__ import annotations

from mcpdesk.auth.token_rules import Access
from mcpdesk.recorder.record import CaptureHealth
from mcpdesk.transports.base import Rules
from tests.support.site import serving


async def test_health_and_status_need_no_key() -> None:
    async with serving(Rules(api_key="secret", enable_mcp=False)) as served:
        async with served.client.get(f"{served.url}/health") as answer:
            assert (answer.status, await answer.json()) == (200, {"status": "ok"})
        async with served.client.get(f"{served.url}/status") as answer:
            body = await answer.json()
    assert (body["status"], body["name"], body["version"]) == ("ok", "sample", "1.0")
    assert (body["tools"], body["resources"], body["prompts"], body["uptime_s"]) == (9, 2, 1, 1.5)
    assert body["key_required"] and body["token_required"]
    assert "secret" not in str(body)


async def test_a_server_that_wants_a_token_says_so() -> None:
    async with serving() as served:
        async with served.client.get(f"{served.url}/status") as answer:
            assert not (await answer.json())["token_required"]
        served.peer.server.access = Access(requires_token=True)
        async with served.client.get(f"{served.url}/status") as answer:
            body = await answer.json()
    assert body["token_required"] and not body["key_required"]
    assert [each["token_required"] for each in body["servers"]] == [True]


async def test_whether_frames_reach_the_capture_is_said() -> None:
    said = [
        (CaptureHealth(False), {"state": "off", "missing_frames": 0}),
        (CaptureHealth(True, "", 7), {"state": "writing", "missing_frames": 7}),
        (
            CaptureHealth(True, "No space left on device", 7),
            {"state": "failing", "missing_frames": 7, "error": "No space left on device"},
        ),
    ]
    async with serving() as served:
        for served.capture, capture in said:
            async with served.client.get(f"{served.url}/status") as answer:
                assert (await answer.json())["capture"] == capture


async def test_the_page_of_text_names_what_is_here() -> None:
    async with serving() as served, served.client.get(f"{served.url}/") as answer:
        text = await answer.text()
    assert answer.status == 200
    assert "/mcp/sample" in text and "/metrics" in text


async def test_where_mcp_is_switched_off_no_endpoint_of_it_is_named() -> None:
    async with serving(Rules(enable_mcp=False)) as served:
        for path, status in (("/", 200), ("/nowhere", 404), ("/mcp/nobody", 404)):
            async with served.client.get(f"{served.url}{path}") as answer:
                text = await answer.text()
            assert answer.status == status and "/health" in text
            assert "/mcp/sample" not in text and "/v1/mcp" not in text
