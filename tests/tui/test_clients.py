"""The list of connected clients."""

from __future__ import annotations

import re
import time
from typing import Any

import orjson
import pytest
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widgets import Static

from mcpdesk.link.link import finished
from mcpdesk.link.values import ClientView, ModeView
from mcpdesk.recorder.record import ConnectionInfo, Direction
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.screens.clients import (
    COLUMNS,
    CONFIG_TARGETS,
    HIDING_ORDER,
    ClientsPane,
    ConfigTarget,
    targets_for,
)
from mcpdesk.tui.screens.frame_lines import DeskHeader
from mcpdesk.tui.widgets.menu import Menu
from tests.support.action_menu import choose_action
from tests.support.fake_link import FakeLink, sample_view
from tests.support.frame import StubPane, quiet_link, running_frame, toasts
from tests.support.patience import until
from tests.support.still_clock import still_clock


def text_of(pane: ClientsPane, width: int = 120) -> list[str]:
    rows = range(pane.listing.row_count)
    return ["".join(text for text, _ in pane.listing.spans(at, width)) for at in rows]


def name_of(pane: ClientsPane) -> str:
    return pane.listing.selected.name if pane.listing.selected else ""


async def shown(app: DeskApp, pilot: Pilot[None]) -> ClientsPane:
    await pilot.press("4")
    await pilot.pause()
    app.main.refresher.refresh()
    await pilot.pause()
    pane: ClientsPane = app.main.query_one(ClientsPane)
    return pane


@pytest.mark.slow
async def test_one_line_a_client_in_columns_under_their_heads() -> None:
    async with running_frame(size=(128, 40)) as (app, pilot):
        pane = await shown(app, pilot)
        lines = text_of(pane, pane.listing.size.width)
        assert lines[0].split() == [
            "claude-code", "2.1", "●", "now", "profiles", "http", "2025-11-25", "5", "min",
            "40", "0", "3.1", "ms", "12", "ms", "fresh",
        ]  # fmt: skip
        assert "  2026-07-28  " in lines[2] and lines[2].endswith("never listed  ")
        heads = str(pane.query_one(".heads", Static).content)
        assert heads.index("server") == lines[0].index("profiles")
        assert heads.index("calls") + len("calls") == lines[0].index("40") + 2


async def test_a_call_that_runs_and_the_server_of_each_are_in_the_list() -> None:
    link = quiet_link()
    first = replace(link.core.clients[0], running=2)
    link.core = replace(link.core, clients=(first,))
    async with running_frame(link) as (app, pilot):
        pane = await shown(app, pilot)
        assert "▸ 2 running  profiles" in text_of(pane)[0], "there are several servers on the desk"


@pytest.mark.slow
async def test_selected_client_stays_selected_when_others_come_and_go() -> None:
    link = quiet_link()
    async with running_frame(link) as (app, pilot):
        pane = await shown(app, pilot)
        await pilot.press("j")
        assert name_of(pane) == "cursor 1.4"
        first = ClientView(9, "hello", "aaa", "http", "", link.core.clients[0].opened, 0, 0)
        link.core = replace(link.core, clients=(first, *link.core.clients))
        app.main.refresher.refresh()
        await pilot.pause()
        assert text_of(pane)[0].startswith(" aaa") and name_of(pane) == "cursor 1.4"
        link.core = replace(link.core, clients=())
        app.main.refresher.refresh()
        await pilot.pause()
        assert pane.listing.selected is None


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 120, 200])
async def test_a_menu_of_the_shown_columns_sorts_and_the_same_column_again_reverses(width: int) -> None:
    async with running_frame(size=(width, 30)) as (app, pilot):
        pane = await shown(app, pilot)
        heads = pane.query_one(".heads", Static)

        def words() -> list[str]:
            return str(heads.content).replace("last seen", "last-seen").split()

        def sorted_as_said(is_reversed: bool = False) -> str:
            (head,) = [word for word in words() if word[-1] in "↑↓"]
            column = next(one for one in COLUMNS if one.name.replace(" ", "-") == head[:-1])
            rows = list(pane.listing.rows)
            ordered = sorted(rows, key=column.order, reverse=is_reversed)
            assert rows == sorted(ordered, key=lambda one: one.left is not None)
            assert head[-1] == column.mark(is_reversed)
            return head[:-1]

        names = [word.rstrip("↑") for word in words()]
        sorted_by = [sorted_as_said()]
        for _ in names[1:]:
            await pilot.press("s")
            await until(lambda: isinstance(app.screen, Menu), pilot)
            await pilot.press("down", "enter")
            await until(lambda: app.screen is app.main, pilot)
            sorted_by.append(sorted_as_said())
        assert sorted_by == names
        await pilot.press("s")
        await until(lambda: isinstance(app.screen, Menu) and "reverse" in str(app.screen.choices), pilot)
        await pilot.press("enter")
        await until(lambda: app.screen is app.main, pilot)
        assert sorted_as_said(is_reversed=True) == names[-1]
        await pilot.press("s")
        await until(lambda: isinstance(app.screen, Menu), pilot)
        await pilot.press("n")
        await until(lambda: app.screen is app.main, pilot)
        assert sorted_as_said() == "name"


