"""The main screen: tabs, panes mounted at their first visit, focus, servers, zoom, jump."""

from __future__ import annotations

import asyncio
import logging
import math
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.css.query import NoMatches
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import ContentSwitcher, Input, Static

from mcpdesk.inbox.question import Page, Question
from mcpdesk.link.values import CoreView, Severity, UpstreamView
from mcpdesk.tui.actions import SCREENS
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.following import MIN_REFRESH_PERIOD_S
from mcpdesk.tui.forms.question_text import QuestionBanner
from mcpdesk.tui.screens import main_screen, refreshing
from mcpdesk.tui.screens.frame_lines import DeskFooter, DeskTabs
from mcpdesk.tui.screens.main_screen import MainScreen, Panes
from mcpdesk.tui.screens.refreshing import RESTING_BEATS, ScreenRefresher
from tests.support.action_menu import choose_action
from tests.support.driven import driven
from tests.support.frame import STUBS, StubPane, quiet_link, running_frame, toasts
from tests.support.patience import until, within


@pytest.mark.slow
async def test_panes_are_mounted_at_their_first_visit_and_keep_their_focus() -> None:
    async with running_frame() as (app, pilot):
        switcher = app.main.query_one(ContentSwitcher)
        assert [child.id for child in switcher.children] == ["workbench"]
        assert app.focused is not None and app.focused.id == "go", "the first focus must not be an input"
        for action, name in zip(SCREENS.values(), SCREENS, strict=True):
            await pilot.press(action.keys)
            await pilot.pause()
            assert app.main.shown == name and app.main.pane is not None and app.main.pane.display
        assert [child.id for child in switcher.children] == list(SCREENS)
        await pilot.press("1")
        field = app.main.query_one("#workbench #field", Input)
        field.focus()
        await pilot.press("2", "t", "question_mark", "z")
        assert field.value == "2t?z" and app.main.shown == "workbench"
        await app.main.show_screen("clients")
        await app.main.show_screen("workbench")
        await pilot.pause()
        assert app.focused is field


async def test_first_pane_is_mounted_with_the_catalogue_once_the_core_has_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(main_screen, "FIRST_PANE_S", 3600)
    link = quiet_link()
    link.core = structs.replace(link.core, is_loading=True)
    painted: list[bool] = []
    app = DeskApp(link, panes=STUBS, begin=lambda: painted.append(True))
    async with driven(app, size=(120, 40)) as pilot:
        switcher = app.main.query_one(ContentSwitcher)
        await until(lambda: painted, pilot)
        app.main.refresher.refresh()
        await pilot.pause()
        assert not switcher.children, "a pane without content would be laid out and painted twice"
        app.post_message(Key("2", "2"))
        link.core = structs.replace(link.core, is_loading=False)
        app.main.refresher.refresh()
        await until(lambda: app.main.shown == "traffic", pilot)
        assert [child.id for child in switcher.children] == ["workbench", "traffic"], "the key waited"
        assert not cast(StubPane, switcher.children[0]).seen[0].is_loading


async def test_first_pane_does_not_wait_for_a_core_that_loads_slowly() -> None:
    link = quiet_link()
    link.core = structs.replace(link.core, is_loading=True)
    app = DeskApp(link, panes=STUBS)
    async with driven(app, size=(120, 40)) as pilot:
        await until(lambda: app.main.shown == "workbench", pilot)


async def test_first_pane_is_shown_although_the_core_fails_once_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = quiet_link()
    view, errors = link.view, list[Exception]()

    def failing_view() -> CoreView:
        if errors:
            raise errors.pop()
        return view()

    monkeypatch.setattr(link, "view", failing_view)
    app = DeskApp(link, panes=STUBS, begin=lambda: errors.append(ValueError("not ready")))
    async with driven(app, size=(120, 40), notifications=True) as pilot:
        await until(lambda: app.main.shown == "workbench" and not app.main.awaits_pane, pilot)
        assert toasts(app) == ["The core could not be shown: ValueError: not ready"]


