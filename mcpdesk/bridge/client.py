"""The client of chat programs: of any server over HTTP, or of a server folder in this process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.client.connection import Questions, ServerConnection
from mcpdesk.client.credentials import credential_headers
from mcpdesk.client.http_transports import MAX_BYTES, StreamableHttp, checked_url
from mcpdesk.client.in_memory import InMemory
from mcpdesk.client.negotiation import Agreement
from mcpdesk.client.timing import CallDeadline
from mcpdesk.client.transport import excerpt
from mcpdesk.errors import CallTimeout, InvalidAnswer, RpcError
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.protocol.revisions import LATEST, Revision
from mcpdesk.server.offer.server import Server
from mcpdesk.version import __version__

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.recorder.record import ConnectionInfo
    from mcpdesk.server.schemas.validation import Validator

Target: TypeAlias = str | os.PathLike[str] | Server
"""A URL, a server folder, or a `Server` made in code."""
Elicit: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Takes the parameters of `elicitation/create` and returns its result: `action`, and `content` of a form."""
DEFAULT_TIMEOUT_S = 30.0


class Client:
    """Asks one server, in its newest revision, and believes only answers that are well formed.

    >>> async with Client("http://127.0.0.1:3333/mcp/hello", api_key="...") as client:
    ...     tools = await client.list_tools()
    ...     result = await client.call_tool("greet", {"name": "Ada"})

    A URL is spoken to statelessly (2026-07-28) if the server can, else in a session of the newest revision it
    has. A folder is hosted in this process for as long as the client is open. The first request connects; any
    number may be under way at once. Redirects are followed to the same origin alone, so that a token
    goes nowhere else; cookies are not kept; an answer of more than `max_bytes` is refused.

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
        max_bytes: int = MAX_BYTES,
        headers: Mapping[str, str] | None = None,
        on_elicit: Elicit | None = None,
    ) -> None:
        """`mode` is one of the server's; `token` a bearer token; `api_key` goes out as `api_key_header`;
        `timeout_s` bounds each request that names no time of its own; `headers` go with every request;
        `on_elicit` takes the parameters of an `elicitation/create` and returns its result, such as
        `{"action": "decline"}`. While it works the time of the call stands still; what it raises ends the
        call. It is cancelled when the server withdraws its question.

        Raises: DeskUserError for a URL, key or token that cannot be used.
        """
        if isinstance(target, str) and "://" in target:
            checked_url(target)
        self.target = target
        self.mode = mode
        self.timeout_s = timeout_s
        self._token = token
        self._headers = credential_headers(token, api_key, api_key_header, headers)
        self._max_bytes = max_bytes
        self._on_elicit = on_elicit
        self._connection: ServerConnection | None = None
        self._connecting = asyncio.Lock()
        self._outputs: dict[str, Validator | None] = {}
        """Compiled output schemas of tools, by name; None for one that cannot be used."""

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the session, if there is one, and the connections. The next request would open new ones."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def connect(self, timeout_s: float | None = None) -> Mapping[str, Any]:
        """Reach the server and learn what it is.

        Returns its name and version, as it says, with the `revision` spoken and its `instructions`.
        Raises: CallError when it cannot be reached; ManifestError, DeskUserError for a folder.
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
        """The result of any request, such as `resources/read`.

        Lists, contents and messages are known to be what they are called; other results are any object.
        """
        async with self._connected(timeout_s, method) as (connection, deadline):
            return await connection.result(method, params, deadline=deadline)

    async def list_tools(self, *, timeout_s: float | None = None) -> list[dict[str, Any]]:
        """The tools of all pages, as `tools/list` defines them.

        Over HTTP, tools whose arguments cannot be mirrored as they ask are left out: the protocol wants it.
        """
        async with self._connected(timeout_s, "tools/list") as (connection, _):
            tools = await connection.list_all("tools/list", "tools")
        self._outputs.clear()
        return tools

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Call a tool and return its result: `content`, perhaps `structuredContent`, `isError` on failure.

        A tool that fails is a result; only what is no result is an exception. Where the tool was listed
        before, structured content is validated against its output schema. A call is cancelled when its time
        is over.
        A tool that exists as a task only is called as one, and followed to its end.
        """
        params = {"name": name, "arguments": dict(arguments or {})}
        async with self._connected(timeout_s, name) as (connection, deadline):
            result = await connection.result("tools/call", params, deadline=deadline)
            has_structure = (await connection.open()).revision.structured != "none"
        known = connection.tools.get(name)
        if known is not None and "outputSchema" in known and has_structure and not result.get("isError"):
            self._check_structure(connection.target, known, result)
        return result

    def _check_structure(self, target: str, tool: dict[str, Any], result: dict[str, Any]) -> None:
        """Raises: InvalidAnswer for structured content the tool did not declare."""
        name = tool["name"]
        if name not in self._outputs:
            self._outputs[name] = _compiled(tool["outputSchema"])
        validator = self._outputs[name]
        if validator is None:
            return
        if "structuredContent" not in result:
            raise InvalidAnswer(f"{name}: the result lacks the structured content it declares", target)
        failures = validator.failures(result["structuredContent"], 3)
        if failures:
            reason = "; ".join(f"{'.'.join(map(str, each.path))} {each.message}".strip() for each in failures)
            raise InvalidAnswer(
                f"{name}: the structured content is not what it declares: {excerpt(reason)}", target
            )

    @asynccontextmanager
    async def _connected(
        self, timeout_s: float | None, what: str
    ) -> AsyncIterator[tuple[ServerConnection, CallDeadline]]:
        """The connection, within the time a request may take. Raises: CallTimeout when it is over."""
        deadline = CallDeadline(self.timeout_s if timeout_s is None else timeout_s)
        try:
            async with deadline.enforced(what):
                async with self._connecting:
                    if self._connection is None:
                        self._connection = await self._opened()
                    connection = self._connection
                await connection.open()
                yield connection, deadline
        except CallTimeout as error:
            error.target = self._connection.target if self._connection is not None else ""
            raise

    async def _opened(self) -> ServerConnection:
        questions: Questions = {} if self._on_elicit is None else {"elicitation/create": self._elicit}
        place = self.target if isinstance(self.target, Server) else os.fspath(self.target)
        if isinstance(place, str) and "://" in place:
            transport = StreamableHttp(place, self._headers, self.mode, self._max_bytes)
            return ServerConnection(transport, IDENTITY, questions=lambda: questions)
        if isinstance(place, Server):
            return await connect_to_server(place, self._token, questions)
        return await connect_to_folder(Path(place), self.mode, self._token, questions)

    async def _elicit(self, params: dict[str, Any], subject: str) -> dict[str, Any]:
        assert self._on_elicit is not None
        return await self._on_elicit(params)


def _compiled(schema: dict[str, Any]) -> Validator | None:
    """None for a schema that cannot be used here: then nothing can be held against it."""
    from mcpdesk.server.schemas.validation import SchemaError, compile_schema

    try:
        return compile_schema(schema)
    except SchemaError:
        return None


IDENTITY = {"name": "mcpdesk-bridge", "version": __version__}
"""The name and version that servers see."""


async def connect_to_folder(
    folder: Path, mode: str, token: str | None = None, questions: Questions | None = None
) -> ServerConnection:
    """Host a server folder for one caller, until the connection is closed.

    Raises: ManifestError, DeskUserError when it cannot be hosted, or has no such mode; RpcError for
    an invalid token.
    """
    from mcpdesk.hosting.host import Host
    from mcpdesk.hosting.host_plan import HostPlan, effective_settings

    settings = effective_settings({}, os.environ, folder).settings
    host = Host(HostPlan((folder,), settings, http=False, meet=False, watch=False))
    async with AsyncExitStack() as unless_hosted:
        unless_hosted.push_async_callback(host.stop)
        host.load()
        await host.wake()
        endpoint = host.endpoint("", mode)
        assert endpoint is not None
        connection = connect_to_endpoint(endpoint, await caller(endpoint.server, token), questions, host.stop)
        unless_hosted.pop_all()
    return connection


async def connect_to_server(
    server: Server,
    token: str | None = None,
    questions: Questions | None = None,
    revision: Revision | None = None,
) -> ServerConnection:
    """Connect to a server made in code. Raises: RpcError for an invalid token."""
    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.server.calls.services import Services

    def log(*_: object, **__: object) -> None:
        """Nobody reads it."""

    principal = await caller(server, token)
    endpoint = HostedEndpoint(server, Services(log), Unrecorded())
    return connect_to_endpoint(endpoint, principal, questions, revision=revision)


def connect_to_endpoint(
    endpoint: HostedEndpoint,
    principal: Principal,
    questions: Questions | None,
    on_close: Callable[[], Awaitable[None]] | None = None,
    revision: Revision | None = None,
) -> ServerConnection:
    """Connect in memory, in the newest revision, or by a request of the one that is named."""
    transport = InMemory(
        lambda write: endpoint.channel("memory", "bridge", write, {}, principal),
        endpoint.name,
        on_close=on_close,
    )
    server = endpoint.server
    known = Agreement(LATEST, {"name": endpoint.name, "version": server.version}, server.instructions)
    agreement = known if revision is None else None
    return ServerConnection(
        transport, IDENTITY, questions=lambda: questions or {}, revision=revision, agreement=agreement
    )


async def caller(server: Server, token: str | None) -> Principal:
    """The caller a token belongs to. As over HTTP, a token is checked only where the server needs one.

    Raises: RpcError (-32001), with the words a server has for it.
    """
    from mcpdesk.auth.keys import KeysMissing
    from mcpdesk.auth.principal import INVALID
    from mcpdesk.auth.tokens import Rejected

    if token is None or not server.access.is_asked:
        return OPEN
    try:
        return await server.access.verify(token)
    except Rejected:
        raise RpcError(ErrorCode.UNAUTHORIZED, INVALID, None, server.name) from None
    except KeysMissing:
        raise RpcError(ErrorCode.INTERNAL_ERROR, "Tokens cannot be checked now", None, server.name) from None


class Unrecorded:
    """A recorder that keeps nothing."""

    def connect(self, info: ConnectionInfo) -> None:
        """Keep nothing."""

    def frame(self, *_: Any, **__: Any) -> int:
        """Keep nothing."""
        return 0

    def remark(self, *_: Any, **__: Any) -> None:
        """Keep nothing."""

    def together(self, *_: Any, **__: Any) -> int:
        """Keep nothing."""
        return 0