@pytest.mark.slow
async def test_enter_and_double_click_lead_to_its_traffic() -> None:
    async with running_frame() as (app, pilot):
        pane = await shown(app, pilot)
        await pilot.press("enter")
        await pilot.pause()
        traffic = app.main.pane
        assert app.main.shown == "traffic" and isinstance(traffic, StubPane)
        assert traffic.query_text == 'peer:"claude-code 2.1"'
        await pilot.press("4")
        await pilot.pause()
        await pilot.click(pane.listing, offset=(3, 1))
        assert app.main.shown == "clients" and pane.listing.cursor == 1
        await pilot.click(pane.listing, offset=(3, 1), times=2)
        await pilot.pause()
        assert app.main.shown == "traffic"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("n", "claude-code 2.1"),
        ("l", "claude-code 2.1  ● now"),
        ("d", "claude-code 2.1 · profiles over http"),
    ],
)
async def test_name_line_or_everything_known_is_copied(key: str, text: str) -> None:
    async with running_frame() as (app, pilot):
        await shown(app, pilot)
        await pilot.press("y", key)
        await pilot.pause()
        assert app.clipboard.startswith(text)
        assert ("capabilities   elicitation (form, url) · sampling" in app.clipboard) == (key == "d")


@pytest.mark.slow
async def test_nobody_there_teaches_how_to_connect() -> None:
    link = quiet_link()
    link.core = replace(link.core, clients=link.core.clients[:1])
    async with running_frame(link) as (app, pilot):
        pane = await shown(app, pilot)
        lesson = pane.query_one(".lesson", Static)
        assert lesson.display and "mcpdesk stdio ~/servers/profiles" in str(lesson.content)
        link.core = quiet_link().core
        app.main.refresher.refresh()
        await pilot.pause()
        assert not lesson.display


@pytest.mark.slow
async def test_key_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    link = quiet_link()
    link.core = replace(link.core, clients=(), api_key="secret-key")
    monkeypatch.setattr(
        link, "client_config", lambda server, client, **_: finished(f"{client} -H 'X-API-Key: secret-key'")
    )
    async with running_frame(link) as (app, pilot):
        pane = await shown(app, pilot)
        text = str(pane.query_one(".lesson", Static).content)
        assert "secret-key" not in text and "X-API-Key: ••••" in text
        await choose_action(pilot, "client configuration")
        await pilot.press("1")
        await pilot.pause()
        assert "secret-key" in app.clipboard


async def test_the_selected_client_is_told_in_full() -> None:
    async with running_frame() as (app, pilot):
        pane = await shown(app, pilot)
        detail = pane.query_one(".detail")
        assert str(detail.border_title) == "claude-code 2.1 · profiles over http · 2025-11-25 handshake"
        text = str(detail.query_one(Static).content)
        assert "ends in 54 min unless used" in text and "waits for 1 answer of the client" in text
        await pilot.press("j")
        await pilot.pause()
        assert "over stdio" in str(detail.border_title) and "toolsListChanged" in str(
            detail.query_one(Static).content
        )


