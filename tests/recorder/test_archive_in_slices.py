"""A large capture is shown at once and read on behind the screen, to the same end."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import msgspec
import pytest

from mcpdesk.link.capture_link import CaptureLink
from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture.line_positions import LinePositions
from mcpdesk.recorder.index.query import All, Word, parse
from mcpdesk.recorder.index.view import View
from mcpdesk.tui.traffic.pane_texts import counts_text
from mcpdesk.tui.traffic.traffic_list import TrafficList
from tests.bench.million import write_capture
from tests.support.patience import wait_until

FRAMES = 20_000
PLAIN = b'{"n":%d,"t":1764000000.5,"c":1,"d":"in","json":{}}\n'


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "a.jsonl"
    write_capture(path, FRAMES)
    return path


def all_of(archive: Archive) -> list[object]:
    while archive.index.catch_up(1):
        pass
    return [msgspec.to_builtins(one) for one in archive.index.exchanges]


@pytest.mark.slow
def test_a_capture_read_in_slices_is_the_same_as_one_read_at_once(large: Path) -> None:
    at_once, sliced = Archive(large), Archive(large, 0)
    assert sliced.is_behind and 0 < sliced.count < at_once.count == FRAMES
    while sliced.is_behind:
        sliced.read_new_data(0)
        sliced.index.catch_up(0)
    assert sliced.count == FRAMES and all_of(sliced) == all_of(at_once)
    for archive in (at_once, sliced):
        archive.close()


@pytest.mark.slow
def test_a_link_reads_and_pairs_the_rest_by_itself(large: Path) -> None:
    with large.open("rb") as file:
        lines = file.readlines()
    short = large.with_name("short.jsonl")
    short.write_bytes(b"".join(lines[:5_000] + lines[5_010:-1]) + lines[-1][:-9])
    archive = Archive(short, 0)
    link = CaptureLink(archive)
    link.view()
    wait_until(lambda: len(link.notices()) == 2)
    assert (archive.count, archive.index.paired) == (FRAMES - 11, FRAMES - 11)
    told = [notice.text for notice in link.notices()]
    assert len(told) == 2 and "1 line of the capture cannot be read" in told[0] and "10 frames" in told[1]
    assert archive.index.missing_frames == 10
    link.close()


@pytest.mark.slow
def test_how_far_it_has_come_is_told(large: Path) -> None:
    archive = Archive(large)
    archive.index.catch_up(0)
    listing = TrafficList(archive.index)
    assert "reading 0%" in counts_text(listing)
    all_of(archive)
    assert "reading" not in counts_text(listing)
    archive.close()


def test_frames_read_together_are_those_read_one_by_one(large: Path) -> None:
    path = large.with_name("mixed.jsonl")
    with large.open("rb") as file:
        lines = [next(file) for _ in range(20)]
    lines += [
        b'{"n":11,"t":1.5,"c":1,"d":"in","text":"a\\nb"}\n',
        b'{"note":{"frame":11,"line":"POST / HTTP/1.1","headers":[]}}\n',
        b'{"n":12,"t":1.5,"c":1,"d":"in","base64":"/w=="}\n',
        b'{"n":13,"t":1.5,"c":1,"d":"out","run":2}\n{"a":1}\n{"b":2}\n',
        PLAIN % 15,
        b"\x00 damage\n",
        PLAIN % 20,
        b'{"n":21,"t":1.5,"c":1,"d":"in","json":"%b"}\n' % (b"x" * 400_000),
        PLAIN % 22,
        PLAIN % 23,
        PLAIN % 24,
    ]
    path.write_bytes(b"".join(lines))
    archive = Archive(path)
    assert archive.count == 21 and archive.gaps[0].frames == 4
    for start in range(archive.count):
        singly = [archive.frame(number) for number in range(start, archive.count)]
        assert None not in singly and list(archive.frames(start, archive.count)) == singly
        assert archive.data(start, archive.count) == [
            archive.frame_bytes(number) for number in range(start, archive.count)
        ]
    archive.close()


def test_a_word_is_found_however_its_frame_stands_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_capture(path, 400)
    frames = [b'"json":{}}'] * 600
    frames[0] = b'"text":"Na\\u00efve \\"word\\" A"}'
    frames[200] = b'"base64":"%b"}' % b64encode(b"\xff WORD")
    frames[400] = b'"json":{"in":"a Word"}}'
    with path.open("ab") as file:
        for number, frame in enumerate(frames, 400):
            file.write(b'{"n":%d,"t":1764000000.5,"c":1,"d":"in",%b\n' % (number, frame))
    archive = Archive(path)
    all_of(archive)
    for text, found in (
        ('"word"', [400]),
        ("na\u00efve", [400]),
        ("word", [400, 600, 800]),
        ("docs/17.md", [17, 25]),
    ):
        view = View(archive.index, All((Word(text),)), raw=True)
        view.advance(9)
        assert list(view.lines) == found
    archive.close()


def test_a_capture_cut_short_under_the_eyes_lacks_those_frames_and_no_others(large: Path) -> None:
    path = large.with_name("cut.jsonl")
    path.write_bytes(large.read_bytes()[:10_000])
    archive = Archive(path)
    before = archive.frames(0, archive.count)
    path.write_bytes(large.read_bytes()[:5_000])
    after = archive.frames(0, archive.count)
    there = sum(frame is not None for frame in after)
    assert 0 < there < archive.count and after[:there] == before[:there]
    assert archive.data(0, archive.count)[there:] == [b""] * (archive.count - there)
    archive.close()


def test_places_beyond_the_end_have_no_lines() -> None:
    assert LinePositions().frame_lines(0, 5) == []


@pytest.mark.slow
def test_a_word_finds_the_same_in_slices(large: Path) -> None:
    archive = Archive(large)
    all_of(archive)
    view = View(archive.index, parse("docs/1234.md", 0.0))
    while view.advance(0):
        pass
    assert [archive.index.exchange(line).request for line in view.lines] == [1234]
    archive.close()
