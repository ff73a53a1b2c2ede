"""A recording keeps every frame on disk and the newest in memory, whatever fails."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from functools import partial
from pathlib import Path

import psutil
import pytest

from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture import encoder
from mcpdesk.recorder.capture import recording as capture
from mcpdesk.recorder.capture.capture_file import CaptureFile, QueuedData
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.record import MAX_KEPT_BYTES, HttpNote
from tests.support.patience import WITHIN_S, wait_until
from tests.support.traffic import IN, OUT, call, connection, settle

KILLED = """
import sys, time
from pathlib import Path
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.record import ConnectionInfo, Direction
recording = Recording(Path(sys.argv[1]))
recording.start()
recording.connect(ConnectionInfo(1, "s", "stdio", "peer", "", 1.0))
for number in range(1_000_000):
    recording.frame(1, Direction.IN, b'{"jsonrpc":"2.0","method":"n%d"}' % number)
    if number % 50 == 49:
        print(number, flush=True)
        time.sleep(0.001)
"""


def is_encoded(recording: Recording, frames: int) -> bool:
    return recording._encoder.frames == frames


@pytest.mark.process
def test_frames_survive_the_kill_of_the_process(tmp_path: Path) -> None:
    path = tmp_path / "killed.jsonl"
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    due, end = 0, time.monotonic() + WITHIN_S
    for line in child.stdout:  # the program keeps writing, so no end of it causes the write
        due = due or int(line) * (int(line) > 1000)
        if due and (b'"n%d"' % due in path.read_bytes() or time.monotonic() > end):
            break
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=WITHIN_S)
    archive = Archive(path)
    assert archive.count > due
    assert archive.unreadable <= 1
    assert archive.frame_bytes(due) == b'{"jsonrpc":"2.0","method":"n%d"}' % due
    archive.close()


def test_evicted_frames_are_read_back_from_the_file(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "a.jsonl", ring_bytes=200_000, max_file_bytes=100_000)
    recording.start()
    frames = [b'{"jsonrpc":"2.0","method":"m%d","params":{"x":"%b"}}' % (n, b"y" * 100) for n in range(3000)]
    for data in frames:
        note = HttpNote(f"POST /{recording.frames} HTTP/1.1", (("Host", "h"),))
        recording.frame(1, IN, data, note=note)
    recording.close()
    index = recording.index
    assert [index.frame_bytes(number) for number in range(3000)] == frames
    oldest, newest = index.note(0), index.note(2999)
    assert oldest is not None and oldest.line == "POST /0 HTTP/1.1"
    assert newest is not None and newest.line == "POST /2999 HTTP/1.1"
    first = index.frame(0)
    assert first is not None and (first.data, first.number) == (frames[0], 0)
    settle(recording)
    assert index.missing_frames == 0 and len(index.exchanges) == 3000
    assert len(list(tmp_path.iterdir())) > 3
    assert (recording.frames, recording.encoded_bytes) == (3000, sum(map(len, frames)))


def test_frames_of_every_kind_side_by_side_come_back_as_they_were(tmp_path: Path) -> None:
    kinds = [
        b'{"a":1}',
        b'{"a":\r\n1}',
        b" 1",
        b"",
        b"\xff",
        b"nonsense",
        b'"' + b"x" * 70_000 + b'"',
        b"[1",
        b"2]",
    ]
    frames = [
        kinds[number % len(kinds)] if number // 200 % 2 else b'{"n":%d}' % number for number in range(1200)
    ]
    recording = Recording(tmp_path / "a.jsonl", ring_bytes=1)
    recording.start()
    for data in frames:
        recording.frame(1, IN, data)
    recording.close()
    assert recording.index.frame(0) is not None
    assert [recording.index.frame_bytes(number) for number in range(1200)] == frames
    archive = Archive(tmp_path / "a.jsonl")
    assert [archive.frame_bytes(number) for number in range(1200)] == frames
    assert archive.unreadable == 0
    archive.close()


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 900])
def test_frames_recorded_together_are_recorded_as_one_by_one(tmp_path: Path, size: int) -> None:
    kinds = [b'{"a":1}', b"nonsense", b'{"b":\n2}', b"\xff", b'"' + b"x" * MAX_KEPT_BYTES + b'"']
    frames = [
        kinds[number % len(kinds)] if 300 < number < 600 else b'{"n":%d}' % number for number in range(1000)
    ]
    one_by_one, together = Recording(tmp_path / "a.jsonl", 1), Recording(tmp_path / "b.jsonl", 1)
    for recording in (one_by_one, together):
        recording.start()
    for data in frames:
        one_by_one.frame(1, IN, data, data in (kinds[0], kinds[4]))
    for start in range(0, len(frames), size):
        part = frames[start : start + size]
        doubtful = [place for place, data in enumerate(part) if data not in (kinds[0], kinds[4])]
        assert together.frame_batch(1, IN, part, doubtful) == start
    for recording in (one_by_one, together):
        recording.close()
        settle(recording)
        assert [recording.index.frame_bytes(number) for number in range(1000)] == frames
    assert together.encoded_bytes == one_by_one.encoded_bytes
    first, second = Archive(tmp_path / "a.jsonl"), Archive(tmp_path / "b.jsonl")
    assert [first.frame_bytes(number) for number in range(1000)] == frames
    assert [second.frame_bytes(number) for number in range(1000)] == frames
    assert {getattr(second.frame(number), "time", None) for number in range(min(size, 100))} != {None}
    first.close()
    second.close()


def test_frames_recorded_together_are_written_and_kept_as_one_value(tmp_path: Path) -> None:
    frames = [b'{"jsonrpc":"2.0","method":"m%d"}' % number for number in range(300)]
    recording = Recording(tmp_path / "a.jsonl")
    recording.start()
    recording.frame(1, IN, b"{}", True)
    recording.frame_batch(1, OUT, frames)
    recording.frame(2, IN, b"[]", True)
    recording.close()
    assert recording.index.data(0, 302) == [b"{}", *frames, b"[]"]
    lines = (tmp_path / "a.jsonl").read_bytes().splitlines()
    assert sum(line.startswith(b'{"n":') for line in lines) == 2 + 2
    assert all(frame in lines for frame in frames)
    archive = Archive(tmp_path / "a.jsonl")
    for number in (301, 130, 0, 255, 300, 256):
        found, kept = archive.frame(number), recording.index.frame(number)
        assert found is not None and kept is not None
        assert (found.data, found.number, found.direction) == (kept.data, kept.number, kept.direction)
        assert abs(found.time - kept.time) < 1e-5
    archive.close()


def test_a_large_frame_waits_whole_as_long_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "_MAX_PENDING_BYTES", 500_000)
    recording = Recording(tmp_path / "a.jsonl")
    large = call(1, "echo", {"text": "x" * 300_000}) + b" needle"
    for _ in range(2):
        recording.frame(1, IN, large)
    assert recording.index.frame_bytes(0) == recording.index.data(0, 1)[0] == large
    recording.start()
    recording.close()
    kept = recording.index.frame(0)
    assert kept is not None and (len(kept.data), kept.size) == (MAX_KEPT_BYTES, len(large))
    assert [len(recording.index.frame_bytes(number)) for number in (0, 1)] == [len(large), MAX_KEPT_BYTES]


def large_call(size: int = 300_000) -> list[bytes]:
    """A call and its answer, with what pairs them behind the large part."""
    result = b'{"result":{"content":[{"type":"text","text":"%b"}],"isError":true},"jsonrpc":"2.0","id":1}'
    return [call(1, "echo", {"text": "x" * size}), result % (b"\xe2\x82\xac" * (size // 3))]


@pytest.mark.parametrize(
    ("body_bytes", "kept"), [(1, MAX_KEPT_BYTES), (100_001, 100_001), (1 << 20, 300_000), (0, 300_000)]
)
def test_as_much_of_a_clients_message_is_written_as_is_asked_for(
    tmp_path: Path, body_bytes: int, kept: int
) -> None:
    recording = Recording(tmp_path / "a.jsonl", body_bytes=body_bytes)
    recording.connect(connection(1, transport="http"))
    recording.start()
    for direction, frame in zip((IN, OUT), large_call(), strict=True):
        recording.frame(1, direction, frame, True)
    recording.close()
    settle(recording)
    archive = Archive(tmp_path / "a.jsonl")
    archive.index.catch_up(5)
    for index in (recording.index, archive.index):
        (exchange,) = index.exchanges
        assert (exchange.name, exchange.status, exchange.size > 600_000) == ("echo", "tool-error", True)
        for number in (0, 1):
            whole = index.frame_bytes(number)
            assert kept - 3 < len(whole) < kept + 200
            whole.decode()
    archive.close()


def test_what_the_desk_calls_for_and_batches_are_written_whole(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "a.jsonl", body_bytes=1)
    recording.connect(connection(1, transport="memory"))
    recording.connect(connection(2, transport="http"))
    recording.start()
    asked, answered = large_call()
    batch = b"[%b,%b]" % (asked, call(2, "other"))
    for number, direction, frame in ((1, IN, asked), (1, OUT, answered), (2, IN, batch), (2, IN, asked)):
        recording.frame(number, direction, frame, True)
    recording.close()
    settle(recording)
    assert [recording.index.frame_bytes(number) for number in range(3)] == [asked, answered, batch]
    assert len(recording.index.frame_bytes(3)) == MAX_KEPT_BYTES
    assert [exchange.name for exchange in recording.index.exchanges] == ["echo", "echo", "other", "echo"]


def test_without_a_file_a_large_frame_is_still_paired() -> None:
    recording = Recording(None)
    recording.frame(1, IN, call(1, "echo", {"text": "x" * 300_000}))
    recording.frame(
        1, OUT, b'{"result":{"content":[{"text":"%b"}]},"jsonrpc":"2.0","id":1}' % (b"x" * 300_000)
    )
    recording.start()
    recording.close()
    settle(recording)
    (exchange,) = recording.index.exchanges
    assert (exchange.name, exchange.status, exchange.size > 600_000) == ("echo", "ok", True)
    assert len(recording.index.frame_bytes(0)) == MAX_KEPT_BYTES


def test_a_folder_that_cannot_be_written_leaves_a_recording_in_memory(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where a folder should be")
    recording = Recording(tmp_path / "taken" / "a.jsonl")
    recording.start()
    recording.frame(1, IN, b"{}")
    recording.close()
    assert recording.path is None
    assert "not captured to disk" in recording.error and str(tmp_path) in recording.error
    assert recording.index.frame(0) is not None


def test_nobody_writing_does_not_fill_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "_MAX_BACKLOG_BYTES", 1 << 20)
    recording = Recording(None)
    for _ in range(20_000):
        recording.frame(1, IN, b"x" * 500)
    assert recording.index.frame(0) is None
    assert recording.index.frame(19_999) is not None
    settle(recording)
    assert recording.index.missing_frames > 10_000


def test_numbers_have_no_gaps_when_threads_record_at_once(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "a.jsonl")
    recording.start()
    numbers: list[list[int]] = [[] for _ in range(4)]

    def record(at: int) -> None:
        numbers[at] = [recording.frame(at, IN, b"%d" % at) for _ in range(2000)]

    threads = [threading.Thread(target=record, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN_S)
    recording.close()
    assert sorted(number for own in numbers for number in own) == list(range(8000))
    for at, own in enumerate(numbers):
        assert all(recording.index.frame_bytes(number) == b"%d" % at for number in own[::100])


@pytest.mark.slow
def test_what_a_full_recording_holds_stays_within_its_budget(tmp_path: Path) -> None:
    budget = 32 << 20
    recording = Recording(tmp_path / "a.jsonl", budget)
    recording.start()
    tracemalloc.start()  # what the process holds says more of the allocator
    asked = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo"}}'
    answered = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"x":"' + b"x" * 400 + b'"}}'
    for start in range(0, 75_000, 2_500):
        for number in range(start, start + 2_500):
            recording.frame(1, IN, asked % number)
            recording.frame(1, OUT, answered % number)
        recording._next_turn.set()
        wait_until(partial(is_encoded, recording, 2 * (start + 2_500)))
    recording.close()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert recording.index.frame(0) is not None and not recording._store.ring.segment(0)
    assert 0.8 * budget < held < 1.1 * budget
    settle(recording)
    assert len(recording.index.exchanges) == 75_000


def test_connections_are_bounded_and_the_closed_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "MAX_CONNECTIONS", 3)
    recording = Recording(None)
    for number in range(5):
        recording.connect(connection(number, closed=1.0 if number in (1, 2) else None))
    assert sorted(recording.index.connections) == [0, 3, 4]


def test_header_bytes_that_are_no_utf8_do_not_stop_the_capture(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "a.jsonl")
    recording.start()
    recording.connect(connection(1, "bad\udcff agent"))
    number = recording.frame(1, IN, b"{}", note=HttpNote("POST / HTTP/1.1", (("X", "\udcfe"),)))
    recording.close()
    archive = Archive(tmp_path / "a.jsonl")
    note = archive.note(number)
    assert note is not None and note.headers == (("X", "\N{REPLACEMENT CHARACTER}"),)
    assert archive.connections[1].peer == "bad\N{REPLACEMENT CHARACTER} agent"
    archive.close()


@pytest.fixture
def _nobody_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk accepts nothing before the recording is closed."""
    monkeypatch.setattr(Recording, "_run", lambda self: None)


