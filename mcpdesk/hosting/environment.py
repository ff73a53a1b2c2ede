"""Environment variables and interpreter settings of this process.

Linux shows a process's memory and initial environment (`/proc/PID/environ`) to every process of the same
user, including programs that hosted code starts.

The interpreter settings were measured in November 2026 on two shared cores. A client called an echo tool over
stdio, one call at a time:

- While a plain `def` tool computes in its thread, 7,664 calls a second with the short switch interval and
  2,019 with Python's default of 5 ms (99th percentile 1.5 and 9.1 ms). A busy screen is such a thread, too.
- With the start-up objects frozen and rare collections of new objects, a call takes 28 us of processor time.
  With the default thresholds it takes 34 us.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterable, MutableMapping
from pathlib import Path

from mcpdesk.errors import DeskUserError
from mcpdesk.hosting.folder.folder_rights import may_set_variable
from mcpdesk.settings import is_setting, read_env_files

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Name of a variable that an env file may contain."""
SWITCH_INTERVAL_S = 0.0002
"""Seconds that a thread may hold the interpreter lock while another thread waits for it."""
COLLECTOR_THRESHOLDS = (10_000, 20, 50)
"""Thresholds of the garbage collector. The collector does not track traffic records, so it may run rarely."""


Variables = dict[str, str]
"""Variables of env files, by name."""


class FolderVariables:
    """Variables of one folder's env files that this program adds to the environment.

    It adds neither settings nor variables that control other programs, such as `PATH` and `LD_PRELOAD`. A
    variable that the environment already has keeps its value.
    """

    def __init__(self, folder: Path, environment: MutableMapping[str, str] = os.environ) -> None:
        self._folder = folder
        self._environment = environment
        self._added_names: set[str] = set()
        """Names of the variables that this folder added to the environment."""

    def read(self) -> Variables:
        """Read the env files. May be called on any thread. Raises: DeskUserError for an invalid line."""
        variables = {}
        for name, value, location in read_env_files(self._folder):
            if not NAME.fullmatch(name) or "\0" in value:
                message = f"{location}: {name!r} is not a variable name."
                raise DeskUserError(message, "A name has letters, digits and '_'.")
            if not is_setting(name) and may_set_variable(name):
                variables[name] = value
        return variables

    def put(self, variables: Variables) -> None:
        """Add these variables to the environment, and remove variables that only an earlier call added."""
        for name in self._added_names - variables.keys():
            self._environment.pop(name, None)
        self._added_names &= variables.keys()
        for name, value in variables.items():
            if name in self._added_names or name not in self._environment:
                self._environment[name] = value
                self._added_names.add(name)

    @property
    def variables(self) -> dict[str, str]:
        """Variables of the env files that are now in the environment."""
        return {name: self._environment[name] for name in self._added_names if name in self._environment}

    def withdraw(self) -> None:
        """Remove the variables again."""
        for name in self._added_names:
            self._environment.pop(name, None)
        self._added_names.clear()


SET_DUMPABLE = 4
"""Option of prctl(2). Unprivileged processes cannot read the memory of a process that is not dumpable."""


def make_private() -> None:
    """Prevent other processes of the same user from reading this one, and erase its initial environment.

    `os.environ` does not change. Does nothing on systems other than Linux, which have no `/proc`.
    """
    if sys.platform != "linux":
        return
    import ctypes

    try:
        library = ctypes.CDLL(None)
        library.prctl(SET_DUMPABLE, 0, 0, 0, 0)
        old_addresses = _environment_strings(library)
    except (OSError, AttributeError, ValueError):  # unknown C library
        return
    for name, value in os.environ.items():
        os.putenv(name, value)  # also copies the value to another address
    for address in old_addresses - _environment_strings(library):
        ctypes.memset(address, 0, len(ctypes.string_at(address)))


def withhold(variables: Iterable[str]) -> None:
    """Hide variables from child processes. They stay in `os.environ`."""
    for name in variables:
        if name in os.environ:
            os.unsetenv(name)


def _environment_strings(library: object) -> set[int]:
    """Return the addresses of the `NAME=value` strings in the C environment."""
    import ctypes

    table = ctypes.POINTER(ctypes.c_void_p).in_dll(library, "environ")  # type: ignore[arg-type]
    addresses: set[int] = set()
    while (address := table[len(addresses)]) is not None:
        addresses.add(address)
    return addresses


def share_among_threads() -> None:
    """Shorten the switch interval of threads, so that a screen or a plain `def` tool does not delay
    answers.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)


def collect_rarely() -> None:
    """Exclude existing objects from garbage collection, and collect new ones less often than usual."""
    if gc.isenabled():
        gc.collect()
    gc.enable()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
