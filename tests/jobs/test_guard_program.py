"""The parts of the guard's own program."""

from __future__ import annotations

import os
import subprocess

import pytest

from mcpdesk.jobs import guard_program
from mcpdesk.jobs.guard_program import marks
from mcpdesk.jobs.process_table import MARK
from tests.support.patience import WITHIN_S


@pytest.mark.process
def test_who_is_between_two_programs_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    unready, read = [b""] * 100, guard_program._read

    def seen(pid: int, name: str) -> bytes:
        return unready.pop() if unready and name != "stat" else read(pid, name)

    monkeypatch.setattr(guard_program, "_read", seen)
    monkeypatch.setattr(guard_program, "EXEC_S", WITHIN_S)
    environment = os.environ | {MARK: "a.1;"}
    with subprocess.Popen(["sleep", "200"], env=environment, start_new_session=True) as sleeper:
        try:
            assert marks(sleeper.pid) == b"a.1;" and not unready
        finally:
            sleeper.kill()


@pytest.mark.parametrize(
    ("stat", "is_between"),
    [
        pytest.param(b"7 (a) R 1 0 0 0 -1 4194304 9", True, id="of a session outside our container"),
        pytest.param(b"7 (a) S 2 0 0 0 -1 2129984 0", False, id="of the kernel"),
        pytest.param(b"7 (a) R 1 7 7 0 -1 4194308 9", False, id="ending"),
        pytest.param(b"7 (a) Z 1 7 7 0 -1 4194304 9", False, id="ended"),
        pytest.param(b"", False, id="gone"),
    ],
)
def test_the_kernel_tells_who_is_between_two_programs(
    monkeypatch: pytest.MonkeyPatch, stat: bytes, is_between: bool
) -> None:
    monkeypatch.setattr(guard_program, "_read", lambda _pid, name: stat if name == "stat" else b"")
    assert guard_program._is_in_exec(7) is is_between
