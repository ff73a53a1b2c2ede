"""The commands that ask once, asking a folder hosted in this process, or a server at a URL."""

from __future__ import annotations

import base64
import json
import runpy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from mcpdesk.cli.command_client import client, progress_line
from mcpdesk.cli.printing import PROTOCOL_ERROR
from mcpdesk.cli.reach import with_hint
from mcpdesk.errors import DeskUserError, HttpError, RemoteProtocolError, RpcError
from mcpdesk.paths import sample_servers
from mcpdesk.upstream.target_transport import Reach
from tests.support.folders import write
from tests.support.scripted import DISCOVERED
from tests.support.terminal import Desk
from tests.support.tokens import SECRET

if TYPE_CHECKING:
    from tests.cli.conftest import Run, Service

WALLET = sample_servers() / "wallet"
OF_WALLET = {"WALLET_SECRET": SECRET, "WALLET_MINT_KEY": "any"}
ISSUE: Callable[..., str] = runpy.run_path(str(WALLET / "issue_token.py"))["issue"]
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


def test_all_pages_are_fetched_and_unknown_lists_are_empty(folder: Path) -> None:
    with client(str(folder), Reach()) as peer:
        assert len(peer.request_all("tools/list", "tools", 10)) == 5
        assert peer.request_all("nothing/list", "nothings", 10) == []


def test_progress_is_told_in_words() -> None:
    assert progress_line(3, 10, "reading") == "3/10 reading"
    assert progress_line(0.5, None, "") == "0.5"
    assert progress_line(1e-6, None, "waiting for approval on the desk") == "waiting for approval on the desk"
    assert progress_line(1, 2, "evil\x1b[2J") == "1/2 evil␛[2J"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (HttpError("no", "http://x", 401), 3),
        (HttpError("no", "http://x", 403), 3),
        (RpcError(-32001, "no", None, ""), 4),
        (RpcError(-32003, "no", None, ""), 4),
    ],
)
def test_refusal_says_what_opens_the_server(error: HttpError | RpcError, code: int) -> None:
    told = with_hint(error)
    assert isinstance(told, DeskUserError | RemoteProtocolError) and "--token-env" in told.hint
    assert (told.exit_code if isinstance(told, DeskUserError) else PROTOCOL_ERROR) == code


@pytest.mark.process
def test_person_at_a_terminal_sees_the_progress(folder: Path) -> None:
    (folder / "tools" / "steps.py").write_text(STEPS)
    with Desk(["call", str(folder), "steps"]) as terminal:
        terminal.see("1/2 halfway")
        (folder / "go").touch()
        terminal.see("there")
        assert terminal.end() == 0


@pytest.mark.process
def test_guarded_tool_is_called_with_the_token_of_the_environment(mcpdesk: Run) -> None:
    asked = ("call", str(WALLET), "balance")
    missing = mcpdesk(*asked, **OF_WALLET)
    assert missing.returncode == 4 and missing.stdout == ""
    said, *data, hint = missing.stderr.splitlines()
    wanted = "  Give a token with the scope wallet:read by --token-env."
    assert (said, hint) == ("mcpdesk: Unauthorized: missing JWT", wanted)
    assert '"scope": "wallet:read"' in "".join(data)
    reader = ISSUE(SECRET, "ada", "wallet:read")
    mine = {**OF_WALLET, "MY_TOKEN": reader}
    given = mcpdesk(*asked, "--token-env", "MY_TOKEN", **mine)
    assert (given.stdout, given.stderr, given.returncode) == ("ada has 100.00 EUR.\n", "", 0)
    ours = mcpdesk(*asked, "--token-env", "MCPDESK_TOKEN", **OF_WALLET, MCPDESK_TOKEN=reader)
    assert (ours.stdout, ours.stderr, ours.returncode) == ("ada has 100.00 EUR.\n", "", 0)
    narrow = mcpdesk("call", str(WALLET), "send", "to=bob", "cents:=1", "--token-env", "MY_TOKEN", **mine)
    assert narrow.returncode == 4 and "lacks the scope wallet:send" in narrow.stderr
    assert "Give another token with the scope wallet:send by --token-env." in narrow.stderr
    assert not any(reader in each.stdout + each.stderr for each in (given, narrow))


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (lambda: ISSUE(SECRET, "ada", lasts_s=-60), "it has expired"),
        (lambda: ISSUE(SECRET + "!", "ada"), "its signature matches no key"),
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
    assert finished.stderr.startswith(f"mcpdesk: The token is not valid for wallet: {told}.\n")
    assert given not in finished.stderr


@pytest.mark.process
def test_token_is_refused_where_none_would_be_looked_at(mcpdesk: Run, folder: Path) -> None:
    finished = mcpdesk("call", str(folder), "greet", "--token-env", "MY_TOKEN", MY_TOKEN="x.y.z")
    assert finished.returncode == 2 and "small does not accept tokens." in finished.stderr


