"""Output is bounded in memory and whole on disk, and a missing part is reported."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.jobs import output as module
from mcpdesk.jobs.feed import ProgressReport
from mcpdesk.jobs.output import (
    END_BYTES,
    MAX_UNFINISHED_BYTES,
    MAX_WHOLE_BYTES,
    Excerpt,
    Output,
    Reports,
    Stream,
    write_text,
)
from mcpdesk.jobs.output_budget import OutputBudget


def test_streams_are_kept_together_and_apart() -> None:
    output = Output()
    output.add("stdout", b"one\n")
    output.add("stderr", b"oops\n")
    output.add("stdout", b"two\n")
    assert output.text() == "one\noops\ntwo\n"
    assert (output.stream("stdout"), output.stream("stderr")) == ("one\ntwo\n", "oops\n")
    assert output.file is None and not output.is_cut


def test_large_output_is_whole_in_a_private_file(tmp_path: Path) -> None:
    output = Output(tmp_path / "outputs")
    pieces = [bytes([65 + number]) * 300_000 for number in range(6)]
    for number, piece in enumerate(pieces):
        output.add("stderr" if number % 2 else "stdout", piece)
    output.close()
    assert output.file is not None
    assert output.file.read_bytes() == b"".join(pieces)
    assert output.file.stat().st_mode & 0o777 == 0o600
    assert str(output.file) in output.text()


def test_a_file_ends_where_the_limit_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILE_BYTES", MAX_WHOLE_BYTES + 10)
    output = Output(tmp_path)
    for _ in range(4):
        output.add("stdout", b"x" * (MAX_WHOLE_BYTES // 2))
    output.close()
    assert output.file is not None and output.file.stat().st_size == MAX_WHOLE_BYTES + 10
    assert "first 1,048,586 bytes only" in output.problem


def test_a_folder_that_cannot_be_written_is_said_and_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    output = Output(tmp_path / "taken")
    output.add("stdout", b"x" * 2 * MAX_WHOLE_BYTES)
    output.close()
    assert output.file is None and "not all output could be written" in output.problem
    assert output.is_cut


def long_output(folder: Path, budget: OutputBudget | None = None, size: int = MAX_WHOLE_BYTES + 1) -> Output:
    output = Output(folder, budget=budget)
    output.add("stdout", b"x" * size)
    output.close()
    return output


def test_old_files_are_removed_if_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILES", 2)
    kept = [long_output(tmp_path).file for _ in range(4)]
    assert sorted(tmp_path.iterdir()) == kept[2:]


def test_outputs_share_disk_space_and_the_oldest_is_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    budget = OutputBudget(4 * MAX_WHOLE_BYTES, (tmp_path,))
    kept = [long_output(tmp_path, budget).file for _ in range(6)]
    assert sorted(tmp_path.iterdir()) == kept[3:]
    removed = [record.getMessage() for record in caplog.records]
    assert [text.partition(" (")[0] for text in removed] == [
        f"removed the output file {path}" for path in kept[:3]
    ]
    assert removed[0].endswith("(1,048,577 bytes): the outputs of programs exceed outputs_keep_bytes")
    assert not budget._removal_callbacks  # of outputs that are over nothing stays in memory


def test_an_output_that_is_written_is_not_removed_and_ends_where_the_space_does(tmp_path: Path) -> None:
    budget = OutputBudget(3 * MAX_WHOLE_BYTES, (tmp_path,))
    growing = Output(file=tmp_path / "program-1.txt", budget=budget)
    growing.add("stdout", b"a" * 2 * MAX_WHOLE_BYTES)
    over = long_output(tmp_path, budget)
    assert over.file is not None and over.file.stat().st_size == MAX_WHOLE_BYTES
    assert over.problem == (
        "the file holds the first 1,048,576 bytes only: the outputs of programs exceed outputs_keep_bytes"
    )
    growing.add("stdout", b"b" * 2 * MAX_WHOLE_BYTES + b"end")
    assert not over.file.exists() and growing.written == 3 * MAX_WHOLE_BYTES
    assert "holds the first 3,145,728 bytes only" in growing.problem and growing.end(4) == "bend"
    growing.remove()
    assert long_output(tmp_path, budget).problem == ""


def test_space_that_another_process_uses_counts(tmp_path: Path) -> None:
    budget = OutputBudget(4 * MAX_WHOLE_BYTES, (tmp_path,))
    long_output(tmp_path, budget)
    theirs = tmp_path / "program-theirs.txt"
    theirs.write_bytes(b"x" * 3 * MAX_WHOLE_BYTES)
    os.utime(theirs, (1, 1))
    newest = long_output(tmp_path, budget)
    assert newest.problem == "" and not theirs.exists()


def test_a_text_larger_than_the_space_gets_no_file(tmp_path: Path) -> None:
    budget = OutputBudget(1_000, (tmp_path,))
    with pytest.raises(OSError, match="not enough space is left within outputs_keep_bytes"):
        write_text(tmp_path, "x" * 1_001, budget)
    assert write_text(tmp_path, "x" * 900, budget).read_text() == "x" * 900
    assert len(list(tmp_path.iterdir())) == 1


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """Limit the size of every file during the block, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_does_not_fit_the_disk_is_said_and_the_rest_can_be_read(tmp_path: Path) -> None:
    output = Output(file=tmp_path / "out")
    with files_end_at(100_000):
        for _ in range(3):
            output.add("stdout", b"x" * 60_000)
    output.add("stdout", b"the end")
    output.close()
    assert (output.size, output.written) == (180_007, 100_000)
    assert "not all output could be written" in output.problem
    assert len(output.read(90_000, 1 << 20)) == 10_000
    assert output.end(10) == "xxxthe end"


