"""Repeated HTTP headers of clients are written once, and read back for every frame that had them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture import encoder
from mcpdesk.recorder.capture import recording as capture
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.record import Direction, HttpNote
from tests.support.patience import wait_until

IN, OUT = Direction.IN, Direction.OUT


def said(agent: str = "one") -> HttpNote:
    return HttpNote("POST /mcp/echo HTTP/1.1", (("Host", "127.0.0.1"), ("User-Agent", agent)))


def asked_and_answered(recording: Recording, what: list[HttpNote]) -> None:
    for each in what:
        recording.frame(1, IN, b"{}", True, each)
        recording.frame(1, OUT, b"[]", True)


def noted(source: Recording | Archive, count: int) -> list[str | None]:
    notes = [source.index.note(number) for number in range(count)]
    return [None if note is None else dict(note.headers)["User-Agent"] for note in notes]


def is_settled(recording: Recording, size: int) -> bool:
    return recording.encoded_bytes == size


@pytest.mark.parametrize("ring_bytes", [64 << 20, 1])
def test_every_frame_has_the_note_it_came_with(tmp_path: Path, ring_bytes: int) -> None:
    recording = Recording(tmp_path / "a.jsonl", ring_bytes)
    recording.start()
    one, two = said("one"), said("two")
    asked_and_answered(recording, [one, two, said("three"), *[one, one, two] * 100])
    expected = [
        agent for each in ["one", "two", "three", *["one", "one", "two"] * 100] for agent in (each, None)
    ]
    assert noted(recording, 606) == expected
    recording.close()
    assert noted(recording, 606) == expected
    archive = Archive(tmp_path / "a.jsonl")
    assert noted(archive, 606) == expected
    assert archive.unreadable == 0
    archive.close()
    assert (tmp_path / "a.jsonl").read_bytes().count(b'{"note":') == 3


def test_notes_of_all_settlings_are_told_apart_in_every_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "BATCH_S", 0.001)
    recording = Recording(tmp_path / "a.jsonl", 1, max_file_bytes=8_000)
    recording.start()
    one, two = said("one"), said("two")
    for turn in range(1, 21):
        asked_and_answered(recording, [one, two] * 20)
        wait_until(partial(is_settled, recording, 160 * turn))
    recording.close()
    expected = ["one", None, "two", None] * 400
    assert noted(recording, 1600) == expected
    archive = Archive(tmp_path / "a.jsonl")
    assert noted(archive, 1600) == expected
    archive.close()
    # Every part has what it needs: its neighbours may be gone.
    parts = [part.read_bytes() for part in sorted(tmp_path.iterdir())]
    assert len(parts) > 5
    assert all(b'{"note":' in part for part in parts if b'{"same":' in part)


def test_many_clients_and_large_headers_are_forgotten_again(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "a.jsonl")
    recording.start()
    agents = [str(number) for number in range(2 * encoder.MAX_KNOWN_HEADERS)]
    large = said("x" * encoder.MAX_KNOWN_BYTES)
    asked_and_answered(recording, [said(agent) for agent in agents] + [large])
    recording.close()
    found = noted(recording, 2 * len(agents) + 2)
    assert found[::2] == [*agents, "x" * encoder.MAX_KNOWN_BYTES]
    assert len(recording._encoder._notes._written_notes) <= encoder.MAX_KNOWN_HEADERS
    assert all(note is not large for note, _ in recording._encoder._notes._written_notes.values())


def test_repeated_notes_count_little(tmp_path: Path) -> None:
    costs = []
    for what in ([said()] * 1_000, [said() for _ in range(1_000)]):
        recording = Recording(None)
        recording.start()
        asked_and_answered(recording, what)
        recording.close()
        costs.append(recording._store.ring.cost)
    assert costs[1] - costs[0] > 100_000
