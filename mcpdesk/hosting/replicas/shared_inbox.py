"""The inbox of one replica, shared with the others: everybody sees every question, and the first answer wins.

A question is written to the engine when it is asked, and shown by every replica with the name of the one that
asks. Who answers first is decided there by one script, and the replica that asks is told. While the engine is
away, questions of this replica are answered here as if there were no others.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import to_builtins
from msgspec.structs import replace

from mcpdesk.hosting.replicas.engine_questions import ASKED, TOLD, Ending, EngineQuestions, question_of
from mcpdesk.hosting.replicas.living import SAID, LivingReplicas
from mcpdesk.inbox.inbox import Inbox
from mcpdesk.inbox.question import Answer, Page, Question, QuestionState, as_masked
from mcpdesk.recorder.masking import mask_text
from mcpdesk.storage.shared.engine import Engine, EngineAway
from mcpdesk.storage.shared.event_bus import EventBus

PAUSE_S = 0.5
"""Time between two attempts to write while the engine does not take it."""
LEAVING_S = 2.0
"""How long what is under way may take at the end."""
GRACE_S = 2.0
"""How long a question is shown on that the engine does not have: when it lost its data, it is told again."""
MOST_SHOWN = 2_000
"""Questions of other replicas that are shown at a time."""
OTHER_DESK = "another desk"
"""Who asks where the desk of another replica calls a tool: it is not a call of the desk that sees it."""
OVER = 0
"""Stands for our number of a question that was over before it was shown."""
SHOWN_TEXT = 2_000
"""Characters of an answer that the others are told."""
SHOWN_BYTES = 16 << 10
"""Bytes of an ended question that they are told; with more, its answers are left out."""

log = logging.getLogger(__name__)


class SharedInbox:
    """Implements `Answering` for a replica. Used on the core's loop."""

    def __init__(
        self, inbox: Inbox, engine: Engine, bus: EventBus, living: LivingReplicas, *, masks: bool = False
    ) -> None:
        """With `masks` nothing secret in a question leaves this replica."""
        self._inbox, self._living, self._bus = inbox, living, bus
        self._questions = EngineQuestions(engine, bus)
        self._masks = masks
        self._me = inbox.mark = living.me.id
        self._numbers: dict[tuple[str, int], int] = {}
        """Our numbers of the questions of others, by replica and number there."""
        self._places: dict[int, tuple[str, int]] = {}
        """The same the other way round."""
        self._written: set[int] = set()
        """Questions of ours that the engine has."""
        self._due: dict[int, Question] = {}
        """Those of which it is to be told, as they are now."""
        self._decided: set[int] = set()
        """Those whose end it knows already."""
        self._known_replicas: frozenset[str] = frozenset()
        self._chores: set[asyncio.Task[None]] = set()
        self._sender_aio: asyncio.Task[None] | None = None
        self._over = asyncio.Event()
        inbox.answering = self
        inbox.subscribe(self._note)
        inbox.on_audience = lambda: self._do(self._tell_of_people())
        bus.listen(TOLD, self._hear)
        engine.on_back.append(self._begin_again)
        living.on_change.append(self._follow_replicas)

    def start(self) -> None:
        """Show what waits at the others."""
        self._follow_replicas()

    async def close(self) -> None:
        """Tell the others that nothing of this replica waits any more."""
        self._over.set()
        left = [*self._chores, *([self._sender_aio] if self._sender_aio else [])]
        if left:  # a command that is cancelled would leave its connection open
            await asyncio.wait(left, timeout=LEAVING_S)
        try:
            await self._questions.forget(self._me)
        except EngineAway as error:
            log.info("the questions of this replica end with its lease: %s", error)

    # Answers

    async def answer(self, id: int, answers: Sequence[Answer], by: str = "desk") -> bool:
        """As `Answering` has it."""
        from mcpdesk.inbox.answers import fitting  # what bounds answers may have is known when there is one

        question = self._inbox.waiting(id)
        if question is None:
            return False
        checked = fitting(question.pages, answers)
        return await self._end(question, QuestionState.ANSWERED, by, answers=checked)

    async def decline(self, id: int, reason: str = "", by: str = "desk") -> bool:
        """As `Answering` has it."""
        question = self._inbox.waiting(id)
        return question is not None and await self._end(question, QuestionState.DECLINED, by, reason=reason)

    async def cancel(self, id: int, by: str = "desk") -> bool:
        """As `Answering` has it."""
        question = self._inbox.waiting(id)
        if question is None or not question.may_cancel:
            return False
        return await self._end(question, QuestionState.CANCELLED, by)

    async def _end(
        self,
        question: Question,
        state: QuestionState,
        by: str,
        answers: tuple[Answer, ...] = (),
        reason: str = "",
    ) -> bool:
        place = self._places.get(question.id)
        if place is not None:
            by = f"{by} at {self._living.me.name}"
        ended = replace(
            question, state=state, answers=answers, reason=reason, answered_by=by, ended=time.time()
        )
        if place is None:
            return await self._end_own(ended)
        won = await self._questions.end(*place, Ending.ANOTHER, _token(), ended, self._told(ended))
        if won:
            self._inbox.show(ended)  # how it ended for the others is heard, if they were first
        return won

    async def _end_own(self, ended: Question) -> bool:
        number = ended.id
        if number in self._written:
            try:
                won = await self._questions.end(
                    self._me, number, Ending.OWN, _token(), ended, self._told(ended)
                )
            except EngineAway as error:
                log.warning("a question is answered here alone: %s", error)
            else:
                if not won:
                    await self._take(number)
                    return False
                self._decided.add(number)
        is_ours = self._inbox.end(
            number, ended.state, answers=ended.answers, reason=ended.reason, by=ended.answered_by
        )
        self._decided.discard(number)
        return is_ours

    async def _take(self, number: int) -> None:
        """Take how a question of ours was ended elsewhere."""
        ended = await self._questions.ended(self._me, number)
        question = self._inbox.waiting(number)
        if ended is None or question is None:
            return
        self._decided.add(number)
        answers = _in_own_words(question.pages, ended)
        self._inbox.end(number, ended.state, answers=answers, reason=ended.reason, by=ended.answered_by)
        await self._questions.taken(self._me, number)

    # Questions of this replica

    def _note(self, question: Question) -> None:
        number = question.id
        if question.replica or number in self._places:
            return
        is_waiting = question.state is QuestionState.WAITING
        if number in self._decided:
            self._decided.discard(number)
            self._written.discard(number)
        elif is_waiting or number in self._written:
            self._due[number] = question
        else:
            self._due.pop(number, None)  # it ended before anybody was told
        if self._due and self._sender_aio is None:
            self._sender_aio = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        try:
            while self._due and not self._over.is_set():
                number, question = next(iter(self._due.items()))
                try:
                    await self._tell(number, question)
                except EngineAway:
                    await self._pause(PAUSE_S)
                else:
                    if self._due.get(number) is question:
                        del self._due[number]
        finally:
            self._sender_aio = None

    async def _tell(self, number: int, question: Question) -> None:
        """Tell the engine how a question stands. Raises: EngineAway."""
        if question.state is QuestionState.WAITING:
            self._written.add(number)  # it may be there although no answer came
            life_s = question.deadline - time.time()
            await self._questions.write(self._public(question), self._me, number, max(0.0, life_s))
            return
        told = self._told(question)
        await self._questions.end(self._me, number, Ending.CLOSED, _token(), question, told)
        self._written.discard(number)

    def _public(self, question: Question) -> Question:
        """A question as the others see it."""
        # A connection has a number at its own replica only.
        peer = OTHER_DESK if question.peer == "desk" else question.peer
        shown = replace(question, replica=self._living.me.name, connection=0, peer=peer)
        if not self._masks:
            return shown
        return as_masked(shown, msgspec.convert(_masked(to_builtins(shown)), Question))

    def _told(self, ended: Question) -> Question:
        """What the others are told of an end: they have the pages."""
        shown = self._public(replace(ended, pages=(), answers=tuple(map(_shortened, ended.answers))))
        if len(msgspec.msgpack.encode(shown)) > SHOWN_BYTES:
            shown = replace(shown, answers=(), reason=shown.reason[:SHOWN_TEXT])
        return shown

    async def _tell_of_people(self) -> None:
        await self._living.say(people=self._inbox.audience)
        self._bus.tell(SAID)

    # Questions of others

    def _hear(self, facts: Mapping[str, Any]) -> None:
        replica, number = facts["replica"], facts["number"]
        if facts["what"] == ASKED:
            self._do(self._read(replica, number))
        elif replica == self._me:
            self._do(self._take(number))
        elif (ended := question_of(facts["question"])) is not None:
            self._show_end(replica, number, ended)

    async def _read(self, replica: str, number: int) -> None:
        if replica not in self._living.others:
            await self._living.renew()  # one that has come just now
        question = await self._questions.read(replica, number)
        if question is not None and replica in self._living.others:
            self._show(replica, number, question)

    def _show(self, replica: str, number: int, question: Question) -> None:
        place = (replica, number)
        if place in self._numbers:
            return
        if len(self._numbers) >= MOST_SHOWN:
            self._forget_ended()
        if len(self._numbers) < MOST_SHOWN:
            self._numbers[place] = shown = self._inbox.show(replace(question, id=0))
            self._places[shown] = place

    def _show_end(self, replica: str, number: int, ended: Question) -> None:
        """Show how a question ended, also if that is told once more and otherwise."""
        shown = self._numbers.setdefault((replica, number), OVER)
        known = next((each for each in self._inbox.questions() if each.id == shown), None)
        if known is not None:
            told = replace(ended, id=shown, pages=known.pages, replica=known.replica, origin=known.origin)
            self._inbox.show(told)

    def _forget_ended(self) -> None:
        for place, shown in list(self._numbers.items()):
            if self._inbox.waiting(shown) is None:
                del self._numbers[place]
                self._places.pop(shown, None)

    async def _read_all(self, replica: str) -> None:
        for number, question in (await self._questions.of(replica)).items():
            self._show(replica, number, question)

    def _follow_replicas(self) -> None:
        """Show what waits at those that came, and soon nothing of those that are gone."""
        others = self._living.others
        self._inbox.audience_elsewhere = sum(each.people for each in others.values())
        for replica in others.keys() - self._known_replicas:
            self._do(self._read_all(replica))
        if others.keys() != self._known_replicas:
            self._do(self._clear())
        self._known_replicas = frozenset(others)

    async def _clear(self) -> None:
        """Show what does not wait any more as over, also if nobody said so."""
        await self._pause(GRACE_S)
        shown = [place for place, number in self._numbers.items() if self._inbox.waiting(number)]
        for replica in {replica for replica, _ in shown}:
            is_alive = replica in self._living.others
            waiting = await self._questions.of(replica) if is_alive else {}
            reason = "it is over" if is_alive else "its replica is gone"
            for place in shown:
                if place[0] == replica and place[1] not in waiting and place in self._numbers:
                    self._withdraw(place, reason)

    def _withdraw(self, place: tuple[str, int], reason: str) -> None:
        """Show a question as over; it is shown again should its replica come back with it."""
        shown = self._numbers.pop(place)
        self._places.pop(shown, None)
        question = self._inbox.waiting(shown)
        if question is not None:
            over = replace(question, state=QuestionState.WITHDRAWN, reason=reason, ended=time.time())
            self._inbox.show(over)

    def _begin_again(self) -> None:
        """The engine is back, perhaps without what it had: tell it of what waits here, and read the rest."""
        for question in self._inbox.questions():
            if question.state is QuestionState.WAITING and not question.replica:
                self._do(self._take(question.id))
                self._note(question)
        self._known_replicas = frozenset()
        self._follow_replicas()

    async def _pause(self, seconds: float) -> None:
        """Wait, but not beyond the end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()

    def _do(self, work: Coroutine[Any, Any, object]) -> None:
        """Do something with the engine soon. What fails as it is away is made up for when it is back."""

        async def attempt() -> None:
            try:
                await work
            except EngineAway as error:
                log.info("questions are not told: %s", error)

        chore = asyncio.get_running_loop().create_task(attempt())
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)


def _token() -> str:
    """What tells one attempt to end a question from another."""
    return os.urandom(8).hex()


def _masked(value: Any) -> Any:
    """The same value with what is secret in its texts masked."""
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, dict):
        return {key: _masked(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(each) for each in value]
    return value


def _shortened(answer: Answer) -> Answer:
    return replace(answer, other=answer.other[:SHOWN_TEXT])


def _in_own_words(pages: Sequence[Page], ended: Question) -> tuple[Answer, ...]:
    """Answers to pages of which others may have seen a masked copy."""
    return tuple(_in_words_of(*each) for each in zip(pages, ended.pages, ended.answers, strict=False))


def _in_words_of(page: Page, seen: Page, answer: Answer) -> Answer:
    own = [option.label for option in page.options]
    labels = dict(zip((option.label for option in seen.options), own, strict=False))
    labels |= {label: label for label in own}  # what others may answer can be less
    is_default = answer.other == seen.default.other
    return Answer(
        tuple(labels.get(each, each) for each in answer.selected),
        page.default.other if is_default else answer.other,
    )
