"""Group of replicas to which a core belongs: their shared state, and requests to the other replicas."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import accumulate
from typing import Any

from mcpdesk.errors import TransportError
from mcpdesk.features.replicas.engine.engine import DURATION_BOUNDS_S, Engine, EngineRefusal
from mcpdesk.features.replicas.engine.engine_database import EngineDatabase
from mcpdesk.features.replicas.engine.engine_jobs import EngineJobTable, living_holder
from mcpdesk.features.replicas.engine.engine_rounds import EngineRounds
from mcpdesk.features.replicas.engine.engine_streams import EngineStreams
from mcpdesk.features.replicas.engine.event_bus import EventBus
from mcpdesk.features.replicas.group.engine_sessions import EngineSessions
from mcpdesk.features.replicas.group.forwarding import FORWARDED_HEADER, Forwarder, ReplicaSilent
from mcpdesk.features.replicas.group.living import LEASE_S, RENEW_PERIOD_S, LiveReplicas
from mcpdesk.features.replicas.group.shared_secrets import SharedSecrets
from mcpdesk.protocol.marked_ids import has_numbered
from mcpdesk.protocol.request_state import digest
from mcpdesk.server.state.callback_timers import CoreIdentity
from mcpdesk.server.state.server_state import SharedState
from mcpdesk.transports.base import ForwardedAnswer
from mcpdesk.transports.metric import MetricFamily, Sample

OUTAGES = {
    EngineRefusal.AWAY: "is away",
    EngineRefusal.TIMEOUT: "does not answer in time",
    EngineRefusal.DENIED: "denies access",
    EngineRefusal.FULL: "refuses writes, because it is full",
    EngineRefusal.READ_ONLY: "refuses writes, because it is read-only",
    EngineRefusal.OTHER: "refuses writes",
}
"""Descriptions of an outage of the engine, without the engine's address or error text."""


