"""What callers were refused for, as lines of the log: who connects a client sees why it does not get in."""

from __future__ import annotations

import logging
import time

from aiohttp import web

from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.transports.http.answers import WHY
from mcpdesk.transports.http.connection import head_of, peer_of

TOLD = frozenset({401, 403, 503})
MOST_A_SECOND = 5
"""Somebody who tries again and again does not fill the log."""

log = logging.getLogger("mcpdesk.auth")


class Refusals:
    """Those of one listener. Told of every answer that says more than a message."""

    def __init__(self) -> None:
        self._second = 0
        self._told = 0
        self._left_out = 0

    def tell(self, request: web.BaseRequest, answer: web.Response) -> web.Response:
        """Log a refusal, unless there were too many a moment ago; returns it."""
        if answer.status not in TOLD:
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
        line = head.line.removesuffix(" HTTP/1.1")[:200]
        log.warning("refused %s from %s: %d %s", line, peer_of(request), answer.status, _reason(answer))
        return answer


def _reason(answer: web.Response) -> str:
    body = answer.body
    try:
        said = codec.decode(body) if isinstance(body, bytes) else {}
    except ProtocolError:
        return ""
    reason = str(said.get("error", ""))[:200] if isinstance(said, dict) else ""
    return f"{reason} ({answer[WHY]})" if WHY in answer else reason