@pytest.mark.slow
def test_every_command_reaches_a_server_as_it_does_a_folder(
    mcpdesk: Run, serve: Callable[..., Service], folder: Path
) -> None:
    url = serve(str(folder), "--port", "0").says("serving small at").rpartition(" ")[2]
    for command in (
        ("list", "{}"),
        ("list", "{}", "--json"),
        ("call", "{}", "greet", "name=Ada"),
        ("call", "{}", "add", "a:=1", "b:=2"),
        ("read", "{}", "resource://notes"),
        ("read", "{}", "resource://dot"),
        ("prompt", "{}", "summarize", "text=a tale"),
    ):
        here = mcpdesk(*(word.format(folder) for word in command))
        there = mcpdesk(*(word.format(url) for word in command))
        assert there.returncode == 0, there.stderr
        if "--json" in command:
            assert json.loads(there.stdout)["tools"] == json.loads(here.stdout)["tools"]
        else:
            assert there.stdout == here.stdout and there.stdout


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["greet"], 1, "name: is required"),
        (["refuse"], 1, "not today"),
        (["nothing"], 4, "Unknown tool: nothing"),
        (["wait", "seconds:=20", "--timeout", "3"], 5, "no answer within 3 s"),
        (["greet", "--mode", "wild"], 4, "wild"),
    ],
)
def test_failure_over_there_has_its_exit_code(
    mcpdesk: Run, serve: Callable[..., Service], folder: Path, arguments: list[str], code: int, told: str
) -> None:
    url = serve(str(folder), "--port", "0").says("serving small at").rpartition(" ")[2]
    finished = mcpdesk("call", url, *arguments)
    assert finished.returncode == code, finished.stderr
    assert told in finished.stdout + finished.stderr
    assert "Traceback" not in finished.stderr


@pytest.mark.slow
def test_guarded_server_opens_with_the_key_of_the_environment(
    mcpdesk: Run, serve: Callable[..., Service], tmp_path: Path
) -> None:
    folder = write(tmp_path / "shell", {"mcp.json": '{"name": "shell", "builtins": ["Bash"]}'})
    service = serve(str(folder), "--port", "0", "--state-dir", str(tmp_path / "state"))
    url = service.says("serving shell at").rpartition(" ")[2]
    service.says("callers send the key")
    asked = ("call", url, "Bash", "command=echo hello")
    refused = mcpdesk(*asked)
    assert refused.returncode == 3 and "--key-env" in refused.stderr
    key = (tmp_path / "state" / "api-key").read_text().strip()
    assert mcpdesk(*asked, "--key-env", "OUR_KEY", OUR_KEY=key).stdout == "hello\n"
    ours = {"MCPDESK_KEY": key}
    assert mcpdesk(*asked, "--key-env", "MCPDESK_KEY", **ours).stdout == "hello\n"
    listed = mcpdesk("schemas", url, "--for", "openai", "--key-env", "MCPDESK_KEY", **ours)
    assert listed.returncode == 0 and '"Bash"' in listed.stdout, listed.stderr
    unnamed = mcpdesk(*asked, "--key-env", "OUR_KEY", OUR_KEY=key, MCPDESK_TOKENS="t")
    assert unnamed.returncode == 2 and "MCPDESK_TOKENS: unknown setting" in unnamed.stderr
    unset = mcpdesk(*asked, "--token-env", "UNSET_HERE")
    assert unset.returncode == 2 and "UNSET_HERE is not set" in unset.stderr
    needless = mcpdesk("list", str(folder), "--key-env", "OUR_KEY", OUR_KEY=key)
    assert needless.returncode == 2 and "Keys, headers, revisions and packages cannot" in needless.stderr


@contextmanager
def lying(results: dict[str, Any], sent: list[Any] | None = None) -> Iterator[str]:
    """A stateless server with a fixed result for each method; gives its URL. It adds requests to `sent`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if sent is not None:
                sent.append(asked)
            result = {"server/discover": DISCOVERED, **results}.get(asked["method"], {})
            body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "method", "result", "told"),
    [
        (["list"], "resources/list", {}, "no list called"),
        (["read", "x://y"], "resources/read", {"contents": [{"text": 5}]}, "text is invalid"),
        (["read", "x://y"], "resources/read", {"contents": [{"blob": "%"}]}, "not valid Base64"),
        (["read", "x://y"], "resources/read", {"contents": [{"blob": "\u00e9"}]}, "not valid Base64"),
        (["prompt", "p"], "prompts/get", {"messages": [{"role": "user"}]}, "messages 0 has no content"),
        (
            ["prompt", "p"],
            "prompts/get",
            {"messages": [{"role": "user", "content": "x"}]},
            "content is invalid",
        ),
        (["call", "t"], "tools/call", {"content": [{"type": "text"}]}, "has no text"),
    ],
)
def test_server_that_lies_is_told_without_a_traceback(
    mcpdesk: Run, command: list[str], method: str, result: Any, told: str
) -> None:
    with lying({method: result}) as url:
        finished = mcpdesk(command[0], url, *command[1:])
    assert finished.returncode == 4
    assert told in finished.stderr and "Traceback" not in finished.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    ("tools", "reason"),
    [(3, "no list called tools"), ([{"name": "t"}], "tools 0 ('t') has no inputSchema")],
    ids=["no list", "invalid item"],
)
def test_arguments_are_sent_as_text_if_the_list_is_malformed(mcpdesk: Run, tools: Any, reason: str) -> None:
    echoed = {"content": [{"type": "text", "text": "done"}]}
    sent = list[Any]()
    with lying({"tools/list": {"tools": tools}, "tools/call": echoed}, sent) as url:
        finished = mcpdesk("call", url, "t", "n=1", "m:=2")
    assert (finished.stdout, finished.returncode) == ("done\n", 0), finished.stderr
    (remark,) = [line for line in finished.stderr.splitlines() if "are sent as text" in line]
    assert reason in remark
    assert sent[-1]["params"]["arguments"] == {"n": "1", "m": 2}


@pytest.mark.process
def test_binary_contents_come_as_they_are(mcpdesk: Run) -> None:
    blob = base64.b64encode(b"plain enough").decode()
    with lying({"resources/read": {"contents": [{"uri": "x://y", "blob": blob}]}}) as url:
        assert mcpdesk("read", url, "x://y").stdout == "plain enough"
