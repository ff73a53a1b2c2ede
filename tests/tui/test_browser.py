"""Links open in a browser with a separate window, and only http and https links do."""

from __future__ import annotations

import webbrowser

import pytest

from mcpdesk.tui.forms.question_text import open_link
from tests.support.frame import running_frame, toasts


class Window(webbrowser.BaseBrowser):
    def __init__(self) -> None:
        super().__init__("window")
        self.opened: list[str] = []

    def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:
        self.opened.append(url)
        return True


async def test_a_link_of_the_web_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    window = Window()
    monkeypatch.setattr(webbrowser, "get", lambda *_: window)
    monkeypatch.setattr(webbrowser, "open", window.open)
    async with running_frame() as (app, pilot):
        await open_link(app, "https://example.org/")
        await open_link(app, "file:///etc/passwd")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert window.opened == ["https://example.org/"]
        first, second = toasts(app)
        assert "Opening the link" in first and second == "Only http and https links are opened."


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "browser", [webbrowser.GenericBrowser("lynx"), None], ids=["of the terminal", "none"]
)
async def test_a_browser_that_would_take_the_terminal_is_not_started(
    monkeypatch: pytest.MonkeyPatch, browser: webbrowser.BaseBrowser | None
) -> None:
    def get(*_: object) -> webbrowser.BaseBrowser:
        if browser is None:
            raise webbrowser.Error("no browser")
        return browser

    monkeypatch.setattr(webbrowser, "get", get)
    monkeypatch.setattr(webbrowser, "open", lambda *_: pytest.fail("opened"))
    async with running_frame() as (app, pilot):
        await open_link(app, "https://example.org/")
        await pilot.pause()
        assert toasts(app) == ["Cannot open a browser here: y copies the link."]
