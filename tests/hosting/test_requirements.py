"""Packages a folder needs: installed ones serve, missing ones are reported with the install command."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from mcpdesk.errors import ManifestError
from mcpdesk.hosting.folder.loader import load_folder
from tests.support.features import needs_feature
from tests.support.folders import write

ADD = '''
def add(a: int) -> int:
    """Add one."""
    return a + 1
'''
HINT = "needs no-such-package-here>=2, which is not installed: run `"


def tool(*requirements: str, block: str = "") -> str:
    lines = "".join(f'#   "{each}",\n' for each in requirements)
    block = block or f"# dependencies = [\n{lines}# ]\n"
    return f'"""Tools."""\n\n# /// script\n{block}# ///\n\n{ADD}'


def loaded(folder: Path, files: dict[str, str]) -> tuple[list[str], list[str]]:
    """Names of the tools, and messages about files and about the folder."""
    found = load_folder(write(folder, files))
    found.close()
    told = [f"{item.source}: {item.reason}" for _, item in found.unavailable]
    return [each.name for each in found.tools], [*told, *found.problems]


@pytest.mark.parametrize(
    "source",
    [
        tool("msgspec>=0.1", "no-such-package-here; python_version < '3'"),
        tool("MsgSpec[yaml]"),
        tool(block='# requires-python = ">=3.11"\n#\n'),
        tool("aiohttp").replace("\n", "\r\n"),
    ],
)
def test_what_is_installed_serves(tmp_path: Path, source: str) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "a.py").write_bytes(source.encode())
    assert loaded(tmp_path, {"mcp.json": '{"requires": ["aiohttp>=3"]}'}) == (["add"], [])


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (tool("no-such-package-here>=2"), HINT),
        (tool("msgspec>=99", "no-such-package-here"), "needs msgspec>=99, no-such-package-here, which are"),
        (tool("a b c"), "'a b c' is not a requirement"),
        (tool(block="# dependencies = 3\n"), "dependencies must be a list"),
        (tool(block="# dependencies = [\n"), "block cannot be read"),
    ],
)
def test_one_file_lacks_something_and_the_rest_serves(tmp_path: Path, source: str, said: str) -> None:
    other = tool().replace("add", "more")
    names, (told,) = loaded(tmp_path, {"tools/a.py": source, "tools/b.py": other})
    assert names == ["more"] and told.startswith("tools/a.py:3: ") and said in told


@pytest.mark.parametrize("with_uv", [True, False])
def test_the_manifest_lacks_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_uv: bool) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    if with_uv:
        (programs / "uv").write_text("#!/bin/sh\n")
        (programs / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    manifest = '{\n  "name": "a",\n  "requires": ["no-such-package-here>=2"]\n}'
    names, (told,) = loaded(tmp_path / "a", {"mcp.json": manifest, "tools/b.py": tool()})
    pip = ["uv", "pip", "install", "--python", sys.executable]
    command = pip if with_uv else [sys.executable, "-m", "pip", "install"]
    line = shlex.join([*command, "no-such-package-here>=2"])
    assert (names, told) == (["add"], f"mcp.json:3: {HINT}{line}`, then save")


def test_what_is_no_requirement_is_a_mistake_of_the_manifest(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"mcp.json:1:\d+: requires\[0\]: 'a b' is not a requirement"):
        loaded(tmp_path, {"mcp.json": '{"requires": ["a b"]}'})


@needs_feature("contract")
@pytest.mark.process
def test_check_tells_it_without_a_traceback(tmp_path: Path) -> None:
    write(tmp_path, {"tools/a.py": tool("no-such-package-here>=2")})
    ran = subprocess.run(
        [sys.executable, "-m", "mcpdesk", "check", str(tmp_path)], capture_output=True, text=True
    )
    assert ran.returncode == 1 and HINT in ran.stdout and "Traceback" not in ran.stdout + ran.stderr
