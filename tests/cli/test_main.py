"""Tests that the command is found, and of the messages if it is not."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from mcpdesk.cli.main import COMMANDS, GROUPS, program, run, with_command
from mcpdesk.errors import DeskUserError
from mcpdesk.settings import SETTINGS
from mcpdesk.version import __version__
from tests.support.features import needs_all_features

ROOT = Path(__file__).parents[2]


@pytest.mark.sampled(10)
@pytest.mark.parametrize("first", [*COMMANDS, "--help", "-h", "--version"])
def test_command_stays_first(first: str) -> None:
    assert with_command([first, "x"]) == [first, "x"]


@pytest.mark.parametrize("arguments", [[], ["."], ["./serve"], ["--port", "0"], ["https://a.example/mcp"]])
def test_anything_else_is_for_the_desk(arguments: list[str]) -> None:
    assert with_command(arguments) == ["desk", *arguments]


@pytest.mark.parametrize(
    ("word", "hint"), [("serv", "`mcpdesk serve`"), ("stido", "`mcpdesk stdio`"), ("xyzzy", "mcpdesk --help")]
)
def test_misspelt_command_is_corrected(word: str, hint: str) -> None:
    with pytest.raises(DeskUserError) as caught:
        with_command([word])
    assert hint in caught.value.hint


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    shown = capsys.readouterr().out
    example = shown.partition("Example")[2]
    assert "mcpdesk" in example and (command in example or command == "desk")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in COMMANDS)


def test_help_has_five_groups_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    places = [shown.index(f"\n{title}:\n") for title in GROUPS]
    assert len(places) == 5 and places == sorted(places)
    names = re.findall(r"^  ([\w-]+) {2,}\S", shown[places[0] : shown.index("Examples:")], re.MULTILINE)
    assert names == list(COMMANDS)


@needs_all_features
@pytest.mark.parametrize("command", ["desk", "serve"])
def test_help_shows_ten_options_and_help_all_the_rest(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--help"]) == 0
    brief = capsys.readouterr().out
    options = re.findall(r"^  (?:-\w, )?(--[\w-]+)", brief, re.MULTILINE)
    assert len(options) == 12 and options[10:] == ["--help-all", "--help"]
    assert run([command, "--help-all"]) == 0
    whole = capsys.readouterr().out
    every = re.findall(r"^  (?:-\w, )?(--[\w-]+)", whole, re.MULTILINE)
    assert set(options) < set(every) and "--capture-keep-bytes" in every
    assert f"--help-all shows {len(every) - len(options)} more" in brief


def test_help_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    shown = {}
    for words in (["--help"], ["help"], ["serve", "--help"], ["help", "serve"], ["help", "serve", "--all"],
                  ["serve", "--help-all"], ["help", "call"], ["call", "--help"]):  # fmt: skip
        assert run(words) == 0
        shown[" ".join(words)] = capsys.readouterr().out
    assert shown["help"] == shown["--help"]
    assert shown["help serve"] == shown["serve --help"] != shown["serve --help-all"]
    assert shown["help serve --all"] == shown["serve --help-all"]
    assert shown["help call"] == shown["call --help"]
    assert run(["help", "nothing"]) == 2
    assert "Unknown command 'nothing'" in capsys.readouterr().err


@pytest.mark.slow
def test_options_in_messages_exist() -> None:
    """A sentence of an error names an option of some command, or a setting's flag."""
    context = click.Context(program)
    commands = filter(None, (program.get_command(context, name) for name in COMMANDS))
    known = {option for command in commands for each in command.params for option in each.opts}
    known |= {setting.flag for setting in SETTINGS}
    named: dict[str, str] = {}
    for file in (ROOT / "mcpdesk").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id not in ("DeskUserError", "print_message"):
                    continue
                for part in ast.walk(node):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        found = re.findall(r"(?<![\w-])--[a-z][a-z-]+", part.value)
                        named |= dict.fromkeys(found, f"{file.name}:{part.lineno}")
    assert len(named) > 20
    assert {option: place for option, place in named.items() if option not in known} == {}


def test_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"mcpdesk {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["settings", "--prot", "1"], "--prot"),
        (["settings", "--port", "x"], "port: 'x' (flag --port) is not allowed."),
        (["serve", "/nonexistent"], "No folder or file '/nonexistent'."),
        (["/nonexistent"], "No folder or file '/nonexistent'."),
        (["call"], "Missing argument 'TARGET'"),
        (["--"], "A command must follow `--`."),
        (["list", "--"], "A command must follow `--`."),
        (["nonsense"], "Unknown command or folder 'nonsense'."),
    ],
)
def test_users_mistake_is_told_without_traceback(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert told in captured.err.splitlines()[0]
    assert "Traceback" not in captured.err
    assert captured.out == ""


@pytest.mark.process
def test_reader_that_leaves_is_no_mistake(repository: Path) -> None:
    command = f"{sys.executable} -m mcpdesk settings --explain | true"
    finished = subprocess.run(
        ["bash", "-c", command], cwd=repository, capture_output=True, text=True, timeout=120, check=False
    )
    assert finished.stderr == ""


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "output"),
    [
        ("list sample_servers/hello", ">/dev/full"),
        ("--help", ">/dev/full"),
        ("settings --json", ">/dev/full"),
        ("settings", ">&-"),
    ],
)
def test_output_that_cannot_be_written_ends_with_a_sentence(words: str, output: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("/dev/full does not exist")
    finished = subprocess.run(
        f"{sys.executable} -m mcpdesk {words} {output}",
        shell=True, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert finished.returncode == 2, finished.stderr
    assert finished.stderr.startswith("mcpdesk: The output cannot be written: "), finished.stderr
    assert finished.stderr.count("\n") == 1


@pytest.mark.process
def test_a_full_stderr_leaves_the_exit_code(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("/dev/full does not exist")
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "mcpdesk", "nonsense"]
        finished = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=full, check=False)
    assert (finished.returncode, finished.stdout) == (2, b"")


def test_a_crash_is_told_without_local_values_and_commands_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        token = "".join(("s3cr", "3t"))
        raise RuntimeError(f"\x1b]0;T\x07 {len(token)}")

    monkeypatch.setattr("mcpdesk.cli.main.program.main", broken)
    assert run(["list", "."]) == 1
    told = capsys.readouterr().err
    assert "in broken" in told and "RuntimeError: ␛]0;T␇ 6" in told and "s3cr3t" not in told
