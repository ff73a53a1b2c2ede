"""Inbox that several replicas share. Each replica shows the questions of all, and the first answer counts.

A replica writes its question to the engine. Every replica shows the question, with the name of the replica
that asked. A script in the engine decides which answer was first, and the replica that asked is notified.
While the engine cannot be reached, each replica shows and answers only its own questions.
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

from mcpdesk.features.replicas.engine.engine import Engine, EngineUnavailable
from mcpdesk.features.replicas.engine.event_bus import EventBus
from mcpdesk.features.replicas.group.engine_questions import (
    ASKED,
    QUESTION_EVENT,
    Ending,
    EngineQuestions,
    decoded_question,
)
from mcpdesk.features.replicas.group.living import REPLICA_CHANGED, LiveReplicas
from mcpdesk.inbox.inbox import Inbox
from mcpdesk.inbox.question import Answer, Page, Question, QuestionState, as_masked
from mcpdesk.recorder.masking import mask_text

PAUSE_S = 0.5
"""Seconds between two attempts to write to the engine."""
CLOSE_TIMEOUT_S = 2.0
"""Maximum number of seconds for which running work may continue when the inbox closes."""
GRACE_S = 2.0
"""Seconds for which a question that the engine has lost is still shown, because its replica may write it
again."""
MAX_SHOWN_QUESTIONS = 2_000
"""Maximum number of questions of other replicas that are shown at a time."""
OTHER_DESK = "another desk"
"""Name of the caller in a question, if the desk of another replica called the tool."""
ENDED_NUMBER = 0
"""Local number of a question that ended before this replica could show it."""
MAX_ANSWER_LENGTH = 2_000
"""Maximum length in characters of an answer that is sent to other replicas."""
MAX_QUESTION_BYTES = 16 << 10
"""Maximum size in bytes of an ended question that is sent to other replicas.

