"""A client of one server: what `call`, `list`, `read` and `prompt` speak through."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.protocol.jsonrpc import ErrorCode

if TYPE_CHECKING:
    from mcpdesk.link.values import CatalogueItem

MOST_PAGES = 10_000


def can_ask(stdin_fd: int = 0) -> bool:
    """Whether a person at a terminal can be asked: they read stderr and type into `stdin_fd`."""
    return os.isatty(stdin_fd) and sys.stderr is not None and sys.stderr.isatty()


class Client(ABC):
    """Sends requests and waits for their results."""

    def __init__(self, left_out: Callable[[], list[CatalogueItem]]) -> None:
        self.left_out = left_out
        """What the server would offer, and does not."""

    @abstractmethod
    def request(self, method: str, params: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """The result of one request.

        Raises: RemoteProtocolError for a JSON-RPC error; DeskUserError when no answer came in time, or the
        server wants a key or token.
        """

    def request_all(self, method: str, key: str, timeout_s: float) -> list[dict[str, Any]]:
        """The items of all pages of a list; none when the server does not offer this kind."""
        items: list[dict[str, Any]] = []
        cursors: set[str] = set()
        params: dict[str, Any] = {}
        while True:
            try:
                page = self.request(method, params, timeout_s)
            except RemoteProtocolError as error:
                if error.code == ErrorCode.METHOD_NOT_FOUND:
                    return items
                raise
            items += page.get(key, [])
            cursor = page.get("nextCursor")
            if cursor is None:
                return items
            if cursor in cursors or len(cursors) == MOST_PAGES:
                raise RemoteProtocolError(ErrorCode.INTERNAL_ERROR, f"The pages of {method} have no end.")
            cursors.add(cursor)
            params = {"cursor": cursor}
