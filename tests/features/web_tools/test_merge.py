"""Ranked lists as one."""

from __future__ import annotations

import pytest

from mcpdesk.features.web_tools.search import Hit, canonical, merge


def hits(*urls: str) -> list[Hit]:
    return [Hit(url, url, "") for url in urls]


def test_what_several_engines_name_comes_first() -> None:
    found = merge({"a": hits("https://one.example", "https://two.example"), "b": hits("https://two.example")})
    assert [each.url for each in found] == ["https://two.example", "https://one.example"]
    assert found[0].engines == ("a", "b")


def test_the_rank_decides_where_the_number_of_engines_does_not() -> None:
    found = merge({"a": hits("https://1.example", "https://2.example"), "b": hits("https://3.example")})
    assert [each.url for each in found] == ["https://1.example", "https://3.example", "https://2.example"]


def test_an_engine_that_repeats_itself_counts_once() -> None:
    found = merge({"a": hits("https://1.example", "https://1.example/"), "b": hits("https://2.example")})
    assert [each.engines for each in found] == [("a",), ("b",)]


def test_the_fullest_title_and_snippet_are_kept() -> None:
    found = merge(
        {"a": [Hit("T", "https://x.example", "")], "b": [Hit("Title", "http://x.example/", "text")]}
    )
    assert [(each.title, each.snippet, each.url) for each in found] == [
        ("Title", "text", "https://x.example")
    ]


@pytest.mark.parametrize(
    "url",
    [
        "https://www.Example.org/a/",
        "http://example.org/a",
        "https://example.org:443/a?utm_source=x&gclid=1",
        "https://example.org/a#part",
    ],
)
def test_one_page_in_many_dresses(url: str) -> None:
    assert canonical(url) == "https://example.org/a"


def test_a_query_that_counts_is_kept_in_one_order() -> None:
    assert canonical("https://example.org/?b=2&a=1") == canonical("https://example.org?a=1&b=2")
    assert canonical("https://example.org/?a=1") != canonical("https://example.org/?a=2")


@pytest.mark.parametrize(
    "url", ["", "javascript:alert(1)", "mailto:a@b", "/relative", "http://[::1", "ftp://x"]
)
def test_what_is_no_web_page_is_left_out(url: str) -> None:
    assert canonical(url) == "" and merge({"a": hits(url)}) == []
