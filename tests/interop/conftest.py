"""Real programs for real clients to talk to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.official import ROOT, Place, place_of, state_of
from tests.support.patience import WITHIN_S
from tests.support.workshop import workshop


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workshop, shared by the tests of a module because they do not change it."""
    return workshop(tmp_path_factory.mktemp("place") / "workshop")


@pytest.fixture
def place(request: pytest.FixtureRequest, folder: Path) -> Place:
    """Place a client connects to, by the name of the way: one of `WAYS`."""
    url = "" if request.param == "stdio" else request.getfixturevalue("served")
    return place_of(request.param, url, folder)


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[str]:
    """`mcpdesk serve` on the workshop; yields the URL of its endpoint."""
    state = state_of(folder)
    state.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "mcpdesk", "serve", str(folder), "--port", "0"],
        cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "MCPDESK_STATE_DIR": str(state)},
    ) as process:  # fmt: skip
        assert process.stderr is not None
        said: list[str] = []
        for line in process.stderr:
            said.append(line)
            if found := re.search(r"serving workshop at (\S+)", line):
                yield found[1]
                break
        else:
            raise AssertionError("".join(said))
        process.terminate()
        process.stderr.read()
        assert process.wait(WITHIN_S) == 0