@pytest.mark.slow
@pytest.mark.parametrize("size", [(120, 30), (120, 40)])
async def test_many_clients_leave_room_for_the_selected_one(size: tuple[int, int]) -> None:
    link = quiet_link()
    one = link.core.clients[1]
    many = (replace(one, connection=number, name=f"client {number}") for number in range(2, 60))
    link.core = replace(link.core, clients=(one, *many))
    async with running_frame(link, size) as (app, pilot):
        pane = await shown(app, pilot)
        detail = pane.query_one(".detail")
        assert detail.region.height >= 8 and detail.region.bottom <= pane.region.bottom
        assert pane.listing.region.height >= 8


@pytest.mark.slow
async def test_disconnecting_asks_once_more_and_spares_the_desk() -> None:
    link = quiet_link()
    async with running_frame(link) as (app, pilot):
        await shown(app, pilot)
        await pilot.press("x", "n")
        await pilot.pause()
        assert link.disconnected == []
        await pilot.press("x", "y")
        await until(lambda: toasts(app)[-1:] == ["claude-code 2.1 was disconnected."], pilot)
        assert link.disconnected == [1]
        await pilot.press("G", "x")
        await until(
            lambda: toasts(app)[-1:] == ["This is the desk itself; it cannot be disconnected."], pilot
        )
        assert link.disconnected == [1]


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_who_is_quiet_or_left_is_told_in_words_and_not_counted(size: tuple[int, int]) -> None:
    link = quiet_link()
    now = time.time()
    _, code, cursor = link.core.clients
    heard = replace(code, connection=3, name="heard", seen=now - 14)
    quiet = replace(code, seen=now - 14 * 60)
    gone = replace(cursor, name="aider 1", seen=now - 190, left=now - 190)
    link.core = replace(link.core, clients=(quiet, heard, gone))
    async with running_frame(link, size) as (app, pilot):
        pane = await shown(app, pilot)
        room = pane.listing.size.width
        assert "p95" in str(pane.query_one(".heads", Static).content)
        lines = ["".join(text for text, _ in pane.listing.spans(at, room)) for at in range(3)]
        found = [match.group() for line in lines if (match := re.search("[●○✕].*?(s|min)", line))]
        assert found == [f"● {found[0][2:-2]} s", "○ quiet 14 min", "✕ left 3 min"]
        assert "last seen" in str(pane.query_one(".heads", Static).content)
        header = app.main.query_one(DeskHeader).render().plain
        assert "1 client + 1 quiet" in header or " 1/2⇄ " in header
        await pilot.press("G", "x")
        await until(lambda: toasts(app) == ["aider 1 is already disconnected."], pilot)


def columns_in(width: int, caller: str = "", replica: str = "", connections: int = 1) -> list[str]:
    pane = ClientsPane(quiet_link())
    about: dict[str, Any] = {"caller": caller, "core": replica, "connections": connections}
    pane.rows = [replace(one, **about) for one in sample_view(0.0).clients]
    pane.widths = [12 for _ in COLUMNS]
    return [column.name for _, column in pane.columns(width)]


def test_columns_give_way_in_order_and_the_name_stays() -> None:
    everything = [column.name for column in COLUMNS]
    assert columns_in(220, "token of ada", "web-1", 2) == everything
    assert "replica" in columns_in(40, "token of ada", "web-1")
    assert columns_in(220, "token of ada", "web-1") == [one for one in everything if one != "conns"]
    names = [name for name in everything if name not in ("replica", "conns")]
    assert columns_in(200, "token of ada") == names
    assert columns_in(200) == [one for one in names if one != "caller"]
    assert columns_in(14 * 12 + 1, "key") == [one for one in names if one != HIDING_ORDER[0]]
    assert columns_in(20) == ["name", "last seen", "calls", "errors"]


