"""Each call has its folder; old ones make room, and none that is in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.jobs.call_files import CallFolders


def filled(folders: CallFolders, size: int = 1) -> Path:
    folder = folders.begin()
    (folder / "deep").mkdir()
    (folder / "deep" / "file").write_bytes(b"x" * size)
    return folder


def test_empty_folder_does_not_stay(tmp_path: Path) -> None:
    folders = CallFolders(tmp_path / "made")
    empty, full = folders.begin(), filled(folders)
    (empty / "only" / "folders").mkdir(parents=True)
    for folder in (empty, full):
        folders.end(folder)
    assert list((tmp_path / "made").iterdir()) == [full]
    assert full.stat().st_mode & 0o777 == 0o700


def test_oldest_make_room_and_those_in_use_stay(tmp_path: Path) -> None:
    folders = CallFolders(tmp_path, most=3)
    used, *others = [filled(folders) for _ in range(5)]
    for folder in others:
        folders.end(folder)
    folders.begin()
    assert used.exists()
    assert [folder.exists() for folder in others] == [False, False, True, True]


def test_room_is_made_by_size_as_well(tmp_path: Path) -> None:
    folders = CallFolders(tmp_path, most_bytes=100)
    first, second = filled(folders, 80), filled(folders, 80)
    for folder in (first, second):
        folders.end(folder)
    folders.begin()
    assert (first.exists(), second.exists()) == (False, True)


def test_what_an_earlier_run_left_counts(tmp_path: Path) -> None:
    earlier = CallFolders(tmp_path, most=3)
    left = [filled(earlier) for _ in range(3)]
    for folder in left:
        earlier.end(folder)
    CallFolders(tmp_path, most=3).begin()
    assert [folder.exists() for folder in left] == [False, True, True]


def test_a_folder_that_could_not_be_made_is_not_in_use(tmp_path: Path) -> None:
    folders = CallFolders(tmp_path / "made")
    folders.end(folders.begin())
    folders.root.rmdir()
    folders.root.write_text("in the way")
    with pytest.raises(OSError, match=r"made"):
        folders.begin()
    assert folders._sizes == {}
