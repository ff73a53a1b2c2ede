"""Remarks on recorded frames: derived from their bytes, or recorded beside them, also in captures."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mcpdesk.protocol.reading.remark import Remark, RemarkKind
from mcpdesk.recorder import archive, readable_message
from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture import recording as recording_module
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index.exchange import Status
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.record import ConnectionInfo, Direction, RecordedRemark
from tests.support.patience import wait_until

IN, OUT = Direction.IN, Direction.OUT
ASKED = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}'


def recorded(*answers: bytes, transport: str = "stdio", path: Path | None = None) -> Recording:
    """A recording of one request and its answers."""
    recording = Recording(path)
    recording.start()
    recording.connect(ConnectionInfo(1, "s", transport, "desk", "2025-06-18", time.time()))
    recording.frame(1, IN, ASKED, True)
    for answer in answers:
        recording.frame(1, OUT, answer)
    return recording


def settled(index: Index) -> Index:
    """The index with all frames paired."""
    while index.catch_up(1.0):
        pass
    return index


def kinds(index: Index, number: int = 0) -> list[str]:
    """Kinds of the remarks on an exchange."""
    return [str(each.kind) for each in readable_message.remarks(index, index.exchange(number))]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":NaN}}', "number"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":"\xfc"}}', "encoding"),
        (rb'{"jsonrpc":"2.0","id":1,"result":{"a":"\ud83d"}}', "surrogate"),
        (b'{"jsonrpc":"2.0","id":"1","result":{}}', "id-type"),
        (b'{"id":1,"result":{}}', "jsonrpc"),
        (b'{\n"jsonrpc":"2.0","id":1,\n"result":{}}', "several-lines"),
        ('{"jsonrpc":"2.0","id":1,"result":{}}'.encode("utf-16"), "utf-16"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":[{"b":1,"b":1}]}}', "duplicate-key"),
    ],
)
def test_an_almost_right_answer_is_paired_and_remarked(tmp_path: Path, answer: bytes, kind: str) -> None:
    recording = recorded(answer, path=tmp_path / "c.jsonl")
    index = settled(recording.index)
    assert [each.status for each in index.exchanges] == [Status.OK]
    assert index.is_remarked(0) and kinds(index) == [kind]
    recording.close()
    assert recording.path is not None
    read = settled(Archive(recording.path).index)
    assert read.frame_bytes(1) == answer and kinds(read) == [kind]


def test_remarks_beyond_the_limit_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = recorded(path=tmp_path / "c.jsonl")
    for module in (recording_module, archive):
        monkeypatch.setattr(module, "MAX_REMARKS", 5)
    for number in range(8):
        recording.remark(RecordedRemark(1, None, time.time(), Remark(RemarkKind.STDOUT, f"text {number}")))
    recording.close()
    assert recording.path is not None
    for index in (recording.index, Archive(recording.path).index):
        assert [each.remark.text for each in index.remarks] == [f"text {number}" for number in range(5)]
        assert index.remarks_left_out == 3


def test_the_end_of_code_is_kept_beyond_the_limit_in_memory_and_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = recorded(path=tmp_path / "c.jsonl")
    for module in (recording_module, archive):
        monkeypatch.setattr(module, "MAX_REMARKS", 1)
    kinds_given = (RemarkKind.CODE_RUNS, RemarkKind.STDOUT, RemarkKind.CODE_ENDED, RemarkKind.CODE_ENDED)
    for kind in kinds_given:
        recording.remark(RecordedRemark(1, 1, time.time(), Remark(kind, "text")))
    recording.close()
    assert recording.path is not None
    for index in (recording.index, Archive(recording.path).index):
        assert [each.remark.kind for each in index.remarks] == [RemarkKind.CODE_RUNS, RemarkKind.CODE_ENDED]
        assert index.remarks_left_out == 2


def test_a_plain_answer_has_no_remark() -> None:
    index = settled(recorded(b'{"jsonrpc": "2.0", "id": 1, "result": {"a": "\\ud83d\\ude00"}}').index)
    assert not index.is_remarked(0) and kinds(index) == []


def test_lines_are_no_matter_over_http() -> None:
    index = settled(recorded(b'{\n"jsonrpc":"2.0","id":1,\n"result":{}}', transport="http").index)
    assert not index.is_remarked(0) and kinds(index) == []


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":[', "unreadable"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":tru}}', "unreadable"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":[{"b":1,"b":2}]}}', "duplicate-key"),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"result":{"a":1}}', "duplicate-key"),
    ],
)
def test_an_answer_that_cannot_be_read_ends_its_request_as_malformed(answer: bytes, kind: str) -> None:
    index = settled(recorded(answer).index)
    assert [each.status for each in index.exchanges] == [Status.MALFORMED]
    assert index.is_remarked(0) and kinds(index) == [kind] and index.exchange(0).response == 1


@pytest.mark.parametrize(
    "message",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}',
        b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","level":"debug"}}',
        b'[{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"\\u0061":2}}]',
    ],
)
def test_a_message_that_gives_a_key_two_values_is_malformed(message: bytes) -> None:
    recording = Recording(None)
    recording.start()
    recording.connect(ConnectionInfo(1, "s", "stdio", "desk", "2025-06-18", time.time()))
    recording.frame(1, OUT, message)
    index = settled(recording.index)
    assert [each.status for each in index.exchanges] == [Status.MALFORMED]
    assert kinds(index) == ["duplicate-key"]


def test_a_second_answer_and_one_to_no_request_are_lines_of_their_own() -> None:
    plain = b'{"jsonrpc":"2.0","id":1,"result":{}}'
    index = settled(recorded(plain, plain, plain.replace(b":1,", b":999,")).index)
    assert [each.status for each in index.exchanges] == [Status.OK, Status.LATE, Status.LATE]
    assert (kinds(index, 1), kinds(index, 2)) == (["repeated-answer"], ["unknown-id"])


def test_a_response_without_id_ends_the_only_request() -> None:
    index = settled(recorded(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}').index)
    assert [each.status for each in index.exchanges] == [Status.ERROR]
    assert index.is_remarked(0) and kinds(index) == ["no-id"]
    recording = recorded()
    recording.frame(1, IN, ASKED.replace(b":1,", b":2,"), True)
    recording.frame(1, OUT, b'{"jsonrpc":"2.0","result":{}}')
    assert [each.status for each in settled(recording.index).exchanges][:2] == [Status.PENDING] * 2


@pytest.mark.parametrize("is_fault", [False, True])
def test_a_recorded_remark_is_on_its_exchange_and_in_the_capture(tmp_path: Path, is_fault: bool) -> None:
    recording = recorded(b'{"jsonrpc":"2.0","id":1,"result":{}}', path=tmp_path / "c.jsonl")
    remark = Remark(RemarkKind.DUPLICATE_KEY, "a key is given twice", 8, is_fault)
    recording.remark(RecordedRemark(1, 1, time.time(), remark))
    recording.remark(RecordedRemark(1, None, time.time(), Remark(RemarkKind.STDOUT, "text on stdout")))
    expected = Status.MALFORMED if is_fault else Status.OK
    recording.close()
    assert recording.path is not None
    for index in (recording.index, Archive(recording.path).index):
        settled(index)
        assert readable_message.remarks(index, index.exchange(0)) == [remark]
        assert index.is_remarked(0) and index.exchange(0).status is expected
        assert len(index.remarks) == 2


def test_a_remark_alone_wakes_the_writer(tmp_path: Path) -> None:
    recording = recorded(b'{"jsonrpc":"2.0","id":1,"result":{}}', path=tmp_path / "c.jsonl")
    assert recording.path is not None
    path = recording.path
    wait_until(lambda: b'"result"' in path.read_bytes() and recording._is_resting)
    recording.remark(RecordedRemark(1, 1, time.time(), Remark(RemarkKind.NUMBER, "it is NaN")))
    wait_until(lambda: b"it is NaN" in path.read_bytes())
    recording.close()
