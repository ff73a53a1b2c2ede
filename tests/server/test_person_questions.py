"""AskUserQuestion asks at the desk, at the client, or at both, by the setting; the first answer wins."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mcpdesk.hosting.hosted_folder import built_in
from mcpdesk.inbox.question import Answer, Option, Page, QuestionState
from mcpdesk.server.asks.person_questions import answers_of
from mcpdesk.server.asks.question_wording import Accepted, Declined
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.tool import Tool
from mcpdesk.server.state.server_state import ServerState, ToolOptions
from tests.support.asked_client import Asked
from tests.support.watched_inbox import WatchedInbox

QUESTIONS = json.dumps([{"question": "Tea?", "options": ["yes", "no"]}])
FORM: dict[str, Any] = {"elicitation": {}}
YES = {"action": "accept", "content": {"answer_1": "yes"}}
CREATE = "elicitation/create"


class Both(Asked):
    """A client and a desk of one server; `said` is the result of its AskUserQuestion."""

    def __init__(self, home: ServerState) -> None:
        super().__init__()
        self.server.hosted = home
        self.server.tools.replace([built_in("AskUserQuestion")])
        self.sees = WatchedInbox(self.inbox).sees

    def ask(self, identifier: Any = 1) -> None:
        arguments = {"name": "AskUserQuestion", "arguments": {"questions_json": QUESTIONS}}
        self.request(identifier, "tools/call", arguments)

    async def said(self, identifier: Any = 1) -> tuple[str, str]:
        """Status and reason; the text of an error without either."""
        result = (await self.response(identifier))["result"]
        found = result.get("structuredContent")
        return (found["status"], found["reason"]) if found else ("", result["content"][0]["text"])

    @property
    def asked_client(self) -> bool:
        return any(each.get("method") == CREATE for each in self.received)


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Any]:
    homes = []

    async def made(order: str, desks: int = 1, capabilities: dict[str, Any] | None = FORM) -> Both:
        home = ServerState(tmp_path, tmp_path / "state", (), ToolOptions(ask_order=order))
        homes.append(home)
        peer = Both(home)
        peer.inbox.audience = desks
        if capabilities is not None:
            await peer.shake(capabilities)
        return peer

    yield made
    for home in homes:
        await home.close()


@pytest.mark.parametrize(
    ("order", "desks", "capabilities"),
    [("desk-first", 1, FORM), ("desk-first", 1, {}), ("client-first", 1, {}), ("both", 1, {})],
)
async def test_the_desk_alone_is_asked(make: Any, order: str, desks: int, capabilities: Any) -> None:
    peer = await make(order, desks, capabilities)
    peer.ask()
    number = (await peer.sees(QuestionState.WAITING)).id
    peer.inbox.answer(number, [Answer(("no",))])
    assert await peer.said() == ("answered", "")
    assert not peer.asked_client


@pytest.mark.parametrize(
    ("order", "desks"), [("desk-first", 0), ("client-first", 0), ("client-first", 1), ("both", 0)]
)
async def test_the_client_alone_is_asked_and_the_inbox_tells_what_it_said(
    make: Any, order: str, desks: int
) -> None:
    peer = await make(order, desks)
    peer.ask()
    peer.answer(await peer.question(CREATE), YES)
    assert await peer.said() == ("answered", "")
    (kept,) = peer.inbox.questions()
    assert (kept.state, kept.answered_by) == (QuestionState.ANSWERED, "the client")
    assert kept.answers == (Answer(("yes",)),) and kept.id > 0


@pytest.mark.parametrize("order", ["desk-first", "client-first", "both"])
async def test_nobody_anywhere_is_an_error_at_once(make: Any, order: str) -> None:
    peer = await make(order, 0, {})
    peer.ask()
    status, text = await peer.said()
    assert not status and "no desk is open" in text


async def test_a_client_that_refuses_leaves_it_to_the_desk(make: Any) -> None:
    peer = await make("client-first")
    peer.ask()
    question = await peer.question(CREATE)
    peer.send({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -32603, "message": "no screen"}})
    peer.inbox.answer((await peer.sees(QuestionState.WAITING)).id, [Answer(("no",))])
    assert await peer.said() == ("answered", "")


async def test_of_both_the_desk_may_be_first_and_the_client_is_told(make: Any) -> None:
    peer = await make("both")
    peer.ask()
    number = (await peer.sees(QuestionState.WAITING)).id
    question = await peer.question(CREATE)
    peer.inbox.decline(number, "not now")
    assert await peer.said() == ("declined", "not now")
    told = await peer.message(lambda message: message.get("method") == "notifications/cancelled")
    assert told["params"]["requestId"] == question["id"]


async def test_declined_by_the_client_withdraws_it_from_the_desk(make: Any) -> None:
    peer = await make("both")
    peer.ask()
    peer.answer(await peer.question(CREATE), {"action": "decline"})
    assert await peer.said() == ("declined", "")
    assert (await peer.sees(QuestionState.WITHDRAWN)).reason == "declined by the client"


async def test_a_form_that_is_closed_leaves_it_to_the_desk(make: Any) -> None:
    peer = await make("both")
    peer.ask()
    number = (await peer.sees(QuestionState.WAITING)).id
    peer.answer(await peer.question(CREATE), {"action": "cancel"})
    peer.inbox.answer(number, [Answer(("yes",))])
    assert await peer.said() == ("answered", "")


async def test_a_cancelled_call_closes_both(make: Any) -> None:
    peer = await make("both")
    peer.ask()
    question = await peer.question(CREATE)
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    assert (await peer.sees(QuestionState.WITHDRAWN)).reason == "cancelled by the caller"
    told = await peer.message(lambda message: message.get("method") == "notifications/cancelled")
    assert told["params"]["requestId"] == question["id"]


async def test_the_desk_itself_is_asked_once(make: Any) -> None:
    peer = await make("both", 1, None)
    peer.channel = peer.endpoint.channel("memory", "desk", peer._take)
    await peer.shake(FORM)
    peer.ask()
    await peer.sees(QuestionState.WAITING)
    assert len(peer.inbox.questions()) == 1 and not peer.asked_client


async def test_who_comes_back_to_another_process_disturbs_nobody(make: Any) -> None:
    peer = await make("both", 1, None)
    arguments = {"arguments": {"questions_json": QUESTIONS}}
    body = (await peer.round(1, "AskUserQuestion", **arguments))["result"]
    (key,) = body["inputRequests"]
    peer.services.rounds.close()
    await peer.sees(QuestionState.WITHDRAWN)
    again = arguments | {"requestState": body["requestState"], "inputResponses": {key: YES}}
    result = (await peer.round(2, "AskUserQuestion", **again))["result"]
    assert result["structuredContent"]["answers"][0]["selected"] == ["yes"]
    assert len(peer.inbox.questions()) == 1


async def test_nobody_in_time_is_told_apart_from_a_refusal(make: Any) -> None:

    peer = await make("client-first", 0)
    peer.server.limits = replace(peer.server.limits, question_timeout_s=0.05)
    peer.ask()
    assert await peer.said() == ("timed_out", "")
    assert peer.inbox.questions()[0].state is QuestionState.TIMED_OUT


async def asks(_arguments: dict[str, Any], context: Context) -> str:
    question = await context.ask([Page("Tea?", options=(Option("yes"), Option("no")), own_words=False)])
    return " ".join(question.answers[0].selected)


async def test_a_handler_that_asks_reaches_a_client_that_offers_elicitation(make: Any) -> None:
    peer = await make("desk-first", 0)
    peer.server.tools.replace([Tool("asks", asks, {"type": "object"})])
    peer.request(1, "tools/call", {"name": "asks", "arguments": {}})
    question = await peer.question(CREATE)
    assert list(question["params"]["requestedSchema"]["properties"]) == ["answer_1"]
    peer.answer(question, YES)
    assert (await peer.response(1))["result"]["content"][0]["text"] == "yes"


PAGES = (
    Page("Which database?", "Storage", (Option("SQLite", "one file"), Option("PostgreSQL"))),
    Page("Which checks?", "", (Option("lint"), Option("types")), multi_select=True),
)
QUESTIONS_ask_client = json.dumps(
    [
        {
            "question": "Which database?",
            "header": "Storage",
            "options": [{"label": "SQLite", "description": "one file"}, "PostgreSQL"],
        },
        {"question": "Which checks?", "options": ["lint", "types"], "multiSelect": True},
    ]
)
FILLED = {"answer_1": "SQLite", "answer_1_other": "", "answer_2_2": True, "answer_2_other": " all "}


@pytest.fixture
async def peer(tmp_path: Path) -> Asked:
    asked = Asked()
    asked.server.tools.replace([built_in("AskUserQuestion")])
    return asked


def test_the_form_becomes_answers() -> None:
    assert answers_of(PAGES, Accepted(FILLED)) == (
        Answer(("SQLite",), ""),
        Answer(("types",), "all"),
    )
    assert answers_of(PAGES, Declined()) == ()


async def result_of(peer: Asked, answer: dict[str, Any]) -> dict[str, Any]:
    await peer.shake({"elicitation": {}})
    arguments = {"questions_json": QUESTIONS_ask_client}
    peer.request(1, "tools/call", {"name": "AskUserQuestion", "arguments": arguments})
    peer.answer(await peer.question("elicitation/create"), answer)
    result: dict[str, Any] = (await peer.response(1))["result"]
    return result


async def test_a_page_that_was_left_empty_says_so(peer: Asked) -> None:
    result = await result_of(peer, {"action": "accept", "content": {"answer_1": "SQLite"}})
    assert result["content"][0]["text"] == "Which database?\n-> SQLite\nWhich checks?\n-> (no answer)"


@pytest.mark.parametrize(("action", "reason"), [("decline", ""), ("cancel", "the form was closed")])
async def test_refusing_the_form_declines(peer: Asked, action: str, reason: str) -> None:
    assert (await result_of(peer, {"action": action}))["structuredContent"] == {
        "status": "declined", "reason": reason, "answers": [],
    }  # fmt: skip
