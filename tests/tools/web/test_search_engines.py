"""The parts engines are made of."""

from __future__ import annotations

import pytest

from mcpdesk.tools.web.search import (
    ENGINES,
    THREADS,
    USUAL,
    at,
    hacker_news,
    plain,
)


@pytest.mark.parametrize(
    ("base", "url", "asked"),
    [
        ("", "https://a.example/search?q=1", "https://a.example/search?q=1"),
        ("http://127.0.0.1:80/x/", "https://a.example/search?q=1", "http://127.0.0.1:80/x/search?q=1"),
        ("https://mirror.example", "https://a.example/", "https://mirror.example/"),
    ],
)
def test_a_mirror_is_asked_below_its_base(base: str, url: str, asked: str) -> None:
    assert at(base, url) == asked


def test_texts_lose_tags_entities_and_lines() -> None:
    assert plain("<b>High</b> tide\n&amp; low") == "High tide & low"
    assert plain(None) == ""


def test_a_story_without_a_link_is_its_own_page() -> None:
    (hit,) = hacker_news(b'{"hits": [{"title": "Ask", "objectID": "7"}, {"objectID": "8"}]}')
    assert hit.url == "https://news.ycombinator.com/item?id=7"


def test_searxng_is_asked_only_where_it_is_switched_on() -> None:
    assert set(ENGINES) - set(USUAL) == {"searxng"}
    assert len(ENGINES) * 3 <= THREADS, "searches do not wait for each other"
