"""Connection to one server: its start, its revisions, its definitions, and the reason of a failure."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.cli.command_client import STDOUT_HINT
from mcpdesk.cli.reach import with_hint
from mcpdesk.client.child_process import MAX_LAST_LINES, PROBE_S, STARTED_AGAIN, ProgramEnded
from mcpdesk.client.connection import Questions, ServerConnection
from mcpdesk.client.targets import CommandTarget, UrlTarget
from mcpdesk.client.transport import ServerReply
from mcpdesk.connect import connect
from mcpdesk.connect.connecting import open_within
from mcpdesk.errors import CallError, ConnectTimeout, DeskError, ProtocolError, RpcError
from mcpdesk.features.doctor.entry_secrets import Secrets
from mcpdesk.features.doctor.report import OtherEra, Totals
from mcpdesk.protocol.catalogue.contract import Definitions, contract_part
from mcpdesk.protocol.catalogue.token_cost import definition_cost
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.protocol.revisions import ERAS, Revision
from mcpdesk.upstream.offers import Offer, read_offers
from mcpdesk.upstream.target_transport import ProgramEvents, Reach
from mcpdesk.version import __version__

IDENTITY = {"name": "mcpdesk", "version": __version__}
MAX_LINE_LENGTH = 300
"""Maximum number of characters of one line on stderr, or of one answer."""
MAX_NAME_LENGTH = 80
MAX_REMARKS = 10
"""Maximum number of faults in the lists of one server that are reported."""
TIMEOUT_SETTING = "MCPDESK_CONNECT_TIMEOUT_S"
"""Name of the setting in hints that raises the time limit. `TIMEOUT_COMMAND` replaces it in reports."""
TIMEOUT_COMMAND = "`mcpdesk doctor --timeout SECONDS`"
"""Command that raises the time limit. It is complete, because the desk shows it, too."""
BUSY_LOAD = 3.0
"""Number of running processes for each processor core above which the machine counts as busy."""
Era = Literal["handshake", "stateless"]
NO_OPTIONS = Reach()


class Examination(Struct, frozen=True):
    """Result of the connection to one server. Secrets are masked."""

    reason: str = ""
    """Reason of the failure, or "" if the server answered."""
    hint: str = ""
    stderr: tuple[str, ...] = ()
    """Last lines on stderr, if the server failed."""
    start_s: float | None = None
    server: str = ""
    server_version: str = ""
    revision: str = ""
    era: Literal["", "handshake", "stateless"] = ""
    other_era: OtherEra | None = None
    tools: Totals | None = None
    total: Totals | None = None
    remarks: tuple[str, ...] = ()
    definitions: Definitions = {}


class _Output:
    """Last lines of a program on stderr, and the number of stray lines on stdout.

    The program may write any amount, and the transport limits the length of a line. Lines are shortened to
    `MAX_LINE_LENGTH` only after secrets are masked.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._lines: deque[str] = deque(maxlen=MAX_LAST_LINES)
        self._earlier_lines: tuple[str, ...] = ()
        """Lines of an earlier run of the program, which ended during the connection."""
        self.stray_count = 0
        """Number of lines on stdout that are not messages."""

    @property
    def events(self) -> ProgramEvents:
        """Functions that receive the output."""
        return ProgramEvents(self._log, self._count_stray, self._on_end)

    @property
    def lines(self) -> tuple[str, ...]:
        """Last lines with secrets masked."""
        lines = tuple(self._lines) or self._earlier_lines
        return tuple(self._secrets.masked(line, MAX_LINE_LENGTH) for line in lines)

    def _log(self, line: str) -> None:
        self._lines.append(line)

    def _count_stray(self, line: bytes) -> None:
        self.stray_count += 1

    def _on_end(self, ending: ProgramEnded) -> None:
        self._earlier_lines = tuple(self._lines) or self._earlier_lines
        self._lines.clear()


async def examine(
    target: UrlTarget | CommandTarget,
    target_name: str,
    secrets: Secrets,
    timeout_s: float,
    reach: Reach = NO_OPTIONS,
) -> Examination:
    """Connect to a server and read its lists. A failure becomes part of the result.

    `target_name` is the name of the target in hints. `timeout_s` limits the connection together with the
    lists. For a stateless server, the result has no `other_era`: `with_handshake` adds it.
    """
    output = _Output(secrets)
    result = Examination()
    began = time.perf_counter()
    try:
        async with connect(
            target, IDENTITY, reach=reach, answers=_refusing_handlers, on_log=output.events
        ) as server:
            await open_within(server, timeout_s)
            result = replace(result, start_s=round(time.perf_counter() - began, 3))
            remaining_s = max(1.0, began + timeout_s - time.perf_counter())
            try:
                async with asyncio.timeout(remaining_s):
                    result = await _read(server, result, secrets)
            except TimeoutError:
                message = f"its lists did not arrive within {timeout_s:g} s"
                raise ConnectTimeout(message, server.target) from None
    except DeskError as error:
        return _failed_examination(result, error, target_name, output, secrets)
    return result


