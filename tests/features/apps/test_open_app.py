"""The key of the workbench, and the desk as a host for a page without a browser."""

from __future__ import annotations

import asyncio
import socket
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from mcpdesk.features.apps import app_host, app_session
from mcpdesk.features.apps.app_pages import loopback_sockets
from mcpdesk.features.apps.open_apps import CloseApps, EndCall, OpenApp, OpenApps
from mcpdesk.link.values import CallOutcome
from mcpdesk.tui.screens import workbench
from tests.features.apps.board_folder import URI, board_folder
from tests.support.action_menu import choose_action
from tests.support.desk import RunningDesk, running_desk
from tests.support.features import needs_feature
from tests.support.patience import WITHIN_S, in_time, until
from tests.support.workbench import bench

HELLO = {"theme": "dark", "locale": "en", "timeZone": "UTC", "width": 600, "height": 400}


class Window(webbrowser.BaseBrowser):
    """A browser with a window of its own."""

    def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:
        """Open nothing."""
        return True


class PageClient:
    """Host page, without a browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def send(self, **message: Any) -> None:
        """Send one message to the core."""
        await self.socket.send_json(message)

    async def next(self, kind: str) -> Any:
        """Value of the next message of this kind."""
        while True:
            message = await in_time(self.socket.receive_json())
            if kind in message:
                return message[kind]

    async def ask(self, method: str, params: dict[str, Any], identifier: int = 1) -> dict[str, Any]:
        """Send a request of the app; return its response."""
        await self.send(view={"jsonrpc": "2.0", "id": identifier, "method": method, "params": params})
        while (view := await self.response()).get("id") != identifier:
            pass
        return view

    async def response(self) -> dict[str, Any]:
        """Next response to a request of the app."""
        view: dict[str, Any] = {"method": ""}
        while "method" in view:
            view = await self.next("view")
        return view

    async def tell(self, method: str) -> None:
        """Send a notification of the app."""
        await self.send(view={"jsonrpc": "2.0", "method": method, "params": {}})

    async def initialize(self) -> None:
        """Complete the handshake of the app."""
        assert "result" in await self.ask("ui/initialize", {"appCapabilities": {}}, 0)
        await self.tell("ui/notifications/initialized")


@asynccontextmanager
async def page_of(url: str) -> AsyncIterator[PageClient]:
    """Open the page of an app."""
    origin = url[: url.index("/", 8)]
    async with aiohttp.ClientSession() as session:
        socket = await session.ws_connect(f"{url}socket", origin=origin)
        page = PageClient(socket)
        await page.send(hello=HELLO)
        yield page


async def opened(desk: RunningDesk, **call: str) -> str:
    """URL of the page of an app."""
    url: str = await in_time(asyncio.wrap_future(desk.do(OpenApp("boards", URI, **call))))
    return url


def get(url: str, **headers: str) -> tuple[int, dict[str, str], str]:
    """Status, headers and text of an answer. The URL is sent unchanged."""
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    with closing(HTTPConnection("127.0.0.1", parts.port, timeout=WITHIN_S)) as connection:
        connection.request("GET", parts.path, headers={"Host": f"{parts.hostname}:{parts.port}", **headers})
        answer = connection.getresponse()
        given = {key.lower(): value for key, value in answer.getheaders()}
        return answer.status, given, answer.read().decode()


@pytest.mark.slow
async def test_the_key_opens_the_app_with_the_call_and_else_the_pager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paged: list[str] = []
    visited: list[str] = []
    monkeypatch.setattr(workbench, "page", lambda app, text, name: paged.append(text))
    monkeypatch.setattr(webbrowser, "get", lambda *_: Window("window"))
    monkeypatch.setattr(webbrowser, "open", visited.append)
    async with running_desk(board_folder(tmp_path / "boards")) as desk:
        link: Any = desk
        desk.asked = []  # type: ignore[attr-defined]
        async with bench(link) as it:
            await it.open("board")
            assert "app: o opens it" in it.shown()
            await it.pilot.press("ctrl+r")
            await it.until(lambda: "with an app" in it.shown())
            await it.pilot.press("escape", "o")
            await it.until(lambda: bool(visited))
            async with page_of(visited[0]) as page:
                await page.initialize()
                assert (await page.next("view"))["params"] == {"arguments": {"team": "red"}}
                result = (await page.next("view"))["params"]
                assert result["content"][0]["text"] == "board of red, with an app"
            await it.open("secret")
            assert "opens it" not in it.shown()
            await it.pilot.press("ctrl+r")
            await it.until(lambda: "hidden from apps" in it.shown())
            await it.pilot.press("escape", "o")
            await it.until(lambda: bool(paged))
            assert "hidden from apps" in paged[0] and len(visited) == 1


@pytest.mark.slow
async def test_a_recorded_call_opens_its_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    visited: list[str] = []
    monkeypatch.setattr(webbrowser, "get", lambda *_: Window("window"))
    monkeypatch.setattr(webbrowser, "open", visited.append)
    async with running_desk(board_folder(tmp_path / "boards")) as desk:
        await desk.call("boards", "board", team="green")
        link: Any = desk
        async with bench(link) as it:
            await it.pilot.press("2")
            await it.until(lambda: "tools/call board" in it.shown())
            await it.pilot.press("G")
            await choose_action(it.pilot, "open the app of the call")
            await it.until(lambda: bool(visited))
            async with page_of(visited[0]) as page:
                await page.initialize()
                assert (await page.next("view"))["params"] == {"arguments": {"team": "green"}}
                result = (await page.next("view"))["params"]
                assert result["content"][0]["text"] == "board of green, with an app"


async def test_messages_of_an_app_are_in_the_traffic_with_its_name(tmp_path: Path) -> None:
    async with running_desk(board_folder(tmp_path / "boards")) as desk:
        url = await opened(desk, tool="board", arguments='{"team":"red"}')
        async with page_of(url) as page:
            await page.initialize()
            answer = await page.ask("tools/call", {"name": "refresh", "arguments": {"step": 2}})
            assert answer["result"]["content"][0]["text"] == "step 2"

        def rows() -> list[tuple[str, str, str]]:
            desk.traffic.catch_up()
            found = (each for each in desk.traffic.exchanges if each.peer.startswith("app "))
            return [(each.peer, each.method, each.name) for each in found]

        wanted = {
            ("app board", "ui/initialize", ""),
            ("app board", "ui/notifications/tool-input", ""),
            ("app board", "tools/call", "refresh"),
        }
        await until(lambda: wanted <= set(rows()))
        assert rows().count(("app board", "tools/call", "refresh")) == 2  # app to host, and host to server


@needs_feature("holding")
async def test_a_request_of_an_app_is_held_and_changed(tmp_path: Path) -> None:
    from mcpdesk.features.holding.held_message import Release, SetHold, Verdict, hold_view

    async with (
        running_desk(board_folder(tmp_path / "boards")) as desk,
        page_of(await opened(desk)) as page,
    ):
        await page.initialize()
        rule = "peer:app method:tools/call"
        assert await asyncio.wrap_future(desk.do(SetHold(rule, "requests")))
        call = {"name": "refresh", "arguments": {"step": 2}}
        asked = asyncio.create_task(page.ask("tools/call", call))
        held = await until(lambda: next(iter(hold_view(desk).messages), None))
        assert (held.server, held.peer, held.name) == ("boards", "app board/main", "refresh")
        changed = held.text.replace("2", "9")
        await asyncio.wrap_future(desk.do(Release(held.number, Verdict.CHANGE, changed)))
        inner = await until(lambda: next((each for each in hold_view(desk).messages if each != held), None))
        await asyncio.wrap_future(desk.do(Release(inner.number, Verdict.PASS)))  # from the host to the server
        assert (await asked)["result"]["content"][0]["text"] == "step 9"


@needs_feature("holding")
async def test_a_notification_to_an_app_is_held_and_dropped(tmp_path: Path) -> None:
    from mcpdesk.features.holding.held_message import Release, SetHold, Verdict, hold_view

    async with running_desk(board_folder(tmp_path / "boards")) as desk:
        rule = "method:ui/notifications/tool-input"
        assert await asyncio.wrap_future(desk.do(SetHold(rule, "answers")))
        url = await opened(desk, tool="board", arguments="{}", result='{"content":[]}')
        async with page_of(url) as page:
            await page.initialize()
            held = await until(lambda: next(iter(hold_view(desk).messages), None))
            await asyncio.wrap_future(desk.do(Release(held.number, Verdict.DROP)))
            assert (await page.next("view"))["method"] == "ui/notifications/tool-result"


@needs_feature("holding")
async def test_a_mock_answers_an_app(tmp_path: Path) -> None:
    from mcpdesk.features.holding.held_message import CannedCall, Mock

    async with (
        running_desk(board_folder(tmp_path / "boards")) as desk,
        page_of(await opened(desk)) as page,
    ):
        await page.initialize()
        canned = CannedCall("boards", "tools/call", "refresh")
        answer = '{"result": {"content": [{"type": "text", "text": "mocked"}]}}'
        assert await asyncio.wrap_future(desk.do(Mock(canned, answer)))
        answered = await page.ask("tools/call", {"name": "refresh", "arguments": {"step": 2}})
        assert answered["result"]["content"][0]["text"] == "mocked"


async def test_a_policy_that_asks_also_holds_calls_of_apps(tmp_path: Path) -> None:
    async with (
        running_desk(board_folder(tmp_path / "boards"), approvals="refresh=ask") as desk,
        page_of(await opened(desk)) as page,
    ):
        await page.initialize()
        call = {"name": "refresh", "arguments": {"step": 2}}
        asked = asyncio.create_task(page.ask("tools/call", call))
        (question,) = await until(lambda: [each for each in desk.questions() if each.state == "waiting"])
        assert question.peer == "app board/main"
        await asyncio.wrap_future(desk.decline(question.id))
        assert "step 2" not in str(await asked)


async def test_the_words_in_the_addresses_are_needed(tmp_path: Path) -> None:
    async with running_desk(board_folder(tmp_path / "boards")) as desk:
        url = await opened(desk)
        async with page_of(url) as page:
            frame = (await page.next("show"))["frame"]
        host, sandbox = url[: url.index("/", 8)], frame[: frame.index("/", 8)]
        assert host != sandbox and "127.0.0.1" in host and "localhost" in sandbox

        def status(address: str, **headers: str) -> int:
            return get(address, **headers)[0]

        def check() -> None:
            assert status(url) == 200 and status(frame) == 200
            for path in (
                "/",
                "/guess/",
                "//",
                "/../host.html",
                "/page/host.html",
                "/%2e%2e/host.js",
                "/sandbox.html",
            ):
                assert status(host + path) == 404, path
                assert status(sandbox + path) == 404, path
            word, inner = url.split("/")[3], frame.split("/")[3]
            assert status(f"{sandbox}/{word}/") == 404 and status(f"{host}/{inner}/") == 404
            assert status(f"{url}socket", Origin=sandbox) == 403
            assert status(f"{url}socket", Origin="null") == 403
            assert status(f"{url}socket") == 403
            assert status(url, Host="evil.example") == 403
            assert "set-cookie" not in get(url)[1] | get(frame)[1]

        await asyncio.to_thread(check)
        assert await asyncio.wrap_future(desk.do(CloseApps())) == 1
        await until(lambda: not desk.feature_part(OpenApps).apps)
        assert await asyncio.to_thread(status, url) == 404
        assert await asyncio.to_thread(status, frame) == 404


async def test_a_declared_text_adds_no_header_and_no_directive(tmp_path: Path) -> None:
    meta = (
        '{"csp": {"connectDomains": ["https://a.example; script-src *", "https://b.example\\r\\nX-Evil: 1"]}}'
    )
    async with running_desk(board_folder(tmp_path / "boards", meta)) as desk:
        async with page_of(await opened(desk)) as page:
            shown = await page.next("show")
        assert len(shown["refused"]) == 2 and shown["outside"] == []
        _, headers, _ = await asyncio.to_thread(get, shown["frame"])
        assert "x-evil" not in headers and "connect-src 'none'" in headers["content-security-policy"]
        assert headers["content-security-policy"].count("script-src") == 1


async def test_a_page_that_is_missing_or_too_large_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_desk(board_folder(tmp_path / "boards")) as desk:
        url = await asyncio.wrap_future(desk.do(OpenApp("boards", "ui://other")))
        async with page_of(url) as page:
            assert "cannot return ui://other" in (await page.next("show"))["failure"]
        monkeypatch.setattr("mcpdesk.features.apps.app_resource.MAX_HTML_BYTES", 10)
        async with page_of(await opened(desk)) as page:
            assert "an app has at most 10" in (await page.next("show"))["failure"]


async def test_open_apps_are_limited_and_other_addresses_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_host, "MAX_APPS", 1)
    async with running_desk(board_folder(tmp_path / "boards")) as desk:
        for wrong in (OpenApp("boards", "https://a.example"), OpenApp("other", URI)):
            with pytest.raises(ValueError, match=r"not the URI of an app|no server other"):
                await asyncio.wrap_future(desk.do(wrong))
        await opened(desk)
        with pytest.raises(ValueError, match="1 apps are already open"):
            await opened(desk)


async def test_an_app_without_a_page_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_host, "UNUSED_S", 0.01)
    async with running_desk(board_folder(tmp_path / "boards")) as desk:
        url = await opened(desk)
        await until(lambda: not desk.feature_part(OpenApps).apps)
        assert not await asyncio.wrap_future(desk.do(EndCall(url, "{}")))


async def test_the_time_of_an_unused_app_begins_again_when_its_page_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_desk(board_folder(tmp_path / "boards")) as desk:
        for first_limit_s in (0.2, 1.0, 5.0, 25.0):
            monkeypatch.setattr(app_host, "UNUSED_S", first_limit_s)
            first_has_passed = asyncio.Event()
            url = await opened(desk)
            asyncio.get_running_loop().call_later(2 * first_limit_s, first_has_passed.set)
            try:
                async with page_of(url) as page:
                    await page.next("show")
                    monkeypatch.setattr(app_host, "UNUSED_S", 60.0)
                break
            except aiohttp.WSServerHandshakeError:
                pass  # The machine is busy, and the app ended before its page was opened.
        await first_has_passed.wait()
        assert len(desk.feature_part(OpenApps).apps) == 1
        assert await asyncio.wrap_future(desk.do(CloseApps())) == 1


async def test_closing_the_page_asks_the_app_first(tmp_path: Path) -> None:
    async with (
        running_desk(board_folder(tmp_path / "boards")) as desk,
        page_of(await opened(desk)) as page,
    ):
        await page.initialize()
        await page.send(close=True)
        teardown = await page.next("view")
        assert teardown["method"] == "ui/resource-teardown"
        await page.send(view={"jsonrpc": "2.0", "id": teardown["id"], "result": {}})
        assert await page.next("end") == "closed by the person"


async def test_a_second_tab_replaces_the_first(tmp_path: Path) -> None:
    async with running_desk(board_folder(tmp_path / "boards")) as desk:
        url = await opened(desk)
        async with page_of(url) as first:
            await first.next("show")
            async with page_of(url) as second:
                await second.next("show")
                assert await first.next("end") == "opened in another tab"
                await second.initialize()


async def test_a_page_that_connects_while_its_app_ends_is_ended(tmp_path: Path) -> None:
    async with running_desk(board_folder(tmp_path / "boards")) as desk:
        url = await opened(desk)
        async with aiohttp.ClientSession() as session:
            page = PageClient(await session.ws_connect(f"{url}socket", origin=url[: url.index("/", 8)]))
            assert await asyncio.wrap_future(desk.do(CloseApps())) == 1
            await until(lambda: not desk.feature_part(OpenApps).apps)
            await page.send(hello=HELLO)
            assert await page.next("end") == "it was closed"


async def test_a_flood_of_messages_is_slowed_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(app_session, "MAX_MESSAGES_PER_S", 3)
    waits: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    async with (
        running_desk(board_folder(tmp_path / "boards")) as desk,
        page_of(await opened(desk)) as page,
    ):
        monkeypatch.setattr(asyncio, "sleep", noted)
        for _ in range(20):
            await page.tell("ui/notifications/size-changed")
        await page.ask("ping", {})
        monkeypatch.setattr(asyncio, "sleep", sleep)
    assert waits and all(0 <= each <= 1 for each in waits)


def test_no_other_program_can_listen_at_an_address_of_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    real, taken = socket.create_server, list[socket.socket]()

    def create(address: tuple[str, int], **more: Any) -> socket.socket:
        if address[0] == "::1" and not taken:  # another program is faster at the first port
            taken.append(real(address, **more))
        return real(address, **more)

    monkeypatch.setattr(socket, "create_server", create)
    host, sandbox = loopback_sockets()
    addresses = {each.getsockname()[0]: each.getsockname()[1] for each in sandbox}
    port = taken[0].getsockname()[1]
    for each in (host, *sandbox, *taken):
        each.close()
    assert set(addresses) == {"127.0.0.1", "::1"}
    assert addresses["127.0.0.1"] == addresses["::1"] != port


@pytest.mark.slow
async def test_a_deeply_nested_result_is_refused_and_the_screen_stays(tmp_path: Path) -> None:
    async with running_desk(board_folder(tmp_path / "boards")) as desk:
        link: Any = desk
        desk.asked = []  # type: ignore[attr-defined]
        async with bench(link) as it:
            await it.open("board")
            draft = it.pane.draft
            assert draft is not None
            draft.outcome = CallOutcome(
                {"content": [], "structuredContent": {"deep": nested(600)}}, None, b"", 0.1
            )
            await it.pilot.press("escape", "o")
            await it.until(lambda: "nested too deeply for an app" in it.shown())


async def test_a_deeply_nested_call_opens_no_app(tmp_path: Path) -> None:
    async with running_desk(board_folder(tmp_path / "boards")) as desk:
        for depth in (50_000,):
            text = f'{{"content": {"[" * depth}{"]" * depth}}}'
            with pytest.raises(ValueError, match="nested too deeply"):
                await opened(desk, tool="board", arguments="{}", result=text)
        assert not desk.feature_part(OpenApps).apps


def nested(depth: int) -> Any:
    """A value with this number of levels."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value
