"""mcpdesk and its peers, started with the same tools."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench import typescript
from tests.bench.figure import FRAME, OURS, SDK, TYPESCRIPT, Effort
from tests.bench.folder import echo_folder
from tests.bench.load import Job
from tests.bench.pipe import Pipe
from tests.bench.process import MCPDESK, Serving, running

_PEERS = Path(__file__).parent / "peers"
WINDOW = (sys.executable, str(_PEERS / "window.py"))
"""A minimal Textual app."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A measured program, and the commands that start it."""

    name: str
    http: Sequence[str]
    """Command that serves HTTP; the port is appended."""
    path: str
    stdio: Sequence[str]
    state: Path

    @contextmanager
    def served(self) -> Iterator[Served]:
        """Serve HTTP during the block."""
        with running(self.http, self.state) as place:
            yield Served(place, self.path)

    def pipe(self) -> Pipe:
        """Start a stdio server and return its pipe."""
        return Pipe(self.stdio, self.state)


@dataclass(frozen=True, slots=True)
class Served:
    """A contender that serves HTTP."""

    place: Serving
    path: str

    def job(self, ask: str, era: str, seconds: float, connections: int) -> Job:
        """A load on it, with its CPU time."""
        port, pid = self.place
        return Job(port, self.path, era, seconds, connections, ask=ask, pid=pid)

    def fill(self, calls: int) -> None:
        """Make so many calls."""
        Job(self.place.port, self.path, "stateless", 600, calls=calls).run()


@contextmanager
def contenders(effort: Effort, tools: int = 0) -> Iterator[list[Contender]]:
    """Ours, then the selected peers.

    Each has an echo tool, one that reports progress, and `tools` more.
    """
    with echo_folder(tools=tools) as folder:
        place, state, many = str(folder), folder.parent, str(tools)
        known = [
            Contender(
                OURS,
                (*MCPDESK, "serve", place, "--port"),
                "/mcp/echo",
                (*MCPDESK, "stdio", place),
                state,
            ),
            Contender(FRAME, _python("frame", many), "/mcp", _python("line_frame", many), state),
            Contender(SDK, _python("sdk", many), "/mcp", _python("sdk", many), state),
        ]
        if TYPESCRIPT in effort.peers:
            command = (*typescript.node(), str(_PEERS / "typescript.cjs"), str(typescript.modules()), many)
            known.append(Contender(TYPESCRIPT, command, "/mcp", command, state))
        yield [one for one in known if one.name == OURS or one.name in effort.peers]


@contextmanager
def served(effort: Effort, tools: int = 0) -> Iterator[dict[str, Served]]:
    """All contenders, each serving HTTP."""
    with ExitStack() as stack:
        known = stack.enter_context(contenders(effort, tools))
        yield {one.name: stack.enter_context(one.served()) for one in known}


def _python(program: str, *arguments: str) -> Sequence[str]:
    return (sys.executable, str(_PEERS / f"{program}.py"), *arguments)
