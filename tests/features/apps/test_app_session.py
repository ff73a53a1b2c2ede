"""Conversation between an app and the host, without a browser."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from mcpdesk.features.apps import app_session, page_link
from mcpdesk.features.apps.app_resource import MIME_TYPE
from mcpdesk.features.apps.app_session import AppSession, ToolRun
from mcpdesk.features.apps.page_link import PageFacts, PageLink, page_facts
from mcpdesk.features.apps.server_access import ServerAccess
from mcpdesk.hosting.journal import Journal
from mcpdesk.recorder.interceptor import Interceptor
from mcpdesk.recorder.record import Direction
from tests.support.patience import in_time, until

URI = "ui://board/main"
CALLED = ToolRun("board", {"team": "red"}, {"content": []})


class Access(ServerAccess):
    """A server with three tools, which remembers the requests."""

    def __init__(self, needs_consent: bool = False) -> None:
        self.needs_consent = needs_consent
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.going = asyncio.Event()
        self.going.set()
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def definition(self, tool: str) -> Mapping[str, Any] | None:
        tools: dict[str, Any] = {
            "board": {"name": "board"},
            "look": {"name": "look", "annotations": {"readOnlyHint": True}},
            "secret": {"name": "secret", "_meta": {"ui": {"visibility": ["model"]}}},
        }
        return tools.get(tool)

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.requests.append((method, params))
        if params.get("uri") == URI:
            return {"result": {"contents": [{"uri": URI, "mimeType": MIME_TYPE, "text": "<p>board"}]}}
        await self.going.wait()
        return {"result": {"content": []}}


class Frames:
    """A recorder of one connection."""

    def __init__(self) -> None:
        self.frames: list[tuple[Direction, dict[str, Any]]] = []

    def connect(self, info: Any) -> None:
        """Take the connection."""
        self.info = info

    def frame(self, connection: int, direction: Direction, data: bytes, is_json: bool = False) -> int:
        """Keep one frame."""
        self.frames.append((direction, json.loads(data)))
        return len(self.frames)


class App:
    """The app's side of a conversation."""

    def __init__(self, run: ToolRun, access: Access, interceptor: Interceptor | None = None) -> None:
        self.access = access
        self.recorded = Frames()
        self.got: list[dict[str, Any]] = []
        self.page: list[dict[str, Any]] = []
        self.is_closed = False
        used = interceptor or Interceptor()
        recorder: Any = self.recorded
        self.session = AppSession("boards", URI, run, access, recorder, lambda: used, Journal(lambda: None))
        self.link = PageLink(self._sent, self._close)

    async def _sent(self, text: str) -> None:
        message = json.loads(text)
        if "view" in message:
            self.got.append(message["view"])
        else:
            self.page.append(message)

    async def _close(self) -> None:
        self.is_closed = True

    async def start(self, **capabilities: Any) -> dict[str, Any]:
        """Load the page, and initialize the app."""
        await self.session.load()
        self.session.attach(self.link, PageFacts(theme="dark"))
        params = {"appInfo": {}, "appCapabilities": capabilities, "protocolVersion": "2026-01-26"}
        answer = await self.ask("ui/initialize", params)
        await self.tell("ui/notifications/initialized")
        return answer

    async def tell(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification."""
        await self.session.receive({"jsonrpc": "2.0", "method": method, "params": params or {}})

    async def ask(self, method: str, params: Any, identifier: Any = 1) -> dict[str, Any]:
        """Send a request and wait for its response."""
        before = len(self.got)
        await self.session.receive({"jsonrpc": "2.0", "id": identifier, "method": method, "params": params})
        found: dict[str, Any] = await until(
            lambda: next((each for each in self.got[before:] if each.get("id") == identifier), None)
        )
        return found

    async def has(self, *methods: str) -> None:
        """Wait until the app has received exactly these notifications."""
        await until(lambda: tuple(self.told) == methods)

    @property
    def told(self) -> list[str]:
        """Methods of the host's messages."""
        return [each["method"].rpartition("/")[2] for each in self.got if "method" in each]


async def test_the_host_describes_itself_and_the_call() -> None:
    app = App(CALLED, Access())
    result = (await app.start())["result"]
    assert result["protocolVersion"] == "2026-01-26" and result["hostInfo"]["name"] == "mcpdesk"
    assert set(result["hostCapabilities"]) == {
        "openLinks",
        "serverTools",
        "serverResources",
        "logging",
        "sandbox",
    }
    context = result["hostContext"]
    assert context["theme"] == "dark" and context["toolInfo"] == {"tool": {"name": "board"}}
    await app.has("tool-input", "tool-result")
    assert app.got[1]["params"] == {"arguments": {"team": "red"}}


async def test_nothing_is_sent_before_the_app_is_initialized() -> None:
    app = App(CALLED, Access())
    await app.session.load()
    app.session.attach(app.link, PageFacts())
    app.session.change_facts(PageFacts(theme="dark"))
    app.session.end_call({"content": []}, "")
    await app.ask("ui/initialize", {"appCapabilities": {}})
    assert app.told == []
    await app.tell("ui/notifications/initialized")
    await app.has("tool-input", "tool-result")


async def test_a_request_before_the_handshake_is_refused() -> None:
    app = App(CALLED, Access())
    await app.session.load()
    app.session.attach(app.link, PageFacts())
    answer = await app.ask("tools/call", {"name": "board"})
    assert "ui/initialize must be the first request" in answer["error"]["message"]
    assert (await app.ask("ping", {}))["result"] == {}


@pytest.mark.parametrize(
    ("result", "reason", "last"),
    [({"content": []}, "", "tool-result"), (None, "cancelled at the desk", "tool-cancelled")],
)
async def test_the_outcome_of_a_running_call_follows(result: Any, reason: str, last: str) -> None:
    app = App(ToolRun("board", {}), Access())
    await app.start()
    await app.has("tool-input")
    app.session.end_call(result, reason)
    app.session.end_call(result, reason)
    await app.has("tool-input", last)
    assert app.got[-1]["params"] == (result or {"reason": reason})


@pytest.mark.parametrize("name", ["secret", "unknown", 7])
async def test_tools_that_are_not_for_apps_are_not_called(name: Any) -> None:
    app = App(CALLED, Access())
    await app.start()
    answer = await app.ask("tools/call", {"name": name, "arguments": {}})
    assert "error" in answer and [method for method, _ in app.access.requests] == ["resources/read"]


async def test_an_upstream_tool_is_called_after_the_person_agreed() -> None:
    app = App(CALLED, Access(needs_consent=True))
    await app.start()
    assert "result" in await app.ask("tools/call", {"name": "look"}, 2)
    for agreed in (False, True):
        asked = asyncio.create_task(app.ask("tools/call", {"name": "board"}, f"b{agreed}"))
        question = await until(lambda: next((each["ask"] for each in app.page if "ask" in each), None))
        app.link.set_answer(question["number"], agreed)
        assert ("result" in await asked) is agreed
        app.page.clear()
    assert "result" in await app.ask("tools/call", {"name": "board"}, 5)  # agreed for this app
    assert app.page == []


async def test_a_question_says_how_much_of_the_arguments_it_leaves_out() -> None:
    app = App(CALLED, Access(needs_consent=True))
    await app.start()
    call = {"name": "board", "arguments": {"text": "x" * app_session.MAX_TEXT_LENGTH}}
    asked = asyncio.create_task(app.ask("tools/call", call, 2))
    question = await until(lambda: next((each["ask"] for each in app.page if "ask" in each), None))
    assert question["detail"].endswith("xx… (11 more characters are not shown)")
    app.link.set_answer(question["number"], False)
    assert "error" in await asked


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://user:word@a.example/",
        "https://a.example/ b",
        "https://a.example/\n",
        "https://[",
        "data:text/html,x",
        "https://a.example/" + "a" * 3000,
        7,
    ],
)
async def test_only_web_links_are_offered_to_the_person(url: Any) -> None:
    app = App(CALLED, Access())
    await app.start()
    answer = await app.ask("ui/open-link", {"url": url}, 2)
    assert "Invalid URL" in answer["error"]["message"] and not any("ask" in each for each in app.page)


