"""Lists of a server, encoded once and shaped per revision."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mcpdesk.auth.access import Access
from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.errors import RemoteProtocolError
from mcpdesk.protocol.methods import METHODS
from mcpdesk.protocol.revisions import REVISIONS, V2024_11_05, V2025_11_25, V2026_07_28
from mcpdesk.server.offer import listing
from mcpdesk.server.offer.listing import OfferListing
from mcpdesk.server.offer.prompts import Prompt
from mcpdesk.server.offer.server import Limits, Server
from mcpdesk.server.offer.tool import Tool
from tests.support.served import make_server


def test_a_page_is_encoded_once_until_something_changes() -> None:
    server = make_server()
    offers = OfferListing(server)
    page = offers.page("tools/list", V2026_07_28, None)
    assert offers.page("tools/list", V2026_07_28, None) is page
    assert offers.page("tools/list", V2025_11_25, None) != page
    server.tools.replace(list(server.tools)[:1])
    assert len(orjson.loads(offers.page("tools/list", V2026_07_28, None))["tools"]) == 1


def test_a_list_for_one_caller_has_what_that_caller_may_use() -> None:
    server = make_server()
    echo, person, *others = server.tools
    guarded = [
        replace(echo, requires_jwt=True),
        replace(person, requires_jwt=True, scopes=("send",)),
        *others[:1],
    ]
    server.tools.replace(guarded)
    server.limits = Limits(page_size=1)
    offers = OfferListing(server)
    holder = Principal("token", claims={"sub": "ada"})
    sender = Principal("token", claims={"sub": "ada"}, scopes=frozenset({"send"}))

    def names(caller: Principal | None, method: str = "tools/list") -> list[str]:
        found, cursor = list[str](), None
        while not found or cursor is not None:
            page = orjson.loads(offers.page(method, V2026_07_28, cursor, caller))
            found += [each["name"] for each in page[METHODS[method].list_key]] or ["nothing"]
            cursor = page.get("nextCursor")
        return found

    assert names(None) == names(sender) == ["echo", "person", "nothing"]
    assert names(holder) == ["echo", "nothing"]
    assert names(OPEN) == ["nothing"]
    server.access = Access(requires_token=True, scopes=frozenset({"send"}))
    offers.clear_caches()
    for method in ("tools/list", "resources/list", "prompts/list"):
        assert names(OPEN, method) == names(holder, method) == ["nothing"]
    assert names(sender, "prompts/list") == ["summarize"]


def test_a_cursor_survives_a_change_before_it() -> None:
    server = make_server()
    server.limits = Limits(page_size=4)
    offers = OfferListing(server)
    cursor = orjson.loads(offers.page("tools/list", V2026_07_28, None))["nextCursor"]
    server.tools.replace(list(server.tools)[1:])
    following = orjson.loads(offers.page("tools/list", V2026_07_28, cursor))["tools"]
    assert following[0]["name"] == "steps"


def test_kept_pages_are_limited_whatever_callers_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_PAGES", 3)
    offers = OfferListing(make_server())

    def page(number: int) -> bytes:
        scopes = frozenset({f"scope-{number}"})
        return offers.page("tools/list", V2026_07_28, None, Principal("token", claims={}, scopes=scopes))

    first, second, third = (page(number) for number in range(3))
    assert page(0) is first and page(1) is second and page(2) is third
    page(3)
    assert page(0) is not first


@pytest.mark.requirement("12.14")
@pytest.mark.parametrize("cursor", ["", "AAAA", "WzEsMl0=", "bm8=", "é"])
def test_a_forged_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(RemoteProtocolError, match="cursor"):
        OfferListing(make_server()).page("tools/list", V2026_07_28, cursor)


@pytest.mark.requirement("10.2", "10.3")
@pytest.mark.parametrize("method", [each.name for each in METHODS.values() if each.list_key])
def test_every_page_is_for_its_caller_alone(method: str) -> None:
    server = make_server()
    server.limits = Limits(page_size=4)
    offers, cursor = OfferListing(server), None
    pages: list[Any] = []
    while not pages or cursor is not None:
        pages.append(orjson.loads(offers.page(method, V2026_07_28, cursor)))
        cursor = pages[-1].get("nextCursor")
    assert {(page["cacheScope"], page["ttlMs"]) for page in pages} == {("private", 0)}
    assert len(pages) == (3 if method == "tools/list" else 1)


def test_identity_and_capabilities_follow_the_revision() -> None:
    offers = OfferListing(make_server())
    assert offers.implementation(V2024_11_05) == {"name": "sample", "version": "1.0"}
    assert offers.implementation(V2026_07_28)["title"] == "Sample"
    assert all(offers.capabilities(revision)["logging"] == {} for revision in REVISIONS)


def test_a_changed_identity_is_told_after_forgetting() -> None:
    server = Server("a", "1")
    offers = OfferListing(server)
    offers.implementation(V2026_07_28)
    offers.initialize_result(V2025_11_25)
    server.version = "2"
    offers.clear_caches()
    assert offers.implementation(V2026_07_28)["version"] == "2"
    assert orjson.loads(offers.initialize_result(V2025_11_25))["serverInfo"]["version"] == "2"


def test_what_initialize_says_is_made_once_until_something_in_it_changes() -> None:
    async def render(arguments: dict[str, str], ctx: Any) -> str:
        return ""

    async def complete(typed: str, given: dict[str, str], ctx: Any) -> list[str]:
        return []

    server = make_server()
    offers = OfferListing(server)
    said = offers.initialize_result(V2025_11_25)
    assert offers.initialize_result(V2025_11_25) is said
    assert orjson.loads(offers.initialize_result(V2024_11_05))["protocolVersion"] == V2024_11_05.name
    server.prompts.replace([Prompt("p", render, completers={"a": complete})])
    assert "completions" in orjson.loads(offers.initialize_result(V2025_11_25))["capabilities"]
    server.tools_enabled = False
    assert "tools" not in orjson.loads(offers.initialize_result(V2025_11_25))["capabilities"]
    server.instructions = "Ask first."
    assert orjson.loads(offers.initialize_result(V2025_11_25))["instructions"] == "Ask first."


@settings(deadline=None)
@given(
    removed=st.sets(st.integers(0, 11)),
    added=st.integers(0, 3),
    page=st.integers(1, 5),
    backwards=st.booleans(),
)
def test_what_stays_is_listed_whatever_comes_and_goes_between_two_pages(
    removed: set[int], added: int, page: int, backwards: bool
) -> None:
    server = make_server()
    server.limits = Limits(page_size=page)
    items = [Tool(f"item-{number:02}", _run, {"type": "object"}) for number in range(15)]
    server.tools.replace(items[:12])
    offers = OfferListing(server)
    first = orjson.loads(offers.page("tools/list", V2026_07_28, None))
    kept = [item for index, item in enumerate(items[:12]) if index not in removed]
    server.tools.replace(items[12 : 12 + added] + kept if backwards else kept + items[12 : 12 + added])
    seen, cursor = list(first["tools"]), first.get("nextCursor")
    while cursor is not None:
        following = orjson.loads(offers.page("tools/list", V2026_07_28, cursor))
        seen += following["tools"]
        cursor = following.get("nextCursor")
    if not {page - 1, page} <= removed:
        assert {item.name for item in kept} <= {each["name"] for each in seen}


async def _run(*_: Any) -> str:
    return ""
