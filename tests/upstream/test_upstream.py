"""Servers that are not ours on a desk: real programs and listeners, seen through the link."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer
from msgspec.structs import replace

from mcpdesk.cli.desk_targets import desk_targets
from mcpdesk.cli.serve import greeting
from mcpdesk.client import child_process
from mcpdesk.client.targets import BrokenTarget, CommandTarget, UrlTarget
from mcpdesk.inbox.question import Answer, QuestionState
from mcpdesk.link.values import Protection, ServerView, UpstreamView
from mcpdesk.paths import sample_servers
from mcpdesk.upstream.target_transport import Reach
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support import odd_server
from tests.support.desk import RunningDesk, running_desk
from tests.support.folders import write
from tests.support.guarded_server import GuardedServer
from tests.support.patience import until
from tests.support.trusting import agree

HELLO = sample_servers() / "hello"


def odd(habit: str = "", name: str = "odd", program: Path = Path(odd_server.PROGRAM)) -> UpstreamPlan:
    """The odd server as a program."""
    return UpstreamPlan(name, CommandTarget((sys.executable, str(program), habit)))


def view(desk: RunningDesk, name: str = "odd") -> ServerView:
    """The server of that name."""
    return next(one for one in desk.view().servers if one.name == name)


def upstream(desk: RunningDesk, name: str = "odd") -> UpstreamView:
    """State of an upstream server."""
    found = view(desk, name).upstream
    assert found is not None
    return found


def names(desk: RunningDesk, name: str = "odd") -> list[str]:
    """Names of its items."""
    return [item.name for item in desk.catalogue(name).items]


async def call(desk: RunningDesk, tool: str, **arguments: Any) -> dict[str, Any]:
    """The result, or the error, of a call of the desk's."""
    outcome = await desk.outcome("odd", "tools/call", {"name": tool, "arguments": arguments})
    found = outcome.result or outcome.error
    assert found is not None
    return found


@pytest.mark.process
async def test_a_program_is_a_server_beside_a_folder() -> None:
    async with running_desk(HELLO, upstreams=[odd()]) as desk:
        await until(lambda: upstream(desk).state == "ready")
        assert [one.name for one in desk.view().servers] == ["hello", "odd"]
        shown, known = view(desk), upstream(desk)
        assert (shown.title, shown.version, shown.folder) == ("The odd one", "0.9", "")
        assert (known.revision, known.instructions) == ("2025-06-18", "Be gentle.")
        assert known.steps == ("server/discover: error -32601: no server/discover", "initialize: answered")
        assert "com.example/odd" in known.capabilities["extensions"]
        assert names(desk) == ["echo", "ask", "grow", "die"]
        assert desk.catalogue("odd").items[0].title == "Echo"
        assert (await call(desk, "echo", text="hi"))["content"][0]["text"] == "hi"
        assert [each.path for each in desk.validate("odd", "echo", {"text": 3})] == [("text",)]
        assert "mcpdesk" in desk.client_config("odd", "cursor").result(0)
        lines = [line.text for line in desk.logs() if line.server == "odd"]
        assert "it begins" in lines


@pytest.mark.process
async def test_what_is_malformed_in_its_lists_is_named_and_the_rest_is_offered() -> None:
    async with running_desk(upstreams=[odd()]) as desk:
        await until(lambda: upstream(desk).state == "ready")
        assert view(desk).problems == (
            "tools/list: tools 5 ('shapeless') has no inputSchema",
            "tools/list: tools 6 is not an object",
            "tools/list: 'echo' is listed more than once",
        )


@pytest.mark.process
async def test_every_message_is_in_the_traffic() -> None:
    async with running_desk(upstreams=[odd()]) as desk:
        await until(lambda: upstream(desk).state == "ready")
        await call(desk, "echo", text="hi")
        index = desk.traffic
        index.catch_up()
        found = [index.exchange(number) for number in range(len(index.exchanges))]
        methods = [each.method for each in found if each.server == "odd"]
        assert methods[:3] == ["server/discover", "initialize", "notifications/initialized"]
        assert methods[-1] == "tools/call"


