"""The command `mcpdesk stdio`: its options, and its refusals in one sentence."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.patience import WITHIN_S
from tests.support.stdio_server import PROGRAM, Server, noisy_folder

if TYPE_CHECKING:
    from tests.cli.conftest import Service


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A server folder whose tools write where they should not."""
    return noisy_folder(tmp_path / "served")


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    """Those started are ended."""
    started: list[Server] = []
    yield started
    for server in started:
        server.close()


def test_alone_means_a_core_of_its_own(folder: Path, servers: list[Server]) -> None:
    results = []
    for _ in range(2):
        server = Server(folder, "--alone")
        servers.append(server)
        server.shake_hands()
        results.append(server.ask("tools/call", {"name": "who", "arguments": {}}, 2)["result"])
    assert results[0] != results[1]


def refused(*arguments: str) -> str:
    """What it says on stderr when it refuses to start."""
    answer = subprocess.run(
        [*PROGRAM, "stdio", *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=WITHIN_S
    )
    assert (answer.returncode, answer.stdout) == (2, b"")
    assert b"Traceback" not in answer.stderr
    return answer.stderr.decode()


def test_missing_folder_is_told(tmp_path: Path) -> None:
    assert "missing" in refused(str(tmp_path / "missing"))


def test_bad_manifest_is_told_with_its_line(folder: Path) -> None:
    (folder / "mcp.json").write_text('{"name": "x",\n  oops}')
    assert "mcp.json:2:3" in refused(str(folder))


def test_unknown_mode_is_told(folder: Path) -> None:
    assert "no mode 'review'" in refused(str(folder), "--mode", "review")


def test_unknown_mode_is_told_by_a_desk_too(folder: Path, serve: Callable[..., Service]) -> None:
    serve(str(folder), "--port", "0").says("serving noisy")
    assert "no mode 'review'" in refused(str(folder), "--mode", "review")
