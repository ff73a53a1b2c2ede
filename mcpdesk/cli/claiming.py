"""Prepares a process for hosted code.

What that prints and logs becomes lines of the journal, not of wire or terminal; what it starts cannot read
our environment.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcpdesk.hosting.environment import make_private
from mcpdesk.hosting.journal import logging_to
from mcpdesk.transports.descriptors import claim

if TYPE_CHECKING:
    from mcpdesk.hosting.host import Host
    from mcpdesk.transports.descriptors import Claimed, Mode, StrayLine


@contextmanager
def claiming(host: Host, mode: Mode) -> Iterator[Claimed]:
    """Claim the descriptors and the logging for a host while the block runs. Closes the process to others."""
    folders = host.plan.folders

    def keep(line: StrayLine) -> None:
        host.journal.log("warning" if line.source == "stderr" else "info", line.source, line.text, line.where)

    make_private()  # before hosted code can start a program
    with logging_to(host.journal, lambda: folders):
        claimed = claim(mode, keep, lambda: [str(folder) for folder in folders])
        try:
            yield claimed
        finally:
            claimed.release()
