"""One desk over all replicas of a deployment, with no way to them but the engine."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from msgspec.structs import replace

from mcpdesk.features.replicas.desk import engine_publisher, engine_streams, member
from mcpdesk.features.replicas.desk.combined_link import CombinedLink
from mcpdesk.features.replicas.desk.engine_publisher import EnginePublisher
from mcpdesk.features.replicas.desk.engine_replicas import EngineReplicas, EngineWire, short_names
from mcpdesk.features.replicas.desk.source_masking import SourceMask
from mcpdesk.features.replicas.engine.engine import Engine
from mcpdesk.features.replicas.group.living import LiveReplicas
from mcpdesk.inbox.question import Answer, Approval, Option, Page, Question, QuestionKind
from mcpdesk.link.attach_messages import State, TrafficBatch, Welcome, pack
from mcpdesk.link.core_copy import LOST, _core_decoder
from mcpdesk.link.local.local_link import LocalLink
from mcpdesk.link.values import Severity, ShownCoreState
from mcpdesk.recorder.record import ConnectionInfo, Direction
from mcpdesk.testing.sync_client import ServerUnderTest
from mcpdesk.tui.forms.question_dialog import QuestionScreen
from mcpdesk.tui.screens.frame_lines import cores_part
from mcpdesk.version import __version__
from tests.features.replicas.test_combined import has_all, replicas_of
from tests.link.test_remote import FILES, text
from tests.support.dashboard import OPERATOR_KEY, Events
from tests.support.desk import running_desk
from tests.support.engine import EngineServer, deployment, engine_server, needs_engine, shared_engine
from tests.support.features import needs_feature
from tests.support.folders import write
from tests.support.http_client import http_client
from tests.support.patience import WITHIN_S, result_of, until, wait_until, within
from tests.support.replicas import ServedReplica
from tests.support.tiers import open_terminal
from tests.support.workbench import bench

__all__ = ["shared_engine"]
pytestmark = [needs_engine, pytest.mark.slow]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    echo = "async def echo(password: str) -> str:\n    return f'password={password}'\n"
    people = "async def people(ctx) -> str:\n    return str(ctx.audience)\n"
    return write(tmp_path / "far", {**FILES, "tools/echo.py": echo, "tools/people.py": people})


@pytest.fixture
def name(tmp_path: Path) -> str:
    """A deployment of the test's own."""
    return f"desk-{tmp_path.parent.name}-{tmp_path.name}"


AS_OPERATOR = {"X-Operator-Key": OPERATOR_KEY}


class Group:
    """Replicas that share an engine, and the desk over them."""

    def __init__(self, folder: Path, engine: EngineServer, name: str) -> None:
        self.engine, self.name = engine, name
        self._folder = folder
        self.replicas: dict[str, ServedReplica] = {}

    def add(self, count: int, **more: str) -> None:
        """Start some more, and wait until they serve."""
        state = self._folder.parent
        made = [
            ServedReplica(
                [self._folder],
                self.engine.url,
                state / f"state-{len(self.replicas) + at}",
                MCPDESK_SHARED_NAME=self.name,
                MCPDESK_NO_AUTH="true",
                MCPDESK_OPERATOR_KEY=OPERATOR_KEY,
                **more,
            )
            for at in range(count)
        ]
        for each in made:
            each.wait_until_it_serves()
            self.replicas[str(each.port)] = each

    def of(self, shown: str) -> ServedReplica:
        """The replica that a desk shows by this name."""
        return self.replicas[shown.rpartition(":")[2]]

    def call(self, port: str, tool: str, **arguments: Any) -> str:
        """Result text for a client of one replica."""
        with ServerUnderTest(f"{self.replicas[port].url}/mcp/far") as client:
            return client.call(tool, **arguments).text


@contextmanager
def group_of(folder: Path, engine: EngineServer, name: str) -> Iterator[Group]:
    group = Group(folder, engine, name)
    try:
        yield group
    finally:
        for each in group.replicas.values():
            each.end(signal.SIGKILL)


@pytest.fixture
def group(folder: Path, shared_engine: EngineServer, name: str) -> Iterator[Group]:
    with group_of(folder, shared_engine, name) as made:
        yield made


@contextmanager
def desk_over(group: Group) -> Iterator[CombinedLink]:
    link = CombinedLink(EngineReplicas(group.engine.url, group.name))
    try:
        yield link
    finally:
        link.close()


def states(link: CombinedLink) -> list[ShownCoreState]:
    return [each.state for each in link.view().cores]


