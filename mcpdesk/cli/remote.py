"""A client of a server at a URL, for the commands that ask once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from mcpdesk.cli.client import Client
from mcpdesk.cli.reach import Reach, hinted
from mcpdesk.errors import HttpError, RemoteProtocolError, RpcError

if TYPE_CHECKING:
    from mcpdesk.bridge import Client as BridgeClient

T = TypeVar("T")
DEFAULT_S = 30.0


class RemoteClient(Client):
    """Sends requests over HTTP, in whatever revision the server has."""

    def __init__(self, bridge: BridgeClient, runner: asyncio.Runner) -> None:
        super().__init__(list)  # a server tells strangers nothing of what it does not offer
        self._bridge = bridge
        self._runner = runner

    def request(self, method: str, params: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """The result of one request. Raises: CallError without an answer, besides."""
        if method == "tools/call":
            call = self._bridge.call_tool(params["name"], params.get("arguments"), timeout_s=timeout_s)
            return self._run(call)
        return self._run(self._bridge.request(method, params, timeout_s=timeout_s))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._runner.run(work)
        except HttpError as error:
            raise hinted(error) from None
        except RpcError as error:
            raise RemoteProtocolError(error.code, error.message, error.data) from None


def bridge_to(url: str, reach: Reach, timeout_s: float | None = None) -> BridgeClient:
    """A client of the bridge with what was said on the command line. Raises: DeskUserError for no URL."""
    from mcpdesk.bridge import Client as BridgeClient
    from mcpdesk.settings import resolve

    return BridgeClient(
        url,
        mode=reach.mode,
        token=reach.token,
        api_key=reach.key,
        api_key_header=resolve({}, os.environ).settings.api_key_header,
        timeout_s=timeout_s or DEFAULT_S,
    )


@contextmanager
def remote(url: str, reach: Reach) -> Iterator[RemoteClient]:
    """A client of the server at `url`, for as long as the block runs. Raises: DeskUserError for no URL."""
    bridge = bridge_to(url, reach)
    with asyncio.Runner() as runner:
        try:
            yield RemoteClient(bridge, runner)
        finally:
            runner.run(bridge.close())