def taken(*pieces: bytes) -> Excerpt:
    excerpt = Excerpt()
    for piece in pieces:
        excerpt.add(piece)
    return excerpt


def test_a_large_stream_keeps_its_ends_and_says_what_is_missing() -> None:
    text = taken(b"start" + b"x" * (2 * MAX_WHOLE_BYTES), b"finish").text(", see elsewhere")
    assert text.startswith("start") and text.endswith("finish")
    left_out = 2 * MAX_WHOLE_BYTES + 11 - 2 * END_BYTES
    assert f"[... {left_out:,} bytes left out, see elsewhere ...]" in text


def test_a_cut_never_shows_half_a_character() -> None:
    text = taken(b"x" + "€".encode() * MAX_WHOLE_BYTES + b"yz").text()
    assert "\ufffd" not in text


class Heard:
    """A program's output, received in pieces."""

    def __init__(self, form: str, pieces: list[bytes], stream: Stream = "stdout") -> None:
        self.texts: list[tuple[str, str]] = []
        self.progress: list[ProgressReport] = []
        output = Reports(None, form, lambda *told: self.texts.append(told), self.progress.append)
        for piece in pieces:
            output.add(stream, piece)
        output.close()
        self.kept = output.stream(stream)
        self.told = "".join(text for _, text in self.texts)


LINES = (
    b'begin\n{"progress": 1, "total": 4, "message": "read\\u0007ing"}\n  {"progress": 2.5}\r\n'
    b'{"other": 1}\n{"progress": true}\n{not json\nhalf {"progress": 9}\n{"progress": 4, "total": "x"}'
)


@given(st.lists(st.integers(0, len(LINES)), max_size=6))
def test_json_lines_are_taken_out_wherever_they_are_split(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(LINES)]
    heard = Heard("json-lines", [LINES[a:b] for a, b in pairwise(ends)])
    expected = 'begin\n{"other": 1}\n{"progress": true}\n{not json\nhalf {"progress": 9}\n'
    assert heard.kept == heard.told == expected
    assert heard.progress == [(1, 4, "read ing"), (2.5, None, "")]


def test_line_that_goes_on_and_on_is_text() -> None:
    long = b'{"progress": 1, "x": "' + b"y" * MAX_UNFINISHED_BYTES
    assert Heard("json-lines", [long, b'"}\n']).kept.startswith('{"progress"')
    assert Heard("percent", [b"z" * (MAX_UNFINISHED_BYTES + 1), b" 5%"]).kept.endswith("z 5%")
    texts: list[str] = []
    output = Reports(None, "percent", lambda _, text: texts.append(text), lambda _: None)
    output.add("stdout", b"z" * MAX_UNFINISHED_BYTES)
    assert texts == []
    output.add("stdout", b"z")
    assert texts == ["z" * (MAX_UNFINISHED_BYTES + 1)]


def test_a_bar_that_is_drawn_again_and_again_never_becomes_a_long_line() -> None:
    bar = b"\r" + b"=" * 1000
    heard = Heard("percent", [b"begin", *[bar] * (2 * MAX_UNFINISHED_BYTES // len(bar)), b"\r", b"end\n"])
    assert heard.kept == heard.told == "end\n"


BAR = b"start\n  0%| |\r 45.5%|== |\r100%|====|\nwidth: 250%, 1999%\ndone 100 %\r\n"


@given(st.lists(st.integers(0, len(BAR)), max_size=6))
def test_percentages_are_found_and_what_was_written_over_is_left_out(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(BAR)]
    heard = Heard("percent", [BAR[a:b] for a, b in pairwise(ends)])
    assert heard.kept == heard.told == "start\n100%|====|\nwidth: 250%, 1999%\ndone 100 %\n"
    values = [each.value for each in heard.progress]
    assert {0, 45.5, 100} <= set(values)
    assert heard.progress[-1].total == 100
