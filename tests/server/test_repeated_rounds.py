"""Rounds that a client sends twice: the handler runs once, and both requests get the same result."""

from __future__ import annotations

import asyncio
import gc
import json
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from mcpdesk.auth.principal import Principal
from mcpdesk.errors import Refusal
from mcpdesk.protocol import content
from mcpdesk.protocol.stateless import CAPABILITIES_KEY
from mcpdesk.server.asks import answered_rounds, rounds
from mcpdesk.server.asks.answered_rounds import OPERATION_ENDED, OTHER_ANSWERS, RESULT_DROPPED
from mcpdesk.server.asks.round_claims import RoundClaims
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.prompts import Prompt
from mcpdesk.server.offer.tool import Tool, ToolResult
from tests.support.asked_client import ADA, EVERYTHING, NAME, Asked, AskingServer
from tests.support.messages import text_of
from tests.support.patience import within

TOM = {"action": "accept", "content": {"name": "Tom"}}


class Paying(AskingServer):
    """A tool with a side effect behind its question, which waits until it may end."""

    def __init__(self) -> None:
        super().__init__()
        self.paid: list[str] = []
        self.refused: Callable[[Refusal], None] = lambda error: None
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()
        self.was_cancelled = asyncio.Event()
        self.server.tools.replace(
            [
                Tool(each.__name__, each, {"type": "object"})
                for each in (self.pay, self.order, self.fail, self.count, self.refuse)
            ]
        )
        self.server.prompts.replace([Prompt("bill", self.bill)])

    async def pay(self, arguments: dict[str, Any], context: Context) -> Any:
        self.started += 1
        answer = await context.elicit("Pay?", NAME, key="who")
        self.paid.append(answer.content["name"])
        self.began.set()
        await context.progress(1, 2)
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            self.was_cancelled.set()
            raise
        await context.progress(2, 2)
        return f"paid {len(self.paid)}"

    async def order(self, arguments: dict[str, Any], context: Context) -> Any:
        self.started += 1
        if self.started > 1:
            self.began.set()
            await self.may_end.wait()
        return f"ordered for {(await context.elicit('Pay?', NAME, key='who')).content['name']}"

    async def fail(self, arguments: dict[str, Any], context: Context) -> Any:
        self.paid.append((await context.elicit("Pay?", NAME, key="who")).content["name"])
        raise RuntimeError("no money")

    async def count(self, arguments: dict[str, Any], context: Context) -> Any:
        await context.elicit("Pay?", NAME, key="who")
        return ToolResult((content.text("numbers"),), {"numbers": [0] * 1000})

    async def refuse(self, arguments: dict[str, Any], context: Context) -> Any:
        await context.elicit("Pay?", NAME, key="who")
        error = Refusal(-5, "no", {"numbers": [0] * 1000})
        self.refused(error)
        raise error

    async def bill(self, arguments: dict[str, str], context: Context) -> Any:
        self.paid.append((await context.elicit("Pay?", NAME, key="who")).content["name"])
        raise RuntimeError("no paper")


def params_of(asked: dict[str, Any], answer: Any = ADA, tool: str = "pay") -> dict[str, Any]:
    """Params of the round that answers the question."""
    state = asked["result"]["requestState"]
    return {"name": tool, "requestState": state, "inputResponses": {"who": answer}}


def send(peer: Asked, identifier: int, params: dict[str, Any], **meta: Any) -> None:
    peer.modern(identifier, "tools/call", params, **({CAPABILITIES_KEY: EVERYTHING} | meta))


async def began(asking: Paying) -> None:
    async with within():
        await asking.began.wait()


