"""Lists of many pages, through any client."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.cli.client import Client
from mcpdesk.cli.target import client
from mcpdesk.errors import RemoteProtocolError


class Scripted(Client):
    """Answers every request with what `page` says of its cursor."""

    def __init__(self, page: Callable[[Any], dict[str, Any]]) -> None:
        super().__init__(list)
        self._page = page

    def request(self, method: str, params: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """A page."""
        return self._page(params.get("cursor"))


def test_all_pages_are_fetched_and_unknown_lists_are_empty(folder: Path) -> None:
    with client(str(folder)) as peer:
        assert len(peer.request_all("tools/list", "tools", 10)) == 5
        assert peer.request_all("nothing/list", "nothings", 10) == []


def test_pages_are_joined_in_their_order() -> None:
    pages = {None: {"tools": [1, 2], "nextCursor": "a"}, "a": {"nextCursor": ""}, "": {"tools": [3]}}
    assert Scripted(pages.__getitem__).request_all("tools/list", "tools", 1) == [1, 2, 3]


def test_pages_without_an_end_are_an_error() -> None:
    with pytest.raises(RemoteProtocolError, match="tools/list have no end"):
        Scripted(lambda cursor: {"nextCursor": "b" if cursor == "a" else "a"}).request_all(
            "tools/list", "tools", 1
        )


def test_pages_that_always_lead_to_new_ones_are_an_error() -> None:
    cursors = map(str, count())
    with pytest.raises(RemoteProtocolError, match="tools/list have no end"):
        Scripted(lambda _: {"nextCursor": next(cursors)}).request_all("tools/list", "tools", 1)
