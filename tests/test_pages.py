"""The pages of `docs/` are correct: each is followed from top to bottom in an empty folder.

A block with a `title` becomes that file. A block of `sh` is run: servers run until the page ends;
a command that opens a desk is seen in a terminal and quit. A block of `text` after one of `sh` is its output;
`...` matches anything. Python without a title has to load as the file of a server folder's tools.

Before a block, `<!-- not run: REASON -->` leaves it at a check of the commands in it, or of its syntax, and
`<!-- ends with N -->` says that the exit code is not 0.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import click
import jsonschema
import pytest
import yaml

import mcpdesk
from mcpdesk.cli.main import COMMANDS, program
from mcpdesk.cli.serve import GRACE_S
from mcpdesk.recorder.index import query
from mcpdesk.settings import SETTINGS
from tests.support import manifest_schema
from tests.support.features import needs_all_features
from tests.support.picture import draw_gallery
from tests.support.ports import free_port
from tests.support.terminal import Desk

pytestmark = needs_all_features

ROOT = Path(__file__).parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
FENCE = re.compile(
    r"(?ms)^(?:<!-- (?:(?P<unrun>not run): [^\n]+|ends with (?P<code>\d)) -->\n)?"
    r'(?P<indent> *)```(?P<kind>\w*)(?: title="(?P<title>[^"]+)")?\n'
    r"(?P<text>.*?)^(?P=indent)```$"
)
QUIT = "\x11"


class Block(NamedTuple):
    """One fenced block of a page."""

    kind: str
    title: str
    text: str
    is_run: bool = True
    code: int = 0


def blocks(page: Path) -> list[Block]:
    """Blocks of a page, without their indentation."""
    return [
        Block(
            found["kind"],
            found["title"] or "",
            re.sub(rf"(?m)^{found['indent']}", "", found["text"]),
            found["unrun"] is None,
            int(found["code"] or 0),
        )
        for found in FENCE.finditer(page.read_text())
    ]


def lines(block: Block) -> list[str]:
    """The commands of a block of `sh`."""
    return [line for line in block.text.replace("\\\n", " ").splitlines() if line.strip()]


def command_of(line: str) -> str:
    """Our command in a line; empty if the line starts another program."""
    words = line.split()
    if words[:1] != ["mcpdesk"]:
        return ""
    first = next((word for word in words[1:2] if word in COMMANDS), "desk")
    return "" if words[1:2] in (["--help"], ["--version"]) else first


def check_options(line: str) -> None:
    """Every option of ours in a line is one of its command."""
    command = program.get_command(click.Context(program), command_of(line) or "desk")
    assert command is not None
    known = {option for each in command.params for option in each.opts + each.secondary_opts}
    words = [word.strip(",;.") for word in line.split()]
    for word in words[: words.index("--")] if "--" in words else words:
        if word.startswith("--"):
            assert word.partition("=")[0] in known | {"--help", "--version"}, f"{word} in: {line}"


class Reader:
    """A reader who follows a page."""

    def __init__(self, place: Path, stack: ExitStack) -> None:
        port = free_port()
        self.place = place
        self.stack = stack
        self.here = f"127.0.0.1:{port}"
        self.beside = f"127.0.0.1:{free_port()}"
        self.exports = ""
        self.printed = ""
        self.environ = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(place),
            "MCPDESK_STATE_DIR": str(place / ".state"),
            "MCPDESK_PORT": str(port),
            "COLUMNS": "100",
        }

    def follow(self, block: Block) -> None:
        """Follow the instruction of a block."""
        if block.title and block.is_run:
            self._write(block)
        elif block.kind == "sh":
            self._type(block)
        elif block.kind == "text" and self.printed:
            pattern = re.escape(block.text.strip()).replace(r"\.\.\.", ".*?")
            assert re.search(f"(?ms){pattern}", self.printed), f"{self.printed}\nis not:\n{block.text}"
        elif block.kind == "python" and block.is_run:
            ast.parse(block.text)
            folder = self.place / "loaded"
            (folder / "tools").mkdir(parents=True, exist_ok=True)
            (folder / "tools" / "block.py").write_text(block.text)
            self._type(Block("sh", "", "mcpdesk check loaded"))
        elif block.kind == "python":
            ast.parse(block.text)
        elif block.kind == "filter":
            for line in block.text.splitlines():
                query.parse(line, 0.0)
        elif block.kind == "json":
            json.loads(block.text)
        elif block.kind == "yaml":
            yaml.safe_load(block.text)
        if block.kind not in ("sh", "text"):
            self.printed = ""

    def _write(self, block: Block) -> None:
        path = self.place / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)
        if path.suffix == ".json":
            content = json.loads(block.text)
            if path.name == "mcp.json":
                jsonschema.Draft202012Validator(manifest_schema.manifest_schema()).validate(content)

    def _type(self, block: Block) -> None:
        text = block.text.replace("127.0.0.1:3333", self.here).replace("127.0.0.1:3334", self.beside)
        self.printed = ""
        for line in lines(block):
            if line.startswith("mcpdesk "):
                check_options(line)
        if not block.is_run:
            return
        self.exports += "".join(f"{line}\n" for line in lines(block) if line.startswith("export "))
        command = command_of(lines(block)[0])
        if command == "serve" or "--web" in text:
            self._serve(text)
        elif command in ("desk", "open", "attach"):
            self._look(text)
        else:
            finished = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", self.exports + text],
                cwd=self.place,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=150,
                check=False,
            )
            self.printed = finished.stdout.replace(self.here, "127.0.0.1:3333") + finished.stderr
            assert finished.returncode == block.code, f"{text}\n{self.printed}"

    def _look(self, text: str) -> None:
        with Desk(
            ["-c", self.exports + text],
            program=["bash"],
            environ=self.environ,
            cwd=self.place,
            columns=110,
            rows=30,
        ) as desk:
            desk.see(r"workbench|Workbench|traffic|Traffic")
            desk.press(QUIT)
            assert desk.end() == 0, desk.text

    def _serve(self, text: str) -> None:
        process = subprocess.Popen(
            ["bash", "-c", f"{self.exports}exec {text}"],
            cwd=self.place,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        self.stack.callback(process.stdout.close)
        self.stack.callback(process.wait)
        self.stack.callback(process.terminate)
        for line in process.stdout:
            self.printed += line.replace(self.here, "127.0.0.1:3333")
            if "serving " in line:
                return
        raise AssertionError(f"{text} does not serve:\n{self.printed}")


def followed() -> Iterator[Path]:
    """Pages with something to follow."""
    return (page for page in DOCS if blocks(page))


@pytest.mark.slow
@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem) for page in followed()])
def test_page_can_be_followed(page: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        reader = Reader(tmp_path, stack)
        for block in blocks(page):
            reader.follow(block)


@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem) for page in [ROOT / "README.md", *DOCS]])
def test_commands_in_the_text_have_the_options_named(page: Path) -> None:
    text = FENCE.sub("", page.read_text())
    for line in re.findall(r"`(mcpdesk [^`]+)`", text):
        if line.split()[1] in COMMANDS or "--" in line:
            check_options(line)


def test_every_page_is_in_the_navigation() -> None:
    nav = (ROOT / ".mkdocs.yml").read_text().partition("\nnav:")[2]
    assert sorted(re.findall(r"([\w-]+\.md)", nav)) == [page.name for page in DOCS]


@pytest.mark.slow
async def test_pictures_of_the_gallery_can_be_drawn_anew() -> None:
    drawn = {name: picture async for name, picture in draw_gallery()}
    assert {f"{name}.svg" for name in drawn} == {path.name for path in (ROOT / "docs" / "gallery").iterdir()}
    assert all(picture.startswith("<svg") for picture in drawn.values())


def test_page_of_the_api_has_every_name_authors_import() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    shown = {line.rpartition(".")[2] for line in page.splitlines() if line.startswith("::: ")}
    assert set(mcpdesk.__all__) - shown - {"Meta", "__version__"} == set()


@pytest.mark.process
def test_unit_of_systemd_is_understood(tmp_path: Path) -> None:
    (unit,) = (block for block in blocks(ROOT / "docs" / "production.md") if block.kind == "ini")
    start = next(line for line in unit.text.splitlines() if line.startswith("ExecStart="))
    program_path, _, arguments = start.removeprefix("ExecStart=").partition(" ")
    assert Path(program_path).name == "mcpdesk"
    check_options(f"mcpdesk {arguments}")
    drain_s = next(each.default for each in SETTINGS if each.name == "drain_timeout_s")
    (stop_s,) = re.findall(r"TimeoutStopSec=(\d+)", unit.text)
    assert int(stop_s) >= drain_s + GRACE_S
    if (verifier := shutil.which("systemd-analyze")) is not None:
        place = tmp_path / unit.title
        place.write_text(unit.text.replace(program_path, sys.executable))
        told = subprocess.run(
            [verifier, "verify", "--man=no", place], capture_output=True, text=True, check=False
        )
        assert unit.title not in told.stderr, told.stderr
