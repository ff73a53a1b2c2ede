"""Questions to clients of the handshake era: requests of ours on the stream of the call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpdesk.auth.principal import Principal
from mcpdesk.errors import ClientError
from mcpdesk.server.asks import client_requests
from mcpdesk.server.offer.server import Limits
from tests.support.asked_client import ADA, EVERYTHING, ROOTS, WRITTEN, Asked
from tests.support.messages import text_of
from tests.support.patience import within


async def opened(revision: str = "2025-11-25", capabilities: dict[str, Any] | None = None) -> Asked:
    peer = Asked()
    await peer.shake(EVERYTHING if capabilities is None else capabilities, revision)
    return peer


def call(peer: Asked, tool: str, identifier: int = 1) -> None:
    peer.request(identifier, "tools/call", {"name": tool})


async def test_the_revision_without_modes_gets_none() -> None:
    peer = await opened("2025-06-18", {"elicitation": {}})
    call(peer, "person")
    question = await peer.question("elicitation/create")
    assert "mode" not in question["params"]
    assert question["params"]["requestedSchema"]["properties"]["age"] == {"type": "integer"}
    peer.answer(question, ADA)
    assert text_of(await peer.response(1)) == "Person Ada 30"


async def test_ids_of_questions_differ_between_sessions() -> None:
    marks = []
    for _ in range(2):
        peer = await opened()
        call(peer, "person")
        question = await peer.question("elicitation/create")
        mark, _, number = question["id"].rpartition("-")
        assert len(mark) == 16 and int(number) >= 0
        marks.append(mark)
        peer.answer(question, ADA)
        await peer.response(1)
    assert marks[0] != marks[1]


async def test_a_link_has_an_id_of_its_own() -> None:
    peer = await opened()
    call(peer, "visit")
    params = (await peer.question("elicitation/create"))["params"]
    assert params["mode"] == "url" and params["url"] == "https://example.org/in" and params["elicitationId"]
    peer.answer(await peer.question("elicitation/create"), {"action": "accept"})
    assert text_of(await peer.response(1)) == "accept"


async def test_what_a_link_was_for_is_said_to_be_done_by_its_id() -> None:
    peer = await opened()
    call(peer, "connect")
    question = await peer.question("elicitation/create")
    peer.answer(question, {"action": "accept"})
    assert text_of(await peer.response(1)) == "accept"
    told = [each for each in peer.received if each.get("method") == "notifications/elicitation/complete"]
    assert [each["params"] for each in told] == [{"elicitationId": question["params"]["elicitationId"]}]


async def test_several_at_once_are_answered_in_any_order() -> None:
    peer = await opened()
    call(peer, "all")
    roots = await peer.question("roots/list")
    peer.answer(roots, ROOTS)
    peer.answer(await peer.question("sampling/createMessage"), WRITTEN)
    peer.answer(await peer.question("elicitation/create"), ADA)
    assert text_of(await peer.response(1)) == "Ada Paris 1"


@pytest.mark.parametrize(
    ("revision", "capabilities", "tool", "word"),
    [
        ("2025-11-25", {}, "greet", "elicitation.form"),
        ("2025-11-25", {"elicitation": {}}, "visit", "elicitation.url"),
        ("2025-11-25", {"elicitation": {"url": {}}}, "greet", "elicitation.form"),
        ("2025-03-26", EVERYTHING, "greet", "elicitation.form"),
        ("2025-06-18", EVERYTHING, "visit", "elicitation.url"),
        ("2025-11-25", {}, "capital", "sampling"),
        ("2024-11-05", {}, "places", "roots"),
    ],
)
async def test_what_was_not_agreed_upon_is_not_asked(
    revision: str, capabilities: dict[str, Any], tool: str, word: str
) -> None:
    peer = await opened(revision, capabilities)
    call(peer, tool)
    answer = await peer.response(1)
    assert answer["result"]["isError"] and f"does not offer {word}" in text_of(answer)
    assert not [each for each in peer.received if "method" in each and "id" in each]


async def test_an_error_of_the_client_is_one_the_handler_can_catch() -> None:
    peer = await opened()
    call(peer, "careful")
    question = await peer.question("sampling/createMessage")
    error = {"code": -1, "message": "User rejected sampling request"}
    peer.send({"jsonrpc": "2.0", "id": question["id"], "error": error})
    assert "User rejected sampling request (-1)" in text_of(await peer.response(1))


@pytest.mark.parametrize("result", [{}, {"action": "accept", "content": {"name": 5}}, {"action": 1}])
async def test_an_answer_of_another_shape_is_an_error_of_the_client(result: Any) -> None:
    peer = await opened()
    call(peer, "greet")
    peer.answer(await peer.question("elicitation/create"), result)
    answer = await peer.response(1)
    assert answer["result"]["isError"] and "an invalid result" in text_of(answer)


@pytest.mark.requirement("12.20")
async def test_unknown_repeated_and_late_answers_are_ignored() -> None:
    peer = await opened()
    for stray in ("x-1", 7, "", None):
        peer.send({"jsonrpc": "2.0", "id": stray, "result": {}})
    call(peer, "greet")
    question = await peer.question("elicitation/create")
    peer.answer(question, ADA)
    peer.answer(question, {"action": "cancel"})
    assert text_of(await peer.response(1)) == "Hello, Ada!"
    peer.answer(question, ADA)
    peer.request(9, "ping")
    assert (await peer.response(9))["result"] == {}


async def test_an_answer_of_a_client_whose_token_has_expired_is_refused_and_its_cancellation_ignored() -> (
    None
):
    peer = await opened()
    conversation = peer.channel.dialogue.conversation
    call(peer, "greet")
    question = await peer.question("elicitation/create")
    conversation.principal = Principal("token", "ada", {}, expires=1.0)
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    peer.answer(question, ADA)
    assert "Unauthorized: invalid JWT (-32001)" in text_of(await peer.response(1))


async def test_cancelling_the_call_takes_the_question_back() -> None:
    peer = await opened()
    call(peer, "greet")
    question = await peer.question("elicitation/create")
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    taken = await peer.message(lambda message: message.get("method") == "notifications/cancelled")
    assert taken["params"]["requestId"] == question["id"] and peer.asking.ended == ["cancelled"]


async def test_waiting_does_not_count_against_the_limit_but_has_one_of_its_own() -> None:
    peer = await opened()
    peer.server.limits = Limits(tool_timeout_s=0.05, question_timeout_s=0.2)
    call(peer, "greet")
    answer = await peer.response(1)
    assert "did not answer elicitation/create within 0.2 s" in text_of(answer)


async def test_nothing_is_asked_once_the_call_is_over() -> None:
    peer = await opened()
    call(peer, "loud")
    assert text_of(await peer.response(1)) == "done"
    with pytest.raises((ClientError, asyncio.CancelledError)):
        await peer.asking.background


async def test_a_slow_answer_keeps_the_connection_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_requests, "KEEP_ALIVE_S", 0.01)
    peer = await opened()
    beats = asyncio.Event()
    monkeypatch.setattr(peer.channel, "keep_alive", beats.set)
    call(peer, "greet")
    async with within():
        await beats.wait()
    peer.answer(await peer.question("elicitation/create"), ADA)
    assert text_of(await peer.response(1)) == "Hello, Ada!"


@pytest.mark.requirement("1.11")
async def test_a_client_is_asked_nothing_before_it_says_that_it_is_ready() -> None:
    peer = Asked()
    params = {"protocolVersion": "2025-11-25", "capabilities": EVERYTHING}
    peer.request(0, "initialize", params)
    call(peer, "greet", 1)
    said = text_of(await peer.response(1))
    assert "cannot be asked" in said and not [m for m in peer.received if "method" in m]
    peer.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    call(peer, "greet", 2)
    peer.answer(await peer.question("elicitation/create"), ADA)
    assert text_of(await peer.response(2)) == "Hello, Ada!"
