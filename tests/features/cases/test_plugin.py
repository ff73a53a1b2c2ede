"""The plugin for pytest, run as authors run it: its tests, and the targets of its fixtures."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.errors import DeskUserError
from mcpdesk.features import VARIABLE
from mcpdesk.features.cases.plugin import _connecting
from mcpdesk.testing import ServerUnderTest
from tests.support.folders import write
from tests.support.registries import needs_python_package
from tests.support.served import make_server

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
HELLO = ROOT / "sample_servers" / "hello"
TOOLS = '''
import os

from mcpdesk import Context


async def add(a: int, b: int) -> dict[str, int]:
    """Add."""
    return {"sum": a + b}


async def fall() -> str:
    """Fail."""
    raise RuntimeError("the bridge is down")


async def told(ctx: Context) -> str:
    """Tell the transport, a header, a variable and the process."""
    town = ctx.request.headers.get("x-town", os.environ.get("SHOP_TOWN", "-"))
    return f"{ctx.request.transport} {town} {os.getpid()}"
'''
SDK = """
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("shop")
calls = 0


@server.tool()
def spoken(ctx: Context) -> str:
    "Tell the revision and a header."
    global calls
    calls += 1
    return f"{ctx.request_context.protocol_version} {ctx.headers.get('x-town')} {calls}"
"""


LIFESPAN = """
from contextlib import asynccontextmanager
from mcp.server.lowlevel import Server
from mcpdesk.testing.server_objects import object_url
from mcpdesk.testing import ServerUnderTest

@asynccontextmanager
async def lifespan(server):
    print("begun", flush=True)
    yield
    print("ended", flush=True)

server = Server("low", lifespan=lifespan)
clients = [ServerUnderTest(server) for _ in range(2)]
print(len(clients), flush=True)
for each in clients:
    each.close()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A server folder with the tools above, and a file of two cases of which one fails."""
    place = tmp_path / "shop"
    (place / "tools").mkdir(parents=True)
    (place / "tools" / "all.py").write_text(TOOLS)
    (place / "cases").mkdir()
    cases = "- tool: add\n  arguments: {a: 1, b: 2}\n\n- name: falls\n  tool: fall\n"
    (place / "cases" / "some.yaml").write_text(cases)
    return place


def pytest_run(place: Path, *arguments: str, ini: str = "") -> subprocess.CompletedProcess[str]:
    """Run pytest as an author would, with the installed packages."""
    (place / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=place, capture_output=True, text=True, timeout=120, check=False, env=environ,
    )  # fmt: skip


def outcome(finished: subprocess.CompletedProcess[str]) -> str:
    """The last line of a run, without its time."""
    return re.sub(r" in [\d.]+s.*", "", finished.stdout.splitlines()[-1])


def test_files_of_other_projects_are_left_alone(tmp_path: Path) -> None:
    """Data of parametrized tests in a folder `cases`, beside a folder that resembles a server folder."""
    (tmp_path / "tests" / "cases").mkdir(parents=True)
    (tmp_path / "tests" / "resources").mkdir()
    (tmp_path / "tests" / "cases" / "data.json").write_text('{"input": 1}')
    (tmp_path / "tests" / "test_own.py").write_text("def test_own():\n    pass\n")
    finished = pytest_run(tmp_path)
    assert (finished.returncode, outcome(finished)) == (0, "1 passed"), finished.stdout


def test_disabled_feature_leaves_pytest_as_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "test_own.py").write_text("def test_own():\n    pass\n")
    assert "desk_client" in pytest_run(folder, "--fixtures").stdout
    monkeypatch.setenv(VARIABLE, "cases")
    finished = pytest_run(folder)
    assert (finished.returncode, outcome(finished)) == (0, "1 passed"), finished.stdout
    assert "desk_client" not in pytest_run(folder, "--fixtures").stdout


def test_case_files_that_the_ini_names_are_tests(folder: Path) -> None:
    assert outcome(pytest_run(folder.parent)) == "no tests ran"
    finished = pytest_run(folder.parent, ini="mcpdesk_cases = shop/cases")
    assert (finished.returncode, outcome(finished)) == (1, "1 failed, 1 passed"), finished.stdout
    file = folder / "cases" / "some.yaml"
    assert f"{file}:4: falls" in finished.stdout
    assert "RuntimeError: the bridge is down" in finished.stdout
    file.write_text("- nothing: 1\n")
    broken = pytest_run(folder.parent, ini="mcpdesk_cases = shop/cases")
    assert broken.returncode == 2
    assert "one of tool, resource, prompt" in broken.stdout


def test_cases_run_against_the_target_that_the_ini_names(folder: Path) -> None:
    place = folder.parent / "contract"
    (folder / "cases").rename(place)
    unknown = pytest_run(folder.parent, ini="mcpdesk_cases = contract/some.yaml")
    assert unknown.returncode == 1 and "ini option mcpdesk_target" in unknown.stdout
    for target in ("shop", f"-- {sys.executable} -m mcpdesk stdio {folder} --alone"):
        ini = f"mcpdesk_cases = contract/some.yaml\nmcpdesk_target = {target}"
        finished = pytest_run(folder.parent, ini=ini)
        assert outcome(finished) == "1 failed, 1 passed", finished.stdout
    test = folder.parent / "test_it.py"
    test.write_text("def test_it(desk_client):\n    assert not desk_client().call('told').error\n")
    assert outcome(pytest_run(folder.parent, "test_it.py", ini="mcpdesk_target = shop")) == "1 passed"
    missing = pytest_run(folder.parent, "test_it.py")
    assert missing.returncode == 1 and "set the ini option mcpdesk_target" in missing.stdout


TEST = """
import pytest