@pytest.mark.process
async def test_its_questions_are_answered_in_the_inbox() -> None:
    async with running_desk(upstreams=[odd()]) as desk:
        await until(lambda: upstream(desk).state == "ready")
        asked = asyncio.create_task(call(desk, "ask"))
        await until(desk.questions)
        question = desk.questions()[0]
        assert (question.server, question.pages[0].question) == ("odd", "Who?")
        await asyncio.wrap_future(desk.answer(question.id, [Answer(other="Ada")]))
        assert (await asked)["content"][0]["text"] == "accept {'name': 'Ada'}"


@pytest.mark.process
async def test_a_changed_list_is_read_again() -> None:
    async with running_desk(upstreams=[odd()]) as desk:
        await until(lambda: upstream(desk).state == "ready")
        await call(desk, "grow")
        await until(lambda: "tool-7" in names(desk))


@pytest.mark.process
async def test_a_program_that_dies_is_told_of_and_started_again_by_the_next_call() -> None:
    async with running_desk(upstreams=[odd()]) as desk:
        await until(lambda: upstream(desk).state == "ready")
        died = await call(desk, "die")
        assert (
            died["message"] == "the program ended with exit code 3: ERROR: no more / at all / out of memory"
        )
        assert upstream(desk).state == "ended" and view(desk).problems == (died["message"],)
        assert any("out of memory" in notice.text for notice in desk.notices())
        await until(
            lambda: ("error", "ERROR: no more\n  at all") in [(line.level, line.text) for line in desk.logs()]
        )
        assert (await call(desk, "echo", text="back"))["content"][0]["text"] == "back"
        await until(lambda: upstream(desk).state == "ready")


@pytest.mark.process
async def test_the_reload_key_connects_anew() -> None:
    async with running_desk(upstreams=[odd()]) as desk:
        await until(lambda: upstream(desk).state == "ready")
        await call(desk, "grow")
        await until(lambda: "tool-7" in names(desk))
        desk.reload("odd")
        await until(lambda: upstream(desk).state == "ready" and "tool-7" not in names(desk))
        assert (await call(desk, "echo", text="new"))["content"][0]["text"] == "new"


@pytest.mark.process
async def test_it_is_started_again_when_a_file_of_its_command_changes(tmp_path: Path) -> None:
    program = tmp_path / "mine.py"
    program.write_text(Path(odd_server.PROGRAM).read_text())
    async with running_desk(upstreams=[odd(program=program)]) as desk:
        await until(lambda: upstream(desk).state == "ready")
        program.write_text(program.read_text().replace('"grow"', '"shrink"', 1))
        await until(lambda: "shrink" in names(desk))
        told = "odd: one of its files changed, so it is restarted"
        assert [notice.text for notice in desk.notices()] == [told], "our own restart is not a failure"


@pytest.mark.process
@pytest.mark.parametrize(("kind", "file"), [("watched", "new.toml"), ("sources", "new.py")])
async def test_it_is_started_again_when_a_file_in_a_watched_folder_changes(
    tmp_path: Path, kind: str, file: str
) -> None:
    watched = tmp_path / "settings"
    watched.mkdir()
    plan = odd()
    assert isinstance(plan.target, CommandTarget)
    async with running_desk(
        upstreams=[replace(plan, target=replace(plan.target, **{kind: (watched,)}))]
    ) as desk:
        await until(lambda: upstream(desk).state == "ready")
        await call(desk, "grow")
        await until(lambda: "tool-7" in names(desk))
        if kind == "sources":  # a program that writes into its own package is not restarted
            (watched / "data.db").write_text("rows")
        (watched / file).write_text("a = 1")
        await until(lambda: upstream(desk).state == "ready" and "tool-7" not in names(desk))


