"""Guard that starts programs and ends those of a dead core: `python -I -S -c <this text> TOKEN MODE`.

This program imports only the standard library. With MODE `keep` (Linux), stdin is a socket. Each packet on it
requests one program and carries three descriptors: a control socket, and the program's stdout and stderr. A
keeper, which is a fork of this process, starts the program and adopts all its orphans
(PR_SET_CHILD_SUBREAPER). No descendant can therefore escape by changing its session or environment. When the
core ends, keepers and this process kill all their descendants.

With MODE `groups`, the core starts programs itself and writes `+GROUP` and `-GROUP` lines to stdin, a pipe.

In both cases, every process whose environment contains a mark that starts with `TOKEN.` is killed at the end.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import sys
import time
from collections.abc import Iterable

MAX_SEARCHES = 50
"""Maximum number of searches for marked processes. One search may miss a process that was forked during the
search.
"""
PAUSE_S = 0.02
"""Seconds between two attempts to kill the remaining processes."""
CLEAR_TIMEOUT_S = 10.0
"""Maximum number of seconds that `kill_descendants` takes. A process that hangs in the kernel never ends."""
EXITING, KERNEL_THREAD = 0x4, 0x200000
"""Kernel flags PF_EXITING and PF_KTHREAD."""
EXEC_S, EXEC_PAUSE_S = 0.25, 0.0005
"""During exec a process has no environment for a moment. `marks` waits for at most `EXEC_S` and checks the
environment every `EXEC_PAUSE_S`.
"""
SET_DUMPABLE, SET_CHILD_SUBREAPER = 4, 36
"""Options of prctl(2)."""
IGNORED_SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)
"""Signals that only the core handles, because the core decides which programs to end. When the core ends, the
pipe or socket closes.
"""
RESTORED_SIGNALS = (*IGNORED_SIGNALS, signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that the guard or Python ignores. They are reset to their defaults for a started program."""


def read_groups(lines: Iterable[bytes]) -> set[int]:
    """Read `+GROUP` and `-GROUP` lines until the pipe closes. Return the groups that were not released."""
    groups: set[int] = set()
    for line in lines:
        group = int(line[1:])
        if line[:1] == b"+":
            groups.add(group)
        else:
            groups.discard(group)
    return groups


def marked_processes(mark_prefix: bytes) -> list[int]:
    """Return the processes with a mark that starts with `mark_prefix`, or an empty list without /proc."""
    return [pid for pid in _pids() if mark_prefix in marks(pid)]


def marks(pid: int) -> bytes:
    """Return the value of _MCPDESK_JOB in a process's environment, or no bytes if it is missing or
    unreadable.

    During exec a process has no environment. This function then waits until the environment is available.
    """
    deadline = time.monotonic() + EXEC_S
    may_be_in_exec = True
    while not (environment := _read(pid, "environ")) and may_be_in_exec and time.monotonic() < deadline:
        may_be_in_exec = _is_in_exec(pid)
        # Otherwise exec may have ended a moment ago, so the environment is read once more.
        if may_be_in_exec:
            time.sleep(EXEC_PAUSE_S)
    start = (b"\0" + environment).find(b"\0_MCPDESK_JOB=")
    return b"" if start < 0 else environment[start:].partition(b"\0")[0].partition(b"=")[2]


def descendants(ancestor: int) -> list[int]:
    """Return the children of a process, their children and so on, including zombies."""
    children: dict[int, list[int]] = {}
    for pid in _pids():
        fields = _read(pid, "stat").rpartition(b")")[2].split()
        if len(fields) > 1:
            children.setdefault(int(fields[1]), []).append(pid)
    processes = [ancestor]
    for pid in processes:
        processes.extend(children.get(pid, ()))
    return processes[1:]


def kill_descendants() -> None:
    """Kill and reap all descendants of this process."""
    deadline = time.monotonic() + CLEAR_TIMEOUT_S
    while time.monotonic() < deadline:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if reap_children() is None:
            return
        time.sleep(PAUSE_S)


def reap_children() -> dict[int, int] | None:
    """Reap ended children. Return their exit codes by process number, or None if no child is left."""
    exit_codes: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return exit_codes or None
        if pid == 0:
            return exit_codes
        exit_codes[pid] = os.waitstatus_to_exitcode(status)


def has_children() -> bool:
    """Return True if a child exists that was not reaped."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def set_process_option(option: int, value: int) -> bool:
    """Call prctl(2). Return True on success."""
    try:
        import ctypes

        return int(ctypes.CDLL(None).prctl(option, value, 0, 0, 0)) == 0
    except (ImportError, OSError, AttributeError):
        return False


def open_child_signals() -> int:
    """Return a descriptor that becomes readable when a child ends."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return reading


