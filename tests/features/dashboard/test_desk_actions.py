"""Sign-in and sign-out of browsers at the desk: its key, and the requests to cores in other processes."""

from __future__ import annotations

import re
import urllib.request
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from mcpdesk.features.dashboard import desk_actions
from mcpdesk.features.dashboard.browsers import BrowserView, SignInLink, SignOutBrowsers
from mcpdesk.runtime.core_process import offer_link
from mcpdesk.tui.widgets.menu import Menu
from tests.link.test_remote import attach as attach
from tests.link.test_remote import folder as folder
from tests.link.test_remote import serve as serve
from tests.support.action_menu import choose_action
from tests.support.desk import running_desk
from tests.support.frame import toasts
from tests.support.patience import result_of
from tests.tui.test_access_prompts import counter

if TYPE_CHECKING:
    from tests.link.test_remote import Attach, Start

LABELS = ("Open it in a browser", "Copy a sign-in link", "Sign out all browsers")
"""Choices of the dashboard's menu."""


def test_the_sign_in_page_names_the_action_that_makes_a_link() -> None:
    page = (Path(desk_actions.__file__).parent / "page" / "index.html").read_text()
    hint = re.search(r'(?s)id="entry-hint".*?</p>', page)
    assert hint is not None
    [offered] = desk_actions.ACTIONS
    assert offered.action.title in hint[0]
    assert re.findall(r"<kbd>(.*?)</kbd>", hint[0]) == ["space"]


@pytest.mark.slow
async def test_the_menu_of_the_dashboard_makes_links_that_sign_in_and_signs_browsers_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_browser(using: str | None = None) -> None:
        raise webbrowser.Error

    monkeypatch.setattr(webbrowser, "get", no_browser)
    async with counter(monkeypatch, http=True) as it:
        await it.until(lambda: bool(it.link.view().servers[0].url))
        offer_link(it.link.host)

        async def choose(label: str) -> None:
            await choose_action(it.pilot, "dashboard in a browser")
            await it.until(lambda: isinstance(it.app.screen, Menu) and label in it.shown())
            await it.pilot.press(*["down"] * LABELS.index(label), "enter")

        await choose(LABELS[0])
        told = "Cannot open a browser here: copy the sign-in link instead."
        await it.until(lambda: told in toasts(it.app))
        await choose(LABELS[1])
        await it.until(lambda: "#" in it.app.clipboard)
        url, _, word = it.app.clipboard.rpartition("#")
        assert url.startswith(it.link.view().servers[0].url.partition("/mcp")[0])
        operator = it.link.host.operator
        session = operator.sign_in(word.rpartition("=")[2])
        assert session is not None, "the link signs in"
        await choose(LABELS[2])
        await it.until(lambda: "Signed out 1 browser." in toasts(it.app))


def sign_in(url: str) -> int:
    """Sign in with a link, as the page does. Return the HTTP status."""
    base, _, word = url.partition("/#sign-in=")
    headers = {"Content-Type": "application/json", "Origin": base}
    request = urllib.request.Request(f"{base}/dashboard/sign-in", orjson.dumps({"word": word}), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return int(answer.status)


@pytest.mark.process
def test_an_attached_screen_signs_browsers_in_and_out(serve: Start, attach: Attach) -> None:
    serve()
    link = attach()
    assert link.feature_part(BrowserView).is_served
    url = result_of(link.do(SignInLink()))
    assert sign_in(url) == 200
    assert result_of(link.do(SignOutBrowsers())) == 1
    assert result_of(link.do(SignOutBrowsers())) == 0


async def test_a_core_without_http_makes_no_link(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"name": "quiet"}')
    async with running_desk(tmp_path) as desk:
        assert not desk.feature_part(BrowserView).is_served
        with pytest.raises(ValueError, match="not served on TCP here"):
            result_of(desk.do(SignInLink()))
        assert result_of(desk.do(SignOutBrowsers())) == 0