def test_replicas_have_short_names_that_differ() -> None:
    assert short_names(["web-1:3333", "web-2:3333"], ["a1", "b2"], ()) == ["web-1", "web-2"]
    assert short_names(["web:1", "web:2", "db:1"], ["a1", "b2", "c3"], {"web"}) == ["web:1", "web:2", "db"]
    assert short_names(["pod:1", "pod:1"], ["a1b2c3", "d4e5f6"], {"pod"}) == ["pod:1#a1b2", "pod:1#d4e5"]


async def test_a_replica_keeps_its_name_when_it_is_the_first_to_come_back(group: Group) -> None:
    group.add(2)
    source = EngineReplicas(group.engine.url, group.name)
    try:
        before = {each.name for each in await source.look()}
        assert len(before) == 2
        _, second = group.replicas.values()
        await asyncio.to_thread(second.end)
        async with within():
            while len(after := await source.look()) > 1:  # noqa: ASYNC110 (the engine sends no event)
                await asyncio.sleep(0.1)
        assert after[0].name in before
    finally:
        await source.close()


@needs_feature("holding")
def test_a_desk_sees_calls_answers_and_holds_over_the_engine_alone(group: Group) -> None:
    from mcpdesk.features.holding.held_message import HoldView, Release, SetHold, Verdict

    group.add(2)
    with desk_over(group) as link:
        wait_until(lambda: has_all(link, 2))
        names = [each.name for each in link.view().cores]
        assert sorted(map(group.of, names), key=lambda each: each.port) == sorted(
            group.replicas.values(), key=lambda each: each.port
        )
        for port in group.replicas:
            assert group.call(port, "add", a=1, b=2) == "3"
        wait_until(lambda: replicas_of(link, "tools/call") == names)
        asked = link.request("far", "tools/call", {"name": "choose", "arguments": {}})
        other = next(copy for copy in link._living("far") if copy is not link._copy_for("far"))
        theirs = other.request("far", "tools/call", {"name": "choose", "arguments": {}})
        wait_until(lambda: len(link.questions()) == 2)
        assert {one.core for one in link.questions()} == set(names)
        for question in link.questions():
            assert result_of(link.answer(question.id, [Answer(("blue",))]))
        for each in (asked, theirs):
            assert "selected=('blue',)" in text(result_of(each.outcome))
        assert result_of(link.do(SetHold("tool:add", "requests")))
        held = other.request("far", "tools/call", {"name": "add", "arguments": {"a": 2, "b": 2}})
        wait_until(lambda: link.feature_part(HoldView).messages)
        (message,) = link.feature_part(HoldView).messages
        changed = message.text.replace('"a": 2', '"a": 40')
        assert result_of(link.do(Release(message.number, Verdict.CHANGE, changed)))
        assert text(result_of(held.outcome)) == "42"
        assert result_of(link.do(SetHold("", "requests")))
        large = link.request("far", "tools/call", {"name": "large", "arguments": {}})
        assert len(text(result_of(large.outcome))) == 200_000
        wait_until(lambda: any(line.text == "a stray print" for line in link.logs()))