A larger one is sent without answers.
"""

log = logging.getLogger(__name__)


class SharedInbox:
    """Answers questions of all replicas (implements `Answering`). Use it on the core's loop."""

    def __init__(
        self, inbox: Inbox, engine: Engine, bus: EventBus, living: LiveReplicas, *, masks: bool = False
    ) -> None:
        """If `masks`, secrets in a question are masked before it is sent to other replicas."""
        self._inbox, self._living, self._bus = inbox, living, bus
        self._questions = EngineQuestions(engine, bus)
        self._masks = masks
        self._own_id = inbox.mark = living.me.id
        self._local_numbers: dict[tuple[str, int], int] = {}
        """Local numbers of the questions of other replicas, by replica and number at that replica."""
        self._origins: dict[int, tuple[str, int]] = {}
        """Reverse of `_local_numbers`."""
        self._written: set[int] = set()
        """Numbers of this replica's questions that are or may be in the engine."""
        self._unwritten: dict[int, Question] = {}
        """Questions of this replica that must be written to the engine."""
        self._decided: set[int] = set()
        """Numbers of this replica's questions that are being ended here, after the engine has recorded their
        end.
        """
        self._known_replicas: frozenset[str] = frozenset()
        self._chores: set[asyncio.Task[None]] = set()
        self._sender_task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        inbox.answering = self
        inbox.subscribe(self._on_question)
        inbox.on_audience = lambda: self._start_chore(self._publish_people())
        bus.listen(QUESTION_EVENT, self._on_question_event)
        engine.on_available.append(self._begin_again)
        living.on_change.append(self._follow_replicas)

    def start(self) -> None:
        """Show the waiting questions of the other replicas."""
        self._follow_replicas()

    async def close(self) -> None:
        """Remove the questions of this replica from the engine."""
        self._closing.set()
        tasks = set(self._chores)
        if self._sender_task is not None:
            tasks.add(self._sender_task)
        if tasks:  # cancelling a command would leave its connection open
            await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT_S)
        try:
            await self._questions.forget(self._own_id)
        except EngineUnavailable as error:
            log.info("the questions of this replica cannot be deleted and expire later: %s", error)

    # Answers

    async def answer(self, id: int, answers: Sequence[Answer], by: str = "desk") -> bool:
        """Implement `Answering.answer`."""
        from mcpdesk.inbox.answers import checked_answers  # loaded with the first answer

        question = self._inbox.waiting_question(id)
        if question is None:
            return False
        checked = checked_answers(question.pages, answers)
        return await self._end(question, QuestionState.ANSWERED, by, answers=checked)

    async def decline(self, id: int, reason: str = "", by: str = "desk") -> bool:
        """Implement `Answering.decline`."""
        question = self._inbox.waiting_question(id)
        return question is not None and await self._end(question, QuestionState.DECLINED, by, reason=reason)

    async def cancel(self, id: int, by: str = "desk") -> bool:
        """Implement `Answering.cancel`."""
        question = self._inbox.waiting_question(id)
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
        """End a question of this or another replica. Return False if it has already ended."""
        origin = self._origins.get(question.id)
        if origin is not None:
            by = f"{by} at {self._living.me.name}"
        ended = replace(
            question, state=state, answers=answers, reason=reason, answered_by=by, ended=time.time()
        )
        if origin is None:
            return await self._end_own(ended)
        is_first = await self._questions.end(
            *origin, Ending.ANOTHER, _token(), ended, self._shortened_end(ended)
        )
        if is_first:
            self._inbox.show(ended)  # otherwise the event of the first answer shows the end
        return is_first

    async def _end_own(self, ended: Question) -> bool:
        """End a question of this replica. Return False if it has already ended."""
        number = ended.id
        if number in self._written:
            try:
                is_first = await self._questions.end(
                    self._own_id, number, Ending.OWN, _token(), ended, self._shortened_end(ended)
                )
            except EngineUnavailable as error:
                log.warning("a question is answered on this replica only: %s", error)
            else:
                if not is_first:
                    await self._end_as_decided(number)
                    return False
                self._decided.add(number)
        has_ended = self._inbox.end(
            number, ended.state, answers=ended.answers, reason=ended.reason, by=ended.answered_by
        )
        self._decided.discard(number)
        return has_ended

    async def _end_as_decided(self, number: int) -> None:
        """End a question of this replica with the answer that another replica wrote to the engine."""
        ended = await self._questions.read_ended(self._own_id, number)
        question = self._inbox.waiting_question(number)
        if ended is None or question is None:
            return
        self._decided.add(number)
        answers = _with_own_labels(question.pages, ended)
        self._inbox.end(number, ended.state, answers=answers, reason=ended.reason, by=ended.answered_by)
        await self._questions.delete_answer(self._own_id, number)

    # Questions of this replica

    def _on_question(self, question: Question) -> None:
        """Schedule a write of a new or ended question of this replica."""
        number = question.id
        if question.core or number in self._origins:
            return
        is_waiting = question.state is QuestionState.WAITING
        if number in self._decided:
            self._decided.discard(number)
            self._written.discard(number)
        elif is_waiting or number in self._written:
            self._unwritten[number] = question
        else:
            self._unwritten.pop(number, None)  # the question ended before it was written
        if self._unwritten and self._sender_task is None:
            self._sender_task = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        """Write the questions in `_unwritten` to the engine. Retry until the engine accepts them."""
        try:
            while self._unwritten and not self._closing.is_set():
                number, question = next(iter(self._unwritten.items()))
                try:
                    await self._write(number, question)
                except EngineUnavailable:
                    await self._pause(PAUSE_S)
                else:
                    if self._unwritten.get(number) is question:
                        del self._unwritten[number]
        finally:
            self._sender_task = None

    async def _write(self, number: int, question: Question) -> None:
        """Write the state of a question to the engine. Raises: EngineUnavailable."""
        if question.state is QuestionState.WAITING:
            self._written.add(number)  # the question may have been written even if no reply arrived
            remaining_s = max(0.0, question.deadline - time.time())
            await self._questions.write(self._public_version(question), self._own_id, number, remaining_s)
            return
        shortened = self._shortened_end(question)
        await self._questions.end(self._own_id, number, Ending.CLOSED, _token(), question, shortened)
        self._written.discard(number)

    def _public_version(self, question: Question) -> Question:
        """Return the version of a question that other replicas may see."""
        # A connection number is valid only at its own replica.
        peer = OTHER_DESK if question.peer == "desk" else question.peer
        public = replace(question, core=self._living.me.name, connection=0, peer=peer)
        if not self._masks:
            return public
        return as_masked(public, msgspec.convert(_masked(to_builtins(public)), Question))

    def _shortened_end(self, ended: Question) -> Question:
        """Return the version of an ended question that is sent to other replicas.

        The other replicas already have its pages.
        """
        shortened = self._public_version(
            replace(ended, pages=(), answers=tuple(map(_shortened, ended.answers)))
        )
        if len(msgspec.msgpack.encode(shortened)) > MAX_QUESTION_BYTES:
            shortened = replace(shortened, answers=(), reason=shortened.reason[:MAX_ANSWER_LENGTH])
        return shortened

    async def _publish_people(self) -> None:
        await self._living.update(people=self._inbox.audience)
        self._bus.publish(REPLICA_CHANGED)

    # Questions of other replicas

    def _on_question_event(self, facts: Mapping[str, Any]) -> None:
        replica, number = facts["replica"], facts["number"]
        if facts["what"] == ASKED:
            self._start_chore(self._read(replica, number))
        elif replica == self._own_id:
            self._start_chore(self._end_as_decided(number))
        elif (ended := decoded_question(facts["question"])) is not None:
            self._show_end(replica, number, ended)

    async def _read(self, replica: str, number: int) -> None:
        if replica not in self._living.others:
            await self._living.renew()  # the replica that asked may have joined just now
        question = await self._questions.read(replica, number)
        if question is not None and replica in self._living.others:
            self._show(replica, number, question)

    def _show(self, replica: str, number: int, question: Question) -> None:
        origin = (replica, number)
        if origin in self._local_numbers:
            return
        if len(self._local_numbers) >= MAX_SHOWN_QUESTIONS:
            self._forget_ended()
        if len(self._local_numbers) < MAX_SHOWN_QUESTIONS:
            self._local_numbers[origin] = local_number = self._inbox.show(replace(question, id=0))
            self._origins[local_number] = origin

    def _show_end(self, replica: str, number: int, ended: Question) -> None:
        """Show the end of a question of another replica. A later event may replace this end."""
        local_number = self._local_numbers.setdefault((replica, number), ENDED_NUMBER)
        shown = next((each for each in self._inbox.questions() if each.id == local_number), None)
        if shown is not None:
            self._inbox.show(
                replace(ended, id=local_number, pages=shown.pages, core=shown.core, origin=shown.origin)
            )

    def _forget_ended(self) -> None:
        for origin, number in list(self._local_numbers.items()):
            if self._inbox.waiting_question(number) is None:
                del self._local_numbers[origin]
                self._origins.pop(number, None)

    async def _read_all(self, replica: str) -> None:
        for number, question in (await self._questions.waiting_of(replica)).items():
            self._show(replica, number, question)

    def _follow_replicas(self) -> None:
        """Show the questions of replicas that joined, and end those of replicas that left."""
        others = self._living.others
        self._inbox.audience_elsewhere = sum(each.people for each in others.values())
        for replica in others.keys() - self._known_replicas:
            self._start_chore(self._read_all(replica))
        if others.keys() != self._known_replicas:
            self._start_chore(self._withdraw_lost_questions())
        self._known_replicas = frozenset(others)

    async def _withdraw_lost_questions(self) -> None:
        """Withdraw the questions that their replica no longer has, for example because an event was lost."""
        await self._pause(GRACE_S)
        waiting_origins = [
            origin for origin, number in self._local_numbers.items() if self._inbox.waiting_question(number)
        ]
        for replica in {replica for replica, _ in waiting_origins}:
            is_alive = replica in self._living.others
            stored = await self._questions.waiting_of(replica) if is_alive else {}
            reason = "it has already ended" if is_alive else "its replica is lost"
            for origin in waiting_origins:
                origin_replica, number = origin
                if origin_replica == replica and number not in stored and origin in self._local_numbers:
                    self._withdraw(origin, reason)

    def _withdraw(self, origin: tuple[str, int], reason: str) -> None:
        """Mark a question of another replica as withdrawn.

        If that replica publishes the question again, it is shown again.
        """
        number = self._local_numbers.pop(origin)
        self._origins.pop(number, None)
        question = self._inbox.waiting_question(number)
        if question is not None:
            withdrawn = replace(question, state=QuestionState.WITHDRAWN, reason=reason, ended=time.time())
            self._inbox.show(withdrawn)

    def _begin_again(self) -> None:
        """Write this replica's waiting questions again, and read those of other replicas.

        Called when the engine is available again, because it may have lost its data.
        """
        for question in self._inbox.questions():
            if question.state is QuestionState.WAITING and not question.core:
                self._start_chore(self._end_as_decided(question.id))
                self._on_question(question)
        self._known_replicas = frozenset()
        self._follow_replicas()

    async def _pause(self, seconds: float) -> None:
        """Sleep, but end early if the inbox closes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()

    def _start_chore(self, work: Coroutine[Any, Any, object]) -> None:
        """Start a background task with the engine.

        If the engine cannot be reached, `_begin_again` later publishes and reads all questions again.
        """

        async def attempt() -> None:
            try:
                await work
            except EngineUnavailable as error:
                log.info("questions cannot be published: %s", error)

        chore = asyncio.get_running_loop().create_task(attempt())
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)


def _token() -> str:
    """Return a random token that identifies one attempt to end a question."""
    return os.urandom(8).hex()


def _masked(value: Any) -> Any:
    """Return the value with secrets in its texts masked."""
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, dict):
        return {key: _masked(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(each) for each in value]
    return value


def _shortened(answer: Answer) -> Answer:
    return replace(answer, other=answer.other[:MAX_ANSWER_LENGTH])


def _with_own_labels(pages: Sequence[Page], ended: Question) -> tuple[Answer, ...]:
    """Return the answers with the labels of this replica's pages.

    Other replicas may show masked labels, and then their answers contain these.
    """
    return tuple(
        _answer_with_own_labels(*each) for each in zip(pages, ended.pages, ended.answers, strict=False)
    )


def _answer_with_own_labels(page: Page, shown_page: Page, answer: Answer) -> Answer:
    """Return an answer with the labels of `page`. `shown_page` is the page that the person saw."""
    own_labels = [option.label for option in page.options]
    labels = dict(zip((option.label for option in shown_page.options), own_labels, strict=False))
    labels |= {label: label for label in own_labels}  # other replicas may show fewer options
    is_default = answer.other == shown_page.default.other
    return Answer(
        tuple(labels.get(each, each) for each in answer.selected),
        page.default.other if is_default else answer.other,
    )
