"""Questions are answered the same way at one core and at replicas: each test runs over both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from mcpdesk.errors import StorageError
from mcpdesk.features.replicas.engine.engine import Engine
from mcpdesk.features.replicas.engine.event_bus import EventBus
from mcpdesk.features.replicas.group import shared_inbox
from mcpdesk.features.replicas.group.engine_questions import Ending, EngineQuestions
from mcpdesk.features.replicas.group.living import LiveReplicas
from mcpdesk.features.replicas.group.shared_inbox import SharedInbox
from mcpdesk.inbox.inbox import Answering, Inbox
from mcpdesk.inbox.question import Answer, Option, Page, Question, QuestionState
from tests.support.engine import EngineServer, deployment, engine_server, needs_engine, shared_engine
from tests.support.patience import in_time, until

__all__ = ["shared_engine"]

COLOUR = Page("Which colour?", "Paint", (Option("red"), Option("blue", "like the sea")))
RED, BLUE = [Answer(("red",))], [Answer(("blue",))]

Asked = tuple[int, asyncio.Future[Question]]


class Seat:
    """A place where a person answers: an inbox, and the object that answers its questions."""

    def __init__(self, inbox: Inbox, answering: Answering) -> None:
        self.inbox, self.answering = inbox, answering

    def ask(self, page: Page = COLOUR, timeout_s: float = 60.0, may_cancel: bool = False) -> Asked:
        """Ask from here."""
        return self.inbox.ask(
            server="s", peer="p", tool="t", pages=[page], timeout_s=timeout_s, may_cancel=may_cancel
        )

    def with_text(self, text: str, *states: QuestionState) -> Question | None:
        """The question of that text, in one of these states."""
        wanted = states or (QuestionState.WAITING,)
        found = (each for each in self.inbox.questions() if each.pages[0].question == text)
        return next((each for each in found if each.state in wanted), None)

    async def sees(self, text: str = COLOUR.question, *states: QuestionState) -> Question:
        """The same once it is shown here."""
        await until(lambda: self.with_text(text, *states))
        found = self.with_text(text, *states)
        assert found is not None
        return found


class ReplicaSeat(Seat):
    """One of several replicas."""

    shared: SharedInbox
    living: LiveReplicas


@asynccontextmanager
async def replica(url: str, deployment: str, name: str, *, masks: bool = False) -> AsyncIterator[ReplicaSeat]:
    """A replica with a separate connection to the engine."""
    engine, inbox = Engine(url, deployment), Inbox()
    living = LiveReplicas(engine)
    bus = EventBus(engine, living.me.id)
    shared = SharedInbox(inbox, engine, bus, living, masks=masks)
    await engine.start()
    await bus.start()
    await living.start()
    await living.update(name=name)
    shared.start()
    seat = ReplicaSeat(inbox, shared)
    seat.shared, seat.living = shared, living
    try:
        yield seat
    finally:
        for question in inbox.questions():
            inbox.withdraw(question.id, "over")
        await shared.close()
        await living.close()
        await bus.close()
        await engine.close()


@asynccontextmanager
async def two_replicas(url: str, deployment: str, *, masks: bool = False) -> AsyncIterator[list[ReplicaSeat]]:
    """Two that know each other."""
    async with AsyncExitStack() as stack:
        seats = [
            await stack.enter_async_context(replica(url, deployment, name, masks=masks))
            for name in ("web-1", "web-2")
        ]
        for seat in seats:
            await seat.living.renew()
        yield seats


@pytest.fixture(params=["inbox", pytest.param("engine", marks=needs_engine)])
async def seats(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[Seat]]:
    """Seat of the asking process, and seat of another person; within one core both are the same."""
    if request.param == "engine":
        server: EngineServer = request.getfixturevalue("shared_engine")
        async with two_replicas(server.url, deployment(tmp_path)) as two:
            yield list(two)
    else:
        inbox = Inbox()
        seat = Seat(inbox, inbox.answering)
        yield [seat, seat]
        for question in inbox.questions():
            inbox.withdraw(question.id, "over")


async def outcome(asked: Asked) -> Question:
    """Final state of a question for its sender."""
    return await in_time(asked[1])


@pytest.mark.process
async def test_what_is_asked_here_is_seen_and_answered_there(seats: list[Seat]) -> None:
    here, there = seats
    asked = here.ask()
    shown = await there.sees()
    assert (shown.pages, shown.server, shown.peer, shown.tool) == ((COLOUR,), "s", "p", "t")
    assert await there.answering.answer(shown.id, [Answer(("blue",))], by="ada")
    ended = await outcome(asked)
    assert (ended.state, ended.answers) == (QuestionState.ANSWERED, (Answer(("blue",)),))
    assert ended.answered_by.startswith("ada")
    for seat in seats:
        seen = await seat.sees(COLOUR.question, QuestionState.ANSWERED)
        assert (seen.answers, seen.answered_by) == (ended.answers, ended.answered_by)


@pytest.mark.process
async def test_the_first_of_several_answers_wins_wherever_they_are_given(seats: list[Seat]) -> None:
    here, there = seats
    for number in range(10):
        page = Page(f"Number {number}?")
        asked, shown = here.ask(page), (await there.sees(page.question)).id
        tries: list[Awaitable[bool]] = [
            here.answering.answer(asked[0], [Answer(other="of here")]),
            there.answering.answer(shown, [Answer(other="of there")]),
            there.answering.answer(shown, [Answer(other="of there")]),
            there.answering.decline(shown, "no"),
            here.answering.decline(asked[0], "no"),
        ]
        order = tries[number % 5 :] + tries[: number % 5]
        won = await asyncio.gather(*order)
        assert won.count(True) == 1
        winner = (won.index(True) + number) % 5
        ended = await outcome(asked)
        wanted = ["of here", "of there", "of there", "", ""][winner]
        assert [answer.other for answer in ended.answers] == [wanted] * bool(wanted)
        for seat in seats:
            assert (await seat.sees(page.question, ended.state)).answers == ended.answers
        assert not await there.answering.answer(shown, [Answer(other="late")])


@pytest.mark.process
async def test_an_answer_that_does_not_fit_is_refused_and_the_question_goes_on(seats: list[Seat]) -> None:
    here, there = seats
    asked, shown = (
        here.ask(Page("Which?", options=(Option("a"),), own_words=False)),
        await there.sees("Which?"),
    )
    with pytest.raises(ValueError, match="'b' is not an option"):
        await there.answering.answer(shown.id, [Answer(("b",))])
    assert not asked[1].done()
    assert await there.answering.answer(shown.id, [Answer(("a",))])
    assert (await outcome(asked)).answers == (Answer(("a",)),)


@pytest.mark.process
async def test_it_is_declined_and_cancelled_from_elsewhere(seats: list[Seat]) -> None:
    here, there = seats
    declined, cancelled = here.ask(Page("One?")), here.ask(Page("Two?"), may_cancel=True)
    one, two = await there.sees("One?"), await there.sees("Two?")
    assert not await there.answering.cancel(one.id)
    assert await there.answering.decline(one.id, "not today")
    assert await there.answering.cancel(two.id)
    assert (await outcome(declined)).reason == "not today"
    assert (await outcome(cancelled)).state is QuestionState.CANCELLED


@pytest.mark.process
async def test_a_question_that_nobody_waits_for_any_more_goes_everywhere(seats: list[Seat]) -> None:
    here, there = seats
    late, left = here.ask(Page("Late?"), timeout_s=0.3), here.ask(Page("Left?"))
    shown = [await there.sees("Late?"), await there.sees("Left?")]
    here.inbox.withdraw(left[0], "the client disconnected")
    assert (await there.sees("Late?", QuestionState.TIMED_OUT)).answers == ()
    assert (await there.sees("Left?", QuestionState.WITHDRAWN)).reason == "the client disconnected"
    assert (await outcome(late)).state is QuestionState.TIMED_OUT
    for each in shown:
        assert not await there.answering.answer(each.id, [Answer(other="x")])
        assert not await there.answering.decline(each.id)


@pytest.mark.slow
async def test_questions_are_known_by_who_looks_wherever(seats: list[Seat]) -> None:
    here, there = seats
    assert here.inbox.people == 0
    there.inbox.attend(1)
    await until(lambda: here.inbox.people == 1)
    there.inbox.attend(-1)
    await until(lambda: here.inbox.people == 0)


# Replicas


@pytest.mark.slow
@needs_engine
async def test_a_question_of_a_replica_bears_its_name_and_nothing_of_it_stays_when_that_ends(
    shared_engine: EngineServer, tmp_path: Path
) -> None:
    name = deployment(tmp_path)
    async with replica(shared_engine.url, name, "web-2") as there:
        async with replica(shared_engine.url, name, "web-1") as here:
            here.inbox.ask(server="s", peer="desk", tool="t", pages=[COLOUR], timeout_s=60.0)
            shown = await there.sees()
            assert (shown.core, shown.peer) == ("web-1", "another desk")
            async with replica(shared_engine.url, name, "web-3") as late:
                assert (await late.sees()).core == "web-1"
        assert (await there.sees(COLOUR.question, QuestionState.WITHDRAWN)).reason
    assert f"{{{name}}}:questions" not in shared_engine.ask("KEYS", f"{{{name}}}:*")


@pytest.mark.slow
@needs_engine
async def test_those_of_a_dead_replica_go_and_cannot_be_answered(
    shared_engine: EngineServer, tmp_path: Path
) -> None:
    async with two_replicas(shared_engine.url, deployment(tmp_path)) as (here, there):
        asked = here.ask()
        shown = await there.sees()
        here.living._renew_task.cancel()  # type: ignore[union-attr]
        key = f"{{{deployment(tmp_path)}}}:leases"
        shared_engine.ask("ZADD", key, "0", here.living.me.id)
        with pytest.raises(StorageError, match="web-1, which asked the question, does not respond"):
            await there.answering.answer(shown.id, BLUE)
        gone = await there.sees(COLOUR.question, QuestionState.WITHDRAWN)
        assert gone.reason == "its replica is lost"
        assert not asked[1].done()
        await here.living.renew()  # it was only slow
        again = await there.sees()
        assert await there.answering.answer(again.id, RED)
        assert (await outcome(asked)).answers == tuple(RED)


@pytest.mark.process
@needs_engine
async def test_while_the_engine_is_away_questions_are_answered_where_they_were_asked(tmp_path: Path) -> None:
    with engine_server() as server:
        async with two_replicas(server.url, deployment(tmp_path)) as (here, there):
            asked, other = here.ask(), here.ask(Page("Other?"))
            shown, others = await there.sees(), await there.sees("Other?")
            server.kill()
            with pytest.raises(StorageError, match="cannot be used"):
                await there.answering.answer(shown.id, BLUE)
            assert there.with_text(COLOUR.question)
            assert await here.answering.answer(asked[0], RED)
            assert (await outcome(asked)).answers == tuple(RED)
            new = here.ask(Page("New?"))
            server.start()  # with nothing of what it had
            assert (await there.sees("New?")).core == "web-1"
            await there.sees(COLOUR.question, QuestionState.ANSWERED, QuestionState.WITHDRAWN)
            assert there.with_text("Other?") == others
            prefix, me = f"{{{deployment(tmp_path)}}}", here.living.me.id
            await until(lambda: "Other?" in server.ask("HGETALL", f"{prefix}:questions:{me}"))
            await until(lambda: me in server.ask("ZRANGE", f"{prefix}:leases", "0", "-1"))
            assert await there.answering.answer(others.id, [Answer(other="yes")])
            assert (await outcome(other)).answers == (Answer(other="yes"),)
            assert await here.answering.answer(new[0], [Answer(other="no")])


@pytest.mark.process
@needs_engine
async def test_an_answer_is_taken_that_was_given_while_its_replica_was_cut_off(
    shared_engine: EngineServer, tmp_path: Path
) -> None:
    name = deployment(tmp_path)
    async with two_replicas(shared_engine.url, name) as (here, there):
        asked, shown = here.ask(), await there.sees()
        bus = here.shared._bus
        assert bus._reader_task is not None
        bus._reader_task.cancel()  # it receives nothing from now on
        assert await there.answering.answer(shown.id, BLUE)
        assert not asked[1].done()
        here.shared._begin_again()  # as when the engine is back
        assert (await outcome(asked)).answers == tuple(BLUE)


@pytest.mark.process
@needs_engine
async def test_questions_that_are_over_make_room_for_those_of_other_replicas(
    shared_engine: EngineServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_inbox, "MAX_SHOWN_QUESTIONS", 1)
    async with two_replicas(shared_engine.url, deployment(tmp_path)) as (here, there):
        for page in (COLOUR, Page("Which size?", "Paint", COLOUR.options)):
            asked = here.ask(page)
            shown = await there.sees(page.question)
            assert await there.answering.answer(shown.id, BLUE, by="ada")
            await outcome(asked)
            await there.sees(page.question, QuestionState.ANSWERED)


@pytest.mark.process
@needs_engine
async def test_an_end_that_is_told_twice_is_one(shared_engine: EngineServer, tmp_path: Path) -> None:
    async with two_replicas(shared_engine.url, deployment(tmp_path)) as (here, there):
        here.ask()
        shown = await there.sees()
        questions: EngineQuestions = there.shared._questions
        replica, number = there.shared._origins[shown.id]
        for token, first in (("one", True), ("two", False), ("one", True)):
            assert await questions.end(replica, number, Ending.ANOTHER, token, shown, shown) is first


@pytest.mark.process
@needs_engine
async def test_secrets_are_masked_on_the_way_and_options_are_chosen_all_the_same(
    shared_engine: EngineServer, tmp_path: Path
) -> None:
    name = deployment(tmp_path)
    secret = "password=hunter2-and-more"
    page = Page(f"Use {secret}?", options=(Option(secret), Option("none")), detail=f"as {secret}")
    async with two_replicas(shared_engine.url, name, masks=True) as (here, there):
        asked = here.ask(page)
        await until(there.inbox.questions)
        (shown,) = there.inbox.questions()
        assert "hunter2" not in str(shown)
        key = f"{{{name}}}:questions:{here.living.me.id}"
        assert "hunter2" not in shared_engine.ask("HGETALL", key)
        chosen = shown.pages[0].options[0].label
        assert await there.answering.answer(shown.id, [Answer((chosen,))])
        assert (await outcome(asked)).answers == (Answer((secret,)),)
        own = Page("And what?")
        asked = here.ask(own)
        shown = await there.sees(own.question)
        assert await there.answering.answer(shown.id, [Answer(other=secret)])
        assert (await outcome(asked)).answers == (Answer(other=secret),)
        end = f"{{{name}}}:question-end:{here.living.me.id}:{asked[0]}"
        await until(lambda: "hunter2" not in shared_engine.ask("HGETALL", end))