async def test_a_link_is_opened_only_if_the_person_agrees() -> None:
    app = App(CALLED, Access())
    await app.start()
    asked = asyncio.create_task(app.ask("ui/open-link", {"url": "https://a.example/x"}, 2))
    question = await until(lambda: next((each["ask"] for each in app.page if "ask" in each), None))
    assert question["link"] == "https://a.example/x"
    app.link.set_answer(question["number"], "yes")  # only true is an agreement
    assert (await asked)["error"]["message"] == "The person declined"


async def test_questions_on_one_page_are_limited() -> None:
    app = App(CALLED, Access())
    await app.start()
    tasks = [
        asyncio.create_task(app.ask("ui/open-link", {"url": "https://a.example/"}, number))
        for number in range(10, 10 + page_link.MAX_QUESTIONS + 1)
    ]
    await until(lambda: any("error" in each for each in app.got))
    app.link.decline_all()
    await asyncio.gather(*tasks)
    assert sum("ask" in each for each in app.page) == page_link.MAX_QUESTIONS


async def test_a_display_mode_needs_the_support_of_the_app() -> None:
    app = App(CALLED, Access())
    await app.start(availableDisplayModes=["inline", "fullscreen"])
    assert (await app.ask("ui/request-display-mode", {"mode": "pip"}, 2))["result"] == {"mode": "inline"}
    assert (await app.ask("ui/request-display-mode", {"mode": "fullscreen"}, 3))["result"] == {
        "mode": "fullscreen"
    }
    await until(lambda: {"mode": "fullscreen"} in app.page and app.told[-1:] == ["host-context-changed"])
    other = App(CALLED, Access())
    await other.start(availableDisplayModes=["inline"])
    answer = await other.ask("ui/request-display-mode", {"mode": "fullscreen"}, 2)
    assert answer["result"] == {"mode": "inline"}


