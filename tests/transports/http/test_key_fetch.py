"""Documents with keys, fetched from the address of another party."""

from __future__ import annotations

import pytest

from mcpdesk.transports.http import key_fetch
from mcpdesk.transports.http.key_fetch import fetch_document
from tests.support.patience import within
from tests.support.scripted import Seen, http, scripted


async def test_a_document_is_fetched_whole_and_asked_for_without_secrets() -> None:
    async with scripted(lambda seen: http(200, b'{"keys": []}')) as place:
        assert await fetch_document(f"{place.url}/keys?x=1", 100) == b'{"keys": []}'
        (seen,) = place.seen
        assert (seen.method, seen.path) == ("GET", "/mcp/keys?x=1")
        assert seen.headers["accept"] == "application/json"
        assert not {"authorization", "cookie"} & seen.headers.keys()


@pytest.mark.requirement("11.2")
async def test_another_address_is_not_followed_to() -> None:
    def answer(seen: Seen) -> bytes:
        return b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"

    async with scripted(answer) as place:
        with pytest.raises(ValueError, match="it answers with status 302"):
            await fetch_document(f"{place.url}/keys", 100)
        assert [seen.path for seen in place.seen] == ["/mcp/keys"]


async def test_a_document_that_is_too_large_is_left() -> None:
    async with scripted(lambda seen: http(200, b"x" * 101)) as place:
        with pytest.raises(ValueError, match="larger than 100 bytes"):
            await fetch_document(place.url, 100)


async def test_a_place_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(lambda seen: None) as place:
        for patience_s in (0.05, 0.5, 5.0):  # on a busy machine the first may end before the request is there
            monkeypatch.setattr(key_fetch, "TIMEOUT_S", patience_s)
            with pytest.raises(OSError, match=f"did not answer within {patience_s:g} s"):
                await fetch_document(place.url, 100)
            if place.seen:
                break
        async with within():
            await place.left.wait()


async def test_a_place_that_is_not_there_is_told_without_its_address() -> None:
    async with scripted(lambda seen: http(200, b"")) as place:
        gone = place.url
    with pytest.raises(OSError, match="cannot be reached") as refused:
        await fetch_document(gone, 100)
    assert gone not in str(refused.value)
