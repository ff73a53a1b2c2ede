"""Completions after Tab, requested through the generated shell scripts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pexpect
import pytest

from tests.support.patience import WITHIN_S

pytestmark = pytest.mark.process

if TYPE_CHECKING:
    from tests.cli.conftest import Run

ROOT = Path(__file__).parents[2]


def offered(mcpdesk: Run, *words: str) -> list[str]:
    """Completions of the last of the words after `mcpdesk`, as `type,value`."""
    finished = mcpdesk(
        _MCPDESK_COMPLETE="bash_complete",
        COMP_WORDS=" ".join(("mcpdesk", *words)),
        COMP_CWORD=str(len(words)),
    )
    assert finished.stderr == ""
    return finished.stdout.split()


def test_first_word_is_a_command_a_server_folder_here_or_a_path(mcpdesk: Run) -> None:
    assert offered(mcpdesk, "ca") == ["plain,call"]
    assert {"plain,call", "plain,completion"} <= set(offered(mcpdesk, ""))
    assert offered(mcpdesk, "sample_servers/he") == ["dir,sample_servers/he"]
    assert "plain,--version" in offered(mcpdesk, "--")


def test_arguments_of_a_command_are_folders_options_and_names_of_tools(mcpdesk: Run, folder: Path) -> None:
    assert offered(mcpdesk, "serve", "sam") == ["dir,sam"]
    assert offered(mcpdesk, "call", str(folder), "gr") == ["plain,greet"]
    assert offered(mcpdesk, "prompt", str(folder), "") == ["plain,summarize"]
    assert "plain,--json" in offered(mcpdesk, "call", str(folder), "--")


def test_a_target_that_cannot_be_asked_offers_nothing(mcpdesk: Run, folder: Path) -> None:
    (folder / "mcp.json").write_text("{")
    assert offered(mcpdesk, "call", str(folder), "") == []
    assert offered(mcpdesk, "call", "http://127.0.0.1:1/mcp", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script(mcpdesk: Run, shell: str) -> None:
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    script = mcpdesk("completion", shell).stdout
    assert "_MCPDESK_COMPLETE" in script and f"{shell}_complete" in script


def test_bash_completes_with_its_script(folder: Path, tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    program = tmp_path / "bin" / "mcpdesk"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m mcpdesk "$@"\n')
    program.chmod(0o755)
    asked = (
        'eval "$(mcpdesk completion bash)"; '
        f"COMP_WORDS=(mcpdesk call {folder} gr); COMP_CWORD=3; COMP_LINE='mcpdesk call {folder} gr'; "
        "_mcpdesk_completion mcpdesk; "
        'echo "${COMPREPLY[@]}"'
    )
    finished = subprocess.run(
        ["bash", "--norc", "-c", asked],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert (finished.stdout, finished.stderr) == ("greet\n", "")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with servers of Cursor, and `mcpdesk` in its folder `bin`."""
    servers = {name: {"command": "x"} for name in ("github", "git-local", "my files")}
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    program = tmp_path / "bin" / "mcpdesk"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m mcpdesk "$@"\n')
    program.chmod(0o755)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("call cursor:gith\t", ["call", "cursor:github"]),
        ("call curs\tgith\t", ["call", "cursor:github"]),
        ("call cursor:my\t", ["call", "cursor:my files"]),
        ("cursor:gith\t", ["cursor:github"]),
        ("call cursor:github --js\t", ["call", "cursor:github", "--json"]),
    ],
)
def test_bash_completes_names_with_a_colon(home: Path, typed: str, words: list[str]) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    environ = {
        **os.environ, "HOME": str(home), "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT), "TERM": "dumb", "PS1": "ready> ",
    }  # fmt: skip
    shell = pexpect.spawn(
        "bash", ["--norc", "--noprofile", "-i"], cwd=str(home), env=environ, encoding="utf-8",
        timeout=WITHIN_S, dimensions=(24, 200),
    )  # fmt: skip
    shell.sendline("PS1='ready> '; bind 'set enable-bracketed-paste off'")
    shell.sendline('eval "$(command mcpdesk completion bash)"')
    shell.sendline("mcpdesk() { printf '<%s>' \"$@\"; echo; }; echo set up")
    shell.expect("\r\nset up\r\n")
    shell.sendline(f"mcpdesk {typed}")
    shell.expect(r"\n(<[^\n]*>)\r\n")
    assert str(shell.match and shell.match[1]) == "".join(f"<{word}>" for word in words)
    shell.close(force=True)


@pytest.mark.parametrize(("shell", "name"), [("zsh", r"cursor\:github"), ("fish", "cursor:github")])
def test_zsh_and_fish_receive_names_with_a_colon(mcpdesk: Run, home: Path, shell: str, name: str) -> None:
    word = "cursor:gith"
    finished = mcpdesk(
        _MCPDESK_COMPLETE=f"{shell}_complete",
        COMP_WORDS=f"mcpdesk call {word}",
        COMP_CWORD=word if shell == "fish" else "2",
        HOME=str(home),
    )
    assert re.split(r"[\n\t,]", finished.stdout) == ["plain", name, "x", ""]
