"""`mcpdesk serve --mock FILE`, `mcpdesk stdio --mock FILE`: a capture answers as the server in it did.

A request gets what the same one got: of the same method with the same params, whoever asked and in whichever
order; asked again, the answers come one after the other, and the last one stays. A call that nobody made gets
an answer to another call of the same tool.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from mcpdesk.cli.captures import opened
from mcpdesk.errors import DeskUserError, ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject, is_id
from mcpdesk.protocol.methods import METHODS
from mcpdesk.protocol.revisions import negotiate
from mcpdesk.protocol.stateless import SERVER_KEY, VERSION_KEY, is_stateless
from mcpdesk.recorder.index.exchange import ExchangeKind
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.readable_message import unmasked
from mcpdesk.recorder.record import Direction
from mcpdesk.version import __version__

_PASSING = frozenset({"_meta", "inputResponses", "requestState"})
"""Params that differ from one run to the next."""
_GREETINGS = frozenset({"initialize", "server/discover"})
"""Requests that are the same whatever their params."""
_CAPABILITIES = frozenset({"tools", "resources", "prompts", "completions", "logging"})
"""Capabilities of a mock whose capture has no greeting, by requests that need them."""
_MOCK: JSONObject = {"name": "mock", "version": __version__}


class MockAnswers:
    """What a server answered, by what it was asked."""

    def __init__(self, asked: Iterable[tuple[JSONObject, JSONObject]]) -> None:
        """`asked` are requests with their responses, in the order they were answered."""
        self._exact: dict[bytes, list[JSONObject]] = {}
        self._alike: dict[tuple[str, str], list[JSONObject]] = {}
        self._version = ""
        """The revision that requests which stand alone named."""
        for request, response in asked:
            self._exact.setdefault(_key(request), []).append(response)
            self._alike.setdefault(_name(request), []).append(response)
            self._version = _version(request) or self._version
        methods = {method for method, _ in self._alike}
        self._greeting = "server/discover" if self._version else "initialize"
        """The request that is answered with what the capture lets guess; empty where it has an answer."""
        if methods & _GREETINGS:
            self._greeting = ""
        used = {METHODS[method].capability for method in methods if method in METHODS}
        self._capabilities: JSONObject = {name: {} for name in sorted(used & _CAPABILITIES)}

    def __bool__(self) -> bool:
        return bool(self._exact)

    def answer(self, request: JSONObject) -> JSONObject:
        """The response to a request, with its id."""
        found = self._exact.get(_key(request)) or self._alike.get(_name(request))
        if found is not None:
            kept = found.pop(0) if len(found) > 1 else found[0]
            return kept | {"id": request["id"]}
        method, name = _name(request)
        if method == "ping":
            return {"jsonrpc": "2.0", "id": request["id"], "result": {}}
        if method == self._greeting:
            return {"jsonrpc": "2.0", "id": request["id"], "result": self._greet(request)}
        captured = ", ".join(sorted({each for of, each in self._alike if of == method and each}))
        message = f"The capture has no answer to {method} {name}".rstrip()
        if captured:
            message += f"; it has {captured}"
        code = ErrorCode.INVALID_PARAMS if captured else ErrorCode.METHOD_NOT_FOUND
        return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}}

    def _greet(self, request: JSONObject) -> JSONObject:
        """The result of a greeting that is not in the capture."""
        if self._version:
            body: JSONObject = {"resultType": "complete", "supportedVersions": [self._version]}
            body |= {"ttlMs": 0, "cacheScope": "private", "_meta": {SERVER_KEY: _MOCK}}
        else:
            params = request.get("params")
            asked = params.get("protocolVersion") if isinstance(params, dict) else None
            revision = negotiate(asked if isinstance(asked, str) else "")
            body = {"protocolVersion": revision.name, "serverInfo": _MOCK}
        return body | {"capabilities": self._capabilities}


def captured_answers(index: Index, server: str = "") -> MockAnswers:
    """What a server of a capture answered; without a name the only one in it.

    Raises: DeskUserError when there is none, or several.
    """
    found: dict[str, list[tuple[JSONObject, JSONObject]]] = {}
    for one in index.exchanges:
        if one.kind is not ExchangeKind.REQUEST or one.direction is not Direction.IN or one.response is None:
            continue
        try:
            request, response = (unmasked(index, one, frame) for frame in (one.request or 0, one.response))
        except ValueError:
            continue  # too large, or cut: there is nothing to answer with
        if isinstance(request, dict) and isinstance(response, dict):
            found.setdefault(one.server, []).append((request, response))
    if server not in found and (server or len(found) != 1):
        names = ", ".join(sorted(found))
        if not found:
            raise DeskUserError("The capture has no request that was answered.")
        message = f"{f'No server is called {server!r}' if server else 'Several servers are'} in the capture."
        raise DeskUserError(message, f"Choose one with --server: {names}.")
    return MockAnswers(found[server or next(iter(found))])


def serve_mock(file: Path, server: str, reader: BinaryIO, writer: BinaryIO) -> int:
    """Answer lines with lines until they end. Raises: DeskUserError for what is no capture."""
    with opened(file) as archive:
        answers = captured_answers(archive.index, server)
    for line in reader:
        try:
            message = codec.decode(line)
        except ProtocolError:
            continue
        if isinstance(message, dict) and is_id(message.get("id")) and isinstance(message.get("method"), str):
            writer.write(codec.encode(answers.answer(message)) + b"\n")
            writer.flush()
    return 0


def mock_command(file: Path, server: str = "") -> tuple[str, ...]:
    """The command whose stdin and stdout are the mock."""
    chosen = ("--server", server) if server else ()
    return (sys.executable, "-m", "mcpdesk", "stdio", "--mock", str(file.absolute()), *chosen)


def _key(request: JSONObject) -> bytes:
    """What stands for requests that get the same answer."""
    method, params = request["method"], request.get("params")
    kept: Any = None
    if method not in _GREETINGS and isinstance(params, dict):
        kept = {name: value for name, value in params.items() if name not in _PASSING} or None
        if kept and kept.get("arguments") == {}:
            del kept["arguments"]
    return orjson.dumps([method, kept], option=orjson.OPT_SORT_KEYS)


def _version(request: JSONObject) -> str:
    """The revision it names, if it stands alone."""
    params = request.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    named = meta.get(VERSION_KEY) if isinstance(meta, dict) and is_stateless(request) else None
    return named if isinstance(named, str) else ""


def _name(request: JSONObject) -> tuple[str, str]:
    """Its method, and what that names."""
    known, params = METHODS.get(request["method"]), request.get("params")
    named = params.get(known.routing_field, "") if known and isinstance(params, dict) else ""
    return request["method"], str(named)
