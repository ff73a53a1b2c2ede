"""One screen over several cores: its combined view, the target of its requests, and the end of a core."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.errors import DeskUserError
from mcpdesk.features.replicas.desk import combined_link
from mcpdesk.features.replicas.desk.combined_link import CombinedLink
from mcpdesk.features.replicas.desk.local_replicas import LocalReplicas
from mcpdesk.inbox.question import Answer, QuestionState
from mcpdesk.link.link import INTENTS, Link
from mcpdesk.link.values import JobState, ServerView, Severity, ShownCoreState
from mcpdesk.recorder.index.query import parse
from mcpdesk.recorder.index.view import View
from mcpdesk.testing.sync_client import ServerUnderTest
from mcpdesk.tui.traffic.traffic_pane import TrafficPane
from tests.cli.conftest import Service, started_services
from tests.link.test_remote import FILES, text
from tests.support.features import needs_feature
from tests.support.folders import write
from tests.support.patience import WITHIN_S, result_of, wait_until
from tests.support.workbench import bench


class Replica:
    """A running service, and how clients call it."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.url = service.says("serving far").rpartition(" ")[2]
        self.name = str(service.process.pid)

    def call(self, name: str, **arguments: Any) -> str:
        """Text of the result for a client of it."""
        with ServerUnderTest(self.url) as client:
            return client.call(name, **arguments).text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "far", FILES)


