"""`mcpdesk config`: its output works when pasted into a client's configuration."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import aiohttp
import pytest

from mcpdesk.auth.access import Access
from mcpdesk.auth.keys import CONSTANT, KeySet, KeysMissing, KeySource, constant
from mcpdesk.auth.principal import Principal, Rejected
from mcpdesk.auth.tokens import TokenTerms, Verifier
from mcpdesk.cli.authoring.folders import _token_notes
from mcpdesk.errors import DeskUserError
from mcpdesk.hosting.endpoint import HostedEndpoint
from tests.support.folders import write
from tests.support.tokens import AUDIENCE, ISSUER, SECRET, token

pytestmark = pytest.mark.process

if TYPE_CHECKING:
    from tests.cli.conftest import Run, Service

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
CLIENTS = ["claude-desktop", "cursor", "vscode", "claude-code"]


def command_of(client: str, printed: str) -> list[str]:
    """Command that the client will start."""
    if client == "claude-code":
        words = shlex.split(printed)
        return words[words.index("--") + 1 :]
    (servers,) = json.loads(printed).values()
    (entry,) = servers.values()
    return [entry["command"], *entry["args"]]


class KnownOutcome(Verifier):
    """Token verifier with a fixed outcome."""

    def __init__(self, outcome: Principal | Exception) -> None:
        super().__init__(TokenTerms(frozenset()), KeySource(constant(KeySet(())), CONSTANT))
        self.outcome, self.is_closed = outcome, False

    def recognize(self, text: str | None) -> Principal | None:
        return None

    async def verify(self, text: str) -> Principal:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Principal("token", "ada", {}), []),
        (KeysMissing("no keys"), ["The token cannot be checked now: no keys."]),
        (Rejected("it has expired"), "The token is not valid for wallet: it has expired."),
    ],
)
async def test_the_check_of_a_token_is_ended(outcome: Principal | Exception, told: list[str] | str) -> None:
    verifier = KnownOutcome(outcome)
    endpoint = cast(HostedEndpoint, SimpleNamespace(name="wallet", access=Access(verifier=verifier)))
    try:
        assert await _token_notes(endpoint, "text") == told
    except DeskUserError as error:
        assert error.message == told
    assert verifier.is_closed


@pytest.mark.parametrize("client", CLIENTS)
def test_printed_command_starts_the_server_from_anywhere(
    mcpdesk: Run, folder: Path, tmp_path: Path, client: str
) -> None:
    printed = mcpdesk("config", os.path.relpath(folder, Path(__file__).parents[2]), "--for", client)
    assert printed.returncode == 0 and printed.stderr
    answer = subprocess.run(
        command_of(client, printed.stdout),
        input=json.dumps(INITIALIZE) + "\n", cwd="/", capture_output=True, text=True, timeout=99, check=False,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert json.loads(answer.stdout)["result"]["serverInfo"]["name"] == "small", answer.stderr


async def listed(url: str, headers: dict[str, str]) -> Any:
    """Tools that a server lists for these headers."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with aiohttp.ClientSession() as client, client.post(url, json=message, headers=headers) as answer:
        assert answer.status == 200
        return [tool["name"] for tool in (await answer.json())["result"]["tools"]]


async def test_printed_url_and_key_open_the_server(
    mcpdesk: Run, serve: Callable[..., Service], tmp_path: Path
) -> None:
    manifest = '{"name": "sh.ell", "builtins": ["Bash"], "modes": {"none": {"tools": []}}}'
    folder = write(tmp_path / "shell", {"mcp.json": manifest})
    state = str(tmp_path / "state")
    service = serve(str(folder), "--port", "0", "--state-dir", state)
    base = service.says("serving sh.ell at").rpartition(" ")[2].rpartition("/mcp/")[0]
    asked = ("config", str(folder), "--http", base)
    for client in ("cursor", "vscode"):
        printed = json.loads(mcpdesk(*asked, "--for", client, MCPDESK_STATE_DIR=state).stdout)
        entry = next(iter(printed.values()))["sh.ell"]
        assert await listed(entry["url"], entry["headers"]) == ["Bash"]
    words = shlex.split(
        mcpdesk(*asked, "--for", "claude-code", "--mode", "none", MCPDESK_STATE_DIR=state).stdout
    )
    assert words[:6] == ["claude", "mcp", "add", "--transport", "http", "sh-ell"]
    name, _, key = words[-1].partition(": ")
    assert await listed(words[6], {name: key}) == []


