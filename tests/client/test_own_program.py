"""The command that starts this program from a configuration file: found, recognized, checked and repaired."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mcpdesk.client.configs.own_program import (
    failure_reason,
    is_temporary,
    lasting_command,
    own_arguments,
    source_of,
    started_command,
)
from mcpdesk.errors import DeskUserError
from mcpdesk.hosting.client_config import ServerAddress, client_config


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    """Make a program of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """The cache of uv, as it marks it."""
    place = tmp_path / "uv"
    place.mkdir()
    (place / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55")
    return place


def environ(*folders: Path) -> dict[str, str]:
    return {"PATH": ":".join(map(str, folders))}


def test_the_started_command_is_the_script_that_was_started(tmp_path: Path) -> None:
    script = tmp_path / "mcpdesk"
    script.write_text("#!/bin/sh\n")
    python = tmp_path / "bin" / "python"
    assert started_command(str(script), str(python)) == (str(python), "-m", "mcpdesk")
    script.chmod(0o755)
    assert started_command(str(script), str(python)) == (str(script),)
    assert started_command("/x/__main__.py", str(tmp_path / "python")) == (str(script),)


def test_a_program_that_lasts_is_written_as_it_is(tmp_path: Path) -> None:
    script = program(tmp_path / ".venv" / "bin" / "mcpdesk")
    (tmp_path / ".venv" / "CACHEDIR.TAG").touch()  # so that it is left out of backups
    (tmp_path / ".venv" / "pyvenv.cfg").touch()
    assert lasting_command((str(script),), {}, (), None) == (str(script),)


def test_a_run_from_a_cache_writes_the_runner_and_the_package(cache: Path, tmp_path: Path) -> None:
    own = program(cache / "archive-v0" / "h4sh" / "bin" / "mcpdesk")
    uvx = program(tmp_path / "bin" / "uvx")
    wheel = tmp_path / "dist" / "mcpdesk-0.2.0-py3-none-any.whl"
    found = environ(own.parent, uvx.parent)
    assert lasting_command((str(own),), found, (), "mcpdesk") == (str(uvx), "mcpdesk")
    expected = (str(uvx), "--from", str(wheel), "mcpdesk")
    assert lasting_command((str(own),), found, (), str(wheel)) == expected
    pipx = program(tmp_path / "other" / "pipx")
    found = environ(own.parent, pipx.parent)
    assert lasting_command((str(own),), found, (), "mcpdesk") == (str(pipx), "run", "mcpdesk")
    assert lasting_command((str(own),), found, (), "x")[2:] == ("--spec", "x", "mcpdesk")


def test_an_installed_program_goes_before_the_runner(cache: Path, tmp_path: Path) -> None:
    own = program(cache / "archive-v0" / "h4sh" / "bin" / "mcpdesk")
    tool = program(tmp_path / "tools" / "mcpdesk" / "bin" / "mcpdesk")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mcpdesk").symlink_to(tool)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "mcpdesk").symlink_to(own)  # to the cache: it does not last
    program(tmp_path / "bin" / "uvx")
    found = environ(own.parent, tmp_path / "links", tmp_path / "bin")
    assert lasting_command((str(own),), found, (), "mcpdesk") == (str(tmp_path / "bin" / "mcpdesk"),)


@pytest.mark.parametrize("source", ["mcpdesk", None])
def test_where_nothing_lasts_a_sentence_refuses(cache: Path, tmp_path: Path, source: str | None) -> None:
    own = program(cache / "archive-v0" / "h4sh" / "bin" / "mcpdesk")
    uvx = program(tmp_path / "temporary" / "uvx")
    found = environ(own.parent, uvx.parent)
    with pytest.raises(DeskUserError, match=r"temporary environment .*h4sh") as caught:
        lasting_command((str(own),), found, (tmp_path / "temporary",), source)
    assert "uv tool install mcpdesk" in caught.value.hint
    named = found | {"MCPDESK_PROGRAM": "nix run 'my desk' --"}
    assert lasting_command((str(own),), named, (tmp_path,), None) == ("nix", "run", "my desk", "--")


def test_temporary_places_are_recognized(cache: Path, tmp_path: Path) -> None:
    for place in (cache / "environments-v2" / "x" / "bin" / "python", tmp_path / ".cache" / "a" / "mcpdesk"):
        assert is_temporary(place, ())
    assert is_temporary(tmp_path / "x", (tmp_path,)) and not is_temporary(tmp_path / "x", ())
    assert not is_temporary(tmp_path / ".cache" / "pypoetry" / "virtualenvs" / "a" / "bin" / "python", ())


def test_the_package_is_found_again_where_it_came_from(tmp_path: Path) -> None:
    wheel = tmp_path / "a b" / "mcpdesk.whl"
    wheel.parent.mkdir()
    told = json.dumps({"url": wheel.as_uri(), "archive_info": {}})
    assert source_of(told, ()) is None
    wheel.touch()
    assert source_of(told, ()) == str(wheel) and source_of(told, (tmp_path,)) is None
    vcs = {"url": "https://x.test/a", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}}
    assert source_of(json.dumps(vcs), ()) == "git+https://x.test/a@c0ffee"
    assert (
        source_of(json.dumps({"url": "https://x.test/a.whl", "archive_info": {}}), ())
        == "https://x.test/a.whl"
    )
    assert source_of(None, ()) == "mcpdesk" and source_of("{", ()) is None


