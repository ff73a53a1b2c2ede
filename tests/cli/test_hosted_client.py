"""A client of a folder hosted in this process."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcpdesk.cli.hosted_client import hosted, progress_line
from mcpdesk.errors import DeskUserError, RemoteProtocolError
from mcpdesk.link.values import Progress
from mcpdesk.paths import sample_servers
from tests.support.terminal import Desk
from tests.support.tokens import SECRET

if TYPE_CHECKING:
    from tests.cli.conftest import Run

WALLET = sample_servers() / "wallet"
OF_WALLET = {"WALLET_SECRET": SECRET, "WALLET_MINT_KEY": "any"}
ISSUE: Callable[..., str] = runpy.run_path(str(WALLET / "issue_token.py"))["issue"]
LOOK = '''
import os


async def look() -> str:
    """Say what is in the environment."""
    return os.environ.get("MY_TOKEN", "nothing to see")
'''
STEPS = '''
import asyncio
from pathlib import Path

from mcpdesk import Context


async def steps(ctx: Context) -> str:
    """Report, and go on when it may."""
    await ctx.progress(1, 2, "halfway")
    while not Path(__file__).parents[1].joinpath("go").exists():
        await asyncio.sleep(0.01)
    return "there"
'''


def test_results_errors_and_time_limits_are_told_apart(folder: Path) -> None:
    with hosted(str(folder)) as peer:
        answer = peer.request("tools/call", {"name": "greet", "arguments": {"name": "Ada"}}, 10)
        assert answer["content"] == [{"type": "text", "text": "Hello, Ada!"}]
        with pytest.raises(RemoteProtocolError) as unknown:
            peer.request("tools/call", {"name": "nothing"}, 10)
        assert unknown.value.code == -32602
        with pytest.raises(DeskUserError) as late:
            peer.request("tools/call", {"name": "wait", "arguments": {"seconds": 20}}, 0.1)
        assert late.value.exit_code == 5


def test_progress_is_told_in_words() -> None:
    assert progress_line(Progress(3, 10, "reading")) == "3/10 reading"
    assert progress_line(Progress(0.5)) == "0.5"
    assert progress_line(Progress(1, 2, "evil\x1b[2J")) == "1/2 evil␛[2J"


def test_person_at_a_terminal_sees_the_progress(folder: Path) -> None:
    (folder / "tools" / "steps.py").write_text(STEPS)
    with Desk(["call", str(folder), "steps"]) as terminal:
        terminal.see("1/2 halfway")
        (folder / "go").touch()
        terminal.see("there")
        assert terminal.end() == 0


def test_guarded_tool_is_called_with_the_token_of_the_environment(mcpdesk: Run) -> None:
    asked = ("call", str(WALLET), "balance")
    missing = mcpdesk(*asked, **OF_WALLET)
    assert missing.returncode == 4 and missing.stdout == ""
    assert missing.stderr == "mcpdesk: Unauthorized: missing JWT\n  Give a token with --token-env.\n"
    reader = ISSUE(SECRET, "ada", "wallet:read")
    mine = {**OF_WALLET, "MY_TOKEN": reader}
    given = mcpdesk(*asked, "--token-env", "MY_TOKEN", **mine)
    assert (given.stdout, given.stderr, given.returncode) == ("ada has 100.00 EUR.\n", "", 0)
    ours = mcpdesk(*asked, "--token-env", "MCPDESK_TOKEN", **OF_WALLET, MCPDESK_TOKEN=reader)
    assert (ours.stdout, ours.stderr, ours.returncode) == ("ada has 100.00 EUR.\n", "", 0)
    narrow = mcpdesk("call", str(WALLET), "send", "to=bob", "cents:=1", "--token-env", "MY_TOKEN", **mine)
    assert narrow.returncode == 4 and "lacks the scope wallet:send" in narrow.stderr
    assert "Give another token with --token-env." in narrow.stderr
    assert not any(reader in each.stdout + each.stderr for each in (given, narrow))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (lambda: ISSUE(SECRET, "ada", lasts_s=-60), "it has expired"),
        (lambda: ISSUE(SECRET + "!", "ada"), "its signature fits no key"),
        (lambda: "hello", "it does not have the form of a token"),
    ],
    ids=["expired", "signature", "form"],
)
def test_token_that_does_not_count_is_told_with_the_reason(
    mcpdesk: Run, text: Callable[[], str], told: str
) -> None:
    given = text()
    environ = {**OF_WALLET, "MY_TOKEN": given}
    finished = mcpdesk("call", str(WALLET), "whoami", "--token-env", "MY_TOKEN", **environ)
    assert finished.returncode == 3 and finished.stdout == ""
    assert finished.stderr.startswith(f"mcpdesk: The token does not count for wallet: {told}.\n")
    assert given not in finished.stderr


@pytest.mark.slow
def test_everything_of_a_guarded_folder_opens_with_the_token(mcpdesk: Run, folder: Path) -> None:
    jwt = {"algorithms": ["HS256"], "secret_env": "SMALL_SECRET", "issuer": "wallet-sample"}
    auth = {"requires_jwt": True, "scopes": ["use"], "jwt": jwt}
    (folder / "mcp.json").write_text(json.dumps({"name": "small", "auth": auth}))
    (folder / "tools" / "look.py").write_text(LOOK)
    asked = (
        (("read", str(folder), "resource://notes"), "# Notes"),
        (("prompt", str(folder), "summarize", "text=x"), "Please summarize: x"),
        (("call", str(folder), "greet", "name=Ada"), "Hello, Ada!"),
        (("call", str(folder), "look"), "nothing to see"),
        (("list", str(folder)), "greet"),
    )
    for arguments, told in asked:
        environ = {"SMALL_SECRET": SECRET, "MY_TOKEN": ISSUE(SECRET, "ada", "use")}
        opened = mcpdesk(*arguments, "--token-env", "MY_TOKEN", **environ)
        assert opened.returncode == 0 and told in opened.stdout, opened.stderr
    refused = mcpdesk(*asked[0][0], SMALL_SECRET=SECRET)
    assert refused.returncode == 4 and "Give a token with --token-env." in refused.stderr
    weak = {"SMALL_SECRET": SECRET, "MY_TOKEN": ISSUE(SECRET, "ada")}
    lacking = mcpdesk(*asked[0][0], "--token-env", "MY_TOKEN", **weak)
    assert lacking.returncode == 3 and "it lacks the scope use" in lacking.stderr


def test_token_is_refused_where_none_would_be_looked_at(mcpdesk: Run, folder: Path) -> None:
    finished = mcpdesk("call", str(folder), "greet", "--token-env", "MY_TOKEN", MY_TOKEN="x.y.z")
    assert finished.returncode == 2 and "small looks at no tokens." in finished.stderr
