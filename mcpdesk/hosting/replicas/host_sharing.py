"""Connection of one core to the other replicas: it follows their changes and publishes its own data."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from mcpdesk.hosting.journal import Journal, Severity
from mcpdesk.hosting.replicas.living import REPLICA_CHANGED, folder_digest
from mcpdesk.hosting.replicas.replica_group import ReplicaGroup
from mcpdesk.hosting.replicas.shared_inbox import SharedInbox
from mcpdesk.server.calls.services import Services
from mcpdesk.server.calls.subscriptions import RELAYED
from mcpdesk.settings import Settings
from mcpdesk.storage.shared.engine_database import CHANGED
from mcpdesk.transports.figure import Figure, Sample

if TYPE_CHECKING:
    from mcpdesk.hosting.hosted_folder import HostedFolder

WILDCARDS = ("//0.0.0.0:", "//[::]:")
"""Parts of an address that stand for all network interfaces."""


def reachable(address: str) -> str:
    """Return an address at which other machines can reach this machine."""
    if not any(each in address for each in WILDCARDS):
        return address
    host = socket.gethostname()
    with suppress(OSError):
        host = socket.gethostbyname(host)
    return f"http://{host}:{address.rpartition(':')[2]}"


SETTLED_S = 2.5
"""Seconds to wait before differences of folders are reported. Replicas load a change one after another."""


class HostSharing:
    """Connects one core to its replicas. Used on the core's loop."""

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        services: Services,
        folders: Mapping[str, HostedFolder],
        start_chore: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """`start_chore` starts a task. Raises: DeskUserError for an invalid URL of the engine."""
        subscriptions = services.subscriptions
        self.group = ReplicaGroup(
            settings.shared, settings.shared_name, settings.session_ttl_s, self._report_engine
        )
        group = self.group
        self.inbox = SharedInbox(
            services.inbox, group.engine, group.bus, group.living, masks=settings.shared_mask
        )
        self._url = settings.replica_url
        self._folders, self._journal, self._start_chore = folders, journal, start_chore
        self._differing: set[tuple[str, str]] = set()
        """Replica and server for each folder that differs from the folder on this replica."""
        self._is_comparing = False
        bus = self.group.bus
        subscriptions.relay = lambda kind, facts: bus.publish(kind, **facts)
        for kind in RELAYED:
            bus.listen(kind, partial(subscriptions.notify, kind))
        bus.listen(REPLICA_CHANGED, lambda _: self._start_chore(self.group.living.renew()))
        bus.listen(CHANGED, lambda facts: self._reload_state(facts["server"]))
        self.group.engine.on_back.append(self._reload_all)
        self.group.living.on_change.append(self._compare_folders_soon)

    @property
    def figures(self) -> list[Figure]:
        """Metrics of the engine and of the other replicas."""
        differing = Counter(server for _, server in self._differing)
        mismatches = [Sample(differing[name], {"server": name}) for name in self._folders]
        return [
            *self.group.figures,
            Figure(
                "folder_mismatches",
                "gauge",
                "Replicas with a different copy of a server folder than this replica.",
                mismatches,
            ),
        ]

    async def start(self) -> None:
        """Join the other replicas. The engine may be unavailable at this moment."""
        await self.group.start()
        self.inbox.start()

    async def close(self) -> None:
        """Leave the other replicas."""
        await self.inbox.close()
        await self.group.close()

    async def describe(self, address: str) -> None:
        """Publish the address of this replica and the digests of its folders to the other replicas."""
        name = f"{socket.gethostname()}:{address.rpartition(':')[2]}"
        url = self._url or await asyncio.to_thread(reachable, address)
        await self.group.living.update(name=name, url=url)
        self.group.bus.publish(REPLICA_CHANGED)
        await self.describe_folders()

    async def describe_folders(self) -> None:
        """Publish the digests of the folders to the other replicas."""
        places = {name: hosted.folder for name, hosted in self._folders.items()}
        digests = {name: await asyncio.to_thread(folder_digest, folder) for name, folder in places.items()}
        await self.group.living.update(folders=digests)
        self._compare_folders_soon()

    def _report_engine(self, message: str) -> None:
        severity = Severity.INFO if self.group.engine.status.is_writable else Severity.ERROR
        self._journal.notify(message, severity, "logs", cause=f"engine:{message}")

    def _reload_state(self, server: str) -> None:
        if (hosted := self._folders.get(server)) is not None:
            self._start_chore(hosted.reload_state())

    def _reload_all(self) -> None:
        for server in self._folders:
            self._reload_state(server)

    def _compare_folders_soon(self) -> None:
        if not self._is_comparing:
            self._is_comparing = True
            self._start_chore(self._compare_folders())

    async def _compare_folders(self) -> None:
        """Report each folder that differs from another replica's folder of the same server."""
        await asyncio.sleep(SETTLED_S)
        self._is_comparing = False
        living = self.group.living
        differing = {
            (each.name, name)
            for each in living.others.values()
            for name, digest in each.folders.items()
            if living.me.folders.get(name, digest) != digest
        }
        for replica, name in sorted(differing - self._differing):
            message = f"{name} on {replica} has files that differ from this replica's: clients get either"
            self._journal.notify(message, Severity.WARNING, "clients")
        for replica, name in sorted(self._differing - differing):
            if replica in {each.name for each in living.others.values()}:
                self._journal.notify(f"{name} on {replica} has the same files as this replica", Severity.INFO)
        self._differing = differing
