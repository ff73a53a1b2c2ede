"""Replicas: several machines that serve the same servers and share their state through an engine.

The engine is a Redis-compatible store. A desk can show all replicas at once, and several cores of one
machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcpdesk.feature import Feature

if TYPE_CHECKING:
    from mcpdesk.feature import AttachedLink
    from mcpdesk.hosting.shared_core import SharedCore, SharingCore
    from mcpdesk.transports.http.other_processes import OtherProcesses
    from mcpdesk.transports.http.sessions.http_sessions import HttpSessions
    from mcpdesk.transports.http.site import Site


class Replicas(Feature):
    """State that machines share, and links to several cores."""

    def link_to_cores(self, names: Sequence[str]) -> AttachedLink:
        """Return a link to several cores of this machine."""
        from mcpdesk.features.replicas.desk.attached import link_to_named

        return link_to_named(names)

    def link_to_engine(self, url: str) -> AttachedLink:
        """Return a link to all replicas that share an engine."""
        from mcpdesk.features.replicas.desk.attached import link_to_replicas

        return link_to_replicas(url)

    def shared_core(self, core: SharingCore) -> SharedCore:
        """Return the object that connects a replica to the other replicas."""
        from mcpdesk.features.replicas.group.host_sharing import HostSharing

        return HostSharing(core)

    def other_processes(self, site: Site, sessions: HttpSessions) -> OtherProcesses:
        """Return the object with which a listener forwards requests to other replicas."""
        from mcpdesk.features.replicas.group.host_sharing import HostSharing
        from mcpdesk.features.replicas.http.other_replicas import OtherReplicas

        assert isinstance(site.shared, HostSharing)
        return OtherReplicas(site, sessions, site.shared.group)


FEATURE = Replicas()
