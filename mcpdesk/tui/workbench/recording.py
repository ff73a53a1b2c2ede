"""Effects of saving a server's code: changes of the contract, and new results of recorded calls.

The contract is what clients see of the server, such as tool definitions. Recorded calls of read-only tools
are repeated after a save.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from msgspec.structs import replace

from mcpdesk.errors import DeskError
from mcpdesk.link.link import Link
from mcpdesk.link.values import CallOutcome, Catalogue, ItemKind, Policy
from mcpdesk.protocol.catalogue.contract import ContractChange, Definitions, contract_changes
from mcpdesk.recorder.exchange_summary import REPLAYED_KEY, summary
from mcpdesk.recorder.index.exchange import Exchange, Status
from mcpdesk.recorder.readable_message import unmasked
from mcpdesk.recorder.record import Direction
from mcpdesk.tui.render.json_text import same
from mcpdesk.tui.workbench.item_requests import repeated_request

MAX_SAVES = 10
"""Maximum number of stored saves of a server, with their results."""
MAX_REPEATED_CALLS = 50
"""Maximum number of repeated calls. These are the newest calls, without duplicate arguments."""
CALL_TIMEOUT_S = 10.0
"""Timeout of one call in seconds."""
REPLAY_TIMEOUT_S = 60.0
"""Seconds after which a replay makes no further call."""
_MAX_SEARCHED_EXCHANGES = 5_000
"""Number of newest exchanges that are searched."""
_COMPARED_MEMBERS = ("content", "structuredContent", "isError")
"""Members of a result that exist in all protocol revisions."""


class ReplayVerdict(Enum):
    """Result of a repeated call: a glyph, words and a component class of lines."""

    WAITING = ("·", "not yet", "lines--muted")
    SAME = ("✓", "same", "lines--good")
    FIXED = ("✓", "works now", "lines--good")
    DIFFERENT = ("≠", "different", "lines--bad")
    FAILS = ("✗", "fails now", "lines--bad")
    STILL_FAILS = ("✗", "was failing", "lines--warn")
    TIMED_OUT = ("✗", "no answer", "lines--bad")
    NOT_MADE = ("·", "not made", "lines--muted")


_BAD_VERDICTS = (ReplayVerdict.DIFFERENT, ReplayVerdict.FAILS, ReplayVerdict.TIMED_OUT)
"""Verdicts that may mean that the save broke a tool."""


@dataclass(slots=True, eq=False)
class ReplayRow:
    """Recorded call, and its outcome now."""

    tool: str
    arguments: Any
    arguments_text: str
    """Summary of the arguments, with secrets masked."""
    recorded_outcome: CallOutcome
    new_outcome: CallOutcome | None = None
    verdict: ReplayVerdict = ReplayVerdict.WAITING

    def finish(self, outcome: CallOutcome) -> None:
        """Compare the outcome with the recorded outcome. Members that only one revision has are ignored."""
        outcomes = (self.recorded_outcome, outcome)
        members = [
            key
            for key in _COMPARED_MEMBERS
            if key != "structuredContent" or all(key in (compared.result or {}) for compared in outcomes)
        ]
        recorded, new = (_with_members(compared, members) for compared in outcomes)
        self.recorded_outcome, self.new_outcome = recorded, new
        is_same = same([recorded.result, _error_reason(recorded)], [new.result, _error_reason(new)])
        had_failed = has_failed(recorded)
        if has_failed(new):
            self.verdict = ReplayVerdict.STILL_FAILS if had_failed else ReplayVerdict.FAILS
        elif had_failed:
            self.verdict = ReplayVerdict.FIXED
        else:
            self.verdict = ReplayVerdict.SAME if is_same else ReplayVerdict.DIFFERENT


class RecordingReplay:
    """One replay of the recorded calls of a server. `rows` are updated while it runs."""

    def __init__(self, link: Link, server: str) -> None:
        self.server = server
        self.rows = list(recorded_calls(link, server))
        self.has_begun = False
        self.is_running = False
        self.problem = ""
        """Reason why the replay ended early, or \"\"."""
        self._link = link

    @property
    def summary(self) -> str:
        """Summary of the results: `12 same, 1 fails now`."""
        counts = {verdict: sum(row.verdict is verdict for row in self.rows) for verdict in ReplayVerdict}
        parts = [f"{count} {verdict.value[1]}" for verdict, count in counts.items() if count]
        return ", ".join(parts) or "none yet"

    @property
    def has_differences(self) -> bool:
        """True if a result differs from the recorded one."""
        return any(row.verdict in _BAD_VERDICTS for row in self.rows)

    async def run(self, rows_changed: Callable[[], object]) -> None:
        """Make the calls one at a time, and call `rows_changed` after each.

        Cancelling also cancels the running call.
        """
        deadline = time.monotonic() + REPLAY_TIMEOUT_S
        self.has_begun = self.is_running = True
        rows_changed()
        try:
            for row in self.rows:
                timeout_s = min(CALL_TIMEOUT_S, deadline - time.monotonic())
                if timeout_s <= 0:
                    self.problem = f"after {REPLAY_TIMEOUT_S:g} seconds no more calls are made"
                    break
                await self._repeat_call(row, timeout_s)
                rows_changed()
        except DeskError as error:
            self.problem = str(error)
        finally:
            self.is_running = False
            for row in self.rows:
                if row.verdict is ReplayVerdict.WAITING:
                    row.verdict = ReplayVerdict.NOT_MADE
            rows_changed()

    async def _repeat_call(self, row: ReplayRow, timeout_s: float) -> None:
        params = {"name": row.tool, "arguments": row.arguments, "_meta": {REPLAYED_KEY: True}}
        call = self._link.request(self.server, "tools/call", params)
        try:
            async with asyncio.timeout(timeout_s):
                row.finish(await asyncio.shield(asyncio.wrap_future(call.outcome)))
        except TimeoutError:
            row.verdict = ReplayVerdict.TIMED_OUT
        finally:
            if row.new_outcome is None:
                call.cancel()


