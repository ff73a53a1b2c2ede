"""Printed text becomes lines, with the place in the hosted folder that printed them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpdesk.transports.descriptors import LINE_LIMIT, Prints, StrayLine, StrayReader
from tests.support.patience import WITHIN_S as WAIT_S


@pytest.fixture
def lines() -> list[StrayLine]:
    return []


@pytest.fixture
def prints(lines: list[StrayLine], tmp_path: Path) -> Prints:
    return Prints(1, "print", lines.append, lambda: [str(tmp_path)])


def hosted(tmp_path: Path, source: str, **names: object) -> None:
    """Run code as if it stood in a tool of the hosted folder."""
    file = str(tmp_path / "tools" / "slow.py")
    exec(compile(source, file, "exec"), dict(names))


def test_print_is_one_line_with_its_place(prints: Prints, lines: list[StrayLine], tmp_path: Path) -> None:
    hosted(tmp_path, "\nprint('a', 1, file=out)", out=prints)
    assert lines == [StrayLine("print", "a 1", "tools/slow.py:2")]


def test_place_is_the_nearest_line_of_the_folder(
    prints: Prints, lines: list[StrayLine], tmp_path: Path
) -> None:
    hosted(
        tmp_path,
        "\n\ncall(lambda: log('deep'))",
        call=lambda work: work(),
        log=lambda text: print(text, file=prints),
    )
    assert lines == [StrayLine("print", "deep", "tools/slow.py:3")]


def test_print_from_elsewhere_has_no_place(prints: Prints, lines: list[StrayLine]) -> None:
    print("hello", file=prints)
    assert lines == [StrayLine("print", "hello", "")]


def test_folder_whose_name_only_begins_alike_is_not_the_place(
    prints: Prints, lines: list[StrayLine], tmp_path: Path
) -> None:
    hosted(Path(f"{tmp_path}-other"), "print('x', file=out)", out=prints)
    assert lines == [StrayLine("print", "x", "")]


def test_line_is_delivered_when_it_ends(prints: Prints, lines: list[StrayLine]) -> None:
    prints.write("one")
    prints.flush()
    assert lines == []
    assert prints.write(" two\nthree\n\nfo") == 14
    assert [line.text for line in lines] == ["one two", "three", ""]
    prints.finish()
    assert lines[-1].text == "fo"


def test_endless_line_is_cut(prints: Prints, lines: list[StrayLine]) -> None:
    prints.write("x" * (LINE_LIMIT + 1))
    assert len(lines) == 1


def test_threads_do_not_mix_their_lines(prints: Prints, lines: list[StrayLine]) -> None:
    prints.write("main ")
    thread = threading.Thread(target=lambda: print("other", file=prints))
    thread.start()
    thread.join(WAIT_S)
    prints.write("line\n")
    assert [line.text for line in lines] == ["other", "main line"]


def test_it_passes_for_a_text_stream(prints: Prints) -> None:
    assert prints.fileno() == 1
    assert not prints.isatty()
    assert prints.writable() and not prints.readable()
    assert prints.encoding == "utf-8"
    prints.reconfigure(line_buffering=True)
    with pytest.raises(TypeError):
        prints.write(b"bytes")  # type: ignore[arg-type]


@pytest.fixture
def reader(lines: list[StrayLine]) -> Iterator[StrayReader]:
    yield StrayReader(lines.append)


def test_pipe_becomes_lines_until_the_reader_stops(reader: StrayReader, lines: list[StrayLine]) -> None:
    out, err = reader.open("stdout"), reader.open("stderr")
    reader.start()
    os.write(out, b"one\r\ntwo \xff\nthr")
    os.write(err, b"bad\n")
    os.write(out, b"ee")
    reader.stop()
    os.close(out)
    os.close(err)
    assert [line for line in lines if line.source == "stdout"] == [
        StrayLine("stdout", "one"),
        StrayLine("stdout", "two \ufffd"),
        StrayLine("stdout", "three"),
    ]
    assert StrayLine("stderr", "bad") in lines


def test_pipe_whose_writers_are_gone_ends_by_itself(reader: StrayReader, lines: list[StrayLine]) -> None:
    out = reader.open("stdout")
    reader.start()
    os.write(out, b"one\nrest")
    os.close(out)
    reader.stop()
    assert [line.text for line in lines] == ["one", "rest"]


def test_much_at_once_arrives_whole(reader: StrayReader, lines: list[StrayLine]) -> None:
    out = reader.open("stdout")
    reader.start()
    line = b"x" * 1023 + b"\n"
    for _ in range(4096):
        os.write(out, line)
    os.close(out)
    reader.stop()
    assert len(lines) == 4096
