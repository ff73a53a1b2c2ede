"""Pages drawn by the browser of this machine, without a window: what scripts make of a page is there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mcpdesk.jobs.output import Output, Stream
from mcpdesk.tools.web.proxy import Proxy, guarding_proxy

NAMES = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge",
    "microsoft-edge-stable", "msedge",
)  # fmt: skip
PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Microsoft/Edge/Application/msedge.exe",
)
PATIENCE_S = 30.0
"""For starting the browser and loading the page, besides the time that is asked for."""
LOAD_S = 10.0
"""How long pictures and the like are waited for once the page itself is there."""
MOST_BYTES = 20 << 20
NO_PAGE = 'class="neterror"'
"""In what a browser shows instead of a page that it could not get, or may not."""


class BrowserError(Exception):
    """The browser did not give the page; the text says why."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A page as it stands after its scripts ran."""

    html: str
    way: str
    """`playwright` or `chromium`."""
    is_loading: bool = False
    """Whether something it had asked for was still to come."""


def find_browser() -> str | None:
    """The path of a browser that can do it; None where there is none."""
    found = (shutil.which(name) for name in NAMES)
    return next((each for each in found if each), None) or next(
        (place for place in PLACES if Path(place).exists()), None
    )


async def draw(
    program: str, url: str, wait_ms: int, environment: dict[str, str], *, private: bool, local: bool
) -> Drawn:
    """Let a browser load a page, wait, and return what it shows. It reaches what `resolve` allows.

    Raises: BrowserError.
    """
    way = "playwright" if find_spec("playwright") else "chromium"
    try:
        async with (
            asyncio.timeout(PATIENCE_S + wait_ms / 1000),
            guarding_proxy(private=private, local=local) as proxy,
        ):
            html, is_loading = await WAYS[way](program, url, wait_ms, proxy, environment)
    except TimeoutError:
        raise BrowserError(f"the browser took longer than {PATIENCE_S:g} s") from None
    if NO_PAGE in html:
        raise BrowserError("the browser was led to where it found nothing, or may not look")
    return Drawn(html, way, is_loading)


def _switches(proxy: str, profile: str) -> list[str]:
    sandbox = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
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
        f"--proxy-server={proxy}",
        "--proxy-bypass-list=<-loopback>",
        f"--user-data-dir={profile}",
        *sandbox,
    ]


class _Page(Output):
    """What the browser wrote, without what it complained of."""

    def __init__(self) -> None:
        super().__init__()
        self.html = bytearray()

    def add(self, stream: Stream, data: bytes) -> None:
        """Keep the page, up to a bound."""
        if stream == "stdout":
            self.html += data[: MOST_BYTES - len(self.html)]


async def _with_dump(
    program: str, url: str, wait_ms: int, proxy: Proxy, environment: dict[str, str]
) -> tuple[str, bool]:
    from mcpdesk.jobs.process import run

    with tempfile.TemporaryDirectory(prefix="mcpdesk-page-", ignore_cleanup_errors=True) as profile:
        output = _Page()
        argv = [
            program,
            *_switches(proxy.url, profile),
            f"--virtual-time-budget={max(wait_ms, 1)}",
            f"--timeout={1000 * (PATIENCE_S - LOAD_S) + wait_ms:.0f}",  # then it shows what is there
            "--dump-dom",
            url,
        ]
        try:
            ended = await run(argv, folder=Path(profile), environment=environment, output=output)
        except OSError as error:
            raise BrowserError(f"{program} cannot be started: {error.strerror}") from error
    if ended.exit_code or not output.html.strip():
        raise BrowserError(f"{program} ended with {ended.exit_code} and showed nothing")
    # It gives up what has not come before it shows the page.
    return output.html.decode("utf-8", "replace"), proxy.pending + proxy.abandoned > 0


async def _with_playwright(
    program: str, url: str, wait_ms: int, proxy: Proxy, environment: dict[str, str]
) -> tuple[str, bool]:
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
                answer = await page.goto(url, wait_until="domcontentloaded", timeout=1000 * PATIENCE_S)
                if answer is not None and answer.status >= 400:
                    raise BrowserError(f"the browser was answered with HTTP {answer.status}")
                with contextlib.suppress(TimeoutError):
                    await page.wait_for_load_state("load", timeout=1000 * LOAD_S)
                await page.wait_for_timeout(wait_ms)
                html, is_loading = await page.content(), proxy.pending > 0
                await context.close()
    except Error as error:
        raise BrowserError(str(error).splitlines()[0][:300]) from error
    return html[:MOST_BYTES], is_loading


WAYS: dict[str, Callable[[str, str, int, Proxy, dict[str, str]], Awaitable[tuple[str, bool]]]] = {
    "playwright": _with_playwright,
    "chromium": _with_dump,
}
"""Program, URL, milliseconds, proxy and environment in; HTML, and whether the page still loads, out."""
