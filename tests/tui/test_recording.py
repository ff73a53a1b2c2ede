"""Changes after a save: recorded calls of read-only tools are repeated and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from mcpdesk.link.values import Catalogue, Policy
from mcpdesk.recorder.exchange_summary import REPLAYED_KEY
from mcpdesk.recorder.record import Direction
from mcpdesk.tui.render.amounts import clock
from mcpdesk.tui.workbench import recording
from mcpdesk.tui.workbench.recording import RecordingReplay, Saves, recorded_calls
from mcpdesk.tui.workbench.save_page import SavePage
from tests.support.desk import running_desk
from tests.support.fake_link import FakeLink, text_result
from tests.support.folders import write
from tests.support.frame import toasts
from tests.support.workbench import bench, tool

FOLDER = {
    "mcp.json": '{"name": "shop"}',
    "tools/price.py": '''
        from mcpdesk import tool


        @tool(read_only=True)
        async def price() -> str:
            """The price."""
            return "3"
        ''',
}
READS = {"annotations": {"readOnlyHint": True}}


class Shop(FakeLink):
    """A server whose answers a test sets, by item; a call without an answer stays open."""

    def __init__(self, **answers: dict[str, Any] | None) -> None:
        super().__init__()
        self.answers_now = answers
        schema = {"type": "object", "properties": {"item": {"type": "string"}}}
        items = (tool("price", schema, **READS), tool("order", schema))
        self.catalogues["profiles"] = Catalogue("profiles", 1, items)
        self.made = 100

    def past(self, name: str, item: str, answer: dict[str, Any], **meta: Any) -> None:
        """Record a call of a client."""
        self.made += 1
        params = {"name": name, "arguments": {"item": item}, "_meta": meta}
        asked = {"id": self.made, "method": "tools/call", "params": params}
        for way, message in ((Direction.IN, asked), (Direction.OUT, {"id": self.made, **answer})):
            self.recording.frame(1, way, orjson.dumps({"jsonrpc": "2.0", **message}))

    def request(self, server: str, method: str, params: dict[str, Any]) -> Any:
        if method != "tools/call":
            return super().request(server, method, params)
        call = super().request(server, method, params | {"name": "slow-report"})
        call.params = params
        if (answer := self.answers_now.get(params["arguments"].get("item", ""))) is not None:
            call.finish(answer.get("result"), answer.get("error"))
        return call

    def save(self) -> None:
        """The server's code changed."""
        now = self.catalogues["profiles"]
        self.catalogues["profiles"] = replace(now, version=now.version + 1)
        servers = tuple(
            replace(one, catalogue_version=now.version + 1) if one.name == "profiles" else one
            for one in self.core.servers
        )
        self.core = replace(self.core, servers=servers)


def ok(text: str, **more: Any) -> dict[str, Any]:
    return {"result": {**text_result(text), **more}}


FAILED = {"result": text_result("no", is_error=True)}
ERROR = {"error": {"code": -32602, "message": "no"}}


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (ok("a"), ok("a", resultType="complete", _meta={"n": 1}, isError=False), "same"),
        (ok("a"), ok("a", structuredContent={"result": "a"}), "same"),
        (ok("a", structuredContent={"n": 1}), ok("a", structuredContent={"n": 2}), "different"),
        (ok("a"), ok("b"), "different"),
        (ok("a"), FAILED, "fails now"),
        (ok("a"), ERROR, "fails now"),
        (FAILED, FAILED, "was failing"),
        (ERROR, ok("a"), "works now"),
    ],
)
async def test_each_call_is_compared(before: dict[str, Any], now: dict[str, Any], expected: str) -> None:
    link = Shop(tea=now)
    link.past("price", "tea", before)
    replay = RecordingReplay(link, "profiles")
    await replay.run(lambda: None)
    assert replay.summary == f"1 {expected}"
    assert link.calls[-1].params["_meta"] == {REPLAYED_KEY: True}


def test_only_finished_calls_of_read_only_tools_count_each_once_and_the_newest() -> None:
    link = Shop()
    link.past("price", "tea", ok("1"))
    link.past("order", "tea", ok("done"))
    link.past("price", "milk", ok("2"))
    link.past("price", "tea", ok("3"))
    link.past("price", "tea", ok("4"), **{REPLAYED_KEY: True})
    link.request("profiles", "tools/call", {"name": "price", "arguments": {"item": "open"}})
    rows = list(recorded_calls(link, "profiles"))
    assert [(row.tool, row.arguments_text, row.recorded_outcome.result) for row in rows] == [
        ("price", 'item="tea"', ok("3")["result"]),
        ("price", 'item="milk"', ok("2")["result"]),
    ]
    assert list(recorded_calls(link, "hello")) == []


async def test_a_call_without_an_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "CALL_TIMEOUT_S", 0.1)
    link = Shop(milk=ok("2"))
    link.past("price", "milk", ok("2"))
    link.past("price", "tea", ok("1"))
    replay = RecordingReplay(link, "profiles")
    await replay.run(lambda: None)
    assert replay.summary == "1 same, 1 no answer" and replay.has_differences
    assert link.calls[0].outcome.cancelled() or link.calls[0].outcome.result().cancelled
    monkeypatch.setattr(recording, "REPLAY_TIMEOUT_S", 0.0)
    late = RecordingReplay(link, "profiles")
    await late.run(lambda: None)
    assert late.summary == "2 not made" and "no more calls" in late.problem


