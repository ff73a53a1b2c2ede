"""Actions that are possible on one exchange: cancel its call, repeat it, or edit the code where it failed."""

from __future__ import annotations

from pathlib import Path
from time import monotonic, time
from typing import NamedTuple

from mcpdesk.link.link import Link
from mcpdesk.recorder.index.exchange import Exchange, ExchangeKind
from mcpdesk.recorder.index.traffic_index import last_round
from mcpdesk.recorder.record import Direction
from mcpdesk.tui.editor import source_location
from mcpdesk.tui.traffic.exchange_menus import call_log
from mcpdesk.tui.traffic.traffic_detail import FAILED_CALL_STATUSES, LOG_UPDATE_S, LOOKUP_INTERVAL_S


class ExchangeActions(NamedTuple):
    """Actions that have an effect on an exchange."""

    has_failed: bool = False
    """True if the call failed, and may be worth repeating."""
    running_since: float | None = None
    """`RunningCall.started` of the call, or None if it does not run or its core cannot cancel it."""
    source: tuple[Path, int] | None = None
    """File and line where the call failed. None if it did not fail, or if its log names no existing file."""

    @property
    def can_cancel(self) -> bool:
        """True if its call can be cancelled."""
        return self.running_since is not None


class PossibleActions:
    """Finds the possible actions of one exchange at a time.

    The actions are determined again while the exchange runs, and shortly after a failure, because the log of
    a call may arrive late.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._state: tuple[object, ...] = ()
        """Number, status and end of the exchange for which the actions were determined."""
        self._check_time = 0.0
        """Monotonic time when they were determined."""
        self._actions = ExchangeActions()

    def actions_of(self, number: int | None) -> ExchangeActions:
        """Return the possible actions of an exchange, or no actions if `number` is None."""
        if number is None:
            return ExchangeActions()
        exchange = self._link.traffic.exchange(number)
        state = (number, exchange.status, exchange.ended)
        if exchange.ended is None:
            may_change = True
        else:
            may_log_change = time() - exchange.ended < LOG_UPDATE_S + LOOKUP_INTERVAL_S
            may_change = exchange.status in FAILED_CALL_STATUSES and may_log_change
        if state != self._state or (may_change and monotonic() - self._check_time > LOOKUP_INTERVAL_S):
            self._state, self._check_time = state, monotonic()
            latest = last_round(self._link.traffic, exchange)  # only this round can be running or have failed
            has_failed = latest.status in FAILED_CALL_STATUSES
            source = self._source(latest) if has_failed else None
            self._actions = ExchangeActions(has_failed, self._running_since(exchange, latest), source)
        return self._actions

    def _running_since(self, exchange: Exchange, latest: Exchange) -> float | None:
        is_client_request = exchange.kind is ExchangeKind.REQUEST and exchange.direction is Direction.IN
        if not is_client_request or exchange.ended is not None:
            return None
        client = self._link.client(latest.connection)
        running_calls = () if client is None else client.running
        return next((call.started for call in running_calls if call.id == latest.id), None)

    def _source(self, latest: Exchange) -> tuple[Path, int] | None:
        """Return the file and the line that the log of a call names last, or None."""
        locations = [line.where for line in call_log(self._link, latest) if line.where]
        servers = self._link.view().servers
        folder = next((server.folder for server in servers if server.name == latest.server), "")
        return source_location(folder, locations[-1]) if locations else None
