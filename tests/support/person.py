"""A person at a desk who answers real clients."""

from __future__ import annotations

from pathlib import Path

from tests.support.desk import RunningDesk
from tests.support.official import Place, stdio
from tests.support.watched_inbox import WatchedInbox


class Person(WatchedInbox):
    """Is told of every question of a desk when it arrives and when it ends."""

    def __init__(self, desk: RunningDesk) -> None:
        super().__init__(desk.host.inbox)


def place(desk: RunningDesk, folder: Path, way: str) -> Place:
    """Place a client connects to: the desk's URL, or the command that the client starts."""
    return desk.view().servers[0].url if way == "http" else stdio(folder)