@pytest.mark.usefixtures("_nobody_writes")
def test_recording_touches_no_disk(tmp_path: Path) -> None:
    path, frames = tmp_path / "a.jsonl", [b'{"n":%d}' % number for number in range(1_000)]
    recording = Recording(path)
    recording.start()
    for data in frames:
        recording.frame(1, IN, data, is_json=True)
    assert path.stat().st_size == 0
    recording.close()
    archive = Archive(path)
    assert [archive.frame_bytes(number) for number in range(1_000)] == frames
    archive.close()


@pytest.mark.usefixtures("_nobody_writes")
def test_what_the_disk_has_not_taken_stays_in_memory(tmp_path: Path) -> None:
    frames = [b'{"n":%d}' % number for number in range(3_000)]
    recording = Recording(tmp_path / "a.jsonl", ring_bytes=1)
    recording.start()
    for data in frames:
        recording.frame(1, IN, data, is_json=True)
    assert [recording.index.frame_bytes(number) for number in range(3_000)] == frames
    recording.close()
    assert recording._store.ring.segment(0) is None
    assert [recording.index.frame_bytes(number) for number in range(3_000)] == frames


def left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recording:
    """A recording with little room for frames that are not encoded yet."""
    monkeypatch.setattr(capture, "_MAX_BACKLOG_BYTES", 1 << 20)
    recording = Recording(tmp_path / "a.jsonl")
    recording.start()
    return recording


