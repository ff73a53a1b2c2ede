"""Each call has a folder; old ones are deleted for new ones, except those in use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcpdesk.jobs.call_files import CallFolders, CreatedFiles, NotOwnFile


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
    folders = CallFolders(tmp_path, max_folders=3)
    used, *others = [filled(folders) for _ in range(5)]
    for folder in others:
        folders.end(folder)
    folders.begin()
    assert used.exists()
    assert [folder.exists() for folder in others] == [False, False, True, True]


def test_room_is_made_by_size_as_well(tmp_path: Path) -> None:
    folders = CallFolders(tmp_path, max_bytes=100)
    first, second = filled(folders, 80), filled(folders, 80)
    for folder in (first, second):
        folders.end(folder)
    folders.begin()
    assert (first.exists(), second.exists()) == (False, True)


def test_what_an_earlier_run_left_counts(tmp_path: Path) -> None:
    earlier = CallFolders(tmp_path, max_folders=3)
    left = [filled(earlier) for _ in range(3)]
    for folder in left:
        earlier.end(folder)
    CallFolders(tmp_path, max_folders=3).begin()
    assert [folder.exists() for folder in left] == [False, True, True]


def make(made: CreatedFiles, path: Path, text: str, *roots: Path) -> None:
    claimed = made.claim([path], roots)
    path.write_text(text)
    made.release(claimed)


def no_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a file system without extended attributes."""

    def refuse(*args: object, **named: object) -> None:
        raise OSError

    monkeypatch.setattr(os, "setxattr", refuse, raising=False)


@pytest.mark.parametrize("keeps_marks", [True, False])
def test_own_files_are_made_anew_and_changed_ones_are_not(
    tmp_path: Path, keeps_marks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not keeps_marks:
        no_marks(monkeypatch)
    made, path = CreatedFiles(), tmp_path / "map.png"
    make(made, path, "one")
    make(made, path, "two")
    path.write_text("another's work")
    with pytest.raises(NotOwnFile, match="was not created here, or was changed since"):
        made.claim([path], ())


def test_marks_outlive_the_process_where_the_file_system_keeps_them(tmp_path: Path) -> None:
    path = tmp_path / "map.png"
    make(CreatedFiles(), path, "one")
    try:
        os.getxattr(path, "user.mcpdesk.made")
    except (OSError, AttributeError):
        with pytest.raises(NotOwnFile):
            CreatedFiles().claim([path], ())
    else:
        make(CreatedFiles(), path, "two")


@pytest.mark.parametrize("kind", ["file", "folder", "link", "loose link", "pipe", "second name"])
def test_what_is_there_is_never_written_over(tmp_path: Path, kind: str) -> None:
    path, other = tmp_path / "x", tmp_path / "other"
    other.write_text("precious")
    if kind == "file":
        path.write_text("")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "second name":
        path.hardlink_to(other)
    else:
        path.symlink_to(other if kind == "link" else tmp_path / "nothing")
    with pytest.raises(NotOwnFile):
        CreatedFiles().claim([tmp_path / "new", path], ())
    assert not (tmp_path / "new").exists()


def test_in_a_folder_of_everybody_the_folders_of_others_are_theirs(tmp_path: Path) -> None:
    root = tmp_path / "all"
    (root / "theirs").mkdir(parents=True)
    made = CreatedFiles()
    make(made, root / "theirs" / "a", "", root)
    root.chmod(0o1777)
    with pytest.raises(NotOwnFile, match="theirs"):
        made.claim([root / "theirs" / "b"], [root])
    with pytest.raises(NotOwnFile, match="theirs"):
        made.claim([root / "theirs" / "deep" / "b"], [root])
    assert not (root / "theirs" / "deep").exists()
    for name in ("a", "b"):
        make(made, root / "ours" / "deep" / name, "", root)
    make(made, root / "top", "", root)
    # Of another root its rules say nothing.
    (tmp_path / "own" / "theirs").mkdir(parents=True)
    make(made, tmp_path / "own" / "theirs" / "a", "", root, tmp_path / "own")