async def with_handshake(
    result: Examination,
    target: UrlTarget | CommandTarget,
    secrets: Secrets,
    timeout_s: float,
    reach: Reach = NO_OPTIONS,
) -> Examination:
    """Connect to a stateless server once more, and add its answer to `initialize`."""
    era = await _handshake_era(target, timeout_s, reach)
    return replace(result, other_era=replace(era, answer=secrets.masked(era.answer, MAX_LINE_LENGTH)))


async def _read(server: ServerConnection, result: Examination, secrets: Secrets) -> Examination:
    """Read the facts and the lists of a connected server. Raises: CallError."""
    agreement = await server.discover_server()
    offers, problems = await read_offers(server, agreement.capabilities)
    revision = agreement.revision

    def reported(name: str) -> str:
        return secrets.masked(str(agreement.server.get(name) or ""), MAX_NAME_LENGTH)

    return replace(
        result,
        server=reported("name"),
        server_version=reported("version"),
        revision=revision.name,
        era=_era(revision),
        other_era=None if revision.is_stateless else _stateless_era(server.probe_outcome, secrets),
        tools=totals(each for each in offers if each.kind == "tool"),
        total=totals(offers),
        remarks=tuple(secrets.masked(each, MAX_LINE_LENGTH) for each in problems[:MAX_REMARKS]),
        definitions={(each.kind, each.name): contract_part(each.definition) for each in offers},
    )


def _era(revision: Revision) -> Era:
    return "stateless" if revision.is_stateless else "handshake"


def totals(offers: Iterable[Offer]) -> Totals:
    """Return the number of definitions and their size."""
    total = Totals()
    for each in offers:
        cost = definition_cost(each.definition)
        total = total.plus(Totals(1, cost.bytes, cost.tokens))
    return total


def _stateless_era(outcome: ServerReply | CallError | None, secrets: Secrets) -> OtherEra:
    """Return the answer of a handshake server to `server/discover`."""
    if outcome is None:
        answer = f"no answer within {PROBE_S:g} s"
    elif isinstance(outcome, CallError):
        answer = outcome.message
    elif outcome.code is not None:
        answer = f"{outcome.code} {outcome.message['error'].get('message', '')}".strip()
    elif outcome.status >= 300:
        answer = f"HTTP {outcome.status}"
    else:
        answer = "a result without revision 2026-07-28"
    return OtherEra("stateless", False, secrets.masked(answer, MAX_LINE_LENGTH))


async def _handshake_era(target: UrlTarget | CommandTarget, timeout_s: float, reach: Reach) -> OtherEra:
    """Return the answer of a stateless server to `initialize`, on a separate connection."""
    reach = reach._replace(revision=ERAS["handshake"])
    try:
        async with connect(target, IDENTITY, reach=reach, answers=_refusing_handlers) as server:
            await open_within(server, timeout_s)
            agreement = await server.open()
    except CallError as error:
        code = f"{error.code} " if isinstance(error, RpcError) else ""
        return OtherEra("handshake", False, f"{code}{error.message}")
    return OtherEra("handshake", True, agreement.revision.name)


def _failed_examination(
    result: Examination, error: DeskError, target_name: str, output: _Output, secrets: Secrets
) -> Examination:
    """Return the examination with the reason of a failure and advice."""
    is_silent = isinstance(error, ConnectTimeout)
    if isinstance(error, CallError):
        error.target = ""  # the table names the server
        error = with_hint(error, is_first=result.start_s is None)
    message = str(error)
    code = f" ({error.code})" if isinstance(error, ProtocolError) else ""
    hint = STDOUT_HINT if is_silent and output.stray_count else str(getattr(error, "hint", ""))
    if is_silent and STARTED_AGAIN not in str(error) and (load := _load_per_core()) > BUSY_LOAD:
        hint = f"{hint} This machine is busy, with {load:.0f} running processes for each core.".lstrip()
    hint = hint.replace(TIMEOUT_SETTING, TIMEOUT_COMMAND)
    hint = hint.replace("mcpdesk login URL", f"mcpdesk login {target_name}")
    reason = secrets.masked(message if code and code in message else f"{message}{code}")
    return replace(result, reason=reason, hint=hint, stderr=output.lines)


def _load_per_core() -> float:
    """Return the average number of running processes for each processor core in the last minute.

    0 if it is unknown.
    """
    try:
        return os.getloadavg()[0] / (os.cpu_count() or 1)
    except (AttributeError, OSError):  # Windows has no load average
        return 0.0


def _refusing_handlers() -> Questions:
    """Return handlers that refuse every question of the server.

    With them, the client declares the same capabilities as `mcpdesk list`. Servers may adapt their lists to
    the capabilities, so both commands must see the same lists.
    """
    return {"elicitation/create": _refuse, "sampling/createMessage": _refuse}


async def _refuse(params: dict[str, Any], subject: str) -> dict[str, Any]:
    raise ProtocolError(ErrorCode.METHOD_NOT_FOUND, "No person can answer here")
