"""`mcpdesk call`, `list`, `read` and `prompt`: results, and the exit code of every way to fail."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcpdesk.cli.requests import converted_arguments, parse_arguments
from mcpdesk.errors import DeskUserError
from tests.support.features import needs_feature

if TYPE_CHECKING:
    from tests.cli.conftest import Run

PROMPT = "test_prompt_with_arguments"
CONSTANTS = {
    "properties": {"mixed": {"enum": ["a", 1, None]}, "fixed": {"const": 3}, "word": {"enum": ["1", 1]}}
}
FLAGS = {"properties": {"exact": {"type": "boolean"}, "id": {"type": "string"}}}


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["call", "{}", "greet", "name=Ada", "loud:=true"], "HELLO, ADA!\n"),
        (["call", "{}", "greet", "name=7", "loud=1"], "HELLO, 7!\n"),
        (["read", "{}", "resource://notes"], "# Notes\n"),
        (["prompt", "{}", "summarize", "text=a long tale"], "Please summarize: a long tale\n"),
        (
            ["complete", "sample_servers/conformance", PROMPT, "arg2=x", "arg1=testi"],
            "testing\n",
        ),
    ],
)
def test_result_is_printed(mcpdesk: Run, folder: Path, arguments: list[str], output: str) -> None:
    finished = mcpdesk(*(each.format(folder) for each in arguments))
    assert (finished.stdout, finished.stderr, finished.returncode) == (output, "", 0)


@pytest.mark.process
def test_whole_results_come_as_json(mcpdesk: Run, folder: Path) -> None:
    called = mcpdesk("call", str(folder), "add", "--json", "--input", "-", stdin='{"a": 1, "b": 2}')
    assert json.loads(called.stdout)["structuredContent"] == {"sum": 3}
    read = mcpdesk("read", str(folder), "resource://notes", "--json")
    assert json.loads(read.stdout)["contents"][0]["uri"] == "resource://notes"
    prompt = mcpdesk("prompt", str(folder), "summarize", "text=x", "--json")
    assert json.loads(prompt.stdout)["messages"][0]["role"] == "user"


@pytest.mark.process
def test_stray_print_stays_out_of_the_result(mcpdesk: Run, folder: Path) -> None:
    finished = mcpdesk("call", str(folder), "chatter")
    assert finished.stdout == "said\n"
    assert "a stray print" in finished.stderr
    assert "tools/tools.py:" in finished.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["call", "{}", "refuse"], 1, "not today"),
        (["call", "{}", "greet", "nam=Ada"], 1, "nam"),
        (["call", "{}", "add", "a=one", "b=2"], 1, "a: must be an integer, not a string"),
        (["call", "{}", "greet", "name"], 2, "'name' is not an argument"),
        (["call", "{}/mcp.json", "greet"], 2, "describes a server folder"),
        (["call", "http://127.0.0.1:1/mcp", "greet"], 3, "Connection refused"),
        (["call", "{}", "Greet"], 4, "Unknown tool: Greet; did you mean greet?"),
        (["call", "{}", "wait", "seconds:=20", "--timeout", "0.2"], 5, "within 0.2 s"),
        (["read", "{}", "resource://none"], 4, "resource://none"),
        (["prompt", "{}", "summarize"], 4, "text"),
        (["prompt", "{}", "summarize", "text:=3"], 2, "text: the arguments of a prompt must be text"),
    ],
)
def test_every_way_to_fail_has_its_code(
    mcpdesk: Run, folder: Path, arguments: list[str], code: int, told: str
) -> None:
    finished = mcpdesk(*(each.format(folder) for each in arguments))
    assert finished.returncode == code
    assert told in finished.stdout + finished.stderr
    assert "Traceback" not in finished.stderr


@pytest.mark.process
def test_what_a_built_in_tool_refuses_is_told_without_a_stack(mcpdesk: Run, tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"name": "asking", "builtins": ["AskUserQuestion"]}')
    finished = mcpdesk("call", str(tmp_path), "AskUserQuestion", "questions_json=[]")
    told = finished.stdout + finished.stderr
    assert finished.returncode == 1 and "has 0 questions; 1 to 8 are allowed" in told
    assert 'File "' not in told


@pytest.mark.process
def test_a_folder_is_imported_and_run_by_one_thread(mcpdesk: Run, folder: Path) -> None:
    (folder / "tools/rows.py").write_text(
        "import sqlite3\n\nrows = sqlite3.connect(':memory:')\n\n\n"
        "async def version() -> str:\n    return rows.execute('select 6 * 7').fetchone()[0]\n"
    )
    assert mcpdesk("call", str(folder), "version").stdout == "42\n"


@pytest.mark.process
def test_everything_is_listed_over_all_pages(mcpdesk: Run, folder: Path) -> None:
    finished = mcpdesk("list", str(folder))
    assert finished.returncode == 0, finished.stderr
    for name in ("greet", "add", "refuse", "chatter", "wait", "resource://notes", "summarize"):
        assert f"\n  {name} " in finished.stdout
    assert "Greet somebody." in finished.stdout
    found = json.loads(mcpdesk("list", str(folder), "--json").stdout)
    assert {tool["name"] for tool in found["tools"]} == {"greet", "add", "refuse", "chatter", "wait"}
    assert found["prompts"][0]["arguments"][0]["name"] == "text"


@pytest.mark.process
def test_empty_folder_offers_nothing(mcpdesk: Run, tmp_path: Path) -> None:
    assert mcpdesk("list", str(tmp_path)).stdout == "nothing\n"


@needs_feature("program_tools")
@pytest.mark.process
def test_what_is_not_offered_is_listed_with_its_reason(mcpdesk: Run, folder: Path) -> None:
    lacking = {"stage": "go", "command": "fast", "run": ["no-such-program-here"]}
    modes = {"small": {"tools": ["greet", "go-fast"]}}
    (folder / "mcp.json").write_text(json.dumps({"name": "small", "commands": [lacking], "modes": modes}))
    reason = "needs the program no-such-program-here, which is not installed or not in PATH"
    finished = mcpdesk("list", str(folder))
    assert finished.stdout.endswith(f"\n\nunavailable\n  tool go-fast  {reason}\n")
    found = json.loads(mcpdesk("list", str(folder), "--json", "--mode", "small").stdout)
    assert [tool["name"] for tool in found["tools"]] == ["greet"]
    assert found["unavailable"] == [{"kind": "tool", "name": "go-fast", "reason": reason}]
    refused = mcpdesk("call", str(folder), "add", "a:=1", "b:=1", "--mode", "small")
    assert refused.returncode == 4 and "Unknown tool: add" in refused.stderr


@pytest.mark.process
def test_bytes_are_written_as_they_are(folder: Path, repository: Path) -> None:
    (folder / "resources" / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n\xff")
    command = [sys.executable, "-m", "mcpdesk", "read", str(folder), "resource://dot"]
    (folder / "resources" / "dot.bin").unlink()
    finished = subprocess.run(command, cwd=repository, capture_output=True, timeout=120, check=True)
    assert finished.stdout == b"\x89PNG\r\n\x1a\n\xff"


@pytest.mark.parametrize(
    ("words", "arguments", "texts"),
    [
        ([], {}, set()),
        (["name="], {"name": ""}, {"name"}),
        (["query=a=b"], {"query": "a=b"}, {"query"}),
        (["query=a:=b"], {"query": "a:=b"}, {"query"}),
        (["n:=3", "on:=true", "list:=[1, 2]"], {"n": 3, "on": True, "list": [1, 2]}, set()),
        (["nothing:=null"], {"nothing": None}, set()),
        (["text=line one\nline two"], {"text": "line one\nline two"}, {"text"}),
        (["name=first", "name:=2"], {"name": 2}, set()),
        (["tag=a", "tag=b", "tag=c"], {"tag": ["a", "b", "c"]}, {"tag"}),
    ],
)
def test_words_become_arguments(words: list[str], arguments: dict[str, object], texts: set[str]) -> None:
    assert parse_arguments(words) == (arguments, texts)


@pytest.mark.parametrize("word", [
        "name", "=x", "n:=", "n:=oops", "n:=" + "[" * 100_000, "n:=NaN", "n:=1e400", 'n:={"a": 1, "a": 2}',
        'n:="\\ud800"', "n=\udcff", "\udcff=n",
    ],
)  # fmt: skip
def test_word_that_is_no_argument_is_named(word: str) -> None:
    with pytest.raises(DeskUserError) as caught:
        parse_arguments([word])
    assert "key:=json" in caught.value.hint


def test_whole_object_is_a_start_that_words_add_to(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_arguments(["b=2"], '{"a": 1, "b": 1}') == ({"a": 1, "b": "2"}, {"b"})
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"a": 1}'))
    assert parse_arguments([], "-") == ({"a": 1}, set())
    for whole in ("[1]", "{", "3", '{"a": NaN}', '{"a": 1, "a": 2}'):
        with pytest.raises(DeskUserError, match="--input") as caught:
            parse_arguments([], whole)
        assert "Ada" in caught.value.hint


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
            "limit": {"type": "integer", "nullable": True},
            "sizes": {"type": "array", "items": {"type": "integer"}},
            "odd": {"type": None},
        },
        "$defs": {"Point": {"type": "object"}},
    }
    words = [
        "loudly=1", "count=3", "share=null", "name=5", "either=5", 'tags=["a"]', 'at={"x": 1}', "level=2",
        "flag=1", "unknown=1", "whole:=1", "limit=null", "sizes=1", "sizes=2", "odd=1",
    ]  # fmt: skip
    assert converted_arguments(*parse_arguments(words), schema) == {
        "loudly": True, "count": 3, "share": None, "name": "5", "either": "5", "tags": ["a"], "at": {"x": 1},
        "level": 2, "flag": 1, "unknown": "1", "whole": 1, "limit": None, "sizes": [1, 2], "odd": "1",
    }  # fmt: skip
    with pytest.raises(DeskUserError, match="count: given 2 times"):
        converted_arguments(*parse_arguments(["count=1", "count=2"]), schema)
    assert converted_arguments(*parse_arguments(["mixed=1", "fixed=3", "word=1"]), CONSTANTS) == {
        "mixed": 1, "fixed": 3, "word": "1",
    }  # fmt: skip
    for composed in ({"allOf": [FLAGS]}, {"anyOf": [{}, FLAGS]}, {"if": {}, "then": FLAGS}):
        assert converted_arguments(*parse_arguments(["exact=yes", "id=5"]), composed) == {
            "exact": True,
            "id": "5",
        }
    wrong, texts = parse_arguments(["loudly=maybe", "count=3.5", "tags=a,b"])
    assert converted_arguments(wrong, texts, schema) == wrong


@pytest.mark.process
@pytest.mark.parametrize("words", [["prompt", "p", "a=1", "a=2"], ["complete", "p", "a=1", "a=2", "b="]])
def test_an_argument_of_a_prompt_is_given_once(mcpdesk: Run, words: list[str]) -> None:
    done = mcpdesk(words[0], "folder", *words[1:])
    assert done.returncode == 2 and "a: given 2 times" in done.stderr


IMAGE = {"type": "image", "data": "%", "mimeType": "image/png"}
ODD_RESULTS = """
import json, sys
TOOL = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": json.loads(sys.argv[1])}
for line in sys.stdin:
    asked = json.loads(line)
    result = {"tools": [TOOL]}
    if asked["method"] == "initialize":
        about = {"serverInfo": {"name": "x", "version": "1"}, "capabilities": {"tools": {}}}
        result = {"protocolVersion": "2025-06-18", **about}
    elif asked["method"] == "tools/call":
        result = json.loads(sys.argv[2])
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"content": []}, "the tool declares an output schema, but its result has no structuredContent"),
        (
            {"content": [], "structuredContent": {"n": "1"}},
            "structuredContent breaks the output schema: n: ",
        ),
        (
            {"content": [IMAGE], "structuredContent": {}},
            "content 0: the data of the image",
        ),
    ],
)
def test_a_result_that_breaks_the_protocol_is_printed_with_its_fault(
    mcpdesk: Run, tmp_path: Path, result: dict[str, Any], said: str
) -> None:
    program = tmp_path / "odd.py"
    program.write_text(ODD_RESULTS)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    words = ["--", sys.executable, str(program), json.dumps(schema), json.dumps(result)]
    done = mcpdesk("call", "t", *words)
    assert done.returncode == 0 and f"warning: {said}" in done.stderr
    told = json.loads(mcpdesk("call", "t", "--json", *words).stdout)
    assert told["content"] == result["content"] and told["remarks"][0]["text"].startswith(said)


