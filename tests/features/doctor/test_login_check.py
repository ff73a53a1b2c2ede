"""Each step of a login in `mcpdesk doctor --login`, with servers that break its rules."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from jsonschema_rs import validator_for
from msgspec.structs import replace

from mcpdesk.cli.main import run
from mcpdesk.client.oauth.login_options import LoginOptions, Secret
from mcpdesk.client.oauth.stored_grants import PrivateFile, StoredGrants
from mcpdesk.client.oauth.values import ClientRegistration, OAuthGrant
from mcpdesk.features.doctor.login_check import LoginPlan, check_login, masked_value
from mcpdesk.features.doctor.login_report import LoginReport, LoginStep, RuleState, StepName, StepState
from mcpdesk.features.doctor.login_text import login_lines
from tests.support.guarded_server import Document, GuardedServer, SilentServer
from tests.support.patience import within
from tests.support.scripted import http, scripted

SCHEMA = Path(__file__).parents[3] / "docs" / "doctor-login.schema.json"


def _store(tmp_path: Path) -> StoredGrants:
    return StoredGrants(PrivateFile(tmp_path / "tokens.json"), tmp_path)


def _plan(server: GuardedServer, tmp_path: Path, **changes: Any) -> LoginPlan:
    members = {"options": LoginOptions(), "store": _store(tmp_path), **changes}
    return LoginPlan("shop", server.url, **members)


def _steps(report: LoginReport) -> dict[StepName, LoginStep]:
    return {each.name: each for each in report.steps}


def _states(report: LoginReport) -> list[str]:
    return [each.state.value for each in report.steps]


def _broken(report: LoginReport) -> list[tuple[str, str, str]]:
    """Step, source and observation of each broken rule."""
    return [
        (step.name.value, rule.source, rule.observed)
        for step in report.steps
        for rule in step.rules
        if rule.state is RuleState.BROKEN
    ]


def _visitor(tasks: list[asyncio.Task[None]]) -> Callable[[str], None]:
    """Return a function that visits a login page as a person does."""

    async def visit(address: str) -> None:
        async with aiohttp.ClientSession() as browser, browser.get(address) as page:
            await page.read()

    return lambda address: tasks.append(asyncio.ensure_future(visit(address)))


async def _log_in(server: GuardedServer, tmp_path: Path) -> LoginReport:
    tasks: list[asyncio.Task[None]] = []
    report = await check_login(_plan(server, tmp_path, show=_visitor(tasks)))
    await asyncio.gather(*tasks)
    return report


async def test_server_without_a_login_needs_a_person_and_nothing_is_registered(tmp_path: Path) -> None:
    async with GuardedServer().running() as server:
        report = await check_login(_plan(server, tmp_path))
    assert _states(report) == ["ok", "ok", "ok", "ok", "needs a person", "not needed", "not needed"]
    assert (report.ok, report.needs_person, report.next) == (False, True, "mcpdesk login shop")
    assert (server.registrations, server.authorizations) == ([], [])
    values = _steps(report)[StepName.AUTHORIZATION].values
    assert (values["scope"], values["resource"]) == ("read", server.url)
    assert not _steps(report)[StepName.AUTHORIZATION].rules  # no request was sent
    assert login_lines(report)[-2:] == [
        "There is no login yet: 8 rules, 8 followed.",
        "A person must log in: mcpdesk login shop",
    ]


async def test_each_step_of_a_login_is_reported_without_secrets(tmp_path: Path) -> None:
    async with GuardedServer().running() as server:
        report = await _log_in(server, tmp_path)
        again = await check_login(_plan(server, tmp_path))
    assert _states(report) == ["ok", "ok", "ok", "ok", "ok", "ok", "not needed"]
    assert (report.ok, again.ok, report.next) == (True, True, "")
    assert _states(again) == ["ok", "ok", "ok", "ok", "not needed", "ok", "not needed"]
    assert _steps(report)[StepName.REGISTRATION].values["kind"] == "dynamic, registered now"
    rules = _steps(report)[StepName.AUTHORIZATION].rules
    assert [each.observed for each in rules] == ["S256", server.url, "they match"]
    assert _steps(again)[StepName.REGISTRATION].values["kind"] == "dynamic, registered before"
    assert len(server.authorizations) == 1
    text = "\n".join(login_lines(report)) + msgspec.json.encode(report).decode()
    secrets = (
        server.authorizations[0]["state"],
        server.authorizations[0]["code_challenge"],
        "token-1",
        "refresh-1",
    )
    assert not [each for each in secrets if each in text]


async def test_token_is_renewed_on_request_and_its_rotation_is_reported(tmp_path: Path) -> None:
    async with GuardedServer().running() as server:
        await _log_in(server, tmp_path)
        report = await check_login(_plan(server, tmp_path, renews=True))
        step = _steps(report)[StepName.REFRESH]
        assert (step.state, "replaced" in step.values["refresh_token"]) == (StepState.OK, True)
        stored = _store(tmp_path).grant(server.url)
        assert stored is not None and stored.access_token == "token-2"
        server.changes["token"] = lambda document: document.update(refresh_token="refresh-2")
        report = await check_login(_plan(server, tmp_path, renews=True))
    step = _steps(report)[StepName.REFRESH]
    assert (report.ok, step.state) == (True, StepState.WARNING)
    assert [each.source for each in step.rules if each.state is RuleState.WARNING] == ["OAuth 2.1, 4.3.1"]


async def test_rejected_token_is_renewed_or_needs_a_person(tmp_path: Path) -> None:
    async with GuardedServer().running() as server:
        await _log_in(server, tmp_path)
        server.revoke()
        report = await check_login(_plan(server, tmp_path))
        assert (report.ok, _steps(report)[StepName.REFRESH].state) == (True, StepState.OK)
        server.revoke()
        server.knows_refresh = False
        report = await check_login(_plan(server, tmp_path))
    assert (report.ok, report.needs_person) == (False, True)
    assert [(step, source) for step, source, _ in _broken(report)] == [
        ("token", "RFC 6750, 2.1"),
        ("refresh", "OAuth 2.1, 4.3"),
    ]


async def test_expired_token_without_a_refresh_token_needs_a_person(tmp_path: Path) -> None:
    async with GuardedServer().running() as server:
        grant = OAuthGrant(
            server.origin, server.url, ClientRegistration("me"), "t0k", expires=time.time() - 300
        )
        _store(tmp_path).store(server.url, grant)
        report = await check_login(_plan(server, tmp_path))
    assert (report.ok, report.needs_person) == (False, True)
    assert [step for step, _, _ in _broken(report)] == ["token", "refresh"]
    assert _steps(report)[StepName.TOKEN].values["expires"] == "expired 5 min ago"


async def test_tokens_that_cannot_be_read_break_the_step_of_the_token(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text("no JSON")
    file.chmod(0o600)
    async with GuardedServer().running() as server:
        report = await check_login(_plan(server, tmp_path, show=lambda address: None))
    assert _states(report) == ["ok", "ok", "ok", "ok", "not reached", "broken", "not reached"]
    assert (report.ok, report.needs_person, server.authorizations) == (False, False, [])
    (rule,) = _steps(report)[StepName.TOKEN].rules
    assert "is not a JSON file of tokens" in rule.observed and "log in again" in rule.observed


async def test_token_of_another_issuer_is_not_sent(tmp_path: Path) -> None:
    async with GuardedServer().running() as server:
        grant = OAuthGrant("https://other.test", server.url, ClientRegistration("me"), "t0k")
        _store(tmp_path).store(server.url, grant)
        report = await check_login(_plan(server, tmp_path))
        assert ("token", "issued by https://other.test") in [(a, c) for a, _, c in _broken(report)]
    assert server.requests.count("POST /mcp") == 1


async def test_machine_logs_in_without_a_person(tmp_path: Path) -> None:
    options = LoginOptions(client_id="me", client_secret=Secret("s3cret"), uses_credentials=True)
    async with GuardedServer().running() as server:
        report = await check_login(_plan(server, tmp_path, options=options))
    assert report.ok, login_lines(report)
    assert [each["grant_type"] for each in server.token_requests] == ["client_credentials"]
    assert "s3cret" not in msgspec.json.encode(report).decode()
    assert _states(report)[-2:] == ["ok", "not needed"]


async def test_machine_gets_a_new_token_on_request(tmp_path: Path) -> None:
    options = LoginOptions(client_id="me", client_secret=Secret("s3cret"), uses_credentials=True)
    async with GuardedServer({"token": _without("refresh_token")}).running() as server:
        plan = _plan(server, tmp_path, options=options)
        reports = [await check_login(replace(plan, renews=renews)) for renews in (False, False, True)]
    assert [each.ok for each in reports] == [True] * 3, login_lines(reports[-1])
    assert [_states(each)[-2:] for each in reports] == [["ok", "not needed"]] * 3
    assert [each["grant_type"] for each in server.token_requests] == ["client_credentials"] * 2


class _OtherThread(PrivateFile):
    """Refuses to be read on the thread of the event loop."""

    def read(self, name: str) -> str | None:
        assert threading.current_thread() is not threading.main_thread()
        return super().read(name)


async def test_stored_tokens_are_not_read_on_the_thread_of_the_loop(tmp_path: Path) -> None:
    store = StoredGrants(_OtherThread(tmp_path / "tokens.json"), tmp_path)
    async with GuardedServer().running() as server:
        await _log_in(server, tmp_path)
        report = await check_login(_plan(server, tmp_path, store=store, renews=True))
    assert report.ok


async def test_fault_of_the_metadata_is_reported_once(tmp_path: Path) -> None:
    async with GuardedServer().running() as server:
        server.changes["server"] = lambda document: document.update(issuer=f"{server.origin}/")
        await _log_in(server, tmp_path)
        report = await check_login(_plan(server, tmp_path, renews=True))
    states = {name: each.state for name, each in _steps(report).items()}
    assert (states[StepName.SERVER], states[StepName.REFRESH]) == (StepState.WARNING, StepState.OK)


def _without(name: str) -> Callable[[Document], Any]:
    return lambda document: document.pop(name)


@pytest.mark.parametrize(
    ("document", "change", "step", "source"),
    [
        (
            "resource",
            lambda found: found.update(resource="https://evil.test"),
            "resource metadata",
            "RFC 9728, 3.3",
        ),
        ("resource", lambda found: web.Response(status=404), "resource metadata", "RFC 9728, 5.1"),
        (
            "server",
            lambda found: found.update(issuer="https://evil.test"),
            "authorization server metadata",
            "RFC 8414, 3.3",
        ),
        (
            "server",
            _without("code_challenge_methods_supported"),
            "authorization server metadata",
            "MCP 2026-07-28 basic/authorization",
        ),
        (
            "server",
            _without("registration_endpoint"),
            "registration",
            "MCP 2026-07-28 basic/authorization/client-registration",
        ),
    ],
)
async def test_broken_rule_is_named_with_its_section_and_a_remedy(
    tmp_path: Path, document: str, change: Callable[[Document], Any], step: str, source: str
) -> None:
    async with GuardedServer({document: change}).running() as server:
        report = await check_login(_plan(server, tmp_path))
    assert [(name, where) for name, where, _ in _broken(report)] == [(step, source)]
    assert not report.ok
    hints = [rule.hint for each in report.steps for rule in each.rules if rule.state is RuleState.BROKEN]
    assert all(hints)


@pytest.mark.parametrize(
    ("document", "change", "step", "source"),
    [
        ("redirect", lambda back: back.update(iss="https://evil.test"), "authorization", "RFC 9207, 2.4"),
        ("registration", lambda found: found.clear(), "registration", "RFC 7591, 3.2.1"),
        ("token", lambda found: found.update(token_type="mac"), "token", "OAuth 2.1, 3.2.3"),
    ],
)
async def test_login_that_fails_is_reported_at_its_step(
    tmp_path: Path, document: str, change: Callable[[Document], Any], step: str, source: str
) -> None:
    async with GuardedServer({document: change}).running() as server:
        report = await _log_in(server, tmp_path)
    assert [(name, where) for name, where, _ in _broken(report)] == [(step, source)]


async def test_metadata_without_iss_is_a_warning(tmp_path: Path) -> None:
    change = {"server": _without("authorization_response_iss_parameter_supported")}
    async with GuardedServer(change).running() as server:
        report = await check_login(_plan(server, tmp_path))
    step = _steps(report)[StepName.SERVER]
    assert step.state is StepState.WARNING
    assert [each.source for each in step.rules if each.state is RuleState.WARNING] == ["RFC 9207, 2.3"]


async def test_server_without_authorization_needs_no_login(tmp_path: Path) -> None:
    async with scripted(lambda seen: http(200)) as server:
        report = await check_login(LoginPlan("open", server.url, LoginOptions(), _store(tmp_path)))
    assert report.ok and set(_states(report)[1:]) == {"not needed"}


@pytest.mark.parametrize("status", [302, 404, 405, 500, 503])
async def test_answer_that_is_not_of_a_server_is_broken(tmp_path: Path, status: int) -> None:
    async with scripted(lambda seen: http(status, "<p>no", kind="text/html")) as server:
        report = await check_login(LoginPlan("page", server.url, LoginOptions(), _store(tmp_path)))
    assert _states(report) == ["broken", *["not reached"] * 6]
    assert [observed for _, _, observed in _broken(report)] == [f"HTTP {status}"]


async def test_token_is_not_accepted_by_a_server_that_fails(tmp_path: Path) -> None:
    async with GuardedServer().running() as server:
        await _log_in(server, tmp_path)
        server.failure = 503
        report = await check_login(_plan(server, tmp_path))
    assert (report.ok, [(step, seen) for step, _, seen in _broken(report)]) == (
        False,
        [("token", "HTTP 503")],
    )


async def test_server_that_is_down_is_reported_at_the_first_step(tmp_path: Path) -> None:
    async with scripted(lambda seen: http(200)) as server:
        url = server.url
    report = await check_login(LoginPlan("down", url, LoginOptions(), _store(tmp_path)))
    assert _states(report) == ["broken", *["not reached"] * 6]
    assert (report.ok, report.needs_person) == (False, False)


async def test_server_that_does_not_answer_is_reported_in_time(tmp_path: Path) -> None:
    server = SilentServer()
    async with server.running():
        report = await check_login(_plan(server, tmp_path, request_timeout_s=0.05))
        server.released.set()
    assert [observed for _, _, observed in _broken(report)] == ["no answer within 0.05 s"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cursor:", "--login", "https://a.test"], "cannot be combined"),
        (["--renew"], "need --login"),
        (["--client-id", "me"], "need --login"),
        (["--login", "nothing"], "No folder or file 'nothing'"),
    ],
)
def test_wrong_options_are_refused(
    capfd: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(["doctor", *arguments]) == 2
    assert words in capfd.readouterr().err


@pytest.mark.process
async def test_command_prints_json_of_its_schema(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "MCPDESK_STATE_DIR": str(tmp_path),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
    }
    async with GuardedServer().running() as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "mcpdesk", "doctor", "--json", "--login", server.url),
            env=environment,
            stdout=subprocess.PIPE,
        )
        async with within():
            out, _ = await process.communicate()
    assert process.returncode == 1
    report = json.loads(out)
    validator_for(json.loads(SCHEMA.read_text())).validate(report)
    assert (report["version"], report["needs_person"]) == (1, True)
    assert report["next"] == f"mcpdesk login {server.url}"
    assert [each["name"] for each in report["steps"]] == [each.value for each in StepName]


def test_long_token_is_masked_before_it_is_cut() -> None:
    header = "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9"
    shown = masked_value(f"token {header}.{'a' * 400}.{'b' * 80} was refused")
    assert header not in shown and "aaaa" not in shown
    assert shown.endswith("was refused")
