"""`mcpdesk stdio` as clients start it, on a folder whose tools write where they should not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.patience import WITHIN_S

ROOT = str(Path(__file__).parents[2])
PROGRAM = [
    sys.executable,
    "-c",
    f"import sys; sys.path.insert(0, {ROOT!r}); from mcpdesk.__main__ import main; main()",
]

NOISY = '''"""A tool that talks too much."""

import os
import subprocess
import sys

print("imported")


async def noisy(text: str) -> str:
    """Say something everywhere.

    Args:
        text: What to say.
    """
    print("stray", text)
    os.write(1, b"raw " + text.encode() + b"\\n")
    subprocess.run(["echo", "child", text])
    sys.stdin.read()
    return text


async def who() -> int:
    """The process that answers."""
    return os.getpid()
'''


def noisy_folder(path: Path) -> Path:
    """Write the server folder `noisy` there."""
    (path / "tools").mkdir(parents=True)
    (path / "tools" / "noisy.py").write_text(NOISY)
    (path / "mcp.json").write_text('{"name": "noisy", "version": "1.2.3"}')
    return path


class Server:
    """A started `mcpdesk stdio`, spoken to by hand."""

    def __init__(self, folder: Path | str, *options: str) -> None:
        self.process = subprocess.Popen(
            [*PROGRAM, "stdio", str(folder), *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
        )  # fmt: skip
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr
        self.notices: deque[dict[str, Any]] = deque()
        """Notifications that came before an answer that was waited for."""

    def ask(self, method: str, params: dict[str, Any], number: int = 1) -> dict[str, Any]:
        """One request and its answer; notifications before it are kept in `notices`."""
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.stdin.write(json.dumps(request).encode() + b"\n")
        self.stdin.flush()
        while "id" not in (answer := json.loads(self.stdout.readline())):
            self.notices.append(answer)
        assert answer["id"] == number
        return dict(answer)

    def shake_hands(self) -> dict[str, Any]:
        """The handshake; returns the result of `initialize`."""
        client = {"name": "tester", "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        result: dict[str, Any] = self.ask("initialize", params)["result"]
        self.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        return result

    def close(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait(WITHIN_S)
        for stream in (self.stdin, self.stdout, self.stderr):
            with suppress(BrokenPipeError):
                stream.close()

    def end(self) -> tuple[int, bytes, bytes]:
        """Close its stdin and wait; returns exit code and the rest of stdout and stderr."""
        out, err = self.process.communicate(timeout=WITHIN_S)
        return self.process.returncode, out, err