async def test_messages_and_context_for_a_model_are_shown_to_the_person() -> None:
    app = App(CALLED, Access())
    await app.start()
    text = {"type": "text", "text": "Sell the house"}
    assert (await app.ask("ui/message", {"role": "user", "content": text}, 2))["result"] == {}
    assert "error" in await app.ask("ui/message", {"role": "assistant", "content": text}, 3)
    assert (await app.ask("ui/update-model-context", {"structuredContent": {"a": 1}}, 4))["result"] == {}
    assert [each["note"]["text"] for each in app.page if "note" in each] == [
        "Sell the house",
        '{"structuredContent":{"a":1}}',
    ]


async def test_sizes_are_limited() -> None:
    app = App(CALLED, Access())
    await app.start()
    for size in ({"width": 300, "height": 1e6}, {"width": "wide", "height": -4}, {"height": float("nan")}):
        await app.session._handle_notification({"method": "ui/notifications/size-changed", "params": size})
    sizes = [each["size"] for each in app.page if "size" in each]
    assert sizes[0] == {"width": 300, "height": app_session.MAX_SIDE_PIXELS}
    assert sizes[1] == {"width": None, "height": 0} and sizes[2] == {"width": None, "height": None}


async def test_running_requests_are_limited_and_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_session, "MAX_CALLS", 2)
    app = App(CALLED, Access())
    await app.start()
    app.access.going.clear()
    for identifier in ("a", "b", "c"):
        call = {"name": "board", "arguments": {}}
        await app.session.receive(
            {"jsonrpc": "2.0", "id": identifier, "method": "tools/call", "params": call}
        )
    assert [each["id"] for each in app.got if "error" in each] == ["c"]
    await app.tell("notifications/cancelled", {"requestId": "a"})
    await until(lambda: len(app.session._running_requests) == 1)