class ReplicaGroup:
    """All replicas of one deployment. Use it on the core's loop."""

    def __init__(self, url: str, name: str, session_ttl_s: float, report: Callable[[str], object]) -> None:
        """Create the group of the deployment `name` whose engine is at `url`.

        `report` receives a sentence for each change of the engine's status. Raises: DeskUserError for an
        invalid URL.
        """
        self.engine = Engine(url, name, report, probes=True)
        self.living = LiveReplicas(self.engine)
        self.id = self.living.me.id
        self.clock = self.engine.clock
        self.bus = EventBus(self.engine, self.id)
        self.secrets = SharedSecrets(self.engine)
        self.sessions = EngineSessions(self.engine, self.bus, self.id, session_ttl_s)
        self.streams = EngineStreams(self.engine, session_ttl_s)
        self.rounds = EngineRounds(self.engine, self.id)
        self._forwarder = Forwarder()

    @property
    def away(self) -> str:
        """Reason why shared state cannot be written now, or "" if it can be written."""
        status = self.engine.status
        if status.is_writable:
            return ""
        return f"{self.engine.display_url} {'refuses writes' if status.is_up else 'is away'}: {status.reason}"

    @property
    def outage(self) -> str:
        """Reason why shared state cannot be written now, without the address of the engine, or "" if it can
        be written.
        """
        refusal = self.engine.status.refusal
        return "" if refusal is None else f"the engine that the replicas share {OUTAGES[refusal]}"

    @property
    def unready(self) -> str:
        """Reason why new clients should not be sent to this replica, or "" if they may be sent here.

        The only reason is that shared state cannot be written. An unreachable engine is a reason only after
        the lease of this replica has expired, because then the other replicas consider this replica dead.
        """
        status = self.engine.status
        return self.outage if status.is_up or time.time() - status.since >= LEASE_S else ""

    def is_alive(self, replica: str) -> bool:
        """Return True if a replica is known to be alive."""
        return replica == self.id or replica in self.living.others

    def holder_of(self, number: int) -> str:
        """Return the id of the living replica to which a connection or program number belongs, or ""."""
        return next((each for each in (self.id, *self.living.others) if has_numbered(each, number)), "")

    def state_of(self, server: str) -> SharedState:
        """Return the shared state of a server."""
        identity = CoreIdentity(self.id, self.is_alive, LEASE_S + RENEW_PERIOD_S)
        open_database = partial(EngineDatabase, self.engine, server, self.bus)
        return SharedState(identity, self.engine.clock, open_database)

    def job_table(self, server: str) -> EngineJobTable:
        """Return the table with the job records of a server."""
        return EngineJobTable(self.engine, server, self.id, self.is_alive, LEASE_S)

    async def job_holder(self, identifier: str) -> str:
        """Return the id of the other living replica that runs a job, or "" if no other replica runs it.

        Raises: EngineUnavailable.
        """
        holder = await living_holder(self.engine, identifier)
        return "" if holder == self.id else holder

    async def round_holder(self, state: str) -> str:
        """Return the id of the living replica that holds the round of a `requestState`, or "".

        Raises: EngineUnavailable.
        """
        return await self.rounds.holder(digest(state)) if state else ""

    @asynccontextmanager
    async def answer_of(
        self,
        replica: str,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        within_s: float | None = None,
    ) -> AsyncIterator[ForwardedAnswer]:
        """Forward a request to a replica. The answer must begin within `within_s` seconds.

        Raises: TransportError if the replica cannot be reached or dies; ReplicaSilent if no answer begins;
        EngineUnavailable.
        """
        forwarded_headers = {**headers, FORWARDED_HEADER: self.id}
        async with (
            self._while_alive(replica) as url,
            self._forwarder.ask(f"{url}{target}", method, forwarded_headers, body, within_s) as answer,
        ):
            yield answer

    @asynccontextmanager
    async def socket_of(
        self, replica: str, target: str, headers: Mapping[str, str]
    ) -> AsyncIterator[AsyncGenerator[str, None]]:
        """Open a WebSocket to a replica, and provide the texts that the replica sends.

        Raises: TransportError if the WebSocket breaks.
        """
        forwarded_headers = {**headers, FORWARDED_HEADER: self.id}
        async with (
            self._while_alive(replica) as url,
            self._forwarder.listen(f"{url}{target}", forwarded_headers) as texts,
        ):
            yield texts

    @asynccontextmanager
    async def _while_alive(self, replica: str) -> AsyncIterator[str]:
        """Run the block with the URL of a replica. End the block if the replica dies.

        Raises: TransportError if the replica is unknown; ReplicaSilent if it dies; EngineUnavailable.
        """
        info = await self.living.find(replica)
        if info is None or not info.url:
            raise TransportError(f"the address of replica {replica} is not known")
        loop = asyncio.get_running_loop()
        block_timeout = asyncio.timeout(None)
        was_alive = replica in self.living.others

        def check_liveness() -> None:
            nonlocal was_alive
            if replica in self.living.others:
                was_alive = True
            elif was_alive and block_timeout.when() is None:
                block_timeout.reschedule(loop.time())  # ends the block now

        self.living.on_change.append(check_liveness)
        try:
            async with block_timeout:
                yield info.url
        except TimeoutError as error:
            raise ReplicaSilent(f"the replica {info.name} no longer responds") from error
        finally:
            self.living.on_change.remove(check_liveness)

    async def start(self) -> None:
        """Join the other replicas. The engine may be unavailable at this moment."""
        await self.engine.start()
        await self.bus.start()
        await self.secrets.start()
        await self.living.start()

    async def close(self) -> None:
        """Leave the other replicas."""
        # The streams end before the lease, because other replicas then expect no further events.
        await self.streams.close()
        await self.living.close()
        await self.bus.close()
        await self.secrets.close()
        await self._forwarder.close()
        await self.engine.close()

    @property
    def figures(self) -> list[MetricFamily]:
        """Metrics of the engine and the replicas, for `/metrics`."""
        status, engine_figures = self.engine.status, self.engine.figures
        replica_count = len(self.living.others) + 1
        bounds = (*map(str, DURATION_BOUNDS_S), "+Inf")
        duration_samples = [
            Sample(count, {"le": bound}, "_bucket")
            for bound, count in zip(bounds, accumulate(engine_figures.counts), strict=True)
        ]
        refusal_samples = [
            Sample(engine_figures.refused[reason], {"reason": reason}) for reason in EngineRefusal
        ]
        return [
            MetricFamily(
                "engine_up",
                "gauge",
                "1 if the shared engine answers, otherwise 0.",
                [Sample(int(status.is_up))],
            ),
            MetricFamily(
                "engine_writable",
                "gauge",
                "1 if the shared engine accepts writes, otherwise 0.",
                [Sample(int(status.is_writable))],
            ),
            MetricFamily(
                "engine_refused_requests_total",
                "counter",
                "Failed requests to the engine, by reason. Requests that could not be sent are included.",
                refusal_samples,
            ),
            MetricFamily(
                "engine_request_seconds",
                "histogram",
                "Duration of requests to the engine, including failed ones. Reads that wait are excluded.",
                [
                    *duration_samples,
                    Sample(sum(engine_figures.counts), {}, "_count"),
                    Sample(engine_figures.total_s, {}, "_sum"),
                ],
            ),
            MetricFamily(
                "engine_clock_skew_seconds",
                "gauge",
                "Engine's clock minus this machine's clock, in seconds.",
                [Sample(self.engine.clock_skew_s)],
            ),
            MetricFamily("replicas", "gauge", "Live replicas, including this one.", [Sample(replica_count)]),
        ]

    def facts(self) -> list[dict[str, Any]]:
        """Return data of all living replicas for the status page. This replica comes first."""
        return [
            {"name": each.name, "id": each.id, "version": each.version, "folders": dict(each.folders)}
            for each in (self.living.me, *self.living.others.values())
        ]
