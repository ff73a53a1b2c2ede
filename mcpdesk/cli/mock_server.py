"""`mcpdesk serve --mock FILE` and `mcpdesk stdio --mock FILE`: replay the answers of a captured server.

A request receives the captured answer to the same request, with equal method and params, from any client and
in any order. If it was captured several times, the answers are replayed in order, and the last one is
repeated. A tool call that was not captured receives the answer to another call of the same tool.
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
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject, is_id, meta_of
from mcpdesk.protocol.methods import METHODS
from mcpdesk.protocol.revisions import negotiate
from mcpdesk.protocol.stateless import SERVER_KEY, VERSION_KEY, is_stateless
from mcpdesk.recorder.index.exchange import ExchangeKind
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.readable_message import unmasked
from mcpdesk.recorder.record import Direction
from mcpdesk.version import __version__

_IGNORED_PARAMS = frozenset({"_meta", "inputResponses", "requestState"})
"""Params that are ignored when requests are compared, because they differ from run to run."""
_HANDSHAKE_METHODS = frozenset({"initialize", "server/discover"})
"""Requests that are treated as equal regardless of their params."""
_MOCK_CAPABILITIES = frozenset({"tools", "resources", "prompts", "completions", "logging"})
"""Capabilities that the mock may declare if the capture has no handshake. A capability is declared if a
captured request needs it.
"""
_SERVER_INFO: JSONObject = {"name": "mock", "version": __version__}


class MockAnswers:
    """Captured answers of a server, by request."""

    def __init__(self, recorded_requests: Iterable[tuple[JSONObject, JSONObject]]) -> None:
        """`recorded_requests` are requests with their responses, in the order of the responses."""
        self._by_request: dict[bytes, list[JSONObject]] = {}
        self._by_name: dict[tuple[str, str], list[JSONObject]] = {}
        self._version = ""
        """Protocol revision of the stateless requests in the capture."""
        for request, response in recorded_requests:
            self._by_request.setdefault(_request_key(request), []).append(response)
            self._by_name.setdefault(_method_and_name(request), []).append(response)
            self._version = _version(request) or self._version
        methods = {method for method, _ in self._by_name}
        self._derived_handshake = "server/discover" if self._version else "initialize"
        """Handshake method whose response is derived from the capture, or "" if the capture contains it."""
        if methods & _HANDSHAKE_METHODS:
            self._derived_handshake = ""
        capabilities = {METHODS[method].capability for method in methods if method in METHODS}
        self._capabilities: JSONObject = {name: {} for name in sorted(capabilities & _MOCK_CAPABILITIES)}

    def __bool__(self) -> bool:
        return bool(self._by_request)

    def answer(self, request: JSONObject) -> JSONObject:
        """Return the response to a request, with the request's id."""
        answers = self._by_request.get(_request_key(request)) or self._by_name.get(_method_and_name(request))
        if answers is not None:
            response = answers.pop(0) if len(answers) > 1 else answers[0]
            return response | {"id": request["id"]}
        method, name = _method_and_name(request)
        if method == "ping":
            return {"jsonrpc": "2.0", "id": request["id"], "result": {}}
        if method == self._derived_handshake:
            return {"jsonrpc": "2.0", "id": request["id"], "result": self._handshake_result(request)}
        names = {each for answered_method, each in self._by_name if answered_method == method and each}
        captured_names = ", ".join(sorted(names))
        message = f"The capture has no answer to {method} {name}".rstrip()
        if captured_names:
            message += f"; it has {captured_names}"
        code = ErrorCode.INVALID_PARAMS if captured_names else ErrorCode.METHOD_NOT_FOUND
        return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}}

    def _handshake_result(self, request: JSONObject) -> JSONObject:
        """Return a result for the handshake, derived from the captured requests."""
        if self._version:
            body: JSONObject = {"resultType": "complete", "supportedVersions": [self._version]}
            body |= {"ttlMs": 0, "cacheScope": "private", "_meta": {SERVER_KEY: _SERVER_INFO}}
        else:
            params = request.get("params")
            requested_revision = params.get("protocolVersion") if isinstance(params, dict) else None
            revision = negotiate(requested_revision if isinstance(requested_revision, str) else "")
            body = {"protocolVersion": revision.name, "serverInfo": _SERVER_INFO}
        return body | {"capabilities": self._capabilities}


def captured_answers(index: Index, server: str = "") -> MockAnswers:
    """Return the answers of a server in a capture. `server` may be empty if the capture has only one server.

    Raises: DeskUserError if the capture has no such server, or if the choice is ambiguous.
    """
    requests_by_server: dict[str, list[tuple[JSONObject, JSONObject]]] = {}
    for exchange in index.exchanges:
        if (
            exchange.kind is not ExchangeKind.REQUEST
            or exchange.direction is not Direction.IN
            or exchange.response is None
        ):
            continue
        try:
            request = unmasked(index, exchange, exchange.request or 0)
            response = unmasked(index, exchange, exchange.response)
        except ValueError:
            continue  # the message is too large, or truncated in the capture
        if isinstance(request, dict) and isinstance(response, dict):
            requests_by_server.setdefault(exchange.server, []).append((request, response))
    if server not in requests_by_server and (server or len(requests_by_server) != 1):
        if not requests_by_server:
            raise DeskUserError("The capture has no answered request.")
        problem = f"No server is called {server!r}" if server else "Several servers are"
        names = ", ".join(sorted(requests_by_server))
        raise DeskUserError(f"{problem} in the capture.", f"Choose one with --server: {names}.")
    return MockAnswers(requests_by_server[server or next(iter(requests_by_server))])


def serve_mock(file: Path, server: str, reader: BinaryIO, writer: BinaryIO) -> int:
    """Answer requests line by line until the input ends. Raises: DeskUserError for an invalid capture."""
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
    """Return the command that runs the mock over stdin and stdout."""
    server_option = ("--server", server) if server else ()
    return (sys.executable, "-P", "-m", "mcpdesk", "stdio", "--mock", str(file.absolute()), *server_option)


def _request_key(request: JSONObject) -> bytes:
    """Return a key that is equal for requests with the same answer."""
    method, params = request["method"], request.get("params")
    compared_params: Any = None
    if method not in _HANDSHAKE_METHODS and isinstance(params, dict):
        compared_params = {
            name: value for name, value in params.items() if name not in _IGNORED_PARAMS
        } or None
        if compared_params and compared_params.get("arguments") == {}:
            del compared_params["arguments"]
    return orjson.dumps([method, compared_params], option=orjson.OPT_SORT_KEYS)


def _version(request: JSONObject) -> str:
    """Return the protocol revision of a stateless request. Empty for other requests."""
    version = meta_of(request).get(VERSION_KEY) if is_stateless(request) else None
    return version if isinstance(version, str) else ""


def _method_and_name(request: JSONObject) -> tuple[str, str]:
    """Return the method of a request, and the name of its tool, resource or prompt, or ""."""
    method_facts, params = METHODS.get(request["method"]), request.get("params")
    name = params.get(method_facts.routing_field, "") if method_facts and isinstance(params, dict) else ""
    return request["method"], str(name)
