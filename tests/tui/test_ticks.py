"""The seconds after which a pane asks to be refreshed although nothing was reported: none if nothing ages."""

from __future__ import annotations

import time

import pytest
from msgspec import structs

from mcpdesk.inbox.question import Page, QuestionState
from mcpdesk.link.values import JobState
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.tui.activity.job_panel import JobPanel
from mcpdesk.tui.activity.kept_panels import INACTIVE_PLAN_READ_S, PLAN_READ_S
from mcpdesk.tui.following import TICK_S
from mcpdesk.tui.render.amounts import seconds_until_since_changes, since
from mcpdesk.tui.screens.clients import ClientsPane
from mcpdesk.tui.screens.statistics import UPDATE_S, StatisticsPane
from mcpdesk.tui.traffic.colour_rules import CHECK_INTERVAL_S
from tests.support.activity import activity, callback, job, link_with, plan, todo
from tests.support.frame import quiet_link, running_frame
from tests.support.patience import until
from tests.support.traffic import IN, OUT, busy_recording, call, connection, notification, settle, text
from tests.tui.test_traffic_pane import running

MINUTES_AGO = 300.5
"""Seconds. So long ago that an age is shown in minutes; the next one is 59.5 seconds away."""


@pytest.mark.parametrize("seconds", [0.0, 3.2, 59.9, 60.0, 119.0, 3599.5, 3600.0, 86_399.0, 90_000.0, -4.0])
def test_an_age_stays_as_it_is_for_as_long_as_is_said(seconds: float) -> None:
    rest_s = seconds_until_since_changes(seconds)
    start = max(0.0, seconds)
    assert since(start) == since(start + 0.99 * rest_s) != since(start + rest_s + 0.001)


@pytest.mark.slow
async def test_activity_refreshes_what_runs_or_waits_and_ages_in_minutes_once_a_minute() -> None:
    now = time.time()
    fired = callback(1, due=None, fired=3, last_fired=now - MINUTES_AGO)
    link = link_with(job("make", JobState.SUCCEEDED), fired, todo(1, "Ship"), plan(is_active=False))
    ended = link.ask(Page("Done?"))
    link.asked[:] = [structs.replace(ended, state=QuestionState.ANSWERED, ended=now - MINUTES_AGO)]
    link.core = structs.replace(link.core, questions_version=link.core.questions_version + 1)
    async with activity(link) as (_, pilot, pane):

        async def ticks(name: str) -> float | None:
            pane.show_section(name)
            await until(lambda: pane.shown == name, pilot)
            pane.show_view(link.view())
            return pane.tick_s()

        for name in ("inbox", "callbacks"):
            tick_s = await ticks(name)
            assert tick_s is not None and 30 < tick_s <= 60, name
        assert await ticks("tasks") is None
        assert await ticks("plan") == INACTIVE_PLAN_READ_S
        await ticks("jobs")
        await until(lambda: pane.tick_s() is None, pilot)  # its output was read to the end

        link.asked[0] = structs.replace(link.asked[0], state=QuestionState.WAITING, ended=None)
        link.core = structs.replace(link.core, questions_version=link.core.questions_version + 1)
        link.job_list = [job("sleep")]
        link.callback_list = [callback(1)]
        link.works(plans=(plan(),))
        for name in ("inbox", "callbacks"):
            tick_s = await ticks(name)
            assert tick_s is not None and tick_s <= TICK_S, name
        assert await ticks("plan") == PLAN_READ_S
        link.outputs["profiles:sleep"] = b"one"
        await ticks("jobs")
        panel = pane.query_one(JobPanel)
        await until(lambda: panel.output.rows == ["one"] and pane.tick_s() == TICK_S, pilot)


@pytest.mark.slow
async def test_traffic_refreshes_every_second_while_a_pending_exchange_is_in_sight() -> None:
    recording = busy_recording()
    async with running(recording) as (app, pilot, pane):
        assert pane.tick_s() == TICK_S
        (pending,) = recording.index.pending()
        recording.connect(connection(9, "other"))
        for _ in range(100):
            recording.frame(9, IN, notification("notifications/initialized"))
        settle(recording)
        pane.show_view(app.link.view())
        assert pane.tick_s() == CHECK_INTERVAL_S, "it is out of sight"
        pane.open_exchange(pending)
        await pilot.pause()
        pane.show_view(app.link.view())
        assert pane.tick_s() == TICK_S
        recording.frame(1, OUT, text("six", "done"))
        settle(recording)
        pane.show_view(app.link.view())
        assert pane.tick_s() == CHECK_INTERVAL_S


@pytest.mark.slow
async def test_statistics_rest_once_all_calls_are_shown() -> None:
    link, recording = quiet_link(), Recording(None)
    recording.connect(connection(1))
    recording.frame(1, IN, call(1, "price"))
    recording.frame(1, OUT, text(1, "3"))
    settle(recording)
    link.traffic = recording.index
    async with running_frame(link) as (app, pilot):
        await pilot.press("6")
        pane = app.main.query_one(StatisticsPane)
        await until(lambda: len(pane.rows) > 1 and pane.tick_s() is None, pilot)
        pane._updated_at = time.monotonic() + 3600
        recording.frame(1, IN, call(2, "price"))
        recording.frame(1, OUT, text(2, "3"))
        settle(recording)
        pane.show_view(link.view())
        assert pane.tick_s() == UPDATE_S, "the second call is counted and not shown yet"


@pytest.mark.slow
async def test_ages_of_clients_are_drawn_without_a_new_layout() -> None:
    link = quiet_link()
    now = time.time()
    gone = structs.replace(
        link.core.clients[0], left=now - MINUTES_AGO, seen=now - MINUTES_AGO, transport="http"
    )
    link.core = structs.replace(link.core, clients=(gone,))
    link.traffic = Recording(None).index
    link.works(next_callback=None)
    async with running_frame(link) as (app, pilot):
        await pilot.press("4")
        pane = app.main.query_one(ClientsPane)
        await until(lambda: pane.rows, pilot)
        tick_s = pane.tick_s()
        assert tick_s is not None and 30 < tick_s <= 60
        version = pane.version_of(link.view())
        link.core = structs.replace(link.core, clients=(structs.replace(gone, opened=gone.opened - 60),))
        assert pane.version_of(link.view()) == version, "other digits change no width"
        back = structs.replace(gone, left=None, seen=None)
        link.core = structs.replace(link.core, clients=(back,))
        pane.show_view(link.view())
        tick_s = pane.tick_s()
        assert tick_s is not None and tick_s <= TICK_S, "its session ages by the second"
        app.main.refresher.refresh()
        assert not app.main.has_clock, "a connected client alone must not make the header tick"


def test_only_a_client_heard_of_lately_can_fall_quiet() -> None:
    now = time.time()
    one = quiet_link().core.clients[0]
    assert structs.replace(one, seen=now - 3, left=None).will_be_quiet(now)
    assert not structs.replace(one, seen=now - 90, left=None).will_be_quiet(now)
    assert not structs.replace(one, seen=now - 3, left=now).will_be_quiet(now)
    assert not structs.replace(one, seen=None, left=None).will_be_quiet(now)
