"""Files of a job: served only while they are unchanged results of the job, and only from its folders."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
from functools import partial
from pathlib import Path

import pytest

from mcpdesk.errors import ArchiveTooLarge, FileUnavailable
from mcpdesk.jobs import downloads
from mcpdesk.jobs.downloads import Download, ProducedFile


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder for downloadable files; its neighbours must not be readable."""
    folder = tmp_path / "home"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    return folder


def made(home: Path, name: str = "out.txt", text: str = "hello") -> ProducedFile:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    (file,) = downloads.record_files([path], [home])
    return file


def test_a_file_is_noted_with_name_size_and_digest(home: Path) -> None:
    file = made(home, "plots/heat map.png")
    assert (file.name, file.size) == ("plots/heat map.png", 5)
    assert downloads.digest(file, [home]) == hashlib.sha256(b"hello").hexdigest()


@pytest.mark.parametrize("leads", ["../secret.txt", "sub/../../secret.txt", "/etc/hostname", "\0", "nothing"])
def test_what_lies_outside_or_is_not_there_is_left_out(home: Path, leads: str) -> None:
    assert downloads.record_files([home / leads], [home]) == ()


def test_links_lead_nowhere_but_inside(home: Path) -> None:
    (home / "real.txt").write_text("x")
    (home / "in").symlink_to(home / "real.txt")
    (home / "out").symlink_to(home.parent / "secret.txt")
    (home / "up").symlink_to(home.parent)
    found = downloads.record_files([home / "in", home / "out", home / "up" / "secret.txt"], [home])
    assert [file.name for file in found] == ["real.txt"]


def test_what_was_there_before_was_not_made(home: Path) -> None:
    path = made(home).path
    now = path.stat().st_ctime
    assert downloads.record_files([path], [home], now - 1) != ()
    assert downloads.record_files([path], [home], now + downloads.MAX_CLOCK_DIFFERENCE_S + 0.1) == ()
    # A time of change can be set to anything; when that was done cannot.
    os.utime(path, (now + 1e6, now + 1e6))
    assert downloads.record_files([path], [home], now + downloads.MAX_CLOCK_DIFFERENCE_S + 60) == ()


def test_folders_and_devices_are_no_files(home: Path) -> None:
    (home / "folder").mkdir()
    os.mkfifo(home / "pipe")
    assert (
        downloads.record_files([home / "folder", home / "pipe", Path("/dev/zero")], [home, Path("/dev")])
        == ()
    )


def test_two_files_of_one_name_are_told_apart(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    paths = [made(other, f"{folder}/a.txt").path for folder in ("x", "y", "z")]
    found = downloads.record_files([*paths, paths[0]], [home, other])
    assert [file.name for file in found] == ["a.txt", "a-2.txt", "a-3.txt"]


@pytest.mark.parametrize("change", ["rewritten", "replaced", "removed", "linked", "grown"])
def test_a_file_that_is_another_one_now_is_not_given_out(home: Path, change: str) -> None:
    file = made(home)
    match change:
        case "rewritten":
            file.path.write_text("HELLO")
            os.utime(file.path, ns=(1, 1))
        case "replaced":
            stamp = file.path.stat()
            (home / "new").write_text("HELLO")
            os.utime(home / "new", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
            (home / "new").replace(file.path)
        case "removed":
            file.path.unlink()
        case "linked":
            file.path.unlink()
            file.path.symlink_to(home.parent / "secret.txt")
        case "grown":
            with file.path.open("a") as more:
                more.write("!")
    for use in (downloads.open_unchanged, downloads.digest):
        with pytest.raises(FileUnavailable):
            use(file, [home])


def test_a_folder_swapped_for_a_link_gives_nothing_away(home: Path) -> None:
    file = made(home, "sub/secret.txt", "secret")
    (home / "sub").rename(home / "before")
    (home / "sub").symlink_to(home.parent)
    with pytest.raises(FileUnavailable):
        downloads.open_unchanged(file, [home])


def several_files(home: Path, *names: str) -> tuple[ProducedFile, ...]:
    for name in names:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"this is {name}")
    return downloads.record_files([home / name for name in names], [home])


def content(sent: Download) -> bytes:
    with os.fdopen(sent.descriptor, "rb") as source:
        source.seek(0)
        return source.read()


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("a.png", "image/png"),
        ("a.json", "application/json"),
        ("a.csv.gz", "application/octet-stream"),
        ("a", "application/octet-stream"),
    ],
)
def test_one_file_is_sent_as_it_is(tmp_path: Path, name: str, media_type: str) -> None:
    (file,) = several_files(tmp_path, f"sub/{name}")
    sent = downloads.single_download(file, [tmp_path])
    assert (sent.name, sent.media_type, sent.size) == (name, media_type, file.size)
    assert content(sent) == f"this is sub/{name}".encode()


def test_several_are_packed_the_same_way_each_time(tmp_path: Path) -> None:
    several = several_files(tmp_path, "a.txt", "sub/b.txt")
    first, second = (downloads.archive_download(several, [tmp_path], "job") for _ in range(2))
    assert (first.tag, first.size, first.name) == (second.tag, second.size, "job.zip")
    packed = content(first)
    assert packed == content(second) and len(packed) == first.size
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert archive.testzip() is None
        assert {each: archive.read(each) for each in archive.namelist()} == {
            "a.txt": b"this is a.txt",
            "sub/b.txt": b"this is sub/b.txt",
        }


def test_a_file_of_a_time_archives_do_not_know_is_packed_all_the_same(tmp_path: Path) -> None:
    several_files(tmp_path, "old", "new")
    os.utime(tmp_path / "old", (0, 0))
    os.utime(tmp_path / "new", (7e9, 7e9))
    odd = downloads.record_files([tmp_path / "old", tmp_path / "new"], [tmp_path])
    with zipfile.ZipFile(io.BytesIO(content(downloads.archive_download(odd, [tmp_path], "job")))) as archive:
        assert [archive.getinfo(name).date_time[0] for name in ("old", "new")] == [1980, 2107]


def test_a_file_that_is_gone_spoils_the_archive_and_leaves_nothing_open(tmp_path: Path) -> None:
    several = several_files(tmp_path, "a", "b")
    (tmp_path / "b").unlink()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileUnavailable):
        downloads.archive_download(several, [tmp_path], "job")
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_archive_that_would_be_too_large_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "MAX_ARCHIVE_BYTES", 10)
    with pytest.raises(ArchiveTooLarge, match="2 files"):
        downloads.archive_download(several_files(tmp_path, "a", "b"), [tmp_path], "job")


def test_an_archive_for_which_the_disk_has_no_room_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = several_files(tmp_path, "a", "b")
    monkeypatch.setattr(tempfile, "TemporaryFile", partial(open, "/dev/full", "w+b"))
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ArchiveTooLarge, match=r"2 files .* does not fit on this disk: No space left"):
        downloads.archive_download(several, [tmp_path], "job")
    assert len(os.listdir("/proc/self/fd")) == before
