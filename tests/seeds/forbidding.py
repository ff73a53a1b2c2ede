"""Runs mcpdesk as a process the system does not allow to open TCP sockets."""

from __future__ import annotations

import ctypes
import errno
import platform
import runpy
import socket
import struct
import sys
from typing import NoReturn

SYSCALLS = {"x86_64": 41, "aarch64": 198}
"""The numbers of `socket`."""
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
LOAD, EQUAL, GIVE = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
NUMBER, FAMILY = 0, 16
"""Offsets of the number of the system call and of its first argument."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def forbid_by_kernel() -> None:
    """Let the kernel refuse every new IPv4 or IPv6 socket of this process."""
    steps = [
        (LOAD, 0, 0, NUMBER),
        (EQUAL, 0, 4, SYSCALLS[platform.machine()]),
        (LOAD, 0, 0, FAMILY),
        (EQUAL, 1, 0, socket.AF_INET),
        (EQUAL, 0, 1, socket.AF_INET6),
        (GIVE, 0, 0, REFUSE),
        (GIVE, 0, 0, ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = _Program(len(steps), ctypes.cast(code, ctypes.c_void_p).value)
    libc = ctypes.CDLL(None, use_errno=True)
    for given in ((NO_NEW_PRIVILEGES, 1, 0, 0, 0), (SECCOMP, FILTER, ctypes.byref(program), 0, 0)):
        if libc.prctl(*given):
            raise OSError(ctypes.get_errno(), "the kernel takes no filter")


def forbid_in_python() -> None:
    """Forbid sockets in Python, on systems without such a kernel."""

    class Refusing(socket.socket):
        def __init__(self, family: int = socket.AF_INET, *args: int, **more: int) -> None:
            if family in (socket.AF_INET, socket.AF_INET6):
                raise PermissionError(errno.EPERM, "Operation not permitted")
            super().__init__(family, *args, **more)

    socket.socket = Refusing  # type: ignore[assignment,misc]


def main() -> NoReturn:
    """Forbid, then run."""
    if sys.platform == "linux" and platform.machine() in SYSCALLS:
        forbid_by_kernel()
    else:
        forbid_in_python()
    sys.argv[0] = "mcpdesk"
    runpy.run_module("mcpdesk", run_name="__main__")
    sys.exit(0)


if __name__ == "__main__":
    main()
