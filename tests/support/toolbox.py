"""A server folder with all the built-in tools, what they need on this machine, and its official clients."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
from mcp.client.session import ClientSession, LoggingFnT
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from mcpdesk.tools import BUILTINS
from tests.support.folders import write
from tests.support.official import ROOT, agree
from tests.support.patience import WITHIN_S

KEY = "key-of-the-toolbox"
PROGRAMS = ("bash", "cat", "env", "head", "mkfifo", "seq", "sleep", "yes")
"""Programs that commands of the tests may use, without a browser."""
SKILL = "---\nname: greet\ndescription: Greet somebody.\n---\nGreet $1 politely.\n"
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b"
    "550000000a49444154789c636000000002000148afa4710000000049454e44ae426082"
)
PAGE = (
    "<!doctype html><html><head><title>Tides</title></head><body><p>The moon pulls the sea.</p></body></html>"
)
FOUND = json.dumps({"results": [{"title": "Tides", "url": "https://tides.example/", "content": "The moon."}]})
Logged = LoggingFnT


class _Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind, text = ("application/json", FOUND) if "search" in self.path else ("text/html", PAGE)
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Places of the toolbox. `environ` is the environment of the server."""

    folder: Path
    site: str
    """A page, and a search engine."""
    environ: dict[str, str]

    @property
    def command(self) -> list[str]:
        """`mcpdesk` and its subcommand follow."""
        return [sys.executable, "-c", "from mcpdesk.__main__ import main; main()"]

    @asynccontextmanager
    async def over_stdio(
        self, revision: str, *, limit_kib: int = 0, **environ: str
    ) -> AsyncIterator[ClientSession]:
        """A client and the server it starts, no desk anywhere. With a limit no file grows beyond that."""
        argv = [*self.command, "stdio", str(self.folder), "--alone"]
        if limit_kib:
            argv = ["/bin/bash", "-c", f'ulimit -f {limit_kib}; exec "$@"', "-", *argv]
        parameters = StdioServerParameters(
            command=argv[0], args=argv[1:], env={**self.environ, **environ}, cwd=ROOT
        )
        async with stdio_client(parameters) as streams, _client(streams, revision) as client:
            yield client

    @asynccontextmanager
    async def over_http(
        self, url: str, revision: str, logged: Logged | None = None
    ) -> AsyncIterator[ClientSession]:
        """A client of the server at a URL; `logged` gets what the server logs to it."""
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(
                httpx2.AsyncClient(headers={"X-API-Key": KEY}, timeout=WITHIN_S)
            )
            streams = await stack.enter_async_context(streamable_http_client(url, http_client=http))
            yield await stack.enter_async_context(_client(streams, revision, logged))

    @contextmanager
    def served(self) -> Iterator[str]:
        """Run `mcpdesk serve` on the folder; yield its URL. Its output is not read."""
        with subprocess.Popen(
            [*self.command, "serve", str(self.folder), "--port", "0"], cwd=ROOT, env=self.environ,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stderr is not None
            output: list[str] = []
            try:
                for line in process.stderr:
                    output.append(line)
                    if match := re.search(r"serving toolbox at (\S+)", line):
                        break
                else:
                    raise AssertionError("".join(output))
                yield match[1]
                process.terminate()
                out, err = process.communicate(timeout=WITHIN_S)
            finally:
                process.kill()  # does nothing to one that has ended
            assert (process.returncode, out) == (0, ""), err
            assert "Traceback" not in err, err


@contextmanager
def toolbox(place: Path) -> Iterator[Toolbox]:
    """Make the folder below `place`, and serve what it needs."""
    folder, programs = place / "toolbox", place / "bin"
    write(folder, {
        "mcp.json": json.dumps({"name": "toolbox", "builtins": sorted(BUILTINS)}),
        "skills/greet/SKILL.md": SKILL,
    })  # fmt: skip
    (folder / "dot.png").write_bytes(PNG)
    programs.mkdir()
    for name in PROGRAMS:
        program = shutil.which(name)
        assert program is not None, name
        (programs / name).symlink_to(program)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Site) as site:
        Thread(target=site.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{site.server_address[1]}"
        own = {
            "PATH": str(programs),
            "HOME": str(place),
            "MCPDESK_API_KEY": KEY,
            "MCPDESK_STATE_DIR": str(place / "state"),
            "MCPDESK_CONFIG_DIR": str(place / "config"),
            "MCPDESK_SEARCH_ENGINES": "searxng",
            "MCPDESK_SEARCH_URLS": f"searxng={url}",
        }
        try:
            yield Toolbox(folder, url, {**os.environ, **own})
        finally:
            site.shutdown()


@asynccontextmanager
async def _client(
    streams: tuple[Any, ...], revision: str, logged: Logged | None = None
) -> AsyncIterator[ClientSession]:
    async with ClientSession(
        streams[0], streams[1], read_timeout_seconds=WITHIN_S, logging_callback=logged
    ) as client:
        await agree(client, revision)
        yield client
