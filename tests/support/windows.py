"""`python -m tests.support.windows`: run command lines in a process that lacks what Windows lacks.

Reads a JSON list of command lines from stdin and runs them one after another. Writes, for each, a JSON line
with its exit code, what it printed and what it said on stderr. Libraries that choose their parts by platform
are imported before anything is hidden.
"""

from __future__ import annotations

import asyncio  # noqa: F401
import io
import json
import multiprocessing  # noqa: F401
import os
import select
import signal
import socket
import sys
from contextlib import redirect_stderr, redirect_stdout

import aiohttp  # noqa: F401
import platformdirs  # noqa: F401
import psutil  # noqa: F401
import watchfiles  # noqa: F401

MODULES = ("curses", "fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
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


def hide() -> None:
    """Take away the modules, calls and constants that Windows lacks; asyncio keeps its socket pair."""
    family, *others = socket.socketpair.__defaults__ or ()
    socket.socketpair.__defaults__ = (family or socket.AF_UNIX, *others)
    sys.modules.update(dict.fromkeys(MODULES))  # type: ignore[arg-type]
    for module, names in NAMES.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)


def main() -> None:
    """Run the command lines."""
    lines: list[list[str]] = json.load(sys.stdin)
    hide()
    from mcpdesk.cli.main import run

    for line in lines:
        raw, err = io.BytesIO(), io.StringIO()
        out = io.TextIOWrapper(raw, "utf-8")
        with redirect_stdout(out), redirect_stderr(err):
            code = run(line)
        out.flush()
        printed = raw.getvalue().decode()
        print(json.dumps({"code": code, "out": printed, "err": err.getvalue()}), flush=True)


if __name__ == "__main__":
    main()
