"""Random keys, text, escape sequences, mouse and sizes on the real desk, with traffic, questions and reloads.

`python -m tests.tui.fuzz --minutes 30 --seed 7` prints what it found, with the seed and the last actions.
Every screen that had to be started again, every exception that was logged, a key that a hidden widget
received, a screen that no longer draws, and a core that no longer answers is a finding. The actions of a seed
are always the same; those of the clients are not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import urlopen

import aiohttp
import pexpect

from mcpdesk.tui.actions import ACTIONS
from tests.load import clients
from tests.support import messages
from tests.support.features import having
from tests.support.folders import save
from tests.support.gallery import gallery

ROOT = Path(__file__).parents[2]
SIZES = ((80, 24), (120, 40), (200, 60), (40, 10), (20, 5), (61, 17), (160, 12), (44, 70))
SILENCE_S = 20.0
"""A screen that draws nothing for so long after changes of its size has stopped."""
START_S = 40.0
KEPT_ACTIONS = 60
PROGRAM = """
import faulthandler, logging, signal, sys
faulthandler.register(signal.SIGUSR1, open(sys.argv[1] + ".stacks", "w"))
handler = logging.FileHandler(sys.argv.pop(1))
handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
handler.setLevel(logging.ERROR)
for name in ("asyncio", "textual", "mcpdesk.tui", "mcpdesk.link", "mcpdesk.cli", "mcpdesk.recorder"):
    logging.getLogger(name).addHandler(handler)
from textual.app import App
from textual.events import Key, Paste
deliver = App.on_event
async def on_event(app, event):
    if isinstance(event, (Key, Paste)) and not event.is_forwarded and (focused := app.focused) is not None:
        if not all(widget.display for widget in focused.ancestors_with_self):
            logging.getLogger("textual").error("the hidden %r received %r", focused, event)
    await deliver(app, event)
