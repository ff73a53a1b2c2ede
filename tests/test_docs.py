"""The documents are correct: their commands run, their tables match the program's own."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from PIL import Image

from mcpdesk.cli.main import COMMANDS
from mcpdesk.client.hints import BY_STATUS
from mcpdesk.feature_table import FEATURES
from mcpdesk.hosting.folder.manifest import read_manifest
from mcpdesk.tools import BUILTINS
from mcpdesk.tui.actions import ACTIONS, key_name
from mcpdesk.version import __version__
from tests.cli.conftest import Service
from tests.support import manifest_schema
from tests.support.features import needs_all_features
from tests.support.reference_pages import PAGES
from tests.support.terminal import Desk

pytestmark = needs_all_features

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mcpdesk"
PATH = re.compile(r"/[a-z.][\w./-]*")
README = (ROOT / "README.md").read_text()
REPOSITORY = "https://github.com/mcpdesk/mcpdesk"
RAW = "https://raw.githubusercontent.com/mcpdesk/mcpdesk/main/"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
BLOCKS = [re.sub(r"(?m)^ +", "", block) for block in re.findall(r"(?ms)^ *```sh\n(.*?)^ *```", README)]
SYMBOLS = {
    "?": "question_mark",
    ">": "greater_than_sign",
    "/": "slash",
    ".": "full_stop",
    "[": "left_square_bracket",
    "]": "right_square_bracket",
}


def commands() -> list[str]:
    """Every `mcpdesk ...` line of the README's code blocks."""
    lines = "\n".join(BLOCKS).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("mcpdesk ")]


def run(line: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a line of the README with this environment's program."""
    words = [sys.executable, "-m", "mcpdesk", *shlex.split(line)[1:]]
    return subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_first_block_starts_the_desk_and_the_second_runs_the_tests() -> None:
    first, second = (block.strip() for block in BLOCKS[:2])
    assert "pip install -e ." in first and first.endswith("mcpdesk")
    assert "-e '.[test]'" in second and ".venv/bin/pytest" in second


@pytest.mark.process
def test_gate_runs_the_readmes_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    found = re.search(r"awk '(.*?)' README.md", script)
    assert found is not None
    awk = subprocess.run(["awk", found[1], "README.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert awk.stdout == BLOCKS[1]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_readme_has_commands() -> None:
    assert len(commands()) >= 4


@pytest.mark.process
@pytest.mark.parametrize("line", commands())
def test_command_of_the_readme_works(line: str) -> None:
    finished = run(line)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout


@pytest.mark.process
def test_command_without_arguments_opens_the_desk_on_the_sample() -> None:
    with Desk(["--port", "0"], columns=100, rows=30) as desk:
        desk.see("Built-in tools")
        desk.press("\x11")
        assert desk.end() == 0


@pytest.mark.process
def test_tool_of_the_readme_works(tmp_path: Path) -> None:
    found = re.search(r"(?s)```python\n# mine/(\S+)\n(.*?)```", README)
    assert found is not None
    path = tmp_path / "mine" / found[1]
    path.parent.mkdir(parents=True)
    path.write_text(found[2])
    finished = run("mcpdesk call mine greet name=Ada loud:=true", tmp_path)
    assert finished.stdout == "HELLO, ADA!\n", finished.stderr


@pytest.mark.process
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_line_of_the_readme_works() -> None:
    line = next(block for block in BLOCKS if block.startswith("curl "))
    service = Service("sample_servers/hello", "--port", "0")
    try:
        url = service.says("serving hello at").rpartition(" ")[2]
        command = line.replace("http://127.0.0.1:3333/mcp/hello", url)
        answer = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, timeout=120, check=True
        )
        assert '"greet"' in answer.stdout
    finally:
        service.end()
        assert service.process.stderr is not None
        service.process.stderr.close()


def test_picture_is_there() -> None:
    found = re.findall(r"!\[.*?\]\((\S+)\)", README)
    assert found and all(each.startswith(RAW) for each in found)
    assert (ROOT / found[0].removeprefix(RAW)).read_text().lstrip().startswith("<svg")
    assert all((ROOT / each.removeprefix(RAW)).exists() for each in found)


def test_links_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)[^):]*\)", page.read_text()):
            assert (page.parent / target).exists(), f"{target} in {page}"


def test_addresses_of_the_project_are_all_of_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["urls"]) == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    assert all(each.startswith(REPOSITORY) for each in project["urls"].values())


@pytest.mark.parametrize("name", PAGES)
def test_page_made_from_the_program_is_up_to_date(name: str) -> None:
    made = PAGES[name]()
    assert (ROOT / "docs" / name).read_text() == made, "run: python -m tests.support.reference_pages"


