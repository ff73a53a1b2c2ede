"""Keeps what hosted code prints and logs away from wire and terminal: it becomes lines of the journal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcpdesk.hosting.log_handler import logging_to
from mcpdesk.transports.descriptors import claim

if TYPE_CHECKING:
    from mcpdesk.hosting.host import Host
    from mcpdesk.transports.descriptors import Claimed, Mode
    from mcpdesk.transports.strays import StrayLine


@contextmanager
def claiming(host: Host, mode: Mode) -> Iterator[Claimed]:
    """Claim the descriptors and the logging for a host while the block runs."""
    folders = host.plan.folders

    def keep(line: StrayLine) -> None:
        host.journal.log("warning" if line.source == "stderr" else "info", line.source, line.text, line.where)

    with logging_to(host.journal, lambda: folders):
        claimed = claim(mode, keep, lambda: [str(folder) for folder in folders])
        try:
            yield claimed
        finally:
            claimed.release()
