"""Servers of `era-bench`. Each serves one or all revisions, and records the messages of its client."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import orjson

from mcpdesk import private_files
from mcpdesk.features.client_bench.bench_report import (
    BenchRun,
    ClientFacts,
    Message,
    add_message,
    short_text,
)
from mcpdesk.features.client_bench.era_checks import ALL, ObservedMessage, checks, is_decided
from mcpdesk.features.client_bench.scripted_server import (
    ScriptedReply,
    ScriptedServer,
    client_info,
    offered_revision,
)
from mcpdesk.protocol.revisions import BY_NAME, REVISIONS
from mcpdesk.protocol.stateless import VERSION_KEY

SERVER_NAMES = (ALL, *(each.name for each in reversed(REVISIONS)))
"""Names of the servers: `ALL` for the one with all revisions, then each revision, newest first."""
MAX_MESSAGES = 200
"""Maximum number of messages of one client that are recorded."""
MAX_LINE_BYTES = 1 << 20
"""Maximum size in bytes of a line on stdin."""
HEADERS = frozenset(
    {"accept", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id"}
)
"""Headers that are recorded."""


class EraRecorder:
    """Scripted server of one run, and the messages that its client sent."""

    def __init__(self, served: str, *, is_http: bool) -> None:
        """`served` is one of `SERVER_NAMES`."""
        self.served = served
        self.url = ""
        """URL of the server, or "" over stdio."""
        self.changed = asyncio.Event()
        """Set after each message."""
        self.server = ScriptedServer(REVISIONS if served == ALL else [BY_NAME[served]], is_http=is_http)
        self._observed_messages = list[ObservedMessage]()
        self._message_log = list[Message]()
        self._client = ClientFacts()
        self._has_session = False
        self._began = time.monotonic()

    @property
    def is_decided(self) -> bool:
        """True if the client uses the server, so that all checks have a result."""
        return is_decided(self.served, self._observed_messages)

    def observe(self, message: Any, reply: ScriptedReply, headers: Mapping[str, str] | None) -> None:
        """Record a message and its reply. `headers` have lower-case names, or are None over stdio."""
        self.changed.set()
        if len(self._observed_messages) >= MAX_MESSAGES or not isinstance(message, dict):
            return
        method = short_text(message.get("method", "answer"))
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        meta = params.get("_meta")
        revision = short_text(offered_revision(message))
        answer = reply.message or {}
        result = answer.get("result", {})
        name_member = {"resources/read": "uri", "tools/call": "name", "prompts/get": "name"}.get(method, "")
        name = params.get(name_member) if name_member else None
        self._observed_messages.append(
            ObservedMessage(
                method,
                "id" in message,
                revision,
                answer["error"]["code"] if "error" in answer else None,
                result.get("protocolVersion", "") if method == "initialize" else "",
                None if headers is None else {key: headers[key] for key in HEADERS & headers.keys()},
                self._has_session,
                name if isinstance(name, str) else "",
                isinstance(meta, dict) and VERSION_KEY in meta,
            )
        )
        self._has_session = self._has_session or bool(reply.session)
        at_s = round(time.monotonic() - self._began, 3)
        revision_note = f" ({revision})" if revision else ""
        add_message(self._message_log, Message(at_s, f"{method}{revision_note}", reply.text), MAX_MESSAGES)
        info = client_info(message)
        if info:
            texts = (info.get("name"), info.get("version"), (headers or {}).get("user-agent"))
            self._client = ClientFacts(*map(short_text, texts))

    def result(self, exit_code: int | None = None) -> BenchRun:
        """Return the result of the run, based on the messages so far."""
        return BenchRun(
            self.served,
            self.url,
            "complete" if self._observed_messages else "no client",
            self._client,
            checks(self.served, self._observed_messages),
            self._message_log,
            round(time.monotonic() - self._began, 3),
            exit_code,
        )


def serve_stdio(served: str, output: Path | None) -> BenchRun:
    """Serve a client on stdin and stdout until it ends. After each message, write the result to `output`.

    Raises: KeyboardInterrupt, OSError.
    """
    recorder = EraRecorder(served, is_http=False)
    try:
        while line := sys.stdin.buffer.readline(MAX_LINE_BYTES):
            try:
                message = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            reply = recorder.server.reply(message, {})
            if reply.message is not None:
                sys.stdout.buffer.write(orjson.dumps(reply.message) + b"\n")
                sys.stdout.buffer.flush()
            recorder.observe(message, reply, None)
            _write_result(recorder, output)
    finally:
        _write_result(recorder, output)
    return recorder.result()


def _write_result(recorder: EraRecorder, output: Path | None) -> None:
    """Write the result so far to a file, if there is one. Raises: OSError."""
    if output is not None:
        private_files.write(output, msgspec.json.encode(recorder.result()))


def read_run(output: Path) -> BenchRun | None:
    """Return the result that `serve_stdio` has written, or None if there is none."""
    try:
        return msgspec.json.decode(output.read_bytes(), type=BenchRun)
    except (OSError, msgspec.DecodeError):
        return None
