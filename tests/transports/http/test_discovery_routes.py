"""Server cards and the catalog, over real sockets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.auth.access import Access
from mcpdesk.protocol.catalogue.publication import CARD_SCHEMA, Publication, catalog_entry, server_card
from mcpdesk.protocol.revisions import SERVED_NAMES
from mcpdesk.transports.base import Rules
from tests.support.desk import running_desk
from tests.support.http_client import http_client
from tests.support.published_schemas import faults
from tests.support.site import Served, serving

CATALOG = "/.well-known/mcp/catalog.json"
AI_CATALOG = "/.well-known/ai-catalog.json"
CARD = "/mcp/sample/server-card"


async def get(served: Served, path: str, **headers: str) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Status, body and headers."""
    async with served.client.get(f"{served.url}{path}", headers=headers) as answer:
        return answer.status, json.loads(await answer.read()), dict(answer.headers)


async def test_a_card_says_who_the_server_is_and_how_it_is_reached() -> None:
    async with serving() as served:
        served.peer.server.description = "It is  a sample.\n" + "x" * 200
        status, card, headers = await get(served, CARD)
        origin = served.url
    assert (status, headers["Content-Type"]) == (200, "application/mcp-server-card+json")
    assert headers["Cache-Control"] == "public, max-age=60"
    assert faults("server-card-v1", card) == []
    assert (card["$schema"], card["name"], card["version"]) == (CARD_SCHEMA, "localhost/sample", "1.0")
    assert card["description"].startswith("It is a sample. xxx") and len(card["description"]) == 100
    assert card["remotes"] == [
        {
            "type": "streamable-http",
            "url": f"{origin}/mcp/sample",
            "supportedProtocolVersions": list(SERVED_NAMES),
        }
    ]


async def test_a_card_needs_no_key_and_holds_none_but_says_that_one_is_due() -> None:
    async with serving(Rules(api_key="sesame", api_key_header="X-Open")) as served:
        public = "https://tea.example/mcp/sample"
        served.peer.server.access = Access(requires_token=True, resource=public)
        status, card, _ = await get(served, CARD)
        assert (await get(served, CATALOG))[0] == 200
        async with served.client.get(f"{served.url}/mcp/sample") as refused:
            assert refused.status == 403
    assert status == 200 and "sesame" not in json.dumps(card)
    assert card["remotes"][0]["url"] == "https://tea.example/mcp/sample"
    headers = card["remotes"][0]["headers"]
    assert [(each["name"], each["isSecret"]) for each in headers] == [
        ("X-Open", True),
        ("Authorization", True),
    ]
    assert all("value" not in each and "default" not in each for each in headers)
    assert faults("server-card-v1", card) == []


async def test_the_catalog_leads_to_the_cards() -> None:
    async with serving() as served:
        status, catalog, headers = await get(served, CATALOG)
        assert (status, headers["Content-Type"], catalog["specVersion"]) == (200, "application/json", "draft")
        (entry,) = catalog["entries"]
        assert (entry["identifier"], entry["type"]) == (
            "urn:air:localhost:sample",
            "application/mcp-server-card+json",
        )
        assert entry["url"] == f"{served.url}{CARD}"
        status, other, headers = await get(served, AI_CATALOG)
        assert (other["specVersion"], other["entries"]) == ("1.0", catalog["entries"])
        assert headers["Content-Type"] == "application/ai-catalog+json"


@pytest.mark.parametrize("path", [CATALOG, AI_CATALOG, CARD, "/mcp/server-card"])
async def test_where_mcp_is_off_or_the_page_is_a_strangers_nothing_is_found(path: str) -> None:
    async with serving(Rules(enable_mcp=False)) as served:
        status, body, _ = await get(served, path)
        assert status == 404 and "enable_mcp" in body["error"]
    async with serving(Rules(allowed_origins=("https://desk.example",))) as served:
        for headers in ({"Origin": "https://elsewhere.example"}, {"Host": "elsewhere.example"}):
            assert (await get(served, path, **headers))[0] == 403
        status, _, told = await get(served, path, Origin="https://desk.example")
        assert (status, told["Access-Control-Allow-Origin"]) == (200, "https://desk.example")
        async with served.client.post(f"{served.url}{path}") as answer:
            assert answer.status == 405


async def test_a_server_that_is_not_there_has_no_card() -> None:
    async with serving() as served:
        for path, told in (("/mcp/nobody/server-card", "nobody"), (f"{CARD}?mode=nowhere", "nowhere")):
            status, body, _ = await get(served, path)
            assert status == 404 and told in body["error"]


async def test_folders_say_in_their_manifest_who_they_are(tmp_path: Path) -> None:
    """Also with modes. A folder with an invalid manifest is in no catalog."""
    (tmp_path / "fine").mkdir()
    (tmp_path / "fine" / "mcp.json").write_text(
        json.dumps(
            {
                "name": "fine",
                "title": "A fine one",
                "version": "1.2.3",
                "websiteUrl": "https://fine.example/about",
                "modes": {"look": {"tools": []}},
                "icons": [{"src": "https://fine.example/icon.png", "sizes": ["48x48"]}],
                "publish": {"name": "io.github.ada/fine", "repository": "https://github.com/ada/fine"},
            }
        )
    )
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "mcp.json").write_text('{"name": "broken", "nonsense": 1}')
    async with running_desk(
        tmp_path / "fine", tmp_path / "broken", http=True, withholds_invalid=True
    ) as desk:
        url = desk.view().servers[0].url.removesuffix("/mcp/fine")
        async with http_client() as client:

            async def told(path: str) -> tuple[int, dict[str, Any]]:
                async with client.get(f"{url}{path}") as answer:
                    return answer.status, json.loads(await answer.read())

            status, card = await told("/mcp/fine/server-card")
            assert (status, faults("server-card-v1", card)) == (200, [])
            assert (card["name"], card["title"]) == ("io.github.ada/fine", "A fine one")
            assert card["repository"] == {"url": "https://github.com/ada/fine", "source": "github"}
            assert (card["websiteUrl"], len(card["icons"])) == ("https://fine.example/about", 1)
            assert await told("/mcp/server-card") == (200, card)
            status, seen = await told("/mcp/fine/server-card?mode=look")
            assert seen["remotes"][0]["url"] == f"{url}/mcp/fine?mode=look"
            status, refused = await told("/mcp/fine/server-card?mode=nothing")
            assert (status, refused["modes"]) == (404, ["look"])
            _, catalog = await told(CATALOG)
            assert [each["identifier"] for each in catalog["entries"]] == ["urn:air:ada.github.io:fine"]
            status, refused = await told("/mcp/broken/server-card")
            assert status == 503 and "broken is not served" in refused["error"]


@pytest.mark.parametrize(
    ("host", "name", "urn"),
    [
        ("mcp.example.com", "com.example.mcp/tea", "urn:air:mcp.example.com:tea"),
        ("localhost", "localhost/tea", "urn:air:localhost:tea"),
        ("127.0.0.1", "localhost/tea", "urn:air:localhost:tea"),
        ("::1", "localhost/tea", "urn:air:localhost:tea"),
        ("", "localhost/tea", "urn:air:localhost:tea"),
    ],
)
def test_a_server_without_a_public_name_has_one_below_its_host(host: str, name: str, urn: str) -> None:
    server = Publication("tea", "1")
    card = server_card(server, host, "http://h/mcp/tea")
    assert card["name"] == name and faults("server-card-v1", card) == []
    assert card["description"] == "The MCP server tea"
    assert catalog_entry(server, host, "http://h/card")["identifier"] == urn