def test_greeting(desk_client, desk_snapshot):
    client = desk_client({folder!r})
    assert client.call("greet", name="Ada").text == "Hello, Ada!"
    assert client.call("greet").error
    assert "Ada" in client.call("greet", {{"name": "Ada"}}).text
    tea = client.call("order-tea", answers=[{{"question": "Which tea", "answer": "Assam"}}])
    assert tea.text.startswith("One Assam")
    with pytest.raises(AssertionError, match="has no answer"):
        client.call("order-tea")
    assert client.read("resource://about").text
    assert client.request("tools/list")["tools"]
    desk_snapshot(client.call("greet", name="{name}"))
"""


def test_the_plugin_gives_a_client_and_compares_with_what_was_kept(tmp_path: Path) -> None:
    file = tmp_path / "test_hello.py"
    file.write_text(TEST.format(folder=str(HELLO), name="Ada"))
    missing = pytest_run(tmp_path)
    assert missing.returncode == 1
    assert "--desk-update writes it" in missing.stdout
    for arguments in (("--desk-update",), ()):
        finished = pytest_run(tmp_path, *arguments)
        assert finished.returncode == 0, finished.stdout
    file.write_text(TEST.format(folder=str(HELLO), name="Eve"))
    assert "Hello, Eve!" in pytest_run(tmp_path).stdout


SCOPES = """
import os
import pytest
from mcpdesk.testing import ServerUnderTest

SHOP = {folder!r}
seen = {{}}

@pytest.mark.parametrize("number", range(4))
def test_one_process_serves_all_tests(desk_client_session, desk_client_module, desk_client, number):
    options = {{"environment": {{"SHOP_TOWN": "Oslo"}}}}
    for scope, connect in (("session", desk_client_session), ("module", desk_client_module)):
        town, pid = connect(SHOP, **options).call("told").text.split()[1:]
        assert town == "Oslo" and int(pid) != os.getpid()
        assert seen.setdefault(scope, pid) == pid
    assert desk_client_session(SHOP) is desk_client_session(SHOP)
    assert desk_client(SHOP) is not desk_client(SHOP)
    assert desk_client(SHOP).call("told").text.split()[2] == str(os.getpid())