def wait_for_any(descriptors: Iterable[int]) -> set[int]:
    """Wait until a descriptor is readable or closed at its other end. Return all such descriptors."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll()}


def serve_programs(requests: int) -> None:
    """Start a keeper for each packet on a socket, until the core closes the socket or ends."""
    import socket

    set_process_option(SET_CHILD_SUBREAPER, 1)
    set_process_option(SET_DUMPABLE, 0)
    channel = socket.socket(fileno=requests)
    signals = open_child_signals()
    watched = [requests, signals]
    # A fork of the core may hold the socket open for longer, so the core itself is watched as well.
    with contextlib.suppress(AttributeError, OSError):
        watched.append(os.pidfd_open(os.getppid()))
    keepers: set[int] = set()
    while True:
        ready = wait_for_any(watched)
        if ready - {requests, signals}:  # the core has ended
            return
        if signals in ready:
            _drain(signals)
            _kill_orphans(keepers, reap_children() or {})
        if requests in ready:
            data, descriptors, _, _ = socket.recv_fds(channel, 16, 3, socket.MSG_CMSG_CLOEXEC)
            if not data:
                return
            keeper = os.fork()
            if keeper == 0:
                _run_and_exit(watched, descriptors)
            keepers.add(keeper)
            _close(descriptors)


def _kill_orphans(keepers: set[int], exit_codes: dict[int, int]) -> None:
    """Remove the ended keepers from `keepers`. Kill all processes that became children of this process
    because their keeper failed or was killed.

    `exit_codes` has the children that have ended. There are no such processes if all of them were keepers
    that succeeded.
    """
    all_succeeded = all(pid in keepers and code == 0 for pid, code in exit_codes.items())
    keepers.difference_update(exit_codes)
    if all_succeeded:
        return
    supervised_pids = {pid for keeper in keepers for pid in (keeper, *descendants(keeper))}
    for pid in set(descendants(os.getpid())) - supervised_pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _run_and_exit(watched: list[int], descriptors: list[int]) -> None:
    """Run in a keeper's process: close the descriptors inherited from the guard, then keep a program."""
    code = 1
    try:
        _close(watched)
        os.open(os.devnull, os.O_RDWR)  # this descriptor gets the number of stdin, which is free now
        keep(*descriptors)
        code = 0
    finally:
        os._exit(code)


def keep(control: int, stdout: int, stderr: int) -> None:
    """Start one program, report on `control`, and run until the program and all its descendants have ended.

    The request is read from `control`. It begins with eight bytes that contain its length. Then it has the
    folder, the number of arguments, the arguments, and `NAME=value` for each variable, separated by NUL.

    The reports are lines: `+PID KEEPER` when the program runs, or `eERRNO STEP` if it could not be started;
    `-CODE` when it has ended, and `!` when all its descendants have ended.
    """
    adopts_orphans = set_process_option(SET_CHILD_SUBREAPER, 1)
    size = int.from_bytes(_read_exactly(control, 8), "big")
    folder, argument_count, *fields = _read_exactly(control, size).split(b"\0")
    arguments, variables = fields[: int(argument_count)], fields[int(argument_count) :]
    environment = dict(variable.partition(b"=")[::2] for variable in variables)
    signals = open_child_signals()
    step = "folder"
    try:
        os.chdir(folder)
        step = "program"
        leader = spawn(arguments, environment, (stdout, stderr))
    except OSError as error:
        _write(control, f"e{error.errno} {step}\n")
        return
    os.chdir("/")
    _close([stdout, stderr])
    _write(control, f"+{leader} {os.getpid()}\n")
    while has_children():
        if control in wait_for_any([control, signals]):
            kill_descendants()  # the core has ended, or has closed the program's socket
        _drain(signals)
        exit_codes = reap_children() or {}
        is_empty = adopts_orphans and not has_children()
        if leader in exit_codes:
            _write(control, f"-{exit_codes[leader]}\n" + "!\n" * is_empty)
        elif is_empty:
            _write(control, "!\n")


def spawn(arguments: list[bytes], environment: dict[bytes, bytes], output: tuple[int, int]) -> int:
    """Start a program in its own session, without input. The PATH of its environment is searched.

    Return its process number. Raises: OSError.
    """
    name = arguments[0]
    first_error = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    folders = [b""] if b"/" in name else environment.get(b"PATH", os.fsencode(os.defpath)).split(b":")
    stdout, stderr = output
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, stdout, 1),
        (os.POSIX_SPAWN_DUP2, stderr, 2),
    ]
    for folder in folders:
        path = os.path.join(folder, name)
        try:
            return os.posix_spawn(
                path, arguments, environment, file_actions=actions, setsid=True, setsigdef=RESTORED_SIGNALS
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            if first_error.errno == errno.ENOENT:
                first_error = error
    raise first_error


def _read_exactly(descriptor: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = os.read(descriptor, size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def _write(descriptor: int, text: str) -> None:
    with contextlib.suppress(OSError):  # the core has ended, which is detected at the next wait
        os.write(descriptor, text.encode())


def _drain(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(descriptor, 512):
            pass


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _is_in_exec(pid: int) -> bool:
    """Return True if a process has no command line although it has not ended and is not a kernel thread."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    is_running = (
        len(fields) > 6 and fields[0] not in (b"Z", b"X") and not int(fields[6]) & (EXITING | KERNEL_THREAD)
    )
    return is_running and not _read(pid, "cmdline")


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def main(mark_prefix: bytes, mode: str) -> None:
    """Run until the core has ended, then kill the remaining processes."""
    for ignored_signal in IGNORED_SIGNALS:
        signal.signal(ignored_signal, signal.SIG_IGN)
    if mode == "keep":
        serve_programs(sys.stdin.fileno())
        kill_descendants()
    else:
        for group in read_groups(sys.stdin.buffer):
            with contextlib.suppress(OSError):
                os.killpg(group, signal.SIGKILL)
    for _ in range(MAX_SEARCHES):
        remaining = marked_processes(mark_prefix)
        for pid in remaining:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not remaining:
            return
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(f"{sys.argv[1]}.".encode(), sys.argv[2])
