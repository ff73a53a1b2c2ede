"""Operations of several rounds: parked handlers, answers sent by the client, and refusals."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpdesk.protocol.stateless import CAPABILITIES_KEY
from mcpdesk.server.asks import rounds
from mcpdesk.server.asks.rounds import Rounds
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.prompts import Prompt, PromptArgument
from mcpdesk.server.offer.tool import Tool
from tests.support.asked_client import ADA, EVERYTHING, NAME, ROOTS, WRITTEN, Asked, AskingServer
from tests.support.messages import text_of
from tests.support.patience import within


def retry(response: dict[str, Any], **answers: Any) -> dict[str, Any]:
    """Members that a client adds to its next request."""
    return {"requestState": response["result"]["requestState"], "inputResponses": answers}


def parked(peer: Asked) -> int:
    return len(peer.services.rounds)


@pytest.mark.requirement("3.5", "7.2")
async def test_a_question_is_the_result_and_the_handler_runs_once() -> None:
    peer = Asked()
    asked = await peer.round(1, "greet")
    result = asked["result"]
    assert result["resultType"] == "input_required"
    request = result["inputRequests"]["user_name"]
    assert request["method"] == "elicitation/create"
    assert request["params"]["message"] == "What is your name?"
    assert request["params"]["requestedSchema"]["required"] == ["name"]
    assert "jsonrpc" not in request and "id" not in request
    assert parked(peer) == 1
    done = await peer.round(2, "greet", **retry(asked, user_name=ADA))
    assert text_of(done) == "Hello, Ada!" and done["result"]["resultType"] == "complete"
    assert peer.asking.started == 1 and parked(peer) == 0


async def test_without_the_parked_handler_it_runs_again_and_finds_the_answers() -> None:
    secret = b"s" * 32
    first, second = Asked(), Asked()
    for peer in (first, second):
        vars(peer.services)["rounds"] = Rounds(lambda: [secret])
    asked = await first.round(1, "steps")
    again = await second.round(2, "steps", **retry(asked, **{"elicitation-1": ADA}))
    assert list(again["result"]["inputRequests"]) == ["elicitation-2"]
    tom = {"action": "accept", "content": {"name": "Tom"}}
    done = await first.round(3, "steps", **retry(again, **{"elicitation-2": tom}))
    assert text_of(done) == "Ada and Tom"
    assert (first.asking.started, second.asking.started) == (2, 1)
    first.services.rounds.close()
    second.services.rounds.close()


async def test_an_answer_the_handler_has_not_come_to_again_is_carried_on() -> None:
    may_go_on = asyncio.Event()

    async def tangled(arguments: dict[str, Any], context: Context) -> Any:
        async def later() -> Any:
            await may_go_on.wait()
            return await context.elicit("Name?", NAME, key="later")

        first, second = await asyncio.gather(later(), context.elicit("Cat?", NAME, key="now"))
        return f"{first.content['name']} and {second.content['name']}"

    secret, asking = b"s" * 32, AskingServer()
    asking.server.tools.replace([Tool("tangled", tangled, {"type": "object"})])
    peers = [Asked(asking) for _ in range(3)]
    for peer in peers:
        vars(peer.services)["rounds"] = Rounds(lambda: [secret])
    may_go_on.set()
    asked = await peers[0].round(1, "tangled")
    asked = await peers[0].round(2, "tangled", **retry(asked, later=ADA))
    may_go_on.clear()
    asked = await peers[1].round(1, "tangled", **retry(asked))
    assert list(asked["result"]["inputRequests"]) == ["now"]
    may_go_on.set()
    assert text_of(await peers[2].round(1, "tangled", **retry(asked, now=ADA))) == "Ada and Ada"
    for peer in peers:
        peer.services.rounds.close()


async def test_several_questions_at_once_are_several_keys() -> None:
    peer = Asked()
    asked = await peer.round(1, "all")
    requests = asked["result"]["inputRequests"]
    assert set(requests) == {"who", "sampling-1", "roots-1"}
    assert requests["roots-1"] == {"method": "roots/list"}
    some = await peer.round(2, "all", **retry(asked, who=ADA))
    assert set(some["result"]["inputRequests"]) == {"sampling-1", "roots-1"}
    done = await peer.round(3, "all", **retry(some, **{"sampling-1": WRITTEN, "roots-1": ROOTS}))
    assert text_of(done) == "Ada Paris 1"


async def test_no_two_questions_have_one_key() -> None:
    async def alike(arguments: dict[str, Any], context: Context) -> Any:
        keys = ("a-2", "a", "a", "roots-1", None, "a")
        found = await asyncio.gather(*(context.list_roots(key=key) for key in keys))
        return f"{len(found)} answers"

    asking = AskingServer()
    asking.server.tools.replace([Tool("alike", alike, {"type": "object"})])
    peer = Asked(asking)
    asked = await peer.round(1, "alike")
    keys = list(asked["result"]["inputRequests"])
    assert keys == ["a-2", "a", "a-3", "roots-1", "roots-2", "a-4"]
    done = await peer.round(2, "alike", **retry(asked, **dict.fromkeys(keys, ROOTS)))
    assert text_of(done) == "6 answers"


async def test_each_round_has_another_state_and_progress_goes_to_the_request_at_hand() -> None:
    peer = Asked()
    tokens = ("a", "b", "c")
    asked: dict[str, Any] = {}
    answers: dict[str, Any] = {}
    states = []
    for number, token in enumerate(tokens, 1):
        params = {"name": "steps"} | answers
        peer.modern(number, "tools/call", params, **{CAPABILITIES_KEY: EVERYTHING, "progressToken": token})
        asked = await peer.response(number)
        states.append(asked["result"].get("requestState"))
        answers = {"inputResponses": {f"elicitation-{number}": ADA}, "requestState": states[-1]}
    assert states[0] != states[1] and states[2] is None
    sent = [each["params"] for each in peer.received if each.get("method") == "notifications/progress"]
    assert [(each["progressToken"], each["progress"]) for each in sent] == [("a", 1), ("c", 2)]


@pytest.mark.requirement("7.6")
@pytest.mark.parametrize(
    "answer",
    [
        12345,
        None,
        {},
        {"action": "maybe"},
        {"action": "accept", "content": {"name": 5}},
        {"action": "accept"},
    ],
)
async def test_an_answer_that_does_not_fit_is_asked_for_again(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    peer = Asked()
    asked = await peer.round(1, "greet")
    again = await peer.round(2, "greet", **retry(asked, user_name=answer, unknown=ADA))
    assert list(again["result"]["inputRequests"]) == ["user_name"]
    assert "asking again after an invalid answer to user_name: " in caplog.text
    message = again["result"]["inputRequests"]["user_name"]["params"]["message"]
    question, _, reason = message.partition("\n\nThe last answer was not accepted: ")
    assert question == asked["result"]["inputRequests"]["user_name"]["params"]["message"]
    assert reason and reason in caplog.text
    assert text_of(await peer.round(3, "greet", **retry(again, user_name=ADA))) == "Hello, Ada!"


async def test_answers_may_come_before_the_question_and_without_a_state() -> None:
    peer = Asked()
    assert text_of(await peer.round(1, "greet", inputResponses={"user_name": ADA})) == "Hello, Ada!"
    wrong = await peer.round(2, "greet", inputResponses={"wrong_key": ADA})
    assert list(wrong["result"]["inputRequests"]) == ["user_name"]
    peer.services.rounds.close()


@pytest.mark.requirement("7.6")
@pytest.mark.parametrize("given", [None, [], "x", 7])
async def test_answers_that_are_no_object_are_refused(given: Any) -> None:
    answer = await Asked().round(1, "greet", inputResponses=given)
    assert answer["error"]["code"] == -32602


@pytest.mark.requirement("7.4", "12.6")
async def test_a_state_that_was_changed_is_expired_or_belongs_elsewhere_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peer = Asked()
    asked = await peer.round(1, "greet", arguments={"a": 1})
    state = asked["result"]["requestState"]
    answers = {"user_name": ADA}
    for number, (tool, arguments, token) in enumerate(
        [
            ("greet", {"a": 1}, state + "-TAMPERED"),
            ("greet", {"a": 1}, "ä"),
            ("greet", {"a": 1}, 7),
            ("greet", {"a": 2}, state),
            ("steps", {"a": 1}, state),
        ],
        2,
    ):
        refused = await peer.round(
            number, tool, arguments=arguments, requestState=token, inputResponses=answers
        )
        assert refused["error"] == {"code": -32602, "message": "requestState is not valid for this request"}
    other = Asked(peer.asking)
    foreign = await other.round(1, "greet", arguments={"a": 1}, **retry(asked, user_name=ADA))
    assert foreign["error"]["code"] == -32602
    monkeypatch.setattr(rounds, "STATE_TTL_S", -1)
    late = await peer.round(20, "greet", **retry(await peer.round(19, "greet"), user_name=ADA))
    assert late["error"]["code"] == -32602
    peer.services.rounds.close()


@pytest.mark.requirement("1.12", "2.7", "7.3")
@pytest.mark.parametrize(
    ("tool", "capabilities", "required"),
    [
        ("greet", {}, {"elicitation": {"form": {}}}),
        ("greet", {"sampling": {}}, {"elicitation": {"form": {}}}),
        ("visit", {"elicitation": {}}, {"elicitation": {"url": {}}}),
        ("capital", {"elicitation": {}}, {"sampling": {}}),
        ("places", {"elicitation": {}}, {"roots": {}}),
    ],
)
async def test_what_the_client_does_not_declare_is_not_asked(
    tool: str, capabilities: dict[str, Any], required: dict[str, Any]
) -> None:
    peer = Asked()
    refused = await peer.round(1, tool, capabilities)
    assert refused["error"]["code"] == -32021
    assert refused["error"]["data"] == {"requiredCapabilities": required}
    assert parked(peer) == 0


async def test_a_handler_may_do_without_what_the_client_lacks() -> None:
    done = await Asked().round(1, "careful", {"elicitation": {}})
    assert text_of(done) == "without: The client does not offer sampling"


@pytest.mark.requirement("2.12")
async def test_capabilities_are_those_of_each_request() -> None:
    peer = Asked()
    asked = await peer.round(1, "greet")
    refused = await peer.round(2, "greet", {"roots": {}}, **retry(asked, user_name=ADA))
    assert refused["error"]["code"] == -32021


@pytest.mark.requirement("7.1")
async def test_prompts_and_resources_ask_too() -> None:
    peer = Asked()
    for number, (method, params) in enumerate(
        [("prompts/get", {"name": "letter"}), ("resources/read", {"uri": "asking://note"})]
    ):
        peer.modern(10 + number, method, params, **{CAPABILITIES_KEY: EVERYTHING})
        asked = await peer.response(10 + number)
        assert "ttlMs" not in asked["result"] and "cacheScope" not in asked["result"]
        peer.modern(
            20 + number,
            method,
            params | retry(asked, **{"elicitation-1": ADA}),
            **{CAPABILITIES_KEY: EVERYTHING},
        )
        assert "Ada" in str((await peer.response(20 + number))["result"])


@pytest.mark.requirement("7.1")
async def test_suggestions_cannot_ask_the_client() -> None:
    async def suggest(value: str, given: dict[str, str], context: Context) -> list[str]:
        return [root.uri for root in await context.list_roots()]

    async def render(arguments: dict[str, str], context: Context) -> str:
        return "x"

    peer = Asked()
    where = Prompt("where", render, arguments=(PromptArgument("root"),), completers={"root": suggest})
    peer.asking.server.prompts.replace([where])
    params = {"ref": {"type": "ref/prompt", "name": "where"}, "argument": {"name": "root", "value": ""}}
    peer.modern(1, "completion/complete", params, **{CAPABILITIES_KEY: EVERYTHING})
    error = (await peer.response(1))["error"]
    assert error["code"] == -32603 and "cannot be asked" in error["message"]


async def test_the_oldest_makes_room_and_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "MAX_PARKED_ROUNDS", 2)
    peer = Asked()
    asked = [await peer.round(number, "greet", arguments={"n": number}) for number in (1, 2, 3)]
    assert parked(peer) == 2 and peer.asking.ended == ["cancelled"]
    done = await peer.round(4, "greet", arguments={"n": 1}, **retry(asked[0], user_name=ADA))
    assert text_of(done) == "Hello, Ada!" and peer.asking.started == 4
    peer.services.rounds.close()
    assert parked(peer) == 0


async def test_what_is_parked_is_bounded_in_bytes_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "MAX_PARKED_BYTES", 5_000)
    peer = Asked()
    asked = [await peer.round(number, "greet", arguments={"n": "x" * 2_000}) for number in (1, 2, 3)]
    kept = peer.services.rounds
    assert parked(peer) == 2 and 4_000 < kept.size <= 5_000
    done = await peer.round(4, "greet", arguments={"n": "x" * 2_000}, **retry(asked[0], user_name=ADA))
    assert text_of(done) == "Hello, Ada!"
    await peer.round(5, "greet", arguments={"n": "x" * 20_000})
    assert parked(peer) == 1
    kept.close()
    assert (parked(peer), kept.size) == (0, 0)


async def test_cancelling_a_later_round_ends_the_handler() -> None:
    went_on, gone = asyncio.Event(), asyncio.Event()

    async def stubborn(arguments: dict[str, Any], context: Context) -> Any:
        await context.list_roots()
        went_on.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    asking = AskingServer()
    asking.server.tools.replace([Tool("stubborn", stubborn, {"type": "object"})])
    peer = Asked(asking)
    asked = await peer.round(1, "stubborn")
    params = {"name": "stubborn"} | retry(asked, **{"roots-1": ROOTS})
    peer.modern(2, "tools/call", params, **{CAPABILITIES_KEY: EVERYTHING})
    async with within():
        await went_on.wait()
        peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
        await gone.wait()
