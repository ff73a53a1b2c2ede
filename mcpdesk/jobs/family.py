"""The processes of one job: its group, its session, its descendants, and whoever carries its mark.

A program that starts a session of its own and forks twice leaves group, session and tree behind; the mark, an
environment variable every descendant inherits, still finds it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

import psutil

MARK = "MCPDESK_JOB"
"""The environment variable. Its value is a list of marks, each ended with `;`, outermost desk first."""


def marked(environment: dict[str, str], mark: str) -> dict[str, str]:
    """The environment with one more mark."""
    return environment | {MARK: f"{environment.get(MARK, '')}{mark};"}


def members(leader: int, mark: str) -> list[psutil.Process]:
    """Every living process of a job, `leader` included while it lives. Takes milliseconds: not for a loop."""
    found = {process.pid: process for process in _descendants(leader)}
    needle = f"{mark};"
    for pid in psutil.pids():
        if pid not in found and (_session(pid) == leader or needle in _marks(pid)):
            with contextlib.suppress(psutil.Error):
                found[pid] = psutil.Process(pid)
    return living(found.values())


def living(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that still run; what only waits to be collected by its parent counts as gone."""
    return [process for process in processes if _lives(process)]


def signal_all(processes: Iterable[psutil.Process], number: int) -> None:
    """Send a signal to each; who is gone or not ours is left alone."""
    for process in processes:
        with contextlib.suppress(psutil.Error, OSError):
            process.send_signal(number)


def _descendants(leader: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(leader)
        return [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return []


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def _marks(pid: int) -> str:
    if psutil.LINUX:
        return _marks_from_proc(pid)
    try:
        return str(psutil.Process(pid).environ().get(MARK, ""))
    except (psutil.Error, OSError):
        return ""


def _marks_from_proc(pid: int) -> str:
    """Five times cheaper than psutil's `environ()`, which also checks the process's identity."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            raw = file.read()
    except OSError:
        return ""
    start = raw.find(f"{MARK}=".encode())
    return "" if start < 0 else raw[start : raw.find(b"\0", start)].decode("ascii", "replace")
