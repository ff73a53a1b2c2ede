"""`mcpdesk new`: the folder runs at once; invalid names and used paths are errors."""

from __future__ import annotations

import json
import shlex
from errno import ENOSPC
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcpdesk.cli.authoring import new
from mcpdesk.cli.authoring.folder_source import as_argument
from mcpdesk.cli.authoring.new import new_command
from mcpdesk.cli.main import COMMANDS
from mcpdesk.errors import DeskUserError
from tests.support.features import having
from tests.support.terminal import Desk

if TYPE_CHECKING:
    from tests.cli.conftest import Run


@pytest.mark.process
def test_new_folder_runs(mcpdesk: Run, tmp_path: Path) -> None:
    place = tmp_path / "my-server.v2"
    made = mcpdesk("new", str(place))
    assert made.returncode == 0, made.stderr
    manifest = json.loads((place / "mcp.json").read_text())
    assert (manifest["name"], manifest["title"]) == ("my-server.v2", "My server.v2")
    shelves = json.loads(mcpdesk("list", str(place), "--json").stdout)
    assert {tool["name"] for tool in shelves["tools"]} == {"greet", "InvokeSkill"}
    assert "skill://welcome/SKILL.md" in {each["uri"] for each in shelves["resources"]}
    prompt = mcpdesk("prompt", str(place), "introduce", "name=Ada", "tone=formal")
    assert "Introduce Ada in three sentences" in prompt.stdout
    skill = mcpdesk("call", str(place), "InvokeSkill", "skill_name=welcome", "arguments=Ada")
    assert "Welcome Ada" in skill.stdout


@pytest.mark.process
def test_commands_it_prints_work(mcpdesk: Run, tmp_path: Path) -> None:
    made = mcpdesk("new", str(tmp_path / "demo")).stdout
    first, second, *tests = (shlex.split(line) for line in made.split("Next:\n")[1].splitlines())
    assert first == ["mcpdesk", str(tmp_path / "demo")]
    assert [mcpdesk(*words[1:]).returncode for words in tests] == [*having("cases", 0)]
    assert mcpdesk(*second[1:]).stdout == "Hello, Ada!\n"
    for line in made.split("\n\n")[0].splitlines()[1:]:
        assert (tmp_path / "demo" / line.strip()).is_file()


@pytest.mark.process
@pytest.mark.parametrize("part", ["tools", "resources", "prompts", "skills"])
def test_a_part_and_its_tests_are_all_that_is_made(mcpdesk: Run, tmp_path: Path, part: str) -> None:
    place = tmp_path / "demo"
    made = mcpdesk("new", str(place), "--with", f"tests, {part}")
    assert made.returncode == 0, made.stderr
    assert {each.name for each in place.iterdir()} == {"mcp.json", "cases", part}
    assert ("greet" in made.stdout) == (part == "tools")


@pytest.mark.process
@pytest.mark.parametrize("parts", ["tool", "tests", "", "tools,,prompts"])
def test_parts_there_are_not_are_refused(mcpdesk: Run, tmp_path: Path, parts: str) -> None:
    refused = mcpdesk("new", str(tmp_path / "demo"), "--with", parts)
    assert refused.returncode == 2 and "--with: " in refused.stderr and not list(tmp_path.iterdir())


@pytest.mark.slow
def test_desk_opens_on_the_new_folder(mcpdesk: Run, tmp_path: Path) -> None:
    mcpdesk("new", str(tmp_path / "demo"))
    with Desk([str(tmp_path / "demo"), "--port", "0"], columns=100, rows=30) as desk:
        desk.see("Greet a person by name.")
        desk.press("\x11")
        assert desk.end() == 0


def test_commands_of_disabled_features_are_not_recommended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(COMMANDS, "test", raising=False)
    assert new_command.main([str(tmp_path / "demo")], standalone_mode=False) == 0
    shown = capsys.readouterr().out
    assert "  mcpdesk call " in shown and "mcpdesk test" not in shown


def test_folder_named_like_a_command_is_shown_as_a_place() -> None:
    assert as_argument("serve") == "./serve"
    assert as_argument("a/serve") == "a/serve"


@pytest.mark.process
@pytest.mark.parametrize(
    "name", ["a b", "", ".", "..", ".hidden", "-x", "x-", "ä", "a/b c", "x" * 65, "http://x/y"]
)
def test_odd_name_is_refused_with_what_is_allowed(mcpdesk: Run, tmp_path: Path, name: str) -> None:
    finished = mcpdesk("new", "--", str(tmp_path / name) if name in (".hidden",) else name)
    assert finished.returncode == 2
    assert "Invalid server name" in finished.stderr and "Allowed: letters" in finished.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_taken_place_stays_as_it_is(mcpdesk: Run, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name, told in (
        ("folder", "A folder"),
        ("file", "A file"),
        ("link", "A file"),
    ):
        finished = mcpdesk("new", str(tmp_path / name))
        assert finished.returncode == 2
        assert f"{told} '{tmp_path / name}' already exists." in finished.stderr
    assert (tmp_path / "file").read_text() == "mine" and list((tmp_path / "folder").iterdir()) == []
    lost = mcpdesk("new", str(tmp_path / "no" / "where"))
    assert f"Folder '{tmp_path / 'no'}' does not exist." in lost.stderr


def test_nothing_stays_of_a_folder_that_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(target: Path, data: bytes) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    place = tmp_path / "half"
    with pytest.raises(DeskUserError, match="cannot be written: No space left on device"):
        new.make_from_sample(place)
    assert not place.exists()
