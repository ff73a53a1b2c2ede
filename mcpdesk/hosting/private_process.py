"""Keeps our memory and our environment from other programs, those that hosted code starts among them.

Linux shows a process's memory and first environment (`/proc/PID/environ`) to every process of the same user.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

SET_DUMPABLE = 4
"""An option of prctl(2). A process that cannot be dumped cannot be looked into without privileges either."""


def make_private() -> None:
    """Close this process to programs of the same user, and wipe the environment the system shows of it.

    Python goes on to know its environment. Elsewhere than on Linux nothing is done, nor is there `/proc`.
    """
    if sys.platform != "linux":
        return
    import ctypes

    try:
        library = ctypes.CDLL(None)
        library.prctl(SET_DUMPABLE, 0, 0, 0, 0)
        first = _environment_strings(library)
    except (OSError, AttributeError, ValueError):  # another C library than those we know
        return
    for name, value in os.environ.items():
        os.putenv(name, value)  # makes a copy elsewhere
    for address in first - _environment_strings(library):
        ctypes.memset(address, 0, len(ctypes.string_at(address)))


def withhold(variables: Iterable[str]) -> None:
    """Keep variables from programs that inherit this process's environment; `os.environ` still has them."""
    for name in variables:
        if name in os.environ:
            os.unsetenv(name)


def _environment_strings(library: object) -> set[int]:
    """Addresses of the `NAME=value` texts of the environment as C sees it."""
    import ctypes

    table = ctypes.POINTER(ctypes.c_void_p).in_dll(library, "environ")  # type: ignore[arg-type]
    addresses: set[int] = set()
    while (address := table[len(addresses)]) is not None:
        addresses.add(address)
    return addresses
