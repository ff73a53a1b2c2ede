"""The main screens on sample data that never changes, for comparison with the screens that are stored.

One application is led from screen to screen by keys. Add a screen to `STOPS`, then run
`python -m tests.support.screens_update`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from textual._context import visible_screen_stack
from textual.pilot import Pilot

from mcpdesk.link.values import JobState, JobUse
from mcpdesk.protocol.phases import Phases
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.forms.question_dialog import QuestionScreen
from mcpdesk.tui.screens.main_screen import PANES, Panes
from mcpdesk.tui.widgets.beside import MIN_HEIGHT_BELOW
from tests.support.activity import callback, job, todo
from tests.support.activity import link_with as link_with_work
from tests.support.fake_link import FakeLink, sample_questions
from tests.support.frame import STUBS, running_frame
from tests.support.patience import WITHIN_S, screen_lines, until
from tests.support.screen_text import ScreenText, draw_screen
from tests.support.still_clock import MOMENT, still_clock
from tests.support.traffic import (
    IN,
    OUT,
    call,
    connection,
    error,
    notification,
    request,
    result,
    settle,
    text,
)

SIZES = ((80, 24), (120, 40), (200, 60))
"""Columns and rows."""
STORED = Path(__file__).parents[1] / "tui" / "screens"
"""Folder of the stored screens."""
STILL_S = 0.75
"""Seconds after which a screen that does not change, and is not as stored, is taken as it is."""


class Stop(NamedTuple):
    """One screen: its name, the keys that lead to it from the one before, and the words that it shows."""

    name: str
    keys: tuple[str, ...]
    words: tuple[str, ...]
    words_of_list: tuple[str, ...] = ()
    """Words of the list, if list and details take turns. Empty if it shows `words`."""


STOPS = (
    Stop("workbench", (), ("user-profile", "userId", "ctrl+r calls the tool."), ("greet",)),
    Stop("traffic", ("2",), ("place-order", "slow-report", "following")),
    Stop("exchange", ("home", "right_square_bracket", "e", "enter"), ("the oven is cold", "isError")),
    Stop("waterfall", ("escape", "v", "w"), ("█",)),
    Stop("inbox", ("3",), ("Which database should the service use?", "answered"), ("answered",)),
    Stop("jobs", ("shift+right",), ("watching the sea", "tide 3"), ("watching the sea",)),
    Stop("callbacks", ("shift+right",), ("message 1",)),
    Stop("tasks", ("shift+right",), ("Pack the bags",)),
    Stop("clients", ("4",), ("claude-code 2.1", "capabilities"), ("claude-code 2.1",)),
    Stop("logs", ("5",), ("looking up 123", "KeyError")),
    Stop("statistics", ("6",), ("all calls", "p95")),
    Stop("help", ("question_mark",), ("Keys", "esc close")),
    Stop("palette", ("escape", "ctrl+p"), ("Palette", "type to search")),
    Stop("servers", ("escape", "g", "s"), ("Servers", "served", "use this server"), ("served", "details")),
    Stop("question", ("escape", "a"), ("Which database should the service use?", "PostgreSQL")),
    Stop("result", ("escape", "1", "enter", *"123", "ctrl+r"), ("Ada", "author")),
    Stop("form", ("escape", "escape", "down", "enter"), ("place-order", "customer", "quantity")),
)
FRAME_ROWS = 4
"""Rows of header, tabs, footer and section tabs around a pane."""
DIRECT = ("workbench", "traffic", "inbox", "clients", "logs", "statistics")
"""Screens that are reached without a visit to another one."""


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A screen as it is drawn now, the stored one, and the application that shows it."""

    name: str
    path: Path
    screen: ScreenText
    stored: ScreenText | None
    app: DeskApp


def stored_path(name: str, size: tuple[int, int]) -> Path:
    """Return the path of a stored screen."""
    return STORED / f"{name}-{size[0]}x{size[1]}.txt"


async def visit_screens(size: tuple[int, int], only: str = "") -> AsyncIterator[RenderedPage]:
    """Show all screens at one size, or a single one of `DIRECT`, which takes a tenth of the time."""
    is_aside = only and only != "workbench"
    panes: Panes = {**PANES, "workbench": STUBS["workbench"]} if is_aside else PANES
    with still_clock(), pytest.MonkeyPatch.context() as patch:
        patch.delenv("NO_COLOR", raising=False)
        link, questions = _link(), sample_questions(MOMENT)
        async with running_frame(link, size, panes=panes) as (app, pilot):
            await until(lambda: app.main.pane is not None, pilot, within_s=WITHIN_S)
            app.main.questions.opened.update(question.id for question in questions)
            link.asked = list(questions)
            link.core = replace(link.core, questions_version=link.core.questions_version + 1)
            for stop in STOPS if not only else [stop for stop in STOPS if stop.name == only]:
                await pilot.press(*stop.keys)
                takes_turns = size[1] < MIN_HEIGHT_BELOW + FRAME_ROWS and stop.words_of_list
                words = stop.words_of_list if takes_turns else stop.words
                await until(partial(_shows, pilot, words), pilot, within_s=WITHIN_S)
                path = stored_path(stop.name, size)
                stored = ScreenText.decode(path.read_text("utf-8")) if path.exists() else None
                yield RenderedPage(stop.name, path, await _settled(pilot, stored), stored, app)
        QuestionScreen.drafts.clear()


