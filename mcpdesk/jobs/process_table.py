"""Processes of this machine, each with its job.

On Linux the processes are read from `/proc`, on other systems through psutil: `row`, `marks_text` and
`newest_pid` are bound to the functions of this platform.

The family of a job consists of all processes in the job's session, their descendants, and all processes with
the job's mark. The leader is the first process of the session. The mark is a text in the environment variable
`MARK`, which programs inherit. A program that starts a new session and forks twice is in neither the process
group, the session nor the process tree of the job. Only the mark shows that it belongs to the job. A keeper
is a process that adopts the orphans of a job.

The functions `process_identity` and `is_running` are for single processes. They identify a process by a text
with its number and start time.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

EXITING = 0x4
"""Linux kernel flag PF_EXITING."""
MARK = "_MCPDESK_JOB"
"""Environment variable with the marks of a process, each followed by `;`, outermost desk first."""


class ProcessRow(NamedTuple):
    """One process of this machine."""

    pid: int
    parent: int
    session: int
    start_time: float
    """Start time: on Linux in clock ticks since boot, on other systems in seconds since 1970. It
    distinguishes processes that had the same number.
    """
    is_zombie: bool
    """True if the process has ended but was not reaped yet."""
    is_ending: bool
    """True if the process is a zombie or about to become one."""
    cpu_s: float
    """Seconds of processor time of the process and its ended children."""
    memory: int
    """Resident memory in bytes."""


def all_processes() -> dict[int, ProcessRow]:
    """Return all processes by number. Takes milliseconds, so do not call it on the core's loop."""
    return rows(_pids())


def rows(pids: Iterable[int]) -> dict[int, ProcessRow]:
    """Return the existing processes with these numbers."""
    return {pid: process for pid in pids if (process := row(pid)) is not None}


def still_runs(process: ProcessRow) -> bool:
    """Return True if a process still runs. A zombie does not count as running."""
    current = row(process.pid)
    return current is not None and not current.is_zombie and current.start_time == process.start_time


def _pids_of_linux() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _pids_of_psutil() -> list[int]:
    import psutil

    return list(psutil.pids())


def _row_of_linux(pid: int) -> ProcessRow | None:
    """Read one file, which is ten times faster than querying psutil for each field."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            raw = file.read(2048)
    except OSError:
        return None
    # The name in brackets may contain any character; the third field follows the last bracket.
    fields = raw[raw.rfind(b")") + 2 :].split()
    if len(fields) < 22:
        return None
    is_zombie = fields[0] in (b"Z", b"X")
    return ProcessRow(
        pid=pid,
        parent=int(fields[1]),
        session=int(fields[3]),
        start_time=float(fields[19]),
        is_zombie=is_zombie,
        is_ending=is_zombie or bool(int(fields[6]) & EXITING),
        cpu_s=sum(map(int, fields[11:15])) / _TICKS_PER_S,
        memory=int(fields[21]) * _PAGE_BYTES,
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
                start_time=process.create_time(),
                is_zombie=is_zombie,
                is_ending=is_zombie,
                cpu_s=times.user + times.system + times.children_user + times.children_system,
                memory=process.memory_info().rss,
            )
    except (psutil.Error, OSError):
        return None


def _marks_text_of_linux(pid: int) -> str:
    # Imported late, because this module uses signals that Windows does not have.
    from mcpdesk.jobs import guard_program

    return guard_program.marks(pid).decode("ascii", "replace")


def _marks_text_of_psutil(pid: int) -> str:
    import psutil

    try:
        return str(psutil.Process(pid).environ().get(MARK, ""))
    except (psutil.Error, OSError):
        return ""


def _newest_pid_of_linux() -> int:
    try:
        with open("/proc/loadavg", "rb", buffering=0) as file:
            return int(file.read(200).split()[-1])
    except (OSError, ValueError, IndexError):
        return 0


_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_IS_LINUX = sys.platform == "linux"

_pids = _pids_of_linux if _IS_LINUX else _pids_of_psutil
row = _row_of_linux if _IS_LINUX else _row_of_psutil
"""Return one process by its number, or None if the process does not exist."""
marks_text = _marks_text_of_linux if _IS_LINUX else _marks_text_of_psutil
"""Return the value of `MARK` in the environment of a process, or "" if it cannot be read. Do not call this
function for zombies and kernel threads.
"""
newest_pid = _newest_pid_of_linux if _IS_LINUX else lambda: 0
"""Return the number of the process or thread that was started last, or 0 if the system does not provide
it.
"""


MAX_CHECKED_PROCESSES = 64
"""Maximum number of processes, started after the leader, that `has_family_ended` checks one by one."""
NO_SESSION = 0
"""Session of kernel threads, and of processes that entered our container from outside."""


def with_mark(environment: dict[str, str], mark: str) -> dict[str, str]:
    """Return a copy of the environment in which `mark` is added to the marks of jobs."""
    return environment | {MARK: f"{environment.get(MARK, '')}{mark};"}


class Family(NamedTuple):
    """Properties that identify the processes of a job, in addition to the session of the job's leader."""

    mark: str
    keeper: int = 0
    """Process that adopts the orphans of the job but is not part of the job, or 0 without such a process."""