def test_every_command_is_in_the_documents() -> None:
    documents = README + "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    for command in COMMANDS:
        assert f"mcpdesk {command}" in documents or command == "desk", command


def paths_of(tree: ast.Module) -> set[str]:
    """Paths of URLs that a module compares with or begins with."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in prose)
    return {node.value for node in texts if isinstance(node.value, str) and PATH.fullmatch(node.value)}


def test_every_endpoint_is_in_the_documents() -> None:
    documented = re.findall(r"`(/[^`]*)`", (ROOT / "docs" / "endpoints.md").read_text())
    features = [PACKAGE / "features" / name for name, members in FEATURES.items() if "http_routes" in members]
    folders = [PACKAGE / "transports" / "http", *features]
    modules = [module for folder in folders for module in folder.rglob("*.py")]
    served = set[str]().union(*(paths_of(ast.parse(path.read_text())) for path in modules))
    assert {"/health", "/status", "/v1/mcp", "/dashboard"} <= served
    lacking = [path for path in served if not any(f"{path.rstrip('/')}/" in f"{it}/" for it in documented)]
    assert lacking == [], "describe them in docs/endpoints.md"


def test_schema_of_manifests_accepts_what_the_program_accepts(tmp_path: Path) -> None:
    schema = jsonschema.Draft202012Validator(manifest_schema.manifest_schema())
    for sample in (ROOT / "sample_servers").glob("*/mcp.json"):
        schema.validate(json.loads(sample.read_text()))
    right: list[dict[str, Any]] = [
        {"$schema": "mcp.schema.json", "name": "a", "builtins": ["Bash"], "settings": {"page_size": 40}},
        {"approvals": {"*": "ask"}, "modes": {"few": {"tools": ["a"]}}},
        {"commands": [{"stage": "a", "command": "b", "run": ["c"]}]},
    ]
    wrong: list[dict[str, Any]] = [
        {"nmae": "a"},
        {"name": "a b"},
        {"builtins": ["bash"]},
        {"approvals": {"*": "perhaps"}},
        {"modes": {"few": {}}},
        {"settings": {"prot": 1}},
        {"settings": {"port": 1}},
        {"settings": {"approvals": ["Bash=allow"]}},
        {"commands": [{"stage": "a", "command": "b"}]},
    ]
    for content in (*right, *wrong):
        assert schema.is_valid(content) is (content in right), content
    for content in right:
        (tmp_path / "mcp.json").write_text(json.dumps(content))
        read_manifest(tmp_path)


def test_keys_of_the_readme_are_the_programs() -> None:
    keys = {key.strip() for action in ACTIONS for key in action.keys.split(",")}
    section = README.partition("## Start")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([^`\s])`", section))
    assert len(named) >= 4
    assert {SYMBOLS.get(key, key) for key in named} <= keys


def test_extras_for_users_are_listed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = re.findall(
        r"(?m)^\| `(\w+)` \|", (ROOT / "docs" / "install.md").read_text().partition("## Extras")[2]
    )
    assert set(listed) == set(project["optional-dependencies"]) - {"dev", "docs", "test"}


def test_every_builtin_tool_is_listed() -> None:
    page = (ROOT / "docs" / "built-in-tools.md").read_text()
    assert {name for name in BUILTINS if f"`{name}`" not in page} == set()


def test_every_status_with_a_hint_has_a_remedy() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    assert [status for status in BY_STATUS if str(status) not in page] == []


def test_tour_begins_with_the_desk_as_it_is() -> None:
    """The recorder stores the text of the first picture in the file: the README shows that one first."""
    with Image.open(ROOT / "docs" / "tour.gif") as picture:
        shown = picture.info["comment"].decode()
    assert "loop stuck" not in shown and "Call ^r" in shown
    footer = re.split(" {2,}", shown.splitlines()[-1].strip())
    actions = {f"{key_name(key)} {each.title}" for each in ACTIONS for key in each.keys.split(",")}
    assert len(footer) > 5 and [each for each in footer if each not in actions] == []


def test_every_action_has_a_title_and_a_group() -> None:
    for action in ACTIONS:
        assert action.title and action.group, action.id


def test_every_package_is_in_the_picture_of_the_code() -> None:
    packages = {path.parent.name for path in (ROOT / "mcpdesk").glob("*/__init__.py")}
    for package in packages:
        assert f"`{package}`" in CONTRIBUTING, package


def test_changelog_knows_the_version_or_what_comes() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    told = re.findall(r"(?m)^## \[([^]]+)\](?: - (\d{4}-\d\d-\d\d))?$", text)
    assert __version__ in dict(told) or "Unreleased" in dict(told)
    assert all(day for name, day in told if name != "Unreleased")
    assert all(f"\n[{name}]: {REPOSITORY}/" in text for name, _ in told if name != "Unreleased")
