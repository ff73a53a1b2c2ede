"""AskUserQuestion without a desk: the calling client shows the questions as one form."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.hosting.hosted_folder import built_in
from mcpdesk.inbox.question import Answer, Option, Page
from mcpdesk.protocol.revisions import R3, R5
from mcpdesk.protocol.terms import Terms
from mcpdesk.server.asks.person_questions import answers_of, form_of
from mcpdesk.server.asks.question_wording import Elicited, form
from tests.support.asked_client import Asked
from tests.support.patience import WITHIN_S

PAGES = (
    Page("Which database?", "Storage", (Option("SQLite", "one file"), Option("PostgreSQL"))),
    Page("Which checks?", "", (Option("lint"), Option("types")), multi_select=True),
)
QUESTIONS = json.dumps(
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


@pytest.mark.parametrize("revision", [R3, R5])
def test_every_revision_with_forms_can_carry_it(revision: Any) -> None:
    assert form("?", form_of(PAGES), Terms(revision)).params["requestedSchema"]["properties"]


def test_choices_carry_their_descriptions() -> None:
    fields = form_of(PAGES)["properties"]
    assert fields["answer_1"]["oneOf"][0] == {"const": "SQLite", "title": "SQLite: one file"}
    assert fields["answer_2_1"] == {"type": "boolean", "title": "lint", "description": "Which checks?"}


def test_the_form_becomes_answers() -> None:
    assert answers_of(PAGES, Elicited("accept", FILLED)) == (
        Answer(("SQLite",), ""),
        Answer(("types",), "all"),
    )
    assert answers_of(PAGES, Elicited("decline")) == ()


async def result_of(peer: Asked, answer: dict[str, Any]) -> dict[str, Any]:
    await peer.shake({"elicitation": {}})
    arguments = {"questions_json": QUESTIONS}
    peer.request(1, "tools/call", {"name": "AskUserQuestion", "arguments": arguments})
    peer.answer(await peer.question("elicitation/create"), answer)
    result: dict[str, Any] = (await peer.response(1))["result"]
    return result


async def answered(peer: Asked, answer: dict[str, Any]) -> dict[str, Any]:
    outcome: dict[str, Any] = (await result_of(peer, answer))["structuredContent"]
    return outcome


async def test_the_answer_looks_like_one_from_the_desk(peer: Asked) -> None:
    outcome = await answered(peer, {"action": "accept", "content": FILLED})
    assert outcome["status"] == "answered"
    assert [each["selected"] for each in outcome["answers"]] == [["SQLite"], ["types"]]


async def test_a_page_that_was_left_empty_says_so(peer: Asked) -> None:
    result = await result_of(peer, {"action": "accept", "content": {"answer_1": "SQLite"}})
    assert result["content"][0]["text"] == "Which database?\n-> SQLite\nWhich checks?\n-> (no answer)"


@pytest.mark.parametrize(("action", "reason"), [("decline", ""), ("cancel", "the form was closed")])
async def test_refusing_the_form_declines(peer: Asked, action: str, reason: str) -> None:
    assert await answered(peer, {"action": action}) == {
        "status": "declined", "reason": reason, "answers": [],
    }  # fmt: skip


async def test_an_open_desk_is_asked_first(peer: Asked) -> None:
    peer.inbox.audience = 1
    arrived = asyncio.Event()
    peer.inbox.subscribe(lambda _: arrived.set())
    await peer.shake({"elicitation": {}})
    peer.request(1, "tools/call", {"name": "AskUserQuestion", "arguments": {"questions_json": QUESTIONS}})
    async with asyncio.timeout(WITHIN_S):
        await arrived.wait()
    assert not [each for each in peer.received if each.get("method") == "elicitation/create"]