@pytest.mark.usefixtures("_nobody_writes")
def test_a_disk_that_takes_nothing_costs_frames_in_the_file_not_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = left_alone(tmp_path, monkeypatch)
    frames = [b'{"n":%d,"x":"%b"}' % (number, b"x" * 400) for number in range(20_000)]
    for data in frames:
        recording.frame(1, IN, data, is_json=True)
    held = sum(len(segment.entries) for segment in recording._store.ring.segments.values())
    assert held < 3_000 and len(recording._backlog) <= len(recording._store.ring.segments)
    recording.close()
    assert not recording._backlog
    assert "were not written" in recording.error
    archive = Archive(tmp_path / "a.jsonl")
    (gap,) = archive.gaps
    assert archive.count + gap.frames == 20_000 and gap.frames > 10_000
    there = [*frames[: gap.before], *frames[gap.before + gap.frames :]]
    assert [archive.frame_bytes(number) for number in range(archive.count)] == there
    archive.close()


def test_many_bytes_are_written_without_delay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "BATCH_S", 3600)
    path = tmp_path / "a.jsonl"
    recording = Recording(path)
    recording.start()
    for number in range(1_000):
        recording.frame(1, IN, b'{"n":%d,"x":"%b"}' % (number, b"x" * 6_000), is_json=True)
    wait_until(lambda: path.stat().st_size > 4 << 20)
    recording.close()


