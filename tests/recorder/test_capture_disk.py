"""A disk that refuses a capture is a state that passes, and what could not be written is stated."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture import recording as capture
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index.traffic_index import with_gaps
from mcpdesk.recorder.record import Gap, HttpNote
from tests.support.patience import WITHIN_S, wait_until
from tests.support.traffic import IN, connection

LIMITED = """
import resource, sys, time
from pathlib import Path
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.record import HttpNote, Direction
recording = Recording(Path(sys.argv[1]))
recording.start()
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, -1))
for number in range(5_000):
    recording.frame(1, Direction.IN, b'{"jsonrpc":"2.0","method":"n%d"}' % number, True)
while not recording.failing:
    time.sleep(0.001)
print(recording.failing, flush=True)
sys.stdin.readline()
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
while recording.failing:
    time.sleep(0.001)
recording.frame(1, Direction.IN, b'{"jsonrpc":"2.0","method":"last"}', True)
recording.close()
print(recording.error)
"""
"""Writes until a file may not grow further, until it may again."""


def frame(number: int) -> bytes:
    return b'{"jsonrpc":"2.0","method":"n%d"}' % number


def record(recording: Recording, start: int, stop: int) -> None:
    for number in range(start, stop):
        recording.frame(1, IN, frame(number), True)


def refuse(monkeypatch: pytest.MonkeyPatch, number: int) -> Callable[[], None]:
    """Let every second write take a few bytes, and the others none; returns what lets the disk work again."""
    works = os.writev
    turns = iter(range(1_000_000))

    def writev(handle: int, pieces: list[bytes]) -> int:
        if next(turns) % 2:
            return os.write(handle, bytes(pieces[0][:7]))
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("mcpdesk.recorder.capture.capture_file.os.writev", writev)
    return lambda: monkeypatch.setattr("mcpdesk.recorder.capture.capture_file.os.writev", works)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root may mount a small disk")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.process
def test_a_full_disk_that_has_room_again_gets_every_frame(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(b"x" * 700_000)
    recording = Recording(small_disk / "a.jsonl")
    recording.start()
    recording.connect(connection(1))
    record(recording, 0, 10_000)
    wait_until(lambda: recording.failing)
    assert "No space left on device" in recording.failing and str(small_disk) in recording.failing
    record(recording, 10_000, 11_000)
    full = Archive(small_disk / "a.jsonl")
    assert 0 < full.count < 10_000 and full.unreadable <= 1
    full.close()
    (small_disk / "ballast").write_bytes(b"")
    wait_until(lambda: not recording.failing)
    recording.close()
    archive = Archive(small_disk / "a.jsonl")
    assert [archive.frame_bytes(number) for number in range(11_000)] == [
        frame(number) for number in range(11_000)
    ]
    assert (archive.unreadable, recording.error, recording.missing) == (0, "", 0)
    archive.close()


@pytest.mark.process
def test_a_file_that_may_not_grow_goes_on_where_it_stopped_once_it_may(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    path = tmp_path / "a.jsonl"
    child = subprocess.Popen([sys.executable, "-c", LIMITED, path], stdin=pipe, stdout=pipe, text=True)
    assert child.stdout is not None
    assert "File too large" in child.stdout.readline()
    assert path.stat().st_size == 100_000
    told, _ = child.communicate("\n", timeout=WITHIN_S)
    assert told == "\n"
    archive = Archive(path)
    assert (archive.count, archive.unreadable) == (5_001, 0)
    assert archive.frame_bytes(4_999) == frame(4_999)
    archive.close()


@pytest.mark.slow
@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.EDQUOT, errno.EACCES])
def test_frames_left_out_while_the_disk_refused_are_stated_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(capture, "_MAX_BACKLOG_BYTES", 1 << 20)
    monkeypatch.setattr(capture, "_TURN_BYTES", 1 << 16)
    works_again = refuse(monkeypatch, number)
    recording = Recording(tmp_path / "a.jsonl")
    recording.start()
    record(recording, 0, 20_000)
    wait_until(lambda: recording.failing)
    assert os.strerror(number) in recording.failing
    record(recording, 20_000, 20_256)
    works_again()
    wait_until(lambda: not recording.failing)
    record(recording, 20_256, 20_300)
    recording.close()
    stated = [line for line in (tmp_path / "a.jsonl").read_bytes().splitlines() if b'{"lost"' in line]
    archive = Archive(tmp_path / "a.jsonl")
    (gap,) = archive.gaps
    assert recording.missing == gap.frames == 20_300 - archive.count > 5_000
    assert gap.why == os.strerror(number)
    assert len(stated) == 1 and b'"missing":%d' % recording.missing in stated[0]
    assert os.strerror(number).encode() in stated[0] and os.strerror(number) in recording.error
    assert archive.unreadable == 0 and archive.frame_bytes(archive.count - 1) == frame(20_299)
    for index in (archive.index, recording.index):
        while index.catch_up(1):
            pass
        exported = list(with_gaps(index, range(len(index.exchanges))))
        (stated_gap,) = [one for one in exported if isinstance(one, Gap)]
        assert stated_gap.frames == index.missing_frames and index.missing_frames <= gap.frames
        assert len(exported) - 1 + index.missing_frames == 20_300
    archive.close()


def take_away(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    path.unlink()
    path.write_bytes(b"somebody else's\n" * 1_000)


def cut_short(path: Path) -> None:
    os.truncate(path, 0)


def take_away_folder(path: Path) -> None:
    path.unlink()
    path.parent.rmdir()


@pytest.mark.parametrize("harm", [take_away, replace, cut_short, take_away_folder])
def test_a_capture_that_is_taken_away_goes_on_in_a_further_part(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    path = tmp_path / "deep" / "a.jsonl"
    recording = Recording(path, ring_bytes=1)
    recording.start()
    recording.connect(connection(1, "somebody"))
    record(recording, 0, 1_000)
    wait_until(lambda: b'"n999"' in path.read_bytes())
    harm(path)
    record(recording, 1_000, 1_100)
    wait_until(lambda: recording.missing)
    record(recording, 1_100, 2_000)
    recording.close()
    assert recording.missing >= 1_000 and path.name in recording.error
    second = path.with_name("a.2.jsonl")
    assert recording.path == second
    assert b'{"lost":[0,%d],"missing":%d' % (recording.missing, recording.missing) in second.read_bytes()
    archive = Archive(second)
    assert archive.unreadable == 0
    assert archive.frame_bytes(archive.count - 1) == recording.index.frame_bytes(1_999) == frame(1_999)
    assert archive.connections[1].peer == "somebody"
    assert recording.index.frame_bytes(0) in (b"", frame(0))
    archive.close()


def test_a_folder_that_becomes_usable_is_written_to_from_then_on(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where a folder should be")
    recording = Recording(tmp_path / "taken" / "a.jsonl")
    recording.start()
    assert "not captured to disk" in recording.failing and recording.path is None
    record(recording, 0, 10)
    (tmp_path / "taken").unlink()
    wait_until(lambda: not recording.failing)
    record(recording, 10, 20)
    recording.close()
    archive = Archive(tmp_path / "taken" / "a.jsonl")
    assert archive.frame_bytes(archive.count - 1) == frame(19)
    assert recording.path == archive.path
    archive.close()


def test_a_disk_that_refuses_much_is_asked_again_without_haste(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    def refuse_all(*_: object) -> int:
        nonlocal asked
        asked += 1
        raise OSError(errno.ENOSPC, "No space left on device")

    recording = Recording(tmp_path / "a.jsonl")
    recording.start()
    monkeypatch.setattr("mcpdesk.recorder.capture.capture_file.os.writev", refuse_all)
    for number in range(30_000):
        recording.frame(1, IN, b'{"a":"%d%s"}' % (number, b"x" * 150), True)
    wait_until(lambda: asked >= 3)
    before, began = asked, time.monotonic()
    wait_until(lambda: asked >= before + 5)
    assert asked - before <= (time.monotonic() - began) / capture.BATCH_S + 10
    recording.close()
    assert recording.missing == 30_000 and "No space left on device" in recording.error


def test_what_waits_while_the_disk_refuses_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "_MAX_BACKLOG_BYTES", 1 << 20)
    monkeypatch.setattr(capture, "_TURN_BYTES", 1 << 16)
    monkeypatch.setattr(capture, "MAX_CONNECTIONS", 100)
    recording = Recording(tmp_path / "a.jsonl", ring_bytes=1 << 20)
    recording.start()
    refuse(monkeypatch, errno.ENOSPC)
    for number in range(40_000):
        recording.frame(1, IN, frame(number), True, HttpNote("POST / HTTP/1.1", ()))
        recording.connect(connection(number, closed=1.0))
    wait_until(lambda: recording.failing)
    ring = recording._store.ring
    assert sum(len(segment.entries) for segment in ring.segments.values()) < 10_000
    assert len(recording._new_connections) <= 100
    file = recording._encoder.file
    assert file is not None and file.waiting < 1 << 18
    recording.close()