async def test_first_pane_does_not_replace_that_of_a_tab_that_was_clicked_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(main_screen, "FIRST_PANE_S", 3600)
    link = quiet_link()
    link.core = structs.replace(link.core, is_loading=True)
    painted: list[bool] = []
    app = DeskApp(link, panes=STUBS, begin=lambda: painted.append(True))
    async with driven(app, size=(120, 40)) as pilot:
        await until(lambda: painted, pilot)
        await asyncio.gather(app.main.show_screen("traffic"), app.main._show_first_pane())
        assert app.main.shown == "traffic" and not app.main.awaits_pane


async def test_a_server_that_connects_does_not_count_as_shown() -> None:
    link = quiet_link()
    one = link.core.servers[0]
    connecting = structs.replace(one, upstream=UpstreamView("a-server", "connecting"))
    link.core = structs.replace(link.core, servers=(connecting,))
    shown: list[bool] = []
    app = DeskApp(link, panes=STUBS, settled=lambda: shown.append(True))
    async with driven(app, size=(120, 40)) as pilot:
        await until(lambda: app.main.shown == "workbench", pilot)
        app.main.refresher.refresh()
        later = asyncio.Event()
        app.main.set_timer(MIN_REFRESH_PERIOD_S, later.set)  # after a timer that the refresh would have set
        await until(later.is_set, pilot)
        assert not shown
        ready = structs.replace(one, upstream=UpstreamView("a-server", "ready"))
        link.core = structs.replace(link.core, servers=(ready,))
        app.main.refresher.refresh()
        await until(lambda: shown, pilot)


@pytest.mark.slow
async def test_a_pane_that_is_asked_for_twice_at_once_is_mounted_once() -> None:
    async with running_frame() as (app, _):
        await asyncio.gather(app.main.show_screen("activity"), app.main.show_screen("activity"))
        switcher = app.main.query_one(ContentSwitcher)
        assert [child.id for child in switcher.children] == ["workbench", "activity"]


@pytest.mark.slow
async def test_tabs_can_be_clicked_and_show_where_one_is() -> None:
    async with running_frame() as (app, pilot):
        tabs = app.main.query_one(DeskTabs)
        await pilot.click(DeskTabs, offset=(tabs.render().plain.index("Clients"), 0))
        await pilot.pause()
        assert app.main.shown == "clients"
        current = [part for part in tabs.parts if part.rank == 99]
        assert [part.text.plain.strip() for part in current] == ["4 Clients"]


@pytest.mark.slow
async def test_another_server_is_picked_its_url_copied_and_its_folder_read_again() -> None:
    link = quiet_link()
    async with running_frame(link) as (app, pilot):
        await choose_action(pilot, "copy URL")
        await pilot.pause()
        assert app.clipboard == "http://127.0.0.1:3333/mcp/profiles"
        assert toasts(app) == ["copied http://127.0.0.1:3333/mcp/profiles"]
        await pilot.press("g", "s")
        await until(lambda: app.main.shown == "servers", pilot)
        await pilot.press("down", "enter")
        await pilot.pause()
        assert app.server == "hello" and isinstance(app.screen, MainScreen)
        await pilot.press("f5")
        assert link.reloads == ["hello"]
        link.core = structs.replace(link.core, servers=link.core.servers[:1])
        app.main.refresher.refresh()
        assert app.server == "profiles"
        link.core = structs.replace(link.core, servers=())
        app.main.refresher.refresh()
        assert app.server == ""
        await choose_action(pilot, "copy URL")
        await pilot.pause()
        assert "no URL" in toasts(app)[-1]


@pytest.mark.slow
async def test_zoom_gives_a_pane_the_screen_and_takes_it_back() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("5", "z")
        await pilot.pause()
        assert app.main.maximized is not None
        assert app.main.maximized.size == (120, 36) and app.main.header.region.y == 0
        await pilot.press("z")
        assert app.main.maximized is None
        await pilot.press("z", "1")
        await pilot.pause()
        assert app.main.maximized is None and app.main.shown == "workbench"


class FakeDialog(ModalScreen[None]):
    """Stands for the question dialog: esc closes it."""

    BINDINGS = [("escape", "dismiss", "Later")]

    def __init__(self, link: object, question: Question, *, is_automatic: bool) -> None:
        super().__init__()
        self.question = question

    def compose(self) -> ComposeResult:
        yield Static("?")