def test_a_killed_replica_is_gone_when_its_lease_is_and_a_new_one_appears(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    group.add(2)
    with desk_over(group) as link:
        wait_until(lambda: has_all(link, 2))
        for port in group.replicas:
            group.call(port, "add", a=1, b=2)
        names = [each.name for each in link.view().cores]
        wait_until(lambda: replicas_of(link, "tools/call") == names)
        copy = link._copy_for("far")
        assert copy is not None
        lost = copy.label
        group.of(lost).send(signal.SIGKILL)
        wait_until(lambda: ShownCoreState.GONE in states(link))
        assert [each.name for each in link.view().cores if each.state is ShownCoreState.GONE] == [lost]
        told = next(each for each in link.notices() if each.text.startswith(f"{lost} is lost"))
        assert told.text == f"{lost} is lost: it no longer sends anything: its traffic is kept"
        assert told.severity is Severity.ERROR
        assert replicas_of(link, "tools/call") == names
        again = link.request("far", "tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})
        assert text(result_of(again.outcome)) == "5"
        group.add(1)
        wait_until(lambda: states(link).count(ShownCoreState.LIVING) == 2)
        wait_until(lambda: any(each.text.endswith("has appeared") for each in link.notices()))
        monkeypatch.setattr(member, "ALARM_S", 0.0)
        assert sorted(states(link)) == [ShownCoreState.ENDED, ShownCoreState.LIVING, ShownCoreState.LIVING]


def test_a_replica_that_was_asked_to_end_is_no_loss(group: Group) -> None:
    group.add(2)
    with desk_over(group) as link:
        wait_until(lambda: has_all(link, 2))
        name = link.view().cores[0].name
        assert group.of(name).end() == 0
        wait_until(lambda: sorted(states(link)) == [ShownCoreState.ENDED, ShownCoreState.LIVING])
        told = next(each for each in link.notices() if each.text.startswith(name))
        assert told.text == f"{name} has ended: its traffic is kept"
        assert told.severity is Severity.INFO
        header = cores_part(link.view().cores)
        assert header.text.plain.strip() == "1 replica"


def test_an_engine_that_goes_away_is_one_line_and_all_goes_on_when_it_is_back(
    folder: Path, name: str
) -> None:
    with engine_server() as engine, group_of(folder, engine, name) as group:
        group.add(2)
        with desk_over(group) as link:
            wait_until(lambda: has_all(link, 2))
            engine.kill()
            wait_until(lambda: "cannot be reached" in link.view().gone)
            lost = link.request("far", "tools/call", {"name": "add", "arguments": {"a": 1, "b": 1}})
            time.sleep(3.5)  # until every replica is silent
            told = [each.text for each in link.notices()]
            assert [each for each in told if "does not answer" in each] == []
            assert len([each for each in told if each.startswith(f"{link.source.title} cannot")]) == 1
            engine.start()
            wait_until(lambda: link.view().gone == "")
            wait_until(lambda: states(link).count(ShownCoreState.LIVING) == 2)
            for port in group.replicas:
                assert group.call(port, "add", a=3, b=4) == "7"
            wait_until(lambda: len(replicas_of(link, "tools/call")) == 2)
            call = link.request("far", "tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})
            assert text(result_of(call.outcome)) == "5"
            assert lost.outcome.done() or result_of(lost.outcome) is not None
            lines = [(each.core, each.time, each.text) for each in link.logs() if each.core]
            assert {replica for replica, _, _ in lines} == {each.name for each in link.view().cores}
            assert [line for line, count in Counter(lines).items() if count > 1] == []


def stream_of(engine: EngineServer, name: str) -> Any:
    """Entries of the event streams of all replicas."""
    import redis

    client = redis.Redis.from_url(engine.url)
    keys = list(client.scan_iter(f"{{{name}}}:desk:*:news"))
    return client, {key: client.xrange(key) for key in keys}


def test_nothing_is_written_without_a_desk_and_no_more_once_it_has_left(group: Group) -> None:
    group.add(1)
    (port,) = group.replicas
    group.call(port, "add", a=1, b=2)
    client, streams = stream_of(group.engine, group.name)
    assert streams == {}
    with desk_over(group) as link:
        wait_until(lambda: has_all(link, 1))
        assert group.call(port, "people") == "1"
        _, streams = stream_of(group.engine, group.name)
        assert len(streams) == 1
    (key,) = streams
    time.sleep(engine_streams.DESK_TIMEOUT_S + 2)
    before = client.xinfo_stream(key)["last-generated-id"]
    group.call(port, "add", a=1, b=2)
    time.sleep(0.5)
    assert client.xinfo_stream(key)["last-generated-id"] == before
    assert 0 < client.ttl(key) <= engine_streams.STREAM_TTL_S
    client.close()


def test_secrets_are_masked_before_they_leave_the_replica_if_so_set(group: Group) -> None:
    group.add(1, MCPDESK_SHARED_MASK="true", MCPDESK_API_KEY="key-of-the-core-0123456789")
    secret = "s3cret-Passw0rd-of-ada"
    with desk_over(group) as link:
        wait_until(lambda: has_all(link, 1))
        said = link.request("far", "tools/call", {"name": "echo", "arguments": {"password": secret}})
        assert result_of(said.outcome).result is not None
        wait_until(lambda: replicas_of(link, "tools/call"))
        exchange = next(one for one in link.traffic.exchanges if one.method == "tools/call")
        assert exchange.request is not None
        assert b"password" in link.traffic.frame_bytes(exchange.request)
        assert link.view().api_key == ""
    client, streams = stream_of(group.engine, group.name)
    everything = b"".join(b"".join(fields.values()) for rows in streams.values() for _, fields in rows)
    client.close()
    assert b"password" in everything and "••••".encode() in everything
    assert secret.encode() not in everything
    assert b"key-of-the-core" not in everything


def test_a_call_with_something_masked_can_only_be_denied_over_the_engine() -> None:
    page = Page("May p call Bash?", "", tuple(map(Option, Approval)), detail="command: token=rm; $token /")
    plain = replace(page, detail="command: ls")
    asked = tuple(
        Question(number, "s", "p", "Bash", (each,), 0.0, 1.0, kind=QuestionKind.APPROVAL)
        for number, each in enumerate((page, plain))
    )
    sent = SourceMask(()).masked(State("questions", "", pack(asked)))
    assert isinstance(sent, State)
    shown = msgspec.msgpack.decode(sent.value, type=tuple[Question, ...])
    assert [option.label for option in shown[0].pages[0].options] == [Approval.DENY]
    assert "••••" in shown[0].pages[0].detail and "can allow it" in shown[0].pages[0].detail
    assert shown[1] == asked[1]


async def test_a_desk_that_does_not_read_costs_a_bound_of_memory_and_what_is_cut_is_counted(
    folder: Path, shared_engine: EngineServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_publisher, "MAX_STREAM_BYTES", 1 << 20)
    async with running_desk(folder) as desk:
        welcome = Welcome(mcpdesk=__version__, pid=1, kind="serve", names=("far",))

        def make_link(present: int) -> LocalLink:
            return LocalLink(desk.host, present)

        with EnginePublisher(shared_engine.url, name, "r1", lambda: welcome, make_link, masks=False):
            engine = Engine(shared_engine.url, name)
            await engine.start()
            wire = EngineWire(engine, "r1", "d1")
            assert await wire.join() == welcome
            recording = desk.host.recording
            recording.connect(ConnectionInfo(990, "far", "http", "somebody", "", time.time()))
            data, total = b'{"jsonrpc":"2.0","method":"notifications/x","params":"%s"}' % (b"x" * 300), 20_000
            for at in range(total):
                recording.frame(990, Direction.IN, data, is_json=True)
                if at % 500 == 0:
                    await asyncio.sleep(0.02)
            await asyncio.sleep(1)
            key = engine_streams.updates_key(engine, "r1")
            used = await engine.run(lambda client: client.memory_usage(key))
            assert used < 3 << 20
            first = last = came = lost = 0
            while last < total - 1:
                async with within():
                    message = await wire.receive()
                if message is LOST:
                    lost += 1
                elif isinstance(batch := _core_decoder.decode(message), TrafficBatch) and batch.frames:
                    first = first or batch.frames[0].number
                    came += len(batch.frames)
                    last = batch.frames[-1].number
            assert lost == 1 and 0 < came < total
            assert came >= last + 1 - first, "what comes after the cut is whole"
            wire.close()
            await engine.close()


async def test_the_screen_over_the_engine(group: Group) -> None:
    await asyncio.to_thread(group.add, 2)
    link = await asyncio.to_thread(lambda: CombinedLink(EngineReplicas(group.engine.url, group.name)))
    try:
        narrow, wide = (80, 24), (120, 40)
        async with bench(link, size=narrow) as it:  # type: ignore[arg-type]
            for size in (wide, narrow):
                await it.until(lambda: "2 replicas" in it.shown())
                await it.pilot.resize_terminal(*size)
            await it.open("choose")
            await it.pilot.press("ctrl+r")
            for size in (wide, narrow):
                await it.until(lambda: "Which?" in it.shown())
                await it.pilot.resize_terminal(*size)
            (question,) = link.questions()
            link.answer(question.id, [Answer(("blue",))])
            await it.until(lambda: not isinstance(it.app.screen, QuestionScreen))
            for size in (wide, narrow):
                await it.until(lambda: "✓ ok" in it.title)
                await it.pilot.resize_terminal(*size)
    finally:
        await asyncio.to_thread(link.close)


def test_the_program_attaches_by_url_in_a_terminal(group: Group) -> None:
    group.add(1)
    ours, theirs = open_terminal()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    screen = subprocess.Popen(
        [sys.executable, "-m", "mcpdesk", "attach", group.engine.url],
        stdin=theirs, stdout=theirs, stderr=theirs,
        env={**environment, "MCPDESK_SHARED_NAME": group.name},
    )  # fmt: skip
    try:
        shown = b""
        while b"choose" not in shown or b"replica" not in shown:
            assert select.select([ours], [], [], WITHIN_S)[0], shown[-500:]
            shown += os.read(ours, 1 << 16)
        os.write(ours, b"\x11")  # ctrl+q
        while screen.poll() is None:
            if select.select([ours], [], [], 0.1)[0]:
                os.read(ours, 1 << 16)
        assert screen.returncode == 0
    finally:
        screen.kill()
        screen.wait()
        os.close(ours)
        os.close(theirs)


def test_an_engine_without_replicas_or_that_is_not_there_is_said(shared_engine: EngineServer) -> None:
    def attach(*words: str, **environ: str) -> str:
        ours, theirs = open_terminal()
        ended = subprocess.run(
            [sys.executable, "-m", "mcpdesk", "attach", *words], stdin=theirs, stdout=theirs, stderr=theirs,
            timeout=60, check=False, env={**os.environ, **environ},
        )  # fmt: skip
        os.close(theirs)
        said = os.read(ours, 1 << 16).decode()
        os.close(ours)
        assert ended.returncode == 2
        return " ".join(said.split())

    said = attach(shared_engine.url, MCPDESK_SHARED_NAME="nobody")
    assert f"No replica of mcpdesk was found at {shared_engine.url}" in said
    assert "MCPDESK_SHARED is not set" in attach("--shared")
    said = attach("--shared", MCPDESK_SHARED="redis://:geheim@127.0.0.1:1/0")
    assert "redis://127.0.0.1:1/0 cannot be reached" in said and "geheim" not in said


def _ports(lines: list[dict[str, Any]]) -> set[str]:
    """Replicas that printed the lines."""
    printed = (each for each in lines if each["text"] == "a stray print")
    return {each["replica"].rpartition(":")[2] for each in printed}


async def test_the_dashboard_of_each_replica_shows_and_answers_for_all(group: Group) -> None:
    await asyncio.to_thread(group.add, 2)
    here, there = group.replicas.values()
    async with http_client() as client:
        for seen_from, asked_at in ((here, there), (there, here), (here, there)):
            async with client.get(f"{seen_from.url}/dashboard/events", headers=AS_OPERATOR) as answer:
                assert answer.status == 200, await answer.text()
                events = Events(answer)

                def living(core: Any) -> bool:
                    return [each["state"] for each in core["replicas"]] == ["living", "living"]

                await events.event("core", living)
                asking = asyncio.create_task(asyncio.to_thread(group.call, str(asked_at.port), "choose"))
                told = await events.event("questions", lambda told: told["waiting"])
                (question,) = told["waiting"]
                assert question["replica"].endswith(str(asked_at.port))
                given = {"question": question["id"], "answers": [{"selected": ["red"], "other": ""}]}
                headers = {"Origin": seen_from.url, "Content-Type": "application/json", **AS_OPERATOR}
                async with client.post(
                    f"{seen_from.url}/dashboard/answer", data=orjson.dumps(given), headers=headers
                ) as answered:
                    assert answered.status == 200, await answered.text()
                assert "selected=('red',)" in await asking
                await events.event("clients", lambda told: len({c["replica"] for c in told["clients"]}) >= 1)
                for each in group.replicas:
                    await asyncio.to_thread(group.call, each, "large")  # prints a line
                await events.event("logs", lambda told: _ports(told["lines"]) == set(group.replicas))


async def test_a_replica_of_another_version_is_named_and_not_shown(group: Group) -> None:
    await asyncio.to_thread(group.add, 1)
    engine = Engine(group.engine.url, group.name)
    await engine.start()
    old = LiveReplicas(engine)
    await old.start()
    await old.update(name="old:1", url="http://127.0.0.1:1", version="0.0.9", folders={"far": "x"})
    link = await asyncio.to_thread(lambda: CombinedLink(EngineReplicas(group.engine.url, group.name)))
    try:
        await until(lambda: ShownCoreState.UNREADABLE in states(link))
        (named,) = (each for each in link.view().cores if each.state is ShownCoreState.UNREADABLE)
        assert named.name == "old" and "runs mcpdesk 0.0.9" in named.reason
        assert [each.name for each in link.view().servers] == ["far"]
        assert len([each for each in link.notices() if "0.0.9" in each.text]) == 1
        await old.close()
        await until(lambda: ShownCoreState.UNREADABLE not in states(link))
    finally:
        await asyncio.to_thread(link.close)
        await engine.close()


async def test_requests_for_a_replica_that_has_ended_expire(
    tmp_path: Path, shared_engine: EngineServer
) -> None:
    engine = Engine(shared_engine.url, deployment(tmp_path))
    wire = EngineWire(engine, "ended", "desk")
    wire.send(b"request")
    await until(lambda: wire._send_task is None)
    seconds: int = await engine.run(lambda client: client.ttl(engine_streams.requests_key(engine, "ended")))
    assert 0 < seconds <= engine_streams.STREAM_TTL_S
    await engine.close()
