"""A client of a server at a URL, for the commands that ask once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from mcpdesk.cli.client import Client, can_ask
from mcpdesk.cli.reach import Reach, hinted
from mcpdesk.errors import HttpError, RemoteProtocolError, RpcError

if TYPE_CHECKING:
    from mcpdesk.bridge import Client as BridgeClient
    from mcpdesk.bridge.client import Elicit

T = TypeVar("T")
DEFAULT_S = 30.0


class RemoteClient(Client):
    """Sends requests over HTTP, in whatever revision the server has."""

    def __init__(
        self, bridge: BridgeClient, runner: asyncio.Runner, person: PersonHere | None = None
    ) -> None:
        """`person` answers the questions of the server."""
        super().__init__(list)  # a server tells strangers nothing of what it does not offer
        self._bridge = bridge
        self._runner = runner
        self._person = person

    def request(self, method: str, params: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """The result of one request. Raises: CallError without an answer, besides."""
        if self._person is not None:
            self._person.asker = str(params.get("name") or params.get("uri") or method)
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


class PersonHere:
    """The person at the terminal of this command, who is asked what a server at `url` asks."""

    def __init__(self, url: str) -> None:
        from mcpdesk.inbox.inbox import Inbox
        from mcpdesk.plain_text import clean
        from mcpdesk.settings import resolve

        self.asker = ""
        """What runs on the server: the name of a tool or prompt, or a URI."""
        self._server = clean(url.partition("?")[0])
        self._inbox = Inbox()
        self._timeout_s = resolve({}, os.environ).settings.question_timeout_ms / 1000
        self._turn = asyncio.Lock()

    async def elicit(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of `elicitation/create`. Cancelled: the question is taken back."""
        from mcpdesk.cli.terminal_questions import TerminalQuestions
        from mcpdesk.link import desk_forms

        number, answered = self._inbox.ask(
            server=self._server, peer="desk", tool=self.asker, pages=desk_forms.pages_of(dict(params)),
            timeout_s=self._timeout_s, may_cancel=True,
        )  # fmt: skip
        loop = asyncio.get_running_loop()
        terminal = TerminalQuestions(self._inbox, loop.call_soon_threadsafe, 0)
        try:
            async with self._turn:
                await asyncio.to_thread(terminal.ask_waiting)
            return desk_forms.result_of(dict(params), await answered)
        finally:
            self._inbox.withdraw(number, "the call has ended")


def bridge_to(
    url: str, reach: Reach, timeout_s: float | None = None, on_elicit: Elicit | None = None
) -> BridgeClient:
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
        on_elicit=on_elicit,
    )


@contextmanager
def remote(url: str, reach: Reach) -> Iterator[RemoteClient]:
    """A client of the server at `url`, for as long as the block runs. Raises: DeskUserError for no URL."""
    person = PersonHere(url) if can_ask() else None
    bridge = bridge_to(url, reach, on_elicit=None if person is None else person.elicit)
    with asyncio.Runner() as runner:
        try:
            yield RemoteClient(bridge, runner, person)
        finally:
            runner.run(bridge.close())
