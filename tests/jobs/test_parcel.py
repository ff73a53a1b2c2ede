"""What is sent of a job's files: one as it is, several in an archive that is the same each time."""

from __future__ import annotations

import io
import os
import zipfile
from functools import partial
from pathlib import Path

import pytest

from mcpdesk.errors import ArchiveTooLarge, FileGone
from mcpdesk.jobs import downloads
from mcpdesk.jobs.downloads import Parcel, Produced


def made(home: Path, *names: str) -> tuple[Produced, ...]:
    for name in names:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"this is {name}")
    return downloads.noted([home / name for name in names], [home])


def content(sent: Parcel) -> bytes:
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
    (file,) = made(tmp_path, f"sub/{name}")
    sent = downloads.single(file, [tmp_path])
    assert (sent.name, sent.media_type, sent.size) == (name, media_type, file.size)
    assert content(sent) == f"this is sub/{name}".encode()


def test_several_are_packed_the_same_way_each_time(tmp_path: Path) -> None:
    several = made(tmp_path, "a.txt", "sub/b.txt")
    first, second = (downloads.archive(several, [tmp_path], "job") for _ in range(2))
    assert (first.tag, first.size, first.name) == (second.tag, second.size, "job.zip")
    packed = content(first)
    assert packed == content(second) and len(packed) == first.size
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert archive.testzip() is None
        assert {each: archive.read(each) for each in archive.namelist()} == {
            "a.txt": b"this is a.txt",
            "sub/b.txt": b"this is sub/b.txt",
        }


def test_another_content_has_another_tag(tmp_path: Path) -> None:
    before = downloads.archive(made(tmp_path, "a", "b"), [tmp_path], "job")
    (tmp_path / "a").write_text("something else")
    after = downloads.archive(
        downloads.noted([tmp_path / "a", tmp_path / "b"], [tmp_path]), [tmp_path], "job"
    )
    assert before.tag != after.tag
    for each in (before, after):
        os.close(each.descriptor)


def test_a_file_of_a_time_archives_do_not_know_is_packed_all_the_same(tmp_path: Path) -> None:
    made(tmp_path, "old", "new")
    os.utime(tmp_path / "old", (0, 0))
    os.utime(tmp_path / "new", (7e9, 7e9))
    odd = downloads.noted([tmp_path / "old", tmp_path / "new"], [tmp_path])
    with zipfile.ZipFile(io.BytesIO(content(downloads.archive(odd, [tmp_path], "job")))) as archive:
        assert [archive.getinfo(name).date_time[0] for name in ("old", "new")] == [1980, 2107]


def test_a_file_that_is_gone_spoils_the_archive_and_leaves_nothing_open(tmp_path: Path) -> None:
    several = made(tmp_path, "a", "b")
    (tmp_path / "b").unlink()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileGone):
        downloads.archive(several, [tmp_path], "job")
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_archive_that_would_be_too_large_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "ARCHIVE_BYTES", 10)
    with pytest.raises(ArchiveTooLarge, match="2 files"):
        downloads.archive(made(tmp_path, "a", "b"), [tmp_path], "job")


def test_an_archive_for_which_the_disk_has_no_room_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = made(tmp_path, "a", "b")
    monkeypatch.setattr(downloads.tempfile, "TemporaryFile", partial(open, "/dev/full", "w+b"))
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ArchiveTooLarge, match=r"2 files .* finds no room here: No space left"):
        downloads.archive(several, [tmp_path], "job")
    assert len(os.listdir("/proc/self/fd")) == before