@pytest.mark.parametrize(
    "message", [[], "text", 7, None, {"method": "ping"}, {"jsonrpc": "2.0", "id": [], "method": "ping"}]
)
async def test_a_malformed_message_is_recorded_and_ignored(message: Any) -> None:
    app = App(CALLED, Access())
    await app.start()
    count = len(app.got)
    await app.session.receive(message)
    assert app.recorded.frames[-1] == (Direction.IN, message) and len(app.got) == count


async def test_an_unknown_method_is_an_error() -> None:
    app = App(CALLED, Access())
    await app.start()
    assert (await app.ask("sampling/createMessage", {}, 2))["error"]["code"] == -32601
    assert (await app.ask("ping", [], 3))["error"]["code"] == -32602


async def test_the_app_is_asked_before_it_ends() -> None:
    app = App(CALLED, Access())
    await app.start()
    closing = asyncio.create_task(app.session.close("closed by the person"))
    await until(lambda: app.told[-1:] == ["resource-teardown"])
    assert not app.is_closed
    await app.session.receive({"jsonrpc": "2.0", "id": app.got[-1]["id"], "result": {}})
    await closing
    assert app.is_closed and app.page[-1] == {"end": "closed by the person"}
    assert app.recorded.info.closed is not None


async def test_every_message_is_recorded_with_its_direction() -> None:
    app = App(CALLED, Access())
    await app.start()
    await app.has("tool-input", "tool-result")
    assert (app.recorded.info.server, app.recorded.info.peer) == ("boards", "app board")
    assert [message for direction, message in app.recorded.frames if direction is Direction.OUT] == app.got
    sent = [message["method"] for direction, message in app.recorded.frames if direction is Direction.IN]
    assert sent == ["ui/initialize", "ui/notifications/initialized"]


def test_facts_of_the_page_are_checked() -> None:
    hostile = {
        "theme": "red",
        "locale": "en\n",
        "timeZone": "x" * 100,
        "width": 1e9,
        "height": -1,
        "hover": 0,
    }
    assert page_facts(hostile) == PageFacts(height=0)
    assert page_facts("text") == PageFacts()
    fine = {"theme": "dark", "locale": "de-CH", "timeZone": "Europe/Zurich", "width": 300, "height": 200}
    assert page_facts(fine) == PageFacts("dark", "de-CH", "Europe/Zurich", 300, 200)


async def test_messages_that_cannot_be_encoded_do_not_end_the_page() -> None:
    app = App(CALLED, Access())
    await app.start()
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    for value in ("\ud800", deep):
        await app.tell("notifications/message", {"data": value})
    assert (await app.ask("ping", {}, 9))["result"] == {}


async def test_an_app_ends_completely_if_its_page_is_closed_at_that_moment() -> None:
    access = Access()
    app = App(CALLED, access)
    await app.start()
    access.going.clear()
    await app.session.receive(
        {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "board"}}
    )
    await until(lambda: access.requests[-1][0] == "tools/call")

    async def closed(text: str) -> None:
        raise ConnectionResetError

    app.link._send = closed
    await app.session.close("test")
    assert access.is_closed and app.recorded.info.closed is not None


async def test_an_app_ends_although_its_page_no_longer_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_session, "TEARDOWN_S", 0.05)
    monkeypatch.setattr(page_link, "END_S", 0.05)
    app = App(CALLED, Access())
    await app.start()

    async def stuck(text: str) -> None:
        await asyncio.Event().wait()

    app.link._send = stuck
    await in_time(app.session.close("test"))
    assert app.is_closed and app.access.is_closed and app.session.link is None
