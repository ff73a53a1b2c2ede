"""A small server folder the commands are tried on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.patience import WITHIN_S

ROOT = Path(__file__).parents[2]
FILES = {
    "mcp.json": '{"name": "small", "version": "1.2.3", "settings": {"page_size": 2}}',
    "tools/tools.py": '''
        import asyncio

        async def greet(name: str, loud: bool = False) -> str:
            """Greet somebody.

            Args:
                name: Who to greet.
                loud: Whether to shout.
            """
            return f"Hello, {name}!".upper() if loud else f"Hello, {name}!"

        async def add(a: int, b: int) -> dict[str, int]:
            """Add two numbers."""
            return {"sum": a + b}

        async def refuse() -> str:
            """Always fail."""
            raise ValueError("not today")

        async def chatter() -> str:
            """Print something on the way."""
            print("a stray print")
            return "said"

        async def wait(seconds: float) -> str:
            """Take a while."""
            print("waiting")
            await asyncio.sleep(seconds)
            return "waited"
        ''',
    "resources/notes.md": "---\ndescription: Some notes.\n---\n# Notes\n",
    "resources/dot.bin": "\x01\x02",
    "prompts/summarize.md": """
        ---
        description: Summarize a text.
        arguments:
          - name: text
            required: true
        ---
        Please summarize: {{text}}
        """,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder `small`."""
    place = tmp_path / "small"
    for name, text in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(textwrap.dedent(text).lstrip("\n"))
    return place


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def mcpdesk() -> Run:
    """Runs the real program and returns how it ended."""

    def run(*arguments: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mcpdesk", *arguments],
            cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=120, check=False,
            env={**os.environ, **environ},
        )  # fmt: skip

    return run


class Service:
    """A running `mcpdesk serve`; `lines` holds its output so far."""

    def __init__(self, *arguments: str, program: str = "mcpdesk") -> None:
        """`program` is the module that takes the command line."""
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", program, "serve", *arguments],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def says(self, words: str) -> str:
        """Wait for a line that contains `words`; the end of the program is the bound."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())
            if words in line:
                return line.rstrip()
        raise AssertionError(f"never said {words!r}: {self.lines}")

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the exit code."""
        self.process.send_signal(number)
        return self.process.wait(WITHIN_S)


@contextmanager
def started_services() -> Iterator[Callable[..., Service]]:
    """Starts services, and ends them with the block."""
    started: list[Service] = []

    def start(*arguments: str) -> Service:
        started.append(Service(*arguments))
        return started[-1]

    try:
        yield start
    finally:
        for service in started:
            service.process.kill()
            service.process.wait()
            assert service.process.stderr is not None
            service.process.stderr.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Service]]:
    """Starts services, and ends them after the test."""
    with started_services() as start:
        yield start
