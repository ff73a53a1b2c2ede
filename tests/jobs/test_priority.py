"""Programs that stand back."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from mcpdesk.jobs import process
from mcpdesk.jobs.process import NICE, stand_back
from tests.support.patience import WITHIN_S


@pytest.mark.skipif(sys.platform != "linux", reason="sessions have no priority elsewhere")
async def test_a_program_its_children_and_its_session_stand_back() -> None:
    command = "read; nice; nice & wait; cat /proc/self/autogroup 2>/dev/null"
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    await asyncio.wait_for(stand_back(process.pid), WITHIN_S)
    out, _ = await process.communicate(b"\n")
    first, second, *session = out.decode().splitlines()
    wanted = str(NICE)
    assert first == second == wanted
    assert all(line.endswith(f" nice {NICE}") for line in session)


async def test_a_system_that_is_in_no_hurry_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [BlockingIOError(), BlockingIOError(), None]

    def write(path: Path, text: str) -> None:
        if (answer := answers.pop(0)) is not None:
            raise answer

    monkeypatch.setattr(Path, "write_text", write)
    monkeypatch.setattr(process, "AGAIN_S", 0.001)
    await asyncio.wait_for(stand_back(2**22 + 1), WITHIN_S)
    assert answers == []


async def test_who_is_gone_is_left_alone() -> None:
    await asyncio.wait_for(stand_back(2**22 + 1), WITHIN_S)