ODD_PROMPTS = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    result = {"prompts": [{"name": "p"}]}
    if asked["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"prompts": {}, "completions": {}}}
        result["serverInfo"] = {"name": "x", "version": "1"}
    elif asked["method"] == sys.argv[1]:
        result = json.loads(sys.argv[2])
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.mark.process
def test_odd_messages_and_suggestions_are_shown_with_their_fault(mcpdesk: Run, tmp_path: Path) -> None:
    program = tmp_path / "odd.py"
    program.write_text(ODD_PROMPTS)
    told = {"messages": [{"role": "system", "content": {"type": "text", "text": "hi"}}]}
    words = ["--", sys.executable, str(program), "prompts/get", json.dumps(told)]
    done = mcpdesk("prompt", "p", *words)
    assert done.returncode == 0 and done.stdout == "hi\n"
    assert "warning: message 0: the protocol has no role 'system'" in done.stderr
    assert json.loads(mcpdesk("prompt", "p", "--json", *words).stdout)["remarks"][0]["kind"] == "result"
    words = ["--", sys.executable, str(program), "completion/complete", '{"values": ["a"]}']
    done = mcpdesk("complete", "p", "a=x", *words)
    assert done.returncode == 4 and 'no list completion.values. It sent: {"values": ["a"]}' in done.stderr
    words = [
        "--",
        sys.executable,
        str(program),
        "completion/complete",
        '{"completion": {"values": [null, "a"]}}',
    ]
    assert mcpdesk("complete", "p", "a=x", *words).stdout == "null\na\n"
