"""Stand-ins for what few need: not there before, and the real thing when used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.stdio_server import WAIT_S

SET_UP = """
import sys
from mcpdesk.cli.late import LATE, import_libraries
import_libraries()
assert not sys.modules.keys() & set(LATE), sys.modules.keys() & set(LATE)
"""
TLS = """
import asyncio

async def main():
    async def chat(reader, writer):
        writer.write(b"this is no TLS" * 10)

    server = await asyncio.start_server(chat, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        await asyncio.open_connection("127.0.0.1", port, ssl=True)
    except OSError as error:
        import ssl
        assert isinstance(error, ssl.SSLError), error
        assert asyncio.base_events.ssl.SSLContext is ssl.SSLContext
        print("refused")

asyncio.run(main())
"""
PART = """
import asyncio
protocol = asyncio.sslproto.SSLProtocol
import asyncio.sslproto
assert asyncio.sslproto.SSLProtocol is protocol
assert asyncio.sslproto is sys.modules["asyncio.sslproto"]
print("refused")
"""
ADDRESS = """
from urllib.parse import urlsplit
assert urlsplit("http://[::1]:80/").hostname == "::1"
try:
    urlsplit("http://[one]/")
except ValueError:
    print("refused")
"""
TRACEBACK = """
import inspect, traceback
try:
    raise ExceptionGroup("two", [ValueError("refused"), KeyError()])
except ExceptionGroup as group:
    print(traceback.format_exc())
inspect.getsource(inspect.getsource)
"""


@pytest.mark.parametrize("use", [TLS, PART, ADDRESS, TRACEBACK], ids=["tls", "part", "address", "traceback"])
def test_what_was_put_off_is_there_when_it_is_used(use: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SET_UP + use], capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert (ended.returncode, "refused" in ended.stdout) == (0, True), ended.stderr
