"""`mcpdesk skill`: its text is true, and it is written where agents look for skills."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
import frontmatter
import pytest

from mcpdesk.cli.main import COMMANDS, program, run
from mcpdesk.cli.skill_command import FOLDERS, SKILL
from tests.support.features import needs_feature

if TYPE_CHECKING:
    from tests.cli.conftest import Run

TEXT = SKILL.read_text("utf-8")


def commands() -> list[list[str]]:
    """The words of each command in the skill, after `mcpdesk`."""
    lines = [line.partition("#")[0] for line in TEXT.splitlines() if line.startswith("mcpdesk ")]
    lines += re.findall(r"`(mcpdesk [^`]*)`", TEXT)
    return [shlex.split(line)[1:] for line in lines]


@needs_feature("cases")
@needs_feature("contract")
@needs_feature("doctor")
@needs_feature("exports")
@needs_feature("tap")
def test_every_command_of_the_skill_exists_with_its_options() -> None:
    seen = set[str]()
    for name, *words in commands():
        assert name in COMMANDS
        seen.add(name)
        command = program.get_command(click.Context(program), name)
        assert command is not None
        options = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= options, name
    assert {"doctor", "list", "call", "wrap", "open", "export", "check", "test"} <= seen


def test_the_skill_has_the_fields_that_agents_require() -> None:
    fields = frontmatter.loads(TEXT).metadata
    assert fields["name"] == SKILL.parent.name == "mcpdesk"
    assert 50 < len(str(fields["description"])) <= 1024


@pytest.mark.parametrize("agent", list(FOLDERS))
def test_the_skill_is_written_once_and_updated(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    for base, option in ((tmp_path / "home", []), (project, ["--project"])):
        path = base / FOLDERS[agent] / "mcpdesk" / "SKILL.md"
        arguments = ["skill", "--install", agent, *option]
        assert run(arguments) == 0 and path.read_text("utf-8") == TEXT
        assert run(arguments) == 0
        path.write_text("an older version")
        assert run(arguments) == 0 and path.read_text("utf-8") == TEXT
        assert capsys.readouterr().out == f"written: {path}\nunchanged: {path}\nupdated: {path}\n"


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".agents").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["skill", "--install", "codex"]) == 2
    assert f"{tmp_path}/.agents/skills/mcpdesk/SKILL.md cannot be written" in capsys.readouterr().err
    assert run(["skill", "--project"]) == 2
    assert run(["skill", "--install", "netscape"]) == 2


@needs_feature("cases")
@pytest.mark.process
def test_the_case_of_the_skill_passes(mcpdesk: Run, tmp_path: Path) -> None:
    folder = tmp_path / "my-server"
    assert mcpdesk("new", str(folder)).returncode == 0
    [case] = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    (folder / "cases").mkdir(exist_ok=True)
    (folder / "cases" / "hello.yaml").write_text(case)
    tested = mcpdesk("test", str(folder), "--only", "hello.yaml")
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert mcpdesk("skill").stdout == TEXT
