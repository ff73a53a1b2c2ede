"""Limit on the requests whose answers may be held on a tap."""

from __future__ import annotations

import asyncio
import os

import pytest

from mcpdesk.features.holding.held_message import Verdict
from mcpdesk.features.holding.holds import Holds
from mcpdesk.features.tap import held_tap
from mcpdesk.features.tap.held_tap import HeldTap
from mcpdesk.features.tap.tapped_messages import TAPPED
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.transports import relay
from tests.support.patience import until, within
from tests.support.traffic import call, connection, text


async def test_answers_to_the_oldest_of_too_many_requests_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_tap, "MAX_ASKED", 2)
    recording = Recording(None)
    recording.connect(connection(TAPPED))
    held = HeldTap(recording, lambda told: None, lambda: None)
    told, gate = os.pipe()
    decided, words = os.pipe()
    await held.connect(told, words)
    listening = asyncio.create_task(held.listen())

    def report(is_from_client: bool, number: int, line: bytes) -> None:
        os.write(gate, relay.REPORT_HEADER.pack(is_from_client, number, len(line) + 1) + line + b"\n")

    async def decision() -> tuple[int, int]:
        async with within():
            word, number, _ = relay.COMMAND_HEADER.unpack(
                await asyncio.to_thread(os.read, decided, relay.COMMAND_HEADER.size)
            )
        return word, number

    try:
        holds = held.interceptor
        assert isinstance(holds, Holds)
        holds.set_rule("tool:echo", "answers")
        assert await decision() == (relay.BEGIN, 0)
        for number in (1, 2, 3):
            report(True, number, call(number, "echo"))
            assert await decision() == (relay.PASS, number)
        for number in (1, 2, 3):
            report(False, 10 + number, text(number, "hi"))
        assert await decision() == (relay.PASS, 11), "its request is forgotten"
        await until(lambda: [each.id for each in holds.view.messages] == [2, 3])
        for each in holds.view.messages:
            holds.decide(each.number, Verdict.PASS)
        assert {await decision() for _ in range(2)} == {(relay.PASS, 12), (relay.PASS, 13)}
    finally:
        os.close(gate)
        await listening
        os.close(decided)