@dataclass(slots=True, eq=False)
class Save:
    """Effects of one save: changes of the contract, and of the outcomes of recorded calls."""

    server: str
    time: float
    """Unix time in seconds when the save was noticed. 0 for the code at the start of the desk."""
    changes: list[ContractChange] = field(default_factory=list)
    sources: dict[tuple[str, str], str] = field(default_factory=dict)
    """Kind and name of an item -> its source location."""
    load_problems: list[str] = field(default_factory=list)
    """Sentences about items that could not be loaded, with reasons."""
    replay: RecordingReplay | None = None
    """Replay with the code of this save, or None."""

    @property
    def is_breaking(self) -> bool:
        """True if the save breaks the contract."""
        return any(change.is_breaking for change in self.changes)


class Saves:
    """Last saves of each server, and the choice whether calls are replayed after each save."""

    def __init__(self) -> None:
        self.replays_at_every_save = False
        """True if the recorded calls are repeated after each save."""
        self.update_page: Callable[[], None] | None = None
        """Updates the page that shows the saves, or None while it is closed."""
        self._saves_by_server: dict[str, list[Save]] = {}
        """Saves by server, the newest last."""
        self._catalogues: dict[str, Catalogue] = {}

    def of(self, server: str) -> Sequence[Save]:
        """Return the stored saves of a server, the newest last. The code at the start counts as a save."""
        return self._saves_by_server.setdefault(server, [Save(server, 0.0)])

    def latest(self, server: str) -> Save:
        """Return the save that made the current code."""
        return self.of(server)[-1]

    def add_if_changed(self, catalogue: Catalogue) -> bool:
        """Store a new save if a server's code or catalogue has changed since the last call.

        Return True if a save was stored. A change of policies is not a save.
        """
        previous = self._catalogues.get(catalogue.server)
        self._catalogues[catalogue.server] = catalogue
        if previous is None or not previous.items or previous.version == catalogue.version:
            return False
        old_policies, new_policies = _policies(previous), _policies(catalogue)
        common_names = old_policies.keys() & new_policies.keys()
        if any(old_policies[name] != new_policies[name] for name in common_names):
            return False
        items = (*previous.items, *catalogue.items)
        save = Save(
            catalogue.server,
            time.time(),
            contract_changes(_definitions(previous), _definitions(catalogue)),
            {(item.kind.value, item.name): item.source for item in items},
            list(_load_problems(catalogue)),
        )
        self._saves_by_server[catalogue.server] = [*self.of(catalogue.server), save][-MAX_SAVES:]
        self.refresh_page()
        return True

    def refresh_page(self) -> None:
        """Update the page if it is open."""
        if self.update_page is not None:
            self.update_page()