STARTS = [
    ("/opt/mcpdesk", ()),
    ("C:/x/mcpdesk.exe", ()),
    ("/usr/bin/python3", ("-m", "mcpdesk")),
    ("/bin/uvx", ("mcpdesk",)),
    ("uvx", ("--from", "/w/mcpdesk.whl", "mcpdesk")),
    ("uvx", ("mcpdesk@0.2.0",)),
    ("uv", ("tool", "run", "mcpdesk")),
    ("pipx", ("run", "--spec", "mcpdesk==0.2", "mcpdesk")),
]


@pytest.mark.parametrize(("command", "own"), STARTS)
def test_every_way_to_start_it_is_recognized(command: str, own: tuple[str, ...]) -> None:
    assert own_arguments(command, [*own, "stdio", "/srv"]) == own


@pytest.mark.parametrize("args", [["other", "stdio"], ["run", "mcpdesk"], ["--from"], [], "mcpdesk"])
def test_other_programs_of_a_runner_are_not_it(args: object) -> None:
    assert own_arguments("uvx", args) is None


def test_a_command_that_will_not_start_has_a_reason(cache: Path, tmp_path: Path) -> None:
    lasting = program(tmp_path / "bin" / "mcpdesk", "#!/bin/sh\n")
    assert failure_reason((str(lasting),), {}, ()) == ""
    assert "does not exist" in failure_reason((str(tmp_path / "gone" / "mcpdesk"),), {}, ())
    assert "in a cache" in failure_reason((str(program(cache / "a" / "mcpdesk")),), {}, ())
    assert "not on the PATH" in failure_reason(("no-such-mcpdesk",), {}, ())
    broken = program(tmp_path / "old" / "mcpdesk", "#!/gone/python3.9 -sE\n")
    assert "/gone/python3.9" in failure_reason((str(broken),), {}, ())
    long = program(
        tmp_path / "long" / "mcpdesk", "#!/bin/sh\n'''exec' '/gone/a b/python' \"$0\" \"$@\"\n' '''\n"
    )
    assert "/gone/a b/python" in failure_reason((str(long),), {}, ())
    uvx = program(tmp_path / "bin" / "uvx")
    assert "package" in failure_reason((str(uvx), "--from", str(tmp_path / "no.whl"), "mcpdesk"), {}, ())
    assert failure_reason((str(uvx), "mcpdesk"), {}, ()) == ""
    assert (
        failure_reason(
            (sys.executable, "-m", "mcpdesk"), {"MCPDESK_PROGRAM": f"{sys.executable} -m mcpdesk"}, ()
        )
        == ""
    )


@pytest.mark.parametrize(
    "command",
    ["${workspaceFolder}/.venv/bin/mcpdesk", ".venv/bin/mcpdesk", "~/bin/mcpdesk", "{env:PYTHON}", "$PYTHON"],
)
def test_a_command_that_only_the_client_resolves_counts_as_alive(command: str) -> None:
    assert failure_reason((command,), {}, ()) == ""


def test_a_configuration_is_refused_where_the_program_does_not_last(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = program(cache / "archive-v0" / "h4sh" / "bin" / "mcpdesk")
    monkeypatch.delenv("MCPDESK_PROGRAM")
    monkeypatch.setattr(sys, "argv", [str(own)])
    monkeypatch.setenv("PATH", str(own.parent))
    with pytest.raises(DeskUserError, match="temporary environment"):
        client_config("cursor", ServerAddress("s", "/srv"))
    assert "mcp/s" in client_config("cursor", ServerAddress("s", "/srv", "http://h/mcp/s"), "http")
