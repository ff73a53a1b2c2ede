"""The wheel, installed in another folder, contains everything the program needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.features import having
from tests.support.terminal import Desk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the checkout."""
    root = Path(__file__).parents[2]
    copy = tmp_path_factory.mktemp("source")
    for name in ("mcpdesk", "themes", "sample_servers"):
        shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, copy / name)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"]
    subprocess.run(command, cwd=copy, check=True, capture_output=True, timeout=120)
    (built,) = (copy / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's contents, outside the checkout."""
    place = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    return place


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the installed program, from its own folder."""
    environ = {**os.environ, "PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        [sys.executable, "-m", "mcpdesk", *arguments],
        cwd=installed, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip


def test_wheel_carries_code_styles_types_themes_and_samples(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    root = Path(__file__).parents[2]
    for folder in ("themes", "sample_servers"):
        for path in (root / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert f"mcpdesk/_bundled/{path.relative_to(root).as_posix()}" in names
    pages = having("dashboard", "mcpdesk/features/dashboard/page/index.html")
    assert {"mcpdesk/py.typed", "mcpdesk/tui/app.tcss", *pages} <= names
    assert not [name for name in names if name.startswith(("tests/", "themes/", "sample_servers/"))]


def test_package_index_shows_links_that_lead_somewhere(wheel: Path) -> None:
    """No file lies beside the readme there."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        text = archive.read(name).decode()
    assert "Description-Content-Type: text/markdown" in text
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 8 and [each for each in links if not each.startswith("https://")] == []


def test_installed_program_finds_its_samples(installed: Path) -> None:
    places = run(installed, "settings").stdout
    assert str(installed / "mcpdesk" / "_bundled" / "themes") in places
    samples = installed / "mcpdesk" / "_bundled" / "sample_servers"
    finished = run(installed, "call", str(samples / "hello"), "greet", "name=Ada")
    assert finished.stdout == "Hello, Ada!\n", finished.stderr


def test_installed_desk_opens_on_the_sample_in_its_own_themes(installed: Path) -> None:
    environ = {"PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
    with Desk(
        ["--port", "0", "--theme", "contrast"], columns=120, rows=40, environ=environ, cwd=installed
    ) as desk:
        shown = desk.see("Built-in tools")
        assert "does not exist" not in shown
        desk.press("\x11")
        assert desk.end() == 0