def test_url_of_a_server_is_taken_as_it_is_and_needs_no_key_without_programs(
    mcpdesk: Run, folder: Path
) -> None:
    asked = ("config", str(folder), "--for", "cursor", "--http")
    for given in (
        "https://mcp.example.org",
        "https://mcp.example.org/",
        "https://mcp.example.org/mcp/small/",
    ):
        entry = json.loads(mcpdesk(*asked, given).stdout)["mcpServers"]["small"]
        assert entry == {"url": "https://mcp.example.org/mcp/small"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--for", "claude-desktop", "--http", "http://localhost:1"], "cannot hold a URL"),
        (["--for", "emacs"], "'emacs' is not one of"),
        ([], "Missing option '--for'. Choose from: claude-desktop, cursor, vscode, claude-code\n"),
        (["--for", "cursor", "--mode", "wild"], "has no mode 'wild'"),
        (["--for", "cursor", "--http", "localhost:1"], "only http:// and https://"),
    ],
)
def test_mistake_is_told_and_nothing_printed(
    mcpdesk: Run, folder: Path, arguments: list[str], told: str
) -> None:
    finished = mcpdesk("config", str(folder), *arguments)
    assert finished.returncode == 2
    assert told in finished.stderr and finished.stdout == ""


GREET = 'from mcpdesk import tool\n\n@tool\nasync def greet() -> str:\n    """Greet."""\n    return "hello"\n'
PAY = GREET.replace("@tool", '@tool(scopes="pay")').replace("greet", "pay")
JWT = {"algorithms": ["HS256"], "secret_env": "S", "issuer": ISSUER, "audience": AUDIENCE}


def guarded(path: Path, requires_jwt: bool, **auth: Any) -> Path:
    manifest = {"name": "safe", "auth": {"requires_jwt": requires_jwt, "jwt": JWT, **auth}}
    return write(path, {"mcp.json": json.dumps(manifest), "tools/greet.py": GREET, "tools/pay.py": PAY})


def test_a_server_that_asks_everybody_gets_a_configuration_with_a_token_only(
    mcpdesk: Run, tmp_path: Path
) -> None:
    folder = guarded(tmp_path / "safe", requires_jwt=True)
    asked = ("config", str(folder), "--for", "cursor")
    for more in ((), ("--http", "http://localhost:1")):
        refused = mcpdesk(*asked, *more, S=SECRET)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "safe requires a token" in refused.stderr and "--token-env" in refused.stderr
    text = token("HS256")
    printed = mcpdesk(*asked, "--token-env", "T", S=SECRET, T=text)
    assert printed.returncode == 0 and "The token is valid until" in printed.stderr
    entry = json.loads(printed.stdout)["mcpServers"]["safe"]
    listing = [INITIALIZE, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}]
    answer = subprocess.run(
        [entry["command"], *entry["args"]], input="".join(f"{json.dumps(each)}\n" for each in listing),
        cwd="/", capture_output=True, text=True, timeout=99, check=False,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "S": SECRET, **entry["env"]},
    )  # fmt: skip
    tools = json.loads(answer.stdout.splitlines()[1])["result"]["tools"]
    assert [each["name"] for each in tools] == ["greet"]
    late = mcpdesk(*asked, "--token-env", "T", S=SECRET, T=token("HS256", exp=1))
    assert (late.returncode, late.stdout) == (2, "") and "it has expired" in late.stderr
    open_to_logins = guarded(tmp_path / "other", True, authorization_servers=["https://id.example"])
    printed = mcpdesk(
        "config", str(open_to_logins), "--for", "cursor", "--http", "http://localhost:1", S=SECRET
    )
    assert printed.returncode == 0 and "headers" not in printed.stdout


def test_tools_that_a_configuration_does_not_reach_are_named(mcpdesk: Run, tmp_path: Path) -> None:
    asked = ("config", str(guarded(tmp_path / "safe", requires_jwt=False)), "--for", "cursor")
    printed = mcpdesk(*asked, S=SECRET)
    assert printed.returncode == 0 and '"env"' not in printed.stdout
    assert "pay needs a token and is not listed without one" in printed.stderr
    printed = mcpdesk(*asked, "--http", "http://localhost:1", S=SECRET)
    assert printed.returncode == 0 and "pay needs a token: add one with --token-env VAR" in printed.stderr
