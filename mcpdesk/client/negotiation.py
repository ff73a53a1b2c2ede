"""How a server is spoken with over HTTP: stateless, or in a session. Source: WIRE 1.3, 4, 5."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import count
from typing import Any

from mcpdesk.client.answer_checks import excerpt, question_fault
from mcpdesk.client.farewells import Partings, within_parting
from mcpdesk.client.http_requests import REFUSED, Reply, Wire
from mcpdesk.client.line import IDENTITY, Elicit, Line, answer_to, kinds_of, opened, opening, withdrawal
from mcpdesk.client.sse_transport import Listening
from mcpdesk.errors import CallError, HttpError, InvalidAnswer
from mcpdesk.protocol.headers import encode_value
from mcpdesk.protocol.jsonrpc import ErrorCode, Id, is_id
from mcpdesk.protocol.methods import METHODS
from mcpdesk.protocol.revisions import BY_NAME, LATEST, LATEST_HANDSHAKE
from mcpdesk.protocol.stateless import SERVER_KEY, request_meta

MODERN = frozenset({ErrorCode.HEADER_MISMATCH, ErrorCode.MISSING_CAPABILITY, ErrorCode.UNSUPPORTED_VERSION})
MOST_QUESTIONS = 100
"""How many questions of one call may wait for their answers at a time."""


async def meet(wire: Wire, elicit: Elicit | None = None) -> Line:
    """Find out which era a server is of, newest first. `elicit` answers the questions it asks in a session.

    Raises: CallError when it is of none, or cannot be reached.
    """
    stateless = Stateless(wire)
    reply = await stateless.discover()
    is_modern = "supportedVersions" in (_result(reply) or {}) or reply.code in MODERN
    if reply.status >= 500 or reply.status in REFUSED or 300 <= reply.status < 400:
        raise reply.failure(wire.target)
    if not is_modern:
        return await _shaken(wire, elicit)
    offered = _versions(reply)
    if LATEST.name in offered and stateless.accept(reply):
        return stateless
    if any(name in BY_NAME and not BY_NAME[name].is_stateless for name in offered):
        return await _shaken(wire, elicit)
    told = excerpt(", ".join(offered)) or "none"
    raise InvalidAnswer(f"it serves the revisions {told}, this client {', '.join(BY_NAME)}", wire.target)


def _result(reply: Reply) -> dict[str, Any] | None:
    result = reply.message.get("result") if isinstance(reply.message, dict) else None
    return result if isinstance(result, dict) else None


def _versions(reply: Reply) -> list[str]:
    result = _result(reply)
    error = {} if result is not None else reply.message["error"].get("data") or {}
    named = (result or {}).get("supportedVersions") or (
        error.get("supported") if isinstance(error, dict) else []
    )
    return [each[:40] for each in named if isinstance(each, str)] if isinstance(named, list) else []


async def _shaken(wire: Wire, elicit: Elicit | None) -> Line:
    """A session; or a connection of the first revision, where handshakes are not posted."""
    session = Session(wire, elicit)
    try:
        await session.open()
    except HttpError as error:
        if not 400 <= error.status < 500 or error.status in REFUSED:
            raise
        listening = Listening(wire)
        try:
            await listening.open()
        except HttpError:
            raise error from None
        return listening
    return session


class Stateless:
    """Every request stands alone."""

    revision = LATEST
    mirrors = True

    def __init__(self, wire: Wire) -> None:
        self.target = wire.target
        self.server: Mapping[str, Any] = {}
        self.instructions = ""
        self._wire = wire
        self._ids = count(1)

    async def discover(self) -> Reply:
        """Ask what the server is. Raises: HttpError when it cannot be reached, InvalidAnswer."""
        return await self._post(next(self._ids), "server/discover", {}, {})

    def accept(self, reply: Reply) -> bool:
        """Take over what the server says of itself; False when it said nothing."""
        result = _result(reply)
        if result is None:
            return False
        meta, told = result.get("_meta"), result.get("instructions")
        server = meta.get(SERVER_KEY) if isinstance(meta, dict) else None
        self.server = server if isinstance(server, dict) else {}
        self.instructions = told if isinstance(told, str) else ""
        return True

    async def request(
        self, method: str, params: dict[str, Any], headers: Mapping[str, str]
    ) -> dict[str, Any]:
        """The result; cancelling it closes the connection, which is what the server goes by."""
        identifier = next(self._ids)
        reply = await self._post(identifier, method, params, headers)
        return reply.result(identifier, self.target, kinds_of(params))

    async def close(self) -> None:
        """Close the connections; the server keeps nothing."""
        await self._wire.close()

    async def _post(
        self, identifier: int, method: str, params: dict[str, Any], headers: Mapping[str, str]
    ) -> Reply:
        row = METHODS.get(method)
        routing = {"MCP-Protocol-Version": self.revision.name, "Mcp-Method": method, **headers}
        if row is not None and row.routing_field:
            routing["Mcp-Name"] = encode_value(str(params.get(row.routing_field, "")))
        meta = request_meta(self.revision, IDENTITY) | params.get("_meta", {})
        message = _request(identifier, method, params | {"_meta": meta})
        return await self._wire.post(message, routing)


class Session:
    """Requests after a handshake, in the newest revision both know. `elicit` answers what the server asks."""

    mirrors = False

    def __init__(self, wire: Wire, elicit: Elicit | None = None) -> None:
        self._elicit = elicit
        self.target = wire.target
        self.revision = LATEST_HANDSHAKE
        self.server: Mapping[str, Any] = {}
        self.instructions = ""
        self._wire = wire
        self._ids = count(1)
        self._headers: dict[str, str] = {}
        self._opening = asyncio.Lock()
        self._partings = Partings()

    async def open(self) -> None:
        """Shake hands. Raises: CallError when the server does not."""
        identifier = next(self._ids)
        message = _request(identifier, "initialize", opening(LATEST_HANDSHAKE, self._elicit is not None))
        reply = await self._wire.post(message, {}, self._asked)
        result = reply.result(identifier, self.target)
        self.revision, self.server, self.instructions = opened(result, self.target)
        headers = {}
        if session := reply.headers.get("mcp-session-id"):
            headers["Mcp-Session-Id"] = session
        if self.revision.has_version_header:
            headers["MCP-Protocol-Version"] = self.revision.name
        await self._notify({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
        self._headers = headers

    async def request(
        self, method: str, params: dict[str, Any], headers: Mapping[str, str]
    ) -> dict[str, Any]:
        """The result; a session the server has forgotten is opened again, once."""
        used = self._headers
        try:
            return await self._request(method, params)
        except HttpError as error:
            if error.status != 404 or "Mcp-Session-Id" not in used:
                raise
        async with self._opening:
            if self._headers is used:
                await self.open()
        return await self._request(method, params)

    async def close(self) -> None:
        """End the session; a server that does not answer soon is left alone."""
        await self._partings.end()
        if "Mcp-Session-Id" in self._headers:
            await within_parting(self._wire.delete(self._headers))
        await self._wire.close()

    async def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        identifier = next(self._ids)
        try:
            reply = await self._answering(_request(identifier, method, params))
        except CallError:
            raise
        except BaseException:  # cancelled, or whoever answers questions failed
            self._partings.begin(self._notify(withdrawal(identifier), self._headers))
            raise
        if reply.status == 404 and "Mcp-Session-Id" in self._headers:
            raise reply.failure(self.target)
        return reply.result(identifier, self.target)

    async def _answering(self, message: dict[str, Any]) -> Reply:
        """Send a request, and answer what the server asks before it responds.

        The stream is read on while a person thinks: the server may take a question back, or stop waiting.
        """
        asked: dict[Id, asyncio.Task[None]] = {}

        async def take(came: dict[str, Any]) -> None:
            identifier = came.get("id")
            if came["method"] == "notifications/cancelled":
                withdrawn = (came.get("params") or {}).get("requestId")
                if is_id(withdrawn) and withdrawn in asked:
                    asked[withdrawn].cancel()
            elif self._elicit is None or came["method"] != "elicitation/create" or not is_id(identifier):
                await self._asked(came)
            elif identifier in asked or len(asked) == MOST_QUESTIONS:
                raise InvalidAnswer("it asks too many questions at a time", self.target)
            elif fault := question_fault(came.get("params")):
                error = {"code": int(ErrorCode.INVALID_PARAMS), "message": fault}
                await self._notify({"jsonrpc": "2.0", "id": identifier, "error": error}, self._headers)
            else:
                asked[identifier] = group.create_task(self._answer(self._elicit, came))
                asked[identifier].add_done_callback(lambda _: asked.pop(identifier))

        try:
            async with asyncio.TaskGroup() as group:
                reply = await self._wire.post(message, self._headers, take)
                for task in asked.values():
                    task.cancel()
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        return reply

    async def _answer(self, elicit: Elicit, question: dict[str, Any]) -> None:
        """Have a question answered and post the answer. Raises: HttpError when the server refuses it."""
        result = await elicit(question["params"])
        await self._notify({"jsonrpc": "2.0", "id": question["id"], "result": result}, self._headers)

    async def _notify(self, message: dict[str, Any], headers: Mapping[str, str]) -> None:
        reply = await self._wire.post(message, headers)
        if reply.status >= 400:
            raise reply.failure(self.target)

    async def _asked(self, message: dict[str, Any]) -> None:
        """Answer what the server asks on the way."""
        if (answer := answer_to(message)) is not None:
            await self._wire.post(answer, self._headers)


def _request(identifier: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params}
