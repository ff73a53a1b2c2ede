"""A core as the dashboard shows it, over the same link as the desk: snapshots as JSON, acts as intents."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from mcpdesk.errors import DeskUserError
from mcpdesk.link.board_acts import Acts, Verdict
from mcpdesk.link.board_exchange import exchange_json
from mcpdesk.link.board_lines import NewestLines
from mcpdesk.link.board_values import (
    callbacks_json,
    clients_json,
    core_json,
    jobs_json,
    questions_json,
)
from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, ItemKind, JobView, connected

RATE_S = 40
"""Seconds of the past whose messages are counted one by one."""
KEY = "YOUR-KEY"
"""Stands where the key would in what is pasted: a page in a browser is never told it."""


class LinkBoard:
    """What `transports.board.Board` asks for. `attend` tells the core how many look."""

    def __init__(self, link: Link, attend: Callable[[int], None]) -> None:
        self._link = link
        self.attend = attend
        self._acts = Acts(link)
        self._kept: dict[str, tuple[object, Any]] = {}
        self._jobs: tuple[int, tuple[JobView, ...]] = (-1, ())

    def sections(self) -> Mapping[str, Any]:
        """Everything small, by name. What did not change is the same object as before."""
        link, view = self._link, self._link.view()
        work = view.work
        jobs, here = self._all_jobs(view), connected(view.clients, time.time())
        core = (view.servers, view.protection, view.api_key_header)
        rates = tuple(map(int, link.traffic.rates(RATE_S)))
        return {
            "core": self._made("core", core, lambda: self._core(view)),
            "clients": self._made("clients", (view.clients, here), lambda: clients_json(view.clients, here)),
            "questions": self._made(
                "questions", view.questions_version, lambda: questions_json(link.questions())
            ),
            "jobs": self._made("jobs", jobs, lambda: jobs_json(jobs)),
            "callbacks": self._made(
                "callbacks", work.callbacks_version, lambda: callbacks_json(link.callbacks())
            ),
            "rate": self._made("rate", rates, lambda: {"per_second": rates}),
        }

    def lines(self, filter_text: str) -> NewestLines:
        """The traffic through a filter. Raises: DeskError for one that cannot be understood."""
        return NewestLines(self._link.traffic, filter_text)

    def exchange(self, number: int) -> Mapping[str, Any] | None:
        """One exchange in full, secrets masked as on the desk."""
        index = self._link.traffic
        if not index.table.base <= number < len(index.exchanges):
            return None
        exchange = index.exchange(number)
        is_call = exchange.method == "tools/call"
        return exchange_json(index, number, self._schema(exchange.server, exchange.name) if is_call else None)

    def output(self, job: str, after: int) -> Mapping[str, Any] | None:
        """What a job wrote from there on."""
        piece = self._link.output(job, after)
        if piece is None:
            return None
        return {"text": piece.text, "start": piece.start, "end": piece.end, "last": piece.is_last}

    def config(self, server: str, client: str) -> str:
        """Text to paste into a client's configuration. Raises: DeskError."""
        if server not in {each.name for each in self._link.view().servers}:
            raise DeskUserError(f"There is no server {server[:60]!r}.", "")
        return self._link.client_config(server, client, KEY)

    async def act(self, name: str, given: Any, by: str) -> Verdict:
        """Do something."""
        return await self._acts.act(name, given, by)

    def _made(self, name: str, key: object, make: Callable[[], Any]) -> Any:
        """What was made last while it would become the same again."""
        kept = self._kept.get(name)
        if kept is None or kept[0] != key:
            kept = self._kept[name] = (key, make())
        return kept[1]

    def _core(self, view: CoreView) -> Mapping[str, Any]:
        return core_json(view, [self._link.catalogue(server.name) for server in view.servers])

    def _all_jobs(self, view: CoreView) -> tuple[JobView, ...]:
        """Running ones write and report without another version of their list."""
        version = view.work.jobs_version
        if version != self._jobs[0] or view.work.running_jobs:
            self._jobs = (version, self._link.jobs())
        return self._jobs[1]

    def _schema(self, server: str, tool: str) -> Mapping[str, Any] | None:
        """The input schema of a tool hosted here: it may say what is secret."""
        if server not in {each.name for each in self._link.view().servers}:
            return None
        items = self._link.catalogue(server).items
        found = (item for item in items if item.kind is ItemKind.TOOL and item.name == tool)
        return next((item.definition.get("inputSchema") for item in found), None)
