"""`python -m tests.support.windows`: run command lines in a process that lacks what Windows lacks.

Reads a JSON list of command lines from stdin and runs them one after another. Writes, for each, a JSON line
with its exit code, its output and its messages on stderr. With arguments it runs that one command line with
the standard streams of this process. Libraries that choose their parts by platform are imported before
anything is hidden. `os.name` stays, because `pathlib` makes other paths with another one.
"""

from __future__ import annotations

import asyncio
import fcntl
import io
import json
import multiprocessing  # noqa: F401
import os
import select
import signal
import socket
import sys
import types
import zoneinfo  # noqa: F401
from contextlib import redirect_stderr, redirect_stdout

import aiohttp  # noqa: F401
import click  # noqa: F401
import platformdirs  # noqa: F401
import psutil  # noqa: F401
import watchfiles  # noqa: F401

MODULES = [
    "curses",
    "fcntl",
    "grp",
    "pty",
    "pwd",
    "readline",
    "resource",
    "syslog",
    "termios",
    "tty",
    "uvloop",
]
NAMES = {
    os: """O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK P_ALL WEXITED WNOHANG WNOWAIT chown fchmod fchown
        fork forkpty getegid geteuid getgid getpgid getpgrp getsid getuid killpg lchown mkfifo nice openpty
        pidfd_open posix_spawn pread preadv pwrite register_at_fork sched_getaffinity sched_setaffinity
        sendfile set_blocking setpgid setsid statvfs tcgetpgrp uname wait3 wait4 waitid""",
    signal: """SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGUSR1
        SIGUSR2 SIGWINCH SIGXFSZ alarm pthread_kill pthread_sigmask setitimer sigwait""",
    socket: """AF_UNIX MSG_CMSG_CLOEXEC MSG_DONTWAIT MSG_NOSIGNAL SOCK_SEQPACKET SO_PEERCRED SO_REUSEPORT
        recv_fds send_fds""",
    select: "poll",
}
READERS = "add_reader add_signal_handler add_writer connect_read_pipe connect_write_pipe create_unix_server"
"""Methods of loops that the one of Windows does not implement."""


def windows_locks() -> types.ModuleType:
    """A module `msvcrt` whose `locking` locks bytes from the position of a file on."""
    made = types.ModuleType("msvcrt")

    def locking(descriptor: int, mode: int, count: int) -> None:
        assert mode == 2
        try:
            here = os.lseek(descriptor, 0, os.SEEK_CUR)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, count, here)
        except BlockingIOError as error:
            raise PermissionError(*error.args) from None

    made.__dict__.update(LK_NBLCK=2, locking=locking)
    return made


def hide() -> None:
    """Take away the modules, calls and constants that Windows lacks; asyncio keeps its socket pair."""
    family, *others = socket.socketpair.__defaults__ or ()
    socket.socketpair.__defaults__ = (family or socket.AF_UNIX, *others)
    sys.modules.update(dict.fromkeys(MODULES), msvcrt=windows_locks())  # type: ignore[arg-type]
    for module, names in NAMES.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    for name in READERS.split():
        setattr(asyncio.SelectorEventLoop, name, getattr(asyncio.AbstractEventLoop, name))
    sys.platform = "win32"


def main() -> int:
    """Run the command lines."""
    given = sys.argv[1:]
    lines: list[list[str]] = [] if given else json.load(sys.stdin)
    hide()
    from mcpdesk.cli.main import run

    if given:
        return run(given)
    for line in lines:
        raw, err = io.BytesIO(), io.StringIO()
        out = io.TextIOWrapper(raw, "utf-8")
        with redirect_stdout(out), redirect_stderr(err):
            code = run(line)
        out.flush()
        printed = raw.getvalue().decode()
        print(json.dumps({"code": code, "out": printed, "err": err.getvalue()}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
