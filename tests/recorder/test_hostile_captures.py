"""A malicious capture costs no more than its size, and ends nothing."""

from __future__ import annotations

import os
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from time import process_time

import orjson
import pytest

from mcpdesk.errors import DeskUserError
from mcpdesk.feature import ExchangeFacts
from mcpdesk.features import features_with
from mcpdesk.recorder import archive as archives
from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture.capture_lines import lost_line
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.exchange_text import as_text, no_log_lines
from mcpdesk.recorder.index.exchange import STATUSES, Status
from mcpdesk.recorder.index.query import parse
from mcpdesk.recorder.index.traffic_index import Index, with_gaps
from mcpdesk.recorder.index.view import View
from mcpdesk.recorder.record import Gap, HttpNote
from tests.support.damaged_captures import HEADER, numbered, opened, read_all
from tests.support.traffic import IN, OUT, call, connection, error, notification, request, result, text

FILTERS = ["echo", "id:1 or status:error", ">1ms not peer:x", ">1kb", "x since:1h", "is:held"]
WORDS = [
    b"99999999999999999999", b"-1", b"9007199254740993", b"1e308", b"1e999", b"-0.0", b"253402214399",
    b"null", b"true", b"[]", b"{}", b'""', b"9900000", b'"\\ud800"', b'"\\u0000"', b"\x00", b"\xff\xfe",
    b"\n", b"}\n", b'{"n":', b'"c":', b'"t":', b'"run":300', b'"size":99999999', b',"end":"x"',
    b'"lost":[0,9000000]', b'"json":', b'"same":[0,1,2,99999999]', b'"text":"', b'"base64":"/w="',
    b'"note":', b'"connection":', b'"capture":', b"[" * 600, b'{"a":' * 300, b'"id":',
    b'"method":"notifications/cancelled"', b'"progressToken":1', b"\xe2\x82", b'"closed":-5',
]  # fmt: skip
"""Bytes that are inserted into the middle of a capture."""


def sample(path: Path) -> bytes:
    """A small capture with lines of every kind."""
    recording = Recording(path)
    recording.connect(connection(1))
    recording.connect(connection(2, "somebody", closed=1_764_000_001.0))
    recording.start()
    said = HttpNote(
        "POST /mcp?token=x HTTP/1.1", (("Host", "localhost"), ("Authorization", "Bearer abcdefgh"))
    )
    for number in range(3):
        recording.frame(1, IN, call(number, "echo", {"n": number}), True, said, 1_764_000_000.5)
        note = HttpNote("HTTP/1.1 404 Not Found", (("Content-Type", "text/plain"),)) if number == 1 else None
        recording.frame(1, OUT, text(number, "ü", is_error=number == 1), True, note, 1_764_000_000.75)
    meta = {"_meta": {"progressToken": "p"}}
    recording.frame_batch(
        1, IN, [request("a", "tools/call", {"name": "t", **meta}), request("b", "ping"), b'{"id":1}']
    )
    recording.frame(1, OUT, notification("notifications/progress", {"progressToken": "p", "progress": 1}))
    recording.frame(1, IN, notification("notifications/cancelled", {"requestId": "b"}))
    recording.frame(1, OUT, b"[%b,%b]" % (error("a"), result(9)))
    recording.frame(2, IN, b'{"jsonrpc": "2.0",\n "id": 7}')
    recording.frame(2, IN, b"\xff\xfe no text")
    recording.close()
    lines = path.read_bytes().splitlines(keepends=True)
    lines.insert(-4, lost_line(40, 50, "No space left on device"))
    return b"".join(lines)


