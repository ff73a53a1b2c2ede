"""Captures have a limit on disk: the oldest parts are removed, and their number is stated."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpdesk import private_files
from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture import recording as capture
from mcpdesk.recorder.capture.capture_parts import existing_part, part_path, stored_captures
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.capture.retention import RemovedFile, Retention, remove_old
from mcpdesk.recorder.index.traffic_index import gaps_in_words
from tests.support.patience import wait_until
from tests.support.traffic import IN, OUT, call, connection, size_on_disk, text

KEEP = 1 << 20
PADDING = "x" * 400


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[tuple[Recording, list[RemovedFile]]]:
    """A recording that keeps a megabyte on disk and in memory, and the reported removals."""
    removed: list[RemovedFile] = []
    recording = Recording(tmp_path / "captures" / "a.jsonl", 1 << 20, retention=Retention(KEEP))
    recording.on_removed = removed.append
    recording.connect(connection(1))
    recording.start()
    yield recording, removed
    recording.close()


def record(recording: Recording, start: int, stop: int) -> None:
    for number in range(start, stop):
        recording.frame(1, IN, call(number, f"tool {number}"), True)
        recording.frame(1, OUT, text(number, PADDING), True)


def old_capture(path: Path, age_s: float, size: int = 0) -> Path:
    """A capture that was written to some time ago."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b'{"capture":3,"part":1,"first":0,"started":1.0}\n' + b"\n" * size)
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def written(recording: Recording) -> None:
    """Wait until all frames are on disk."""
    wait_until(lambda: recording._on_disk == recording.frames)


def record_written(recording: Recording, calls: int) -> None:
    """Record calls no faster than the disk takes them."""
    for start in range(0, calls, 250):
        record(recording, start, start + 250)
        written(recording)


@pytest.mark.slow
def test_a_capture_that_is_written_stays_within_its_size(
    limited: tuple[Recording, list[RemovedFile]],
) -> None:
    recording, removed = limited
    assert recording.path is not None
    folder, most = recording.path.parent, 0
    for start in range(0, 6_000, 250):
        record(recording, start, start + 250)
        written(recording)
        wait_until(lambda: size_on_disk(folder) <= KEEP)
        most = max(most, size_on_disk(folder))
    assert most > KEEP // 2 and len(removed) > 10
    assert (
        str(removed[0]).endswith(": captures exceed capture_keep_bytes") and removed[0].path.name == "a.jsonl"
    )
    assert (recording.removed_files, recording.removed_bytes) == (len(removed), sum(r.size for r in removed))


@pytest.mark.slow
def test_frames_of_removed_parts_are_counted_and_the_others_are_read_back(
    limited: tuple[Recording, list[RemovedFile]],
) -> None:
    recording, removed = limited
    record_written(recording, 6_000)
    store, index = recording._store, recording.index
    recording.close()
    assert removed
    while index.catch_up():
        pass
    gone = store.first
    assert 0 < gone == index.missing_frames == store.removed == index.first_frame < recording.frames
    assert store.ring.oldest > gone  # some are on disk only
    assert store.frame(gone - 1) is None and store.frames(gone - 4, gone) == [None] * 4
    for number in (gone, gone + 1, store.ring.oldest - 1):
        frame = store.frame(number)
        assert frame is not None and frame.number == number
    newest = index.exchange(len(index.exchanges) - 1)
    assert (newest.name, newest.status) == ("tool 5999", "ok")


@pytest.mark.slow
def test_a_capture_without_its_first_parts_opens_and_says_how_many_frames_were_removed(
    limited: tuple[Recording, list[RemovedFile]],
) -> None:
    recording, removed = limited
    record_written(recording, 4_000)
    wait_until(lambda: removed)
    path = recording.path
    assert path is not None and not path.exists()
    following = Archive(path)
    assert following.is_live and following.path != path
    recording.close()
    for opened in (following, Archive(path)):
        opened.read_new_data()
        (gap,) = opened.gaps
        first = gap.frames
        assert gap.before == 0 < first <= recording._store.removed
        assert opened.count == recording.frames - first
        while opened.index.catch_up():
            pass
        assert f"{first:,} frames are missing in the capture: earlier parts were removed" in gaps_in_words(
            opened.index
        )
        last = opened.index.exchange(len(opened.index.exchanges) - 1)
        assert (last.name, last.status) == ("tool 3999", "ok")
        opened.close()
    (stored,) = stored_captures(path.parent)
    assert stored.path == existing_part(path) and [file.number for file in stored.files] == list(
        range(stored.files[0].number, stored.files[-1].number + 1)
    )