async def test_a_repeated_round_joins_the_running_one_and_a_later_one_gets_its_result() -> None:
    asking = Paying()
    peer = Asked(asking)
    asked = await peer.round(1, "pay")
    for identifier in (2, 3):
        send(peer, identifier, params_of(asked))
    await began(asking)
    asking.may_end.set()
    first, second = await peer.response(2), await peer.response(3)
    send(peer, 4, params_of(asked))
    third = await peer.response(4)
    assert [text_of(each) for each in (first, second, third)] == ["paid 1"] * 3
    assert (asking.started, asking.paid) == (1, ["Ada"])


async def test_a_repeated_round_that_asks_again_gets_the_same_questions() -> None:
    peer = Asked()
    asked = await peer.round(1, "steps")
    answers = {"requestState": asked["result"]["requestState"], "inputResponses": {"elicitation-1": ADA}}
    first = await peer.round(2, "steps", **answers)
    assert list(first["result"]["inputRequests"]) == ["elicitation-2"]
    assert (await peer.round(3, "steps", **answers))["result"] == first["result"]
    later = {
        "requestState": first["result"]["requestState"],
        "inputResponses": {"elicitation-2": TOM},
    }
    assert text_of(await peer.round(4, "steps", **later)) == "Ada and Tom"
    # The first round again, when the operation has ended: still its own result, and nothing runs.
    assert (await peer.round(5, "steps", **answers))["result"] == first["result"]
    assert peer.asking.started == 1


async def test_a_state_counts_for_one_set_of_answers() -> None:
    asking = Paying()
    peer = Asked(asking)
    asked = await peer.round(1, "pay")
    send(peer, 2, params_of(asked))
    await began(asking)
    send(peer, 3, params_of(asked, TOM))
    assert (await peer.response(3))["error"] == {"code": -32602, "message": OTHER_ANSWERS}
    asking.may_end.set()
    assert text_of(await peer.response(2)) == "paid 1"
    send(peer, 4, params_of(asked, TOM))
    assert (await peer.response(4))["error"] == {"code": -32602, "message": OTHER_ANSWERS}
    assert asking.paid == ["Ada"]


async def test_an_older_state_of_an_operation_that_has_ended_runs_nothing() -> None:
    asking = Paying()
    asking.may_end.set()
    peer = Asked(asking)
    asked = await peer.round(1, "pay")
    send(peer, 2, params_of(asked) | {"inputResponses": {}})
    again = await peer.response(2)
    send(peer, 3, params_of(asked))
    assert text_of(await peer.response(3)) == "paid 1"
    send(peer, 4, params_of(again))
    assert (await peer.response(4))["error"] == {"code": -32602, "message": OPERATION_ENDED}
    assert (asking.started, asking.paid) == (1, ["Ada"])


@pytest.mark.parametrize("method", ["tools/call", "prompts/get"])
async def test_a_failed_round_fails_the_same_way_again(method: str) -> None:
    asking = Paying()
    peer = Asked(asking)
    name = {"tools/call": "fail", "prompts/get": "bill"}[method]
    meta = {CAPABILITIES_KEY: EVERYTHING}
    peer.modern(1, method, {"name": name}, **meta)
    params = params_of(await peer.response(1), tool=name)
    seen = []
    for identifier in (2, 3):
        peer.modern(identifier, method, params, **meta)
        answer = await peer.response(identifier)
        seen.append(answer.get("error") or answer["result"]["content"])
    assert asking.paid == ["Ada"]
    reason = "no money" if method == "tools/call" else "no paper"
    assert reason in str(seen[0]) and reason in str(seen[1])


async def test_a_stranger_gets_no_result_of_another_caller() -> None:
    asking = Paying()
    asking.may_end.set()
    peer, stranger = Asked(asking), Asked(asking)
    vars(stranger.services)["rounds"] = peer.services.rounds
    asked = await peer.round(1, "pay")
    send(peer, 2, params_of(asked))
    assert text_of(await peer.response(2)) == "paid 1"
    stranger.channel.dialogue.identify(Principal("token", "mallory", identity="token:mallory"))
    send(stranger, 2, params_of(asked))
    refused = await stranger.response(2)
    assert refused["error"] == {"code": -32602, "message": "requestState is not valid for this request"}
    assert asking.paid == ["Ada"]


