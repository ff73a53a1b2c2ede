"""What hosted code starts cannot look into the process that hosts it."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import pytest

from mcpdesk.hosting.environment import make_private
from tests.cli.conftest import mcpdesk

if TYPE_CHECKING:
    from tests.cli.conftest import Run

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
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "curious"
    (place / "tools").mkdir(parents=True)
    (place / "mcp.json").write_text(json.dumps(MANIFEST))
    (place / "tools" / "tools.py").write_text(textwrap.dedent(TOOLS))
    return place


@pytest.fixture
def called(folder: Path, mcpdesk: Run, monkeypatch: pytest.MonkeyPatch) -> object:
    for name, value in (SECRETS | {"HARMLESS": "harmless-value"}).items():
        monkeypatch.setenv(name, value)

    def call(tool: str, *arguments: str) -> str:
        done = mcpdesk("call", str(folder), tool, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_programs_find_no_secret_in_any_environment(called: Run) -> None:
    shown = str(called("Bash", f"command={SHOW_ALL}"))
    assert SIGN not in shown and "HARMLESS=harmless-value" in shown
    shown = str(called("inherited"))
    assert SIGN not in shown and "HARMLESS=harmless-value" in shown


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_the_process_can_be_looked_into_by_nobody_and_knows_its_environment(called: Run) -> None:
    assert str(called("dumpable")).strip() == "0"
    assert str(called("own")).strip() == f"harmless-value {len(SECRETS['SIGNING_SECRET'])}"


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
