"""Conversation between one open app and this program, which is its host.

The app sends messages through its page. Each message is recorded, and passes the interceptor of the core, so
that it can be held, mocked and given faults like a message of any other client. Must be used on the core's
loop. Source: MCP Apps 2026-01-26, Communication Protocol.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.errors import AnswerCut, ProtocolError, SessionLost
from mcpdesk.features.apps.app_resource import AppPage, app_page, is_for_apps
from mcpdesk.features.apps.page_link import DISPLAY_MODES, PageFacts, PageLink
from mcpdesk.hosting.channel import next_connection
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject, is_id
from mcpdesk.protocol.methods import LOG_LEVELS
from mcpdesk.recorder.record import ConnectionInfo, Direction
from mcpdesk.version import __version__

if TYPE_CHECKING:
    from mcpdesk.features.apps.server_access import ServerAccess
    from mcpdesk.hosting.journal import Journal
    from mcpdesk.recorder.interceptor import Interceptor
    from mcpdesk.recorder.record import Recorder

REVISION: Final = "2026-01-26"
REFUSED_CODE: Final = -32_000
"""Code of the error for a request that the host refuses."""
MAX_CALLS = 32
"""Maximum number of running requests of one app."""
MAX_MESSAGES_PER_S = 200
"""Maximum number of messages of an app per second. Further messages wait. A message counts once more for
each full `COUNTED_BYTES`.
"""
COUNTED_BYTES = 64 << 10
"""Size in bytes for which a message counts once more."""
MAX_TEXT_LENGTH = 10_000
"""Maximum length in characters of a text that is logged, or shown on the page."""
MAX_LINK_LENGTH = 2_048
"""Maximum length in characters of a link that an app may open."""
MAX_SIDE_PIXELS = 20_000
"""Maximum width and height in pixels that an app may ask for."""
TEARDOWN_S = 2.0
"""Seconds to wait for the app's response before its page ends."""
RESERVED_PREFIX: Final = "ui/notifications/sandbox-"
"""Beginning of the methods between the host and the sandbox. Apps never receive them."""
_log = logging.getLogger(__name__)


class ToolRun(Struct, frozen=True):
    """Call of the tool whose result an app shows."""

    tool: str = ""
    arguments: JSONObject | None = None
    """Arguments, or None if the tool was not called."""
    result: JSONObject | None = None
    """Result, or None if the call has not ended, or has no result."""
    cancelled: str = ""
    """Reason why the call has no result."""