def mutated(original: bytes, chance: random.Random) -> bytes:
    """A capture with some damage, most of which leaves the first line as it was."""
    data = bytearray(original)
    floor = 0 if chance.random() < 0.05 else original.index(b"\n") + 1
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        at = chance.randrange(floor, len(data) + 1)
        other = chance.randrange(floor, len(data) + 1)
        low, high = min(at, other), max(at, other)
        match chance.randrange(8):
            case 0:
                data[at : at + 1] = bytes((chance.randrange(256),))
            case 1:
                data[at:at] = chance.choice(WORDS)
            case 2:
                del data[at : at + chance.choice((1, 2, 10, 200))]
            case 3:
                data[at:at] = data[low : min(high, low + 300)]
            case 4:
                lines = bytes(data[floor:]).splitlines(keepends=True)
                chance.shuffle(lines)
                data[floor:] = b"".join(lines)
            case 5:
                digits = [place for place in range(floor, len(data)) if 48 <= data[place] < 58]
                if digits:
                    place = chance.choice(digits)
                    data[place : place + 1] = chance.choice(WORDS[:8])
            case 6:
                del data[max(at, floor + 1) :]
            case _:
                lines = bytes(data[floor:]).splitlines(keepends=True) or [b"\n"]
                data[floor:floor] = chance.choice(lines) * chance.choice((1, 5))
    return bytes(data)


def export_everything(index: Index, numbers: range) -> None:
    """Write all formats, each of which must be valid."""
    for feature in features_with("exporters"):
        for exporter in feature.exporters():
            written = b"".join(exporter.write(index, numbers, no_log_lines)).decode()
            if exporter.ending.endswith(".jsonl"):
                [orjson.loads(line) for line in written.splitlines()]
            elif exporter.ending == ".har":
                orjson.loads(written)
    copies = [copy for feature in features_with("exchange_copies") for copy in feature.exchange_copies()]
    for number in numbers[::4]:
        as_text(index, number)
        for copy in copies:
            copy.make(index, number, ExchangeFacts(no_log_lines))


def look_at_everything(archive: Archive, chance: random.Random) -> None:
    """Use a capture as the screen and exports do."""
    index = read_all(archive)
    view = View(index, parse(chance.choice(FILTERS), 1_764_000_000.0), raw=chance.random() < 0.2)
    while view.advance(1):
        pass
    export_everything(index, range(len(index.exchanges)))
    for number in range(archive.count):
        archive.note(number)


def attack(folder: Path, seed: int, count: int) -> int:
    """Open many damaged captures; returns how many were captures all the same."""
    chance = random.Random(seed)
    original = sample(folder / "sample.jsonl")
    path, opened = folder / "a.jsonl", 0
    for turn in range(count):
        data = mutated(original, chance)
        path.write_bytes(data)
        try:
            archive = Archive(path)
        except DeskUserError:
            continue
        opened += 1
        try:
            look_at_everything(archive, chance)
            # Every frame has a separate line, and every exchange and gap a separate message.
            lines = data.count(b"\n") + 1
            assert archive.count + archive.unreadable <= lines and len(archive.gaps) <= archive.count
            assert len(archive.index.exchanges) <= lines + data.count(b",")
        except BaseException:
            (folder / "failed.jsonl").write_bytes(data)
            print(f"seed {seed}, file {turn}: {folder / 'failed.jsonl'}")
            raise
        finally:
            archive.close()
    return opened


@pytest.mark.slow
def test_two_thousand_damaged_captures_are_read_looked_at_and_exported(tmp_path: Path) -> None:
    assert attack(tmp_path, 2, 2_000) > 1_500


