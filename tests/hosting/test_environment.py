"""Variables of the env file add and remove tools while the core runs."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from mcpdesk.errors import DeskUserError
from mcpdesk.hosting.environment import FolderVariables, make_private
from mcpdesk.hosting.host_plan import plan_for
from mcpdesk.settings import ENV_FILE
from tests.cli.conftest import mcpdesk
from tests.support.desk import running_desk
from tests.support.features import having
from tests.support.folders import save
from tests.support.patience import until, within

if TYPE_CHECKING:
    from tests.cli.conftest import Run

MAIL = '''
import os

from mcpdesk import tool

READ_AT_IMPORT = os.environ.get("FOLDER_VARIABLES_TEST", "nothing")

@tool(requires_env="FOLDER_VARIABLES_TEST")
async def mail() -> str:
    """Send."""
    return READ_AT_IMPORT

@tool
async def other() -> str:
    """Always there."""
    return "other"
'''
VARIABLE = "FOLDER_VARIABLES_TEST"


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    assert VARIABLE not in os.environ
    yield
    assert os.environ.pop(VARIABLE, None) is None, "a folder left its variable behind"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "mails"
    (place / "tools").mkdir(parents=True)
    (place / "tools/mail.py").write_text(MAIL)
    command = {"stage": "send", "command": "fax", "run": ["true"], "requires_env": [VARIABLE]}
    (place / "mcp.json").write_text(
        json.dumps({"name": "mails", "commands": having("program_tools", command)})
    )
    return place


def given(folder: Path, text: str) -> dict[str, str]:
    (folder / ENV_FILE).write_text(text)
    environment = {"THERE": "already"}
    variables = FolderVariables(folder, environment)
    variables.put(variables.read())
    return environment


def test_variables_that_are_no_settings_are_added(tmp_path: Path) -> None:
    text = "PORT=3\nA_KEY='x y'\nTHERE=other\nexport B=1 # note\nEMPTY=\n"
    assert given(tmp_path, text) == {"THERE": "already", "A_KEY": "x y", "B": "1", "EMPTY": ""}


def test_they_follow_the_file_and_leave_with_it(tmp_path: Path) -> None:
    environment = {"THERE": "already"}
    variables = FolderVariables(tmp_path, environment)
    for text, expected in (("A=1\nB=2", {"A": "1", "B": "2"}), ("B=3\nC=4", {"B": "3", "C": "4"})):
        (tmp_path / ENV_FILE).write_text(text)
        variables.put(variables.read())
        assert environment == {"THERE": "already"} | expected
    second = FolderVariables(tmp_path, environment)
    second.put(second.read())
    second.withdraw()
    assert environment["B"] == "3"
    environment["A"] = "from elsewhere"
    (tmp_path / ENV_FILE).write_text("A=5\nB=3")
    variables.put(variables.read())
    assert environment == {"THERE": "already", "A": "from elsewhere", "B": "3"}
    variables.withdraw()
    assert environment == {"THERE": "already", "A": "from elsewhere"}


def test_variables_come_from_the_env_file_of_scorpiox_as_well(tmp_path: Path) -> None:
    (tmp_path / "scorpiox-env.txt").write_text("A=theirs\nB=2\nMODEL=sonnet\nLD_PRELOAD=./x.so\n")
    assert given(tmp_path, "A=ours\n") == {"THERE": "already", "A": "ours", "B": "2"}


@pytest.mark.parametrize("line", ["A B=1", "1A=1", "no equals sign", "=x"])
def test_mistake_in_the_file_is_named_and_changes_nothing(tmp_path: Path, line: str) -> None:
    (tmp_path / ENV_FILE).write_text(f"FINE=1\n{line}\n")
    environment: dict[str, str] = {}
    with pytest.raises(DeskUserError, match=rf"{ENV_FILE}:2: "):
        variables = FolderVariables(tmp_path, environment)
        variables.put(variables.read())
    assert environment == {}


@pytest.mark.parametrize("name", ["MCPDESK_ANYTHING", "PROT", "STREAMIN", "ZYRA_API_KEYS"])
def test_what_looks_like_a_setting_is_taken_for_a_slip(folder: Path, name: str) -> None:
    (folder / ENV_FILE).write_text(f"{name}=1\n")
    with pytest.raises(DeskUserError, match=f"{name}: unknown setting") as caught:
        plan_for([folder], {}, {})
    assert "Did you mean" in caught.value.hint


async def test_variable_that_appears_brings_its_tools_and_takes_them_again(folder: Path) -> None:
    async with running_desk(folder, http=True, watch=True, no_auth=True) as desk:
        server = desk.host.folders["mails"].server

        def names() -> list[str]:
            return [tool.name for tool in server.tools]

        async def says() -> Any:
            call = desk.request("mails", "tools/call", {"name": "mail", "arguments": {}})
            await until(call.outcome.done)
            result = call.outcome.result().result
            return result and result["content"][0]["text"]

        assert names() == ["other"]
        fax = having("program_tools", "send-fax")
        items = {item.name: item for item in desk.catalogue("mails").items}
        reason = f"needs {VARIABLE}, an environment variable that is not set"
        for name, source in (
            ("mail", "tools/mail.py:9"),
            *having("program_tools", ("send-fax", "mcp.json:1")),
        ):
            assert (items[name].problem, items[name].source, items[name].is_fit) == (reason, source, True)
        base = desk.view().servers[0].url.partition("/mcp/")[0]
        async with aiohttp.ClientSession() as client, client.get(f"{base}/status") as answer:
            (facts,) = (await answer.json())["servers"]
        assert {"name": "mail", "reason": reason} in facts["unavailable"]

        for value in ("first", "second"):
            save(folder / ENV_FILE, f"{VARIABLE}={value}\n")
            async with within():

                async def is_new() -> bool:
                    return names() == ["mail", "other", *fax] and await says() == value

                await until(is_new)
            assert os.environ.get(VARIABLE) == value
        save(folder / ENV_FILE, "# nothing any more\n")
        await until(lambda: names() == ["other"])
        added = ["mail", *fax]
        assert [notice.text.partition(": ")[2] for notice in desk.notices() if "added" in notice.text] == [
            f"{len(added)} added: {', '.join(added)}"
        ]
        save(folder / ENV_FILE, "no equals sign\n")
        await until(lambda: any("is not KEY=value" in notice.text for notice in desk.notices()))


__all__ = ["mcpdesk"]

MANIFEST = {
    "name": "curious",
    "builtins": ["Bash"],
    "auth": {"jwt": {"algorithms": ["HS256"], "secret_env": "SIGNING_SECRET", "audience": "here"}},
}
TOOLS = '''
import ctypes
import os
import subprocess


async def dumpable() -> int:
    """Whether others may look into this process."""
    return ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)


async def inherited() -> str:
    """What a program started without more ado gets."""
    return subprocess.run(["env"], capture_output=True, text=True).stdout


async def own() -> str:
    """What the code itself finds."""
    return os.environ["HARMLESS"] + " " + str(len(os.environ["SIGNING_SECRET"]))
'''
SIGN = token_hex(8)
SECRETS = {"MCPDESK_API_KEY": f"{SIGN}-api-key", "SIGNING_SECRET": f"{SIGN}-signing-key"}
SHOW_ALL = """
for file in /proc/[0-9]*/environ; do tr '\\0' '\\n' < $file; done 2>/dev/null
tr '\\0' '\\n' < /proc/$PPID/environ; env
"""


@pytest.fixture
def secretive(tmp_path: Path) -> Path:
    place = tmp_path / "curious"
    (place / "tools").mkdir(parents=True)
    (place / "mcp.json").write_text(json.dumps(MANIFEST))
    (place / "tools" / "tools.py").write_text(textwrap.dedent(TOOLS))
    return place


@pytest.fixture
def called(secretive: Path, mcpdesk: Run, monkeypatch: pytest.MonkeyPatch) -> object:
    for name, value in (SECRETS | {"HARMLESS": "harmless-value"}).items():
        monkeypatch.setenv(name, value)

    def call(tool: str, *arguments: str) -> str:
        done = mcpdesk("call", str(secretive), tool, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_programs_find_no_secret_in_any_environment(called: Run) -> None:
    shown = str(called("Bash", f"command={SHOW_ALL}"))
    assert SIGN not in shown and "HARMLESS=harmless-value" in shown
    shown = str(called("inherited"))
    assert SIGN not in shown and "HARMLESS=harmless-value" in shown


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_the_process_can_be_looked_into_by_nobody_and_knows_its_environment(called: Run) -> None:
    assert str(called("dumpable")).strip() == "0"
    assert str(called("own")).strip() == f"harmless-value {len(SECRETS['SIGNING_SECRET'])}"


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_wiped_environment_is_the_same_for_python_and_for_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WITH_UMLAUTS", "äöü=x")
    before = dict(os.environ)
    make_private()
    make_private()
    assert dict(os.environ) == before
    with os.popen('printf "$WITH_UMLAUTS"') as said:
        assert said.read() == "äöü=x"
