"""Wake-ups and CPU use of idle programs, screen by screen.

A wake-up is a voluntary context switch of a thread. A minimal Textual app is measured in the same run. Calls
were made and a job has ended, so that every screen has rows; nothing runs and no client is connected. Other
cores that start on the machine add to the wake-ups of ours: they look whether its socket is alive.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.bench.contender import WINDOW
from tests.bench.figure import Effort, Figure, Goal
from tests.bench.folder import echo_folder
from tests.bench.process import MCPDESK, cpu_s, environment, free_port, running
from tests.bench.screen import Screen

SERVE = (*MCPDESK, "serve", "--no-auth")
WAKES = Goal(15, at_most=True)
CPU = Goal(0.2, at_most=True)
AT_LEAST_S = 20.0
"""Seconds of rest on each screen: CPU time is counted in hundredths of a second."""
SETTLE_S = 4.0
"""Seconds after a key before a screen counts as idle."""
FORGET_S = 10.0
"""Seconds after the last call: until then the header draws the calls of the last seconds."""
SCREENS = {
    "Traffic": ("2", "exchanges"),
    "Activity": ("3", "succeeded"),
    "Clients": ("4", "left"),
    "Logs": ("5", "Logs"),
    "Statistics": ("6", "p95"),
    "Workbench": ("1", "Arguments"),
}
"""Screen -> the key that shows it, and a text it has. The first one shown by a desk is the last here."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Activity of a process at rest."""

    wakes: float
    """A second."""
    cpu: float
    """Percent of a core."""


def figures(effort: Effort) -> Iterator[Figure]:
    """Wake-ups a second, and percent of a core."""
    seconds = max(AT_LEAST_S, effort.seconds)
    for measure in (_of_a_window, _of_serve, _of_a_desk, _of_an_attached_desk):
        rounds = [measure(seconds) for _ in range(effort.rounds)]
        for name in rounds[0]:
            has_goal = measure is not _of_a_window
            rests = [each[name] for each in rounds]
            yield Figure(
                f"{name}, wake-ups", "/s", [one.wakes for one in rests], goal=WAKES if has_goal else None
            )
            yield Figure(f"{name}, CPU", "%", [one.cpu for one in rests], goal=CPU if has_goal else None)


def _of_a_window(seconds: float) -> Mapping[str, Rest]:
    with _folder() as folder, closing(Screen(WINDOW, folder.parent)) as screen:
        screen.see("row-1")
        time.sleep(SETTLE_S)
        return {"a Textual app": rest_of([screen.pid], seconds)[screen.pid]}


def _of_serve(seconds: float) -> Mapping[str, Rest]:
    with (
        _folder() as folder,
        running([*MCPDESK, "serve", str(folder), "--no-auth", "--port"], folder.parent) as place,
    ):
        _use(place.port, folder.parent)
        return {"serve": rest_of([place.pid], seconds)[place.pid]}


def _of_a_desk(seconds: float) -> Mapping[str, Rest]:
    port = free_port()
    with (
        _folder() as folder,
        closing(Screen([*MCPDESK, str(folder), "--no-auth", "--port", str(port)], folder.parent)) as screen,
    ):
        screen.see(rf"http://127\.0\.0\.1:{port}")
        _use(port, folder.parent)
        return {f"desk, {name}": rests[screen.pid] for name, rests in _on_each(screen, [screen.pid], seconds)}


def _of_an_attached_desk(seconds: float) -> Mapping[str, Rest]:
    """Wake-ups of the screen, and of the core it is attached to."""
    with ExitStack() as stack:
        folder = stack.enter_context(_folder())
        core = stack.enter_context(
            running([*MCPDESK, "serve", str(folder), "--no-auth", "--port"], folder.parent)
        )
        screen = stack.enter_context(closing(Screen([*MCPDESK, "attach"], folder.parent)))
        screen.see(rf"http://127\.0\.0\.1:{core.port}")
        _use(core.port, folder.parent)
        found = dict[str, Rest]()
        for name, rests in _on_each(screen, [screen.pid, core.pid], seconds):
            found[f"attached, {name}"] = rests[screen.pid]
            found[f"attached, its core, {name}"] = rests[core.pid]
        return found


def _on_each(
    screen: Screen, processes: list[int], seconds: float
) -> Iterator[tuple[str, Mapping[int, Rest]]]:
    for name, (key, text) in SCREENS.items():
        screen.press(key, text)
        time.sleep(SETTLE_S)
        yield name, rest_of(processes, seconds)


def rest_of(processes: list[int], seconds: float) -> Mapping[int, Rest]:
    """Return wake-ups and CPU use of processes and their children during so many seconds, by process id."""
    began = time.perf_counter()
    before = {pid: (_switches(pid), cpu_s(pid)) for pid in processes}
    time.sleep(seconds)
    passed = time.perf_counter() - began
    found = {}
    for pid, (switches, used) in before.items():
        woken = sum(count - switches.get(thread, 0) for thread, count in _switches(pid).items())
        found[pid] = Rest(woken / passed, 100 * (cpu_s(pid) - used) / passed)
    return found


def _switches(pid: int) -> Mapping[tuple[int, int], int]:
    """Voluntary context switches so far, by process and thread."""
    process, found = psutil.Process(pid), {}
    for one in (process, *process.children(recursive=True)):
        for status in Path(f"/proc/{one.pid}/task").glob("*/status"):
            lines = (line.partition(":") for line in status.read_text().splitlines())
            found[one.pid, int(status.parent.name)] = next(
                int(value) for name, _, value in lines if name == "voluntary_ctxt_switches"
            )
    return found


@contextmanager
def _folder() -> Iterator[Path]:
    with echo_folder() as folder:
        (folder / "mcp.json").write_text(json.dumps({"name": "echo", "builtins": ["BackgroundBash"]}))
        yield folder


def _use(port: int, state: Path) -> None:
    """Make two calls, one of which starts a job that ends, and wait until the header shows none of them."""
    url = f"http://127.0.0.1:{port}/mcp/echo"
    for arguments in (("echo", "text=hello"), ("BackgroundBash", "command=true")):
        subprocess.run(
            [*MCPDESK, "call", url, *arguments], env=environment(state), check=True, capture_output=True
        )
    time.sleep(FORGET_S)
