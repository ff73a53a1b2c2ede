"""Tiers of the tests: started programs, pseudo-terminals and CPU time decide the mark that a test needs."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterable
from inspect import isfunction
from tempfile import gettempdir
from typing import Any

import pytest

# Marks of tests that plain `pytest` leaves out.
UNQUICK = ("slow", "process", "browser")
# CPU time that a quick test may use in its call phase, all threads together.
QUICK_CPU_S = 0.3
# A test fails above this multiple of it: caches are cold, processors shared, and what a test is the first to
# use may have to be made. A wrong failure costs more than a test of a second.
SLACK = 6.0
# Runnable threads for each processor above which CPU times are not judged: the machine does much else.
CROWDED = 3.0
# CPU time of `_work` on the machine whose seconds QUICK_CPU_S counts. A slower machine has a higher limit.
WORK_S = 0.008
WORK_TURNS = 200_000

# Audit events of a program that is started.
STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty"}
GUARD = ["-I", "-S", "-c"]  # options of the program that guards all jobs of a process
FINDERS = {"ldconfig", "gcc", "cc", "ld", "objdump"}  # programs that ctypes asks where a library is

# Programs and pseudo-terminals that were opened since the last `clear`, in order.
started: list[str] = []


def notice(event: str, arguments: tuple[Any, ...]) -> None:
    """Audit hook that notes each program that is started."""
    if event not in STARTS:
        return
    program = os.path.basename(str(arguments[0])) if arguments else event
    options = list(arguments[1] or ()) if len(arguments) > 1 else []
    if program not in FINDERS and options[1:4] != GUARD:
        started.append(program)


def open_terminal() -> tuple[int, int]:
    """Open a pseudo-terminal: the descriptors of both ends. No audit event reports it."""
    started.append("a pseudo-terminal")
    return os.openpty()


def has_varying_cost(item: pytest.Item) -> bool:
    """Return True for a property: its values are random, and its first text makes tables of characters."""
    return bool(getattr(getattr(item, "function", None), "is_hypothesis_test", False))


def is_quick(item: pytest.Item) -> bool:
    """Return True for a test without a mark."""
    return not any(item.get_closest_marker(mark) for mark in UNQUICK)


def is_marked_unquick(function: object) -> bool:
    """Return True for a test function with a mark of its own that keeps it out of the quick part."""
    return isfunction(function) and any(mark.name in UNQUICK for mark in getattr(function, "pytestmark", ()))


def mark_cases_slow(items: Iterable[pytest.Item]) -> None:
    """Mark the cases of `sampled` tests as slow, except for as many as the mark says.

    The name of the test decides which cases stay quick, so that these are the same in every run.
    """
    tables: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") and is_quick(item):
            tables.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, cases in tables.items():
        mark = cases[0].get_closest_marker("sampled")
        number = mark.args[0] if mark else 0
        quick_indexes = set(random.Random(name).sample(range(len(cases)), min(number, len(cases))))
        for index, case in enumerate(cases):
            if index not in quick_indexes:
                case.add_marker("slow")


def cpu_limit_s() -> float:
    """CPU seconds above which an unmarked test fails on this machine, as fast as it is now."""
    return QUICK_CPU_S * SLACK * max(1.0, min(_work() for _ in range(5)) / WORK_S)


def is_crowded() -> bool:
    """Return True if the machine is so busy that caches are lost all the time."""
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > CROWDED * (os.cpu_count() or 1)


def _work() -> float:
    """CPU seconds of a fixed computation."""
    began = time.thread_time()
    total = 0
    for number in range(WORK_TURNS):
        total += number & 7
    return time.thread_time() - began


def imported_since(before: set[str]) -> list[str]:
    """Modules of this environment that were imported since: the first test that needs one pays for that."""
    temporary = gettempdir()
    new = [module for name, module in list(sys.modules.items()) if name not in before]
    files = [getattr(module, "__file__", None) or "" for module in new]
    return [file for file in files if not file.startswith(temporary)]
