"""One request of the desk's, from its first frame to its outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from mcpdesk.link.values import Outcome, Progress

KEPT_LOGS = 500


class DeskCall:
    """Under way or over. Read from any thread. `withdraw` tells the server that it is cancelled."""

    def __init__(
        self,
        request_id: int,
        connection: int,
        method: str,
        params: dict[str, Any],
        withdraw: Callable[[DeskCall], None],
    ) -> None:
        self.request_id = request_id
        """That of its latest round."""
        self.method = method
        self.params = params
        self.asking: asyncio.Task[None] | None = None
        """The person being asked what the server wants to know."""
        self.connection = connection
        self.started = time.time()
        self.progress: Progress | None = None
        self.outcome: Future[Outcome] = Future()
        self._logs: list[str] = []
        self._withdraw = withdraw
        self._began = time.perf_counter()

    @property
    def logs(self) -> Sequence[str]:
        """Text of the log messages that came with it so far."""
        return tuple(self._logs)

    @property
    def subject(self) -> str:
        """What runs on the server: a tool's or prompt's name, or a URI."""
        return str(self.params.get("name") or self.params.get("uri") or self.method)

    def cancel(self) -> None:
        """Tell the server, and end at once."""
        self._withdraw(self)

    def note(self, text: str) -> None:
        """A log message came."""
        if len(self._logs) < KEPT_LOGS:
            self._logs.append(text)

    def finish(self, message: dict[str, Any] | None, raw: bytes) -> None:
        """The response came, or None: it was cancelled."""
        if message is None:
            error: dict[str, Any] = {"code": 0, "message": "cancelled from the desk"}
            self._end(Outcome(None, error, raw, self._elapsed_s, cancelled=True))
        else:
            self._end(Outcome(message.get("result"), message.get("error"), raw, self._elapsed_s))

    def stop_asking(self) -> bool:
        """Stop the person being asked, or the task being followed; False when neither is."""
        return self.asking is not None and self.asking.cancel()

    @property
    def _elapsed_s(self) -> float:
        return time.perf_counter() - self._began

    def _end(self, outcome: Outcome) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)