def test_parts_that_are_removed_while_a_screen_reads_them_are_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    recording = Recording(path, 1 << 20, max_file_bytes=100_000)
    recording.connect(connection(1))
    recording.start()
    record(recording, 0, 50)
    written(recording)
    opened = Archive(path)
    record_written(recording, 1_000)
    recording.close()
    second = part_path(path, 2)
    first_of_third = Archive(part_path(path, 3)).gaps[0].frames
    second.unlink()
    seen = opened.count
    opened.read_new_data()
    (gap,) = opened.gaps
    assert gap.before >= seen > 0 and gap.before + gap.frames == first_of_third
    assert gap.why == "earlier parts were removed" and opened.count == 2_100 - gap.frames


def test_old_captures_are_removed_at_the_start_the_oldest_first(tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    oldest = old_capture(folder / "oldest.jsonl", 3_000, KEEP // 2)
    older = old_capture(folder / "older.jsonl", 2_000, KEEP // 2)
    newer = old_capture(folder / "newer.jsonl", 1_000, KEEP // 4)
    removed: list[RemovedFile] = []
    recording = Recording(folder / "a.jsonl", retention=Retention(KEEP))
    recording.on_removed = removed.append
    recording.start()
    wait_until(lambda: not oldest.exists())
    recording.close()
    assert [each.path for each in removed] == [oldest] and older.exists() and newer.exists()


def test_captures_not_written_to_for_long_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    old, new = old_capture(folder / "old.jsonl", 3_000), old_capture(folder / "new.jsonl", 500)
    removed: list[RemovedFile] = []
    recording = Recording(folder / "a.jsonl", retention=Retention(max_age_s=1_000))
    recording.on_removed = removed.append
    recording.start()
    wait_until(lambda: removed)
    recording.close()
    assert [str(each) for each in removed] == [
        f"removed the capture file {old} (47 B): it is older than capture_keep_age"
    ]
    assert new.exists() and not old.exists()


def test_a_capture_that_a_living_process_writes_is_never_removed(tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    first = old_capture(folder / "live.jsonl", 9_000, KEEP)
    second = folder / "live.2.jsonl"
    second.write_bytes(b'{"capture":3,"part":2,"first":10,"started":1.0}\n')
    other = old_capture(folder / "other.jsonl", 8_000)
    with second.open("rb") as held:
        private_files.hold(held.fileno())
        found = remove_old(folder, Retention(1_000, 1_000), None, 0, Path.unlink)
        assert [each.path for each in found] == [other]
    assert first.exists() and second.exists()
    found = remove_old(folder, Retention(1_000, 1_000), None, 0, Path.unlink)
    assert [each.path for each in found] == [first]


def test_a_name_with_a_number_in_it_is_no_further_part(tmp_path: Path) -> None:
    one = old_capture(tmp_path / "server-v1.2.jsonl", 10)
    other = old_capture(tmp_path / "server-v1.jsonl", 20)
    assert [stored.path for stored in stored_captures(tmp_path)] == [one, other]


@pytest.mark.slow
def test_memory_for_positions_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "_MAX_READABLE_FRAMES", 2_000)
    recording = Recording(tmp_path / "a.jsonl", 1 << 20)
    recording.connect(connection(1))
    recording.start()
    record_written(recording, 4_000)
    recording.close()
    places = recording._store.positions
    assert places is not None
    assert 2_000 <= len(places) - places.first <= 2_500 + 256
    assert len(places._frames.values) == len(places) - places.first >= len(places._notes.values)
    index = recording.index
    while index.catch_up():
        pass
    assert index.missing_frames == recording._store.first == places.first and recording._store.removed == 0
    assert recording._store.frame(places.first) is not None
    assert Archive(tmp_path / "a.jsonl").count == 8_000  # the file has all
