"""How far one call is, as messages: what they have in common is encoded once."""

from __future__ import annotations

import math
from time import monotonic
from typing import TYPE_CHECKING, Any

from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import Id
from mcpdesk.protocol.series import MOST, Series

if TYPE_CHECKING:
    from mcpdesk.protocol.outlet import Outlet

METHOD = "notifications/progress"


class Progress:
    """The progress notifications of one call."""

    __slots__ = (
        "_after",
        "_before",
        "_has_messages",
        "_kind",
        "_outlet",
        "_series",
        "_token",
        "_total",
        "sent",
    )

    def __init__(self, token: Id, has_messages: bool) -> None:
        self.sent = -math.inf
        """What was reported last: the next has to be more."""
        self._token = token
        self._has_messages = has_messages
        """Whether the revision spoken has a text in them."""
        self._total: float | None = None
        self._before, self._after = self._around(None)
        """A message without a text, around how far it is."""
        self._series: Series | None = None
        self._outlet: Outlet | None = None
        """Where that leaves: a call may get another one."""
        self._kind: type = int
        """Of the numbers in it."""

    def report(self, progress: float, total: float | None, outlet: Outlet) -> bool:
        """Send the next one. Returns whether the sender is to wait now. Raises: as `frame`."""
        series = self._series
        if (
            series is None
            or not series.is_open
            or outlet is not self._outlet
            or total is not self._total
            or type(progress) is not self._kind
            or progress >= MOST
        ):
            return self._begin(progress, total, outlet)
        self.sent = progress
        numbers = series.numbers
        numbers.append(progress)
        return len(numbers) >= series.most or monotonic() > series.until

    def _begin(self, progress: float, total: float | None, outlet: Outlet) -> bool:
        series = None
        kind = type(progress)
        # Types that only behave like numbers are left to the encoder.
        if (kind is int or kind is float) and -MOST < progress < MOST:
            self._fit(total)
            series = outlet.series(self._before, self._after)
        self._series, self._outlet, self._kind = series, outlet, kind
        if series is None:
            outlet.send(self.frame(progress, total))
            return outlet.must_drain
        return self.report(progress, total, outlet)

    def frame(
        self, progress: float, total: float | None, message: str = "", tag: dict[str, Any] | None = None
    ) -> bytes:
        """The next one. `tag` is its metadata, if it has any.

        Raises: LocalProtocolError for what is no number.
        """
        self.sent = progress
        if message or tag is not None:
            return codec.notification(METHOD, self._params(progress, total, message, tag))
        self._fit(total)
        return self._before + codec.encode_part(progress) + self._after

    def _fit(self, total: float | None) -> None:
        """Be ready for messages with that total. Raises: LocalProtocolError for what is no number."""
        if total is not self._total:
            self._before, self._after = self._around(total)
            self._total = total

    def _around(self, total: float | None) -> tuple[bytes, bytes]:
        whole = codec.notification(METHOD, self._params(0, total))
        before, mark, after = whole.rpartition(b'"progress":0')
        return before + mark[:-1], after

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