Start = Callable[[], Replica]


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts one more replica of the folder."""
    with started_services() as run:
        yield lambda: Replica(run(str(folder), "--port", "0", "--no-auth"))


Attach = Callable[..., CombinedLink]


@pytest.fixture
def attach() -> Iterator[Attach]:
    links = list[CombinedLink]()

    def attached(*named: str) -> CombinedLink:
        links.append(CombinedLink(LocalReplicas(named)))
        return links[-1]

    yield attached
    for link in links:
        link.close()


def has_all(link: CombinedLink, count: int) -> bool:
    view = link.view()
    states = [each.state for each in view.cores]
    return states == [ShownCoreState.LIVING] * count and len(_far(link).cores) == count


def _far(link: CombinedLink) -> ServerView:
    servers = link.view().servers
    return next((each for each in servers if each.name == "far"), ServerView("", "", "", "", "", 0))


def replicas_of(link: CombinedLink, method: str) -> list[str]:
    while link.traffic.catch_up():
        pass
    return sorted({one.core for one in link.traffic.exchanges if one.method == method})


@pytest.mark.process
def test_three_replicas_are_one_server_with_the_traffic_of_all(start: Start, attach: Attach) -> None:
    replicas = [start() for _ in range(3)]
    names = sorted(each.name for each in replicas)
    link = attach(*names)
    wait_until(lambda: has_all(link, 3))
    assert [server.name for server in link.view().servers] == ["far"]
    assert [each.name for each in link.view().cores] == names
    for each in replicas:
        assert each.call("add", a=1, b=2) == "3"
    wait_until(lambda: replicas_of(link, "tools/call") == names)
    numbers = [one.connection for one in link.traffic.exchanges]
    assert len(set(numbers)) == len({(one.core, one.connection) for one in link.traffic.exchanges}) >= 3
    view = View(link.traffic, parse(f"replica:{names[1]}", 0.0))
    view.advance(WITHIN_S)
    assert {link.traffic.exchange(line).core for line in view.lines} == {names[1]}
    wait_until(lambda: {client.core for client in link.view().clients} == set(names))
    copy = link.room.copy_of(next(n for n, info in link.traffic.connections.items() if info.core == names[2]))
    assert copy is not None and copy.label == names[2]
    result_of(copy.request("far", "tools/call", {"name": "large", "arguments": {}}).outcome)
    wait_until(lambda: any(line.text == "a stray print" and line.core for line in link.logs()))
    line = next(line for line in link.logs() if line.text == "a stray print")
    assert line.core == names[2]
    assert line.call is not None and link.traffic.connections[line.call[0]].core == line.core
    while link.traffic.catch_up():
        pass
    frame = next(
        one.response for one in link.traffic.exchanges if one.name == "large" and one.response is not None
    )
    assert len(link.traffic.frame_bytes(frame)) > 200_000, "fetched from the replica that has it"


def wrote(link: CombinedLink, job: str) -> bool:
    output = link.output(job, -1)
    return output is not None and "here" in output.text


@needs_feature("holding")
@pytest.mark.slow
def test_questions_holds_and_jobs_are_dealt_with_on_their_replica(start: Start, attach: Attach) -> None:
    from mcpdesk.features.holding.held_message import HoldView, Release, SetHold, Verdict

    replicas = [start() for _ in range(2)]
    link = attach(*(each.name for each in replicas))
    wait_until(lambda: has_all(link, 2))
    calls = [link.request("far", "tools/call", {"name": "choose", "arguments": {}})]
    first = link._copy_for("far")
    other = next(copy for copy in link._living("far") if copy is not first)
    calls.append(other.request("far", "tools/call", {"name": "choose", "arguments": {}}))
    wait_until(lambda: len({one.core for one in link.questions()}) == 2)
    assert len({one.id for one in link.questions()}) == 2
    for question, colour in zip(link.questions(), ("red", "blue"), strict=True):
        assert result_of(link.answer(question.id, [Answer((colour,))]))
        assert not result_of(link.answer(question.id, [Answer(("red",))])), "the first answer wins"
    found = [text(result_of(call.outcome)) for call in calls]
    assert sorted("selected=('red',)" in each for each in found) == [False, True], found
    assert result_of(link.do(SetHold("tool:add", "requests")))
    with pytest.raises(ValueError, match="unknown field"):
        result_of(link.do(SetHold("nope:add", "requests")))
    adding = other.request("far", "tools/call", {"name": "add", "arguments": {"a": 1, "b": 1}})
    wait_until(lambda: link.feature_part(HoldView).messages)
    (message,) = link.feature_part(HoldView).messages
    assert message.core == other.label
    assert result_of(link.do(Release(message.number, Verdict.PASS)))
    assert result_of(adding.outcome).result is not None
    third = start()
    late = attach(third.name, *(each.name for each in replicas))
    wait_until(lambda: has_all(late, 3))
    assert result_of(late.do(SetHold("", "requests")))
    for copy in link._living("far"):
        result_of(
            copy.request(
                "far",
                "tools/call",
                {"name": "BackgroundBash", "arguments": {"command": "echo here; sleep 600"}},
            ).outcome
        )
    wait_until(lambda: {job.core for job in link.jobs()} == {each.name for each in replicas})
    assert len({job.id for job in link.jobs()}) == 2, "each replica has a first program"
    for job in link.jobs():
        wait_until(partial(wrote, link, job.id))
    wait_until(lambda: set(link.usage()) == {job.id for job in link.jobs()})
    ended, kept = link.jobs()
    link.kill_job(ended.id)
    wait_until(
        lambda: {job.id: job.state.is_final for job in link.jobs()} == {ended.id: True, kept.id: False}
    )


@pytest.mark.process
def test_a_killed_replica_is_told_in_a_line_and_its_rows_stay(start: Start, attach: Attach) -> None:
    replicas = {each.name: each for each in (start(), start())}
    link = attach(*replicas)
    wait_until(lambda: has_all(link, 2))
    for each in replicas.values():
        each.call("add", a=1, b=1)
    wait_until(lambda: replicas_of(link, "tools/call") == sorted(replicas))
    asked = link.request("far", "tools/call", {"name": "choose", "arguments": {}})
    wait_until(link.questions)
    copy = link._copy_for("far")
    assert copy is not None
    lost = copy.label
    result_of(
        copy.request(
            "far", "tools/call", {"name": "BackgroundBash", "arguments": {"command": "sleep 5"}}
        ).outcome
    )
    wait_until(link.jobs)
    replicas[lost].service.end(signal.SIGKILL)
    wait_until(lambda: {each.name: each.state for each in link.view().cores}[lost] is ShownCoreState.GONE)
    told = [each for each in link.notices() if each.severity is Severity.ERROR]
    assert [each.text for each in told] == [f"{lost} has ended: its traffic is kept"]
    error = result_of(asked.outcome).error
    assert error is not None and error["message"] == f"{lost} has ended"
    assert link.questions()[0].state is QuestionState.WITHDRAWN
    assert link.view().gone == ""
    assert lost in {one.core for one in link.view().clients if one.left is not None}
    assert not any(one.core == lost for one in link.view().clients if one.left is None)
    assert [(job.core, job.state) for job in link.jobs()] == [(lost, JobState.KILLED)]
    assert lost in replicas_of(link, "tools/call")
    assert link.traffic.former_cores == {lost}
    gone = next(one for one in link.view().clients if one.core == lost)
    detail = link.client(gone.connection)
    assert detail is not None and detail.has_left
    again = link.request("far", "tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})
    assert "5" in str(result_of(again.outcome).result), "another replica is asked from now on"
    (other,) = (each for name, each in replicas.items() if name != lost)
    other.service.end(signal.SIGKILL)
    wait_until(lambda: link.view().gone == "every replica has ended")
    assert replicas_of(link, "tools/call") == sorted(replicas)


@needs_feature("holding")
@pytest.mark.process
def test_a_replica_that_comes_later_is_joined_and_holds_too(start: Start, attach: Attach) -> None:
    from mcpdesk.features.holding.held_message import HoldView, SetHold

    first = start()
    link = attach("far", first.name)
    wait_until(lambda: has_all(link, 1))
    assert result_of(link.do(SetHold("tool:add", "requests")))
    second = start()
    wait_until(lambda: has_all(link, 2))
    late = next(each.name for each in link.view().cores if each.name.endswith(second.name))
    assert late == f"far:{second.name}"
    wait_until(lambda: any(each.text == f"{late} has appeared" for each in link.notices()))
    copy = next(each for each in link._living("far") if each.label == late)
    wait_until(lambda: copy.feature_part(HoldView).rule == "tool:add")
    assert result_of(link.do(SetHold("", "requests")))


@pytest.mark.process
def test_replicas_with_different_versions_of_a_folder_are_told(
    start: Start, attach: Attach, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(combined_link, "SEARCH_PERIOD_S", 0.1)
    first = start()
    newer = write(tmp_path / "newer" / "far", {**FILES, "resources/more.md": "# More\n"})
    with started_services() as run:
        second = Replica(run(str(newer), "--port", "0", "--no-auth"))
        link = attach(first.name, second.name)
        wait_until(lambda: has_all(link, 2))
        wait_until(lambda: _far(link).problems)
        (problem,) = _far(link).problems
        assert problem.startswith("not the same on every replica")
        assert first.name in problem and second.name in problem
        wait_until(lambda: any(each.text.startswith("far is not the same") for each in link.notices()))
        (newer / "resources/more.md").unlink()
        wait_until(lambda: not _far(link).problems)


@pytest.mark.process
def test_nobody_of_that_name_is_an_error_at_once(start: Start) -> None:
    start()
    began = time.monotonic()
    with pytest.raises(DeskUserError, match="No replica of mcpdesk was found at nobody, nothing"):
        CombinedLink(LocalReplicas(("nobody", "nothing")))
    assert time.monotonic() - began < WITHIN_S


@needs_feature("dashboard")
@pytest.mark.process
def test_one_replica_makes_a_sign_in_link_and_all_sign_browsers_out(start: Start, attach: Attach) -> None:
    from mcpdesk.features.dashboard.browsers import BrowserView, SignInLink, SignOutBrowsers
    from tests.features.dashboard.test_desk_actions import sign_in

    replicas = [start(), start()]
    link = attach(*(each.name for each in replicas))
    wait_until(lambda: has_all(link, 2) and link.feature_part(BrowserView).is_served)
    asked = [copy.do(SignInLink()) for copy in link._living("far")]
    for url in (*map(result_of, asked), result_of(link.do(SignInLink()))):
        assert sign_in(url) == 200
    assert result_of(link.do(SignOutBrowsers())) == 3
    assert not link._replayed_intents


@needs_feature("dashboard")
@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")
def test_the_replica_that_serves_the_dashboard_makes_the_sign_in_link(
    start: Start, attach: Attach, folder: Path, tmp_path: Path
) -> None:
    from mcpdesk.features.dashboard.browsers import BrowserView, SignInLink
    from tests.features.dashboard.test_desk_actions import sign_in

    with started_services() as run:
        quiet = [run(str(folder), "--socket", str(tmp_path / f"{number}.sock")) for number in range(2)]
        for each in quiet:
            each.says("serving far")
        served = start()
        link = attach(*(str(each.process.pid) for each in quiet), served.name)
        wait_until(lambda: has_all(link, 3) and link.feature_part(BrowserView).is_served)
        assert sign_in(result_of(link.do(SignInLink()))) == 200


def test_every_method_of_the_link_is_combined() -> None:
    names = {name for name in dir(Link) if not name.startswith("_")} - {"traffic", "is_remote"}
    names -= {*INTENTS, "read_snapshot"}  # `execute` implements the intents; each snapshot is merged
    assert {name for name in names if getattr(CombinedLink, name) is getattr(Link, name)} == set()


@pytest.mark.slow
async def test_the_screen_shows_which_replica_a_line_is_of(start: Start, attach: Attach) -> None:
    import asyncio

    replicas = [await asyncio.to_thread(start) for _ in range(2)]
    link = await asyncio.to_thread(attach, *(each.name for each in replicas))
    for each in replicas:
        await asyncio.to_thread(each.call, "add", a=1, b=2)
    wide, narrow = (120, 40), (80, 24)
    async with bench(link, size=narrow) as it:  # type: ignore[arg-type]
        await it.until(lambda: "2 replicas" in it.shown())
        await it.pilot.press("2")
        await it.until(lambda: isinstance(it.app.main.pane, TrafficPane))
        it.app.screen.query_one(TrafficPane).show_only("tool:add")
        await it.until(lambda: all(each.name in it.shown() for each in replicas))
        await it.pilot.press("4")
        for size in (wide, narrow):
            await it.until(lambda: all(each.name in it.shown() for each in replicas))
            await it.pilot.resize_terminal(*size)
        replicas[0].service.process.send_signal(signal.SIGKILL)
        await it.until(lambda: "1 of 2 replicas" in it.shown())
        await it.pilot.press("2")
        for size in (wide, narrow):
            await it.until(lambda: f"✕ {replicas[0].name}" in it.shown())
            await it.pilot.resize_terminal(*size)
