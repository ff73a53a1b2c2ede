"""Python modules and `fastmcp.json` files as targets, and the environment that runs them."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcpdesk.cli.main import run, with_command
from mcpdesk.cli.reach import agreement
from mcpdesk.client.config_files import ConfigFile, read_config
from mcpdesk.client.configs.python_commands import (
    RUNNER,
    module_command,
    module_files,
    module_target,
    python_of,
)
from mcpdesk.client.discovery import discover
from mcpdesk.client.targets import CommandTarget, find_target
from mcpdesk.client.trust import UntrustedFileError
from mcpdesk.errors import DeskUserError
from mcpdesk.upstream.target_transport import Reach
from tests.support.folders import write
from tests.support.patience import WITHIN_S
from tests.support.trusting import agree

if TYPE_CHECKING:
    from tests.cli.conftest import Run

SERVER = '''
import os
import sys

from mcp.server import MCPServer

served = MCPServer("project")


@served.tool()
def facts() -> str:
    """Say what is known."""
    return " ".join([*sys.argv[1:], os.environ.get("WORD", "-"), os.path.basename(os.getcwd())])


def make():
    return served
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {"acme/__init__.py": "", "acme/srv.py": SERVER, "src/other/tool.py": "", "data.json": "{}"}
    return write(tmp_path / "project", files)


def entry_target(project: Path, name: str = "fastmcp.json", **document: Any) -> Any:
    path = project / name
    path.write_text(json.dumps({"source": {"path": "acme/srv.py"}, **document}))
    [server] = read_config(path).servers
    return server


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("acme.srv", ("acme.srv", "")),
        ("acme.srv:app", ("acme.srv", "app")),
        ("other.tool", ("other.tool", "")),
        ("module:json", ("json", "")),
        ("module:json.tool:run", ("json.tool", "run")),
        ("acme", None),
        ("acme.missing", None),
        ("acme.srv:not valid", None),
        ("data.json", None),
        ("srv.py", None),
        ("example.com", None),
        ("../acme.srv", None),
    ],
)
def test_a_module_is_recognised(project: Path, text: str, expected: object) -> None:
    assert module_target(text, project) == expected


def test_the_package_of_a_module_is_watched(project: Path) -> None:
    assert module_files("acme.srv", project) == (project / "acme",)
    assert module_files("other.tool", project) == (project / "src" / "other",)
    assert module_files("json.tool", project) == ()


def test_a_folder_that_others_can_write_to_provides_no_python(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_environment(project / ".venv")
    assert python_of(project) == (python,)
    project.chmod(0o777)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    assert python_of(project) != (python,)


def test_dash_m_is_read_only_in_front_of_the_target(project: Path) -> None:
    assert with_command(["-m", "acme.srv"]) == ["desk", "module:acme.srv"]
    assert with_command(["call", "-m", "acme.srv", "t"]) == ["call", "module:acme.srv", "t"]
    assert with_command(["call", "x", "t", "-m", "y"]) == ["call", "x", "t", "-m", "y"]
    assert module_target("a." * 300 + "b", project) is None


def test_the_name_of_a_module_is_checked(project: Path) -> None:
    for name in ("", "a-b", "a..b", "-c", "a b"):
        with pytest.raises(DeskUserError, match="not the name of a module"):
            module_command(name, "", (), project)


def make_environment(folder: Path) -> str:
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    python.parent.mkdir(parents=True)
    python.touch()
    return str(python)


def test_the_environment_of_the_project_is_used(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    monkeypatch.setenv("POETRY_VIRTUALENVS_PATH", str(tmp_path / "poetry"))
    inner = project / "acme"
    active = make_environment(tmp_path / "active")
    assert python_of(inner) == (active,)
    (project / "poetry.lock").touch()
    digest = base64.urlsafe_b64encode(hashlib.sha256(str(project.resolve()).encode()).digest()).decode()
    made_by_poetry = make_environment(tmp_path / "poetry" / f"acme-{digest[:8]}-py3.12")
    assert python_of(inner) == (made_by_poetry,)
    plain = make_environment(project / "venv")
    assert python_of(inner) == (plain,)
    usual = make_environment(project / ".venv")
    assert python_of(inner) == (usual,)
    own = make_environment(inner / ".venv")
    assert python_of(inner) == (own,)


def test_a_project_of_uv_without_an_environment_is_run_by_uv(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(uv.parent))
    (project / "uv.lock").touch()
    assert python_of(project / "acme") == (str(uv), "run", "--project", str(project), "python")
    settings = {
        "python": ">=3.12",
        "dependencies": ["pandas"],
        "editable": ["."],
        "requirements": "needs.txt",
        "project": ".",
    }
    server = entry_target(project, environment=settings)
    assert server.argv[:-3] == (
        str(uv),
        "run",
        "--python=>=3.12",
        "--with=pandas",
        f"--with-editable={project}",
        f"--with-requirements={project / 'needs.txt'}",
        f"--project={project}",
        "python",
    )
    assert server.argv[-3:] == (str(RUNNER), str(project / "acme/srv.py"), "")


def test_a_fastmcp_file_is_a_configuration_with_one_server(project: Path) -> None:
    deployment = {"env": {"WORD": "w", "PORT": 8000}, "cwd": "src", "args": ["--x"], "transport": "http"}
    server = entry_target(
        project, source={"path": "acme/srv.py", "entrypoint": "make"}, deployment=deployment
    )
    assert (server.name, server.problem) == ("project", "")
    assert server.argv[-3:] == (str(project / "acme/srv.py"), "make", "--x")
    assert (server.environment, server.folder) == ({"WORD": "w", "PORT": "8000"}, str(project / "src"))
    assert entry_target(project, "prod.fastmcp.json").name == "prod"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"source": {"path": 7}}, "path must be a string"),
        ({"source": {"type": "git", "path": "acme/srv.py"}}, "source.type is 'git'; allowed: filesystem"),
        ({"environment": {"type": "docker"}}, "environment.type is 'docker'; allowed: uv"),
        ({"environment": []}, "environment must be an object"),
        ({"environment": {"dependencies": "pandas"}}, "dependencies must be a list"),
        ({"deployment": {"env": {"A": []}}}, "env.A must be a string"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(project: Path, document: Any, problem: str) -> None:
    assert problem in entry_target(project, **document).problem


@pytest.mark.parametrize("path", ["none.py", "x" * 300, "a/" * 5000, "\ud800"])
def test_the_file_of_a_server_is_looked_up_only_after_the_person_agrees(
    project: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def refuse(config: ConfigFile) -> None:
        raise DeskUserError("not trusted")

    configuration = project / ".mcp.json"
    looked_up = list[Path]()
    look_up = Path.is_file

    def is_file(path: Path) -> bool:
        looked_up.append(path)
        return look_up(path)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "is_file", is_file)
        server = entry_target(project, configuration.name, source={"path": path})
        assert server.problem == "" and server.argv[0] == "python"
        with pytest.raises(DeskUserError, match="not trusted"):
            find_target(str(configuration), {}, lambda variable: "", refuse)
    environments = {"poetry.lock", "uv.lock"}  # beside the file, and not named by it
    assert not [each for each in looked_up if each != configuration and each.name not in environments]
    with pytest.raises(DeskUserError, match=r"^mcp: source\.path: "):
        find_target(str(configuration), {}, lambda variable: "", agree)
    assert [each.path for each in discover(project.parent, project, {}).servers] == [configuration]


def test_a_trusted_file_is_run_by_the_python_of_its_project(project: Path) -> None:
    entry_target(project)
    python = make_environment(project / ".venv")
    found = find_target(str(project / "fastmcp.json"), {}, lambda variable: "", agree)
    assert isinstance(found, CommandTarget) and found.argv[:2] == (python, str(RUNNER))


def test_trust_in_a_file_does_not_cover_an_environment_that_appears_later(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MCPDESK_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("MCPDESK_TRUST", raising=False)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    entry_target(project)
    file = project / "fastmcp.json"

    def found() -> CommandTarget:
        target = find_target(str(file), {}, lambda variable: "", agreement(Reach()))
        assert isinstance(target, CommandTarget)
        return target

    assert run(["trust", str(file), "--yes"]) == 0
    before = found().argv[0]
    planted = make_environment(project / ".venv")
    with pytest.raises(UntrustedFileError) as refused:
        found()
    assert planted in refused.value.file.lines[0], "the question names the Python"
    assert before != planted
    assert run(["trust", str(file), "--yes"]) == 0
    assert found().argv[0] == planted
    capfd.readouterr()
    make_environment(project / "acme" / ".venv")
    assert found().argv[0] == planted, "an environment beside the Python file is not used"


@pytest.mark.process
def test_a_missing_module_has_a_hint(mcpdesk: Run, tmp_path: Path) -> None:
    file = tmp_path / "needy.py"
    file.write_text("import not_there.at_all\n")
    failed = mcpdesk("list", str(file))
    assert failed.returncode == 3
    assert "Python finds no module 'not_there'" in failed.stderr and "--with not_there" in failed.stderr
    unknown = mcpdesk("list", "-m", "not_there_either.server")
    assert unknown.returncode == 3 and "finds no module 'not_there_either'" in unknown.stderr
    assert mcpdesk("list", "-m").returncode == 2


@pytest.mark.slow  # the SDK takes long to import
def test_modules_and_fastmcp_files_are_served(project: Path) -> None:
    def facts(*target: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mcpdesk", "call", *target],
            cwd=project, capture_output=True, text=True, timeout=WITHIN_S * 10, check=False,
            env={**os.environ, "VIRTUAL_ENV": sys.prefix, **environ},
        )  # fmt: skip

    assert facts("acme.srv:served", "facts").stdout == "- project\n"
    assert facts("-m", "acme.srv", "facts").stdout == "- project\n"
    deployment = {"env": {"WORD": "w"}, "cwd": "src", "args": ["--x"]}
    entry_target(project, source={"path": "acme/srv.py", "entrypoint": "make"}, deployment=deployment)
    refused = facts("fastmcp.json", "facts", MCPDESK_TRUST="false")
    assert refused.returncode != 0 and "mcpdesk trust" in refused.stderr
    assert facts("fastmcp.json", "facts", "--trust").stdout == "--x w src\n"
