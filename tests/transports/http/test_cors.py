"""Pages of listed origins read answers in their browser; all others are told nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mcpdesk.transports.base import Rules
from tests.support.site import Served, serving

APP = "https://app.example"
LISTED = Rules(allowed_origins=(APP, "http://localhost:5173"))
CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "echo", "arguments": {"text": "x"}},
}


def permission(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith("Access-Control-")}


async def asked_first(
    served: Served, origin: str, path: str = "/mcp/sample", **more: str
) -> tuple[int, dict[str, str]]:
    """What a browser is told that asks before it POSTs."""
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST"} | more
    async with served.client.options(served.url + path, headers=headers) as answer:
        return answer.status, permission(answer.headers)


@pytest.mark.parametrize("origin", LISTED.allowed_origins)
async def test_a_browser_that_asks_first_is_permitted_without_key_or_token(origin: str) -> None:
    rules = Rules(allowed_origins=LISTED.allowed_origins, api_key="secret")
    wanted = {"Access-Control-Request-Headers": "content-type,x-api-key,mcp-session-id"}
    async with serving(rules) as served:
        status, told = await asked_first(served, origin, **wanted)
        assert (status, told["Access-Control-Allow-Origin"]) == (204, origin)
        assert told["Access-Control-Allow-Headers"] == "content-type,x-api-key,mcp-session-id"
        assert "POST" in told["Access-Control-Allow-Methods"]
        assert "Access-Control-Allow-Private-Network" not in told
        private = {"Access-Control-Request-Private-Network": "true"}
        assert (await asked_first(served, origin, **private))[1][
            "Access-Control-Allow-Private-Network"
        ] == "true"
        assert (await asked_first(served, origin, "/v1/mcp"))[0] == 204


@pytest.mark.parametrize(
    ("method", "path", "accept", "status"),
    [
        ("POST", "/mcp/sample", "application/json", 200),
        ("POST", "/mcp/sample?stream=1", "*/*", 200),
        ("GET", "/mcp/sample", "*/*", 405),
        ("GET", "/status", "*/*", 200),
        ("GET", "/jobs/none", "*/*", 404),
        ("OPTIONS", "/v1/mcp", "*/*", 200),
    ],
)
async def test_answers_of_every_kind_may_be_read(method: str, path: str, accept: str, status: int) -> None:
    async with serving(LISTED) as served:
        for _ in range(2):  # the second time over the kept connection, whose head is known
            headers = {"Origin": APP, "Accept": accept}
            body = CALL if method == "POST" else None
            async with served.client.request(method, served.url + path, json=body, headers=headers) as answer:
                assert answer.status == status
                told = permission(answer.headers)
                assert answer.headers["Vary"] == "Origin"
                await answer.read()
            assert told["Access-Control-Allow-Origin"] == APP
            assert told["Access-Control-Allow-Credentials"] == "true"
            assert "Mcp-Session-Id" in told["Access-Control-Expose-Headers"]


async def test_a_refusal_may_be_read_too() -> None:
    async with serving(Rules(allowed_origins=(APP,), api_key="secret")) as served:
        answer = await served.post(CALL, Origin=APP)
        assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (403, APP)


@pytest.mark.parametrize(
    "origin", ["", "http://localhost:3000", "http://127.0.0.1:5173", "http://app.example", "own"]
)
async def test_who_is_not_listed_is_told_nothing(origin: str) -> None:
    async with serving(LISTED) as served:
        origin = served.url if origin == "own" else origin
        answer = await served.post(CALL, **({"Origin": origin} if origin else {}))
        assert answer.status == (200 if origin in ("", served.url) else 403)
        assert permission(answer.headers) == {}
        if origin:
            assert (await asked_first(served, origin))[1] == {}


async def test_foreign_pages_and_foreign_names_are_refused_as_ever() -> None:
    async with serving(LISTED) as served:
        assert (await asked_first(served, "https://evil.example"))[0] == 403
        assert (await asked_first(served, APP, Host="evil.example"))[0] == 403


async def test_the_dashboard_is_for_no_other_page() -> None:
    async with serving(LISTED) as served:
        async with served.client.get(f"{served.url}/", headers={"Origin": APP}) as answer:
            assert permission(answer.headers) == {}
        assert (await asked_first(served, APP, "/"))[1] == {}


async def test_without_a_list_nobody_is_told_anything() -> None:
    async with serving() as served:
        answer = await served.post(CALL, Origin=served.url)
        assert answer.status == 200 and permission(answer.headers) == {}
