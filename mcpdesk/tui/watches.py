"""Watched resources on the workbench: which drafts show one, and when they have to be read again."""

from __future__ import annotations

from enum import Enum

from textual.app import App

from mcpdesk.link.link import Link
from mcpdesk.tui.drafts import Draft


class Turn(Enum):
    """What became of a watched resource since the last look."""

    SAME = "same"
    CHANGED = "changed"
    ENDED = "ended"
    """The server watches it no more."""


class Watches:
    """Follows the counts of changes that the link tells."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def toggle(self, server: str, draft: Draft) -> bool:
        """Watch what the draft read last, or stop; True when it is watched now."""
        if draft.changes is not None:
            self._link.unwatch(server, draft.uri)
            draft.changes = draft.changes_read = None
            return False
        self._link.watch(server, draft.uri)
        draft.changes = 0
        return True

    def switch(self, app: App[None], server: str, draft: Draft | None) -> None:
        """Watch what was read here, or stop, and say so."""
        if draft is None or not draft.uri:
            app.notify("read a resource first, then watch it", severity="warning", markup=False)
        elif self.toggle(server, draft):
            app.notify("watched: it is read again when the server says that it changed", markup=False)
        else:
            app.notify("no longer watched", markup=False)

    def look(self, server: str, draft: Draft) -> Turn:
        """Bring a draft up to date with what its server said."""
        if draft.changes is None:
            return Turn.SAME
        said = self._link.watched(server).get(draft.uri)
        if said is None:
            # Until the core has taken the wish there is nothing said either.
            is_over = draft.changes_read is not None
            if is_over:
                draft.changes = draft.changes_read = None
            return Turn.ENDED if is_over else Turn.SAME
        read, draft.changes, draft.changes_read = draft.changes_read or 0, said, said
        return Turn.CHANGED if said > read else Turn.SAME
