"""Phases of a call are recorded with its answer, and add up to its duration."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from mcpdesk.inbox.question import Answer, Question
from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index.exchange import Exchange
from mcpdesk.recorder.index.phase_spans import PhaseKind, PhaseSpan, phase_spans
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.tool import Tool
from tests.support.served import Peer
from tests.support.traffic import settle

NAP_S = 0.05


def spans_of(index: Index, one: Exchange) -> dict[PhaseKind, float]:
    """Seconds by kind; they have to add up."""
    spans: list[PhaseSpan] = phase_spans(index, one, one.started)
    assert abs(sum(span.seconds for span in spans) - one.elapsed(0)) < 0.001
    return {kind: sum(span.seconds for span in spans if span.kind is kind) for kind in PhaseKind}


def calls_of(recording: Recording) -> list[Exchange]:
    settle(recording)
    index = recording.index
    whole = [index.exchange(row) for row in index.operations.lines]
    return [one for one in whole if one.method == "tools/call"]


def nap(arguments: Any, context: Context) -> Any:
    return asyncio.sleep(NAP_S, "rested")


async def test_what_a_handler_takes_is_told_from_what_the_desk_does() -> None:
    peer = Peer()
    peer.server.tools.replace([Tool("nap", nap, {"type": "object"})])
    peer.modern(1, "tools/call", {"name": "nap"})
    await peer.response(1)
    spans = spans_of(peer.recording.index, calls_of(peer.recording)[0])
    assert NAP_S <= spans[PhaseKind.HANDLER] < NAP_S + 0.5
    assert spans[PhaseKind.SHAPING] > 0 and spans[PhaseKind.QUEUE] > 0
    assert spans[PhaseKind.CLIENT] == spans[PhaseKind.PERSON] == spans[PhaseKind.SERVER] == 0
    peer.modern(2, "tools/call", {"name": "nobody"})
    await peer.response(2)
    refused = spans_of(peer.recording.index, calls_of(peer.recording)[1])
    assert refused[PhaseKind.QUEUE] > 0 == refused[PhaseKind.HANDLER] + refused[PhaseKind.SERVER]


async def test_waiting_for_the_client_and_for_a_person_are_phases_of_their_own() -> None:
    async def asks(arguments: dict[str, Any], context: Context) -> Any:
        await asyncio.sleep(NAP_S)
        return (await context.elicit("Who?", {"type": "object", "properties": {}})).action

    peer = Peer()
    kept = [tool for tool in peer.server.tools.items.values() if tool.name == "ask"]
    peer.server.tools.replace([Tool("asks", asks, {"type": "object"}), *kept])
    await peer.shake_hands(elicitation={})
    peer.request(1, "tools/call", {"name": "asks"})
    question = await peer.message(lambda message: message.get("method") == "elicitation/create")
    await asyncio.sleep(2 * NAP_S)
    peer.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
    await peer.response(1)
    peer.inbox.audience = 1
    asked: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def hear(question: Question) -> None:
        if not asked.done():
            asked.set_result(question.id)

    peer.inbox.subscribe(hear)
    peer.request(2, "tools/call", {"name": "ask"})
    number = await asked
    await asyncio.sleep(2 * NAP_S)
    peer.inbox.answer(number, [Answer(("a",))])
    await peer.response(2)
    client, person = (spans_of(peer.recording.index, one) for one in calls_of(peer.recording))
    assert client[PhaseKind.HANDLER] >= NAP_S and client[PhaseKind.CLIENT] >= 2 * NAP_S
    assert person[PhaseKind.PERSON] >= 2 * NAP_S > person[PhaseKind.HANDLER] and not person[PhaseKind.CLIENT]


async def test_between_two_rounds_of_the_stateless_era_the_client_is_waited_for() -> None:
    async def asks(arguments: dict[str, Any], context: Context) -> Any:
        await asyncio.sleep(NAP_S)
        await context.elicit("Who?", {"type": "object", "properties": {}})
        return await asyncio.sleep(NAP_S, "done")

    peer = Peer()
    peer.server.tools.replace([Tool("asks", asks, {"type": "object"})])
    able: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
    peer.modern(1, "tools/call", {"name": "asks"}, **able)
    asked = (await peer.response(1))["result"]
    await asyncio.sleep(2 * NAP_S)
    answers = {key: {"action": "decline"} for key in asked["inputRequests"]}
    more = {"name": "asks", "inputResponses": answers, "requestState": asked["requestState"]}
    peer.modern(2, "tools/call", more, **able)
    await peer.response(2)
    (one,) = calls_of(peer.recording)
    spans = spans_of(peer.recording.index, one)
    assert one.rounds == 2 and spans[PhaseKind.CLIENT] >= 2 * NAP_S
    assert 2 * NAP_S <= spans[PhaseKind.HANDLER] < spans[PhaseKind.CLIENT] + 2 * NAP_S


async def test_phases_come_back_from_the_capture_also_of_answers_written_together(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "c.jsonl")
    recording.start()
    peer = Peer(recording=recording)
    peer.server.tools.replace([Tool("nap", nap, {"type": "object"})])
    long = Tool("long", lambda arguments, context: asyncio.sleep(NAP_S, "x" * 400_000), {"type": "object"})
    peer.server.tools.replace([*peer.server.tools.items.values(), long])
    for number in range(4):
        peer.modern(number, "tools/call", {"name": "nap" if number < 3 else "long"})
    for number in range(4):
        await peer.response(number)
    alive = [spans_of(recording.index, one) for one in calls_of(recording)]
    recording.close()
    archive = Archive(tmp_path / "c.jsonl")
    while archive.index.catch_up():
        pass
    read = [spans_of(archive.index, one) for one in archive.index.exchanges if one.method == "tools/call"]
    assert len(read) == 4 and all(spans[PhaseKind.HANDLER] >= NAP_S for spans in read)
    assert read == [pytest.approx(spans, abs=1e-5) for spans in alive]
    lines = map(orjson.loads, (tmp_path / "c.jsonl").read_bytes().splitlines())
    assert any("phases" in line or "each" in line for line in lines)
