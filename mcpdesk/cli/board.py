"""Hands the dashboard of a core to its HTTP listener: a link like the desk's, made at the first look."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcpdesk.hosting.host import Host
    from mcpdesk.link.board import LinkBoard


def give_dashboard(host: Host) -> None:
    """Let a browser see the core at `/`."""

    def make() -> LinkBoard:
        from mcpdesk.link.board import LinkBoard
        from mcpdesk.link.local import LocalLink

        # Nobody looks yet: every open page counts by itself.
        link = LocalLink(host, present=0)
        return LinkBoard(link, link.attend)

    host.board = make