App.on_event = on_event
from mcpdesk.__main__ import main
sys.exit(main())
"""
QUESTIONS = [
    {"question": "Which database?", "header": "Store", "options": [{"label": "A"}, {"label": "B [/x]"}]},
    {
        "question": "More?\x1b[2J",
        "multiSelect": True,
        "options": [{"label": "日本"}, {"label": "y", "description": "z" * 200}],
    },
]
HOSTILE = (
    "\x1b]52;c;UFdORQ==\x07", "[/bold]", "\u202eabc", "日本語" * 40, "x" * 3000, "", "a\nb\tc", "{",
    "\x9b2J", "é́́",
)  # fmt: skip
SPECIAL = {
    "escape": "\x1b", "enter": "\r", "tab": "\t", "shift+tab": "\x1b[Z", "backspace": "\x7f",
    "space": " ", "up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "home": "\x1b[H",
    "end": "\x1b[F", "pageup": "\x1b[5~", "pagedown": "\x1b[6~", "delete": "\x1b[3~", "insert": "\x1b[2~",
    "f1": "\x1bOP", "f4": "\x1bOS", "shift+up": "\x1b[1;2A", "shift+down": "\x1b[1;2B",
    "ctrl+right": "\x1b[1;5C", "alt+up": "\x1b[1;3A", "alt+down": "\x1b[1;3B", "alt+x": "\x1bx",
    "slash": "/", "question_mark": "?", "left_square_bracket": "[", "right_square_bracket": "]",
    "asterisk": "*", "minus": "-", "plus": "+", "apostrophe": "'", "quotation_mark": '"', "colon": ":",
    "full_stop": ".", "comma": ",", "equals_sign": "=", "exclamation_mark": "!",
    "less_than_sign": "<", "greater_than_sign": ">", "shift+left": "\x1b[1;2D",
    "shift+right": "\x1b[1;2C", "ctrl+pageup": "\x1b[5;5~", "ctrl+pagedown": "\x1b[6;5~",
}  # fmt: skip
MOVES = (
    "up", "down", "left", "right", "tab", "shift+tab", "enter", "escape", "pagedown", "home", "end", "space",
    "shift+down", "delete", "backspace", "ctrl+right",
)  # fmt: skip
NEVER = frozenset({"ctrl+q", "ctrl+c"})
"""They end the desk on purpose."""
TOOLS = (
    "blocks", "numbers", "table", "nothing", "refused", "steps", "faulty", "unknown", "form", "swatch",
    "plan-trip", "crash-on-purpose",
)  # fmt: skip
WORDS = (
    "tool:say", "status:error", ">2ms", "not (a or b)", "(((", '"', "-1", "1e999", "null", "{}",
    '{"a": [1, 2]}', "2026-01-01", "http://x", "ünïcode", "日本", "👩‍👩‍👧", "a" * 300, "id:1 or since:5m",
    "[bold]", "\\", "0", "true",
)  # fmt: skip
STRAY = (
    "\x1b[", "\x1b[999;999R", "\x1b[<0;0;0M", "\x1b[I", "\x1b[O", "\x1b[200~", "\x1b[201~",
    "\x1bP1$r0m\x1b\\", "\x1b]11;rgb:0000/0000/0000\x1b\\", "\x1b[?2026;2$y", "\x1b[97;5u",
    "\x1b_Gi=1;OK\x1b\\", "\x00", "\x1b\x1b", "\x1b[<35;500;500M", "\x1b[1;1;1;1;1A", "\xff",
    "\x1b[57441;1:3u",
)  # fmt: skip


def bytes_of(key: str) -> str:
    """Bytes a terminal sends for a key by its Textual name, or for a sequence of keys."""
    if " " in key:
        return "".join(map(bytes_of, key.split()))
    if key in SPECIAL:
        return SPECIAL[key]
    name, _, last = key.rpartition("+")
    if name == "ctrl" and len(last) == 1:
        return chr(ord(last.lower()) & 0x1F)
    if name == "alt" and len(last) == 1:
        return "\x1b" + last
    if re.fullmatch(r"f\d+", key):
        return {"f2": "\x1bOQ", "f3": "\x1bOR", "f5": "\x1b[15~"}.get(key, "\x1b[20~")
    return key if len(key) == 1 else ""


BOUND = sorted({key for action in ACTIONS for key in action.keys.split(",") if key} - NEVER)


class Actions:
    """Endless actions, equal for equal seeds: the name of each, and the bytes sent."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.size = SIZES[1]
        self._kinds = (
            (30, self._bound),
            (25, self._move),
            (14, self._click),
            (6, self._scroll),
            (5, self._drag),
            (6, self._text),
            (3, self._stray),
            (3, self._resize),
            (4, self._theme),
            (8, self._screen),
            (6, self._call),
            (5, self._answer),
            (4, self._burst),
            (2, self._paste),
            (3, self._palette),
        )

    def __iter__(self) -> Iterator[tuple[str, str]]:
        weights = [weight for weight, _ in self._kinds]
        while True:
            ((_, make),) = self.random.choices(self._kinds, weights)
            yield make()

    def _bound(self) -> tuple[str, str]:
        key = self.random.choice(BOUND)
        return f"key {key}", bytes_of(key)

    def _move(self) -> tuple[str, str]:
        key = self.random.choice(MOVES)
        times = self.random.choice([1, 1, 1, 3, 8])
        return f"{times} x {key}", SPECIAL[key] * times

    def _spot(self) -> tuple[int, int]:
        columns, rows = self.size
        if self.random.random() < 0.25:  # where toasts, footer, header and tabs are
            return self.random.randint(max(1, columns - 40), columns), self.random.choice(
                [1, 2, rows, rows - 2, rows - 4]
            )
        return self.random.randint(1, columns), self.random.randint(1, rows)

    def _click(self) -> tuple[str, str]:
        x, y = self._spot()
        button = self.random.choice([0, 0, 0, 0, 1, 2, 4, 8, 16])
        one = f"\x1b[<{button};{x};{y}M\x1b[<{button};{x};{y}m"
        times = self.random.choice([1, 1, 2, 3])
        return f"{times} x click {button} at {x},{y}", f"\x1b[<35;{x};{y}M" + one * times

    def _scroll(self) -> tuple[str, str]:
        x, y = self._spot()
        code = self.random.choice([64, 65, 66, 67, 68, 69, 80, 81])
        return f"scroll {code} at {x},{y}", f"\x1b[<{code};{x};{y}M" * self.random.choice([1, 3, 10])

    def _drag(self) -> tuple[str, str]:
        (x, y), steps = self._spot(), [self._spot() for _ in range(self.random.randint(1, 5))]
        end_x, end_y = steps[-1]
        path = "".join(f"\x1b[<32;{a};{b}M" for a, b in steps)
        end = f"\x1b[<0;{end_x};{end_y}m" if self.random.random() < 0.8 else ""  # some never let go
        return f"drag {x},{y} by {steps}", f"\x1b[<0;{x};{y}M{path}{end}"

    def _text(self) -> tuple[str, str]:
        word = self.random.choice(WORDS)
        return f"type {word[:30]!r}", word

    def _stray(self) -> tuple[str, str]:
        stray = self.random.choice(STRAY)
        return f"send {stray!r}", stray + self.random.choice(["", "", "\x1b[201~"])

    def _paste(self) -> tuple[str, str]:
        text = self.random.choice([*WORDS, *HOSTILE, "line\n" * 50]).replace("\x1b", "")
        return f"paste {text[:30]!r}", f"\x1b[200~{text}\x1b[201~"

    def _resize(self) -> tuple[str, str]:
        self.size = self.random.choice(SIZES)
        return f"resize {self.size}", ""

    def _theme(self) -> tuple[str, str]:
        down = self.random.randint(0, 12)
        leave = self.random.choice(["\r", "\x1b"])
        return f"theme {down} {leave!r}", "\x1b theme\r" + "\x1b[B" * down + leave

    def _screen(self) -> tuple[str, str]:
        number = self.random.randint(1, 5)
        return f"screen {number}", f"\x1b\x1b{number}"

    def _call(self) -> tuple[str, str]:
        down = self.random.randint(0, 25)
        return f"call item {down}", "\x1b1\x1b" + "gg" + "j" * down + self.random.choice(
            ["\r", "\x12", "\x12\x12", "\x05", "\x08"]
        )

    def _answer(self) -> tuple[str, str]:
        keys = "".join(
            self.random.choice(["1", "2", " ", "\r", "j", "k", "x", "c", "\t", "\x7f", "3x"])
            for _ in range(6)
        )
        return f"answer {keys!r}", "\x1ba" + keys

    def _burst(self) -> tuple[str, str]:
        keys = [self.random.choice(BOUND) for _ in range(self.random.randint(3, 12))]
        return f"burst {keys}", "".join(map(bytes_of, keys))

    def _palette(self) -> tuple[str, str]:
        word = self.random.choice(
            ["fil", "cop", "the", "sav", "jum", "rel", "pic", "tok", "app", "zoo", "exp"]
        )
        return f"palette {word}", "\x10" + word + "\x1b[B" * self.random.randint(0, 3) + "\r"


