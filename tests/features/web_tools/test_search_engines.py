"""The parts engines are made of."""

from __future__ import annotations

import pytest

from mcpdesk.features.web_tools.search import (
    DEFAULT_ENGINES,
    ENGINES,
    THREADS,
    at_mirror,
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
    assert at_mirror(base, url) == asked


def test_searxng_is_asked_only_where_it_is_switched_on() -> None:
    assert set(ENGINES) - set(DEFAULT_ENGINES) == {"searxng"}
    assert len(ENGINES) * 3 <= THREADS, "searches do not wait for each other"
