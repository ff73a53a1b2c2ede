"""Paths of the program's files, and their permissions."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mcpdesk import paths
from mcpdesk.errors import DeskUserError


def test_bundled_folders_are_found_in_a_checkout(repository: Path) -> None:
    assert paths.package_themes() == repository / "themes"
    assert paths.sample_servers() == repository / "sample_servers"


def test_bundled_folders_inside_the_package_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "themes").mkdir()
    monkeypatch.setattr(paths, "BUNDLED", tmp_path)
    assert paths.package_themes() == tmp_path / "themes"


def test_state_and_configuration_follow_their_variables(tmp_path: Path) -> None:
    environ = {"MCPDESK_STATE_DIR": str(tmp_path / "s"), "MCPDESK_CONFIG_DIR": "~/c"}
    assert paths.state_folder(environ) == tmp_path / "s"
    assert paths.config_folder(environ) == Path("~/c").expanduser()


def test_state_and_configuration_have_a_custom_place_by_default() -> None:
    assert paths.state_folder({}).name == "mcpdesk"
    assert paths.config_folder({}).name == "mcpdesk"


def test_runtime_folder_is_the_sessions_own_and_private(tmp_path: Path) -> None:
    folder = paths.runtime_folder({"XDG_RUNTIME_DIR": str(tmp_path)})
    assert folder == tmp_path / "mcpdesk"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_runtime_folder_without_a_session_is_private_too() -> None:
    folder = paths.runtime_folder({"XDG_RUNTIME_DIR": "/nonexistent"})
    assert folder == Path(f"/tmp/mcpdesk-{os.getuid()}")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_private_folder_is_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    assert stat.S_IMODE(paths.private_folder(folder).stat().st_mode) == 0o700


def test_private_folder_is_not_entered_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(DeskUserError, match="not a folder of your user"):
        paths.private_folder(tmp_path / "link")


def test_folder_that_cannot_be_made_names_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DeskUserError, match="cannot be created") as caught:
        paths.private_folder(tmp_path / "file" / "state")
    assert "MCPDESK_STATE_DIR" in caught.value.hint


def test_the_folder_socket_is_the_same_however_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert paths.folder_socket(tmp_path) == paths.folder_socket(tmp_path / "link")
    assert paths.folder_socket(tmp_path) != paths.folder_socket(tmp_path.parent)
