"""The table of features is true, and a feature can be switched off or deleted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from mcpdesk import features
from mcpdesk.errors import DeskUserError
from mcpdesk.feature import Feature
from mcpdesk.feature_table import FEATURES
from mcpdesk.features import VARIABLE, features_with
from mcpdesk.settings import resolve

ROOT = Path(__file__).parents[2]
OWNERS = {"check": "contract", "test": "cases"}
"""Command of a feature -> its feature."""
IMPORT_ALL = """
import importlib, pkgutil, mcpdesk
for module in pkgutil.walk_packages(mcpdesk.__path__, "mcpdesk."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def test_table_lists_every_folder_and_what_it_offers() -> None:
    folders = {path.parent.name for path in Path(features.__file__).parent.glob("*/__init__.py")}
    assert folders == set(FEATURES)
    for name, members in FEATURES.items():
        feature = import_module(f"mcpdesk.features.{name}").FEATURE
        assert members == {each for each in vars(type(feature)) if each in vars(Feature) and each[0] != "_"}


def test_each_feature_has_tests_of_its_own() -> None:
    assert {name for name in FEATURES if not list((Path(__file__).parent / name).glob("test_*.py"))} == set()


def test_disabled_feature_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert any("pack" in feature.commands for feature in features_with("commands"))
    monkeypatch.setenv(VARIABLE, "openapi, packaging")
    assert not any("pack" in feature.commands for feature in features_with("commands"))
    assert not list(features_with("folder_sources"))
    assert list(features_with("host_parts"))


def test_disabled_features_may_be_separated_by_spaces_as_in_any_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "openapi packaging")
    assert resolve({}, dict(os.environ)).settings.disabled_features == ("openapi", "packaging")
    assert not any("pack" in feature.commands for feature in features_with("commands"))
    assert not list(features_with("folder_sources"))


def test_unknown_feature_is_named() -> None:
    with pytest.raises(DeskUserError, match=r"opnapi.*is not allowed") as caught:
        resolve({}, {VARIABLE: "opnapi"})
    assert all(name in str(caught.value.hint) for name in FEATURES)


def _run(copy: Path, *argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "MCPDESK_STATE_DIR": str(copy / "state"),
        **variables,
    }
    return subprocess.run(
        [sys.executable, *argv],
        cwd=copy,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_disabled_feature_takes_its_command_from_the_help() -> None:
    shown = _run(ROOT, "-m", "mcpdesk", "--help", **{VARIABLE: "packaging"})
    assert shown.returncode == 0 and "\n  pack " not in shown.stdout and "\n  schemas " in shown.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", FEATURES)
def test_without_its_folder_the_rest_works(name: str, tmp_path: Path) -> None:
    copy, hello = tmp_path / "copy", "sample_servers/hello"
    for part in ("mcpdesk", "sample_servers", "themes"):
        shutil.copytree(ROOT / part, copy / part)  # with compiled modules, which six programs need
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / file, copy)
    shutil.rmtree(copy / "mcpdesk" / "features" / name)
    for argv, text in (
        (("-c", IMPORT_ALL), ""),
        (("-m", "mcpdesk", "--help"), "mcpdesk"),
        (("-m", "mcpdesk", "new", "--help"), "--with"),
        (("-m", "mcpdesk", "list", hello), "greet"),
        (("-m", "mcpdesk", "call", hello, "greet", "name=Ada"), "Ada"),
        *((("-m", "mcpdesk", command, hello), "") for command in OWNERS if name != OWNERS[command]),
    ):
        done = _run(copy, *argv)
        assert done.returncode == 0 and text in done.stdout, (argv, done.stdout, done.stderr)
