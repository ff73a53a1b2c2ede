"""Replicas: several machines that serve the same servers and share their state through an engine.

The engine is a Redis-compatible store. A desk can show all replicas at once, and several cores of one
machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from mcpdesk.feature import Feature

if TYPE_CHECKING:
    from mcpdesk.feature import AttachedLink, PublishedCore
    from mcpdesk.link.front_end import FrontEnd
    from mcpdesk.link.local import LocalLink
    from mcpdesk.settings import Settings


class Replicas(Feature):
    """State that machines share, and links to several cores."""

    def link_to_cores(self, named: Sequence[str]) -> AttachedLink:
        """Return a link to several cores of this machine."""
        from mcpdesk.features.replicas.desk.attached import link_to_named

        return link_to_named(named)

    def link_to_engine(self, url: str) -> AttachedLink:
        """Return a link to all replicas that share an engine."""
        from mcpdesk.features.replicas.desk.attached import link_to_replicas

        return link_to_replicas(url)

    def publisher(self, core: PublishedCore) -> AbstractContextManager[object]:
        """Return the publisher of a replica."""
        from mcpdesk.features.replicas.desk.engine_publisher import EnginePublisher
        from mcpdesk.link.local import LocalLink

        def make_link(viewers: int) -> LocalLink:
            link = core.make_link(viewers)
            assert isinstance(link, LocalLink)
            return link

        url, name, masks = core.settings.shared, core.settings.shared_name, core.settings.shared_mask
        return EnginePublisher(url, name, core.id, core.welcome, make_link, masks=masks)

    def joint_front_end(self, settings: Settings, own: str, attach_point: Callable[[], str]) -> FrontEnd:
        """Return a link to this replica and the others."""
        from mcpdesk.features.replicas.desk.combined_link import CombinedLink
        from mcpdesk.features.replicas.desk.engine_replicas import EngineReplicas, OwnAndOtherReplicas
        from mcpdesk.link.front_end import FrontEnd

        others = EngineReplicas(settings.shared, settings.shared_name)
        link = CombinedLink(OwnAndOtherReplicas(others, own, attach_point), people=0)
        return FrontEnd(link, link.attend)


FEATURE = Replicas()
