"""The release: version, notes and tag as the workflow makes them, and actions pinned by commit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import release
from tests.support.release import NoRelease

ROOT = Path(__file__).parent.parent
FLOW: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
JOBS: dict[str, Any] = FLOW["jobs"]
CHANGES = """# Changelog

## [Unreleased]

### Fixed

- One thing.

## [1.9.0] - 2026-01-02

- An older thing.
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of version 1.9.0 with changes since then."""
    (tmp_path / "mcpdesk").mkdir()
    (tmp_path / "mcpdesk" / "version.py").write_text('"""Version."""\n\n__version__ = "1.9.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    return tmp_path


def test_a_release_writes_its_version_and_the_heading_of_its_changes(project: Path) -> None:
    notes = release.release(project, "1.10.0", "2026-02-03")
    assert notes == "### Fixed\n\n- One thing.\n"
    assert (project / "mcpdesk/version.py").read_text() == '"""Version."""\n\n__version__ = "1.10.0"\n'
    assert (project / "CHANGELOG.md").read_text() == CHANGES.replace(
        "## [Unreleased]\n", "## [Unreleased]\n\n## [1.10.0] - 2026-02-03\n"
    )


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.9.0", "1.9.0 is not newer than 1.9.0"),
        ("1.8.9", "1.8.9 is not newer than 1.9.0"),
        ("v2.0.0", "'v2.0.0' is not a version"),
        ("2.0.0; id", "is not a version"),
    ],
)
def test_another_version_than_a_newer_one_is_refused(project: Path, version: str, reason: str) -> None:
    with pytest.raises(NoRelease, match=re.escape(reason)):
        release.release(project, version, "2026-02-03")
    assert (project / "CHANGELOG.md").read_text() == CHANGES


def test_a_release_without_changes_is_refused(project: Path) -> None:
    release.release(project, "1.10.0", "2026-02-03")
    with pytest.raises(NoRelease, match="no changes below"):
        release.release(project, "1.11.0", "2026-02-04")


def test_the_changes_of_this_version_can_be_released() -> None:
    assert release.unreleased((ROOT / "CHANGELOG.md").read_text()).startswith("### ")
    assert release.ASSIGNED.search((ROOT / "mcpdesk/version.py").read_text())


def step(job: str, name: str) -> str:
    """Script of a step of the workflow."""
    [found] = [each["run"] for each in JOBS[job]["steps"] if each.get("name") == name]
    return str(found)


def shell(script: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a script as the workflow does."""
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder, env={**os.environ, **settings, "PATH": path, **environ}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.process
def test_the_workflow_commits_the_version_and_pushes_it_with_its_tag(tmp_path: Path) -> None:
    origin, work = tmp_path / "origin", tmp_path / "work"
    for file in ("mcpdesk/version.py", "CHANGELOG.md", "tests/__init__.py", "tests/support/release.py"):
        (work / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, work / file)
    (work / "tests/support/__init__.py").touch()
    made = (
        "git init -qb main --bare ../origin; git init -qb main; git remote add origin ../origin; git add -A"
    )
    me = "-c user.name=Ada -c user.email=ada@example.org"
    assert shell(f"{made}; git {me} commit -qm First; git push -q origin main", work).returncode == 0
    prepared = shell(step("build", "Version and notes"), work, VERSION="9.0.0")
    assert prepared.returncode == 0, prepared.stderr
    assert "- " in (work / "release/notes.md").read_text()
    fresh, late = tmp_path / "fresh", tmp_path / "late"
    assert shell("git clone -q origin fresh; git clone -q origin late", tmp_path).returncode == 0
    for place in (fresh, late):
        shutil.copytree(work / "release", place / "release")
    tagged = shell(step("tag", "Commit the version and tag it"), fresh, VERSION="9.0.0")
    assert tagged.returncode == 0, tagged.stderr
    shown = shell("git show --stat --format=%s v9.0.0^{commit}; git rev-parse main v9.0.0^{commit}", origin)
    lines = shown.stdout.splitlines()
    assert lines[0] == "Release 9.0.0" and lines[-1] == lines[-2]
    assert re.findall(r"(?m)^ (\S+) +\|", shown.stdout) == ["CHANGELOG.md", "mcpdesk/version.py"]
    refused = shell(step("tag", "Commit the version and tag it"), late, VERSION="9.0.1")
    assert refused.returncode != 0 and "rejected" in refused.stderr  # main has changed
    assert shell("git tag", origin).stdout == "v9.0.0\n"


