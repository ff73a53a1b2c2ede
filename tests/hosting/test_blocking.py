"""The core's event loop uses no file, no lock and no database itself while it serves."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from msgspec.structs import replace

from mcpdesk.cli.desk_targets import typed_targets
from mcpdesk.client.http_transports import HttpRequests
from mcpdesk.client.oauth.authorizer import Authorizer
from mcpdesk.client.oauth.grants import ClientSetup
from mcpdesk.client.oauth.stored_grants import FILE_NAME, PrivateFile, StoredGrants
from mcpdesk.client.targets import CommandTarget, UrlTarget
from mcpdesk.errors import OtherEnvironmentError
from mcpdesk.inbox.question import Answer, Approval
from mcpdesk.protocol.revisions import LATEST
from mcpdesk.settings import read_env_file
from mcpdesk.transports.pipe import PipeRequest
from mcpdesk.upstream.upstream import UpstreamPlan, UpstreamState
from tests.support import official_server, tokens
from tests.support.blocking import blocking_calls
from tests.support.dashboard import DRAW, KEY, dashboard
from tests.support.desk import RunningDesk, running_desk
from tests.support.features import having, needs_feature
from tests.support.folders import save, write
from tests.support.guarded_server import GuardedServer
from tests.support.patience import until, within
from tests.support.rude import turn
from tests.support.wire import Wire

pytestmark = [pytest.mark.slow, pytest.mark.process]

BUILTINS = [
    *("PlanMode", "TaskManager", "SetCallback", "Bash", "BackgroundBash", "ReadBgOutput", "ListBgTasks"),
    *("KillBgTask", "InvokeSkill", "ReadImage"),
]
COMMANDS: tuple[dict[str, Any], ...] = having(
    "program_tools",
    {
        "stage": "make",
        "command": "note",
        "run": ["sh", "-c", "echo hi > {path}; seq 400000"],
        "parameters": {"type": "object", "properties": {"path": {"type": "string", "format": "path"}}},
        "produces": ["{path}"],
    },
)
TOOL = '''
from mcpdesk import Context, prompt, resource


async def echo(text: str) -> str:
    """Repeat a text."""
    return text


def draw(ctx: Context, names: list[str]) -> str:
    """Make files; each holds its name."""
    for name in names:
        (ctx.folder / name).write_text(name)
        ctx.produced(name)
    return "drawn"


async def fail() -> str:
    """Raise."""
    raise KeyError("here")
'''
RESOURCE = '''
async def broken(id: int) -> str:
    """Raise."""
    raise KeyError("here")
'''
OFFERED_AGAIN = TOOL.replace("echo", "again")
ALLOWED = (
    "(hosting/folder/module_items.py:call",  # the code of a handler here, which writes a file
    "(client/child_process.py:start",  # the start of an upstream program, by asyncio
    "jobs/child.py:mark < upstream/target_transport.py:",  # an upstream program is added: the guard starts
)


def folder_of(path: Path, **manifest: Any) -> Path:
    """A server folder."""
    told = {"name": "meeting", "version": "1.0.0", "builtins": BUILTINS, "commands": COMMANDS} | manifest
    skill = "---\nname: brew\ndescription: Brew tea.\n---\nBoil $ARGUMENTS.\n"
    files = {
        "mcp.json": orjson.dumps(told).decode(),
        "tools/tool.py": TOOL,
        "resources/thing/{id}.py": RESOURCE,
        "resources/note.txt": "a note",
        "prompts/ask.md": "---\ndescription: Ask.\n---\nAsk.\n",
        "skills/brew/SKILL.md": skill,
        "skills/brew/table.txt": "a table",
    }
    return write(path, files)


@asynccontextmanager
async def served(folder: Path, **flags: Any) -> AsyncIterator[tuple[RunningDesk, Wire]]:
    """A desk with a folder, and a client; fails if a loop used the disk after the start."""
    with ExitStack() as watch:
        async with (
            running_desk(folder, http=True, watch=True, no_auth=True, **flags) as desk,
            aiohttp.ClientSession() as client,
            within(),
        ):
            seen = watch.enter_context(blocking_calls(ALLOWED))
            yield desk, Wire(client, desk.host.url("meeting"))
    assert not seen, "\n".join(seen)


async def test_calls_sessions_state_and_a_changed_folder(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "meeting")
    async with served(folder) as (desk, wire):
        await wire.open()
        unknown = await wire.post("ping", {}, Mcp_Session_Id="0" * 48)
        assert "No such session" in unknown["error"]["message"]
        await wire.call("echo", text="a")
        await wire.call("TaskManager", action="create", query="buy milk")
        await wire.call("TaskManager", action="list", query="")
        await wire.call("PlanMode", action="enter", goal="Move house")
        await wire.call("PlanMode", action="exit")
        await wire.call("Bash", command="seq 400000")
        await wire.post("resources/list", {})
        listed = await wire.post("resources/list", {})
        for each in listed["result"]["resources"]:
            await wire.post("resources/read", {"uri": each["uri"]})
        for each in (await wire.post("prompts/list", {}))["result"]["prompts"]:
            await wire.post("prompts/get", {"name": each["name"], "arguments": {}})
        await wire.call("InvokeSkill", skill_name="brew", arguments="tea")
        save(folder / "tools" / "tool.py", OFFERED_AGAIN)
        while "again" not in str(await wire.post("tools/list", {})):
            await turn()
        async with wire.client.delete(desk.host.url("meeting"), headers=wire.headers) as answer:
            assert answer.status == 204


async def test_a_handler_that_raises(tmp_path: Path) -> None:
    async with served(folder_of(tmp_path / "meeting")) as (_, wire):
        await wire.open()
        await wire.call("fail", fails=True)
        broken = await wire.post("resources/read", {"uri": "meeting://thing/1"})
        assert "KeyError" in str(broken) or broken


@needs_feature("gateway")
async def test_jobs_and_their_downloads(tmp_path: Path) -> None:
    async with served(folder_of(tmp_path / "meeting")) as (_, wire):
        job = await wire.job("draw", names=["a.txt", "b.txt"])
        assert b'"succeeded"' in await wire.get(f"/v1/mcp/progress/{job}?interval_ms=10")
        assert b"sha256" in await wire.get(f"/jobs/{job}/manifest")
        assert await wire.get(f"/jobs/{job}/download?file=a.txt") == b"a.txt"
        assert await wire.get(f"/jobs/{job}/download?file=a.txt", 206, Range="bytes=1-1") == b"."
        assert await wire.get(f"/jobs/{job}/download")
        await wire.get(f"/jobs/{job}")
        failing = await wire.job("fail")
        await wire.get(f"/v1/mcp/progress/{failing}?interval_ms=10")
        for program in having("program_tools", "make-note"):
            made = await wire.job(program, path="c.txt")
            assert b'"succeeded"' in await wire.get(f"/v1/mcp/progress/{made}?interval_ms=10")
            assert await wire.get(f"/jobs/{made}/download") == b"hi\n"
        shell = await wire.job("Bash", command="seq 400000; sleep 60")
        async with wire.client.delete(f"{wire.base}/jobs/{shell}") as answer:
            assert answer.status == 200
        await wire.get("/jobs")


async def test_programs_of_tools(tmp_path: Path) -> None:
    async with served(folder_of(tmp_path / "meeting")) as (_, wire):
        await wire.open()
        begun = await wire.call("BackgroundBash", command="seq 400000; sleep 60")
        number = begun["structuredContent"]["task_id"]
        await wire.call("ReadBgOutput", task_id=number)
        await wire.call("ListBgTasks")
        await wire.call("KillBgTask", task_id=number)
        await wire.call("BackgroundBash", command="sleep 60")
        for program in having("program_tools", "make-note", "make-note"):
            await wire.call(program, path="c.txt")
        await wire.call("Bash", command="exit 3", fails=True)


async def test_a_callback_that_fires(tmp_path: Path) -> None:
    async with served(folder_of(tmp_path / "meeting")) as (_, wire):
        await wire.open()
        await wire.call("SetCallback", action="set", message="now", delay_seconds=1)
        while "fired 1 of 1" not in str(await wire.call("SetCallback", action="list")):
            await turn()
        other = Wire(wire.client, wire.url)
        await other.open()
        await other.call("SetCallback", action="list")


async def test_approvals(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "meeting", approvals={"echo": "ask"})
    async with served(folder) as (desk, wire):
        await wire.open()
        calling = asyncio.create_task(wire.call("echo", text="a"))
        await until(desk.questions)
        answer = (Answer((Approval.ALWAYS,)),)
        assert await asyncio.wrap_future(desk.answer(desk.questions()[0].id, answer))
        await calling
        await wire.call("echo", text="a")
        (grant,) = desk.grants()
        desk.revoke(grant)
        await until(lambda: not desk.grants())


async def test_tokens_whose_keys_are_in_a_file(tmp_path: Path) -> None:
    jwt = {"algorithms": ["ES256"], "jwks_file": "keys.json", "issuer": tokens.ISSUER}
    auth = {"requires_jwt": True, "jwt": jwt | {"audience": tokens.AUDIENCE}}
    folder = folder_of(tmp_path / "meeting", auth=auth)
    save(folder / "keys.json", tokens.jwks(tokens.jwk("ES256")).decode())
    async with served(folder) as (_, wire):
        wire.headers["Authorization"] = f"Bearer {tokens.token('ES256')}"
        await wire.open()
        await wire.call("echo", text="a")
        both = tokens.jwks(tokens.jwk("ES256"), tokens.jwk("ES256", "second"))
        save(folder / "keys.json", both.decode())
        wire.headers["Authorization"] = f"Bearer {tokens.token('ES256', 'second')}"
        while "error" in (answer := await wire.post("tools/list", {})):
            await turn()
        assert "result" in answer


@needs_feature("gateway")
@needs_feature("dashboard")
async def test_the_dashboard(tmp_path: Path) -> None:
    folder = write(tmp_path / "shop", {"tools/draw.py": DRAW})
    with ExitStack() as watch:
        async with dashboard(folder) as shown, within():
            seen = watch.enter_context(blocking_calls(ALLOWED))
            for path in ("/", "/dashboard/app.js", "/health", "/ready", "/metrics", "/status"):
                await (await shown.get(path, Accept="text/html")).read()
            signed_in = await shown.sign_in()
            async with shown.events(**signed_in) as events:
                wire = Wire(shown.client, f"{shown.url}/mcp/shop")
                wire.headers["X-API-Key"] = KEY
                await wire.open()
                calling = asyncio.create_task(wire.call("Bash", command="seq 400000"))
                told = await events.event("questions", lambda told: told["waiting"])
                given = {"question": told["waiting"][0]["id"], "answers": [{"selected": [Approval.ONCE]}]}
                assert await shown.told("answer", given, **signed_in) == (200, {"done": True})
                await calling
                for name in ("exchange?number=0", "older?before=9", "config?server=shop&client=curl"):
                    await (await shown.get(f"/dashboard/{name}", **signed_in)).read()
            job = await shown.job("draw", names=["a.txt"])
            ticket = (await shown.told("download", {"job": job}, **signed_in))[1]["ticket"]
            path = f"/dashboard/jobs/{job}/download?ticket={ticket}"
            assert await (await shown.get(path, Cookie=signed_in["Cookie"])).read() == b"a.txt"
    assert not seen, "\n".join(seen)


async def test_upstream_programs(tmp_path: Path) -> None:
    target = CommandTarget((sys.executable, official_server.__file__, "stdio"))
    plans = [UpstreamPlan("far", target)]
    async with served(folder_of(tmp_path / "meeting"), upstreams=plans) as (desk, wire):
        far = Wire(wire.client, f"{wire.base}/mcp/far")
        await far.open()
        await far.call("add", a=1, b=2)
        upstream = desk.host.upstreams["far"]
        before = upstream.number
        desk.reload("far")
        await until(lambda: upstream.number != before and upstream.status.state is UpstreamState.READY)


async def test_an_upstream_with_a_stored_login_that_expires_and_is_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    state = tmp_path / "state"
    store = StoredGrants(PrivateFile(state / FILE_NAME), state)
    async with GuardedServer().running() as server:

        async def visit(url: str) -> str:
            async with aiohttp.ClientSession() as browser, browser.get(url, allow_redirects=False) as answer:
                return answer.headers["Location"]

        setup = ClientSetup(redirect_uri="http://127.0.0.1:40404/callback")
        requests = HttpRequests(server.url, {})
        await Authorizer(server.url, setup, store, visit).log_in(requests, await requests.challenge())
        await requests.close()
        plans = [UpstreamPlan("far", UrlTarget(server.url))]
        async with served(folder_of(tmp_path / "meeting"), upstreams=plans, state_dir=state) as (desk, wire):
            far = Wire(wire.client, f"{wire.base}/mcp/far")
            far.headers["MCP-Protocol-Version"] = LATEST.name
            assert "result" in await far.post("tools/list", {})
            grant = await asyncio.to_thread(store.grant, server.url)
            assert grant is not None
            # Before the token expires: any request of the desk, also one in the background, may renew it.
            renewals = len(server.token_requests)
            await asyncio.to_thread(store.store, server.url, replace(grant, expires=1.0))
            assert "result" in await far.post("tools/list", {})
            assert [each["grant_type"] for each in server.token_requests[renewals:]] == ["refresh_token"]
            desk.host.read_targets = typed_targets
            (added,) = await asyncio.wrap_future(desk.add_server(server.url))
            other = Wire(wire.client, f"{wire.base}/mcp/{added}")
            other.headers["MCP-Protocol-Version"] = LATEST.name
            assert "result" in await other.post("tools/list", {})


async def test_a_client_of_another_process_after_a_failed_reload(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "meeting")
    save(folder / "tools" / "tool.py", f"import os\n{TOOL}\nTENANT = os.environ.get('TENANT')\n")
    async with served(folder, accepts_pumps=True) as (desk, _):
        save(folder / "mcp.json", "{")
        await until(lambda: any("the previous version is served" in each.text for each in desk.notices()))

        def opened(environment: dict[str, str]) -> Future[str]:
            """Message that a pump whose process has that environment receives, on the core's loop."""
            told = Future[str]()

            def open_pipe() -> None:
                try:
                    request = PipeRequest("meeting", "stdio", "c", environment=environment)
                    desk.host.open_pipe(request, lambda data: None)
                    told.set_result("")
                except OtherEnvironmentError as error:
                    told.set_result(str(error))

            desk.host.call_soon(open_pipe)
            return told

        assert await asyncio.wrap_future(opened({})) == ""
        assert "reads TENANT" in await asyncio.wrap_future(opened({"TENANT": "acme"}))


