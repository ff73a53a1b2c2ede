"""Messages are held by filter, changed, dropped, delayed and answered by hand, over every transport."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from mcpdesk.features.holding import holds as holds_module
from mcpdesk.features.holding.held_message import HeldDirections, HeldMessage, HoldView, Verdict
from mcpdesk.features.holding.holds import Holds
from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index.exchange import Status
from mcpdesk.recorder.index.phase_spans import PhaseKind, phase_spans
from mcpdesk.recorder.record import Direction, HeldMark
from tests.support.messages import text_of
from tests.support.patience import until
from tests.support.served import Peer
from tests.support.site import serving
from tests.support.traffic import settle


class HeardHolds(Holds):
    """Holds with an event for changes, because tests wait for it instead of polling."""

    def __init__(self, recording: Recording) -> None:
        self.changed = asyncio.Event()
        self.recorded = recording
        self.reports: list[str] = []
        self.switches = 0
        super().__init__(recording, self.reports.append, self._switch)

    def _switch(self) -> None:
        self.switches += 1

    @property
    def view(self) -> HoldView:
        return self._view

    @view.setter
    def view(self, view: HoldView) -> None:
        self._view = view
        self.changed.set()

    async def held(self, count: int, *, are_answers: bool = False) -> tuple[HeldMessage, ...]:
        """Wait until `count` messages are held, requests or answers."""

        def is_so() -> bool:
            return [one.is_answer for one in self.view.messages] == [are_answers] * count

        await until(is_so, self.view, changed=self.changed)
        return self.view.messages


def holding(peer: Peer, rule: str, ways: HeldDirections = "requests") -> HeardHolds:
    holds = HeardHolds(peer.recording)
    holds.set_rule(rule, ways)
    peer.endpoint.intercept(holds)
    return holds


def echo(text: str) -> dict[str, Any]:
    return {"name": "echo", "arguments": {"text": text}}


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_a_request_is_changed_before_it_is_taken_and_others_pass(era: str) -> None:
    peer = Peer()
    await peer.shake_hands()
    ask = peer.request if era == "handshake" else peer.modern
    holds = holding(peer, "tool:echo mine")
    ask(1, "tools/call", echo("mine"))
    ask(2, "tools/call", echo("theirs"))
    assert text_of(await peer.response(2)) == "theirs"
    (message,) = await holds.held(1)
    shown = (message.method, message.name, message.id, message.is_answer, message.peer)
    assert shown == ("tools/call", "echo", 1, False, "tester")
    assert holds.reports == ["held: tools/call echo of tester · e in the traffic opens it"]
    with pytest.raises(ValueError, match="invalid JSON"):
        holds.decide(message.number, Verdict.CHANGE, "{")
    with pytest.raises(ValueError, match="method"):
        holds.decide(message.number, Verdict.CHANGE, "{}")
    assert holds.decide(message.number, Verdict.CHANGE, message.text.replace("mine", "yours"))
    assert text_of(await peer.response(1)) == "yours"
    assert not holds.decide(message.number, Verdict.PASS)


async def test_only_the_next_message_is_held_and_stays_held_while_later_ones_pass() -> None:
    peer = Peer()
    holds = HeardHolds(peer.recording)
    holds.set_rule("tool:echo", "both", is_once=True)
    peer.endpoint.intercept(holds)
    peer.modern(1, "tools/call", echo("first"))
    (message,) = await holds.held(1)
    assert (holds.view.rule, holds.view.is_once, holds.is_active) == ("", False, True)
    peer.modern(2, "tools/call", echo("second"))
    assert text_of(await peer.response(2)) == "second"
    assert holds.decide(message.number, Verdict.CHANGE, message.text.replace("first", "changed"))
    assert text_of(await peer.response(1)) == "changed"
    assert not holds.is_active and holds.switches == 2


async def test_the_only_held_request_is_dropped_when_its_client_cancels_it() -> None:
    peer = Peer()
    holds = HeardHolds(peer.recording)
    holds.set_rule("tool:echo", "both", is_once=True)
    peer.endpoint.intercept(holds)
    peer.modern(1, "tools/call", echo("first"))
    (message,) = await holds.held(1)
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    await holds.held(0)
    assert not holds.decide(message.number, Verdict.PASS)


async def test_only_one_of_two_notifications_that_arrive_together_is_held() -> None:
    peer = Peer()
    await peer.shake_hands()
    holds = HeardHolds(peer.recording)
    holds.set_rule("kind:notification", "both", is_once=True)
    peer.endpoint.intercept(holds)
    for _ in range(2):
        peer.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
    (message,) = await holds.held(1)
    peer.modern(1, "tools/call", echo("after them"))
    assert text_of(await peer.response(1)) == "after them"
    assert holds.view.messages == (message,)
    holds.close()


async def test_an_answer_is_changed_before_it_leaves_with_what_it_was_in_the_capture(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "c.jsonl")
    recording.start()
    peer = Peer(recording=recording)
    holds = holding(peer, "status:ok tool:echo", "answers")
    peer.modern(1, "tools/call", echo("true"))
    (message,) = await holds.held(1, are_answers=True)
    await asyncio.sleep(0.05)
    assert message.is_answer and text_of(orjson.loads(message.text)) == "true"
    assert holds.reports[0].startswith("held: the answer to tools/call echo of tester · ")
    holds.decide(message.number, Verdict.CHANGE, message.text.replace("true", "false"))
    assert text_of(await peer.response(1)) == "false"
    settle(recording)
    recording.close()
    archive = Archive(tmp_path / "c.jsonl")
    while archive.index.catch_up():
        pass
    for index in (recording.index, archive.index):
        (one,) = index.exchanges
        (mark,) = index.marks_of(one)
        assert (mark.how, "true" in mark.was, "false" in mark.now) == ("changed", True, True)
        spans = {span.kind: span.seconds for span in phase_spans(index, one, 0.0)}
        assert spans[PhaseKind.HELD] >= 0.05 > spans.get(PhaseKind.WRITE, 0.0)
        assert sum(spans.values()) == pytest.approx(one.elapsed(0), abs=0.001)


async def test_messages_are_dropped_delayed_and_answered_by_hand() -> None:
    peer = Peer()
    holds = holding(peer, "method:tools/call", "both")
    for number in range(4):
        peer.modern(number, "tools/call", echo(f"text {number}"))
    numbers = [message.number for message in await holds.held(4)]
    holds.decide(numbers[0], Verdict.DROP)
    holds.decide(numbers[1], Verdict.ANSWER, '{"content": [], "resultType": "complete"}')
    holds.decide(numbers[2], Verdict.ANSWER, '{"error": {"code": -1, "message": "by hand"}}')
    assert holds.delay(numbers[3], 0.01) and holds.view.messages[-1].due
    assert (await peer.response(1))["result"] == {"content": [], "resultType": "complete"}
    assert (await peer.response(2))["error"]["message"] == "by hand"
    (answer,) = await holds.held(1, are_answers=True)
    assert answer.is_answer and answer.id == 3
    with pytest.raises(ValueError, match="change it"):
        holds.decide(answer.number, Verdict.ANSWER, "{}")
    holds.set_rule("", "both")
    assert text_of(await peer.response(3)) == "text 3" and not holds.view.messages
    assert not any(message.get("id") == 0 for message in peer.received)
    hows = [mark.how for mark in peer.recording.index.marks]
    assert sorted(hows) == ["answered by hand", "answered by hand", "dropped", "passed on", "passed on"]
    index = peer.recording.index
    await until(lambda: not index.catch_up() and len(index.exchanges) >= 4)
    (dropped,) = [each for each in index.exchanges if each.id == 0]
    assert dropped.status is Status.LOST and dropped.ended is not None, "no answer is waited for"
    assert [mark.how for mark in index.marks_of(dropped)] == ["dropped"]


async def test_a_call_whose_answer_is_dropped_has_ended() -> None:
    peer = Peer()
    holds = holding(peer, "method:tools/call", "answers")
    peer.modern(7, "tools/call", echo("text"))
    (answer,) = await holds.held(1, are_answers=True)
    index = peer.recording.index
    await until(lambda: not index.catch_up() and len(index.exchanges) == 1)
    assert index.exchanges[0].status is Status.PENDING
    holds.decide(answer.number, Verdict.DROP)
    await until(lambda: index.catch_up() or index.exchanges[0].status is Status.LOST)


def test_marks_take_bounded_memory_and_are_all_in_the_capture(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "c.jsonl")
    recording.start()
    for number in range(40):
        mark = HeldMark(1, Direction.IN, number, 1_764_000_000.0, 0.0, "changed", "x" * 1_000_000, "y")
        recording.mark(mark)
    assert 10 < len(recording.index.marks) < 20
    recording.close()
    assert [mark.id for mark in Archive(tmp_path / "c.jsonl").marks] == list(range(40))


async def test_who_cancels_or_leaves_is_not_waited_for() -> None:
    peer = Peer()
    await peer.shake_hands()
    holds = holding(peer, "tool:echo")
    peer.request(1, "tools/call", echo("a"))
    await holds.held(1)
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    await holds.held(0)
    holds.set_rule("tool:echo or method:notifications/progress", "both")
    peer.request(2, "tools/call", {"name": "steps", "_meta": {"progressToken": "p"}})
    await holds.held(1)
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
    await holds.held(0)
    peer.request(3, "tools/call", echo("b"))
    await holds.held(1)
    peer.channel.close()
    await holds.held(0)


async def test_without_a_rule_a_dialogue_is_as_it_was() -> None:
    peer = Peer()
    plain = peer.channel.dialogue.accept_message
    holds = holding(peer, "tool:echo")
    assert peer.channel.dialogue.accept_message != plain
    with pytest.raises(ValueError, match="unknown field"):
        holds.set_rule("tolo:echo", "both")
    for rule in ("is:changed", "tool:echo status:slow", "kind:notification tool:echo"):
        with pytest.raises(ValueError, match="can never match"):
            holds.set_rule(rule, "both")
    with pytest.raises(ValueError, match=">1s can never match"):
        holds.set_rule("tool:echo >1s", "requests")
    assert holds.view.rule == "tool:echo"
    holds.set_rule("", "both")
    peer.endpoint.intercept(holds)
    assert peer.channel.dialogue.accept_message == plain


async def test_http_requests_of_both_eras_are_held_and_one_that_is_dropped_hears_nothing() -> None:
    async with serving() as served:
        holds = HeardHolds(Recording(None))
        holds.set_rule("tool:echo", "requests")
        served.hosted.intercept(holds)
        session = await served.session()
        old = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": echo("old")}
        calls = [
            asyncio.create_task(served.post(old, **session)),
            asyncio.create_task(served.modern("tools/call", echo("new"))),
        ]
        for message in await holds.held(2):
            changed = message.text.replace("echo", "person").replace('"text"', '"wrong"')
            holds.decide(message.number, Verdict.CHANGE, changed if message.id != 7 else message.text)
        answers = [await (await call).text() for call in calls]
        assert '"old"' in answers[0] and "person" in answers[1] and "Mcp-Name" not in answers[1]
        lost = asyncio.create_task(served.modern("tools/call", echo("lost")))
        holds.decide((await holds.held(1))[0].number, Verdict.DROP)
        assert not (await asyncio.wait({lost}, timeout=0.1))[0]
        holds.close()
        assert (await lost).status == 202


async def test_messages_pass_while_as_many_are_held_as_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holds_module, "MAX_HELD_MESSAGES", 2)
    peer = Peer()
    await peer.shake_hands()
    holds = holding(peer, "tool:echo")
    for number in (1, 2):
        peer.request(number, "tools/call", echo("waits"))
    messages = await holds.held(2)
    peer.request(3, "tools/call", echo("passes"))
    assert text_of(await peer.response(3)) == "passes" and holds.view.messages == messages
    holds.decide(messages[0].number, Verdict.PASS)
    assert text_of(await peer.response(1)) == "waits"
    peer.request(4, "tools/call", echo("waits again"))
    assert [each.id for each in await holds.held(2)] == [2, 4]
    for each in holds.view.messages:
        holds.decide(each.number, Verdict.PASS)
    assert text_of(await peer.response(4)) == "waits again"
