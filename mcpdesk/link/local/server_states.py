"""State of a server as a front end shows it."""

from __future__ import annotations

from mcpdesk.link.link import Link
from mcpdesk.link.state_looks import HOSTED, UPSTREAMS, Look, Tone
from mcpdesk.link.values import CoreView, ServerView


def look_of(server: ServerView, link: Link) -> Look:
    """Return the look of a server's state.

    A server folder with problems is down if it offers no item that works.
    """
    if server.upstream is not None:
        return UPSTREAMS[server.upstream.state]
    if not server.problems:
        return HOSTED["served"]
    items = link.catalogue(server.name).items
    has_working_item = any(not item.problem or item.stale for item in items)
    return HOSTED["faulty" if has_working_item else "withheld"]


def down_servers(view: CoreView, link: Link) -> list[str]:
    """Return the names of the servers that cannot be used."""
    return [server.name for server in view.servers if look_of(server, link).tone is Tone.BAD]
