"""The action for GitHub and the hooks for pre-commit, which other projects take from this repository."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from mcpdesk.cli.main import COMMANDS
from tests.support.features import needs_feature

pytestmark = [needs_feature("contract"), needs_feature("cases")]

ROOT = Path(__file__).parent.parent
HELLO = ROOT / "sample_servers" / "hello"
ACTION: dict[str, Any] = yaml.safe_load((ROOT / ".github/actions/check/action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project with a server folder, and the program on its PATH."""
    shutil.copytree(HELLO, tmp_path / "hello", ignore=shutil.ignore_patterns("__pycache__"))
    program = tmp_path / "bin" / "mcpdesk"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mcpdesk "$@"\n')
    program.chmod(0o755)
    return tmp_path


def run_step(name: str, project: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run a step of the action as GitHub does, with these inputs and the defaults of the others."""
    [step] = [each for each in STEPS if each.get("name") == name]
    given = {key: str(each.get("default", "")) for key, each in ACTION["inputs"].items()} | inputs
    environ = {
        key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: given[found[1]], value)
        for key, value in step["env"].items()
    }
    path = f"{project / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=project, env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **environ},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_the_action_checks_compares_tests_and_writes_a_report(shop: Path) -> None:
    checked = run_step("Check", shop, target="hello", options="--clients")
    assert checked.returncode == 0, checked.stderr
    report = json.loads((shop / "mcpdesk.sarif").read_text())
    for result in report["runs"][0]["results"]:
        [place] = result["locations"]
        assert (shop / place["physicalLocation"]["artifactLocation"]["uri"]).is_file()
    missing = run_step("Check", shop, target="hello", lock="true")
    assert missing.returncode == 2 and "No lock" in missing.stderr
    made = run_step("Check", shop, target="hello", options="--update", lock="hello.lock.json")
    assert made.returncode == 0, made.stderr
    assert run_step("Check", shop, target="hello", lock="hello.lock.json").returncode == 0
    tested = run_step("Test", shop, target="hello", cases="true")
    assert (tested.returncode, tested.stdout.splitlines()[-1][:18]) == (0, "4 cases: 4 passed "), (
        tested.stderr
    )
    assert run_step("Test", shop, target="hello", cases="hello/cases").returncode == 0


def test_the_action_takes_no_input_into_its_scripts() -> None:
    """An input that is written into a script could run anything; in a variable it stays a text."""
    scripts = [step["run"] for step in STEPS if "run" in step]
    assert len(scripts) == 3 and not [each for each in scripts if "${{" in each]
    named = set(re.findall(r"inputs\.([\w-]+)", json.dumps(STEPS)))
    assert named == ACTION["inputs"].keys()
    for words in re.findall(r"^ *mcpdesk (\w+)", "\n".join(scripts), re.MULTILINE):
        assert words in COMMANDS
    assert (
        ROOT / ".github/actions/check/../../.." / "pyproject.toml"
    ).is_file()  # what is installed by default


@pytest.mark.slow
@pytest.mark.parametrize("hook", HOOKS, ids=[hook["id"] for hook in HOOKS])
def test_a_hook_runs_its_command_and_knows_its_files(hook: dict[str, Any], shop: Path) -> None:
    words = [*hook["entry"].split(), *hook["args"]]
    path = f"{shop / 'bin'}{os.pathsep}{os.environ['PATH']}"
    finished = subprocess.run(
        words, cwd=shop / "hello", env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    assert re.search(hook["files"], "hello/tools/greet.py") and re.search(hook["files"], "mcp.json")
    assert not re.search(hook["files"], "src/main.py")
