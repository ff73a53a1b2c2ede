"""Run alone as `python -I -S -c <this text> TOKEN`: ends what a dead core left. Stdlib only.

Reads `+GROUP` and `-GROUP` lines until the pipe closes; then kills those groups, and every process whose
environment carries `TOKEN.` as a mark, until none is left.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable

ROUNDS = 50
"""Looks for what is left: a process may fork while it is being looked for."""
PAUSE_S = 0.02
EXITING, OF_KERNEL = 0x4, 0x200000
"""Flags of the kernel's, PF_EXITING and PF_KTHREAD."""
EXEC_S, EXEC_PAUSE_S = 0.25, 0.0005
"""How long a process may be between two programs, where it shows nothing, and how often it is looked at."""


def read_groups(lines: Iterable[bytes]) -> set[int]:
    """The groups that were not released when the pipe closed."""
    groups: set[int] = set()
    for line in lines:
        change = groups.add if line[:1] == b"+" else groups.discard
        change(int(line[1:]))
    return groups


def marked_processes(mark: bytes) -> list[int]:
    """Processes that carry the mark. Where there is no /proc none is found, and the groups must do."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    return [pid for pid in pids if mark in marks(pid)]


def marks(pid: int) -> bytes:
    """The value of MCPDESK_JOB in a process's environment; empty when there is none or it may not be read."""
    deadline, is_shown = time.monotonic() + EXEC_S, False
    while not (raw := _read(pid, "environ")) and not is_shown and time.monotonic() < deadline:
        is_shown = not _is_between_programs(pid)  # since a moment ago, maybe
        if not is_shown:
            time.sleep(EXEC_PAUSE_S)
    start = raw.find(b"MCPDESK_JOB=")
    return b"" if start < 0 else raw[start : raw.find(b"\0", start)]


def _is_between_programs(pid: int) -> bool:
    """Whether it shows nothing of itself though it neither has ended nor is a thread of the kernel."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    runs = len(fields) > 6 and fields[0] not in (b"Z", b"X") and not int(fields[6]) & (EXITING | OF_KERNEL)
    return runs and not _read(pid, "cmdline")


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def main(mark: bytes) -> None:
    """Wait for the end of our parent, then clear up."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    for group in read_groups(sys.stdin.buffer):
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
    for _ in range(ROUNDS):
        left = marked_processes(mark)
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(f"{sys.argv[1]}.".encode())
