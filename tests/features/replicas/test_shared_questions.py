"""Questions of every replica at each: on its desk, on its dashboard, with the first answer for all."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from mcpdesk.inbox.question import Answer, Approval, Question, QuestionState
from mcpdesk.link.local.local_link import LocalLink
from mcpdesk.link.remote import RemoteLink, running_cores
from mcpdesk.tui.forms.question_dialog import QuestionScreen
from tests.support.dashboard import OPERATOR_KEY, Events
from tests.support.desk import RunningDesk, running_desk
from tests.support.engine import EngineServer, deployment, engine_server, needs_engine, shared_engine
from tests.support.features import needs_feature
from tests.support.folders import write
from tests.support.http_client import http_client
from tests.support.patience import in_time, until, within
from tests.support.replicas import ReplicaCluster, replica_cluster
from tests.support.workbench import bench

AS_OPERATOR = {"X-Operator-Key": OPERATOR_KEY}

__all__ = ["shared_engine"]
pytestmark = needs_engine

FILES = {
    "mcp.json": '{"name": "shop", "approvals": {"sell": "ask"}}',
    "tools/shop.py": '''
        from mcpdesk import Context, Option, Page


        async def paint(ctx: Context) -> str:
            """Ask for a colour."""
            asked = await ctx.ask([Page("Which colour?", options=(Option("red"), Option("blue")))])
            return f"{asked.word}: {asked.answers[0].selected[0] if asked.answers else asked.reason}"


        async def sell(what: str) -> str:
            """Sell something."""
            return f"sold {what}"
        ''',
}
RED = [Answer(("red",))]


def folder_at(place: Path) -> Path:
    return write(place / "shop", FILES)


async def called(url: str, tool: str, **arguments: Any) -> Any:
    """Result text of a call over HTTP."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    message |= {"params": {"name": tool, "arguments": arguments}}
    async with http_client() as http, http.post(f"{url}/mcp/shop", json=message) as answer:
        # Plain JSON, or the last message of a stream.
        last = (await answer.text()).strip().splitlines()[-1].removeprefix("data: ")
        return orjson.loads(last)["result"]["content"][0]["text"]


async def asks(url: str, link: Any) -> asyncio.Task[Any]:
    """A call whose question waits at a desk. It is repeated until the replica knows of the desk."""
    async with within():
        while True:
            call = asyncio.create_task(called(url, "paint"))
            while not call.done():
                if waiting(link):
                    return call
                await asyncio.sleep(0.01)
            assert "No person can answer" in await call


def waiting(link: Any) -> list[Question]:
    return [each for each in link.questions() if each.state is QuestionState.WAITING]


@asynccontextmanager
async def two_desks(place: Path, url: str, **settings: Any) -> AsyncIterator[tuple[RunningDesk, RunningDesk]]:
    folder = folder_at(place)
    flags: dict[str, Any] = {"http": True, "shared": url, "shared_name": deployment(place), **settings}
    async with running_desk(folder, **flags) as one, running_desk(folder, **flags) as two:
        yield one, two


def url_of(desk: RunningDesk) -> str:
    assert desk.host.http is not None
    return desk.host.http.address


@pytest.mark.process
async def test_a_desk_answers_what_is_asked_at_another_where_nobody_looks(
    tmp_path: Path, shared_engine: EngineServer
) -> None:
    async with two_desks(tmp_path, shared_engine.url) as (one, two):
        two.attend(-1)  # the desk has no person now
        await until(lambda: not two.host.inbox.audience and two.host.inbox.people)
        call = asyncio.create_task(called(url_of(two), "paint"))
        await until(lambda: waiting(one))
        (shown,) = waiting(one)
        assert shown.core.endswith(url_of(two).rpartition(":")[2])
        # A desk over all replicas asks each for its own questions only.
        assert LocalLink(one.host, 0, shows_others=False).questions() == ()
        assert [each.state for each in LocalLink(two.host, 0, shows_others=False).questions()] == [
            shown.state
        ]
        assert await asyncio.wrap_future(one.answer(shown.id, RED))
        assert await call == "answered: red"
        approval = asyncio.create_task(called(url_of(two), "sell", what="tea"))
        await until(lambda: waiting(one))
        (shown,) = waiting(one)
        assert await asyncio.wrap_future(one.answer(shown.id, [Answer(("allow once",))]))
        assert await approval == "sold tea"
        assert [each.word for each in one.questions()] == ["allowed", "answered"]
        assert one.busy() == ()


@pytest.mark.process
async def test_the_question_of_a_lost_client_that_cannot_resume_is_withdrawn_everywhere(
    tmp_path: Path, shared_engine: EngineServer
) -> None:
    about: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {}}
    opening: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    opening["params"] = about | {"clientInfo": {"name": "c", "version": "1"}}
    paint = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "paint", "arguments": {}}}
    async with two_desks(tmp_path, shared_engine.url) as (one, two), http_client() as http:
        url = f"{url_of(two)}/mcp/shop"
        await until(lambda: two.host.inbox.people > 1)
        async with http.post(url, json=opening) as answer:
            session = {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}

        async def send() -> None:
            async with http.post(url, json=paint, headers=session) as answer:
                await answer.read()

        call = asyncio.create_task(send())
        await until(lambda: waiting(one) and waiting(two))
        call.cancel()
        await asyncio.wait({call})
        await until(lambda: [each.state for each in two.questions()] == [QuestionState.WITHDRAWN])
        await until(lambda: not waiting(one))