class AppSession:
    """One open app."""

    def __init__(
        self,
        server: str,
        uri: str,
        run: ToolRun,
        access: ServerAccess,
        recorder: Recorder,
        interceptor: Callable[[], Interceptor],
        journal: Journal,
    ) -> None:
        """`interceptor` returns the interceptor of the core's messages. `access` is closed with the app."""
        self.server, self.uri, self.run = server, uri, run
        self.opened = time.time()
        self.page: AppPage | None = None
        self.failure = ""
        """Reason why the app cannot be shown."""
        self.loaded = asyncio.Event()
        """Set when `page` or `failure` is known."""
        self.link: PageLink | None = None
        """Connection of the open page, or None."""
        self.connection = next_connection()
        self._access = access
        self._recorder = recorder
        self._interceptor = interceptor
        self._journal = journal
        self._facts = PageFacts()
        self._capabilities: JSONObject = {}
        self._is_started = False
        """True after the request `ui/initialize`."""
        self._is_ready = False
        """True after `ui/notifications/initialized`."""
        self._has_sent_input = False
        self._has_sent_outcome = False
        self._mode = DISPLAY_MODES[0]
        self._tasks: set[asyncio.Task[None]] = set()
        self._running_requests: dict[object, asyncio.Task[None]] = {}
        """Running requests of the app, by id."""
        self._allowed_tools: set[str] = set()
        """Tools that the person allowed this app to call."""
        self._teardown: asyncio.Future[None] | None = None
        self._current_second = 0
        """Second of `time.monotonic` in which the last message arrived."""
        self._second_count = 0
        """Number of messages in this second, see `MAX_MESSAGES_PER_S`."""
        self._info = ConnectionInfo(self.connection, server, "app", self.name, REVISION, self.opened)
        recorder.connect(self._info)

    @property
    def name(self) -> str:
        """Name of the app as a peer in Traffic."""
        return f"app {self.run.tool or self.uri.removeprefix('ui://')}"[:80]

    async def load(self) -> None:
        """Read the page of the app from its server."""
        try:
            response = await self._access.request("resources/read", {"uri": self.uri})
            if "error" in response:
                raise ValueError(f"The server cannot return {self.uri}: {response['error'].get('message')}")
            self.page = app_page(self.uri, response["result"])
            policy = self.page.policy
            allowed = ", ".join(policy.allowed_origins) or "no other origin"
            self._report("info", f"opened {self.uri}; the policy allows {allowed}")
            if policy.refused:
                self._report("warning", f"{self.uri} must not use {', '.join(policy.refused)}")
        except ValueError as error:
            self.failure = _cut(str(error))
            self._report("warning", self.failure)
        except Exception as error:  # the page must show a reason
            _log.exception("an app cannot be loaded")
            self.failure = f"mcpdesk has a bug: {error!r}"
        self.loaded.set()

    def attach(self, link: PageLink, facts: PageFacts) -> None:
        """Use a page that was opened or loaded again. The app starts again in it."""
        self.link, self._facts = link, facts
        self._restart()

    def detach(self, link: PageLink) -> None:
        """Stop using a page that has disconnected."""
        if self.link is link:
            self.link = None
            self._restart()
            self._interceptor().forget(self.connection)

    def end_call(self, result: JSONObject | None, cancelled: str) -> None:
        """Give the app the result of the call that was running when it was opened."""
        if self.run.arguments is not None and self.run.result is None and not self.run.cancelled:
            self.run = replace(self.run, result=result, cancelled=cancelled)
            self._start_task(self._send_call())

    def change_facts(self, facts: PageFacts) -> None:
        """Use new facts about the page, such as its theme or its size, and notify the app of the changes."""
        previous_context = self._context(self._facts)
        self._facts = facts
        changes = {
            key: value for key, value in self._context(facts).items() if previous_context.get(key) != value
        }
        if changes and self._is_ready:
            self._start_task(self._notify("ui/notifications/host-context-changed", changes))

    def choose_mode(self, mode: str) -> None:
        """Change the display mode at the person's request, if the app supports the mode."""
        if self._set_mode(mode):
            self._start_task(self._notify("ui/notifications/host-context-changed", self._display()))

    async def close(self, reason: str) -> None:
        """Ask the app to end, wait for a moment, and end its page."""
        try:
            with suppress(ConnectionError):  # the page was closed in the meantime
                await self._end_page(reason)
        finally:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self.link = None  # messages of the page are now ignored
            self._access.close()
            self._interceptor().forget(self.connection)
            self._recorder.connect(replace(self._info, closed=time.time()))

    async def _end_page(self, reason: str) -> None:
        if self._is_ready and self.link is not None:
            self._teardown = asyncio.get_running_loop().create_future()
            request = codec.request("host-teardown", "ui/resource-teardown", {"reason": reason})
            try:
                async with asyncio.timeout(TEARDOWN_S):
                    await self._deliver(request)
                    await self._teardown
            except TimeoutError:
                self._report("info", f"{self.uri} did not answer ui/resource-teardown")
        if self.link is not None:
            await self.link.end(reason)

    # messages of the app

    async def receive(self, message: Any) -> None:
        """Handle a message of the app or of its sandbox.

        A message that is nested too deeply, or has text that is not Unicode, is logged and ignored.
        """
        try:
            data = codec.encode(message)
        except ProtocolError as error:
            await self._slow_down(0)
            self._report("warning", f"a message of the app was ignored: {error}")
            return
        await self._slow_down(len(data))
        self._recorder.frame(self.connection, Direction.IN, data, is_json=True)
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return
        method, identifier = message.get("method"), message.get("id")
        if isinstance(method, str) and is_id(identifier):
            if len(self._running_requests) >= MAX_CALLS or identifier in self._running_requests:
                text = f"at most {MAX_CALLS} requests may run, with different ids"
                await self._deliver(_error_bytes(identifier, REFUSED_CODE, text))
                return
            task = self._start_task(self._answer_request(message))
            self._running_requests[identifier] = task
            task.add_done_callback(lambda _: self._running_requests.pop(identifier, None))
        elif isinstance(method, str) and "id" not in message:
            self._start_task(self._handle_notification(message))
        elif identifier == "host-teardown" and self._teardown is not None and not self._teardown.done():
            self._teardown.set_result(None)

    async def _slow_down(self, size: int) -> None:
        """Wait until the next second if the app has exceeded `MAX_MESSAGES_PER_S`. `size` is in bytes."""
        now = time.monotonic()
        if int(now) != self._current_second:
            self._current_second = int(now)
            self._second_count = 0
        self._second_count += 1 + size // COUNTED_BYTES
        if self._second_count > MAX_MESSAGES_PER_S:
            await asyncio.sleep(self._current_second + 1 - now)

    async def _answer_request(self, message: JSONObject) -> None:
        """Answer a request of the app. The interceptor may change, drop or answer it."""
        interceptor, arrival = self._interceptor(), time.time()
        request: JSONObject | None = message
        answer: JSONObject | None = None
        try:
            if interceptor.is_active:
                request, answer = await interceptor.request(self.connection, message)
            if request is not None and answer is None:
                answer = await self._response(request)
                if interceptor.is_active:
                    answer = await interceptor.answer(self.connection, request, arrival, answer)
        except (SessionLost, AnswerCut):  # a fault rule: the page starts again without an answer
            answer = None
            if self.link is not None:
                await self.link.end("a fault rule cut the connection")
        if answer is not None:
            await self._deliver(codec.encode(answer))

    async def _response(self, request: JSONObject) -> JSONObject:
        """Return the response to a request."""
        identifier, method = request["id"], request["method"]
        params = request.get("params", {})
        handler = _REQUESTS.get(method)
        if handler is None:
            text = f"the host has no method {method[:80]}"
            return _error_response(identifier, ErrorCode.METHOD_NOT_FOUND, text)
        if not isinstance(params, dict):
            return _error_response(identifier, ErrorCode.INVALID_PARAMS, "params must be an object")
        if not self._is_started and method not in ("ui/initialize", "ping"):
            text = "ui/initialize must be the first request"
            return _error_response(identifier, ErrorCode.INVALID_REQUEST, text)
        try:
            outcome = await handler(self, params)
        except _Refused as refused:
            return _error_response(identifier, refused.code, str(refused))
        except ValueError as error:
            return _error_response(identifier, REFUSED_CODE, str(error))
        return {"jsonrpc": "2.0", "id": identifier, **outcome}

    async def _handle_notification(self, message: JSONObject) -> None:
        """Handle a notification of the app. The interceptor may change or drop it."""
        interceptor = self._interceptor()
        notification: JSONObject | None = message
        if interceptor.is_active and not message["method"].startswith(RESERVED_PREFIX):
            notification = await interceptor.one_way(self.connection, message)
        if notification is None:
            return
        method = notification["method"]
        params = notification.get("params", {})
        params = params if isinstance(params, dict) else {}
        match method:
            case "ui/notifications/sandbox-proxy-ready":
                self._restart()
                await self._send_page()
            case "ui/notifications/initialized" if self._is_started:
                self._is_ready = True
                await self._send_call()
            case "ui/notifications/size-changed" if self.link is not None:
                await self.link.resize(_side(params.get("width")), _side(params.get("height")))
            case "notifications/message":
                level, data = params.get("level"), params.get("data")
                text = data if isinstance(data, str) else codec.encode(data).decode()
                self._report(str(level) if level in LOG_LEVELS else "info", _cut(text))
            case "notifications/cancelled":
                identifier = params.get("requestId")
                if is_id(identifier) and identifier in self._running_requests:
                    self._running_requests[identifier].cancel()

    # requests

    async def _initialize(self, params: JSONObject) -> JSONObject:
        """Answer `ui/initialize`. Raises: _Refused if the page cannot be shown."""
        await self.loaded.wait()
        if self.page is None:
            raise _Refused(REFUSED_CODE, self.failure)
        self._restart()
        self._is_started = True
        capabilities = params.get("appCapabilities")
        self._capabilities = capabilities if isinstance(capabilities, dict) else {}
        policy = self.page.policy
        return {
            "result": {
                "protocolVersion": REVISION,
                "hostInfo": {"name": "mcpdesk", "version": __version__},
                "hostCapabilities": {
                    "openLinks": {},
                    "serverTools": {},
                    "serverResources": {},
                    "logging": {},
                    "sandbox": {"permissions": policy.granted, "csp": policy.csp},
                },
                "hostContext": self._context(self._facts) | self._tool_info(),
            }
        }

    async def _ping(self, params: JSONObject) -> JSONObject:
        return {"result": {}}

    async def _call_tool(self, params: JSONObject) -> JSONObject:
        """Call a tool of the app's own server, if the tool is visible to apps."""
        name, arguments = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise _Refused(ErrorCode.INVALID_PARAMS, "name must be a string, and arguments an object")
        definition = self._access.definition(name)
        if definition is None:
            raise _Refused(ErrorCode.INVALID_PARAMS, f"{self.server} has no tool {name[:80]}")
        if not is_for_apps(definition):
            raise _Refused(REFUSED_CODE, f"apps must not call {name[:80]}: its visibility lacks app")
        annotations = definition.get("annotations")
        is_read_only = isinstance(annotations, dict) and annotations.get("readOnlyHint") is True
        if self._access.needs_consent and not is_read_only and name not in self._allowed_tools:
            await self._ask(
                f"The app wants to call the tool {name} of {self.server}.",
                "Allow for this app",
                codec.encode(arguments).decode(),
            )
            self._allowed_tools.add(name)
        return await self._access.request("tools/call", {"name": name, "arguments": arguments})

    async def _read_resource(self, params: JSONObject) -> JSONObject:
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise _Refused(ErrorCode.INVALID_PARAMS, "uri must be a string")
        return await self._access.request("resources/read", {"uri": uri})

    async def _open_link(self, params: JSONObject) -> JSONObject:
        url = params.get("url")
        if not isinstance(url, str) or not _is_web_link(url):
            raise _Refused(REFUSED_CODE, "Invalid URL: only http and https links are opened")
        await self._ask("The app wants to open this link in a new tab.", "Open the link", url, link=url)
        return {"result": {}}

    async def _message(self, params: JSONObject) -> JSONObject:
        """Show a message to the person, because this program has no conversation with a model."""
        content = params.get("content")
        blocks = content if isinstance(content, list) else [content]
        if params.get("role") != "user" or not all(isinstance(each, dict) for each in blocks):
            raise _Refused(REFUSED_CODE, "Invalid message format")
        texts = (str(each.get("text", f"({each.get('type')})")) for each in blocks if isinstance(each, dict))
        await self._show_note("Message to the conversation", "\n".join(texts))
        return {"result": {}}

    async def _update_context(self, params: JSONObject) -> JSONObject:
        content, structured = params.get("content"), params.get("structuredContent")
        if not isinstance(content, list | None) or not isinstance(structured, dict | None):
            raise _Refused(REFUSED_CODE, "Invalid content format")
        context = {key: params[key] for key in ("content", "structuredContent") if key in params}
        await self._show_note("Context for the model", codec.encode(context).decode())
        return {"result": {}}

    async def _change_mode(self, params: JSONObject) -> JSONObject:
        if self._set_mode(str(params.get("mode"))):
            self._start_task(self._notify("ui/notifications/host-context-changed", self._display()))
        return {"result": {"mode": self._mode}}

    # messages of the host

    async def _send_page(self) -> None:
        """Send the page of the app to the sandbox."""
        if self.page is not None:
            policy = self.page.policy
            params = {"html": self.page.html, "csp": policy.csp, "permissions": policy.granted}
            await self._deliver(codec.notification("ui/notifications/sandbox-resource-ready", params))

    async def _send_call(self) -> None:
        """Send the arguments and the outcome of the tool call, each once."""
        run = self.run
        if not self._is_ready or run.arguments is None:
            return
        if not self._has_sent_input:
            self._has_sent_input = True
            await self._notify("ui/notifications/tool-input", {"arguments": run.arguments})
        if self._has_sent_outcome or (run.result is None and not run.cancelled):
            return
        self._has_sent_outcome = True
        if run.result is not None:
            await self._notify("ui/notifications/tool-result", run.result)
        else:
            await self._notify("ui/notifications/tool-cancelled", {"reason": run.cancelled})

    async def _notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification to the app, unless it is not ready or the interceptor drops it."""
        data: bytes | None = codec.notification(method, dict(params))
        interceptor = self._interceptor()
        if interceptor.is_active and data is not None:
            data = await interceptor.sent(self.connection, data, _ignore)
        if data is not None and self._is_ready:
            await self._deliver(data)

    async def _deliver(self, data: bytes) -> None:
        """Record a message and send it to the page."""
        if self.link is not None:
            self._recorder.frame(self.connection, Direction.OUT, data, is_json=True)
            await self.link.deliver(data)

    # state

    def _restart(self) -> None:
        """Forget the state of the app in the page, because the app starts again."""
        self._is_started = self._is_ready = self._has_sent_input = self._has_sent_outcome = False
        self._capabilities = {}
        self._mode = DISPLAY_MODES[0]

    def _set_mode(self, mode: str) -> bool:
        """Change the display mode. Return False if it is unchanged or unsupported, or if no page is open."""
        supported = self._capabilities.get("availableDisplayModes")
        if mode == self._mode or mode not in DISPLAY_MODES or self.link is None:
            return False
        if isinstance(supported, list) and mode not in supported:
            return False
        self._mode = mode
        self._start_task(self.link.show_mode(mode))
        return True

    def _display(self) -> JSONObject:
        return {"displayMode": self._mode, "containerDimensions": self._facts.container(self._mode)}

    def _context(self, facts: PageFacts) -> JSONObject:
        """Return the host context of the app for the facts about its page."""
        return {
            "theme": facts.theme,
            "displayMode": self._mode,
            "availableDisplayModes": list(DISPLAY_MODES),
            "containerDimensions": facts.container(self._mode),
            "locale": facts.locale,
            "timeZone": facts.time_zone,
            "userAgent": f"mcpdesk/{__version__}",
            "platform": "web",
            "deviceCapabilities": {"touch": facts.touch, "hover": facts.hover},
        }

    def _tool_info(self) -> JSONObject:
        definition = self._access.definition(self.run.tool) if self.run.tool else None
        return {} if definition is None else {"toolInfo": {"tool": dict(definition)}}

    async def _ask(self, text: str, agree: str, detail: str, link: str = "") -> None:
        """Ask the person on the page. Raises: ValueError if the person declines or the page is closed."""
        if self.link is None or not await self.link.ask(text, agree, _cut(detail), link):
            raise ValueError("The person declined")

    async def _show_note(self, title: str, text: str) -> None:
        if self.link is not None:
            await self.link.note(title, _cut(text))

    def _report(self, level: str, text: str) -> None:
        self._journal.log(level, "app", text, "", self.server)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._run_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run_logged(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ConnectionError:
            pass  # the page was closed
        except Exception:
            _log.exception("a message of an app was not handled")


class _Refused(Exception):
    """Refusal of a request, with the code of its error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


