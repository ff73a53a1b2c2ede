"""Public routes that need no key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mcpdesk.auth.access import Access
from mcpdesk.auth.operator import Operator
from mcpdesk.recorder.record import CaptureHealth
from mcpdesk.transports.base import Rules
from mcpdesk.transports.http import site_routes
from mcpdesk.transports.metric import MetricFamily, Sample
from tests.support.features import having
from tests.support.site import Served, serving

if TYPE_CHECKING:
    from mcpdesk.hosting.shared_core import SharedCore

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


async def test_health_and_status_need_no_key() -> None:
    async with serving(Rules(api_key="secret", enable_mcp=False)) as served:
        async with served.client.get(f"{served.url}/health") as answer:
            assert (answer.status, await answer.json()) == (200, {"status": "ok"})
        async with served.client.get(f"{served.url}/status") as answer:
            body = await answer.json()
    assert (body["status"], body["name"], body["version"]) == ("ok", "sample", "1.0")
    counts = [body[kind] for kind in ("tools", "resources", "templates", "prompts", "uptime_s")]
    assert counts == [9, 1, 1, 1, 1.5]
    assert body["key_required"] and body["token_required"]
    assert "secret" not in str(body)


async def test_readiness_is_told_with_the_reason() -> None:
    async with serving(Rules(api_key="secret")) as served:
        for reason, status, said in (
            ("", 200, {"status": "ready"}),
            ("it ends", 503, {"status": "not ready", "reason": "it ends"}),
        ):
            served.unready = reason
            async with served.client.get(f"{served.url}/ready") as answer:
                assert (answer.status, await answer.json()) == (status, said)
            async with served.client.get(f"{served.url}/health") as answer:
                assert answer.status == 200


async def test_servers_that_are_down_are_listed_beside_the_readiness() -> None:
    async with serving() as served:
        served.down_servers = ["far"]
        async with served.client.get(f"{served.url}/ready") as answer:
            assert (answer.status, await answer.json()) == (200, {"status": "ready", "down": ["far"]})


class Away:
    """Other cores whose store is unreachable."""

    away = "redis://engine.internal:6379 is away: Connection refused"
    outage = "the engine is away"

    def health(self) -> dict[str, Any]:
        return {}


async def test_the_address_of_the_engine_is_told_only_to_callers_with_the_key() -> None:
    async with serving(Rules(api_key="secret")) as served:
        served.shared, served.unready = cast("SharedCore", Away()), Away.outage
        for path in ("/ready", "/health"):
            for headers, reason in (({}, Away.outage), ({"X-API-Key": "secret"}, Away.away)):
                async with served.client.get(f"{served.url}{path}", headers=headers) as answer:
                    assert (await answer.json())["reason"] == reason


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
        assert (await served.post(PING)).status == 404
        for path, status in (("/", 200), ("/nowhere", 404), ("/mcp/nobody", 404)):
            async with served.client.get(f"{served.url}{path}") as answer:
                text = await answer.text()
            assert answer.status == status and "/health" in text
            assert "/mcp/sample" not in text and "/v1/" not in text


def values(text: str) -> dict[str, float]:
    """Every value by its name and labels."""
    families = text_string_to_metric_families(text)
    return {
        sample.name
        + "".join(f",{name}={value}" for name, value in sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


async def asked(served: Served) -> dict[str, float]:
    async with served.client.get(f"{served.url}/metrics") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return values(await answer.text())


async def test_connections_requests_and_sessions_are_counted() -> None:
    async with serving() as served:
        before = await asked(served)
        assert before['mcpdesk_things,kind=a "b"'] == 2
        assert before["process_resident_memory_bytes"] > 0
        await served.session()
        for _ in range(3):
            assert (await served.post(PING)).status == 200
        after = await asked(served)
    assert after["mcpdesk_http_sessions"] == 1
    assert after["mcpdesk_http_connections"] == 1
    assert after["mcpdesk_http_requests_total"] - before["mcpdesk_http_requests_total"] == 6


async def test_closed_connections_stay_counted() -> None:
    async with serving() as served:
        for _ in range(3):
            async with served.client.get(f"{served.url}/health", headers={"Connection": "close"}) as answer:
                assert answer.status == 200
        found = await asked(served)
    assert found["mcpdesk_http_connections"] == 1
    assert found["mcpdesk_http_connections_total"] == found["mcpdesk_http_requests_total"] == 4


async def test_facts_need_no_key_and_foreign_pages_get_none() -> None:
    async with serving(Rules(api_key="secret")) as served:
        assert "mcpdesk_http_sessions" in await asked(served)
        foreign = {"Origin": "https://evil.example"}
        async with served.client.get(f"{served.url}/metrics", headers=foreign) as answer:
            assert answer.status == 403
        async with served.client.post(f"{served.url}/metrics", data=b"x") as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, "GET")


WELL_KNOWN = "/.well-known/oauth-protected-resource"
GIVEN = Access(authorization_servers=("https://issuer.example",), scopes_supported=("read",))


@pytest.mark.requirement("11.3")
@pytest.mark.parametrize(
    "path", ["", "/", "/mcp", "/mcp/sample", "/mcp/sample/", "/sample/mcp", *having("gateway", "/v1/mcp")]
)
async def test_every_endpoint_is_described_under_the_address_it_was_asked_for(path: str) -> None:
    async with serving() as served:
        served.peer.server.access = GIVEN
        answer = await served.client.get(f"{served.url}{WELL_KNOWN}{path}")
        assert answer.status == 200 and answer.content_type == "application/json"
        assert await answer.json() == {
            "resource": served.url + (path.rstrip("/") or "/mcp"),
            "authorization_servers": ["https://issuer.example"],
            "scopes_supported": ["read"],
            "bearer_methods_supported": ["header"],
            "resource_name": "sample",
        }


@pytest.mark.requirement("11.3")
async def test_the_public_address_of_a_server_behind_a_proxy_is_the_one_that_counts() -> None:
    async with serving() as served:
        public = "https://h.example/tools/mcp"
        served.peer.server.access = Access(
            requires_token=True, authorization_servers=("https://issuer.example",), resource=public
        )
        answer = await served.client.get(f"{served.url}{WELL_KNOWN}/mcp/sample")
        assert (await answer.json())["resource"] == public
        refused = await served.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        where = 'resource_metadata="https://h.example/.well-known/oauth-protected-resource/tools/mcp"'
        assert refused.headers["WWW-Authenticate"] == f"Bearer {where}"


@pytest.mark.parametrize("path", ["/mcp/other", "/mcp/sample/ws", "/other", "/v1"])
async def test_what_is_not_served_has_no_metadata(path: str) -> None:
    async with serving() as served:
        served.peer.server.access = GIVEN
        assert (await served.client.get(f"{served.url}{WELL_KNOWN}{path}")).status == 404


async def test_there_is_none_where_nobody_gives_tokens_and_it_is_only_read() -> None:
    async with serving() as served:
        assert (await served.client.get(f"{served.url}{WELL_KNOWN}")).status == 404
        served.peer.server.access = GIVEN
        posted = await served.client.post(f"{served.url}{WELL_KNOWN}")
        assert (posted.status, posted.headers["Allow"]) == (405, "GET")
        assert (await served.client.get(f"{served.url}{WELL_KNOWN}x")).status == 404


NAMING = MetricFamily(
    "calls_total",
    "counter",
    "Calls.",
    [
        Sample(2, {"server": "a", "tool": "secret_tool", "status": "ok"}),
        Sample(3, {"server": "b", "tool": "other_tool", "status": "ok"}),
        Sample(1, {"server": "a", "tool": "secret_tool", "status": "ok", "quantile": "0.5"}),
    ],
)


async def test_a_stranger_to_a_desk_with_a_key_learns_counts_and_no_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(Rules(api_key="k")) as served:
        monkeypatch.setattr(served, "figures", lambda: lambda: [NAMING])
        served.operator = Operator("the-operators")

        async def seen(path: str, **headers: str) -> str:
            async with served.client.get(f"{served.url}{path}", headers=headers) as answer:
                assert answer.status == 200
                return await answer.text()

        for headers in ({}, {"X-API-Key": "wrong"}, {"X-Operator-Key": "k"}):
            text = await seen("/metrics", **headers)
            assert "_tool" not in text and 'mcpdesk_calls_total{status="ok"} 5.0' in text
            status = orjson.loads(await seen("/status", **headers))
            assert set(status["servers"][0]) == set(site_routes.PUBLIC_FACTS) and status["tools"] > 0
            assert status["key_required"] and "capture" not in status and "passed_on" not in status
        assert "_tool" not in await seen("/metrics?api_key=k"), "addresses are logged by proxies"
        assert "capture" not in orjson.loads(await seen("/status?api_key=k"))
        for headers in ({"X-API-Key": "k"}, {"X-Operator-Key": "the-operators"}):
            assert 'tool="secret_tool"' in await seen("/metrics", **headers)
            assert "capture" in orjson.loads(await seen("/status", **headers))
