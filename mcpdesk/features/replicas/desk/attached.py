"""Links of `mcpdesk attach` to several cores."""

from __future__ import annotations

import os
from collections.abc import Sequence

from mcpdesk.errors import DeskUserError
from mcpdesk.feature import AttachedLink
from mcpdesk.features.replicas.desk.combined_link import CombinedLink
from mcpdesk.features.replicas.desk.engine_replicas import EngineReplicas
from mcpdesk.features.replicas.desk.local_replicas import LocalReplicas
from mcpdesk.features.replicas.desk.replica_source import ReplicaSource
from mcpdesk.features.replicas.engine.engine import without_login
from mcpdesk.settings import resolve


def link_to_named(names: Sequence[str]) -> AttachedLink:
    """Return a link to the named cores of this machine. Raises: DeskUserError."""
    return _attached(LocalReplicas(names))


def link_to_replicas(url: str) -> AttachedLink:
    """Return a link to all replicas that share an engine. Without a URL, the configured engine is used.

    Raises: DeskUserError.
    """
    configured_url = resolve({}, os.environ).settings.shared
    settings = resolve({"shared": url or None}, os.environ).settings
    if not settings.shared:
        raise DeskUserError("MCPDESK_SHARED is not set.", "mcpdesk attach redis://HOST:PORT")
    engine_url = settings.shared
    if configured_url and url == without_login(configured_url):
        engine_url = configured_url  # the same engine, with its password
    return _attached(EngineReplicas(engine_url, settings.shared_name))


def _attached(source: ReplicaSource) -> AttachedLink:
    link = CombinedLink(source)
    return AttachedLink(link, link.journal, source.title, link.close)