def members(jobs: Mapping[int, Family]) -> dict[int, list[ProcessRow]]:
    """Return the living processes of each job, by the job's leader. Takes milliseconds."""
    table = all_processes()
    leader_by_keeper = {family.keeper: leader for leader, family in jobs.items() if family.keeper}
    leader_by_mark = {family.mark: leader for leader, family in jobs.items()}
    families: dict[int, dict[int, ProcessRow]] = {leader: {} for leader in jobs}
    for row in table.values():
        if row.session in families:
            families[row.session][row.pid] = row
        elif row.parent in leader_by_keeper:
            families[leader_by_keeper[row.parent]][row.pid] = row
        elif mark := next((mark for mark in _marks_of(row) if mark in leader_by_mark), None):
            families[leader_by_mark[mark]][row.pid] = row
    children = _children(table.values())
    for family in families.values():
        _add_descendants(family, children)
    return {leader: living(family.values()) for leader, family in families.items()}


def has_family_ended(leader: int, mark: str) -> bool:
    """Return True if all processes of a program's family have certainly ended. If the result is False, some
    may still run; call `members` to find them.

    Call this only for a program that started so recently that no process number can have been reused.
    """
    newest = newest_pid()
    if not leader <= newest <= leader + MAX_CHECKED_PROCESSES:
        return False
    newer_processes = rows(range(leader + 1, newest + 1)).values()
    return not any(row.session == leader or mark in _marks_of(row) for row in newer_processes)


def living(processes: Iterable[ProcessRow]) -> list[ProcessRow]:
    """Return the processes that still run, without zombies."""
    return [process for process in processes if still_runs(process)]


def signal_all(processes: Iterable[ProcessRow], signal_number: int) -> None:
    """Send a signal to each process. Processes that have ended or belong to other users are skipped."""
    for process in processes:
        if still_runs(process):
            with contextlib.suppress(OSError):
                os.kill(process.pid, signal_number)


def _marks_of(row: ProcessRow) -> list[str]:
    return [] if row.is_zombie or row.session == NO_SESSION else marks_text(row.pid).split(";")


def _children(table: Iterable[ProcessRow]) -> dict[int, list[ProcessRow]]:
    children: dict[int, list[ProcessRow]] = {}
    for row in table:
        children.setdefault(row.parent, []).append(row)
    return children


def _add_descendants(family: dict[int, ProcessRow], children: Mapping[int, list[ProcessRow]]) -> None:
    new_members = list(family.values())
    while new_members:
        new_members = [
            child for row in new_members for child in children.get(row.pid, ()) if child.pid not in family
        ]
        family.update((row.pid, row) for row in new_members)


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources used by a program and everything in its session."""

    cpu_s: float
    """Seconds of processor time, including ended children."""
    memory: int
    """Resident memory in bytes; shared memory is counted for each process."""
    processes: int


def usage_of(leaders: Collection[int]) -> dict[int, Usage]:
    """Return the usage of each session, by leader. A session without a living process is omitted."""
    usages: dict[int, Usage] = {}
    for row in all_processes().values() if leaders else ():
        if row.session in leaders and not row.is_zombie:
            usage = usages.get(row.session, Usage(0.0, 0, 0))
            usages[row.session] = Usage(
                usage.cpu_s + row.cpu_s, usage.memory + row.memory, usage.processes + 1
            )
    return usages


@cache
def process_identity(pid: int) -> str:
    """Return a text that identifies a running process by its number and start time, or "" if the process does
    not exist.
    """
    return _identity(pid)


def is_running(identity: str) -> bool:
    """Return True if the process still runs. `identity` is a text from `process_identity`."""
    pid = identity.partition(" ")[0]
    return pid.isdigit() and _identity(int(pid)) == identity


def _identity(pid: int) -> str:
    import psutil

    try:
        return f"{pid} {psutil.Process(pid).create_time():.2f}"
    except psutil.Error:
        return ""
