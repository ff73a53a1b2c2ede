"""Every error in an entry of `commands` is reported with its line, and leaves out only that entry."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.errors import MissingPrecondition, RegistrationError
from mcpdesk.features.program_tools.command_argv import Placeholder
from mcpdesk.features.program_tools.command_tools import CommandEntry, ReadyCommand
from mcpdesk.hosting.folder.manifest import read_manifest

GOOD: dict[str, Any] = {
    "stage": "image",
    "command": "size",
    "run": ["{python}", "size.py", "--width", "{width}", "{input}"],
    "parameters": {"properties": {"input": {"type": "string"}, "width": {"type": "integer"}}},
}
"""Each on a separate line: `stage` on line 4, and so on."""


def entry(place: Path, **changes: Any) -> CommandEntry:
    given = {key: value for key, value in (GOOD | changes).items() if value is not ...}
    body = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in given.items())
    (place / "mcp.json").write_text(f'{{"name": "x",\n"commands": [\n{{\n{body}\n}}]}}')
    return CommandEntry(read_manifest(place), 0, {"PATH": "/usr/bin:/bin", "SET": "1"})


def ready(place: Path, **changes: Any) -> ReadyCommand:
    return entry(place, **changes).ready()


def test_entry_is_a_program_with_a_schema(tmp_path: Path) -> None:
    made = ready(tmp_path, timeout_ms=500, progress="percent", annotations={"readOnlyHint": True})
    assert (made.name, made.program, made.folder) == ("image-size", sys.executable, tmp_path)
    assert made.run == (("size.py",), ("--width",), (Placeholder("width"),), (Placeholder("input"),))
    assert made.schema["type"] == "object" and made.schema["additionalProperties"] is False
    assert made.unused == ()
    assert entry(tmp_path).source() == "mcp.json:3"


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("changes", "line", "complaint"),
    [
        ({"run": ...}, 3, "lacks the key run"),
        ({"run": "ls"}, 6, "run: must be a list"),
        ({"run": ["ls", 5]}, 6, "run[1]: must be a text"),
        ({"run": []}, 6, "run: is empty"),
        ({"run": [""]}, 6, "run[0]: the program has no name"),
        ({"run": ["{input}"]}, 6, "run[0]: the program itself cannot be an argument"),
        ({"run": ["{python}x"]}, 6, "run[0]: the program itself cannot be an argument"),
        ({"run": ["ls", "{inptu}"]}, 6, "no parameter 'inptu'; did you mean input?"),
        ({"run": ["ls", "{zzz}"]}, 6, "no parameter 'zzz'; parameters: input, width"),
        ({"run": ["ls", "{a"]}, 6, "run[1]: '{a' has a '{' that is not a placeholder"),
        ({"run": ["ls", "--{input}"]}, 6, "run[1]: a value must not become the name of an option"),
        ({"run": ["ls", "a\0b"]}, 6, "run[1]: must not contain a NUL"),
        ({"stage": "a b"}, 4, "stage: 'a b' is not allowed"),
        ({"stage": 5}, 4, "stage: must be a text"),
        ({"command": ""}, 5, "command: '' is not allowed"),
        ({"command": "c" * 200}, 5, "more than 128 characters"),
        ({"parameters": []}, 7, "parameters: must be an object"),
        ({"parameters": {"type": "array"}}, 7, 'parameters.type: must contain "type": "object"'),
        ({"parameters": {"properties": []}}, 7, "parameters.properties: must be an object"),
        ({"parameters": {"properties": {"folder": {}}}}, 7, "'folder' is a built-in placeholder"),
        (
            {"parameters": {"properties": {"input": {"type": "txt"}, "width": {}}}},
            7,
            "not a valid JSON Schema",
        ),
        ({"folder": "nowhere"}, 8, "folder: the server folder has no folder 'nowhere'"),
        ({"folder": "../.."}, 8, "folder: '../..' leaves the server folder"),
        ({"produces": ["/etc/x"]}, 8, "produces[0]: must be in the working folder"),
        ({"produces": ["a/../../{input}"]}, 8, "produces[0]: must be in the working folder"),
        ({"produces": [""]}, 8, "produces[0]: is empty"),
        ({"produces": ["{folder}/x"]}, 8, "produces[0]: paths are already relative"),
        ({"produces": ["{nope}"]}, 8, "no parameter 'nope'"),
        ({"progress": "lines"}, 8, "progress: 'lines' is not allowed; allowed: json-lines, percent"),
        ({"timeout_ms": 0}, 8, "timeout_ms: must be from 1 to 86400000, not 0"),
        ({"timeout_ms": 1.5}, 8, "timeout_ms: must be a whole number"),
        ({"environment": ["A B"]}, 8, "environment: 'A B' is not a variable name"),
        ({"requires_env": ["A="]}, 8, "requires_env: 'A=' is not a variable name"),
        ({"annotations": {"readOnly": True}}, 8, "annotations.readOnly: 'readOnly' cannot be True"),
        ({"annotations": {"readOnlyHint": "yes"}}, 8, "'readOnlyHint' cannot be 'yes'"),
        ({"timeout": 5}, 8, "timeout: unknown key; did you mean timeout_ms?"),
        ({"shell": "ls"}, 8, "shell: unknown key; allowed: stage, command, run"),
        ({"task": "maybe"}, 8, "task: 'maybe' is not allowed; allowed: optional, required"),
    ],
)
def test_mistake_is_named_with_its_line(
    tmp_path: Path, changes: dict[str, Any], line: int, complaint: str
) -> None:
    with pytest.raises(RegistrationError) as caught:
        ready(tmp_path, **changes)
    assert complaint in caught.value.message
    assert caught.value.source == f"mcp.json:{line}"
    assert not isinstance(caught.value, MissingPrecondition)


@pytest.mark.parametrize("given", [5, None, "ls", ["ls"]])
def test_entry_that_is_no_object_is_named(tmp_path: Path, given: Any) -> None:
    (tmp_path / "mcp.json").write_text(json.dumps({"commands": [GOOD, given]}))
    wrong = CommandEntry(read_manifest(tmp_path), 1, {})
    assert wrong.name == "commands[1]"
    with pytest.raises(RegistrationError, match="must be an object"):
        wrong.ready()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"run": ["no-such-program-here"]}, "needs the program no-such-program-here, which is not installed"),
        ({"run": ["bin/no"]}, "needs the program bin/no, which does not exist"),
        ({"run": ["{folder}/no"]}, "/no, which does not exist"),
        ({"run": ["plain.txt"]}, "needs the program plain.txt, which is not installed"),
        ({"run": ["./plain.txt"]}, "needs the program ./plain.txt, which is not executable (use chmod +x)"),
        ({"requires_env": ["SET", "NOT_SET"]}, "needs NOT_SET, an environment variable that is not set"),
    ],
)
def test_what_is_not_there_is_no_mistake(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    (tmp_path / "plain.txt").write_text("text")
    parameters: dict[str, Any] = {"properties": {}}
    with pytest.raises(MissingPrecondition) as caught:
        ready(tmp_path, parameters=parameters, **({"run": ["ls"]} | changes))
    assert reason in caught.value.message
    assert caught.value.source.startswith("mcp.json:")


def test_program_is_found_in_path_or_in_the_folder(tmp_path: Path) -> None:
    own = tmp_path / "bin" / "own"
    own.parent.mkdir()
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    parameters: dict[str, Any] = {"properties": {}}
    assert ready(tmp_path, run=["ls"], parameters=parameters).program in ("/usr/bin/ls", "/bin/ls")
    for text in ("bin/own", "./bin/own", "{folder}/bin/own", str(own)):
        assert Path(ready(tmp_path, run=[text], parameters=parameters).program).samefile(own)
    assert Path(ready(tmp_path, run=["./own"], folder="bin", parameters=parameters).program).samefile(own)
