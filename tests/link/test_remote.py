"""A screen attached to a core of another process: its views, its actions, and the end of either."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mcpdesk.errors import DeskUserError
from mcpdesk.inbox.question import Answer, QuestionState
from mcpdesk.link import core_copy
from mcpdesk.link.attach_messages import Ask, Join, State, TrafficBatch, Welcome, framed, pack, read_message
from mcpdesk.link.core_copy import _core_decoder
from mcpdesk.link.link import INTENTS, SNAPSHOTS, Link
from mcpdesk.link.link_server import (
    MAX_PAST_FRAMES,
    MAX_UNSENT_FRAMES,
    AttachedScreen,
    CoreUpdates,
    serve_screen,
)
from mcpdesk.link.local.local_link import LocalLink
from mcpdesk.link.remote import RemoteLink, RunningCore, running_cores
from mcpdesk.link.traffic_copy import TrafficCopy
from mcpdesk.link.values import Notice, Severity
from mcpdesk.protocol.reading.remark import Remark, RemarkKind
from mcpdesk.recorder.capture import recording as recording_module
from mcpdesk.recorder.index.exchange import Status
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.record import ConnectionInfo, Direction, HeldMark, RecordedRemark
from mcpdesk.runtime.attach_point import AttachPoint
from mcpdesk.transports import rendezvous
from mcpdesk.tui.forms.question_dialog import QuestionScreen
from mcpdesk.version import __version__
from tests.cli.conftest import Service, started_services
from tests.support.desk import running_desk
from tests.support.folders import write
from tests.support.patience import WITHIN_S, result_of, until, wait_until
from tests.support.stdio_server import Server
from tests.support.workbench import Bench, bench

FILES = {
    "mcp.json": '{"name": "far", "builtins": ["BackgroundBash"]}',
    "tools/tools.py": '''
        import asyncio

        from mcpdesk import Context, Option, Page


        async def add(a: int, b: int) -> int:
            """Add two numbers."""
            return a + b


        async def choose(ctx: Context) -> str:
            """Ask a person."""
            answered = await ctx.ask([Page("Which?", options=(Option("red"), Option("blue")))])
            return str(answered)


        async def wait(ctx: Context) -> str:
            """Wait for ever."""
            await ctx.info("waiting")
            await ctx.progress(1, 2, "half")
            await asyncio.Event().wait()
            return "never"


        async def large() -> str:
            """A text of 200 kB."""
            print("a stray print")
            return "x" * 200_000
        ''',
    "resources/notes.md": "---\ndescription: Some notes.\n---\n# Notes\n",
}
Start = Callable[..., Service]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "far", FILES)


@pytest.fixture
def serve(folder: Path) -> Iterator[Callable[[], Service]]:
    """Starts a service of the folder."""
    with started_services() as start:

        def started() -> Service:
            service = start(str(folder), "--port", "0")
            service.says("serving far")
            return service

        yield started


@pytest.fixture
def attach() -> Iterator[Callable[[], RemoteLink]]:
    """Attaches to the one core that runs."""
    links = list[RemoteLink]()

    def attached() -> RemoteLink:
        links.append(RemoteLink(one_core()))
        return links[-1]

    yield attached
    for link in links:
        link.close()


Attach = Callable[[], RemoteLink]


def one_core() -> RunningCore:
    wait_until(running_cores)
    (core,) = running_cores()
    return core


def call(link: RemoteLink, name: str, **arguments: object) -> Any:
    return link.request("far", "tools/call", {"name": name, "arguments": arguments})


def text(outcome: Any) -> str:
    return str(outcome.result["content"][0]["text"])


def methods(link: RemoteLink) -> list[tuple[str, str]]:
    while link.traffic.catch_up():
        pass
    return [(one.peer, one.method) for one in link.traffic.exchanges]


@pytest.mark.process
def test_a_screen_sees_and_calls_what_a_service_offers(serve: Start, attach: Attach) -> None:
    service = serve()
    link = attach()
    assert link.core.kind == "serve" and link.core.pid == service.process.pid
    assert {"add", "BackgroundBash"} <= {item.name for item in link.catalogue("far").items}
    assert link.catalogue("far").version == link.view().servers[0].catalogue_version
    assert link.view().servers[0].url in result_of(link.client_config("far", "curl"))
    assert {"port", "api_key"} <= {each.name for each in result_of(link.settings())}
    assert link.validate("far", "add", {"a": 1})[0].message == "is required"
    assert text(result_of(call(link, "add", a=2, b=3).outcome)) == "5"
    assert result_of(call(link, "nothing").outcome).error["code"] == -32602
    wait_until(lambda: ("desk", "tools/call") in methods(link))
    large = call(link, "large")
    assert len(text(result_of(large.outcome))) == 200_000
    calls = ("desk", "tools/call")
    wait_until(lambda: methods(link).count(calls) == 3 and link.traffic.exchanges[-1].response is not None)
    frame = link.traffic.exchanges[-1].response
    assert frame is not None
    assert len(link.traffic.frame_bytes(frame)) > 200_000, (
        "the rest of a large frame is fetched from the core"
    )
    wait_until(lambda: any(line.text == "a stray print" for line in link.logs()))
    link.watch("far", "resource://notes")
    wait_until(lambda: link.watched("far") == {"resource://notes": 0})
    (client,) = link.view().clients
    wait_until(lambda: (detail := link.client(client.connection)) is not None and detail.session_ttl_s)
    with pytest.raises(ValueError, match=r"."):
        result_of(link.give_token("far", "no token"))
    link.close()
    assert one_core().welcome.pid == service.process.pid, "leaving leaves the core running"


@pytest.mark.process
def test_progress_cancel_jobs_and_reload_reach_the_core(serve: Start, attach: Attach, folder: Path) -> None:
    serve()
    link = attach()
    waiting = call(link, "wait")
    wait_until(lambda: waiting.progress and waiting.progress.message == "half" and waiting.logs)
    assert link.busy() == ("1 running call",)
    waiting.cancel()
    assert waiting.outcome.result(0).cancelled
    wait_until(lambda: ("desk", "notifications/cancelled") in methods(link))
    assert link.busy() == ()
    result_of(call(link, "BackgroundBash", command="echo started; sleep 600").outcome)
    wait_until(link.jobs)
    (job,) = link.jobs()
    wait_until(lambda: (output := link.output(job.id, -1)) and "started" in output.text)
    wait_until(lambda: job.id in link.usage())
    link.kill_job(job.id)
    wait_until(lambda: link.jobs()[0].state.is_final)
    (folder / "tools/more.py").write_text("async def more() -> None: ...\n")
    link.reload("far")
    wait_until(lambda: "more" in {item.name for item in link.catalogue("far").items})
    link.drop_token("nowhere")
    wait_until(
        lambda: any(each.text == "drop token: This desk has no server nowhere." for each in link.notices())
    )


@pytest.mark.process
def test_servers_are_added_and_removed_by_an_attached_screen(
    serve: Start, attach: Attach, tmp_path: Path
) -> None:
    serve()
    link = attach()
    more = write(tmp_path / "more", {"mcp.json": '{"name": "more"}', "resources/one.md": "# One"})
    for name in ("one", "two"):
        next((more / "resources").iterdir()).rename(more / f"resources/{name}.md")
        assert result_of(link.add_server(str(more))) == ("more",)
        wait_until(lambda: [each.title for each in link.catalogue("more").items] == [name])
        link.remove_server("more")
        wait_until(lambda: [server.name for server in link.view().servers] == ["far"])
    with pytest.raises(ValueError, match="No folder or file"):
        result_of(link.add_server("nothing"))


def test_every_method_of_the_link_has_a_way_over_the_socket() -> None:
    names = {name for name in dir(Link) if not name.startswith("_")} - {"traffic", "is_remote"}
    names -= {*INTENTS, *SNAPSHOTS}  # `execute` and `read_snapshot` implement these methods
    assert {name for name in names if getattr(RemoteLink, name) is getattr(Link, name)} == set()


@pytest.mark.process
def test_a_core_that_hangs_is_told_until_it_answers_again(
    serve: Start, attach: Attach, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_copy, "PING_PERIOD_S", 0.05)
    monkeypatch.setattr(core_copy, "SILENT_S", 0.5)
    service = serve()
    link = attach()
    service.process.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: link.view().silent_s)
        wait_until(lambda: any("does not answer: it hangs" in each.text for each in link.notices()))
        assert link.view().servers[0].name == "far", "what was seen stays"
    finally:
        service.process.send_signal(signal.SIGCONT)
    wait_until(lambda: not link.view().silent_s)
    wait_until(lambda: any("answers again" in each.text for each in link.notices()))
    assert text(result_of(call(link, "add", a=2, b=3).outcome)) == "5"


@pytest.mark.process
def test_the_first_of_two_screens_answers(serve: Start, attach: Attach) -> None:
    serve()
    asking, other = attach(), attach()
    chosen = call(asking, "choose")
    wait_until(lambda: asking.questions() and other.questions())
    (question,) = other.questions()
    with pytest.raises(ValueError, match="answer"):
        result_of(other.answer(question.id, []))
    assert result_of(other.answer(question.id, [Answer(("blue",))]))
    assert "blue" in text(result_of(chosen.outcome))
    assert not result_of(asking.answer(question.id, [Answer(("red",))]))
    wait_until(lambda: asking.questions()[0].state is QuestionState.ANSWERED)
    assert ("desk", "tools/call") in methods(other)
    late = attach()
    wait_until(lambda: methods(late) == methods(other))
    wait_until(lambda: len(other.view().clients) == 1)
    asking.close()
    wait_until(lambda: other.view().clients == ())


@pytest.mark.process
def test_a_killed_core_stays_readable_and_its_successor_is_found(serve: Start, attach: Attach) -> None:
    first = serve()
    link = attach()
    asked = call(link, "choose")
    wait_until(link.questions)
    (question,) = link.questions()
    first.end(signal.SIGKILL)
    wait_until(lambda: link.view().gone)
    assert result_of(asked.outcome).error["message"].endswith("has ended")
    assert link.questions()[0].state is QuestionState.WITHDRAWN
    seen = methods(link)
    assert ("desk", "tools/call") in seen
    assert link.catalogue("far").items and link.view().clients == ()
    assert link.output("far:1", -1) is None
    with pytest.raises(ValueError, match="has ended"):
        result_of(link.answer(question.id, [Answer(("red",))]))
    assert "has ended" in result_of(call(link, "add", a=1, b=1).outcome).error["message"]
    assert any(each.severity is Severity.ERROR and "has ended" in each.text for each in link.notices())
    second = serve()
    wait_until(lambda: not link.view().gone)
    assert link.core.pid == second.process.pid
    again = call(link, "choose")
    wait_until(lambda: link.questions() and link.questions()[0].state is QuestionState.WAITING)
    assert link.questions()[0].id != question.id, "what was opened on the screen counts once"
    assert result_of(link.answer(link.questions()[0].id, [Answer(("red",))]))
    assert "red" in text(result_of(again.outcome))
    wait_until(lambda: len(methods(link)) > len(seen))
    assert methods(link)[: len(seen)] == seen


@pytest.mark.process
def test_a_screen_follows_a_lone_client_to_the_desk(serve: Start, attach: Attach, folder: Path) -> None:
    lone = Server(folder)
    try:
        lone.shake_hands()
        link = attach()
        assert link.core.kind == "stdio"
        assert [client.transport for client in link.view().clients] == ["stdio"]
        serve()
        wait_until(lambda: link.core.kind == "serve" and not link.view().gone)
        wait_until(lambda: [client.transport for client in link.view().clients] == ["stdio"])
        wait_until(lambda: "initialize" in {method for _, method in methods(link)})
    finally:
        lone.close()


@pytest.mark.process
async def test_only_the_owner_can_reach_the_socket(folder: Path) -> None:
    async with running_desk(folder) as desk:
        with AttachPoint(desk.host, "desk"):
            place = Path((await asyncio.to_thread(one_core)).path)
            assert stat.S_IMODE(place.stat().st_mode) == 0o600
            assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
            if os.getuid() == 0:
                may_write = ["test", "-w", str(place)]
                assert subprocess.run(may_write, check=False).returncode == 0
                assert subprocess.run(may_write, user=65534, check=False).returncode == 1
        assert not place.exists()


@pytest.mark.process
def test_garbage_on_the_socket_ends_its_connection_only(serve: Start, attach: Attach) -> None:
    serve()
    link = attach()
    for said in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\3abc", b"\xff\xff\xff\xff", b"\0\0", b""):
        with socket.socket(socket.AF_UNIX) as visitor:
            visitor.settimeout(WITHIN_S)
            visitor.connect(one_core().path)
            visitor.sendall(said)
            visitor.shutdown(socket.SHUT_WR)
            with visitor.makefile("rb") as reader:
                assert reader.read() == b""
    with socket.socket(socket.AF_UNIX) as visitor, visitor.makefile("rb") as reader:
        visitor.settimeout(WITHIN_S)
        visitor.connect(one_core().path)
        visitor.sendall(framed(Join(__version__)) + framed(Ask(1, "close", pack(()))))
        while reader.read(1 << 16):
            pass
    wait_until(lambda: any("unknown request" in line.text for line in link.logs()))
    assert text(result_of(call(link, "add", a=1, b=1).outcome)) == "2"


def test_a_core_of_another_version_is_refused() -> None:
    rendezvous.private_folder()
    place = rendezvous.listen(rendezvous.attach_point(os.environ["MCPDESK_STATE_DIR"]))
    assert place is not None
    greeting = framed(Welcome(mcpdesk="0.0.9", pid=17, kind="serve", names=("old",)))

    def greet() -> None:
        with suppress(OSError):  # closed
            while True:
                with place.listener.accept()[0] as visitor:
                    if visitor.recv(4):
                        visitor.sendall(greeting)

    threading.Thread(target=greet, daemon=True).start()
    try:
        (core,) = running_cores()
        with pytest.raises(DeskUserError, match=r"serve old \(pid 17\) runs mcpdesk 0.0.9, this is"):
            RemoteLink(core)
    finally:
        place.leave()


async def test_a_screen_that_joins_again_shows_marks_and_remarks_once(folder: Path) -> None:
    async with running_desk(folder) as desk:
        recording, copy = desk.host.recording, TrafficCopy(lambda epoch, number: None)

        def take(news: object) -> None:
            if isinstance(news, TrafficBatch):
                copy.add_batch(news, epoch=1)

        link = LocalLink(desk.host)
        news = CoreUpdates(link, take, past=0)
        for number in (1, 2):
            recording.mark(HeldMark(990, Direction.IN, number, time.time(), 0.5, "passed on"))
            recording.remark(RecordedRemark(990, number, time.time(), Remark(RemarkKind.STDOUT, "text")))
            news.send_traffic()
            news.send_history(take, 100, 0)
        CoreUpdates(link, take, past=0).send_traffic()  # as after a time without screens
        link.close()
        assert [each.id for each in copy.marks] == [each.id for each in copy.remarks] == [1, 2]


async def test_a_screen_that_joins_shows_which_calls_got_no_answer(folder: Path) -> None:
    async with running_desk(folder) as desk:
        recording, copy = desk.host.recording, TrafficCopy(lambda epoch, number: None)
        index = Index(copy)
        recording.connect(ConnectionInfo(990, "far", "http", "somebody", "", time.time()))
        recording.frame(990, Direction.IN, b'{"jsonrpc":"2.0","id":1,"method":"ping"}', is_json=True)
        remark = Remark(RemarkKind.NO_ANSWER, "connection refused", is_fault=True)
        recording.remark(RecordedRemark(990, 1, time.time(), remark))

        def take(news: object) -> None:
            if isinstance(news, TrafficBatch):
                copy.add_batch(news, epoch=1)
                index.catch_up()

        link = LocalLink(desk.host)
        news = CoreUpdates(link, lambda message: None, past=0)  # to a screen that joined earlier
        news.send_traffic()
        news.send_history(take, 100, 0)
        link.close()
        assert [each.status for each in index.exchanges] == [Status.LOST]


async def test_a_screen_that_does_not_read_loses_frames_and_is_told_how_many(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_module, "MAX_REMARKS", 0)
    async with running_desk(folder) as desk:
        ours, theirs = socket.socketpair()
        welcome = Welcome(mcpdesk=__version__, pid=1, kind="desk")
        screen = threading.Thread(target=serve_screen, args=(partial(LocalLink, desk.host), welcome, theirs))
        screen.start()
        reader = ours.makefile("rb")
        ours.sendall(framed(Join(__version__)))
        read_message(reader.read)
        recording = desk.host.recording
        recording.connect(ConnectionInfo(990, "far", "http", "somebody", "", time.time()))
        recording.remark(RecordedRemark(990, None, time.time(), Remark(RemarkKind.STDOUT, "text")))
        total = MAX_UNSENT_FRAMES + 2 * MAX_PAST_FRAMES
        for _ in range(total):
            recording.frame(990, Direction.IN, b'{"jsonrpc":"2.0","method":"notifications/x"}', is_json=True)
        desk.host.turns.changes.notify()  # as the end of a turn does, in which frames are recorded

        def read_all() -> tuple[int, int, int]:
            came = missed = left_out = 0
            while came + missed < total:
                news = _core_decoder.decode(read_message(reader.read))
                if isinstance(news, TrafficBatch):
                    came, missed = came + len(news.frames), missed + news.missed
                    left_out = max(left_out, news.remarks_left_out)
            return came, missed, left_out

        came, missed, left_out = await asyncio.to_thread(read_all)
        assert came + missed == total and left_out == 1
        assert missed > 0
        reader.close()
        ours.close()
        await asyncio.to_thread(screen.join)
        await until(lambda: desk.host.inbox.audience == 1)


@pytest.mark.slow
async def test_core_without_changes_sends_a_screen_nothing_and_then_each_change(folder: Path) -> None:
    async with running_desk(folder) as desk:
        ours, theirs = socket.socketpair()
        screen = AttachedScreen(LocalLink(desk.host), theirs)

        def serve() -> None:
            with theirs.makefile("rb") as reader, suppress(EOFError, OSError):
                screen.serve(reader.read)
            screen.end()

        def notices() -> Iterator[Notice]:
            while True:
                news = _core_decoder.decode(read_message(reader.read))
                if isinstance(news, State) and news.part == "notices":
                    yield from msgspec.msgpack.decode(news.value, type=list[Notice])

        thread = threading.Thread(target=serve)
        thread.start()
        reader = ours.makefile("rb")
        came = notices()
        for text in ("one", "two"):
            await until(lambda: screen.is_waiting)
            desk.host.journal.notify(text)
            assert (await asyncio.to_thread(next, came)).text == text
        reader.close()
        ours.close()
        await asyncio.to_thread(thread.join)
        theirs.close()


@pytest.mark.slow
async def test_the_screen_works_on_an_attached_core(folder: Path) -> None:
    async with running_desk(folder) as desk:
        with AttachPoint(desk.host, "desk"):
            link = await asyncio.to_thread(lambda: RemoteLink(one_core()))
            other = await asyncio.to_thread(lambda: RemoteLink(one_core()))
            async with bench(link, size=(120, 40)) as it:  # type: ignore[arg-type]
                await _call_and_answer(it, other)
                with_questions = desk.host.inbox.audience
            assert with_questions == 3, "the desk's own screen and two that are attached"
            await asyncio.to_thread(link.close)
            await asyncio.to_thread(other.close)
            await until(lambda: desk.host.inbox.audience == 1)


async def _call_and_answer(it: Bench, other: RemoteLink) -> None:
    await it.open("add")
    await it.pilot.press("2", "tab", "3", "ctrl+r")
    await it.until(lambda: "✓ ok" in it.title)
    await it.until(lambda: "tools/call add" in it.shown())
    await it.open("choose")
    await it.pilot.press("ctrl+r")
    await it.until(lambda: "Which?" in it.shown())
    await it.until(lambda: bool(other.questions()))
    (question,) = other.questions()
    other.answer(question.id, [Answer(("blue",))])
    await it.until(lambda: not isinstance(it.app.screen, QuestionScreen))
    await it.until(lambda: "✓ ok" in it.title)