@pytest.mark.parametrize("ring_bytes", [64 << 20, 1])
def test_a_part_that_cannot_be_begun_leaves_a_recording_in_memory(tmp_path: Path, ring_bytes: int) -> None:
    foreign = b'{"n":%d,"t":1.0,"c":1,"d":"in","json":{"not":"ours"}}\n'
    (tmp_path / "a.2.jsonl").write_bytes(b"".join([foreign % number for number in range(2_000)]))
    descriptors = psutil.Process().num_fds()
    recording = Recording(tmp_path / "a.jsonl", ring_bytes, max_file_bytes=50_000)
    recording.start()
    frames = [b'{"n":%d,"x":"%b"}' % (number, b"x" * 1_000) for number in range(600)]
    for data in frames:
        recording.frame(1, IN, data, is_json=True)
    recording.close()
    assert "File exists" in recording.error
    read = [recording.index.frame_bytes(number) for number in range(600)]
    assert read[:40] == frames[:40]
    assert all(data in (frames[number], b"") for number, data in enumerate(read))
    assert ring_bytes == 1 or read == frames
    settle(recording)
    assert (tmp_path / "a.2.jsonl").read_bytes().startswith(foreign % 0)
    recording._store.positions.close()  # type: ignore[union-attr]
    assert psutil.Process().num_fds() == descriptors


