"""`mcpdesk call`: results, and the exit code of every way to fail."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcpdesk.cli.call import fitted, given_as_text, parse_arguments, texts_only
from mcpdesk.errors import DeskUserError

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def test_result_is_printed(mcpdesk: Run, folder: Path) -> None:
    finished = mcpdesk("call", str(folder), "greet", "name=Ada", "loud:=true")
    assert (finished.stdout, finished.stderr, finished.returncode) == ("HELLO, ADA!\n", "", 0)


def test_whole_result_is_printed_as_json(mcpdesk: Run, folder: Path) -> None:
    finished = mcpdesk("call", str(folder), "add", "--json", "--input", "-", stdin='{"a": 1, "b": 2}')
    assert json.loads(finished.stdout)["structuredContent"] == {"sum": 3}
    assert finished.returncode == 0


def test_stray_print_stays_out_of_the_result(mcpdesk: Run, folder: Path) -> None:
    finished = mcpdesk("call", str(folder), "chatter")
    assert finished.stdout == "said\n"
    assert "a stray print" in finished.stderr
    assert "tools/tools.py:" in finished.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["refuse"], 1, "not today"),
        (["greet", "nam=Ada"], 1, "nam"),
        (["greet", "name"], 2, "'name' is not an argument"),
        (["nothing"], 4, "nothing"),
        (["wait", "seconds:=20", "--timeout", "0.2"], 5, "within 0.2 s"),
    ],
)
def test_every_way_to_fail_has_its_code(
    mcpdesk: Run, folder: Path, arguments: list[str], code: int, told: str
) -> None:
    finished = mcpdesk("call", str(folder), *arguments)
    assert finished.returncode == code
    assert told in finished.stdout + finished.stderr
    assert "Traceback" not in finished.stderr


def test_what_a_built_in_tool_refuses_is_told_without_a_stack(mcpdesk: Run, tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"name": "asking", "builtins": ["AskUserQuestion"]}')
    finished = mcpdesk("call", str(tmp_path), "AskUserQuestion", "questions_json=[]")
    told = finished.stdout + finished.stderr
    assert finished.returncode == 1 and "has 0 questions; 1 to 8 are allowed" in told
    assert 'File "' not in told


def test_target_that_is_no_folder_is_told(mcpdesk: Run, folder: Path) -> None:
    nobody = mcpdesk("call", "http://127.0.0.1:1/mcp", "greet")
    assert nobody.returncode == 3 and "Connection refused" in nobody.stderr
    assert mcpdesk("call", str(folder / "mcp.json"), "greet").returncode == 2


def test_broken_manifest_is_told_with_line_and_column(mcpdesk: Run, folder: Path) -> None:
    (folder / "mcp.json").write_text('{\n  "name": "small",\n}')
    finished = mcpdesk("call", str(folder), "greet")
    assert finished.returncode == 2
    assert "mcp.json:" in finished.stderr.splitlines()[0]
    assert "Traceback" not in finished.stderr


@pytest.mark.slow
def test_arguments_become_what_the_schema_says(mcpdesk: Run, folder: Path) -> None:
    assert mcpdesk("call", str(folder), "greet", "name=7", "loud=1").stdout == "HELLO, 7!\n"
    assert json.loads(mcpdesk("call", str(folder), "add", "a=1", "b=2").stdout) == {"sum": 3}
    wrong = mcpdesk("call", str(folder), "add", "a=one", "b=2")
    assert wrong.returncode == 1 and "a: has to be an integer, not a string" in wrong.stdout
    named = mcpdesk("call", str(folder), "Greet", "name=Ada")
    assert named.returncode == 4 and "Unknown tool: Greet; did you mean greet?" in named.stderr


def test_a_folder_is_imported_and_run_by_one_thread(mcpdesk: Run, folder: Path) -> None:
    (folder / "tools/rows.py").write_text(
        "import sqlite3\n\nrows = sqlite3.connect(':memory:')\n\n\n"
        "async def version() -> str:\n    return rows.execute('select 6 * 7').fetchone()[0]\n"
    )
    assert mcpdesk("call", str(folder), "version").stdout == "42\n"


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ([], {}),
        (["name=Ada"], {"name": "Ada"}),
        (["name="], {"name": ""}),
        (["query=a=b"], {"query": "a=b"}),
        (["query=a:=b"], {"query": "a:=b"}),
        (["n:=3", "on:=true", "list:=[1, 2]"], {"n": 3, "on": True, "list": [1, 2]}),
        (["nothing:=null"], {"nothing": None}),
        (["text=line one\nline two"], {"text": "line one\nline two"}),
        (["name=first", "name=second"], {"name": "second"}),
    ],
)
def test_words_become_arguments(words: list[str], arguments: dict[str, object]) -> None:
    assert parse_arguments(words) == arguments


@pytest.mark.parametrize("word", ["name", "=x", "n:=", "n:=oops", "n:=" + "[" * 100_000])
def test_word_that_is_no_argument_is_named(word: str) -> None:
    with pytest.raises(DeskUserError) as caught:
        parse_arguments([word])
    assert "key:=json" in caught.value.hint


def test_whole_object_is_a_start_that_words_add_to() -> None:
    assert parse_arguments(["b=2"], '{"a": 1, "b": 1}') == {"a": 1, "b": "2"}


def test_whole_object_comes_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"a": 1}'))
    assert parse_arguments([], "-") == {"a": 1}


@pytest.mark.parametrize("whole", ["[1]", "{", "3"])
def test_whole_has_to_be_an_object(whole: str) -> None:
    with pytest.raises(DeskUserError, match="--input"):
        parse_arguments([], whole)


def test_arguments_of_a_prompt_are_texts() -> None:
    assert texts_only(["text=3"]) == {"text": "3"}
    with pytest.raises(DeskUserError, match="text: a prompt's arguments are texts"):
        texts_only(["text:=3"])


def test_texts_become_what_the_schema_says_and_nothing_else_changes() -> None:
    schema = {
        "properties": {
            "loudly": {"type": "boolean"},
            "count": {"type": "integer"},
            "share": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            "name": {"type": "string"},
            "either": {"type": ["integer", "string"]},
            "tags": {"type": "array"},
            "at": {"$ref": "#/$defs/Point"},
            "level": {"enum": [1, 2]},
            "flag": {"type": ["boolean", "integer"]},
        },
        "$defs": {"Point": {"type": "object"}},
    }
    words = [
        "loudly=1", "count=3", "share=null", "name=5", "either=5", 'tags=["a"]', 'at={"x": 1}', "level=2",
        "flag=1", "unknown=1", "whole:=1",
    ]  # fmt: skip
    given = parse_arguments(words)
    assert fitted(given, given_as_text(words), schema) == {
        "loudly": True, "count": 3, "share": None, "name": "5", "either": "5", "tags": ["a"], "at": {"x": 1},
        "level": 2, "flag": 1, "unknown": "1", "whole": 1,
    }  # fmt: skip
    wrong = ["loudly=maybe", "count=3.5", "tags=a,b"]
    assert fitted(parse_arguments(wrong), given_as_text(wrong), schema) == parse_arguments(wrong)