@dataclass
class Finding:
    """An event that must not happen, and the actions before it."""

    what: str
    actions: list[str] = field(default_factory=list)


class Fuzz:
    """One desk under random hands. `capture` shows that file with `mcpdesk open` instead."""

    def __init__(self, seed: int, place: Path, capture: Path | None = None) -> None:
        self.seed = seed
        self.findings: list[Finding] = []
        self.done = 0
        self.starts = 0
        self._place = place
        self._capture = capture
        self._log = place / "errors.log"
        place.mkdir(exist_ok=True)
        self._log.touch()
        self._seen_log = 0
        self._seen_reports: set[str] = set()
        self._last: deque[str] = deque(maxlen=KEPT_ACTIONS)
        self._head = b""
        self._drawn_at = time.monotonic()
        self._process: pexpect.spawn | None = None
        self._over = threading.Event()
        self._port = 0
        self.folder = gallery(place / "gallery")
        samples = ROOT / "sample_servers" / "desk"
        for name in ("brew_coffee", "failing", "plan_trip", "swatch"):
            shutil.copy(samples / "tools" / f"{name}.py", self.folder / "tools" / f"{name}.py")
        shutil.copytree(samples / "skills", self.folder / "skills")
        about = json.loads((self.folder / "mcp.json").read_text())
        about["builtins"] = ["AskUserQuestion", "TaskManager", "PlanMode", "SetCallback", "InvokeSkill"]
        ticks = "import time\nfor n in range(30): print('\\x1b[31mtick', n, flush=True); time.sleep(.2)"
        about["commands"] = having(
            "program_tools",
            {
                "stage": "make",
                "command": "ticks",
                "description": "Tick.",
                "run": [sys.executable, "-c", ticks],
                "parameters": {"type": "object", "properties": {}},
            },
        )
        (self.folder / "mcp.json").write_text(json.dumps(about))

    def run(self, seconds: float) -> None:
        """Act for so long, or until there are ten findings."""
        traffic = threading.Thread(target=self._clients, name="clients", daemon=True)
        end = time.monotonic() + seconds
        pauses = random.Random(self.seed + 1)
        try:
            self._start()
            if self._capture is None:
                traffic.start()
            for name, keys in Actions(self.seed):
                if time.monotonic() > end or len(self.findings) >= 10:
                    break
                self._act(name, keys)
                time.sleep(pauses.choice([0, 0.01, 0.02, 0.05, 0.15]))
                if self.done % 10 == 0:
                    self._look()
            time.sleep(1)
            self._look()
        finally:
            self._over.set()
            if traffic.ident:
                traffic.join(20)
            self._end()

    def _act(self, name: str, keys: str) -> None:
        self.done += 1
        self._last.append(name)
        assert self._process is not None
        with contextlib.suppress(OSError):  # it has just ended: seen at the next look
            if name.startswith("resize"):
                columns, rows = map(int, re.findall(r"\d+", name))
                self._process.setwinsize(rows, columns)
            self._process.send(keys.encode("utf-8", "surrogateescape"))

    def _look(self) -> None:
        """Note what went wrong since the last look."""
        assert self._process is not None
        state = self._place / "state"
        for report in sorted((state / "crashes").glob("*.txt")):
            if report.name not in self._seen_reports:
                self._seen_reports.add(report.name)
                self._find("the screen failed:\n" + report.read_text())
        with self._log.open("rb") as log:
            log.seek(self._seen_log)
            said = log.read()
            self._seen_log += len(said)
        if said and not said.startswith(b"mcpdesk.cli.screen_runs: The screen failed"):
            self._find("an error was logged:\n" + said.decode(errors="replace")[-6000:])
        if self._port and self._process.isalive() and (problem := self._core_problem()):
            self._find(f"the core does not answer: {problem}")
        if not self._process.isalive():
            if self._process.exitstatus != 0:
                self._find(f"the desk ended with {self._process.exitstatus} ({self._process.signalstatus})")
            self._end()
            self._start()
        elif time.monotonic() - self._drawn_at > SILENCE_S:
            self._find(f"nothing was drawn for {SILENCE_S} seconds; stacks of its threads:\n{self._stacks()}")
            self._end()
            self._start()
        elif time.monotonic() - self._drawn_at > SILENCE_S / 4:
            columns, rows = SIZES[self.done % 3]
            self._process.setwinsize(rows, columns)

    def _core_problem(self) -> str:
        """Return why the core does not answer, or "". A desk that ends may refuse connections."""
        assert self._process is not None
        end, problem = time.monotonic() + SILENCE_S, ""
        while self._process.isalive():
            try:
                with urlopen(f"http://127.0.0.1:{self._port}/health", timeout=SILENCE_S) as answer:
                    return "" if answer.status == 200 else f"status {answer.status}"
            except OSError as error:
                problem = str(error)
            if time.monotonic() > end:
                return problem
            time.sleep(0.2)
        return ""

    def _stacks(self) -> str:
        """Stack of every thread of the desk, written by `faulthandler` at the signal."""
        assert self._process is not None
        self._process.kill(signal.SIGUSR1)
        time.sleep(1)
        return Path(f"{self._log}.stacks").read_text()

    def _find(self, what: str) -> None:
        self.findings.append(Finding(what, list(self._last)))

    def _start(self) -> None:
        environ = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "BROWSER": "true",
            "EDITOR": "true",
            "MCPDESK_STATE_DIR": str(self._place / "state"),
            "MCPDESK_CONFIG_DIR": str(self._place / "config"),
            "PYTHONPATH": str(ROOT),
        }
        work = self._place / "work"
        work.mkdir(exist_ok=True)
        what = (
            ["open", str(self._capture)] if self._capture else [str(self.folder), "--port", "0", "--no-auth"]
        )
        self.starts += 1
        self._port = 0
        self._head, self._drawn_at = b"", time.monotonic()
        self._process = pexpect.spawn(
            sys.executable,
            ["-c", PROGRAM, str(self._log), *what],
            cwd=str(work),
            env=environ,
            dimensions=(40, 120),
            timeout=START_S,
        )
        self._process.delaybeforesend = None
        threading.Thread(target=self._drain, args=(self._process,), daemon=True).start()
        begun = time.monotonic()
        wanted = rb"127\.0\.0\.1:(\d+)/mcp" if self._capture is None else rb"read only"
        while not (found := re.search(wanted, self._head)):
            if time.monotonic() - begun > START_S or not self._process.isalive():
                self._find(f"the desk did not start: {self._head[-2000:]!r}")
                return
            time.sleep(0.05)
        if self._capture is None:
            self._port = int(found[1])

    def _drain(self, process: pexpect.spawn) -> None:
        """Read the output; keep the beginning."""
        while not self._over.is_set():
            try:
                data = process.read_nonblocking(1 << 16, timeout=0.5)
            except pexpect.TIMEOUT:
                continue
            except (pexpect.EOF, OSError, ValueError):
                return
            self._drawn_at = time.monotonic()
            if len(self._head) < 1 << 18:
                self._head += data

    def _end(self) -> None:
        if self._process is not None:
            with contextlib.suppress(pexpect.ExceptionPexpect, OSError):
                self._process.kill(signal.SIGTERM)
                for _ in range(100):
                    if not self._process.isalive():
                        break
                    time.sleep(0.1)
                self._process.close(force=True)

    def _clients(self) -> None:
        asyncio.run(self._all_clients())

    async def _all_clients(self) -> None:
        """Run callers of several kinds and save files. The answers do not matter."""
        works = (self._calls, self._session, self._asks, self._jobs, self._edits)
        asyncio_tasks = [asyncio.create_task(self._again(work, number)) for number, work in enumerate(works)]
        await asyncio.to_thread(self._over.wait)
        for asyncio_task in asyncio_tasks:
            asyncio_task.cancel()
        await asyncio.gather(*asyncio_tasks, return_exceptions=True)

    async def _again(self, work: Callable[..., Awaitable[None]], number: int) -> None:
        chance = random.Random(self.seed * 100 + number)
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError):
                async with asyncio.timeout(20), aiohttp.ClientSession() as http:
                    await work(http, f"http://127.0.0.1:{self._port}", chance)
            await asyncio.sleep(0.3)

    async def _calls(self, http: aiohttp.ClientSession, base: str, chance: random.Random) -> None:
        for number in range(chance.randint(1, 200)):
            tool = chance.choice(TOOLS)
            arguments = {
                "text": chance.choice(HOSTILE),
                "rows": number,
                "destination": chance.choice(HOSTILE),
            }
            await clients.post(
                http,
                f"{base}/mcp/gallery",
                messages.request("tools/call", {"name": tool, "arguments": arguments}, number),
            )
            await asyncio.sleep(chance.choice([0, 0.01, 0.1]))

    async def _session(self, http: aiohttp.ClientSession, base: str, chance: random.Random) -> None:
        url = f"{base}/mcp/gallery"
        headers = await clients.shake_hands(http, url)
        for number in range(chance.randint(1, 20)):
            requests: list[tuple[str, dict[str, Any]]] = [
                ("tools/call", {"name": "steps", "arguments": {}, "_meta": {"progressToken": number}}),
                ("tools/list", {}),
                ("resources/read", {"uri": "data://facts"}),
                ("ping", {}),
                ("tools/call", {"name": "errand", "arguments": {}, "task": {"ttl": 5000}}),
                ("prompts/get", {"name": "talk", "arguments": {"topic": chance.choice(HOSTILE)}}),
                ("tools/call", {"name": "rooted", "arguments": {}}),
                (chance.choice(HOSTILE), {}),
            ]
            method, params = chance.choice(requests)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await clients.post(http, url, messages.request(method, params, number), headers)
        if chance.random() < 0.5:
            async with http.delete(url, headers=headers):
                pass

    async def _asks(self, http: aiohttp.ClientSession, base: str, chance: random.Random) -> None:
        questions = chance.sample(QUESTIONS, chance.randint(1, 2))
        params = {"name": "AskUserQuestion", "arguments": {"questions_json": json.dumps(questions)}}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(chance.choice([0.5, 3, 10])):
                await clients.post(http, f"{base}/mcp/gallery", messages.request("tools/call", params))

    async def _jobs(self, http: aiohttp.ClientSession, base: str, chance: random.Random) -> None:
        for tool in having("gateway", *having("program_tools", "make-ticks"), "brew-coffee"):
            params: dict[str, Any] = {"name": tool, "arguments": {}, "mode": "async"}
            await clients.post(http, f"{base}/v1/mcp?server=gallery", messages.request("tools/call", params))
        params = {"name": "SetCallback", "arguments": {"message": chance.choice(HOSTILE), "delay_seconds": 2}}
        await clients.post(http, f"{base}/mcp/gallery", messages.request("tools/call", params))
        params = {"name": "TaskManager", "arguments": {"action": "create", "title": chance.choice(HOSTILE)}}
        await clients.post(http, f"{base}/mcp/gallery", messages.request("tools/call", params))
        await asyncio.sleep(chance.choice([0.5, 2, 4]))

    async def _edits(self, http: aiohttp.ClientSession, base: str, chance: random.Random) -> None:
        name = chance.choice(["fresh", "plan_trip", "swatch"])
        path, number = self.folder / "tools" / f"{name}.py", chance.randint(0, 99)
        original = ROOT / "sample_servers" / "desk" / "tools" / f"{name}.py"
        text = chance.choice(
            [
                f"async def {name}(a{number}: int = {number}, b: list[str] = []) -> str:\n"
                f"    'Said {number}.'\n    return 'x'\n",
                "async def broken(:\n",
                "import nowhere\n",
                original.read_text() if original.exists() else "",
            ]
        )
        if chance.random() < 0.2:
            path.unlink(missing_ok=True)
        else:
            save(path, text)
        await asyncio.sleep(chance.choice([0.5, 2]))


def report(fuzz: Fuzz) -> str:
    """Findings, each once."""
    said = [f"seed {fuzz.seed}: {fuzz.done:,} actions, {fuzz.starts} starts, {len(fuzz.findings)} findings"]
    for number, finding in enumerate(fuzz.findings, 1):
        said += [
            f"\n== {number}: {finding.what}",
            "last actions:",
            *(f"  {each}" for each in finding.actions),
        ]
    return "\n".join(said) + "\n"


def main() -> int:
    """Run with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.tui.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=float, default=5.0, help="minutes after which the next seed begins")
    parser.add_argument("--capture", type=Path, help="show this capture instead of a desk")
    given = parser.parse_args()
    end, found = time.monotonic() + 60 * given.minutes, 0
    for seed in itertools.count(given.seed):
        left = min(60 * given.each, end - time.monotonic())
        if left < 1:
            break
        with TemporaryDirectory(ignore_cleanup_errors=True) as place:
            fuzz = Fuzz(seed, Path(place), given.capture)
            fuzz.run(left)
        sys.stdout.write(report(fuzz))
        sys.stdout.flush()
        found += len(fuzz.findings)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
