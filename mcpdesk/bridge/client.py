"""Client for chat programs. It calls a server over HTTP, or a server folder in this process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from mcpdesk.client.connection import Questions, ServerConnection
from mcpdesk.client.credentials import credential_headers
from mcpdesk.client.http_transports import MAX_BYTES, StreamableHttp, checked_url
from mcpdesk.client.targets import FolderTarget
from mcpdesk.client.timing import CallDeadline
from mcpdesk.client.transport import excerpt
from mcpdesk.connect import connect
from mcpdesk.errors import CallTimeout, InvalidAnswer
from mcpdesk.server.offer.server import Server
from mcpdesk.upstream.target_transport import Reach
from mcpdesk.version import __version__

if TYPE_CHECKING:
    from mcpdesk.server.schemas.validation import Validator

Target: TypeAlias = str | os.PathLike[str] | Server
"""A URL, a server folder, or a `Server` made in code."""
Elicit: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Takes the parameters of `elicitation/create` and returns its result: `action`, and `content` of a form."""
DEFAULT_TIMEOUT_S = 30.0


class Client:
    """Client of one server, in the newest revision that both support. Only valid responses are accepted.

    >>> async with Client("http://127.0.0.1:3333/mcp/hello", api_key="...") as client:
    ...     tools = await client.list_tools()
    ...     result = await client.call_tool("greet", {"name": "Ada"})

    A server at a URL is used statelessly (2026-07-28) if the server supports that, else in a session of its
    newest revision. A folder is hosted in this process while the client is open. The first request connects;
    any number of requests may run concurrently. Only redirects to the same origin are followed, so that a
    token is not sent to another origin. Cookies are not stored. A response of more than `max_bytes` is
    rejected.

    With `on_elicit`, the server may ask a person during a call (elicitation, forms and links). Without
    `on_elicit`, the client does not declare elicitation.

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
        max_bytes: int = MAX_BYTES,
        headers: Mapping[str, str] | None = None,
        on_elicit: Elicit | None = None,
    ) -> None:
        """Create a client without connecting.

        `mode` is one of the server's modes, `token` a bearer token. `api_key` is sent in the header
        `api_key_header`; `headers` are sent with every request. `timeout_s` is the default time limit of a
        request. `on_elicit` takes the parameters of an `elicitation/create` and returns its result, such as
        `{"action": "decline"}`. The time limit of the call is suspended while `on_elicit` runs. An exception
        in `on_elicit` ends the call. `on_elicit` is cancelled if the server withdraws its question.

        Raises: DeskUserError for an invalid URL, key or token.
        """
        if isinstance(target, str) and "://" in target:
            checked_url(target)
        self.target = target
        self.mode = mode
        self.timeout_s = timeout_s
        self._reach = Reach(mode, token)
        self._headers = credential_headers(token, api_key, api_key_header, headers)
        self._max_bytes = max_bytes
        self._on_elicit = on_elicit
        self._connection: ServerConnection | None = None
        self._open_contexts = AsyncExitStack()
        """Context managers of the current connection."""
        self._connect_lock = asyncio.Lock()
        self._output_validators: dict[str, Validator | None] = {}
        """Compiled output schemas of tools, by name. None for an unusable schema."""

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, and the session if the server has one. A later request connects again."""
        stack, self._open_contexts, self._connection = self._open_contexts, AsyncExitStack(), None
        await stack.aclose()

    async def connect(self, timeout_s: float | None = None) -> Mapping[str, Any]:
        """Connect to the server and return its description.

        The result has its name and version, the negotiated `revision`, and its `instructions`.

        Raises: CallError if the server cannot be reached; ManifestError or DeskUserError for an invalid
        folder.
        """
        async with self._connected(timeout_s, "connecting") as (connection, _):
            agreement = await connection.open()
        return {
            **agreement.server,
            "revision": agreement.revision.name,
            "instructions": agreement.instructions,
        }

    async def request(
        self, method: str, params: dict[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Send any request, such as `resources/read`, and return its result.

        Lists, contents and messages are validated; other results may be any object.
        """
        async with self._connected(timeout_s, method) as (connection, deadline):
            return await connection.result(method, params, deadline=deadline)

    async def list_tools(self, *, timeout_s: float | None = None) -> list[dict[str, Any]]:
        """Return the tools of all pages, as `tools/list` defines them.

        Over HTTP, tools whose arguments cannot be repeated in headers as declared are omitted, as the
        protocol requires.
        """
        async with self._connected(timeout_s, "tools/list") as (connection, _):
            tools = await connection.list_all("tools/list", "tools")
        self._output_validators.clear()
        return tools

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Call a tool and return its result: `content`, optionally `structuredContent`, `isError` on failure.

        A tool that fails returns a result; only an invalid response raises an exception. If the tool was
        listed before, structured content is validated against its output schema. A call is cancelled when its
        time limit is exceeded.

        A tool that requires a task is called as a task, and this method waits for the end of the task.
        """
        params = {"name": name, "arguments": dict(arguments or {})}
        async with self._connected(timeout_s, name) as (connection, deadline):
            result = await connection.result("tools/call", params, deadline=deadline)
            revision = (await connection.open()).revision
        tool = connection.tools.get(name, {})
        expects_structure = revision.structured != "none" and not result.get("isError")
        if "outputSchema" in tool and expects_structure:
            self._check_structure(connection.target, tool, result)
        return result

    def _check_structure(self, target: str, tool: dict[str, Any], result: dict[str, Any]) -> None:
        """Raises: InvalidAnswer if the structured content does not match the declared schema."""
        name = tool["name"]
        if name not in self._output_validators:
            self._output_validators[name] = _validator_of(tool["outputSchema"])
        validator = self._output_validators[name]
        if validator is None:
            return
        if "structuredContent" not in result:
            raise InvalidAnswer(
                f"{name}: the result has no structured content, but the tool declares an output schema",
                target,
            )
        failures = validator.failures(result["structuredContent"], 3)
        if failures:
            reason = "; ".join(
                f"{'.'.join(map(str, failure.path))} {failure.message}".strip() for failure in failures
            )
            raise InvalidAnswer(
                f"{name}: the structured content violates the output schema: {excerpt(reason)}", target
            )

    @asynccontextmanager
    async def _connected(
        self, timeout_s: float | None, subject: str
    ) -> AsyncIterator[tuple[ServerConnection, CallDeadline]]:
        """Provide the connection, within the time limit of a request. Raises: CallTimeout."""
        deadline = CallDeadline(self.timeout_s if timeout_s is None else timeout_s)
        try:
            async with deadline.enforced(subject):
                async with self._connect_lock:
                    if self._connection is None:
                        self._connection = await self._connect()
                    connection = self._connection
                await connection.open()
                yield connection, deadline
        except CallTimeout as error:
            error.target = self._connection.target if self._connection is not None else ""
            raise

    async def _connect(self) -> ServerConnection:
        """Return a new connection, which `close` closes. The first request opens it."""
        questions: Questions = {} if self._on_elicit is None else {"elicitation/create": self._elicit}
        target: Server | FolderTarget | StreamableHttp
        if isinstance(self.target, Server):
            target = self.target
        elif "://" in os.fspath(self.target):
            target = StreamableHttp(os.fspath(self.target), self._headers, self.mode, self._max_bytes)
        else:
            target = FolderTarget(Path(self.target))
        opening = connect(target, IDENTITY, reach=self._reach, answers=lambda: questions)
        return await self._open_contexts.enter_async_context(opening)

    async def _elicit(self, params: dict[str, Any], subject: str) -> dict[str, Any]:
        assert self._on_elicit is not None
        return await self._on_elicit(params)


def _validator_of(schema: dict[str, Any]) -> Validator | None:
    """Return a validator, or None for an unusable schema. With None, results are not validated."""
    from mcpdesk.server.schemas.validation import SchemaError, compile_schema

    try:
        return compile_schema(schema)
    except SchemaError:
        return None


IDENTITY = {"name": "mcpdesk-bridge", "version": __version__}
"""Name and version of this client that servers see."""