@pytest.fixture
def dialog(monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip("mcpdesk.tui.forms.question_dialog")
    monkeypatch.setattr(module, "QuestionScreen", FakeDialog)


def opened(app: DeskApp) -> Question | None:
    """Question of the open dialog."""
    return app.screen.question if isinstance(app.screen, FakeDialog) else None


PAGE = Page("Which one?")


async def test_only_the_visible_pane_is_looked_at() -> None:
    async with running_frame() as (app, pilot):
        await app.main.show_screen("traffic")
        work, traffic = (app.main.query_one(f"#{name}", StubPane) for name in ("workbench", "traffic"))
        before = len(work.seen)
        app.main.refresher.refresh()
        await pilot.pause()
        assert len(work.seen) == before and traffic.seen
        await traffic.remove_children()
        before = len(traffic.seen)
        app.main.refresher.refresh()
        assert len(traffic.seen) == before, "a pane that is being taken down is not refreshed"


async def test_a_pane_without_one_of_its_widgets_is_reported_at_the_second_refresh(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_frame(quiet_link()) as (app, _):
        pane = app.main.query_one("#workbench", StubPane)
        pane.trouble = NoMatches("no list")
        # Nothing is awaited, so that the frame itself refreshes nothing between.
        app.main.refresher.refresh()
        assert not caplog.records, "its widgets may be closing"
        app.main.refresher.refresh()
        assert [record.getMessage() for record in caplog.records] == ["the workbench pane could not be shown"]


class NestedPane(StubPane):
    """A pane whose input is inside another widget; a refresh needs the input."""

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Input()

    def show_view(self, view: CoreView) -> None:
        self.query_one(Input)
        super().show_view(view)


async def test_a_screen_that_closes_is_not_refreshed(caplog: pytest.LogCaptureFixture) -> None:
    panes: Panes = {**STUBS, "workbench": NestedPane}  # type: ignore[dict-item]
    async with running_frame(quiet_link(), panes=panes) as (app, _):
        main, pane = app.main, app.main.query_one(NestedPane)
        main.refresher.refresh()
        before = len(pane.seen)
        assert before
        closing = main.remove()
        turns = 0
        while main.children:  # widgets close from the bottom up
            main.refresher.refresh()
            turns += 1
            await asyncio.sleep(0)
        await closing
        assert turns > 2 and len(pane.seen) == before
        assert not caplog.records


async def test_a_pane_or_core_that_fails_is_logged_and_named_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = quiet_link()
    async with running_frame(link) as (app, pilot):
        pane = app.main.query_one("#workbench", StubPane)
        pane.trouble = KeyError("[oops]")
        with caplog.at_level(logging.ERROR):
            app.main.refresher.refresh()
            app.main.refresher.refresh()
        await pilot.pause()
        assert app.is_running
        said = [text for text in toasts(app) if "workbench" in text]
        assert said == ["The workbench pane could not be shown: KeyError: '[oops]'"]
        assert len([record for record in caplog.records if record.exc_info]) == 1
        monkeypatch.setattr(link, "view", lambda: 1 / 0)
        app.main.refresher.refresh()
        await pilot.pause()
        assert app.is_running and "ZeroDivisionError" in toasts(app)[-1]


@pytest.mark.slow
async def test_a_part_that_is_taken_down_while_the_program_ends_is_no_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    link = quiet_link()
    async with running_frame(link) as (app, pilot):
        await app.main.query_one(DeskFooter).remove()
        link.ask(PAGE)
        app.main.refresher.refresh()
        await app.main.switcher.remove_children()
        assert app.main.pane is None
        app.main.refresher.refresh()
        await pilot.pause()
        assert toasts(app) == []
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("notices", "said"),
    [
        ([("tools/[x].py:3:\nSyntaxError", "logs")], ["tools/[x].py:3:\nSyntaxError · press 5: logs"]),
        ([("reloaded", "workbench")], ["reloaded"]),
        ([("word " * 99, "logs")], ["word " * 99 + " · press 5: logs"]),
        ([("reloaded", "workbench/save/profiles")], ["reloaded · v d shows what changed"]),
        ([("reloaded", "workbench/save/hello")], ["reloaded"]),
        (
            [(f"n{number}", "logs") for number in range(10)],
            [f"n{number} · press 5: logs" for number in range(10)],
        ),
    ],
    ids=["elsewhere", "here", "long", "save", "save of another server", "many"],
)
async def test_notices_become_toasts_with_the_key_to_their_detail(
    notices: list[tuple[str, str]], said: list[str]
) -> None:
    link = quiet_link()
    async with running_frame(link) as (app, pilot):
        for text, screen in notices:
            link.tell(text, Severity.ERROR, screen)
        app.main.refresher.refresh()
        app.main.refresher.refresh()
        await pilot.pause()
        assert toasts(app) == said


@pytest.mark.slow
async def test_a_question_opens_by_itself_once_and_is_counted_until_it_ends(dialog: None) -> None:
    link = quiet_link()
    async with running_frame(link) as (app, pilot):
        await pilot.press("a")
        await pilot.pause()
        assert toasts(app) == ["No question is waiting."]
        footer = app.main.query_one(DeskFooter)
        assert "a answer" not in footer.render().plain
        app.main.last_key = -math.inf
        question = link.ask(PAGE)
        app.main.refresher.refresh()
        await pilot.pause()
        assert opened(app) == question
        await pilot.press("escape")
        app.main.last_key = -math.inf
        app.main.refresher.refresh()
        await pilot.pause()
        assert app.screen is app.main and not app.main.query_one(QuestionBanner).display
        assert "3 Activity ?1" in app.main.query_one(DeskTabs).render().plain
        for size in ((80, 24), (200, 60), (120, 40)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert " a answer " in footer.render().plain
        await pilot.press("a")
        assert opened(app)
        link.decline(question.id)
        app.main.refresher.refresh()
        await pilot.press("escape")
        await pilot.pause()
        assert "a answer" not in footer.render().plain
        assert not app.main.questions.waiting


NEVER, JUST_NOW = -math.inf, math.inf


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("peer", "key", "call", "opens"),
    [
        ("claude-code 2.1", NEVER, NEVER, True),
        ("claude-code 2.1", JUST_NOW, NEVER, False),
        ("desk", JUST_NOW, NEVER, False),
        ("desk", JUST_NOW, JUST_NOW, True),
    ],
    ids=["quiet hands", "typing", "typed further after the call", "own call"],
)
async def test_a_question_opens_when_nobody_types(
    peer: str, key: float, call: float, opens: bool, dialog: None
) -> None:
    link = quiet_link()
    async with running_frame(link) as (app, pilot):
        app.main.last_key, app.main.last_call = key, call
        question = link.ask(PAGE)
        link.asked = [structs.replace(question, peer=peer)]
        app.main.refresher.refresh()
        await pilot.pause()
        assert bool(opened(app)) == opens and app.main.query_one(QuestionBanner).display != opens


@pytest.mark.slow
async def test_a_question_stays_away_from_dialogs_and_the_banner_announces_the_next(dialog: None) -> None:
    link = quiet_link()
    async with running_frame(link) as (app, pilot):
        await pilot.press("ctrl+p")
        palette = app.screen
        app.main.last_key = NEVER
        link.ask(PAGE)
        app.main.refresher.refresh()
        await pilot.pause()
        assert app.screen is palette
        await pilot.press("escape")
        app.main.last_key = NEVER
        app.main.refresher.refresh()
        await pilot.pause()
        assert opened(app)
        await pilot.press("escape")
        app.main.last_key = JUST_NOW
        second = link.ask(Page("The second?"))
        app.main.refresher.refresh()
        await pilot.pause()
        assert "The second?" in app.main.query_one(QuestionBanner).render().plain
        app.main.action_open_question()
        await pilot.pause()
        assert opened(app) == second


@pytest.mark.slow
async def test_question_never_takes_keys_from_a_person_who_types(
    dialog: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = quiet_link()
    async with running_frame(link) as (app, pilot):
        bells: list[int] = []
        monkeypatch.setattr(app, "bell", lambda: bells.append(1))
        app.main.query_one("#field").focus()
        await pilot.pause()
        link.ask(PAGE)
        for _ in range(3):
            app.main.refresher.refresh()
        await pilot.pause()
        assert app.screen is app.main and app.main.query_one(QuestionBanner).display and bells == [1]
        await pilot.press("a")
        assert app.screen is app.main
        await pilot.press("f2")
        assert opened(app)


async def test_screen_at_rest_looks_less_often_and_wakes_when_a_frame_comes() -> None:
    link = quiet_link()
    async with running_frame(link) as (app, _):
        looks: list[int] = []
        app.main.refresher.refresh = lambda: looks.append(1)
        fall_asleep(app.main.refresher)
        looks.clear()
        for _ in range(30):
            app.main.refresher.beat()
        assert len(looks) == 30 / RESTING_BEATS and app.main.refresher.is_resting
        link.request("profiles", "ping", {})
        app.main.refresher.beat()
        assert not app.main.refresher.is_resting


@pytest.mark.sampled(1)
@pytest.mark.parametrize("act", ["press", "click"])
async def test_screen_at_rest_wakes_under_a_hand(act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_frame(quiet_link()) as (app, pilot):
        fall_asleep(app.main.refresher)
        monkeypatch.setattr(refreshing, "AWAKE_BEATS", 1_000_000)  # it does not fall asleep again
        await (pilot.press("f12") if act == "press" else pilot.click(offset=(1, 1)))
        assert not app.main.refresher.is_resting


async def test_screen_that_woke_looks_at_once_and_goes_on_looking() -> None:
    async with running_frame(quiet_link()) as (app, _):
        looked = asyncio.Event()
        fall_asleep(app.main.refresher)
        app.main.refresher.refresh = looked.set
        app.main.refresher.wake()
        for _ in range(3):
            looked.clear()
            async with within():
                await looked.wait()


def fall_asleep(refresher: ScreenRefresher) -> None:
    """Let the screen rest after enough beats without changes."""
    while not refresher.is_resting:
        refresher.beat()


class Looks:
    """Counts the updates, each of which takes a millisecond of CPU time."""

    polls = 0
    now_s = used_s = 0.0

    def refresh(self) -> None:
        self.polls += 1
        self.now_s += 0.001
        self.used_s += 0.001


def looks_in(beats: int, frames_a_beat: int, is_keyboard_idle: bool) -> int:
    """Number of updates of the screen under such traffic."""
    traffic = SimpleNamespace(frame_count=0, paired=1 << 40)
    link = SimpleNamespace(traffic=traffic, is_remote=False, reports_changes=False)
    looks = Looks()
    refresher = ScreenRefresher(
        cast(Any, None), cast(Any, link), looks.refresh, lambda: is_keyboard_idle, lambda: None
    )
    with pytest.MonkeyPatch.context() as clocks:
        clock = SimpleNamespace(monotonic=lambda: looks.now_s, thread_time=lambda: looks.used_s)
        clocks.setattr(refreshing, "time", clock)
        for _ in range(beats):
            traffic.frame_count += frames_a_beat
            looks.now_s += 0.002
            refresher.beat()
    return looks.polls


def test_the_screen_looks_less_often_while_very_much_comes() -> None:
    assert looks_in(60, frames_a_beat=5, is_keyboard_idle=True) == 60
    watched = looks_in(60, frames_a_beat=1_000, is_keyboard_idle=True)
    typed = looks_in(60, frames_a_beat=1_000, is_keyboard_idle=False)
    assert 1 < watched < typed < 60


def imported_by(module: str) -> set[str]:
    code = f"import sys, {module}; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20)
    return set(out.stdout.split())


@pytest.mark.process
def test_catalogue_imports_nothing_of_what_is_beside_it() -> None:
    assert not imported_by("mcpdesk.tui.screens.workbench") & {
        "mcpdesk.tui.forms.form",
        "mcpdesk.tui.results.result_view",
        "mcpdesk.tui.traffic.traffic_list",
        "mcpdesk.tui.widgets.menu",
        "textual.widgets._text_area",
    }


@pytest.mark.process
def test_frame_imports_no_pane() -> None:
    names = imported_by("mcpdesk.tui.app")
    assert {name for name in names if name.startswith("mcpdesk.tui.screens.")} == {
        "mcpdesk.tui.screens.frame_lines",
        "mcpdesk.tui.screens.main_screen",
        "mcpdesk.tui.screens.refreshing",
    }
    assert not names & {
        "aiohttp",
        "PIL",
        "jsonschema_rs",
        "mcpdesk.tui.screens.overlays",
        "mcpdesk.tui.widgets.menu",
    }
