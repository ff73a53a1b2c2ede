"""Parser for the head of a request."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from mcpdesk.transports.http import request_head as module
from mcpdesk.transports.http.request_head import RequestHead, RequestHeads
from mcpdesk.transports.http.responses import JSON


def head(path: str = "/mcp/echo", *, headers: list[tuple[str, str]] | None = None) -> RequestHead:
    return RequestHead(make_mocked_request("POST", path, CIMultiDict(headers or [])))


def test_a_bare_request_takes_anything_and_sends_nobody_knows_what() -> None:
    bare = head()
    assert bare.accepted == (True, True)
    assert bare.content_type == ""
    assert (bare.version, bare.session, bare.repeated) == ("", None, "")
    assert bare.body_size == 0
    assert not bare.wants_stream


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", (True, True)),
        ("*/*", (True, True)),
        ("application/json, text/event-stream", (True, True)),
        ("Application/JSON;q=0.9", (True, False)),
        ("text/event-stream", (False, True)),
        ("application/*", (True, False)),
        ("text/*", (False, True)),
        ("text/html", (False, False)),
    ],
)
def test_forms_of_answers_are_read_from_accept(header: str, expected: tuple[bool, bool]) -> None:
    assert head(headers=[("Accept", header)]).accepted == expected


def test_a_content_type_may_have_parameters_and_capitals() -> None:
    assert head(headers=[("content-type", "Application/JSON; charset=utf-8")]).content_type == JSON
    assert head(headers=[("Content-Type", "text/plain")]).content_type == "text/plain"


def test_the_query_may_ask_for_a_stream() -> None:
    assert head("/mcp/echo?stream=true").wants_stream
    assert not head("/mcp/echo?stream=no").wants_stream
    assert head("/mcp/echo?stream=1").path == "/mcp/echo"


def test_a_target_may_name_whom_it_is_for() -> None:
    whole = head("HTTP://127.0.0.1:3333/mcp/echo?stream=1")
    assert (whole.authority, whole.path, whole.server, whole.wants_stream) == (
        "127.0.0.1:3333", "/mcp/echo", "echo", True,
    )  # fmt: skip
    assert whole.line == "POST HTTP://127.0.0.1:3333/mcp/echo?stream=1 HTTP/1.1"
    assert (head("https://[::1]").authority, head("https://[::1]").path) == ("[::1]", "/")
    assert (head("http://desk?mode=a").path, head("http://desk?mode=a").mode) == ("/", "a")
    for other in ("/mcp/http://desk/", "ftp://desk/mcp/echo", "http:///mcp/echo", "*"):
        assert (head(other).authority, head(other).path) == ("", other)


def test_a_repeated_routing_header_is_noticed() -> None:
    assert head(headers=[("Mcp-Method", "a"), ("mcp-method", "a")]).repeated == "mcp-method"


def test_the_head_says_how_long_a_body_is_unless_it_comes_in_chunks() -> None:
    assert head(headers=[("content-length", "12")]).body_size == 12
    assert head(headers=[("Transfer-Encoding", "chunked")]).body_size is None


def test_equal_heads_are_one_value_and_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CACHED_HEADS", 2)
    heads = RequestHeads()

    def found(path: str, length: int = 1) -> RequestHead:
        headers = CIMultiDict([("Host", "x" * length)])
        return heads.find(make_mocked_request("POST", path, headers))

    first = found("/a")
    assert found("/a") is first and found("/a", 2) is not first and len(heads) == 2
    assert found("/b") is not first and len(heads) == 2
    assert found("/a") is not first
    long = found("/a", module.MAX_CACHED_HEAD_BYTES)
    assert found("/a", module.MAX_CACHED_HEAD_BYTES) is not long and len(heads) == 2


def test_headers_are_recorded_as_they_came() -> None:
    given = [("Host", "x"), ("Accept", "a"), ("Accept", "b")]
    assert head(headers=given).masked_headers == tuple(given)
    assert head().line == "POST /mcp/echo HTTP/1.1"


def test_keys_in_addresses_are_not_recorded_however_they_are_spelt() -> None:
    given = [("Referer", "http://h/?%61pi_key=s3cret&x=1"), ("X-From", "https://ada:s3cret@h/?a=b")]
    seen = head("/mcp/sample;%74oken=s3cret;x?mode=a;API%5FKEY=s3cret", headers=given)
    assert "s3cret" not in seen.line + str(seen.masked_headers) + str(seen.http_note)
    assert "mode=a" in head("/mcp?mode=a&key=b").line and "x=1" in str(seen.masked_headers)
