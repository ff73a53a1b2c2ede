"""The combined desk reports changes of replicas, and a message to desks is decoded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mcpdesk.features.replicas.desk.combined_link import CombinedLink
from mcpdesk.features.replicas.desk.engine_replicas import AllReplicas, EngineReplicas
from mcpdesk.features.replicas.desk.replica_source import FoundReplica
from mcpdesk.features.replicas.desk.source_masking import SourceMask
from mcpdesk.inbox.question import Option, Page, Question, QuestionKind
from mcpdesk.link.attach_messages import State, Welcome, pack
from mcpdesk.link.core_copy import Wire
from tests.support.patience import wait_until


class Source:
    """Source of replicas that the test changes (implements `ReplicaSource`)."""

    title = "a list"
    shares_state = False
    reports_ended_replicas = True

    def __init__(self) -> None:
        self.found: list[FoundReplica] = []
        self.looks = 0

    async def look(self) -> list[FoundReplica]:
        self.looks += 1
        return self.found

    async def has_left(self, key: str) -> bool:
        return False

    async def close(self) -> None: ...


async def not_joined() -> tuple[Welcome, Wire]:
    raise EOFError


def test_a_replica_that_appears_or_goes_is_a_reported_change() -> None:
    source, changes = Source(), list[bool]()
    link = CombinedLink(source, people=0)
    try:
        link.attend(1)
        wait_until(lambda: source.looks)
        assert link.reports_changes
        other = Welcome(mcpdesk="0.0.1", pid=1, kind="serve")
        remove = link.on_change(lambda: changes.append(bool(link.view().cores)))
        source.found = [FoundReplica("r1", "web-1", other, not_joined)]
        wait_until(lambda: True in changes)
        source.found = []
        wait_until(lambda: changes[-1] is False)
        remove()
        count, looks = len(changes), source.looks
        wait_until(lambda: source.looks > looks + 1)
        assert len(changes) == count
    finally:
        link.close()


async def test_a_replica_that_the_engine_does_not_list_is_shown_as_here() -> None:
    class Unreachable(EngineReplicas):
        async def look(self) -> list[FoundReplica]:
            raise OSError

    source = AllReplicas(Unreachable("redis://127.0.0.1:1/0", "mcpdesk"), "own", lambda: "")
    assert [(each.key, each.name) for each in await source.look()] == [("own", "here")]


def test_a_masked_state_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page("May p call Bash?", "", (Option("yes"),), detail="command: token=rm; $token /")
    asked = (Question(1, "s", "p", "Bash", (page,), 0.0, 1.0, kind=QuestionKind.APPROVAL),)
    message = State("questions", "", pack(asked))
    decode: Callable[..., Any] = msgspec.msgpack.decode
    decoded: list[object] = []

    def counting(data: Any, **how: Any) -> Any:
        decoded.append(data)
        return decode(data, **how)

    monkeypatch.setattr(msgspec.msgpack, "decode", counting)
    sent = SourceMask(()).masked(message)
    assert isinstance(sent, State) and len(decoded) == 1
    assert "••••" in decode(sent.value, type=tuple[Question, ...])[0].pages[0].detail