@pytest.mark.process
@pytest.mark.parametrize(
    ("plan", "problem", "hint"),
    [
        (odd("brief"), "the program ended with exit code 7: it begins / no configuration", "in the log (5)"),
        (
            UpstreamPlan("odd", CommandTarget(("no-such-program",))),
            "program 'no-such-program' does not exist",
            "F5 tries again",
        ),
        (UpstreamPlan("odd", UrlTarget("http://127.0.0.1:1/mcp")), "Connection refused", "F5 tries again"),
    ],
)
async def test_a_connection_that_fails_is_explained_and_the_desk_goes_on(
    plan: UpstreamPlan, problem: str, hint: str
) -> None:
    async with running_desk(HELLO, upstreams=[plan]) as desk:
        await until(lambda: upstream(desk).state == "failed")
        assert problem in view(desk).problems[0] and hint in upstream(desk).hint
        called = desk.request("hello", "tools/call", {"name": "greet", "arguments": {"name": "Ada"}})
        assert (await asyncio.wrap_future(called.outcome)).result is not None


@pytest.mark.process
async def test_a_program_that_never_answers_is_a_failure_with_advice() -> None:
    async with running_desk(upstreams=[odd("silent")], connect_timeout_s=1) as desk:
        await until(lambda: upstream(desk).state == "failed")
        assert "did not answer within 1 s" in view(desk).problems[0]
        assert upstream(desk).hint.startswith("Check that it is an MCP server and does not wait for input.")


async def test_each_step_of_the_search_for_a_transport_is_told() -> None:
    async def nothing(request: web.BaseRequest) -> web.Response:
        return web.Response(status=404)

    async with RawTestServer(nothing) as there:
        plan = UpstreamPlan("odd", UrlTarget(str(there.make_url("/mcp"))))
        async with running_desk(upstreams=[plan]) as desk:
            await until(lambda: upstream(desk).state == "failed")
            problem, hint = view(desk).problems[0], upstream(desk).hint
            await until(lambda: [each.text for each in desk.notices()] == [f"odd: {problem}. {hint}"])
            tried = ("server/discover", "initialize", "opening a stream")
            assert upstream(desk).steps == tuple(f"{each}: HTTP 404" for each in tried)


@pytest.mark.process
async def test_what_a_program_says_besides_messages_is_logged() -> None:
    async with running_desk(upstreams=[odd("chatty")]) as desk:
        await until(lambda: upstream(desk).state == "ready")
        assert "not a message: Listening on nothing ..." in [line.text for line in desk.logs()]


@pytest.mark.process
async def test_a_slow_start_does_not_hide_the_newest_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "PROBE_S", 0.05)
    async with running_desk(upstreams=[odd("late")]) as desk:
        await until(lambda: upstream(desk).state == "ready")
        assert upstream(desk).revision == "2026-07-28"


async def test_a_server_behind_a_url_in_the_newest_revision(tmp_path: Path) -> None:
    async with (
        running_desk(HELLO, http=True) as serving,
        running_desk(upstreams=[UpstreamPlan("odd", UrlTarget(serving.view().servers[0].url))]) as desk,
    ):
        await until(lambda: upstream(desk).state == "ready")
        assert upstream(desk).revision == "2026-07-28"
        assert {"greet", "order-tea"} <= set(names(desk))
        assert (await call(desk, "greet", name="Ada"))["content"][0]["text"] == "Hello, Ada!"


async def test_another_revision_is_spoken_with_a_server_at_wish() -> None:
    async with (
        running_desk(HELLO, http=True) as serving,
        running_desk(upstreams=[UpstreamPlan("odd", UrlTarget(serving.view().servers[0].url))]) as desk,
    ):
        for wish, spoken in (("", "2026-07-28"), ("2025-06-18", "2025-06-18"), ("", "2026-07-28")):
            desk.reconnect_with_revision("odd", wish)
            await until(lambda spoken=spoken: upstream(desk).revision == spoken)  # type: ignore[misc]
            await until(lambda: upstream(desk).state == "ready" and "greet" in names(desk))
        assert not any("ended" in notice.text for notice in desk.notices())


@pytest.mark.process
async def test_whether_a_server_completes_arguments_is_known_from_what_it_announces(tmp_path: Path) -> None:
    folder = write(tmp_path / "plain", {"mcp.json": '{"name": "plain"}'})
    async with running_desk(folder, upstreams=[odd()]) as desk:
        await until(lambda: upstream(desk).state == "ready")
        assert not view(desk).has_completion and not view(desk, "plain").has_completion


