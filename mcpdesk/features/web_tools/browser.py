"""Renders pages in an installed browser without a window, after their scripts have run.

All requests of a page go through our proxy. The proxy checks addresses, and exists only while the page is
rendered. It forwards encrypted traffic unchanged. On a connection without encryption, it forwards only one
request.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from mcpdesk.errors import HandlerError
from mcpdesk.features.web_tools.fetch import resolve
from mcpdesk.tools.conversion import StdoutBytes

BROWSER_NAMES = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge",
    "microsoft-edge-stable", "msedge",
)  # fmt: skip
BROWSER_PATHS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Microsoft/Edge/Application/msedge.exe",
)
TIMEOUT_S = 30.0
"""Time limit in seconds for starting the browser and loading the page, in addition to the requested wait."""
LOAD_TIMEOUT_S = 10.0
"""Maximum number of seconds to wait for images and similar content after the page itself."""
IDLE_TIMEOUT_S = 5.0
"""Maximum number of seconds until a loaded page must be idle. Idle means half a second without a request."""
MAX_BYTES = 20 << 20
"""Maximum size in bytes of the HTML of a page. The rest is cut off."""
ERROR_PAGE_MARK = 'class="neterror"'
"""Text in the error page that a browser shows if it could not load the requested page."""


class BrowserError(Exception):
    """The browser did not return the page. The text contains the reason."""


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A page as it was after its scripts had run."""

    html: str
    method: str
    """`playwright` or `chromium`."""
    is_loading: bool = False
    """True if some requests of the page were still pending."""


def find_browser() -> str | None:
    """Return the path of a suitable browser, or None."""
    programs = (shutil.which(name) for name in BROWSER_NAMES)
    return next((each for each in programs if each), None) or next(
        (candidate for candidate in BROWSER_PATHS if Path(candidate).exists()), None
    )


async def render(
    program: str,
    url: str,
    wait_ms: int,
    environment: dict[str, str],
    *,
    allows_private: bool,
    allows_local: bool,
) -> RenderedPage:
    """Load a page in a browser, and return its content.

    The content is read after the network is idle and `wait_ms` milliseconds have passed. The browser reaches
    only the addresses that `resolve` allows. Raises: BrowserError.
    """
    method = "playwright" if find_spec("playwright") else "chromium"
    try:
        async with (
            asyncio.timeout(TIMEOUT_S + wait_ms / 1000),
            guarding_proxy(allows_private=allows_private, allows_local=allows_local) as proxy,
        ):
            html, is_loading = await METHODS[method](program, url, wait_ms, proxy, environment)
    except TimeoutError:
        raise BrowserError(f"the browser took longer than {TIMEOUT_S:g} s") from None
    if ERROR_PAGE_MARK in html:
        raise BrowserError("the browser was redirected to an address that does not exist or is not allowed")
    return RenderedPage(html, method, is_loading)


def _switches(proxy_url: str, profile: str) -> list[str]:
    root_switches = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return [
        "--headless=new",
        "--disable-gpu",
        "--hide-scrollbars",
        "--mute-audio",
        "--no-first-run",
        "--disable-extensions",
        "--disable-background-networking",
        "--disable-dev-shm-usage",
        "--disable-webrtc",
        "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
        f"--proxy-server={proxy_url}",
        "--proxy-bypass-list=<-loopback>",
        f"--user-data-dir={profile}",
        *root_switches,
    ]


async def _render_with_dump(
    program: str, url: str, wait_ms: int, proxy: Proxy, environment: dict[str, str]
) -> tuple[str, bool]:
    """Render a page with the browser's option `--dump-dom`. See `METHODS`."""
    from mcpdesk.jobs.process import run

    with tempfile.TemporaryDirectory(prefix="mcpdesk-page-", ignore_cleanup_errors=True) as profile:
        output = StdoutBytes(MAX_BYTES)
        argv = [
            program,
            *_switches(proxy.url, profile),
            f"--virtual-time-budget={1000 * IDLE_TIMEOUT_S + wait_ms:.0f}",  # stops during requests
            f"--timeout={1000 * (TIMEOUT_S - LOAD_TIMEOUT_S) + wait_ms:.0f}",  # returns the page as it is
            "--dump-dom",
            url,
        ]
        try:
            program_end = await run(argv, folder=Path(profile), environment=environment, output=output)
        except OSError as error:
            raise BrowserError(f"{program} cannot be started: {error.strerror}") from error
    if program_end.exit_code or not output.data.strip():
        raise BrowserError(f"{program} ended with exit code {program_end.exit_code} and no page")
    # The browser cancels pending requests before it returns the page.
    return output.data.decode("utf-8", "replace"), proxy.pending + proxy.abandoned > 0


async def _render_with_playwright(
    program: str, url: str, wait_ms: int, proxy: Proxy, environment: dict[str, str]
) -> tuple[str, bool]:
    """Render a page with Playwright. See `METHODS`."""
    from playwright.async_api import Error, TimeoutError, async_playwright

    try:
        with tempfile.TemporaryDirectory(prefix="mcpdesk-page-", ignore_cleanup_errors=True) as profile:
            switches = [
                each for each in _switches(proxy.url, profile) if not each.startswith("--user-data-dir")
            ]
            async with async_playwright() as playwright:
                context = await playwright.chromium.launch_persistent_context(
                    profile,
                    executable_path=program,
                    args=switches,
                    accept_downloads=False,
                    env=dict(environment),
                )
                page = await context.new_page()
                response = await page.goto(url, wait_until="domcontentloaded", timeout=1000 * TIMEOUT_S)
                if response is not None and response.status >= 400:
                    raise BrowserError(f"the browser received HTTP {response.status}")
                with contextlib.suppress(TimeoutError):
                    await page.wait_for_load_state("load", timeout=1000 * LOAD_TIMEOUT_S)
                    await page.wait_for_load_state("networkidle", timeout=1000 * IDLE_TIMEOUT_S)
                await page.wait_for_timeout(wait_ms)
                html, is_loading = await page.content(), proxy.pending > 0
                await context.close()
    except Error as error:
        raise BrowserError(str(error).splitlines()[0][:300]) from error
    return html[:MAX_BYTES], is_loading


