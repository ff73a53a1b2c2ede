"""A client of a folder hosted in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.cli.hosted_client import hosted, progress_line
from mcpdesk.errors import DeskUserError, RemoteProtocolError
from mcpdesk.link.values import Progress
from tests.support.terminal import Desk

STEPS = '''
import asyncio
from pathlib import Path

from mcpdesk import Context


async def steps(ctx: Context) -> str:
    """Report, and go on when it may."""
    await ctx.progress(1, 2, "halfway")
    while not Path(__file__).parents[1].joinpath("go").exists():
        await asyncio.sleep(0.01)
    return "there"
'''


def test_results_errors_and_time_limits_are_told_apart(folder: Path) -> None:
    with hosted(str(folder)) as peer:
        answer = peer.request("tools/call", {"name": "greet", "arguments": {"name": "Ada"}}, 10)
        assert answer["content"] == [{"type": "text", "text": "Hello, Ada!"}]
        with pytest.raises(RemoteProtocolError) as unknown:
            peer.request("tools/call", {"name": "nothing"}, 10)
        assert unknown.value.code == -32602
        with pytest.raises(DeskUserError) as late:
            peer.request("tools/call", {"name": "wait", "arguments": {"seconds": 20}}, 0.1)
        assert late.value.exit_code == 5


def test_progress_is_told_in_words() -> None:
    assert progress_line(Progress(3, 10, "reading")) == "3/10 reading"
    assert progress_line(Progress(0.5)) == "0.5"
    assert progress_line(Progress(1, 2, "evil\x1b[2J")) == "1/2 evil␛[2J"


def test_person_at_a_terminal_sees_the_progress(folder: Path) -> None:
    (folder / "tools" / "steps.py").write_text(STEPS)
    with Desk(["call", str(folder), "steps"]) as terminal:
        terminal.see("1/2 halfway")
        (folder / "go").touch()
        terminal.see("there")
        assert terminal.end() == 0
