"""`mcpdesk pack`: a bundle that starts where it is unpacked, and its entry for the registry."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcpdesk.errors import DeskUserError
from mcpdesk.features.packaging import bundle
from mcpdesk.version import __version__
from tests.support.published_schemas import faults
from tests.support.registries import needs_python_package

if TYPE_CHECKING:
    from tests.cli.conftest import Run

TOOLS = '''
# /// script
# dependencies = ["msgspec>=0.19"]
# ///
from mcpdesk import tool


@tool
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


@tool(requires_env=["PACK_TEST_TOKEN"])
async def send(text: str) -> str:
    """Send it."""
    return text
'''
PUBLISH = {
    "name": "io.github.ada/tea-house",
    "author": "Ada",
    "license": "MIT",
    "repository": "https://github.com/ada/tea",
}


EXTRA = {"PIL": "pillow", "bs4": "beautifulsoup4", "markdownify": "markdownify"}
"""Modules and packages of the extra that a bundle has only for the built-in tools that need them."""
OF_TOOLS = re.compile(r"""extra == ["']tools["']""")


@pytest.fixture
def tea(tmp_path: Path) -> Path:
    """A folder with everything that goes into a bundle, and everything that does not."""
    folder = tmp_path / "tea"
    files = {
        "mcp.json": json.dumps(
            {
                "name": "tea-house",
                "title": "Tea house",
                "version": "1.2.0-beta.1",
                "description": "Tea. " * 40,
                "websiteUrl": "https://tea.example",
                "icons": [{"src": "https://tea.example/icon.png", "mimeType": "image/png"}],
                "publish": PUBLISH,
                "requires": ["packaging>=20"],
            }
        ),
        "tools/greet.py": TOOLS,
        "prompts/brew.md": "---\ndescription: Brew.\n---\nBrew {{leaf}}.",
        "skills/pour/SKILL.md": "---\nname: pour\ndescription: Pour tea.\n---\nPour.",
        "mcpdesk-env.txt": "PACK_TEST_TOKEN=secret\n",
        "scorpiox-env.txt": "PACK_TEST_TOKEN=secret\n",
        ".env": "A=b",
        ".git/config": "x",
        "tools/__pycache__/greet.pyc": "x",
        "tools/greet.py~": "x",
        "private.pem": "x",
        "old.jsonl": '{"capture":3,"part":1}\n',
        "rows.jsonl": '{"row":1}\n',
        "tea-0.1.mcpb": "x",
        "node_modules/x/index.js": "x",
        "cases/greet.yaml": "- tool: greet\n",
        "mcp.lock.json": '{"version": 1}',
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "leak.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "outside").symlink_to(tmp_path)
    return folder


def packed(mcpdesk: Run, folder: Path, *arguments: str) -> tuple[Path, str]:
    """Path of the bundle, and the output of the command."""
    file = folder.parent / "dist" / "tea.mcpb"
    finished = mcpdesk("pack", str(folder), "--output", str(file), *arguments)
    assert (finished.returncode, finished.stderr) == (0, ""), finished.stderr
    return file, finished.stdout


def read(file: Path, name: str) -> dict[str, Any]:
    with zipfile.ZipFile(file) as archive:
        found: dict[str, Any] = json.loads(archive.read(name))
        return found


@pytest.mark.process
def test_a_bundle_has_the_folder_and_neither_secrets_nor_leftovers(mcpdesk: Run, tea: Path) -> None:
    file, told = packed(mcpdesk, tea)
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
    assert names == [
        "manifest.json",
        "main.py",
        "pyproject.toml",
        f"wheels/mcpdesk-{__version__}+runtime-py3-none-any.whl",
        "servers/tea-house/mcp.json",
        "servers/tea-house/prompts/brew.md",
        "servers/tea-house/rows.jsonl",
        "servers/tea-house/skills/pour/SKILL.md",
        "servers/tea-house/tools/greet.py",
    ]
    left_out = {line.split()[0] for line in told.partition("left out\n")[2].splitlines()}
    assert left_out == {
        ".env", ".git/", "leak.txt", "mcpdesk-env.txt", "node_modules/", "old.jsonl", "outside/",
        "cases/", "scorpiox-env.txt", "mcp.lock.json", "private.pem", "tea-0.1.mcpb", "tools/__pycache__/",
        "tools/greet.py~",
    }  # fmt: skip
    assert f"5 files, {file.stat().st_size} bytes, SHA-256 {digest(file)}" in told


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.process
def test_manifest_and_registry_entry_are_what_their_schemas_say(mcpdesk: Run, tea: Path) -> None:
    file, _ = packed(mcpdesk, tea)
    manifest, entry = read(file, "manifest.json"), json.loads((file.parent / "server.json").read_text())
    assert faults("mcpb-manifest-0.4", manifest) == []
    assert faults("server-2025-12-11", entry) == []
    assert (manifest["name"], manifest["author"], manifest["license"]) == (
        "tea-house",
        {"name": "Ada"},
        "MIT",
    )
    assert [each["name"] for each in manifest["tools"]] == ["greet", "send"]
    assert manifest["server"]["mcp_config"]["env"] == {"PACK_TEST_TOKEN": "${user_config.pack_test_token}"}
    assert manifest["user_config"]["pack_test_token"]["sensitive"] is True
    assert (entry["name"], entry["version"]) == ("io.github.ada/tea-house", "1.2.0-beta.1")
    assert len(entry["description"]) <= 100 and entry["repository"]["source"] == "github"
    (package,) = entry["packages"]
    assert package["identifier"] == "https://github.com/ada/tea/releases/download/v1.2.0-beta.1/tea.mcpb"
    assert package["fileSha256"] == digest(file)
    assert package["environmentVariables"][0]["name"] == "PACK_TEST_TOKEN"
    assert "secret" not in json.dumps(entry).replace("isSecret", "")
    with zipfile.ZipFile(file) as archive:
        project = archive.read("pyproject.toml").decode()
    read_project = tomllib.loads(project)
    assert read_project["project"]["version"] == "1.2.0b1"
    assert read_project["project"]["dependencies"] == ["mcpdesk", "packaging>=20", "msgspec>=0.19"]
    with zipfile.ZipFile(file) as archive:
        assert read_project["tool"]["uv"]["sources"]["mcpdesk"]["path"] in archive.namelist()


@pytest.mark.process
@pytest.mark.parametrize(
    ("builtins", "needed"), [(["Bash"], "mcpdesk"), (["Bash", "ReadImage"], "mcpdesk[tools]")]
)
def test_a_bundle_needs_the_libraries_of_its_built_in_tools_alone(
    mcpdesk: Run, tmp_path: Path, builtins: list[str], needed: str
) -> None:
    folder = tmp_path / "tea"
    folder.mkdir()
    manifest = {"name": "tea", "version": "1.0.0", "builtins": builtins, "publish": PUBLISH}
    (folder / "mcp.json").write_text(json.dumps(manifest))
    file, _ = packed(mcpdesk, folder)
    with zipfile.ZipFile(file) as archive:
        project = tomllib.loads(archive.read("pyproject.toml").decode())
    assert project["project"]["dependencies"] == [needed]


def unpacked(file: Path, place: Path) -> Path:
    """A bundle as a client unpacks it; returns the wheel in it."""
    with zipfile.ZipFile(file) as archive:
        archive.extractall(place)
    project = tomllib.loads((place / "pyproject.toml").read_text())
    wheel: str = project["tool"]["uv"]["sources"]["mcpdesk"]["path"]
    return place / wheel


def empty_environment(place: Path, wheel: Path) -> Path:
    """Create an environment with only a wheel and its requirements; return its Python.

    The requirements are those of this environment, where mcpdesk is a path and not a package.
    """
    venv.create(place, symlinks=True)
    python = place / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = place / "lib" / version / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
        (info,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        required = archive.read(info).decode()
    for name in ("textual", "rich", "prometheus_client", *EXTRA):
        lines = [line for line in required.splitlines() if f"Requires-Dist: {EXTRA.get(name, name)}" in line]
        assert lines == [] or (name in EXTRA and all(OF_TOOLS.search(line) for line in lines))
        (site / f"{name}.py").write_text(f'raise ImportError("{name} is not in a bundle")\n')
    assert "Requires-Dist: aiohttp" in required and "Provides-Extra: tools" in required
    assert required.count("extra ==") == len(OF_TOOLS.findall(required))
    (site / "required.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.mark.slow
def test_an_unpacked_bundle_starts_where_only_its_wheel_is(mcpdesk: Run, tea: Path, tmp_path: Path) -> None:
    file, _ = packed(mcpdesk, tea)
    shutil.rmtree(tea)
    place = tmp_path / "installed here"
    python = empty_environment(tmp_path / "empty", unpacked(file, place))
    config = read(file, "manifest.json")["server"]["mcp_config"]
    arguments = [each.replace("${__dirname}", str(place)) for each in config["args"]]
    assert (config["command"], arguments) == ("uv", ["run", "--directory", str(place), "main.py"])
    # uv runs the script with a Python that has the wheel, from the folder of the bundle; so does this.
    program = tmp_path / "uv"
    program.write_text(f'#!/bin/sh\ncd "$3" && exec "{python}" "$4"\n')
    program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    where = "import mcpdesk; print(mcpdesk.__file__)"
    shown = subprocess.run([python, "-c", where], cwd=place, capture_output=True, text=True, check=True)
    assert shown.stdout.startswith(str(tmp_path / "empty"))
    root = {"PATH": path, "PACK_TEST_TOKEN": "x"}
    called = mcpdesk("call", "greet", "name=Ada", "--", "uv", *arguments, **root)
    assert (called.returncode, called.stdout) == (0, "Hello, Ada!\n"), called.stderr
    listed = json.loads(mcpdesk("list", "--json", "--", "uv", *arguments, **root).stdout)
    assert [each["name"] for each in listed["tools"]] == ["greet", "send"]
    assert [each["frontmatter"]["name"] for each in listed["skills"]] == ["pour"]


@pytest.mark.slow
def test_uv_starts_a_bundle_as_its_manifest_says(mcpdesk: Run, tea: Path, tmp_path: Path) -> None:
    needs_python_package("jsonschema-rs")
    file, _ = packed(mcpdesk, tea)
    place = tmp_path / "installed"
    unpacked(file, place)
    config = read(file, "manifest.json")["server"]["mcp_config"]
    arguments = [each.replace("${__dirname}", str(place)) for each in config["args"]]
    made = [
        "uv",
        "sync",
        "--quiet",
        "--directory",
        str(place),
    ]  # a client waits longer than `call` for packages
    subprocess.run(made, stdin=subprocess.DEVNULL, check=True, timeout=150)
    called = mcpdesk("call", "greet", "name=Ada", "--", "uv", *arguments, PACK_TEST_TOKEN="x")
    assert (called.returncode, called.stdout) == (0, "Hello, Ada!\n"), called.stderr
    assert not list((place / ".venv").rglob("site-packages/textual"))


@pytest.mark.process
def test_the_same_folder_makes_the_same_bytes(mcpdesk: Run, tea: Path, tmp_path: Path) -> None:
    first, _ = packed(mcpdesk, tea)
    one = first.read_bytes()
    again = tmp_path / "other_processes" / "tea"
    shutil.copytree(tea, again, symlinks=True)
    for path in again.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(0o600)
            os.utime(path, (1, 1))
    other, _ = packed(mcpdesk, again)
    assert other.read_bytes() == one


@pytest.mark.process
def test_mistakes_are_those_that_check_tells(mcpdesk: Run, tea: Path) -> None:
    (tea / "tools" / "bad.py").write_text("def nothing(:\n")
    out = tea.parent / "dist" / "x.mcpb"
    refused = mcpdesk("pack", str(tea), "--output", str(out))
    checked = mcpdesk("check", str(tea))
    mistakes = [line for line in checked.stdout.splitlines() if ": error: " in line]
    assert refused.returncode == checked.returncode == 1 and mistakes
    assert refused.stdout.splitlines() == mistakes
    assert not out.exists()
    (tea / "tools" / "bad.py").unlink()
    (tea / "mcp.json").write_text('{"name": "tea", "publish": {"name": "no slash"}}')
    refused, checked = mcpdesk("pack", str(tea)), mcpdesk("check", str(tea))
    assert (refused.returncode, refused.stderr) == (checked.returncode, checked.stderr)
    assert "publish.name: 'no slash' is not allowed; write one like io.github.ada/profiles" in refused.stderr


@pytest.mark.process
def test_what_is_secret_in_a_file_that_is_needed_is_a_mistake(mcpdesk: Run, tea: Path) -> None:
    (tea / "keys.py").write_text(f'KEY = "ghp_{"a" * 36}"\n')
    manifest = json.loads((tea / "mcp.json").read_text()) | {"settings": {"api_key": "sesame"}}
    (tea / "mcp.json").write_text(json.dumps(manifest, indent=1))
    refused = mcpdesk("pack", str(tea), "--output", str(tea.parent / "x.mcpb"))
    assert refused.returncode == 1 and not (tea.parent / "x.mcpb").exists()
    lines = refused.stdout.splitlines()
    assert "keys.py: error: seems to contain a token or a private key" in lines
    assert any(
        line.startswith("mcp.json:") and "settings.api_key: a bundle must not contain a secret" in line
        for line in lines
    )
    assert "sesame" not in refused.stdout


def test_a_link_to_a_file_that_is_left_out_is_left_out(tea: Path) -> None:
    for name, target in (
        ("settings.txt", ".env"),
        ("notes.txt", ".git/config"),
        ("again.jsonl", "rows.jsonl"),
    ):
        (tea / name).symlink_to(target)
    found = bundle.folder_files(tea)
    reason = "a link to a file that is left out"
    assert {("settings.txt", reason), ("notes.txt", reason)} <= set(found.left_out)
    assert not {"settings.txt", "notes.txt"} & found.files.keys() and "again.jsonl" in found.files


def test_a_folder_over_the_bounds_is_refused_with_its_largest_files(
    tea: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "MAX_BYTES", 3 << 20)
    (tea / "film.bin").write_bytes(bytes(4 << 20))
    with pytest.raises(DeskUserError) as caught:
        bundle.folder_files(tea)
    assert "at most 5000 files with 3 MiB together" in caught.value.message
    assert caught.value.hint.startswith("The largest: film.bin (4194304 bytes)")


@pytest.mark.process
def test_what_is_missing_for_the_registry_is_told(mcpdesk: Run, tmp_path: Path) -> None:
    assert mcpdesk("new", str(tmp_path / "plain"), "--with", "tools").returncode == 0
    made = mcpdesk("pack", str(tmp_path / "plain"), "--output", str(tmp_path / "plain.mcpb"))
    assert made.returncode == 0
    assert "the registry rejects the name localhost/plain" in made.stderr
    assert "has no download URL of the bundle" in made.stderr
    entry = json.loads((tmp_path / "server.json").read_text())
    assert faults("server-2025-12-11", entry) == []
    assert faults("mcpb-manifest-0.4", read(tmp_path / "plain.mcpb", "manifest.json")) == []
    taken = mcpdesk(
        "pack", str(tmp_path / "plain"), "--output", str(tmp_path / "plain" / "mcp.json" / "x.mcpb")
    )
    assert taken.returncode == 2 and "cannot be written" in taken.stderr
    assert "See --output." in taken.stderr


@pytest.mark.process
def test_the_url_of_the_bundle_can_be_given(mcpdesk: Run, tea: Path) -> None:
    url = "https://x.example/tea.mcpb"
    file, _ = packed(mcpdesk, tea, "--url", url)
    assert json.loads((file.parent / "server.json").read_text())["packages"][0]["identifier"] == url