async def test_a_folder_that_is_added_and_removed(tmp_path: Path) -> None:
    other = write(tmp_path / "other", {"mcp.json": '{"name": "other"}', "tools/tool.py": TOOL})
    async with served(folder_of(tmp_path / "meeting"), accepts_pumps=True) as (desk, wire):
        desk.host.read_targets = typed_targets
        assert await asyncio.wrap_future(desk.add_server(str(other))) == ("other",)
        added = Wire(wire.client, f"{wire.base}/mcp/other")
        await added.open()
        await added.call("echo", text="a")
        save(other / "tools" / "tool.py", OFFERED_AGAIN)
        while "again" not in str(await added.post("tools/list", {})):
            await turn()
        desk.remove_server("other")
        await until(lambda: "other" not in desk.host.folders)


async def test_the_watch_notices_a_file_that_our_code_opens_on_a_loop(tmp_path: Path) -> None:
    (tmp_path / "mcpdesk-env.txt").write_text("")
    with blocking_calls() as seen:
        await asyncio.to_thread(lambda: list(read_env_file(tmp_path / "mcpdesk-env.txt")))
        assert not seen, "\n".join(seen)
        list(read_env_file(tmp_path / "mcpdesk-env.txt"))
    assert len(seen) == 1 and "(settings.py:read_env_file)" in seen[0]
