"""A person at a terminal: the real program in a pseudo-terminal, its screen as text."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pexpect
import pyte

ROOT = Path(__file__).parents[2]
_UNKNOWN = re.compile(rb"\x1b(?:[P_][^\x1b]*\x1b\\|\[[<>=?]\d*u)")
_UNREAD = re.compile(rb"%b|\x1b\[[\d;:]*m" % _UNKNOWN.pattern)
_BEGUN = re.compile(rb"\x1b(?:[P_][^\x1b]*\x1b?|\[[\d;:]*)?\Z")
WAIT_S = 40.0
"""Starting Python, Textual and a core on a busy machine takes a while; everything after it far less."""


class Desk:
    """`mcpdesk` with the given arguments, drawn into a terminal of `columns` x `rows`."""

    def __init__(
        self,
        arguments: Sequence[str] = (),
        *,
        columns: int = 80,
        rows: int = 24,
        environ: Mapping[str, str] | None = None,
        answers: Mapping[bytes, bytes] | None = None,
        program: Sequence[str] = (sys.executable, "-m", "mcpdesk"),
        cwd: Path = ROOT,
        has_colours: bool = False,
    ) -> None:
        """`has_colours` keeps the colours on the screen. Without them, pyte needs much less time."""
        self._left_out = _UNKNOWN if has_colours else _UNREAD
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self._text: str | None = None
        self._answers = {b"\x1b[6n": b"\x1b[1;1R", **(answers or {})}
        self._strings = b""
        self.process = pexpect.spawn(
            program[0],
            [*program[1:], *arguments],
            cwd=str(cwd),
            dimensions=(rows, columns),
            env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **(environ or {})},
            timeout=WAIT_S,
        )

    def __enter__(self) -> Desk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.isalive():
            self.process.kill(signal.SIGKILL)
        self.process.close(force=True)

    @property
    def text(self) -> str:
        """Visible text."""
        if self._text is None:
            self._text = "\n".join(line.rstrip() for line in self.screen.display)
        return self._text

    def press(self, keys: str) -> None:
        """Type."""
        self.process.send(keys)

    def see(self, pattern: str, within_s: float = WAIT_S) -> str:
        """Wait until the screen shows `pattern`, and return the screen."""
        return self.wait(lambda: re.search(pattern, self.text), repr(pattern), within_s)

    def draws(self, pattern: bytes) -> None:
        """Wait until the program has written `pattern`, which need not be text."""
        self.wait(lambda: re.search(pattern, self.raw, re.DOTALL), repr(pattern))

    def wait(self, condition: Callable[[], object], what: str, within_s: float = WAIT_S) -> str:
        """Take in what is drawn until `condition` holds; returns the screen. A failure names `what`."""
        end = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > end or not self._read():
                raise AssertionError(f"{what} did not appear:\n{self.text}")
        return self.text

    def settle(self, for_s: float = 0.4) -> None:
        """Take in what is drawn for so long."""
        end = time.monotonic() + for_s
        while time.monotonic() < end and self._read():
            pass

    def end(self, within_s: float = WAIT_S) -> int:
        """Wait for the end of the program and return its exit code (negative: the signal it died of)."""
        end = time.monotonic() + within_s
        while time.monotonic() < end and self._read():
            pass
        self.process.wait()
        code = self.process.exitstatus
        return code if code is not None else -int(self.process.signalstatus or 0)

    def _read(self) -> bool:
        """Take in what was drawn; False at the end of the program."""
        try:
            data = self.process.read_nonblocking(1 << 16, timeout=0.2)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += data
        self._answer(data)
        self._stream.feed(self._readable(data))
        self._text = None
        return True

    def _readable(self, data: bytes) -> bytes:
        """Data without commands that pyte would draw as text: pictures and the kitty keyboard protocol."""
        data = self._left_out.sub(b"", self._strings + data)
        begun = _BEGUN.search(data)
        self._strings = begun.group() if begun else b""
        return data[: len(data) - len(self._strings)]

    def _answer(self, data: bytes) -> None:
        """A terminal answers what it is asked: where the cursor is, and what a test wants it to know."""
        for question, answer in self._answers.items():
            if question in self.raw[-len(data) - len(question) + 1 :]:
                self.process.send(answer)
