"""What callers were refused for, as lines of the log: who connects a client sees why it does not get in."""

from __future__ import annotations

import logging
import time

from aiohttp import web

from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.codec import sendable
from mcpdesk.transports.http.answers import IS_RECORDED, WHY
from mcpdesk.transports.http.head import head_of, peer_of

TOLD = {status: logging.getLogger("mcpdesk.auth") for status in (401, 403, 503)} | {
    status: logging.getLogger("mcpdesk.http") for status in (400, 404, 406, 413, 415)
}
"""Who may not come in, and what belongs to no conversation: the traffic has nothing of either."""
MOST_A_SECOND = 5
"""Somebody who tries again and again does not fill the log."""


class Refusals:
    """Those of one listener. Told of every answer that says more than a message."""

    def __init__(self) -> None:
        self._second = 0
        self._told = 0
        self._left_out = 0

    def tell(self, request: web.BaseRequest, answer: web.Response) -> web.Response:
        """Log a refusal, unless there were too many a moment ago; returns it."""
        log = TOLD.get(answer.status)
        if log is None or IS_RECORDED in answer:
            return answer
        second = int(time.monotonic())
        if second != self._second:
            if self._left_out:
                log.warning("refused %d more requests", self._left_out)
            self._second, self._told, self._left_out = second, 0, 0
        if self._told == MOST_A_SECOND:
            self._left_out += 1
            return answer
        self._told += 1
        head = head_of(request)
        line, peer = sendable(head.line.removesuffix(" HTTP/1.1")[:200]), sendable(peer_of(request))
        log.warning("refused %s from %s: %d %s", line, peer, answer.status, _reason(answer))
        return answer


def _reason(answer: web.Response) -> str:
    body = answer.body
    try:
        said = codec.decode(body) if isinstance(body, bytes) else {}
    except ProtocolError:
        return ""
    reason = _words(said.get("error", ""))[:200] if isinstance(said, dict) else ""
    return f"{reason} ({answer[WHY]})" if WHY in answer else reason


def _words(error: object) -> str:
    """An error of HTTP or of JSON-RPC, and what it was that nobody here knows."""
    if not isinstance(error, dict):
        return str(error)
    data = error.get("data")
    asked = data.get("requested") if isinstance(data, dict) else None
    return f"{error.get('message')}: {asked}" if asked else str(error.get("message"))