async def test_the_operation_ends_with_its_last_request_and_reports_to_one_that_is_left() -> None:
    asking = Paying()
    peer = Asked(asking)
    asked = await peer.round(1, "pay")
    send(peer, 2, params_of(asked), progressToken="a")
    await began(asking)
    send(peer, 3, params_of(asked), progressToken="b")
    send(peer, 4, {"name": "nothing"})
    assert (await peer.response(4))["error"]["code"] == -32602  # what came before has been taken
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
    send(peer, 5, {"name": "nothing"})
    assert (await peer.response(5))["error"]["code"] == -32602
    asking.may_end.set()
    assert text_of(await peer.response(3)) == "paid 1"
    sent = [each["params"] for each in peer.received if each.get("method") == "notifications/progress"]
    assert [(each["progressToken"], each["progress"]) for each in sent] == [("a", 1), ("b", 2)]
    assert not asking.ended


async def test_a_request_that_waits_gets_a_result_too_large_to_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answered_rounds, "MAX_RESULT_BYTES", 1)
    asking = Paying()
    peer = Asked(asking)
    asked = await peer.round(1, "pay")
    for identifier in (2, 3):
        send(peer, identifier, params_of(asked))
    await began(asking)
    send(peer, 4, {"name": "nothing"})
    assert (await peer.response(4))["error"]["code"] == -32602  # what came before has been taken
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
    asking.may_end.set()
    assert text_of(await peer.response(3)) == "paid 1"
    send(peer, 5, params_of(asked))
    assert (await peer.response(5))["error"]["message"] == RESULT_DROPPED


async def test_a_request_that_is_left_keeps_the_answers_of_its_round() -> None:
    asking = Paying()
    peer = Asked(asking)
    asked = await peer.round(1, "order")
    peer.services.rounds.close()  # the handler runs again, and has not asked yet when a request ends
    params = params_of(asked, tool="order")
    for identifier in (2, 3):
        send(peer, identifier, params)
    await began(asking)
    send(peer, 4, {"name": "nothing"})
    assert (await peer.response(4))["error"]["code"] == -32602  # what came before has been taken
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
    send(peer, 5, {"name": "nothing"})
    assert (await peer.response(5))["error"]["code"] == -32602
    asking.may_end.set()
    assert text_of(await peer.response(3)) == "ordered for Ada"


@pytest.mark.parametrize("name", ["count", "refuse"])
async def test_numbers_count_as_bytes_and_so_does_the_data_of_errors(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answered_rounds, "MAX_RESULT_BYTES", 1000)
    peer = Asked(Paying())
    asked = await peer.round(1, name)
    send(peer, 2, params_of(asked, tool=name))
    assert "[0,0," in json.dumps(await peer.response(2)).replace(" ", "")
    send(peer, 3, params_of(asked, tool=name))
    assert (await peer.response(3))["error"] == {"code": -32603, "message": RESULT_DROPPED}


async def test_the_error_of_a_round_keeps_nothing_of_its_request() -> None:
    asking = Paying()
    peer = Asked(asking)
    asked = await peer.round(1, "refuse")
    errors: list[weakref.ref[Refusal]] = []
    asking.refused = lambda error: errors.append(weakref.ref(error))
    send(peer, 2, params_of(asked, tool="refuse"))
    first = (await peer.response(2))["error"]
    gc.collect()
    assert [each() for each in errors] == [None]
    send(peer, 3, params_of(asked, tool="refuse"))
    assert (await peer.response(3))["error"] == first