def _load_problems(catalogue: Catalogue) -> Iterator[str]:
    """Yield a sentence for each invalid file, with the names of its items."""
    names_by_problem = dict[tuple[str, str, bool], list[str]]()
    for item in catalogue.items:
        if item.problem and not item.is_fit:
            names_by_problem.setdefault((item.source, item.problem, item.stale), []).append(item.name)
    for (source, problem, is_stale), names in names_by_problem.items():
        state = "the previous version is still served" if is_stale else "not offered"
        yield f"{source}: {problem} · {', '.join(names)}: {state}"


def _policies(catalogue: Catalogue) -> dict[str, Policy]:
    return {item.name: item.policy for item in catalogue.items if item.kind is ItemKind.TOOL}


def _definitions(catalogue: Catalogue) -> Definitions:
    return {(item.kind.value, item.name): item.definition for item in catalogue.items if item.definition}


def read_only_tools(link: Link, server: str) -> set[str]:
    """Return the names of the tools with `readOnlyHint`."""
    return {
        item.name
        for item in link.catalogue(server).items
        if item.kind is ItemKind.TOOL
        and (item.definition.get("annotations") or {}).get("readOnlyHint") is True
    }


def calls_of(link: Link, server: str, tools: Collection[str]) -> Iterator[Exchange]:
    """Yield the newest calls of some tools, the newest first."""
    index = link.traffic
    index.catch_up()
    count = len(index.exchanges)
    for number in reversed(range(max(0, count - _MAX_SEARCHED_EXCHANGES), count)):
        exchange = index.exchange(number)
        if exchange.server == server and exchange.name in tools and exchange.method == "tools/call":
            yield exchange


def recorded_calls(link: Link, server: str) -> Iterator[ReplayRow]:
    """Yield the newest calls of read-only tools, each with different arguments, the newest first.

    Calls that asked their client something are left out, so that no person is asked twice.
    """
    tools = read_only_tools(link, server)
    rows = list[ReplayRow]()
    for exchange in calls_of(link, server, tools):
        row = _replay_row(link, exchange)
        if row is None or any(
            other.tool == row.tool and same(other.arguments, row.arguments) for other in rows
        ):
            continue
        rows.append(row)
        yield row
        if len(rows) >= MAX_REPEATED_CALLS:
            return


def _replay_row(link: Link, exchange: Exchange) -> ReplayRow | None:
    """Return a call that can be compared, or None if the call is running, has several parts or is a
    replay.
    """
    request, response = exchange.request, exchange.response
    has_ended = exchange.status in (Status.OK, Status.ERROR, Status.TOOL_ERROR)
    is_single = exchange.part_of is None and not exchange.parts and exchange.direction is Direction.IN
    if request is None or response is None or not has_ended or not is_single:
        return None
    try:
        message = unmasked(link.traffic, exchange, request)
        answer = unmasked(link.traffic, exchange, response)
        _, params = repeated_request(message)
    except ValueError:
        return None
    result, error = answer.get("result"), answer.get("error")
    meta = message["params"].get("_meta")
    if (isinstance(meta, dict) and REPLAYED_KEY in meta) or not isinstance(result or error, dict):
        return None
    recorded_outcome = CallOutcome(result, error, b"", exchange.elapsed(0.0))
    arguments_text = summary(link.traffic, exchange).arguments
    return ReplayRow(exchange.name, params.get("arguments") or {}, arguments_text, recorded_outcome)


def has_failed(outcome: CallOutcome) -> bool:
    """Return True if a call ended with an error, or with `isError`."""
    return outcome.result is None or outcome.result.get("isError") is True


def _with_members(outcome: CallOutcome, members: list[str]) -> CallOutcome:
    """Return an outcome with only these members of its result. `isError` is included only if it is true."""
    if outcome.result is None:
        return outcome
    compared_members = {
        key: outcome.result[key] for key in members if outcome.result.get(key) not in (None, False)
    }
    return replace(outcome, result=compared_members)


def _error_reason(outcome: CallOutcome) -> Any:
    """Return code and message of an error, or None if there is no error."""
    return None if outcome.error is None else [outcome.error.get("code"), outcome.error.get("message")]