_REQUESTS: Final[Mapping[str, Callable[[AppSession, JSONObject], Coroutine[Any, Any, JSONObject]]]] = {
    "ui/initialize": AppSession._initialize,
    "ping": AppSession._ping,
    "tools/call": AppSession._call_tool,
    "resources/read": AppSession._read_resource,
    "ui/open-link": AppSession._open_link,
    "ui/message": AppSession._message,
    "ui/update-model-context": AppSession._update_context,
    "ui/request-display-mode": AppSession._change_mode,
}


async def _ignore(answer: JSONObject) -> None:
    """Ignore the answer to a notification."""


def _error_response(identifier: Any, code: int, text: str) -> JSONObject:
    return {"jsonrpc": "2.0", "id": identifier, "error": {"code": int(code), "message": text}}


def _error_bytes(identifier: Any, code: int, text: str) -> bytes:
    return codec.encode(_error_response(identifier, code, text))


def _cut(text: str) -> str:
    """Return at most `MAX_TEXT_LENGTH` characters of a text, with the number of missing characters."""
    missing = len(text) - MAX_TEXT_LENGTH
    return text if missing <= 0 else f"{text[:MAX_TEXT_LENGTH]}… ({missing:,} more characters are not shown)"


def _is_web_link(url: str) -> bool:
    if len(url) > MAX_LINK_LENGTH or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


def _side(value: Any) -> int | None:
    """Return a width or height in pixels, or None if the app gave none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and value == value
    return max(0, min(int(value), MAX_SIDE_PIXELS)) if is_number and abs(value) < 1e9 else None
