"""How far one call is, as messages: what they have in common is encoded once."""

from __future__ import annotations

import math
from typing import Any

from orjson import dumps

from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import Id

METHOD = "notifications/progress"


class Progress:
    """The progress notifications of one call."""

    __slots__ = ("_form", "_has_messages", "_token", "_total", "sent")

    def __init__(self, token: Id, has_messages: bool) -> None:
        self.sent = -math.inf
        """What was reported last: the next has to be more."""
        self._token = token
        self._has_messages = has_messages
        """Whether the revision spoken has a text in them."""
        self._total: float | None = None
        self._form = self._formed(None)
        """A message without a text, but for how far it is."""

    def frame(
        self, progress: float, total: float | None, message: str = "", tag: dict[str, Any] | None = None
    ) -> bytes:
        """The next one. `tag` is its metadata, if it has any.

        Raises: LocalProtocolError for what is no number.
        """
        self.sent = progress
        if message or tag is not None:
            return codec.notification(METHOD, self._params(progress, total, message, tag))
        if total is not self._total:
            self._form = self._formed(total)
            self._total = total
        try:
            return self._form % dumps(progress)
        except TypeError:
            return self._form % codec.encode_part(progress)

    def _formed(self, total: float | None) -> bytes:
        whole = codec.notification(METHOD, self._params(0, total))
        before, mark, after = whole.rpartition(b'"progress":0')
        return before.replace(b"%", b"%%") + mark[:-1] + b"%b" + after

    def _params(
        self,
        progress: float,
        total: float | None,
        message: str = "",
        tag: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        params: dict[str, Any] = {"progressToken": self._token, "progress": progress}
        if total is not None and math.isfinite(total):
            params["total"] = total
        if message and self._has_messages:
            params["message"] = message
        return params if tag is None else params | {"_meta": tag}
