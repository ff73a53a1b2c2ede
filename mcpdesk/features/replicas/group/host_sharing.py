"""Connection of one core to the other replicas. It applies their changes, and publishes this core's data."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from mcpdesk.features.replicas.engine.engine_database import STATE_CHANGED
from mcpdesk.features.replicas.group.living import REPLICA_CHANGED, folder_digest
from mcpdesk.features.replicas.group.replica_group import ReplicaGroup
from mcpdesk.features.replicas.group.replica_jobs import ReplicaJobs
from mcpdesk.features.replicas.group.shared_inbox import SharedInbox
from mcpdesk.hosting.journal import Severity
from mcpdesk.hosting.shared_core import SharedCore, SharingCore
from mcpdesk.server.calls.subscriptions import RELAYED_KINDS
from mcpdesk.transports.metric import MetricFamily, Sample

if TYPE_CHECKING:
    from mcpdesk.features.replicas.desk.engine_publisher import EnginePublisher
    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.link.attach_messages import Welcome
    from mcpdesk.link.front_end import FrontEnd
    from mcpdesk.link.link import Link
    from mcpdesk.server.state.server_state import SharedState

WILDCARD_HOSTS = ("//0.0.0.0:", "//[::]:")
"""Hosts in an address that mean all network interfaces, with the characters around them."""
RELOAD_WAIT_S = 2.5
"""Seconds to wait before differences of folders are reported, because replicas load a change one after
another."""


def reachable_address(address: str) -> str:
    """Return an address at which other machines can reach this machine.

    A host that means all network interfaces is replaced by an IP address of this machine.
    """
    if not any(each in address for each in WILDCARD_HOSTS):
        return address
    host = socket.gethostname()
    with suppress(OSError):
        host = socket.gethostbyname(host)
    return f"http://{host}:{address.rpartition(':')[2]}"


class HostSharing(SharedCore):
    """Connects one core to its replicas. Used on the core's loop."""

    def __init__(self, core: SharingCore) -> None:
        """Connect `core` to the engine in its settings. Raises: DeskUserError for an invalid URL."""
        self._core = core
        settings, services = core.settings, core.services
        subscriptions = services.subscriptions
        group = ReplicaGroup(
            settings.shared, settings.shared_name, settings.session_ttl_s, self._report_engine
        )
        self.group = group
        self.id = group.id
        self.inbox = SharedInbox(
            services.inbox, group.engine, group.bus, group.living, masks=settings.shared_mask
        )
        self._url = settings.replica_url
        self._journal, self._start_chore = core.journal, core.start_chore
        self._differing_folders: set[tuple[str, str]] = set()
        """Replica and server of each folder that differs from this replica's folder of the same server."""
        self._is_comparing = False
        bus = group.bus
        subscriptions.relay = lambda kind, facts: bus.publish(kind, **facts)
        for kind in RELAYED_KINDS:
            bus.listen(kind, partial(subscriptions.notify, kind))
        bus.listen(REPLICA_CHANGED, lambda _: self._start_chore(group.living.renew()))
        bus.listen(STATE_CHANGED, lambda facts: core.reload_state(facts["server"]))
        group.engine.on_available.append(self._reload_all)
        group.living.on_change.append(self._compare_folders_soon)

    @property
    def api_key(self) -> str:
        """API key of callers, or "" until it has been read."""
        return self.group.secrets.api_key

    @property
    def signing_keys(self) -> Sequence[bytes]:
        """Secrets for `requestState`. Empty until they have been read."""
        return self.group.secrets.signing_keys

    @property
    def away(self) -> str:
        """Reason why shared state cannot be written now, or "" if it can be written."""
        return self.group.away

    @property
    def outage(self) -> str:
        """Reason why shared state cannot be written now, without the address of the engine, or "" if it can
        be written.
        """
        return self.group.outage

    @property
    def unready(self) -> str:
        """Reason why new clients should not be sent to this replica, or "" if they may be sent here."""
        return self.group.unready

    @property
    def greeting(self) -> str:
        """Line about the engine and the other replicas that is logged at the start."""
        others = sorted(each.name for each in self.group.living.others.values() if each.url)
        shared = f"{self.group.engine.display_url} (shared_name {self._core.settings.shared_name})"
        return f"shares {shared} with {', '.join(others) or 'no other replica yet'}"

    def health(self) -> dict[str, Any]:
        """Return the number of living replicas."""
        return {"replicas": len(self.group.facts())}

    def status(self) -> dict[str, Any]:
        """Return the state of the engine, and data of all living replicas."""
        return {"shared": self.away or "up", "replicas": self.group.facts()}

    def state_of(self, server: str) -> SharedState:
        """Return the shared state of a server."""
        return self.group.state_of(server)

    def kept_jobs(
        self, endpoints: Mapping[str, HostedEndpoint], is_draining: Callable[[], bool]
    ) -> ReplicaJobs:
        """Return the job records of this replica."""
        core = self._core
        return ReplicaJobs(core.services, core.journal, endpoints, self.group, is_draining)

    def publish(self, welcome: Callable[[], Welcome], make_link: Callable[[int], Link]) -> EnginePublisher:
        """Return the publisher of this replica."""
        from mcpdesk.features.replicas.desk.engine_publisher import EnginePublisher
        from mcpdesk.link.local.local_link import LocalLink

        def make_local_link(viewers: int) -> LocalLink:
            link = make_link(viewers)
            assert isinstance(link, LocalLink)
            return link

        settings = self._core.settings
        return EnginePublisher(
            settings.shared,
            settings.shared_name,
            self.id,
            welcome,
            make_local_link,
            masks=settings.shared_mask,
        )

    def front_end(self, attach_point: Callable[[], str]) -> FrontEnd:
        """Return a link for the dashboard to this replica and the others."""
        from mcpdesk.features.replicas.desk.combined_link import CombinedLink
        from mcpdesk.features.replicas.desk.engine_replicas import AllReplicas, EngineReplicas
        from mcpdesk.link.front_end import FrontEnd

        others = EngineReplicas(self._core.settings.shared, self._core.settings.shared_name)
        link = CombinedLink(AllReplicas(others, self.id, attach_point), people=0)
        return FrontEnd(link, link.attend)

    @property
    def figures(self) -> list[MetricFamily]:
        """Metrics of the engine and of the other replicas."""
        mismatch_counts = Counter(server for _, server in self._differing_folders)
        mismatches = [Sample(mismatch_counts[name], {"server": name}) for name in self._core.folders()]
        return [
            *self.group.figures,
            MetricFamily(
                "folder_mismatches",
                "gauge",
                "Replicas whose copy of a server folder differs from the copy of this replica.",
                mismatches,
            ),
        ]

    async def start(self) -> None:
        """Join the other replicas. The engine may be unavailable at this moment."""
        await self.group.start()
        self.inbox.start()

    async def announce_end(self) -> None:
        """Report to the other replicas that this replica will end."""
        await self.group.living.update(is_ending=True)

    def stop_waiting(self) -> None:
        """Stop waiting for an unreachable engine, because the core ends."""
        self.group.engine.is_patient = False

    async def close(self) -> None:
        """Leave the other replicas."""
        await self.inbox.close()
        await self.group.close()

    async def describe(self, address: str) -> None:
        """Publish the address of this replica and the digests of its folders to the other replicas."""
        name = f"{socket.gethostname()}:{address.rpartition(':')[2]}"
        url = self._url or await asyncio.to_thread(reachable_address, address)
        await self.group.living.update(name=name, url=url)
        self.group.bus.publish(REPLICA_CHANGED)
        await self.describe_folders()

    async def describe_folders(self) -> None:
        """Publish the digests of the folders to the other replicas."""
        folders = self._core.folders()
        digests = {name: await asyncio.to_thread(folder_digest, folder) for name, folder in folders.items()}
        await self.group.living.update(folders=digests)
        self._compare_folders_soon()

    def _report_engine(self, message: str) -> None:
        severity = Severity.INFO if self.group.engine.status.is_writable else Severity.ERROR
        self._journal.notify(message, severity, "logs", cause=f"engine:{message}")

    def _reload_all(self) -> None:
        for server in self._core.folders():
            self._core.reload_state(server)

    def _compare_folders_soon(self) -> None:
        if not self._is_comparing:
            self._is_comparing = True
            self._start_chore(self._compare_folders())

    async def _compare_folders(self) -> None:
        """Report each folder that differs from another replica's folder of the same server."""
        await asyncio.sleep(RELOAD_WAIT_S)
        self._is_comparing = False
        living = self.group.living
        differing_folders = {
            (replica.name, server)
            for replica in living.others.values()
            for server, digest in replica.folders.items()
            if living.me.folders.get(server, digest) != digest
        }
        for replica_name, server in sorted(differing_folders - self._differing_folders):
            message = (
                f"{server} on {replica_name} has other files than on this replica:"
                " clients may get either version"
            )
            self._journal.notify(message, Severity.WARNING, "clients")
        living_names = {replica.name for replica in living.others.values()}
        for replica_name, server in sorted(self._differing_folders - differing_folders):
            if replica_name in living_names:
                message = f"{server} on {replica_name} has the same files as this replica"
                self._journal.notify(message, Severity.INFO)
        self._differing_folders = differing_folders