def _shows(pilot: Pilot[Any], words: Iterable[str]) -> bool:
    visible_screen_stack.set(pilot.app._background_screens)
    shown = "\n".join(screen_lines(pilot.app))
    return all(each in shown for each in words)


async def _settled(pilot: Pilot[Any], stored: ScreenText | None) -> ScreenText:
    """Return the screen as soon as it is as stored, or does not change."""
    screen, since = draw_screen(pilot.app), monotonic()
    while screen != stored and monotonic() - since < STILL_S:
        await pilot.pause(0.05)
        if (now := draw_screen(pilot.app)) != screen:
            screen, since = now, monotonic()
    return screen


def _recording() -> Recording:
    """Half a minute of traffic of two clients; one call still runs."""
    recording = Recording(None)
    start = MOMENT - 30
    recording.connect(connection(0, "desk", transport="memory", revision="2026-07-28", opened=start))
    recording.connect(connection(1, opened=start))
    recording.connect(connection(2, "cursor 1.4", transport="stdio", server="hello", opened=start))
    for number, asked, answer, after, took in _exchanges():
        began = start + after
        recording.frame(number, IN, asked, at=began)
        phases = Phases(began + took * 0.9, int(took * 6e5), int(took * 1e5), 0, int(took * 1e5))
        recording.frame(number, OUT, answer, at=began + took, phases=phases)
    recording.frame(1, OUT, notification("notifications/tools/list_changed"), at=start + 25)
    recording.frame(1, IN, call(8, "slow-report", {"days": 30}), at=start + 28)
    settle(recording)
    return recording


def _exchanges() -> Iterator[tuple[int, bytes, bytes, float, float]]:
    """Connection, request, response, seconds since the start, and seconds that it took."""
    client = {"name": "claude-code", "version": "2.1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    agreed = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": client}
    yield 1, request(0, "initialize", hello), result(0, agreed), 0.0, 0.002
    yield 1, request(1, "tools/list"), result(1, {"tools": []}), 0.5, 0.0011
    for at in range(4):
        profile = f'{{"name": "Ada", "id": "{at}"}}'
        yield 1, call(2 + at, "user-profile", {"userId": f"{at}"}), text(2 + at, profile), 2.0 + at, 0.004
    order = {"customer": "Grace", "quantity": 2, "lines": [{"article": "pizza"}]}
    yield 1, call(6, "place-order", order), text(6, "the oven is cold", is_error=True), 9.0, 1.25
    yield (
        2,
        request(1, "resources/read", {"uri": "file:///nowhere.txt"}),
        error(1, -32002, "Resource not found"),
        12.0,
        0.0005,
    )
    yield 1, call(7, "slow-report", {"days": 3}), text(7, "3 days, 17 orders"), 14.0, 8.5
    yield 2, request(2, "prompts/get", {"name": "greet"}), result(2, {"messages": []}), 24.0, 0.003


def _link() -> FakeLink:
    """A desk with work of every kind, whose questions come later."""
    sea = job("watching the sea", size=len(_TIDES))
    link = link_with_work(
        sea,
        job("make all", JobState.SUCCEEDED, message="exit code 0", number=2, started=MOMENT - 300),
        job("make check", JobState.FAILED, message="exit code 2", number=3, started=MOMENT - 500),
        callback(1, peer="cursor 1.4"),
        callback(2, repeat_count=1, fired=0, last_fired=None),
        todo(1, "Travel to Lisbon", "x Book a flight", "Pack the bags", is_current=True),
        todo(2, "Tidy up", "x Wash the dishes", completed=MOMENT - 60),
    )
    link.works(running_jobs=1, next_callback=MOMENT + 1439.9)
    link.outputs[sea.id] = _TIDES
    link.uses[sea.id] = JobUse(0.25, 48 << 20, 2)
    link.recording = _recording()
    link.traffic = link.recording.index
    return link


_TIDES = b"".join(b"\x1b[32mtide %d\x1b[0m: %d cm\n" % (number, 40 + 7 * number) for number in range(1, 13))