def test_another_policy_is_no_save() -> None:
    saves, link = Saves(), Shop()
    first = link.catalogue("profiles")
    asks = replace(first, version=2, items=(replace(first.items[0], policy=Policy.ASK), *first.items[1:]))
    assert [saves.add_if_changed(one) for one in (first, first, asks, replace(asks, version=3))] == [
        False,
        False,
        False,
        True,
    ]
    less = replace(asks, version=4, items=asks.items[:1])
    assert saves.add_if_changed(less)
    assert [str(change) for change in saves.latest("profiles").changes] == ["order: was removed"]


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_page_shows_each_call_and_what_differs(size: tuple[int, int]) -> None:
    link = Shop(tea=ok("3"), milk=ok("2"))
    link.past("price", "milk", ok("2"))
    link.past("price", "tea", ok("1"))
    async with bench(link, size) as it:
        it.pane.catalogue.rows.focus()
        await it.pilot.press("v", "d")
        await it.until(lambda: "2 recorded calls of read-only tools, not repeated." in it.shown())
        await it.pilot.press("r")
        await it.until(lambda: "1 same, 1 different" in it.shown())
        await it.until(lambda: "+3" in it.shown())
        assert "-1" in it.shown() and "≠ different" in it.shown()
        it.app.notify("the news", markup=False)
        await it.until(lambda: "the news" in it.shown())
        assert "esc close" in it.shown(), "the lower edge is in sight"
        await it.pilot.press("f")
        await it.until(lambda: "at every save: on" in it.shown())
        link.answers_now["tea"] = ok("1")
        link.save()
        await it.until(lambda: "2 same" in it.shown())
        assert isinstance(it.app.screen, SavePage)
        link.answers_now["tea"] = None
        await it.pilot.press("r")
        await it.until(lambda: "2 not yet …" in it.shown())
        await it.pilot.press("x")
        await it.until(lambda: "2 not made" in it.shown())
        await it.pilot.press("left")
        await it.until(lambda: "before the first save" in it.shown() and "1 same, 1 different" in it.shown())
        await it.pilot.press("right")
        await it.until(lambda: "what the last save changed" in it.shown() and "2 not made" in it.shown())
        page = it.app.screen
        assert isinstance(page, SavePage)
        await page.query("#contract").remove()  # as while it closes
        page.update_rows()
        await it.pilot.press("escape")
        link.answers_now["tea"] = ok("9")
        link.save()
        told = "recording of profiles: 1 same, 1 different · v d shows it"
        await it.until(lambda: toasts(it.app)[-1:] == [told])
        await it.pilot.press("4")
        await it.until(lambda: it.app.main.shown == "clients")
        await it.pilot.press("v", "d")
        await it.until(lambda: isinstance(it.app.screen, SavePage))
        await it.pilot.press("escape")
        assert it.app.main.shown == "clients"


async def test_the_page_of_a_save_opens_on_any_screen_without_calling_tools(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = Shop(milk=ok("2"))
    link.past("price", "milk", ok("1"))
    async with bench(link) as it:
        await it.pilot.press("4")
        await it.until(lambda: it.app.main.shown == "clients")
        with monkeypatch.context() as patch:
            patch.setattr("mcpdesk.tui.workbench.recording.time.time", lambda: 1_764_000_000.0)
            link.save()
            saves = it.app.main.saves
            await it.until(lambda: len(saves._saves.of("profiles")) == 2)
        await it.pilot.press("v", "d")
        await it.until(lambda: "1 recorded call of read-only tools, not repeated." in it.shown())
        assert f"what the last save changed · {clock(1_764_000_000.0)[:8]}" in it.shown()
        assert "milk" in it.shown() and not it.sent
        await it.pilot.press("r")
        await it.until(lambda: "1 different" in it.shown())
        assert it.app.main.shown == "clients"


@pytest.mark.slow
async def test_a_file_that_fails_to_load_is_told_and_earlier_saves_can_be_looked_at(tmp_path: Path) -> None:
    folder = write(tmp_path / "shop", FOLDER)
    price = folder / "tools" / "price.py"
    async with (
        running_desk(folder) as desk,
        bench(desk) as it,  # type: ignore[arg-type]
    ):
        called = desk.request("shop", "tools/call", {"name": "price", "arguments": {}})
        await it.until(called.outcome.done)
        it.pane.catalogue.rows.focus()
        await it.pilot.press("v", "d")
        await it.until(lambda: "1 recorded call" in it.shown())
        await it.pilot.press("r")
        await it.until(lambda: "1 same" in it.shown())
        working = price.read_text()
        for code, told in (
            (working.replace("The price", "What it costs"), "wording    price: the description changed"),
            (working.replace("3", "4"), "+ The price."),
            (f"{working}    if\n", "✕ not loaded: tools/price.py:8: SyntaxError"),
        ):
            price.write_text(code)
            desk.reload("shop")
            await it.until(lambda told=told: told in it.shown())  # type: ignore[misc]
            if "wording" in told:
                assert "- The price." in it.shown() and "+ What it costs." in it.shown()
        assert "price: the previous version is still served" in it.shown()
        assert "No change for clients" not in it.shown()
        await it.pilot.press("left")
        await it.until(lambda: "save 2 of 3" in it.shown() and "not loaded" not in it.shown())
        await it.pilot.press("r")
        await it.until(lambda: "1 different" in it.shown() and "not loaded" in it.shown())
        await it.pilot.press("escape")
