"""Progress is found in output of any split, and what is left is the text."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.jobs import reports
from mcpdesk.jobs.feed import ProgressReport
from mcpdesk.jobs.output import WHOLE_BYTES, Stream
from mcpdesk.jobs.reports import LONGEST, Reports


class Heard:
    """A program's output taken in pieces."""

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


def test_text_does_not_wait_for_its_line_to_end() -> None:
    texts: list[str] = []
    output = Reports(None, "json-lines", lambda _, text: texts.append(text), lambda _: None)
    output.add("stderr", b"a question? ")
    assert texts == ["a question? "]
    output.add("stderr", b'{"progress": 1}\n')
    assert "".join(texts) == 'a question? {"progress": 1}\n'


def test_line_that_goes_on_and_on_is_text() -> None:
    long = b'{"progress": 1, "x": "' + b"y" * LONGEST
    assert Heard("json-lines", [long, b'"}\n']).kept.startswith('{"progress"')
    assert Heard("percent", [b"z" * (LONGEST + 1), b" 5%"]).kept.endswith("z 5%")
    texts: list[str] = []
    output = Reports(None, "percent", lambda _, text: texts.append(text), lambda _: None)
    output.add("stdout", b"z" * LONGEST)
    assert texts == []
    output.add("stdout", b"z")
    assert texts == ["z" * (LONGEST + 1)]


def test_a_bar_that_is_drawn_again_and_again_never_becomes_a_long_line() -> None:
    bar = b"\r" + b"=" * 1000
    heard = Heard("percent", [b"begin", *[bar] * (2 * LONGEST // len(bar)), b"\r", b"end\n"])
    assert heard.kept == heard.told == "end\n"


def test_an_output_that_is_closed_leaves_no_file_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    output = Reports(tmp_path, "", lambda *_: None, lambda _: None)
    output.add("stdout", b"x" * (WHOLE_BYTES + 1))
    assert len(os.listdir("/proc/self/fd")) == before + 1
    output.close()
    assert len(os.listdir("/proc/self/fd")) == before


BAR = b"start\n  0%| |\r 45.5%|== |\r100%|====|\nwidth: 250%, 1999%\ndone 100 %\r\n"


@given(st.lists(st.integers(0, len(BAR)), max_size=6))
def test_percentages_are_found_and_what_was_written_over_is_left_out(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(BAR)]
    heard = Heard("percent", [BAR[a:b] for a, b in pairwise(ends)])
    assert heard.kept == heard.told == "start\n100%|====|\nwidth: 250%, 1999%\ndone 100 %\n"
    values = [each.value for each in heard.progress]
    assert {0, 45.5, 100} <= set(values)
    assert heard.progress[-1].total == 100


def test_a_long_line_is_looked_at_when_a_percentage_may_be_new_and_not_with_every_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked, look = list[int](), reports._Percent._look

    def counted(reader: Any, line: bytes, found: list[ProgressReport]) -> None:
        looked.append(len(line))
        look(reader, line, found)

    monkeypatch.setattr(reports._Percent, "_look", counted)
    heard = Heard("percent", [b".", b".", b" 7", b"%", *[b"."] * 5000, b" 8%", b"\n"])
    assert [each.value for each in heard.progress] == [7, 8]
    assert heard.kept == ".. 7%" + "." * 5000 + " 8%\n"
    assert len(looked) == 2


def test_whole_percentages_are_told_once_each() -> None:
    heard = Heard("percent", [b" 1% a\r", b" 1% b\r", b" 2% c"])
    assert heard.progress == [(1, 100, "1% a"), (2, 100, "2% c")]
    assert heard.kept == " 2% c"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_without_a_form_everything_is_text(stream: Stream) -> None:
    heard = Heard("", [b'{"progress": 1}\n 5%', b"\xc3", b"\xa4\r"], stream)
    assert heard.kept == heard.told == '{"progress": 1}\n 5%ä\r'
    assert heard.progress == []
    assert {name for name, _ in heard.texts} == {stream}
