"""Layouts with 300 tools, 50 servers, and names of 60 characters, also right-to-left and wide ones."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice
from typing import cast

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from textual.widget import Widget

from mcpdesk.link.link import Link
from mcpdesk.link.values import Catalogue, LogLine, ServerView
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.screens.clients import ClientsPane
from mcpdesk.tui.screens.logs import LogsPane
from mcpdesk.tui.screens.servers import ServersPane
from mcpdesk.tui.screens.workbench import WorkbenchPane
from mcpdesk.tui.traffic.traffic_pane import TrafficPane
from mcpdesk.tui.widgets.beside import MIN_WIDTH_BESIDE
from tests.support.activity import job, link_with
from tests.support.driven import driven
from tests.support.fake_link import FakeLink
from tests.support.patience import screen_lines, until
from tests.support.traffic import IN, OUT, call, connection, settle, text
from tests.support.workbench import tool

TOOLS, SERVERS, NAME = 300, 50, 60
WORDS = (
    "ordinary words",
    "حساب المستخدم",
    "פרופיל משתמש",
    "利用者の情報",
    "파일 목록",
    "👩‍💻 🧭 notes",
    "accentué",
)
"""Latin, Arabic, Hebrew, Japanese, Korean, emoji of several characters, and accents."""


def long_name(number: int) -> str:
    """A name of 60 characters whose end differs from that of other names."""
    word = WORDS[number % len(WORDS)]
    return f"{(word + ' ') * NAME}"[: NAME - 4] + f" {number:03}"


def crowded_link() -> FakeLink:
    """A desk with many servers, tools, clients, calls, log lines and jobs."""
    link, now = link_with(*(job(long_name(number)) for number in range(14))), time.time()
    schema = {"type": "object", "properties": {long_name(number): {"type": "string"} for number in range(7)}}
    tools = tuple(tool(long_name(number), schema, description=long_name(number)) for number in range(TOOLS))
    url = "http://127.0.0.1:3333/mcp/"
    servers = tuple(
        ServerView(name := long_name(number), name, "1", f"~/{name}", url + name, 1)
        for number in range(SERVERS)
    )
    clients = tuple(
        replace(link.core.clients[1], connection=number, server=servers[number].name, name=long_name(number))
        for number in range(14)
    )
    link.catalogues = {each.name: Catalogue(each.name, 1, tools) for each in servers}
    link.core = replace(link.core, servers=servers, clients=clients)
    link.details = dict.fromkeys(range(14), link.details[1])
    link.log_lines = [
        LogLine(number, now, "error", long_name(number), long_name(number) * 3, "", servers[number].name)
        for number in range(14)
    ]
    recording = Recording(None)
    for number in range(14):
        recording.connect(connection(number, long_name(number), server=servers[0].name))
        recording.frame(number, IN, call(number, long_name(number), {long_name(number): long_name(number)}))
        recording.frame(number, OUT, text(number, long_name(number) * 9))
    settle(recording)
    link.recording, link.traffic = recording, recording.index
    return link


def drawn(app: DeskApp) -> list[str]:
    """Lines of the screen."""
    return screen_lines(app)


def cells(line: str, start: int, end: int) -> str:
    """Text in the cells from `start` to `end` of a line. A character that would be cut fails the test."""
    at, inside = 0, ""
    for index, character in enumerate(line):
        after = cell_len(line[: index + 1])  # characters of one emoji have the width of the whole
        if start <= at < end:
            inside += character
        assert not at < end < after, f"{character!r} is at the edge of cell {end}"
        at = after
    return inside


def check_frame(app: DeskApp, *columns: Widget) -> None:
    """Each line has the width of the screen, and no character crosses the edge of a column."""
    lines, width = drawn(app), app.size.width
    assert {cell_len(line) for line in lines} == {width}
    regions = [each.region for each in columns]
    for left, right in zip(regions, islice(regions, 1, None), strict=False):
        assert left.right <= right.x
    for region in regions:
        assert region.width > 0 and region.right <= width
        for line in lines[region.y : region.bottom]:
            cells(line, region.x, region.right)


SIZES = ((80, 24), (120, 40), (MIN_WIDTH_BESIDE, 45), (200, 60))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_nothing_overlaps_or_is_longer_than_its_pane(size: tuple[int, int]) -> None:
    app, is_wide = DeskApp(cast(Link, crowded_link())), size[0] >= MIN_WIDTH_BESIDE
    async with driven(app, size=size) as pilot:
        await until(lambda: bool(app.screen.query("WorkbenchPane ItemPane")), pilot)
        pane = app.screen.query_one(WorkbenchPane)
        await until(lambda: pane.item is not None and pane.draft is not None, pilot)
        columns: Sequence[Widget] = (pane.catalogue, pane.item_pane)
        for _ in range(8):
            await pilot.press("down")
            await until(lambda: pane.draft is not None and bool(drawn(app)), pilot)
            check_frame(
                app, *(each for each in columns if each.region), *([pane.traffic_box] if is_wide else [])
            )
        for screen in ("traffic", "clients", "servers", "logs", "activity"):
            await app.main.show_screen(screen)
            await until(lambda screen=screen: app.main.shown == screen, pilot)  # type: ignore[misc]
            await pilot.press("home", "down", "down", "down")
            await pilot.pause()
            shown = app.main.pane
            match shown:
                case TrafficPane():
                    parts: list[Widget] = [shown.listing, shown.detail]
                case ClientsPane() | ServersPane():
                    parts = [shown.listing, shown.query_one(".detail")]
                case LogsPane():
                    parts = [shown.listing, shown.query_one("VerticalScroll")]
                case _:
                    parts = []
            await until(lambda parts=parts: not is_wide or all(each.region for each in parts), pilot)  # type: ignore[misc]
            check_frame(app, *(parts if is_wide else parts[:1]))


@pytest.mark.slow
@pytest.mark.parametrize("width", [120, 200])
async def test_columns_are_aligned_by_cells_and_names_stay_different(width: int) -> None:
    app = DeskApp(cast(Link, crowded_link()))
    async with driven(app, size=(width, 40)) as pilot:
        await until(lambda: app.main.pane is not None, pilot)
        await app.main.show_screen("clients")
        await until(lambda: any("calls" in line and "last seen" in line for line in drawn(app)), pilot)
        await until(lambda: sum("● now" in line for line in drawn(app)) == 14, pilot)
        lines = drawn(app)
        head = next(line for line in lines if "last seen" in line)
        start = cell_len(head[: head.index("last seen")])
        rows = [line for line in lines if "● now" in line]
        assert {cell_len(row[: row.index("● now")]) for row in rows} == {start}
        assert len({cells(row, 0, start) for row in rows}) == len(rows)
        await app.main.show_screen("workbench")
        catalogue = app.screen.query_one(WorkbenchPane).catalogue
        await until(lambda: catalogue.region and any("▾ Tools" in line for line in drawn(app)), pilot)
        region = catalogue.region
        rows = [cells(line, region.x, region.right - 1).strip() for line in drawn(app)]
        first = next(at for at, row in enumerate(rows) if row.startswith("▾ Tools"))
        names = [row for row in rows[first + 1 : region.bottom] if row]
        assert len(names) > 20 and len(set(names)) == len(names)
