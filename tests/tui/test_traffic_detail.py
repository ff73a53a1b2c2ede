"""The details show both messages, the HTTP headers and the notifications, with secrets masked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from textual.app import App, ComposeResult
from textual.widgets import ContentSwitcher, Static

from mcpdesk.link.values import LogLine
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.tui.results.json_tree import JsonTree
from mcpdesk.tui.traffic.traffic_detail import TrafficDetail
from mcpdesk.tui.widgets.choice_box import TabStrip
from tests.support.driven import driven
from tests.support.features import needs_feature
from tests.support.patience import until
from tests.support.traffic import (
    IN,
    OUT,
    asking_recording,
    asks,
    busy_recording,
    call,
    connection,
    progress,
    retry,
    settle,
    text,
)


class DetailApp(App[None]):
    """Only the details."""

    def __init__(self, recording: Recording, logged: Sequence[LogLine] = ()) -> None:
        super().__init__()
        self.recording, self.logged = recording, logged

    def compose(self) -> ComposeResult:
        yield TrafficDetail(self.recording.index, log_of=lambda _: self.logged)

    @property
    def detail(self) -> TrafficDetail:
        return self.query_one(TrafficDetail)

    def show(self, name: str) -> None:
        found = (one for one in self.recording.index.exchanges if name in (one.name, one.method, one.kind))
        self.detail.show(next(found).number)

    def tree_text(self, selector: str) -> str:
        """Text of a tree."""
        tree = self.query_one(f"{selector} JsonTree", JsonTree)
        return "\n".join(tree.render_line(y).text.rstrip() for y in range(tree.size.height)).strip()

    def text(self, selector: str) -> str:
        return str(self.query_one(selector, Static).content)


async def test_it_says_how_to_choose_a_line_first() -> None:
    app = DetailApp(busy_recording())
    async with driven(app):
        assert app.query_one(".nothing").display and not app.query_one(".title").display
        app.detail.update_exchange()


@pytest.mark.slow
async def test_messages_in_another_process_are_requested_the_selected_frame_first() -> None:
    recording = busy_recording()
    wanted: list[int] = []

    def fetched_until(start: int, stop: int) -> int:
        wanted.append(start)
        return start

    recording.index.fetched_until = fetched_until
    (one,) = (each for each in recording.index.exchanges if each.name == "user-profile")
    app = DetailApp(recording)
    async with driven(app, size=(100, 40)) as pilot:
        for selected in (None, one.response):
            app.detail.show(one.number, selected)
            await pilot.pause()
            wanted.clear()
            app.detail.update_exchange()
            assert wanted[0] == (one.request if selected is None else selected)


@pytest.mark.slow
async def test_both_messages_are_trees_with_secrets_masked() -> None:
    app = DetailApp(busy_recording())
    async with driven(app, size=(100, 40)) as pilot:
        app.show("user-profile")
        await pilot.pause()
        assert 'password: "••••"' in app.tree_text(".request") and "hunter2" not in app.tree_text(".request")
        assert 'text: "Ada"' in app.tree_text(".response")
        assert app.text(".title").startswith("tools/call user-profile  ok ")
        assert "desk → profiles · #7" in app.text(".facts") and "2026-07-28" in app.text(".facts")


@pytest.mark.slow
async def test_what_a_person_looks_for_stands_first_and_the_envelope_is_folded() -> None:
    app = DetailApp(busy_recording())
    async with driven(app, size=(100, 40)) as pilot:
        app.show("user-profile")
        await pilot.pause()
        request = app.tree_text(".request").splitlines()
        assert request[0].startswith("▾ params") and request[1].strip().startswith("▾ arguments")
        assert request[-1].startswith("▸ envelope: {3}")
        assert app.tree_text(".response").splitlines()[-1].startswith("▸ envelope: {2}")


@pytest.mark.slow
@needs_feature("contract")
@pytest.mark.parametrize(
    ("peer", "is_told"), [("claude-code 2.1", True), ("desk", True), ("cursor 3", False)]
)
async def test_a_result_over_the_limit_of_its_client_says_so(peer: str, is_told: bool) -> None:
    recording = Recording(None)
    recording.connect(connection(1, peer=peer))
    recording.frame(1, IN, call(1, "small"))
    recording.frame(1, OUT, text(1, "x" * 9_000))
    recording.frame(1, IN, call(2, "large"))
    recording.frame(1, OUT, text(2, "x" * 60_000))
    settle(recording)
    app = DetailApp(recording)
    async with driven(app, size=(120, 40)) as pilot:
        app.show("large")
        await app.workers.wait_for_complete()
        await pilot.pause()
        line = "! the result has 60,000 characters; Claude Code: saves a larger result to a file"
        assert (line in app.text(".facts")) == is_told
        app.show("small")
        await app.workers.wait_for_complete()
        assert "Claude Code:" not in app.text(".facts")


@pytest.mark.slow
async def test_long_texts_are_wrapped_in_the_width_there_is() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    recording.frame(1, IN, call(1, "echo", text="It was the best of times, it was the worst of times. " * 3))
    settle(recording)
    app = DetailApp(recording)
    async with driven(app, size=(80, 40)) as pilot:
        app.show("echo")
        await pilot.pause()
        wide = app.tree_text(".request")
        words = " ".join(wide.split())
        assert "It was the best of times, it was the worst of times. It was the best" in words
        assert not any(line.endswith("…") for line in wide.splitlines() if "was" in line)
        await pilot.resize_terminal(60, 40)
        await pilot.pause()
        assert len(app.tree_text(".request").splitlines()) > len(wide.splitlines())


@pytest.mark.slow
async def test_a_failed_call_shows_what_it_logged() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    for number, is_error in enumerate((True, False)):
        recording.frame(1, IN, call(number, f"price{number}"))
        recording.frame(1, OUT, text(number, "done", is_error=is_error))
    settle(recording)
    line = LogLine(1, 0.0, "error", "tool", "KeyError: 'tea'", "tools/shop.py:7", call=(1, 0))
    app = DetailApp(recording, logged=[line])
    async with driven(app, size=(80, 40)) as pilot:
        app.show("price0")
        await pilot.pause()
        said = "\n".join(str(each.content) for each in app.query(".log Static").results(Static))
        assert "KeyError: 'tea'" in said and app.query_one(".log").display
        assert app.text(".failure") == "✗ done"
        assert app.text(".place") == "tools/shop.py:7 · g c opens it"
        app.show("price1")
        await pilot.pause()
        for part in (".log", ".failure", ".place"):
            assert not app.query_one(part).display


def failing_recording(*names: str) -> Recording:
    """One failed call of each name."""
    recording = Recording(None)
    recording.connect(connection(1))
    for number, name in enumerate(names):
        recording.frame(1, IN, call(number, name))
        recording.frame(1, OUT, text(number, "ValueError: 'n/a'", is_error=True))
    settle(recording)
    return recording


def traceback(number: int, frames: int) -> LogLine:
    """The traceback of a call, of some frames."""
    calls = (f'  File "tools/shop.py", line {at}, in step\n    return step({at})' for at in range(1, frames))
    where = f'  File "tools/shop.py", line {frames}, in step\n    return float(text)'
    said = "\n".join([*calls, where, "ValueError: 'n/a'"])
    return LogLine(number, 0.0, "error", "tool", said, f"tools/shop.py:{frames}", call=(1, number))


@pytest.mark.slow
async def test_the_log_of_each_call_begins_where_it_tells_of_the_failure() -> None:
    app = DetailApp(failing_recording("first", "second", "third"))
    async with driven(app, size=(80, 30)) as pilot:
        log = app.query_one(".log")
        for number, name, frames in ((0, "first", 30), (1, "second", 40)):
            app.logged = [
                traceback(number, frames),
                LogLine(9, 0.0, "info", "tool", "sorry", call=(1, number)),
            ]
            app.show(name)
            await until(lambda: 0 < log.max_scroll_y - 1 <= log.scroll_y, pilot)
            assert f"tools/shop.py:{app.logged[0].where[-2:]}" in app.text(".place")
            assert "return float(text)" in app.text(".place")
            log.scroll_to(y=3, animate=False, immediate=True)
        said = "\n".join(f"step {number}" for number in range(40))
        app.logged = [LogLine(10, 0.0, "info", "tool", said, call=(1, 2))]
        app.show("third")
        await until(lambda: log.max_scroll_y > 3 and log.scroll_y == 0, pilot)


@pytest.mark.slow
async def test_the_lines_of_a_traceback_are_not_broken() -> None:
    long = 'raise ValueError("so long that it stands in no narrow pane of the screen whatsoever")'
    said = f'  File "tools/shop.py", line 3, in price\n    {long}\n    ^^^^^'
    app = DetailApp(failing_recording("price"), [LogLine(1, 0.0, "error", "tool", said, "tools/shop.py:3")])
    async with driven(app, size=(47, 40)) as pilot:
        app.show("price")
        await until(lambda: app.query_one(".log").display, pilot)
        await until(lambda: app.query_one(".log Static").size.height == 4, pilot)
        assert app.query_one(".log").max_scroll_x > 0


@pytest.mark.slow
async def test_a_call_without_events_is_shown_from_its_first_tab() -> None:
    app = DetailApp(busy_recording())
    async with driven(app, size=(100, 40)) as pilot:
        app.show("slow-report")
        app.detail.action_show_tab(-1)
        await pilot.pause()
        assert app.query_one(ContentSwitcher).current == "events"
        app.show("user-profile")
        await pilot.pause()
        assert app.query_one(ContentSwitcher).current == "messages"
        assert 'text: "Ada"' in app.tree_text(".response")


@pytest.mark.slow
async def test_http_is_shown_masked_with_its_status() -> None:
    app = DetailApp(busy_recording())
    async with driven(app, size=(100, 40)) as pilot:
        app.show("initialize")
        app.detail.action_show_tab(1)
        await pilot.pause()
        said = app.text("#http Static")
        assert "POST /mcp/profiles?api_key=•••• HTTP/1.1" in said and "Authorization: Bearer ••••" in said
        assert "HTTP/1.1 200 OK" in said
        app.show("user-profile")
        assert "did not use HTTP" in app.text("#http Static")


async def test_progress_is_an_event_of_its_call() -> None:
    app = DetailApp(busy_recording())
    async with driven(app, size=(100, 40)) as pilot:
        app.show("slow-report")
        app.detail.action_show_tab(-1)
        await pilot.pause()
        assert "notifications/progress" in app.tree_text("#events") and "progress: 7" in app.tree_text(
            "#events"
        )
        assert "events 2" in app.query_one(TabStrip).titles


@pytest.mark.slow
async def test_a_response_fills_in_when_it_comes() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    recording.frame(1, IN, call(1, "echo", _meta={"progressToken": 1}))
    settle(recording)
    app = DetailApp(recording)
    async with driven(app, size=(100, 40)) as pilot:
        app.show("echo")
        await pilot.pause()
        assert "no response yet" in app.tree_text(".response") and "pending" in app.text(".title")
        request = app.query_one(".request JsonTree", JsonTree)
        request.cursor = 2
        recording.frame(1, OUT, progress(1, 5))
        recording.frame(1, OUT, text(1, "done", is_error=True))
        settle(recording)
        app.detail.update_exchange()
        await pilot.pause()
        assert "done" in app.tree_text(".response") and "tool error" in app.text(".title")
        assert request.cursor == 2


async def test_a_malformed_frame_is_text_with_the_reason() -> None:
    app = DetailApp(busy_recording())
    async with driven(app, size=(100, 40)) as pilot:
        app.show("malformed")
        await pilot.pause()
        assert "cannot be read" in app.text(".request .problem")
        assert app.query_one(".request .problem").display


async def test_a_notification_has_no_response() -> None:
    app = DetailApp(busy_recording())
    async with driven(app, size=(100, 40)) as pilot:
        app.show("notifications/initialized")
        await pilot.pause()
        assert not app.query_one(".response").display


@pytest.mark.slow
async def test_tabs_are_reached_by_mouse_and_keep_the_focus_inside() -> None:
    app = DetailApp(busy_recording())
    async with driven(app, size=(100, 40)) as pilot:
        app.show("initialize")
        app.detail.focus_first()
        await pilot.pause()
        assert isinstance(app.focused, JsonTree)
        await pilot.click(TabStrip, offset=(13, 0))
        await pilot.pause()
        assert app.query_one(ContentSwitcher).current == "http"
        assert app.focused is not None and app.focused.id == "http"
        app.detail.action_show_tab(1)
        await pilot.pause()
        assert app.query_one(ContentSwitcher).current == "events"


async def test_nothing_chosen_empties_it() -> None:
    app = DetailApp(busy_recording())
    async with driven(app):
        app.show("initialize")
        app.detail.show(None)
        assert app.query_one(".nothing").display and app.detail.shown_exchange is None


@pytest.mark.slow
async def test_an_operation_is_shown_in_steps_with_question_and_answer() -> None:
    app = DetailApp(asking_recording())
    async with driven(app, size=(100, 60)) as pilot:
        app.show("book-flight")
        await pilot.pause()
        assert app.query_one(ContentSwitcher).current == "steps"
        steps = app.tree_text("#steps")
        for words in ("round 1 #11", 'message: "Which seat?"', "round 3 #13", 'meal: "vegan"', '"Booked."'):
            assert words in steps
        assert "▸ messages" in steps
        facts = app.text(".facts")
        assert "2026-07-28 stateless" in facts and "http" in facts and "3 rounds · client" in facts
        app.detail.action_show_tab(-1)
        await pilot.pause()
        assert 'name: "book-flight"' in app.tree_text(".request") and '"Booked."' in app.tree_text(
            ".response"
        )


@pytest.mark.slow
async def test_steps_are_for_operations_only() -> None:
    app = DetailApp(asking_recording())
    async with driven(app, size=(100, 40)) as pilot:
        app.show("plan-party")
        await pilot.pause()
        assert app.query_one(ContentSwitcher).current == "steps"
        app.show("notifications/progress")
        await pilot.pause()
        assert app.query_one(ContentSwitcher).current == "messages"
        assert not any("steps" in title for title in app.query_one(TabStrip).titles)


@pytest.mark.slow
async def test_a_part_is_shown_as_a_step_of_its_whole() -> None:
    recording = asking_recording()
    app = DetailApp(recording)
    async with driven(app, size=(100, 60)) as pilot:
        app.detail.show(2)
        await pilot.pause()
        tree = app.query_one("#steps JsonTree", JsonTree)
        assert app.detail.shown_exchange is not None and app.detail.shown_exchange.number == 0
        assert str(tree.selected[0]).startswith("round 3 #13")
        app.detail.action_show_tab(1)
        app.detail.show(1)
        await pilot.pause()
        assert app.query_one(ContentSwitcher).current == "steps"
        assert str(tree.selected[0]).startswith("round 2 #12")


@pytest.mark.slow
async def test_a_round_more_is_shown_as_it_comes() -> None:
    recording = Recording(None)
    recording.connect(connection(1, revision="2026-07-28"))
    recording.frame(1, IN, call(1, "pay"))
    recording.frame(1, OUT, asks(1, "s", account="Which account?"))
    settle(recording)
    app = DetailApp(recording)
    async with driven(app, size=(100, 40)) as pilot:
        app.show("pay")
        await pilot.pause()
        assert "asks the client" in app.text(".title") and "Which account?" in app.tree_text(".response")
        recording.frame(1, IN, retry(2, "pay", "s", account={"name": "main"}))
        settle(recording)
        app.detail.update_exchange()
        await pilot.pause()
        assert 'name: "main"' in app.tree_text("#steps") and "pending" in app.tree_text("#steps")
        recording.frame(1, OUT, text(2, "paid"))
        settle(recording)
        app.detail.update_exchange()
        await pilot.pause()
        assert '"paid"' in app.tree_text("#steps") and app.text(".title").startswith("tools/call pay  ok ")
