"""Arguments as they are typed."""

from __future__ import annotations

import io
import sys

import pytest

from mcpdesk.cli.arguments import fitted, given_as_text, parse_arguments, texts_only
from mcpdesk.errors import DeskUserError


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
