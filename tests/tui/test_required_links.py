"""The links that an error -32042 names are opened and copied from the result of the call."""

from __future__ import annotations

import webbrowser
from typing import Any

import pytest

from mcpdesk.tui.results.required_links import MAX_LINKS, LinkActions, required_links
from mcpdesk.tui.widgets.choice_box import Chip
from tests.support.frame import toasts
from tests.support.workbench import Bench, bench
from tests.tui.test_browser import Window

GOOD = "https://example.org/authorize?state=7"


def needing(*links: object) -> dict[str, Any]:
    """The error of a server that wants links opened first."""
    return {"code": -32042, "message": "URL elicitation required", "data": {"elicitations": list(links)}}


def link(url: object, **more: object) -> dict[str, object]:
    return {"mode": "url", "elicitationId": "1", "url": url, **more}


@pytest.mark.parametrize(
    "error",
    [
        {"code": -32042, "message": "x"},
        {"code": -32042, "message": "x", "data": [link(GOOD)]},
        {"code": -32042, "message": "x", "data": {"elicitations": {"url": GOOD}}},
        {"code": -32602, "message": "x", "data": {"elicitations": [link(GOOD)]}},
        needing("no object", link(7), link(""), {"mode": "url"}),
    ],
)
def test_other_errors_and_data_of_another_shape_have_no_links(error: dict[str, Any]) -> None:
    assert required_links(error) == []


async def press(it: Bench, at: int, name: str) -> None:
    """Press a button of one link by key."""
    it.app.screen.query(LinkActions)[at].query_one(f".{name}", Chip).focus()
    await it.pilot.press("enter")


@pytest.mark.slow
async def test_each_link_of_the_web_is_opened_and_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    window = Window()
    monkeypatch.setattr(webbrowser, "get", lambda *_: window)
    monkeypatch.setattr(webbrowser, "open", window.open)
    asked = [link(GOOD, message="Authorize [b]first[/b]\x1b[2J"), link("file:///etc/passwd")]
    asked += [link(f"https://example.org/{number}") for number in range(MAX_LINKS)]
    async with bench(size=(160, 60)) as it:
        await it.open("slow-report")
        await it.pilot.press("ctrl+r")
        await it.until(lambda: "running" in it.title)
        it.link.calls[-1].finish(error=needing(*asked))
        await it.until(lambda: len(it.app.screen.query(LinkActions)) == MAX_LINKS and GOOD in it.shown())
        assert "Authorize [b]first[/b]␛[2J" in it.shown() and "finish there, and call again" in it.shown()
        good, bad = it.app.screen.query(LinkActions)[:2]
        assert good.query(".open") and not bad.query(".open"), "only links of the web are opened"
        assert "it cannot be opened here" in it.shown()
        await press(it, 0, "open")
        await it.until(lambda: window.opened == [GOOD] and "Opening the link" in toasts(it.app)[-1])
        await press(it, 1, "copy")
        await it.until(lambda: it.app.clipboard == "file:///etc/passwd")
        await press(it, 0, "copy")
        await it.until(lambda: toasts(it.app)[-1] == "copied the link" and it.app.clipboard == GOOD)