@pytest.mark.slow
async def test_a_call_of_which_a_secret_is_masked_is_allowed_at_its_own_replica_only(
    tmp_path: Path, shared_engine: EngineServer
) -> None:
    async with two_desks(tmp_path, shared_engine.url, shared_mask=True) as (one, two):
        await until(lambda: two.host.inbox.people > 1)
        for what, allows in (("tea", True), ("token=rm; $token /", False)):
            sale = asyncio.create_task(called(url_of(two), "sell", what=what))
            await until(lambda: waiting(one))
            (shown,) = waiting(one)
            labels = [option.label for option in shown.pages[0].options]
            assert labels == [*Approval] if allows else labels == [Approval.DENY]
            assert ("only a desk of the replica itself" in shown.pages[0].detail) is not allows
            answer = Approval.ONCE if allows else Approval.DENY
            assert await asyncio.wrap_future(one.answer(shown.id, [Answer((answer,))]))
            assert await sale == (
                f"sold {what}" if allows else "The person at the desk denied this call of sell."
            )
            await until(lambda: not waiting(one))


@pytest.mark.process
async def test_the_dialog_says_when_an_answer_cannot_be_sent(tmp_path: Path) -> None:
    with engine_server() as server:
        async with (
            two_desks(tmp_path, server.url) as (one, two),
            bench(one, size=(120, 40)) as screen,  # type: ignore[arg-type]
        ):
            call = asyncio.create_task(called(url_of(two), "paint"))
            await screen.until(lambda: isinstance(screen.app.screen, QuestionScreen))
            dialog = screen.app.screen
            assert isinstance(dialog, QuestionScreen)
            server.kill()
            await screen.until(lambda: dialog.takes_keys)
            await screen.pilot.press("1", "enter")
            await screen.until(lambda: "Not answered" in str(dialog.query_one(".note").render()))
            (own,) = (each for each in waiting(two) if not each.core)
            assert await asyncio.wrap_future(two.answer(own.id, RED))
            assert await call == "answered: red"


# Served


@pytest.fixture
async def cluster(tmp_path: Path, shared_engine: EngineServer) -> AsyncIterator[ReplicaCluster]:
    folder = folder_at(tmp_path)
    async with replica_cluster(
        2, [folder], shared_engine, tmp_path, MCPDESK_NO_AUTH="true", MCPDESK_OPERATOR_KEY=OPERATOR_KEY
    ) as made:
        yield made


def attached(cluster: ReplicaCluster, index: int) -> RemoteLink:
    """A screen attached to one replica, and to no other."""
    pid = cluster.replicas[index].process.pid
    for number in range(1, 10):
        found = running_cores(str(cluster._place / f"state-{number}"))
        if here := next((each for each in found if each.welcome.pid == pid), None):
            return RemoteLink(here)
    raise AssertionError("it is not found")


@needs_feature("dashboard")
@pytest.mark.process
async def test_an_attached_screen_and_a_dashboard_show_and_answer_those_of_all(
    cluster: ReplicaCluster,
) -> None:
    one, two = cluster.replicas
    link = await asyncio.to_thread(attached, cluster, 0)
    try:
        async with (
            http_client() as client,
            client.get(f"{one.url}/dashboard/events", headers=AS_OPERATOR) as page,
        ):
            events = Events(page)
            for answers_at in ("screen", "dashboard", "screen"):
                call = await asks(two.url, link)
                told = await events.event("questions", lambda told: told["waiting"])
                (shown,), (question,) = told["waiting"], waiting(link)
                assert question.core.endswith(f":{two.port}")
                if answers_at == "screen":
                    assert await asyncio.wrap_future(link.answer(question.id, RED))
                else:
                    given = {"question": shown["id"], "answers": [{"selected": ["red"], "other": ""}]}
                    headers = {"Origin": one.url, "Content-Type": "application/json", **AS_OPERATOR}
                    place = f"{one.url}/dashboard/answer"
                    async with client.post(place, data=orjson.dumps(given), headers=headers) as sent:
                        assert sent.status == 200, await sent.text()
                assert await call == "answered: red"
                await until(lambda: not waiting(link))
                await events.event("questions", lambda told: not told["waiting"])
    finally:
        await asyncio.to_thread(link.close)


@pytest.mark.slow
async def test_those_of_a_killed_replica_go_within_ten_seconds_and_a_paused_one_takes_its_answer(
    cluster: ReplicaCluster,
) -> None:
    two = cluster.replicas[1]
    link = await asyncio.to_thread(attached, cluster, 0)
    try:
        call = await asks(two.url, link)
        two.send(signal.SIGSTOP)
        (question,) = waiting(link)
        assert await asyncio.wrap_future(link.answer(question.id, RED))
        two.send(signal.SIGCONT)
        assert await call == "answered: red"
        lost = await asks(two.url, link)
        two.send(signal.SIGKILL)
        await until(lambda: not waiting(link), within_s=10)
        assert link.questions()[0].reason == "its replica is lost"
        with pytest.raises(Exception):  # noqa: B017 (however the client's library puts it)
            await in_time(lost)
    finally:
        await asyncio.to_thread(link.close)
