"""The processes of this machine: their parents, sessions, marks and what they use.

On Linux they are read from `/proc`, elsewhere through psutil. What the rest of the program calls is bound at
the end of the module to the functions of this platform.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

MARK = "MCPDESK_JOB"
"""The environment variable with the marks of a process, each ended with `;`, outermost desk first."""

EXEC_S = 0.25
"""How long a process may take between two programs on a busy machine; it shows no environment then."""


class ProcessRow(NamedTuple):
    """One process of this machine."""

    pid: int
    parent: int
    session: int
    born: float
    """When it began, by the system's own clock: tells it from a later process with its number."""
    is_zombie: bool
    """Whether it has ended and waits to be collected."""
    is_ending: bool
    """Whether it is a zombie or about to be one."""
    cpu_s: float
    """Seconds of processor time, with that of its ended children."""
    memory: int
    """Bytes resident."""


def all_processes() -> dict[int, ProcessRow]:
    """Every process by its number. Takes milliseconds: do not call it on the core's loop."""
    return rows(_pids())


def rows(pids: Iterable[int]) -> dict[int, ProcessRow]:
    """The processes of these numbers that exist."""
    return {pid: found for pid in pids if (found := row(pid)) is not None}


def still_runs(known: ProcessRow) -> bool:
    """Whether a process still runs; a zombie counts as gone."""
    now = row(known.pid)
    return now is not None and not now.is_zombie and now.born == known.born


def _pids_of_linux() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _pids_of_psutil() -> list[int]:
    import psutil

    return list(psutil.pids())


def _row_of_linux(pid: int) -> ProcessRow | None:
    """Reads one file, which is ten times faster than asking psutil for each field."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            raw = file.read(2048)
    except OSError:
        return None
    # The name, in brackets, may hold anything; the third field follows its last bracket.
    fields = raw[raw.rfind(b")") + 2 :].split()
    if len(fields) < 22:
        return None
    is_zombie = fields[0] in (b"Z", b"X")
    return ProcessRow(
        pid=pid,
        parent=int(fields[1]),
        session=int(fields[3]),
        born=float(fields[19]),
        is_zombie=is_zombie,
        is_ending=is_zombie or bool(int(fields[6]) & _EXITING),
        cpu_s=sum(map(int, fields[11:15])) / _TICKS,
        memory=int(fields[21]) * _PAGE,
    )


def _row_of_psutil(pid: int) -> ProcessRow | None:
    import psutil

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            is_zombie = process.status() == psutil.STATUS_ZOMBIE
            return ProcessRow(
                pid=pid,
                parent=process.ppid(),
                session=os.getsid(pid),
                born=process.create_time(),
                is_zombie=is_zombie,
                is_ending=is_zombie,
                cpu_s=times.user + times.system + times.children_user + times.children_system,
                memory=process.memory_info().rss,
            )
    except (psutil.Error, OSError):
        return None


def _marks_of_linux(pid: int) -> str:
    deadline, is_shown = time.monotonic() + EXEC_S, False
    while not (raw := _read(pid, "environ")) and not is_shown:
        if is_shown := bool(_read(pid, "cmdline")):
            continue  # since a moment ago, maybe: its environment is looked at again
        # Neither: it is ending, or becoming another program which the kernel has not set up.
        if time.monotonic() > deadline or (found := row(pid)) is None or found.is_ending:
            break
        time.sleep(_EXEC_PAUSE_S)
    start = (b"\0" + raw).find(_ASSIGNED)
    return "" if start < 0 else raw[start:].partition(b"\0")[0].partition(b"=")[2].decode("ascii", "replace")


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.readall()
    except OSError:
        return b"?"


def _marks_of_psutil(pid: int) -> str:
    import psutil

    try:
        return str(psutil.Process(pid).environ().get(MARK, ""))
    except (psutil.Error, OSError):
        return ""


def _newest_of_linux() -> int:
    try:
        with open("/proc/loadavg", "rb", buffering=0) as file:
            return int(file.read(200).split()[-1])
    except (OSError, ValueError, IndexError):
        return 0


_EXEC_PAUSE_S = 0.0005
_EXITING = 0x4
"""A flag of the kernel's, PF_EXITING."""
_ASSIGNED = f"\0{MARK}=".encode()
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_IS_LINUX = sys.platform == "linux"

_pids = _pids_of_linux if _IS_LINUX else _pids_of_psutil
row = _row_of_linux if _IS_LINUX else _row_of_psutil
"""Read one process by its number; None when there is none."""
marks = _marks_of_linux if _IS_LINUX else _marks_of_psutil
"""The value of `MARK` in a process's environment; empty when it has none or may not be read.

Not for zombies or kernel threads.
"""
newest = _newest_of_linux if _IS_LINUX else lambda: 0
"""The number of the process or thread started last; 0 where the system does not tell."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a program and everything in its session have used and hold."""

    cpu_s: float
    """Seconds of processor time, with that of ended children."""
    memory: int
    """Bytes resident, shared ones counted for each."""
    processes: int


def usage_of(leaders: Collection[int]) -> dict[int, Usage]:
    """The usage of each session, by its leader. A session without a living process is missing."""
    found: dict[int, Usage] = {}
    for row in all_processes().values() if leaders else ():
        if row.session in leaders and not row.is_zombie:
            before = found.get(row.session, Usage(0.0, 0, 0))
            found[row.session] = Usage(
                before.cpu_s + row.cpu_s, before.memory + row.memory, before.processes + 1
            )
    return found


@cache
def process_mark(pid: int) -> str:
    """A text that identifies a running process: its number and start time. Empty when there is none."""
    return _mark(pid)


def is_running(mark: str) -> bool:
    """Whether the process of a mark still runs."""
    pid = mark.partition(" ")[0]
    return pid.isdigit() and _mark(int(pid)) == mark


def _mark(pid: int) -> str:
    import psutil

    try:
        return f"{pid} {psutil.Process(pid).create_time():.2f}"
    except psutil.Error:
        return ""
