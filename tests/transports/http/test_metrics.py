"""`/metrics` is read by the library that wrote it, and by any client that asks."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from mcpdesk.transports.base import Rules
from mcpdesk.transports.figure import Figure, Sample
from mcpdesk.transports.http.metrics import written
from tests.support.site import Served, serving

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


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


def test_labels_may_hold_anything() -> None:
    odd = 'a "b"\\\n\N{SNOWMAN}'
    text = written([Figure("things_total", "counter", "Things.\nMany.", [Sample(3, {"kind": odd})])]).decode()
    [sample] = [each for each in text_string_to_metric_families(text) if each.name == "mcpdesk_things"]
    assert [(one.name, one.labels, one.value) for one in sample.samples] == [
        ("mcpdesk_things_total", {"kind": odd}, 3.0)
    ]
    assert "# TYPE mcpdesk_things_total counter\n" in text


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