def peak_of(function: Callable[[], object]) -> int:
    """Bytes of memory a function takes at most."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_gaps_cost_nothing_and_are_stated(tmp_path: Path) -> None:
    lines = [numbered(number * 9_900_000) for number in range(50)]
    lines += [lost_line(49 * 9_900_000 + 1, 1 << 50, "No space left on device"), numbered(1 << 50)]

    def read() -> None:
        archive = opened(tmp_path / "a.jsonl", lines)
        index = read_all(archive)
        assert (archive.count, len(index.exchanges), archive.unreadable) == (51, 51, 0)
        assert [gap.frames for gap in archive.gaps[:2]] == [9_899_999, 9_899_999]
        assert archive.gaps[-1].why == "No space left on device"
        assert index.missing_frames == (1 << 50) + 1 - 51
        assert [frame.number for frame in archive.frames(0, 51) if frame] == [*range(51)]
        passed = list(with_gaps(index, range(51)))
        assert passed[-2:] == [archive.gaps[-1], 50] and len(passed) == 101
        assert [isinstance(one, Gap) for one in passed[:4]] == [False, True, False, True]
        archive.close()

    assert peak_of(read) < 4 << 20


def test_notes_find_their_frames_behind_gaps(tmp_path: Path) -> None:
    lines = [
        numbered(3),
        numbered(10),
        numbered(11),
        b'{"note":{"frame":10,"line":"POST /ten HTTP/1.1","headers":[]}}\n',
        b'{"same":[10,11,3,5,-7,99999999999999999999]}\n',
        b'{"note":{"frame":7,"line":"POST /lost HTTP/1.1","headers":[]}}\n',
    ]
    archive = opened(tmp_path / "a.jsonl", lines)
    said = [note.line for number in range(3) if (note := archive.note(number))]
    assert said == ["POST /ten HTTP/1.1"] * 3 and archive.unreadable == 0
    archive.close()


@pytest.mark.parametrize(
    "line",
    [
        numbered(0, connection="99999999999999999999"),
        numbered(0, connection="-1"),
        numbered(0, at="1e300"),
        numbered(99_999_999_999_999_999_999),
        numbered(20_000_000),
        b'{"n":0,"t":1.0,"c":1,"d":"in","text":"x","size":99999999999999999999}\n',
        b'{"n":0,"t":1.0,"c":1,"d":"out","run":9999999}\n',
        b'{"connection":{"number":99999999999999999999,"server":"","transport":"","peer":"","revision":"","opened":1}}\n',
        b'{"connection":{"number":1,"server":"","transport":"","peer":"","revision":"","opened":1,"closed":1e300}}\n',
        b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        b"[" * 200_000 + b"\n",
        b'{"unknown":1}\n',
    ],
)
def test_a_line_with_something_impossible_costs_only_itself(tmp_path: Path, line: bytes) -> None:
    archive = opened(tmp_path / "a.jsonl", [line, numbered(0), numbered(1)])
    index = read_all(archive)
    assert (archive.count, archive.unreadable, len(index.exchanges)) == (2, 1, 2)
    archive.close()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "frame",
    [
        b'{"jsonrpc":"2.0","id":99999999999999999999,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % (b"9" * 300),
        b'{"jsonrpc":"2.0","id":-1e-300,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":"%b","method":"%b"}' % (b"i" * 60_000, b"m" * 60_000),
        b'{"jsonrpc":"2.0","id":{"a":[]},"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":%b}' % (b"[" * 1_000 + b"]" * 1_000),
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":%b}' % (b'{"a":' * 300 + b"1" + b"}" * 300),
        b"[" * 30_000,
        b'{"jsonrpc":"2.0","id":1,"method":"\\u0000\\u001b]52;c;AAAA\\u0007"}',
    ],
)
def test_a_message_of_any_shape_is_shown_and_exported(tmp_path: Path, frame: bytes) -> None:
    archive = opened(tmp_path / "a.jsonl", [numbered(0, frame=frame), numbered(1)])
    look_at_everything(archive, random.Random(0))
    assert len(archive.index.exchanges) == 2
    assert all(len(str(one.id)) + len(one.method) < 3_000 for one in archive.index.exchanges)
    archive.close()


@pytest.mark.slow
def test_a_line_of_a_hundred_megabytes_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    size = 100 << 20
    start, end = b'{"jsonrpc":"2.0","id":1,"result":{"x":"', b'"}}'
    with path.open("wb") as file:
        file.write(HEADER + numbered(0) + b'{"n":1,"t":1.0,"c":1,"d":"out","json":' + start)
        for _ in range(100):
            file.write(b"x" * (1 << 20))
        file.write(end + b"}\n")
        file.write(b"y" * (50 << 20) + b"\n")
        file.write(b'{"n":2,"t":1.0,"c":1,"d":"in","text":"' + b"z" * (50 << 20) + b'"}\n' + numbered(2))

    def read() -> None:
        archive = Archive(path)
        index = read_all(archive)
        assert (archive.count, archive.unreadable) == (3, 2)
        asked, alone = index.exchanges
        assert asked.status == "ok" and asked.response == 1 and alone.request == 2
        frame = archive.frame(1)
        assert frame is not None and frame.size == size + len(start) + len(end)
        assert frame.data.startswith(start) and frame.end.endswith(end)
        export_everything(index, range(2))
        archive.close()

    assert peak_of(read) < 4 << 20
    archive = Archive(path)
    assert len(archive.frame_bytes(1)) == 64 << 20
    assert [len(piece) > 1_000 for piece in archive.data(0, 3)] == [False, True]
    archive.close()


def test_long_frames_come_back_as_they_were(tmp_path: Path) -> None:
    frames = [
        call(1, "echo", {"x": "ü" * 200_000}),
        b'{"a":\n"%b"}' % ("ü\t".encode() * 200_000),
        b"\xff" * 400_000,
    ]
    recording = Recording(tmp_path / "a.jsonl")
    recording.start()
    for data in frames:
        recording.frame(1, IN, data)
    recording.close()
    archive = Archive(tmp_path / "a.jsonl")
    assert [archive.frame_bytes(number) for number in range(3)] == frames and archive.unreadable == 0
    for number in range(3):
        kept, found = recording.index.frame(number), archive.frame(number)
        assert kept is not None and found is not None
        assert (found.data, found.size, found.end) == (kept.data, kept.size, kept.end)
    archive.close()


def test_a_run_that_goes_on_and_on_ends_where_no_run_of_ours_would(tmp_path: Path) -> None:
    start = b'{"n":0,"t":1.0,"c":1,"d":"out","run":4096}\n'
    archive = opened(tmp_path / "a.jsonl", [start, *[b'"%b"\n' % (b"x" * 60_000)] * 500])
    assert archive.count < 100 and archive.unreadable > 400
    assert archive.frame_bytes(archive.count - 1) == b'"%b"' % (b"x" * 60_000)
    archive.close()


def test_frames_without_end_are_shown_up_to_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_FRAMES", 1_000)
    archive = opened(tmp_path / "a.jsonl", [numbered(number) for number in range(3_000)])
    assert archive.count == 1_000 and archive.is_cut
    archive.close()


def pairing_takes(path: Path, count: int) -> float:
    """Seconds of the processor for requests that share their id, have a token each, and are asked back."""
    asked = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":%d}}}'
    )
    asks = b'{"n":%d,"t":1.0,"c":1,"d":"out","json":{"jsonrpc":"2.0","id":%d,"method":"roots/list"}}\n'
    answers = b'{"n":%d,"t":1.0,"c":1,"d":"out","json":{"jsonrpc":"2.0","id":1,"result":{}}}\n'
    lines = [numbered(number, frame=asked % number) for number in range(count)]
    lines += [asks % (number, number) for number in range(count, 2 * count)]
    lines += [answers % number for number in range(2 * count, 3 * count)]
    archive = opened(path, lines)
    started = process_time()
    index = read_all(archive)
    took = process_time() - started
    assert sum(STATUSES[index.table.status[row]] is Status.OK for row in range(len(index.table))) == count
    archive.close()
    return took


@pytest.mark.slow
def test_pairing_takes_as_long_as_there_are_frames_whatever_their_ids(tmp_path: Path) -> None:
    few, many = (pairing_takes(tmp_path / "a.jsonl", count) for count in (2_000, 16_000))
    assert many < 24 * few  # 8 times as many; were each compared with all others, it would be 64.


def test_a_batch_of_millions_of_messages_is_one_thing(tmp_path: Path) -> None:
    batch = b"[" + b"[]," * 2_000_000 + b"[]]"
    archive = opened(tmp_path / "a.jsonl", [numbered(0, frame=batch)])
    assert peak_of(lambda: read_all(archive)) < 2 << 20
    assert [one.kind for one in archive.index.exchanges] == ["malformed"]
    archive.close()


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(DeskUserError, match="is not a file"):
        Archive(tmp_path / "pipe.jsonl")


def test_a_capture_that_changes_while_it_is_looked_at_ends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(sample(tmp_path / "sample.jsonl"))
    whole = path.read_bytes()
    for changed in (b"", whole[::-1], b"\n" * len(whole), b'{"n":1}\n' * 500, b'{"run":3}\n' * 500):
        path.write_bytes(whole)
        archive = Archive(path)
        path.write_bytes(changed)
        look_at_everything(archive, random.Random(1))
        archive.close()