METHODS: dict[str, Callable[[str, str, int, Proxy, dict[str, str]], Awaitable[tuple[str, bool]]]] = {
    "playwright": _render_with_playwright,
    "chromium": _render_with_dump,
}
"""Functions that render a page, by method.

Each function takes the program, URL, milliseconds to wait, proxy and environment. It returns the HTML, and
True if the page was still loading.
"""

HEAD_BYTES = 65_536
"""Maximum size in bytes of a request's head, and of one piece of forwarded data."""
MAX_LOADED_BYTES = 100 << 20
"""Maximum number of bytes that one page may load."""
CONNECT_TIMEOUT_S = 10.0
"""Time limit in seconds for connecting to a host, for all its addresses together."""
REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
UNREACHABLE = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
CONNECTED = b"HTTP/1.1 200 Connection established\r\n\r\n"
PROXY_HEADER_PREFIXES = (b"proxy-", b"connection:", b"keep-alive:")
"""Prefixes of header lines that are meant for a proxy and not for the server."""


@asynccontextmanager
async def guarding_proxy(*, allows_private: bool, allows_local: bool = True) -> AsyncIterator[Proxy]:
    """Provide a proxy during the block. The proxy reaches only the addresses that `resolve` allows."""
    proxy = Proxy(allows_private, allows_local)
    # The proxy starts to listen only inside the block, because a cancelled start would lose it.
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=HEAD_BYTES, start_serving=False)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        await server.start_serving()
        yield proxy
    finally:
        server.close()
        await proxy.close()


class Proxy:
    """Proxy for one page. The browser uses it at `url`."""

    def __init__(self, allows_private: bool, allows_local: bool) -> None:
        self.url = ""
        self.abandoned = 0
        """Number of requests that the browser cancelled before they were answered."""
        self._waiting: set[object] = set()
        """Connections on which the page waits for a response, or for the rest of a response."""
        self._allows_private, self._allows_local = allows_private, allows_local
        self._remaining_bytes = MAX_LOADED_BYTES
        """Number of bytes that the page may still load."""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pending(self) -> int:
        """Number of unanswered requests.

        An encrypted request counts as answered when the first data arrive.
        """
        return len(self._waiting)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of the browser."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # `close` cancelled the connection; Python 3.11 would report this as an error
        finally:
            self._tasks.discard(task)
            writer.close()

    async def close(self) -> None:
        """End all connections."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one request of the browser, or a tunnel for encrypted traffic."""
        head = await reader.readuntil(b"\r\n\r\n")
        request_line, _, header_lines = head.partition(b"\r\n")
        method, _, target_and_version = request_line.decode("latin-1").partition(" ")
        target = target_and_version.rpartition(" ")[0]
        is_tunnel = method == "CONNECT"
        authority = urlsplit(f"//{target}" if is_tunnel else target)
        try:
            host, port = authority.hostname or "", authority.port or (443 if is_tunnel else 80)
            addresses = await resolve(
                host, port, allows_private=self._allows_private, allows_local=self._allows_local
            )
        except (HandlerError, ValueError):
            writer.write(REFUSED)
            return
        try:
            server_reader, server_writer = await _connected(addresses, port)
        except OSError:
            writer.write(UNREACHABLE)
            return
        on_request: Callable[[], None] = partial(self._waiting.add, writer)
        on_answer: Callable[[], None] = partial(self._waiting.discard, writer)

        def on_browser_end() -> None:
            self.abandoned += writer in self._waiting

        try:
            if is_tunnel:
                writer.write(CONNECTED)
            else:
                on_request()
                server_writer.write(_server_request(method, authority.path, authority.query, header_lines))
            await asyncio.gather(
                self._forward(reader, server_writer, on_request if is_tunnel else None, on_browser_end),
                self._forward(server_reader, writer, on_answer if is_tunnel else None, on_answer),
            )
        finally:
            on_answer()
            server_writer.close()

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_pass: Callable[[], None] | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        """Forward data until the sender closes its end, or until the page has loaded too much.

        `on_pass` is called before each piece of data is forwarded. `on_end` is called after the sender has
        closed its end.
        """
        while data := await reader.read(HEAD_BYTES):
            if on_pass is not None:
                on_pass()
            self._remaining_bytes -= len(data)
            if self._remaining_bytes < 0:
                return
            writer.write(data)
            await writer.drain()
        if on_end is not None:
            on_end()
        with contextlib.suppress(OSError):
            writer.write_eof()


async def _connected(
    addresses: Sequence[str], port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first address of a host that accepts the connection. Raises: OSError."""
    failure = OSError("no address")
    for address in addresses:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S / len(addresses)):
                return await asyncio.open_connection(address, port)
        except OSError as error:
            failure = error
    raise failure


def _server_request(method: str, path: str, query: str, header_lines: bytes) -> bytes:
    """Return a request as a server expects it: with only the path in the first line, and without
    keep-alive.
    """
    lines = [
        line
        for line in header_lines.split(b"\r\n")
        if line and not line.lower().startswith(PROXY_HEADER_PREFIXES)
    ]
    target = f"{path or '/'}{'?' if query else ''}{query}".encode("latin-1")
    request_line = b"%b %b HTTP/1.1" % (method.encode("latin-1"), target)
    return b"\r\n".join([request_line, *lines, b"Connection: close", b"", b""])