@pytest.mark.slow
async def test_a_long_name_is_cut_only_where_there_is_no_room_and_below_stand_the_latest_calls() -> None:
    with still_clock():
        link = quiet_link()
        _, code, cursor = link.core.clients
        name = "a-client-with-a-rather-long-name-of-its-own 2.1"
        link.core = replace(link.core, clients=(replace(code, name=name, connection=1), cursor))
        async with running_frame(link, (80, 24)) as (app, pilot):
            pane = await shown(app, pilot)
            assert name not in "".join(text for text, _ in pane.listing.spans(0, 80))
            await pilot.resize_terminal(200, 60)
            await until(lambda: name in "".join(text for text, _ in pane.listing.spans(0, 198)), pilot)
            detail = pane.query_one(".detail Static", Static)
            await until(lambda: "latest calls" in str(detail.content), pilot)
            latest = r"\d\d:\d\d:\d\d  user-profile +[\d.]+ [mµ]?s [✓✗] .*userId"
            assert re.search(latest, str(detail.content))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("connections", "expected"), [(2, ["own", "ended"]), (1, ["own"])])
async def test_latest_calls_include_ended_connections_that_the_row_counts(
    connections: int, expected: list[str]
) -> None:
    link = quiet_link()
    code = replace(link.core.clients[1], connections=connections)
    link.core = replace(link.core, clients=(code, link.core.clients[2]))
    now = time.time()
    for number, (peer, closed, tool) in enumerate(
        [(code.name, now, "ended"), (code.name, None, "open"), ("other 1", now, "other")], 5
    ):
        info = ConnectionInfo(number, code.server, code.transport, peer, code.revision, now - 9, closed)
        link.recording.connect(info)
        _record_call(link, number, tool)
    _record_call(link, code.connection, "own")
    async with running_frame(link, (120, 60)) as (app, pilot):
        pane = await shown(app, pilot)
        text = str(pane.query_one(".detail Static", Static).content)
    names = re.findall(r"\d\d:\d\d:\d\d  (own|ended|open|other) ", text)
    assert names == expected


def _record_call(link: FakeLink, connection: int, tool: str) -> None:
    params = {"name": tool, "arguments": {}}
    message = {"jsonrpc": "2.0", "id": tool, "method": "tools/call", "params": params}
    link.recording.frame(connection, Direction.IN, orjson.dumps(message))


@pytest.mark.slow
@pytest.mark.parametrize(("number", "client"), list(enumerate(CONFIG_TARGETS, 1)))
async def test_each_client_gets_its_own(number: int, client: ConfigTarget) -> None:
    async with running_frame() as (app, pilot):
        await choose_action(pilot, "client configuration")
        await pilot.press(str(number))
        await pilot.pause()
        assert app.clipboard.endswith(f"// {client.name} {client.over}") and "/mcp/profiles" in app.clipboard
        assert toasts(app) == [f"copied the configuration for {client.title} · ! shows it"]


@pytest.mark.slow
async def test_a_server_with_modes_is_offered_with_the_tools_of_one() -> None:
    link = quiet_link()
    first = replace(link.core.servers[0], modes=(ModeView("review", "", ("a", "b")),))
    link.core = replace(link.core, servers=(first, *link.core.servers[1:]))
    async with running_frame(link) as (app, pilot):
        await choose_action(pilot, "client configuration")
        await pilot.press("1")
        await pilot.pause()
        await pilot.press("1")
        await pilot.pause()
        assert app.clipboard.endswith("// claude-code http review")
        assert toasts(app) == ["copied the configuration for Claude Code in the mode review · ! shows it"]
        await choose_action(pilot, "client configuration")
        await pilot.press("1")
        await pilot.pause()
        await pilot.press("escape")
        await pilot.pause()
        assert app.clipboard.endswith("review") and app.screen is app.main


def test_a_socket_is_for_curl_and_for_clients_that_start_a_command() -> None:
    server = replace(quiet_link().core.servers[0], url="unix:/run/x.sock")
    assert {one.title for one in targets_for(server) if one.over == "http"} == {"curl"}
    assert {one.over for one in targets_for(replace(server, url=""))} == {"stdio"}