"""


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_wider_fixtures_start_a_server_once(folder: Path, arguments: tuple[str, ...]) -> None:
    (folder.parent / "test_scopes.py").write_text(SCOPES.format(folder=str(folder)))
    finished = pytest_run(folder.parent, *arguments)
    assert (finished.returncode, outcome(finished)) == (0, "4 passed"), finished.stdout


def test_cases_run_beside_each_other_with_xdist(folder: Path) -> None:
    (folder / "cases" / "more.yaml").write_text("- tool: add\n  arguments: {a: 3, b: 4}\n" * 3)
    finished = pytest_run(folder.parent, "-n", "2", ini="mcpdesk_cases = shop/cases")
    assert outcome(finished) == "1 failed, 4 passed", finished.stdout


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, "memory -"),
        ({"headers": {"X-Town": "Oslo"}}, "http Oslo"),
        ({"environment": {"SHOP_TOWN": "Oslo"}}, "stdio Oslo"),
    ],
)
def test_a_folder_speaks_the_revision_that_is_asked_for(folder: Path, more: Any, told: str) -> None:
    for asked, spoken in (
        ("2025-06-18", "2025-06-18"),
        ("handshake", "2025-11-25"),
        ("stateless", "2026-07-28"),
    ):
        with ServerUnderTest(folder, revision=asked, **more) as client:
            assert client.revision == spoken
            assert client.call("told").text.rpartition(" ")[0] == told


def test_options_that_mean_nothing_are_refused(folder: Path) -> None:
    with pytest.raises(DeskUserError, match="Unknown revision '2020-01-01'"):
        ServerUnderTest(folder, revision="2020-01-01")
    with pytest.raises(TypeError, match="'colour' is not an option of a connection; allowed: mode"):
        ServerUnderTest(folder, colour="red")  # type: ignore[call-arg]
    with pytest.raises(DeskUserError, match="A folder that gets variables takes no token"):
        ServerUnderTest(folder, environment={"A": "b"}, token="x")
    with pytest.raises(DeskUserError, match="behind a URL takes no environment"):
        ServerUnderTest("http://127.0.0.1:1/mcp", environment={"A": "b"})
    with pytest.raises(DeskUserError, match="list is not a server object"):
        ServerUnderTest([])


def test_a_token_and_a_mode_reach_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wallet = ROOT / "sample_servers" / "wallet"
    monkeypatch.setenv("WALLET_SECRET", "a secret of at least 32 characters")
    issue = [sys.executable, str(wallet / "issue_token.py"), "ada", "wallet:read"]
    token = subprocess.check_output(issue, text=True).strip()
    headers: dict[str, str]
    for headers in ({}, {"X-Town": "Oslo"}):
        with ServerUnderTest(wallet, token=token, headers=headers) as client:
            assert client.call("balance").error is None
    with ServerUnderTest(wallet) as client:
        assert client.call("balance").error
    manifest = {"name": "modal", "builtins": ["ReadMediaFile"], "modes": {"none": {"tools": []}}}
    (tmp_path / "mcp.json").write_text(json.dumps(manifest))
    with ServerUnderTest(tmp_path, mode="none") as client:
        assert client.request("tools/list")["tools"] == []


def test_a_program_gets_variables_and_a_folder(tmp_path: Path, folder: Path) -> None:
    program = f"-- {sys.executable} -m mcpdesk stdio shop --alone"
    with ServerUnderTest(program, environment={"SHOP_TOWN": "Bergen"}, folder=folder.parent) as client:
        assert client.call("told").text.split()[1] == "Bergen"


def test_the_lifespan_of_a_server_object_ends_with_the_process(tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(LIFESPAN)
    finished = subprocess.run(
        [sys.executable, "use.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert (finished.stdout, finished.stderr, finished.returncode) == ("begun\n2\nended\n", "", 0)


def test_server_objects_of_the_sdk_are_served_in_this_process() -> None:
    defined: dict[str, object] = {}
    exec(SDK, defined)
    server = defined["server"]
    with ServerUnderTest(server) as client:
        assert client.call("spoken").text == "2026-07-28 None 1"
    with ServerUnderTest(server, revision="2025-06-18", headers={"X-Town": "Oslo"}) as client:
        assert client.call("spoken").text == "2025-06-18 Oslo 2"
        assert defined["calls"] == 2


def test_a_server_made_in_code_is_connected_in_memory() -> None:
    server = make_server()
    for revision in ("2026-07-28", "2025-06-18"):
        with ServerUnderTest(server, revision=revision) as client:
            assert client.revision == revision
            assert client.call("echo", text="hi").text == "hi"


OBJECTS = {
    "fastmcp-2": ("fastmcp>=2,<3", "from fastmcp import FastMCP\nserver = FastMCP('x')\n"),
    "fastmcp-4": ("fastmcp>=4,<5", "from fastmcp import FastMCP\nserver = FastMCP('x')\n"),
    "sdk-1": ("mcp>=1,<2", "from mcp.server.fastmcp import FastMCP\nserver = FastMCP('x')\n"),
}
USE = """
@server.tool()
def add(a: int, b: int) -> int:
    "Add."
    return a + b

from mcpdesk.testing import ServerUnderTest
for _ in range(2):
    with ServerUnderTest(server) as client:
        print(client.call("add", a=1, b=2).text)
"""
LOW_LEVEL = """
import mcp.types as types
from mcp.server.lowlevel import Server

server = Server("low")

@server.list_tools()
async def tools():
    return [types.Tool(name="add", description="Add.", inputSchema={"type": "object"})]

@server.call_tool()
async def call(name, arguments):
    return [types.TextContent(type="text", text=str(arguments["a"] + arguments["b"]))]
"""


@pytest.mark.parametrize("kind", [*OBJECTS, "low-level sdk-1"])
def test_server_objects_of_other_packages_are_served(kind: str, tmp_path: Path) -> None:
    requirement, made = OBJECTS[kind.removeprefix("low-level ")]
    needs_python_package(requirement)
    use = USE[USE.index("from mcpdesk") :] if kind.startswith("low") else USE
    (tmp_path / "use.py").write_text((LOW_LEVEL if kind.startswith("low") else made) + use)
    command = ["uv", "run", "--no-project", "-q", "--with", requirement, "--with-editable", str(ROOT)]
    finished = subprocess.run(
        [*command, "python", "use.py"], cwd=tmp_path, capture_output=True, text=True, timeout=170, check=False
    )
    assert finished.stdout == "3\n3\n", finished.stderr


def test_a_shared_client_is_found_by_the_place_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    for name in ("a", "b"):
        write(tmp_path / name / "shop", {"mcp.json": f'{{"name": "{name}"}}'})
    with _connecting(pytestconfig, shares=True) as connect:
        monkeypatch.chdir(tmp_path / "a")
        first = connect("shop")
        monkeypatch.chdir(tmp_path / "b")
        second = connect("shop")
        assert second is not first and connect(tmp_path / "a" / "shop") is first
        assert connect("../a/shop") is first and connect("./shop") is second
