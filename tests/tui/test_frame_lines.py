"""The top line in all of its states, and its parts on narrow terminals."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace
from textual.app import App, ComposeResult
from textual.screen import Screen

from mcpdesk.link.values import CoreView, Protection, Stuck, UpstreamView
from mcpdesk.tui.screens.frame_lines import PROTECTIONS, DeskFooter, DeskHeader, DeskTabs
from mcpdesk.tui.screens.main_screen import PANES
from tests.support.driven import driven
from tests.support.fake_link import sample_view
from tests.support.frame import running_frame
from tests.support.workbench import bench

VIEW = sample_view(0.0)
HOSTED = {
    "mcp.json": '{"name": "near"}',
    "tools/tools.py": """
        async def add(a: int) -> int:
            return a + 1
        """,
}
RATES = [0, 1, 2, 4, 8, 0.4, 3, 14]


class HeaderApp(App[None]):
    """A header alone."""

    def compose(self) -> ComposeResult:
        yield DeskHeader()


async def line(view: CoreView, waiting: int = 0, width: int = 120, server: str = "profiles") -> str:
    """Text of the header."""
    app = HeaderApp()
    async with driven(app, size=(width, 5)) as pilot:
        header = app.query_one(DeskHeader)
        header.show_view(view, server, RATES, waiting)
        await pilot.pause()
        return header.render().plain


async def test_header_says_everything_at_once() -> None:
    text = await line(VIEW, waiting=1)
    assert text.split() == [
        "mcpdesk", "profiles", "▾", "http://127.0.0.1:3333/mcp/profiles", "key", "●",
        "2", "clients", "14/s", "▁▁▂▅▁▂█", "?", "1", "question",
    ]  # fmt: skip
    assert len(text) == 120
    assert "▾" not in await line(replace(VIEW, servers=VIEW.servers[:1]))
    odd = replace(VIEW.servers[0], name="[red]x\x1b[0m")
    assert "[red]x␛[0m" in await line(replace(VIEW, servers=(odd,)), server="[red]x\x1b[0m")


async def test_clients_that_are_quiet_are_counted_and_called_so() -> None:
    here = replace(VIEW.clients[0], transport="http", left=None, seen=None)
    quiet = replace(here, seen=0.0)
    assert "  2 clients  " in await line(replace(VIEW, clients=(here, here)))
    assert "  1 client + 1 quiet  " in await line(replace(VIEW, clients=(here, quiet)))
    assert "  1 client, quiet  " in await line(replace(VIEW, clients=(quiet,)))
    assert " 0/1⇄ " in await line(replace(VIEW, clients=(quiet,)), width=60)
    gone = replace(quiet, left=1.0)
    assert "  0 clients  " in await line(replace(VIEW, clients=(gone,)))


@pytest.mark.parametrize("protection", [each for each in Protection if each is not Protection.OFFLINE])
async def test_every_protection_has_a_word_and_a_glyph(protection: Protection) -> None:
    word, style, tip = PROTECTIONS[protection]
    assert word in await line(replace(VIEW, protection=protection))
    assert not word[-1].isalnum() and style and tip.endswith(".")
    assert ("error" in style) == (protection is Protection.OPEN)


@pytest.mark.parametrize(
    ("state", "shown"), [("ready", "● connected · 2025-06-18"), ("failed", "✕ not connected")]
)
async def test_a_server_that_runs_elsewhere_shows_how_it_stands_and_where_it_is(
    state: str, shown: str
) -> None:
    known = UpstreamView("npx -y some-server", state, revision="2025-06-18")
    elsewhere = replace(VIEW.servers[0], folder="", url="", upstream=known)
    text = await line(replace(VIEW, servers=(elsewhere,)))
    assert shown in text and "npx -y some-server" in text


async def test_stuck_loop_takes_the_place_of_the_url() -> None:
    text = await line(replace(VIEW, stuck=Stuck(3.21, "slow_tool", "tools/slow.py:14")))
    assert "loop stuck 3.2 s in slow_tool tools/slow.py:14" in text and "http" not in text
    assert "loop stuck 12.0 s " in await line(replace(VIEW, stuck=Stuck(12, "", "")))
    text = await line(replace(VIEW, silent_s=4))
    assert "no answer for 4 s" in text and "http" not in text


@pytest.mark.sampled(3)
@pytest.mark.parametrize("width", [200, 120, 100, 80, 60, 40])
async def test_the_most_important_stays_where_there_is_little_room(width: int) -> None:
    text = await line(VIEW, waiting=3, width=width)
    assert len(text) <= width and "profiles" in text and "3" in text
    assert "key ●" in text or width < 60
    stuck = await line(replace(VIEW, stuck=Stuck(3.2, "slow_tool", "tools/slow.py:14")), width=width)
    assert "loop stuck 3.2 s" in stuck


async def test_nothing_hosted_and_nothing_listening() -> None:
    assert "no server" in await line(replace(VIEW, servers=(), protection=Protection.OFFLINE))
    empty = await line(replace(VIEW, servers=(), protection=Protection.LOOPBACK))
    assert "no server" in empty and "not reachable" not in empty
    offline = replace(VIEW.servers[0], url="")
    assert "not reachable" in await line(replace(VIEW, servers=(offline,)))
    text = await line(replace(VIEW, servers=(offline,), protection=Protection.OFFLINE))
    assert "not reachable" not in text and "not listening" not in text and "✕" not in text


async def test_a_server_on_a_unix_socket_is_listening() -> None:
    on_socket = replace(VIEW.servers[0], url="unix:/run/user/1000/http-profiles.sock")
    text = await line(replace(VIEW, servers=(on_socket,), protection=Protection.SOCKET))
    assert "unix:/run/user/1000/http-profiles.sock" in text
    assert "listening ●" in text and "not listening" not in text


async def test_before_it_listens_the_header_says_that_it_starts() -> None:
    words = "mcpdesk starting … 0 clients"
    assert (await line(CoreView((), (), Protection.STARTING), server="")).split()[:5] == words.split()
    offline = replace(VIEW.servers[0], url="")
    text = await line(replace(VIEW, servers=(offline,), protection=Protection.STARTING))
    assert "starting …" in text and "not reachable" not in text


@pytest.mark.slow
async def test_a_click_on_the_header_copies_the_url_or_leads_to_clients() -> None:
    async with running_frame() as (app, pilot):
        header = app.main.query_one(DeskHeader)
        at = header.render().plain.index("http") + 3
        await pilot.click(DeskHeader, offset=(at, 0))
        assert app.clipboard == "http://127.0.0.1:3333/mcp/profiles"
        await pilot.click(DeskHeader, offset=(header.render().plain.index("clients"), 0))
        assert app.main.shown == "clients"


@pytest.mark.parametrize(
    ("protection", "word"),
    [
        (Protection.KEY, "key, token ●"),
        (Protection.LOOPBACK, "  token ●"),
        (Protection.SOCKET, "  token ●"),
        (Protection.STARTING, "starting …"),
    ],
)
async def test_a_server_that_asks_for_tokens_says_so(protection: Protection, word: str) -> None:
    guarded = replace(VIEW.servers[0], wants_token=True)
    assert word in await line(replace(VIEW, servers=(guarded,), protection=protection))


@pytest.mark.parametrize("width", [80, 120])
async def test_a_capture_that_is_not_written_is_said_in_red(width: int) -> None:
    failing = replace(VIEW, capture_failing="not captured to disk: No space left on device (/x/a.jsonl)")
    assert "✗ capture" in await line(failing, width=width)
    assert "✗ capture" not in await line(VIEW, width=width)


@pytest.mark.slow
async def test_own_keys_of_the_focused_pane_come_first() -> None:
    async with running_frame(size=(120, 36)) as (app, pilot):
        await pilot.press("5")
        await pilot.pause()
        footer = app.main.query_one(DeskFooter)
        words = footer.render().plain.split()
        assert words[:5] == ["/", "filter", "v", "l", "level"]
        assert words[-4:] == ["^p", "palette", "?", "help"]
        await pilot.click(footer, offset=(footer.render().plain.index("help"), 0))
        await pilot.pause()
        assert type(app.screen).__name__ == "HelpScreen"
        await pilot.press("escape", "1")
        app.main.query_one("#field").focus()
        await pilot.pause()
        words = footer.render().plain.split()
        assert "?" not in words and "f1" in words, "keys that would be typed are not shown"


async def test_the_footer_determines_the_active_keys_once(monkeypatch: pytest.MonkeyPatch) -> None:
    determine = vars(Screen)["active_bindings"].fget
    accesses: list[Screen[Any]] = []

    def counted(screen: Screen[Any]) -> Any:
        accesses.append(screen)
        return determine(screen)

    async with running_frame(size=(120, 36)) as (app, _):
        monkeypatch.setattr(Screen, "active_bindings", property(counted))
        app.main.query_one(DeskFooter).set_has_question(has_question=True)
        assert accesses == [app.main]


@pytest.mark.slow
@pytest.mark.parametrize("is_json", [False, True])
async def test_while_arguments_are_typed_the_footer_names_the_keys_that_work_then(is_json: bool) -> None:
    async with bench(size=(120, 36)) as it:
        footer = it.app.main.query_one(DeskFooter)
        assert "/ filter" in footer.render().plain and "to the catalogue" not in footer.render().plain
        await it.pilot.press("enter", *["ctrl+e"] * is_json)
        await it.pilot.pause()
        drawn = footer.render().plain
        assert "/ filter" not in drawn and "esc to the catalogue" in drawn and "f3 history" in drawn
        await it.pilot.press(*["escape"] * (1 + is_json))
        await it.pilot.pause()
        assert "/ filter" in footer.render().plain


@pytest.mark.sampled(1)
@pytest.mark.parametrize("width", [40, 80, 200])
async def test_palette_and_help_stay_at_any_width(width: int) -> None:
    async with running_frame(size=(width, 30)) as (app, pilot):
        await pilot.press("5")
        await pilot.pause()
        text = app.main.query_one(DeskFooter).render().plain
        assert len(text) <= width and "palette" in text and "help" in text


VERBS = ("details", "/ filter", "r repeat", "space actions")
"""The keys of Traffic that its footer names at every size."""
MAX_KEYS = 7


@pytest.mark.slow
async def test_a_footer_of_any_width_names_the_seven_keys_that_matter_most() -> None:
    async with running_frame(size=(200, 60), panes=PANES) as (app, pilot):
        footer = app.main.query_one(DeskFooter)
        for size in ((200, 60), (120, 40), (120, 36), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.press("2")
            await pilot.pause()
            drawn = footer.render().plain
            assert [word for word in VERBS if word not in drawn] == [], drawn
            assert len(re.split(r"\s{2,}", drawn.strip())) <= MAX_KEYS and drawn.endswith("? help ")


async def test_tabs_shrink_to_the_width_and_keep_the_current_one_whole() -> None:
    async with running_frame(size=(54, 20)) as (app, pilot):
        await pilot.press("3")
        await pilot.pause()
        text = app.main.query_one(DeskTabs).render().plain
        assert len(text) <= 54 and "3 Activity" in text and "1 Work" in text