@pytest.mark.process
def test_the_workflow_compares_the_version_of_the_package(tmp_path: Path) -> None:
    program = tmp_path / "mcpdesk"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mcpdesk "$@"\n')
    program.chmod(0o755)
    found = release.ASSIGNED.search((ROOT / "mcpdesk/version.py").read_text())
    assert found is not None
    for version, code in ((found[1], 0), ("9.0.0", 1)):
        environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "VERSION": version}
        assert shell(step("build", "The package has the version"), tmp_path, **environ).returncode == code


def test_only_what_passed_all_tests_on_main_is_released_and_every_job_has_the_rights_it_needs() -> None:
    assert list(JOBS) == ["test", "build", "tag", "publish", "notes", "docs"]
    order = {name: job.get("needs") for name, job in JOBS.items()}
    assert order == {
        "test": None,
        "build": "test",
        "tag": "build",
        "publish": "tag",
        "notes": "publish",
        "docs": "notes",
    }
    assert JOBS["test"]["uses"] == "./.github/workflows/ci.yml"
    ci = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    assert "workflow_call" in ci[True]  # YAML 1.1 reads the key `on` as true
    assert JOBS["build"]["if"] == "github.ref == 'refs/heads/main'"
    assert FLOW["permissions"] == {"contents": "read"} and "permissions" not in JOBS["build"]
    assert JOBS["publish"]["permissions"] == {
        "id-token": "write", "attestations": "write", "contents": "read",
    }  # fmt: skip
    assert JOBS["publish"]["environment"] == "pypi"


def test_the_site_of_the_release_is_built_as_in_the_gate_and_published() -> None:
    assert JOBS["docs"]["uses"] == "./.github/workflows/docs.yml"
    assert JOBS["docs"]["with"] == {"ref": "v${{ inputs.version }}"}
    site = yaml.safe_load((ROOT / ".github/workflows/docs.yml").read_text())
    assert site[True]["workflow_call"]["inputs"].keys() == {"ref"}
    build, publish = site["jobs"]["build"], site["jobs"]["publish"]
    assert build["steps"][0]["with"]["ref"] == "${{ inputs.ref }}" and publish["needs"] == "build"
    [command] = [step["run"] for step in build["steps"] if "build" in step.get("run", "")]
    assert command in (ROOT / ".ci" / "run").read_text()
    rights = {**build["permissions"], **publish["permissions"]}
    assert JOBS["docs"]["permissions"].keys() == rights.keys()


def files() -> list[Path]:
    """Workflows and actions."""
    return [*(ROOT / ".github/workflows").glob("*.yml"), *(ROOT / ".github/actions").glob("*/action.yml")]


@pytest.mark.parametrize("file", files(), ids=lambda file: f"{file.parent.name}/{file.name}")
def test_actions_are_pinned_by_commit_with_their_version_beside(file: Path) -> None:
    used = re.findall(r"(?m)^ *(?:- )?uses: (.*)$", file.read_text())
    assert used
    for each in used:
        assert each.startswith("./") or re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each), each


@pytest.mark.parametrize("file", files(), ids=lambda file: f"{file.parent.name}/{file.name}")
def test_no_expression_is_written_into_a_script(file: Path) -> None:
    read = yaml.safe_load(file.read_text())
    jobs = read["jobs"].values() if "jobs" in read else [read["runs"]]
    scripts = [step["run"] for job in jobs for step in job.get("steps", ()) if "run" in step]
    assert scripts and not [each for each in scripts if "${{" in each]


def test_dependabot_knows_where_actions_packages_and_images_are() -> None:
    updates = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text())["updates"]
    places = {(each["package-ecosystem"], place) for each in updates for place in _places(each)}
    assert places == {
        ("github-actions", "/"), ("github-actions", "/.github/actions/check"), ("pip", "/"),
        ("docker", "/docs/deploy"),
    }  # fmt: skip
    for _, place in places:
        assert (ROOT / place.lstrip("/")).is_dir()


def _places(update: dict[str, Any]) -> list[str]:
    return list(update.get("directories", ())) or [update["directory"]]