async def test_a_person_logs_in_from_the_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    async with (
        GuardedServer().running() as server,
        running_desk(
            upstreams=[UpstreamPlan("odd", UrlTarget(server.url))], http=True, state_dir=tmp_path
        ) as desk,
    ):
        await until(lambda: upstream(desk).state == "failed")
        assert "F6 logs in" in upstream(desk).hint
        desk.log_in("odd")
        await until(desk.questions)
        async with aiohttp.ClientSession() as browser, browser.get(desk.questions()[0].pages[0].link) as page:
            assert "You are logged in" in await page.text()
        await until(lambda: upstream(desk).state == "ready")
        assert f"token of {server.origin}, until" in upstream(desk).login
        assert "tokens.json" in upstream(desk).login
        await until(lambda: desk.view().protection is Protection.KEY)  # callers would use the token, too
        assert not [each for each in desk.questions() if each.state is QuestionState.WAITING]
        index = desk.traffic
        index.catch_up()
        names = [index.exchange(number).name for number in range(len(index.exchanges))]
        assert f"POST {server.origin}/token" in names and f"POST {server.origin}/register" in names
        assert "token-1" not in str(names)


async def test_each_account_of_a_url_has_its_own_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    async with GuardedServer().running() as server:
        config = tmp_path / ".mcp.json"
        entries = {name: {"url": server.url, "account": name} for name in ("work", "home")}
        config.write_text(json.dumps({"mcpServers": entries}))
        plans = desk_targets([str(config)], Reach(), agree=agree).upstreams
        async with running_desk(upstreams=plans, state_dir=tmp_path / "state") as desk:
            await until(lambda: {upstream(desk, name).state for name in entries} == {"failed"})
            assert upstream(desk, "work").login == "account work: not logged in"
            desk.log_in("work")
            await until(desk.questions)
            link = desk.questions()[0].pages[0].link
            async with aiohttp.ClientSession() as browser, browser.get(link) as page:
                assert page.status == 200
            await until(lambda: upstream(desk, "work").state == "ready")
            assert upstream(desk, "work").login.startswith(f"account work: token of {server.origin}")
            assert upstream(desk, "home").state == "failed"


@pytest.mark.process
async def test_a_disabled_entry_is_not_started_even_when_it_is_restarted(tmp_path: Path) -> None:
    mark, path = tmp_path / "started", tmp_path / ".mcp.json"
    entry = {"command": sys.executable, "args": ["-c", f"open({str(mark)!r}, 'w')"], "disabled": True}
    path.write_text(json.dumps({"mcpServers": {"off": entry}}))
    plans = desk_targets([str(path)], Reach(), agree=agree).upstreams
    async with running_desk(HELLO, upstreams=plans) as desk:
        for _ in range(2):
            await until(lambda: upstream(desk, "off").state == "disabled")
            assert view(desk, "off").problems == (f"it is disabled in {path}.",)
            assert "FILE:NAME" in upstream(desk, "off").hint
            desk.reload("off")
    assert not mark.exists()


@pytest.mark.process
async def test_the_pages_of_the_core_name_servers_that_are_not_ours() -> None:
    broken = BrokenTarget("it has no command")
    plans = [odd(), UpstreamPlan("far", UrlTarget("http://127.0.0.1:1/mcp")), UpstreamPlan("line", broken)]
    async with running_desk(HELLO, upstreams=plans, http=True) as desk, aiohttp.ClientSession() as client:
        address = desk.host.url("far").removesuffix("/mcp/far")
        key = {desk.host.rules.api_key_header: desk.host.rules.api_key or ""}
        async with client.get(f"{address}/status", headers=key) as answer:
            assert (await answer.json())["passed_on"] == ["odd", "far"]
        async with client.get(f"{address}/") as answer:
            assert "/mcp/far" in await answer.text()
        told = "\n".join(greeting(desk.host))
        assert f"passing far through at {address}/mcp/far" in told
        assert "line is not served to clients; `mcpdesk attach` shows it" in told
