"""Client that a bench starts. Its command contains the URL or the command of the bench's server."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from mcpdesk.errors import DeskUserError

URL = "{url}"
"""Placeholder in a word of a client's command. It is replaced by the URL of the server."""
COMMAND = "{command}"
"""Placeholder word in a client's command. It is replaced by the command of a stdio server."""
END_S = 3.0
"""Seconds that a client may take to end after SIGTERM, before it is killed."""


def client_argv(words: Sequence[str], url: str, command: Sequence[str] = ()) -> list[str]:
    """Return a client's command with the placeholders replaced by `url` and the words of `command`."""
    argv = list[str]()
    for word in words:
        argv += command if word == COMMAND and command else [word.replace(URL, url)]
    return argv


def browser_variable() -> dict[str, str]:
    """Return the environment variable that makes a client open the login page with `page_visit`."""
    return {"BROWSER": f"{sys.executable} -P -m mcpdesk.features.client_bench.page_visit %s"}


@asynccontextmanager
async def running_client(
    argv: Sequence[str], variables: Mapping[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a client with additional environment variables while the block runs. Its output goes to stderr.

    Raises: DeskUserError if the client cannot be started.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            env={**os.environ, **variables},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            stderr=sys.stderr.fileno(),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", "") or str(error)
        raise DeskUserError(f"The client {argv[0]!r} cannot be started: {reason}.") from None
    try:
        yield process
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a client and the programs that it started."""
    _signal(process, signal.SIGTERM)
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), END_S)
    if hasattr(signal, "SIGKILL"):
        _signal(process, signal.SIGKILL)
    await process.wait()


def _signal(process: asyncio.subprocess.Process, signal_number: int) -> None:
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal_number)  # also the programs that the client started
        elif process.returncode is None:
            process.send_signal(signal_number)
