"""Servers that require a token, on a desk: the messages to a person, and a login begun at the screen."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from mcpdesk.cli.desk_targets import desk_targets
from mcpdesk.client.targets import UrlTarget
from mcpdesk.protocol.reading.remark import Remark
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.forms.access_prompts import TokenInput, TokenPrompt
from mcpdesk.tui.workbench.item_pane import FirstToolInstructions
from mcpdesk.upstream.target_transport import Reach
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support import tokens
from tests.support.desk import RunningDesk, running_desk
from tests.support.driven import driven
from tests.support.folders import write
from tests.support.guarded_server import Document, GuardedServer
from tests.support.patience import until
from tests.support.tokens import SECRET
from tests.support.trusting import agree

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store tokens in the state folder of the test."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


def shown(app: DeskApp) -> str:
    """Text of the pane of a server that is not connected; empty if another pane is open."""
    found = app.screen.query(FirstToolInstructions)
    if not found or not found.first().is_on_screen or not found.first().size.height:
        return ""
    lesson = found.first()
    return "\n".join(line.text for line in lesson.render_lines(lesson.size.region))


def states(desk: RunningDesk) -> dict[str, str]:
    """State of each upstream server."""
    return {one.name: one.upstream.state for one in desk.view().servers if one.upstream is not None}


def remarked_steps(desk: RunningDesk) -> list[tuple[str, Remark]]:
    """Login requests whose answers have a remark in the traffic, each with its first remark."""
    index = desk.traffic
    index.catch_up()
    exchanges = [index.exchange(number) for number in range(len(index.exchanges))]
    found = []
    for each in exchanges:
        if each.id is None and index.is_remarked(each.number) and (of := index.recorded_remarks(each)):
            before = [one for one in exchanges[: each.number] if one.connection == each.connection]
            found.append((before[-1].name, of[0].remark))
    return found


def is_shown(app: DeskApp, text: str) -> bool:
    """True if the pane of a server that is not connected has that text."""
    return text in shown(app)


async def test_the_newest_error_of_a_login_is_on_the_screen(tmp_path: Path) -> None:
    def refused(word: str, document: Document) -> web.Response:
        return web.json_response({"error": word}, status=400)

    server = GuardedServer()
    async with (
        server.running(),
        running_desk(upstreams=[UpstreamPlan("far", UrlTarget(server.url))], state_dir=tmp_path) as desk,
    ):
        app = DeskApp(desk)
        async with driven(app, size=(120, 40)) as pilot:
            await until(lambda: "HTTP 401" in shown(app), pilot)
            assert "a token with the scope read" in " ".join(shown(app).split())
            for word in ("the-first", "the-second"):
                server.changes["registration"] = partial(refused, word)
                await pilot.press("f6")
                await until(partial(is_shown, app, word), pilot)
            assert "the-first" not in shown(app) and "✕ HTTP 401" not in shown(app)

            def broken(document: Document) -> web.Response:
                return web.Response(status=500)

            server.changes["resource"] = broken
            await pilot.press("f6")
            await until(lambda: "HTTP 500" in shown(app), pilot)
            assert "the-second" not in shown(app)
            server.changes.clear()
            await pilot.press("f6")
            await until(lambda: bool(desk.questions()), pilot)
            link = desk.questions()[0].pages[0].link
            async with aiohttp.ClientSession() as browser, browser.get(link) as page:
                assert "You are logged in" in await page.text()
            await until(lambda: desk.view().servers[0].problems == (), pilot)


async def test_an_entry_of_a_configuration_says_how_the_desk_logs_in(tmp_path: Path) -> None:
    async with GuardedServer().running() as server:
        secret = {"clientId": "me", "clientSecret": "s3cret"}
        entries = {
            "machine": {"url": server.url, "oauth": secret | {"clientCredentials": True}, "account": "m"},
            "person": {"url": server.url, "oauth": secret | {"assumePkce": True}, "account": "p"},
        }
        server.changes["server"] = lambda document: document.pop("code_challenge_methods_supported")
        config = tmp_path / ".mcp.json"
        config.write_text(json.dumps({"mcpServers": entries}))
        plans = desk_targets([str(config)], Reach(), agree=agree).upstreams
        async with running_desk(upstreams=plans, state_dir=tmp_path / "state") as desk:
            await until(lambda: states(desk) == {"machine": "ready", "person": "failed"})
            assert [each["grant_type"] for each in server.token_requests] == ["client_credentials"]
            desk.log_in("person")
            await until(desk.questions)
            link = desk.questions()[0].pages[0].link
            async with aiohttp.ClientSession() as browser, browser.get(link) as page:
                assert "You are logged in" in await page.text()
            await until(lambda: states(desk) == {"machine": "ready", "person": "ready"})
            assert (server.authorizations[0]["client_id"], server.registrations) == ("me", [])
            await until(lambda: remarked_steps(desk))
            ((step, remark),) = remarked_steps(desk)
            assert step == f"GET {server.origin}/.well-known/oauth-authorization-server"
            assert (remark.kind, "does not mention PKCE" in remark.text) == ("oauth", True)


async def test_a_server_with_tokens_of_its_own_names_the_missing_scope_and_has_no_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTES_SECRET", SECRET)
    jwt = {"algorithms": ["HS256"], "secret_env": "NOTES_SECRET"}
    auth = {"requires_jwt": True, "scopes": ["notes:read"], "jwt": jwt}
    folder = write(tmp_path / "notes", {"mcp.json": json.dumps({"name": "notes", "auth": auth})})
    async with running_desk(folder, http=True, state_dir=tmp_path / "a") as serving:
        url = serving.view().servers[0].url
        plan = UpstreamPlan("far", UrlTarget(url))
        async with running_desk(upstreams=[plan], state_dir=tmp_path / "b") as desk:
            app = DeskApp(desk)
            async with driven(app, size=(120, 40)) as pilot:
                await until(lambda: "missing JWT" in shown(app), pilot)
                text = " ".join(shown(app).split())
                assert "It needs a token with the scope notes:read: give it to `mcpdesk`" in text
                await pilot.press("f6")
                await until(lambda: "no login is available" in shown(app), pilot)
                assert "a token with the scope notes:read" in " ".join(shown(app).split())
                for given in ("wrong", tokens.token("HS256", scope="notes:read")):
                    await pilot.press("f6")
                    await until(lambda: isinstance(app.screen, TokenPrompt), pilot)
                    app.screen.query_one(TokenInput).value = given
                    await pilot.press("enter")
                    if given == "wrong":
                        await until(lambda: "HTTP 401" in str(desk.view().servers[0].problems), pilot)
                await until(lambda: states(desk) == {"far": "ready"})
            assert not list((tmp_path / "b").rglob("tokens.json"))
