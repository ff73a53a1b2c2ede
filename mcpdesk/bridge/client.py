"""A small client of any server: over HTTP in every revision, or of a server folder in this process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from mcpdesk.client import answer_checks
from mcpdesk.client.flows import AskingLine, call_as_task, has_to_be_task, is_unknown_way
from mcpdesk.client.http_requests import Wire, checked_url
from mcpdesk.client.mirroring import mirror, without_invalid
from mcpdesk.errors import CallTimeout, DeskUserError, InvalidAnswer, RpcError
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.server.server import Server

if TYPE_CHECKING:
    from mcpdesk.client.line import Elicit, Line
    from mcpdesk.server.schema import Validator

Target: TypeAlias = str | os.PathLike[str] | Server
"""A URL, a server folder, or a `Server` put together in code."""
DEFAULT_TIMEOUT_S = 30.0
DEFAULT_MAX_BYTES = 16 << 20
_TEXTS: dict[str, type] = {"name": str, "uri": str, "uriTemplate": str, "title": str, "description": str}
_SHAPES: dict[str, answer_checks.Items] = {
    "tools/list": answer_checks.Items("tools", _TEXTS, ("name",)),
    "resources/list": answer_checks.Items("resources", _TEXTS, ("uri",)),
    "resources/templates/list": answer_checks.Items("resourceTemplates", _TEXTS, ("uriTemplate",)),
    "prompts/list": answer_checks.Items("prompts", _TEXTS, ("name",)),
    "resources/read": answer_checks.Items(
        "contents", {"uri": str, "text": str, "blob": str, "mimeType": str}
    ),
    "prompts/get": answer_checks.Items("messages", {"role": str, "content": dict}, ("role", "content")),
}
"""Method -> the list its result has."""


class Client:
    """Asks one server, in its newest revision, and believes only answers that are well formed.

    >>> async with Client("http://127.0.0.1:3333/mcp/hello", api_key="...") as client:
    ...     tools = await client.list_tools()
    ...     result = await client.call_tool("greet", {"name": "Ada"})

    A URL is spoken to statelessly (2026-07-28) if the server can, else in a session of the newest revision it
    has. A folder is hosted in this process for as long as the client is open. The first request connects; any
    number may be under way at once. Redirects are not followed, so a token goes nowhere else; cookies are
    not kept; an answer of more than `max_bytes` is refused.

    With `on_elicit` the server may ask a person while it works (elicitation, forms and links). Without it
    nothing of the kind is declared.

    Every request raises `HttpError`, `InvalidAnswer`, `RpcError` or `CallTimeout`, all of them `CallError`.
    """

    def __init__(
        self,
        target: Target,
        *,
        mode: str = "",
        token: str | None = None,
        api_key: str | None = None,
        api_key_header: str = "X-API-Key",
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_bytes: int = DEFAULT_MAX_BYTES,
        headers: Mapping[str, str] | None = None,
        on_elicit: Elicit | None = None,
    ) -> None:
        """`mode` is one of the server's; `token` a bearer token; `api_key` goes out as `api_key_header`;
        `timeout_s` bounds each request that names no time of its own; `headers` go with every request;
        `on_elicit` takes the parameters of an `elicitation/create` and returns its result, such as
        `{"action": "decline"}`. While it works the time of the call stands still; what it raises ends the
        call. A question the server takes back cancels it.

        Raises: DeskUserError for a URL, key or token that cannot be used.
        """
        if isinstance(target, str) and "://" in target:
            checked_url(target)
        self.target = target
        self.mode = mode
        self.timeout_s = timeout_s
        self._token = token
        self._headers = dict(headers or {})
        if api_key:
            self._headers[api_key_header] = _sendable(api_key, "key")
        if token:
            self._headers["Authorization"] = f"Bearer {_sendable(token, 'token')}"
        self._max_bytes = max_bytes
        self._on_elicit = on_elicit
        self._line: Line | None = None
        self._connecting = asyncio.Lock()
        self._tools: dict[str, dict[str, Any]] = {}
        self._outputs: dict[str, Validator | None] = {}

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the session, if there is one, and the connections. The next request would open new ones."""
        line, self._line = self._line, None
        if line is not None:
            await line.close()

    async def connect(self, timeout_s: float | None = None) -> Mapping[str, Any]:
        """Reach the server and learn what it is.

        Returns its name and version, as it says, with the `revision` spoken and its `instructions`.
        Raises: CallError when it cannot be reached; ManifestError, DeskUserError for a folder.
        """
        async with self._limit(timeout_s, "connecting"):
            line = await self._connected()
        told = {"revision": line.revision.name, "instructions": line.instructions}
        return {**line.server, **told}

    async def request(
        self, method: str, params: dict[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """The result of any request, such as `resources/read`.

        Of lists, contents and messages it is known that they are what they are called; of other results, only
        that they are objects.
        """
        async with self._limit(timeout_s, method):
            line = await self._connected()
            result = await line.request(method, params or {}, {})
        if method in _SHAPES:
            answer_checks.checked_items(result, _SHAPES[method], line.target)
        answer_checks.checked_cursor(result, line.target)
        return result

    async def list_tools(self, *, timeout_s: float | None = None) -> list[dict[str, Any]]:
        """The tools of all pages, as `tools/list` defines them.

        Over HTTP, tools whose arguments cannot be mirrored as they ask are left out: the protocol wants it.
        """
        async with self._limit(timeout_s, "tools/list"):
            line = await self._connected()
            tools = await self._pages(line)
        self._tools = {tool["name"]: tool for tool in tools}
        self._outputs.clear()
        return tools

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Call a tool and return its result: `content`, perhaps `structuredContent`, `isError` on failure.

        A tool that fails is a result; only what is no result is an exception. Where the tool was listed
        before, structured content is held against its output schema. A call that takes too long is cancelled.
        A tool that exists as a task only is called as one, and followed to its end.
        """
        given = dict(arguments or {})
        async with self._limit(timeout_s, name):
            line = await self._connected()
            result = await self._called(line, name, given)
        return self._checked(line, name, answer_checks.checked_call(result, line.target))

    async def _called(self, line: Line, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The result, however the tool wants to be called: that may only show when it refuses."""
        params = {"name": name, "arguments": arguments}
        try:
            return await line.request("tools/call", params, self._headers_for(line, params))
        except RpcError as error:
            refusal = error
        if refusal.code == ErrorCode.HEADER_MISMATCH and line.mirrors:
            await self.list_tools()  # its schema is not the one we know
            return await line.request("tools/call", params, self._headers_for(line, params))
        if line.revision.has_core_tasks and name not in self._tools and is_unknown_way(refusal):
            await self.list_tools()
        if has_to_be_task(line, self._tools.get(name), refusal):
            return await call_as_task(line, params, self._headers_for(line, params))
        raise refusal

    def _headers_for(self, line: Line, params: dict[str, Any]) -> dict[str, str]:
        known = self._tools.get(params["name"])
        return mirror(known["inputSchema"], params["arguments"]) if known and line.mirrors else {}

    async def _pages(self, line: Line) -> list[dict[str, Any]]:
        tools: list[dict[str, Any]] = []
        cursors: set[str] = set()
        params: dict[str, Any] = {}
        while True:
            page = await line.request("tools/list", params, {})
            tools += answer_checks.checked_tools(page, line.target)
            cursor = answer_checks.checked_cursor(page, line.target)
            if cursor is None:
                return without_invalid(tools) if line.mirrors else tools
            if cursor in cursors or len(tools) > answer_checks.MOST_TOOLS:
                raise InvalidAnswer("tools/list: the pages have no end", line.target)
            cursors.add(cursor)
            params = {"cursor": cursor}

    def _checked(self, line: Line, name: str, result: dict[str, Any]) -> dict[str, Any]:
        """Raises: InvalidAnswer for structured content the tool did not declare."""
        known = self._tools.get(name)
        if known is None or "outputSchema" not in known or result.get("isError"):
            return result
        if name not in self._outputs:
            self._outputs[name] = _compiled(known["outputSchema"])
        validator = self._outputs[name]
        if validator is None or line.revision.structured == "none":
            return result
        if "structuredContent" not in result:
            raise InvalidAnswer(f"{name}: the result lacks the structured content it declares", line.target)
        failures = validator.failures(result["structuredContent"], 3)
        if failures:
            reason = "; ".join(f"{'.'.join(map(str, each.path))} {each.message}".strip() for each in failures)
            raise InvalidAnswer(
                f"{name}: the structured content is not what it declares: {answer_checks.excerpt(reason)}",
                line.target,
            )
        return result

    async def _connected(self) -> Line:
        async with self._connecting:
            if self._line is None:
                self._line = await self._opened()
            return self._line

    async def _opened(self) -> Line:
        line = await self._line_to_target()
        if self._on_elicit is not None and line.revision.is_stateless:
            return AskingLine(line, self._elicit)
        return line

    async def _line_to_target(self) -> Line:
        if isinstance(self.target, Server):
            from mcpdesk.bridge.hosted import line_to

            return await line_to(self.target, self._token)
        place = os.fspath(self.target)
        if "://" not in place:
            from mcpdesk.bridge.hosted import host_folder

            return await host_folder(Path(place), self.mode, self._token)
        from mcpdesk.client.negotiation import meet

        wire = Wire(place, self._headers, self.mode, self._max_bytes)
        async with AsyncExitStack() as unless_met:
            unless_met.push_async_callback(wire.close)
            line = await meet(wire, self._elicit if self._on_elicit is not None else None)
            unless_met.pop_all()
        return line

    @asynccontextmanager
    async def _limit(self, timeout_s: float | None, what: str) -> AsyncIterator[None]:
        seconds = self.timeout_s if timeout_s is None else timeout_s
        limit = asyncio.timeout(seconds)
        clock = _Clock(limit)
        before = _CLOCK.set(clock)
        try:
            async with limit:
                try:
                    yield
                finally:
                    clock.is_over = True
        except TimeoutError:
            if not limit.expired():
                raise
            target = self._line.target if self._line is not None else ""
            raise CallTimeout(f"{what}: no answer within {seconds:g} s", target) from None
        finally:
            _CLOCK.reset(before)

    async def _elicit(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Have a question answered. It is asked by the call in whose context this runs."""
        assert self._on_elicit is not None
        clock = _CLOCK.get()
        if clock is None:
            return await self._on_elicit(params)
        with clock.stopped():
            return await self._on_elicit(params)


class _Clock:
    """The time a call may take. It stands still while somebody thinks about an answer."""

    def __init__(self, limit: asyncio.Timeout) -> None:
        self.is_over = False
        """The call is; its limit cannot be moved any more."""
        self._limit = limit
        self._questions = 0
        self._left_s = 0.0

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let no time pass for the call while the block runs; several blocks may overlap."""
        loop = asyncio.get_running_loop()
        when = self._limit.when()
        if self._questions == 0 and when is not None and self._can_move:
            self._left_s = when - loop.time()
            self._limit.reschedule(None)
        self._questions += 1
        try:
            yield
        finally:
            self._questions -= 1
            if self._questions == 0 and self._can_move:
                self._limit.reschedule(loop.time() + self._left_s)

    @property
    def _can_move(self) -> bool:
        return not (self.is_over or self._limit.expired())


_CLOCK: ContextVar[_Clock | None] = ContextVar("mcpdesk_bridge_clock", default=None)
"""That of the call which is under way in this context."""


def _sendable(secret: str, what: str) -> str:
    """Raises: DeskUserError for what no header can carry; it does not repeat it."""
    if not (secret.isascii() and secret.isprintable()) or secret != secret.strip() or " " in secret:
        raise DeskUserError(
            f"The {what} has characters no header can carry.", "Is it complete, and nothing else?"
        )
    return secret


def _compiled(schema: dict[str, Any]) -> Validator | None:
    """None for a schema that cannot be used here: then nothing can be held against it."""
    from mcpdesk.server.schema import SchemaError, compile_schema

    try:
        return compile_schema(schema)
    except SchemaError:
        return None
