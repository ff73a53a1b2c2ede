"""Browser for a login at the bench. Run as a module, with the URL of the page.

It follows the redirects in the background, because clients may wait for the end of this program before they
accept the redirect.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from urllib.parse import urljoin, urlsplit

HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
"""Hosts that are visited."""
TIMEOUT_S = 30.0
MAX_REDIRECTS = 10
LISTEN_S = 10.0
"""Time limit in seconds for a client to begin to listen for the redirect."""
RETRY_S = 0.1
UNDELIVERED = "/bench/undelivered"
"""Path at the bench that is requested to report that the client did not receive the redirect."""


def visit(url: str) -> None:
    """Visit a page on this machine, and the pages that it redirects to.

    If a redirect cannot be delivered, notify the server of the first page.
    """
    first_url = url
    try:
        for _ in range(MAX_REDIRECTS):
            location = _location(url)
            if not location:
                return
            url = urljoin(url, location)
    except (OSError, ValueError, HTTPException):
        with suppress(OSError, ValueError, HTTPException):
            _location(urljoin(first_url, UNDELIVERED))


def _location(url: str) -> str:
    """Return the URL of a page's redirect, or "". Raises: OSError, ValueError, HTTPException."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname not in HOSTS:
        raise ValueError(f"{url} is not on this machine")
    deadline = time.monotonic() + LISTEN_S
    while True:
        connection = HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", parts._replace(scheme="", netloc="", fragment="").geturl() or "/")
            answer = connection.getresponse()
            return answer.getheader("Location", "") if 300 <= answer.status < 400 else ""
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)
        finally:
            connection.close()


def main(arguments: list[str]) -> None:
    """Visit the page, or start a process that visits it."""
    if arguments[:1] == ["--now"]:
        visit(arguments[1])
        return
    subprocess.Popen(
        [sys.executable, "-P", "-m", "mcpdesk.features.client_bench.page_visit", "--now", *arguments[:1]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
