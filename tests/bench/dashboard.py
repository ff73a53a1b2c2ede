"""The dashboard in a headless Chromium: paint and data, the same with 100,000 frames, and calls beside it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from mcpdesk.features.web_tools.browser import find_browser
from tests.bench.figure import OURS, Effort, Figure, Goal, beside, values
from tests.bench.folder import echo_folder
from tests.bench.load import Job
from tests.bench.process import OPERATOR_KEY, Serving, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAINT = Goal(300, at_most=True)
NO_SLOWER = Goal(1.2, at_most=True)
"""Ratio of one paint to another. Smaller differences cannot be distinguished."""
CPU = Goal(1.5, at_most=True)
"""Ratio for a call while a page follows. The browser uses the same processors, so the rate only informs."""
FRAMES = 100_000
OPENINGS = 5
TIMEOUT_S = 30.0
LOOK_S = 0.02
SIGN_IN = """
async word => {
  const headers = {"Content-Type": "application/json"}, body = JSON.stringify({word});
  const answer = await fetch("/dashboard/sign-in", {method: "POST", headers, body});
  sessionStorage.setItem("mcpdesk-page-key", (await answer.json()).page_key);
}
"""
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
SHOWN = "performance.getEntriesByName('{}')[0]?.startTime ?? 0"
ALL_READ = "!document.querySelector('#traffic-counts').textContent.match(/^$|not read|searching/)"


def figures(effort: Effort) -> Iterator[Figure]:
    """Milliseconds from the address to the first paint, to the servers and to the traffic; calls a second."""
    program = find_browser()
    if program is None:
        print("not measured: the dashboard; no browser was found on this machine")
        return
    with ExitStack() as stack:
        browser = stack.enter_context(_chromium(program))
        empty = stack.enter_context(serving(stack.enter_context(echo_folder())))
        full = stack.enter_context(serving(stack.enter_context(echo_folder())))
        _fill(full)
        yield Figure("dashboard, frames read at first look", "ms", [_read_all(browser, full)])
        samples = effort.interleaved(
            {
                "full": partial(_opened, browser, full),
                "empty": partial(_opened, browser, empty),
                "text": partial(_painted, browser, empty, "/status"),
            }
        )
        yield Figure(
            "the browser alone, first paint", "ms", [one[0] for one in samples["text"]], note="a line of text"
        )
        for at, name in enumerate(("first paint", "servers", "traffic")):
            few, many = ([one[at] for one in samples[which]] for which in ("empty", "full"))
            goal = PAINT if at == 0 else None
            yield Figure(f"dashboard, {name}", "ms", few, goal=goal)
            yield Figure(f"dashboard, {name}, {FRAMES:,} frames", "ms", many, goal=goal)
            yield Figure(f"the same beside none, {name}", "ms", many, "no frames", few, NO_SLOWER)
        yield from _beside(effort, browser)


def _beside(effort: Effort, browser: Browser) -> Iterator[Figure]:
    """Calls of a core with an open dashboard, beside those of one without."""
    with ExitStack() as stack:
        seen = stack.enter_context(serving(stack.enter_context(echo_folder())))
        apart = stack.enter_context(serving(stack.enter_context(echo_folder())))
        page = _page(browser, seen)
        jobs = {
            OURS: Job(seen.port, "/mcp/echo", "stateless", effort.seconds, pid=seen.pid),
            "unseen": Job(apart.port, "/mcp/echo", "stateless", effort.seconds, pid=apart.pid),
        }
        samples = effort.interleaved({name: job.run for name, job in jobs.items()})
        page.context.close()
        name = "http c32 beside the dashboard"
        yield from beside(name, "/s", values("rate", samples))
        yield from beside(f"{name}, CPU", "us", values("cpu_us", samples), {"unseen": CPU})


def _fill(place: Serving) -> None:
    """Let so many frames pass."""
    Job(place.port, "/mcp/echo", "stateless", 120, calls=FRAMES // 2).run()


def _opened(browser: Browser, place: Serving) -> tuple[float, ...]:
    """Milliseconds to paint, servers and traffic: medians of some openings without a cache."""
    found = [_one_opening(browser, place) for _ in range(OPENINGS)]
    paint, core, traffic = (median(times) for times in zip(*found, strict=True))
    return paint, core, traffic


def _painted(browser: Browser, place: Serving, path: str) -> tuple[float, ...]:
    """Milliseconds to the first paint of a simpler page: the share of browser and machine."""
    return (median(_one_paint(browser, place, path) for _ in range(OPENINGS)),)


def _one_paint(browser: Browser, place: Serving, path: str) -> float:
    page = _page(browser, place, path)
    _until(page, PAINTED)
    paint = float(page.evaluate(PAINTED))
    page.context.close()
    return paint


def _one_opening(browser: Browser, place: Serving) -> tuple[float, float, float]:
    page = _page(browser, place)
    _until(page, SHOWN.format("traffic"))
    paint, core, traffic = (
        float(page.evaluate(each)) for each in (PAINTED, SHOWN.format("core"), SHOWN.format("traffic"))
    )
    page.context.close()
    return paint, core, traffic


def _read_all(browser: Browser, place: Serving) -> float:
    """Return the milliseconds until all frames recorded before the first look are paired."""
    began = time.perf_counter()
    page = _page(browser, place)
    _until(page, ALL_READ)
    page.context.close()
    return 1000 * (time.perf_counter() - began)


def _until(page: Page, holds: str) -> None:
    """Wait until a condition of the page holds. Raises: RuntimeError on timeout."""
    end = time.monotonic() + TIMEOUT_S
    while not page.evaluate(holds):
        if time.monotonic() > end:
            raise RuntimeError(f"the dashboard never came to {holds}")
        time.sleep(LOOK_S)


def _page(browser: Browser, place: Serving, path: str = "/") -> Page:
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    url = f"http://127.0.0.1:{place.port}"
    if path == "/":
        # A file of the page without its script, so that the stream opens when it is measured.
        page.goto(f"{url}/dashboard/style.css")
        page.evaluate(SIGN_IN, OPERATOR_KEY)
    page.goto(f"{url}{path}")
    return page


@contextmanager
def _chromium(program: str) -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()