async def test_a_round_that_was_cancelled_may_be_tried_again() -> None:
    asking = Paying()
    peer = Asked(asking)
    asked = await peer.round(1, "pay")
    send(peer, 2, params_of(asked))
    await began(asking)
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
    # Sent before the handler has ended: it waits for that, whatever answers it brings.
    send(peer, 3, params_of(asked, TOM))
    async with within():
        await asking.was_cancelled.wait()
    asking.may_end.set()
    assert text_of(await peer.response(3)) == "paid 2"
    assert asking.started == 2


async def test_a_round_without_the_needed_capability_may_be_tried_again() -> None:
    peer = Asked()
    asked = await peer.round(1, "greet")
    answers = {"requestState": asked["result"]["requestState"], "inputResponses": {"user_name": ADA}}
    refused = await peer.round(2, "greet", {"roots": {}}, **answers)
    assert refused["error"]["code"] == -32021
    assert text_of(await peer.round(3, "greet", **answers)) == "Hello, Ada!"


async def test_what_is_remembered_is_bounded_in_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Asked()
    kept = peer.services.rounds.answered_rounds

    async def greeted(number: int, name: str) -> dict[str, Any]:
        asked = await peer.round(10 * number, "greet", arguments={"n": number})
        answer = {"action": "accept", "content": {"name": name}}
        params = {
            "requestState": asked["result"]["requestState"],
            "inputResponses": {"user_name": answer},
            "arguments": {"n": number},
        }
        assert text_of(await peer.round(10 * number + 1, "greet", **params)) == f"Hello, {name}!"
        return params

    monkeypatch.setattr(answered_rounds, "MAX_BYTES", 200)
    first = await greeted(1, "A" * 50)
    assert kept.dropped == 0 and kept.size >= 50
    await greeted(2, "B" * 50)
    assert kept.dropped == 1 and kept.size <= 200
    again = await peer.round(3, "greet", **first)
    assert again["error"] == {"code": -32603, "message": RESULT_DROPPED}
    monkeypatch.setattr(answered_rounds, "MAX_RESULT_BYTES", 10)
    large = await greeted(3, "C" * 50)
    assert kept.dropped == 2
    assert (await peer.round(4, "greet", **large))["error"]["message"] == RESULT_DROPPED
    most = len(kept)
    monkeypatch.setattr(answered_rounds, "MAX_ROUNDS", most)
    await greeted(4, "D")
    assert len(kept) == most and kept.dropped > 2
    assert peer.asking.started == 4
    kept.close()
    assert (len(kept), kept.size) == (0, 0)


async def test_rounds_are_forgotten_when_their_states_expire() -> None:
    peer = Asked()
    asked = await peer.round(1, "greet")
    answers = {"requestState": asked["result"]["requestState"], "inputResponses": {"user_name": ADA}}
    assert text_of(await peer.round(2, "greet", **answers)) == "Hello, Ada!"
    kept = peer.services.rounds.answered_rounds
    kept.expire(time.time() + rounds.STATE_TTL_S - 60)
    assert len(kept) == 1
    kept.expire(time.time() + rounds.STATE_TTL_S)
    assert (len(kept), kept.size) == (0, 0)


class Claims(RoundClaims):
    """Grants every claim; stores for how many seconds each holds."""

    def __init__(self) -> None:
        self.lifetimes: list[float] = []

    async def claim(self, state: str, ttl_s: float) -> str:
        self.lifetimes.append(ttl_s)
        return ""

    async def ask(self, state: str) -> None: ...

    async def end(self, state: str) -> None: ...

    async def release(self, state: str) -> None: ...


async def test_a_claim_of_a_round_holds_until_its_state_expires() -> None:
    asking = Paying()
    asking.may_end.set()
    peer = Asked(asking)
    peer.services.shared_rounds = claims = Claims()
    asked = await peer.round(1, "pay")
    send(peer, 2, params_of(asked))
    assert text_of(await peer.response(2)) == "paid 1"
    (lifetime_s,) = claims.lifetimes
    assert rounds.STATE_TTL_S - 60 < lifetime_s <= rounds.STATE_TTL_S
