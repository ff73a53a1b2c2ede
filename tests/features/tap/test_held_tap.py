"""Memory of a held tap: requests whose answers may be held, and their progress tokens."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mcpdesk.features.holding.held_message import Verdict
from mcpdesk.features.holding.holds import Holds
from mcpdesk.features.tap import held_tap
from mcpdesk.features.tap.held_tap import HeldTap
from mcpdesk.features.tap.tapped_messages import TAPPED
from mcpdesk.protocol import codec
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.transports import relay
from tests.support.patience import until, within
from tests.support.traffic import call, connection, text


class Gate:
    """The gate's end of the pipes of a held tap."""

    def __init__(self, held: HeldTap, reports: int, commands: int) -> None:
        self.held, self._reports, self._commands = held, reports, commands
        holds = held.interceptor
        assert isinstance(holds, Holds)
        self.holds = holds

    def report(self, is_from_client: bool, number: int, line: bytes) -> None:
        header = relay.REPORT_HEADER.pack(is_from_client, number, len(line) + 1)
        os.write(self._reports, header + line + b"\n")

    async def decision(self) -> tuple[int, int]:
        async with within():
            word, number, _ = relay.COMMAND_HEADER.unpack(
                await asyncio.to_thread(os.read, self._commands, relay.COMMAND_HEADER.size)
            )
        return word, number


@asynccontextmanager
async def gate_of(rule: str) -> AsyncIterator[Gate]:
    """A tap that holds the answers that match a filter."""
    recording = Recording(None)
    recording.connect(connection(TAPPED))
    held = HeldTap(recording, lambda told: None, lambda: None)
    told, reports = os.pipe()
    commands, words = os.pipe()
    await held.connect(told, words)
    listening = asyncio.create_task(held.listen())
    gate = Gate(held, reports, commands)
    try:
        gate.holds.set_rule(rule, "answers")
        assert await gate.decision() == (relay.BEGIN, 0)
        yield gate
    finally:
        os.close(reports)
        await listening
        os.close(commands)


async def test_answers_to_the_oldest_of_too_many_requests_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_tap, "MAX_PENDING_REQUESTS", 2)
    async with gate_of("tool:echo") as gate:
        for number in (1, 2, 3):
            gate.report(True, number, call(number, "echo"))
            assert await gate.decision() == (relay.PASS, number)
        for number in (1, 2, 3):
            gate.report(False, 10 + number, text(number, "hi"))
        assert await gate.decision() == (relay.PASS, 11), "its request is forgotten"
        await until(lambda: [each.id for each in gate.holds.view.messages] == [2, 3])
        for each in gate.holds.view.messages:
            gate.holds.decide(each.number, Verdict.PASS)
        assert {await gate.decision() for _ in range(2)} == {(relay.PASS, 12), (relay.PASS, 13)}


async def test_progress_tokens_of_answered_and_of_too_many_requests_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_tap, "MAX_PENDING_REQUESTS", 2)
    async with gate_of("tool:other") as gate:
        for number in range(1, 6):
            params = {"name": "echo", "arguments": {}, "_meta": {"progressToken": f"token {number}"}}
            gate.report(True, number, codec.request(number, "tools/call", params))
            assert await gate.decision() == (relay.PASS, number)
        assert len(gate.held._tokens) == 2
        for number in (4, 5):
            gate.report(False, 10 + number, text(number, "hi"))
            assert await gate.decision() == (relay.PASS, 10 + number)
        assert not gate.held._tokens
