"""A headless Chromium on the dashboard. A forbidden action of the page fails the test that caused it."""

from __future__ import annotations

import atexit
import re
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.dashboard import OPERATOR_KEY, Dashboard
from tests.support.patience import WITHIN_S, until

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
BROWSER = next(filter(None, map(shutil.which, (*NAMES, MAC))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no browser was found on this machine")

WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", event =>
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""
CONTRAST = """
() => {
  const numbers = text => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([red, green, blue]) => {
    const [r, g, b] = [red, green, blue].map(one => {
      const part = one / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = numbers(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    if (!walker.currentNode.data.trim() || !element.checkVisibility() || box.width < 2) continue;
    if (element.closest("[aria-hidden]") || element.closest(":disabled")) continue;
    const [low, high] = [light(numbers(style.color)), light(ground(element))].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${element.className}: ${walker.currentNode.data.trim()}`);
  }
  return poor;
}
"""
"""Texts on the page with less contrast than level AA of WCAG."""
NAMELESS = """
() => [...document.querySelectorAll("button, input, textarea, a[href], summary, dialog, [role=group]")]
  .filter(one => one.checkVisibility())
  .filter(one => {
    const labels = [...(one.labels ?? [])].map(label => label.textContent).join("");
    const ids = (one.getAttribute("aria-labelledby") ?? "").split(" ").filter(Boolean);
    const by = ids.map(id => document.getElementById(id)?.textContent).join("");
    return !(one.getAttribute("aria-label") || by || labels || one.textContent).trim();
  }).map(one => one.outerHTML.slice(0, 120))
"""
"""Controls without an accessible name."""


class Surfer:
    """One page in the browser, and everything it complained of."""

    def __init__(self, page: Page, shown: Dashboard) -> None:
        self.page = page
        self.shown = shown
        self.problems: list[str] = []
        page.set_default_timeout(WITHIN_S * 1000)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("console", lambda said: self._said(said.type, said.text))
        page.on("request", lambda request: self._asked(request.url))

    async def open(self) -> None:
        """Load the page."""
        await self.page.goto(f"{self.shown.url}/")

    async def sign_in(self) -> None:
        """With the operator's key, by the form."""
        await self.page.get_by_label("Operator's key").fill(OPERATOR_KEY)
        await self.page.keyboard.press("Enter")
        await self.is_live()

    async def is_live(self) -> None:
        """The stream is open and the core was shown."""
        await self.page.locator("#live.on").wait_for()
        await self.page.locator("#server-list .server").first.wait_for()

    async def until(self, condition: Callable[[], Awaitable[Any]]) -> Any:
        """Wait until a condition of the page is true, and return its value."""
        try:
            return await until(condition, within_s=WITHIN_S)
        except AssertionError as error:
            error.add_note(await self.page.inner_text("body"))
            raise

    async def text(self, selector: str) -> str:
        """Text of an element."""
        return await self.page.locator(selector).inner_text()

    async def toasts(self, words: str) -> None:
        """Wait until a toast contains the words."""
        await self.page.locator("#toast p", has_text=words).first.wait_for()

    async def question(self) -> Any:
        """The form of the first question that waits."""
        form = self.page.locator("form.question").first
        await form.wait_for()
        return form

    async def answered(self) -> None:
        """Wait until no question is open."""
        await self.page.get_by_text("No question is waiting.").wait_for()

    async def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        return int(await self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))

    async def check(self) -> None:
        """Raises: AssertionError if the page did something forbidden."""
        self.problems += await self.page.evaluate("window.violations ?? []")
        assert self.problems == []

    def _said(self, kind: str, text: str) -> None:
        # A refused request is the page's business: what it makes of it is what tests look at.
        if kind in ("error", "warning") and not text.startswith("Failed to load resource"):
            self.problems.append(f"{kind}: {text}")

    def _asked(self, url: str) -> None:
        if not url.startswith((self.shown.url, "data:")):
            self.problems.append(f"asked for {url}")


@cache
def debugged_browser() -> str:
    """The address at which the browser takes orders; it is started once, and ends with this process."""
    place = TemporaryDirectory(ignore_cleanup_errors=True)
    process = subprocess.Popen(
        [
            str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--hide-scrollbars", "--remote-debugging-port=0", f"--user-data-dir={place.name}", "about:blank",
        ],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip

    def end() -> None:
        process.kill()
        process.wait()
        place.cleanup()

    atexit.register(end)
    assert process.stderr is not None
    said: list[str] = []
    for line in process.stderr:
        said.append(line)
        if found := re.search(r"listening on (ws://\S+)", line):
            threading.Thread(target=process.stderr.read, daemon=True).start()  # it never waits for us to read
            return found[1]
    raise AssertionError("".join(said))


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Run the browser; close all of its pages at the end."""
    from playwright.async_api import async_playwright  # the quick tests do without this extra

    async with async_playwright() as playwright:
        running = await playwright.chromium.connect_over_cdp(debugged_browser())
        try:
            yield running
        finally:
            await running.close()


@asynccontextmanager
async def surfing(
    shown: Dashboard, *, width: int = 1280, height: int = 900, is_in: bool = True, **more: Any
) -> AsyncIterator[Surfer]:
    """A page on the dashboard, signed in by default. `more` are options of the browser's context."""
    async with chromium() as running:
        context = await running.new_context(viewport={"width": width, "height": height}, **more)
        await context.add_init_script(WATCH)
        surfer = Surfer(await context.new_page(), shown)
        await surfer.open()
        if is_in:
            await surfer.sign_in()
        yield surfer
        await surfer.check()