def test_a_disk_that_is_stuck_holds_no_end_up_and_gets_the_rest_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "_CLOSE_TIMEOUT_S", 0.05)
    write, is_stuck, goes_on = CaptureFile.write, threading.Event(), threading.Event()

    def stuck(file: CaptureFile, taken: QueuedData) -> None:
        is_stuck.set()
        assert goes_on.wait(WITHIN_S)
        write(file, taken)

    monkeypatch.setattr(CaptureFile, "write", stuck)
    recording = Recording(tmp_path / "a.jsonl")
    frames = [b'{"n":%d}' % number for number in range(1_000)]
    recording.start()
    for data in frames[:500]:
        recording.frame(1, IN, data, is_json=True)
    assert is_stuck.wait(WITHIN_S)
    for data in frames[500:]:
        recording.frame(1, IN, data, is_json=True)
    recording.close()
    assert "the disk takes too long" in recording.error
    assert [recording.index.frame_bytes(number) for number in range(1_000)] == frames
    goes_on.set()
    recording._thread.join(WITHIN_S)
    archive = Archive(tmp_path / "a.jsonl")
    assert [archive.frame_bytes(number) for number in range(archive.count)] == frames
    archive.close()


def test_a_session_that_ends_at_once_is_told_of_once(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "a.jsonl")
    for changes in ({"revision": ""}, {}, {"closed": 9.0}):
        recording.connect(connection(1, **changes))
    recording.connect(connection(2))
    recording.frame(1, IN, b"{}")
    recording.start()
    recording.close()
    assert (tmp_path / "a.jsonl").read_bytes().count(b'{"connection":') == 2
    archive = Archive(tmp_path / "a.jsonl")
    assert list(archive.connections) == [1, 2]
    assert (archive.connections[1].closed, archive.connections[1].revision) == (9.0, "2025-11-25")
    archive.close()
