"""The root holds the files that CONTRIBUTING.md lists; no module is too long, unnamed or undescribed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from mcpdesk.cli.main import COMMANDS
from mcpdesk.feature_table import FEATURES
from tests.support.features import has_feature

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mcpdesk"
TOP_LEVEL = {
    "mcpdesk", "themes", "sample_servers", "tests", "docs",
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "pyproject.toml",
}  # fmt: skip
LONGEST = 700
"""Lines above which a module usually holds two subjects."""
EMPTY_NAMES = {"utils", "util", "common", "manager", "misc", "helpers", "base_utils"}


def tracked() -> list[str]:
    """Every file the repository tracks."""
    answer = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    return answer.stdout.splitlines()


def modules() -> list[Path]:
    """Every module of the package, relative to it."""
    return sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


@pytest.mark.process
def test_root_holds_nothing_unexpected() -> None:
    files = tracked()
    if not files:
        pytest.skip("not a git checkout")
    top = {name.split("/")[0] for name in files}
    assert {name for name in top if not name.startswith(".")} == TOP_LEVEL


def test_no_module_is_too_long_or_named_after_nothing() -> None:
    long = [
        f"{module}: {lines}"
        for module in modules()
        if (lines := len((PACKAGE / module).read_text().splitlines())) > LONGEST
    ]
    assert long == []
    assert [str(module) for module in modules() if module.stem in EMPTY_NAMES] == []


def test_every_module_says_what_it_owns() -> None:
    silent = [
        str(module)
        for module in modules()
        if (text := (PACKAGE / module).read_text()) and not text.startswith('"""')
    ]
    assert silent == []


@pytest.mark.process
def test_no_file_is_large_generated_or_a_link() -> None:
    large = [name for name in tracked() if (ROOT / name).exists() and (ROOT / name).stat().st_size > 1 << 20]
    assert large == []
    assert [name for name in tracked() if "__pycache__" in name or name.endswith((".pyc", ".egg-info"))] == []
    assert [name for name in tracked() if (ROOT / name).is_symlink()] == []


def test_the_gate_names_tests_that_exist() -> None:
    words = re.findall(r"(?<=\s)tests/[\w/{},.]+", (ROOT / ".ci" / "run").read_text())
    paths = [path for word in words for path in _alternatives(word)]
    assert len(paths) > 20
    deleted = tuple(f"tests/features/{name}" for name in FEATURES if not has_feature(name))
    assert [path for path in paths if not path.startswith(deleted) and not (ROOT / path).exists()] == []


def _alternatives(word: str) -> list[str]:
    """Return the words that the shell makes of `a{b,c}`."""
    group = re.search(r"\{([^}]*)\}", word)
    if group is None:
        return [word]
    return [word[: group.start()] + each + word[group.end() :] for each in group[1].split(",")]


@pytest.mark.process
def test_workflows_run_what_is_there() -> None:
    """Commands of ours and groups of the gate in a workflow exist, and all groups are run."""
    files = (ROOT / ".github" / "workflows").glob("*.yml")
    flows = {path.stem: yaml.safe_load(path.read_text()) for path in files}
    assert set(flows) == {"ci", "docs", "release"}
    jobs = [job for flow in flows.values() for job in flow["jobs"].values()]
    steps = [step for job in jobs for step in job.get("steps", ())]
    runs = [step["run"] for step in steps if "run" in step]
    usual = re.search(r"groups=\$\{\*:-([a-z ]+)\}", (ROOT / ".ci" / "run").read_text())
    assert usual is not None
    groups = set(usual[1].split())
    for command in runs:
        words = command.split()
        assert words[0] != "mcpdesk" or words[1] in COMMANDS, command
        assert words[0] != ".ci/run" or set(words[1:]) <= groups, command
    used = {word for command in runs if command.startswith(".ci/run") for word in command.split()[1:]}
    assert groups - used == {"pythons"}  # a matrix over the versions of Python is in its place
    for form in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        yaml.safe_load(form.read_text())
