"""Official clients call AskUserQuestion; each outcome on the desk gives them a different result."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.session import ClientSession

from mcpdesk.inbox.question import Answer, QuestionState
from mcpdesk.server.asks import person_questions
from mcpdesk.tui.forms.question_dialog import QuestionScreen
from mcpdesk.tui.screens.main_screen import PANES
from tests.support.desk import RunningDesk, running_desk
from tests.support.folders import save
from tests.support.frame import running_frame
from tests.support.official import ALL, Heard, session, text_of
from tests.support.patience import until
from tests.support.person import Person, place
from tests.support.workshop import workshop

QUESTIONS = json.dumps(
    [
        {"question": "Which database?", "header": "Storage", "options": ["PostgreSQL", {"label": "SQLite"}]},
        {"question": "Which checks?", "options": ["lint", "types", "tests"], "multiSelect": True},
    ]
)
ANSWERED = {
    "status": "answered",
    "reason": "",
    "answers": [
        {"question": "Which database?", "header": "Storage", "selected": ["SQLite"], "other": ""},
        {"question": "Which checks?", "header": "", "selected": ["lint", "tests"], "other": "ok"},
    ],
}
BOTH_ERAS = ("2025-11-25", "2026-07-28")
both_ways = pytest.mark.parametrize("way", ["http", "pump"])
both_eras = pytest.mark.parametrize("revision", BOTH_ERAS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return workshop(tmp_path / "workshop")


@pytest.fixture
async def desk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunningDesk]:
    """A core with a person at the desk, a short tool timeout, and frequent keep-alive messages."""
    monkeypatch.setattr(person_questions, "KEEP_ALIVE_S", 0.02)
    async with running_desk(folder, http=True, accepts_pumps=True, tool_timeout_ms=100) as link:
        yield link


def ask(client: ClientSession, heard: Heard | None = None) -> asyncio.Task[Any]:
    callback = heard.on_progress if heard is not None else None
    arguments = {"questions_json": QUESTIONS}
    return asyncio.create_task(client.call_tool("AskUserQuestion", arguments, progress_callback=callback))


@pytest.mark.process
@both_ways
@pytest.mark.parametrize("revision", ALL)
async def test_the_answer_arrives_however_long_the_person_took(
    desk: RunningDesk, folder: Path, way: str, revision: str
) -> None:
    person, heard = Person(desk), Heard()
    async with session(place(desk, folder, way), revision) as client:
        asking = ask(client, heard)
        question = await person.sees()
        assert (question.tool, question.peer) == ("AskUserQuestion", "official 2")
        await heard.sees(lambda: len(heard.progress) >= 10)
        desk.answer(question.id, [Answer(("SQLite",)), Answer(("tests", "lint"), "ok")])
        result = await asking
    assert not result.is_error
    assert "Which database?\n-> SQLite" in text_of(result)
    if revision not in ("2024-11-05", "2025-03-26"):
        assert result.structured_content == ANSWERED
    amounts = [amount for amount, _, _ in heard.progress]
    assert amounts == sorted(set(amounts)) and amounts[-1] < 0.01
    if revision != "2024-11-05":
        assert heard.progress[0][2] == "waiting for an answer on the desk"


@pytest.mark.process
@both_ways
@both_eras
async def test_declined_is_an_outcome_and_not_an_error(
    desk: RunningDesk, folder: Path, way: str, revision: str
) -> None:
    person = Person(desk)
    async with session(place(desk, folder, way), revision) as client:
        asking = ask(client)
        desk.decline((await person.sees()).id, "ask me tomorrow")
        result = await asking
    assert not result.is_error and result.structured_content is not None
    assert result.structured_content["status"] == "declined"
    assert text_of(result) == "The person declined to answer: ask me tomorrow."


@both_eras
async def test_a_question_nobody_answers_times_out(folder: Path, revision: str) -> None:
    async with (
        running_desk(folder, http=True, question_timeout_ms=50) as desk,
        session(place(desk, folder, "http"), revision) as client,
    ):
        result = await ask(client)
        assert desk.questions()[0].state is QuestionState.TIMED_OUT
    assert result.is_error and "No person answered" in text_of(result)


@pytest.mark.process
@both_ways
async def test_a_question_survives_the_saving_of_files(folder: Path, way: str) -> None:
    heard = Heard()
    async with (
        running_desk(folder, http=True, accepts_pumps=True, watch=True) as desk,
        session(place(desk, folder, way), "2025-11-25", heard) as client,
    ):
        person = Person(desk)
        asking = ask(client)
        question = await person.sees()
        save(folder / "tools" / "more.py", "async def more() -> str:\n    return 'more'\n")
        await heard.sees(lambda: heard.has(types.ToolListChangedNotification))
        assert text_of(await client.call_tool("more", {})) == "more"
        desk.answer(question.id, [Answer(("SQLite",)), Answer(("tests", "lint"), "ok")])
        assert (await asking).structured_content == ANSWERED


@pytest.mark.slow
async def test_keys_on_the_screen_answer_a_real_client(desk: RunningDesk, folder: Path) -> None:
    async with (
        running_frame(desk, panes=PANES) as (app, pilot),  # type: ignore[arg-type]
        session(place(desk, folder, "http"), "2025-11-25") as client,
    ):
        asking = ask(client)
        await until(lambda: isinstance(app.screen, QuestionScreen) and app.screen.takes_keys, pilot)
        await pilot.pause()
        await pilot.press("2", "enter", "1", "3", "4", *"ok", "enter", "enter", "enter")
        result = await asking
        assert result.structured_content == ANSWERED
        await until(lambda: not (isinstance(app.screen, QuestionScreen)), pilot)
