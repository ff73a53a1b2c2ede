"""A link with sample data and no core behind it, for developing and testing widgets.

Everything shown is a plain attribute: a test sets `link.core = replace(link.core, ...)` and looks again.
Calls of `slow-report` stay open until `link.calls[-1].finish(...)`; all others end at once.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import orjson
from msgspec import structs

from mcpdesk.inbox.question import Answer, Option, Page, Question, QuestionState
from mcpdesk.link.link import Link, finished
from mcpdesk.link.values import (
    CallbackView,
    CallOutcome,
    Catalogue,
    CatalogueItem,
    ClientDetail,
    ClientView,
    CoreView,
    GrantView,
    ItemKind,
    JobOutput,
    JobUse,
    JobView,
    LogLine,
    Notice,
    ParkedOperation,
    Policy,
    Progress,
    Protection,
    RunningCall,
    SchemaFailure,
    ServerView,
    SessionView,
    SettingView,
    Severity,
    TodoView,
    ToolsSeen,
)
from mcpdesk.protocol.jsonrpc import Id
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.record import ConnectionInfo, Direction

PROFILE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "userId": {"type": "string", "description": "Id as in the directory.", "minLength": 1},
        "verbose": {"type": "boolean", "default": False, "description": "Include the audit trail."},
        "tags": {"type": "array", "items": {"type": "string"}, "description": "Only these tags."},
    },
    "required": ["userId"],
    "additionalProperties": False,
}

ORDER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "customer": {"type": "string", "title": "Customer", "description": "Full name.", "maxLength": 60},
        "email": {"type": "string", "format": "email"},
        "quantity": {"type": "integer", "minimum": 1, "maximum": 99, "default": 1},
        "discount": {"type": "number", "minimum": 0, "exclusiveMaximum": 1, "description": "Share, 0 to 1."},
        "size": {"type": "string", "enum": ["small", "medium", "large"], "default": "medium"},
        "toppings": {
            "type": "array",
            "items": {"type": "string", "enum": ["basil", "olives", "capers", "chili"]},
            "uniqueItems": True,
        },
        "deliver_on": {"type": "string", "format": "date"},
        "ready_at": {"type": "string", "format": "date-time"},
        "gift": {"type": "boolean", "default": False},
        "note": {
            "type": ["string", "null"],
            "description": "Anything the kitchen should know.\nSeveral lines.",
        },
        "address": {
            "type": "object",
            "properties": {
                "street": {"type": "string"},
                "zip": {"type": "string", "pattern": "^[0-9]{5}$"},
                "country": {"const": "DE"},
            },
            "required": ["street", "zip"],
        },
        "lines": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {"article": {"type": "string"}, "count": {"type": "integer", "default": 1}},
                "required": ["article"],
            },
        },
        "payment": {
            "oneOf": [
                {
                    "title": "Card",
                    "type": "object",
                    "properties": {"kind": {"const": "card"}, "number": {"type": "string"}},
                    "required": ["kind", "number"],
                },
                {
                    "title": "Invoice",
                    "type": "object",
                    "properties": {"kind": {"const": "invoice"}, "days": {"type": "integer", "default": 14}},
                    "required": ["kind"],
                },
            ]
        },
        "extra": {"description": "Any JSON value."},
    },
    "required": ["customer", "quantity", "lines"],
}

REPORT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"days": {"type": "integer", "minimum": 1, "default": 30}},
}


def sample_catalogue() -> tuple[CatalogueItem, ...]:
    """Three tools and a broken one, four resources, two templates, two prompts."""
    tool, resource, template, prompt = ItemKind.TOOL, ItemKind.RESOURCE, ItemKind.TEMPLATE, ItemKind.PROMPT
    return (
        CatalogueItem(
            tool,
            "user-profile",
            "User profile",
            "Look a user up by id.",
            "tools/user_profile.py:9",
            changed=True,
            definition={
                "name": "user-profile",
                "description": "Look a user up by id.",
                "inputSchema": PROFILE_SCHEMA,
                "outputSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
                "annotations": {"readOnlyHint": True},
            },
        ),
        CatalogueItem(
            tool,
            "place-order",
            "Place an order",
            "Write an order into the book. Every kind of field a form can have.",
            "tools/orders.py:31",
            definition={
                "name": "place-order",
                "inputSchema": ORDER_SCHEMA,
                "annotations": {"destructiveHint": True, "openWorldHint": True},
            },
        ),
        CatalogueItem(
            tool,
            "slow-report",
            "slow-report",
            "Sum up the last days, slowly, with progress.",
            "tools/report.py:5",
            definition={"name": "slow-report", "inputSchema": REPORT_SCHEMA},
        ),
        CatalogueItem(
            tool,
            "send-mail",
            "send-mail",
            "Send a message.",
            "tools/send_mail.py:3",
            problem="needs MAIL_TOKEN",
        ),
        CatalogueItem(
            resource,
            "resource://getting-started",
            "Getting started",
            "How to use the profiles.",
            "resources/getting_started.md",
            definition={"uri": "resource://getting-started", "mimeType": "text/markdown", "size": 812},
        ),
        CatalogueItem(
            resource,
            "file:///config.json",
            "config.json",
            "",
            "resources/config.json",
            definition={"uri": "file:///config.json", "mimeType": "application/json"},
        ),
        CatalogueItem(
            resource,
            "file:///logo.png",
            "logo.png",
            "",
            "resources/logo.png",
            definition={"uri": "file:///logo.png", "mimeType": "image/png"},
        ),
        CatalogueItem(
            resource,
            "resource://clock",
            "clock",
            "The time, whenever it is read.",
            "resources/clock.py:4",
            problem="resources/clock.py:7: SyntaxError: expected ':'",
            stale=True,
            definition={"uri": "resource://clock", "mimeType": "text/plain"},
        ),
        CatalogueItem(
            template,
            "users://{id}/avatar{?size}",
            "Avatar",
            "A user's picture.",
            "resources/avatar.py:6",
            definition={"uriTemplate": "users://{id}/avatar{?size}", "mimeType": "image/png"},
        ),
        CatalogueItem(
            template,
            "notes://{+path}",
            "Note",
            "",
            "resources/notes.py:3",
            definition={"uriTemplate": "notes://{+path}", "mimeType": "text/markdown"},
        ),
        CatalogueItem(
            prompt,
            "summarize",
            "Summarize",
            "Summarize a text for a reader in a hurry.",
            "prompts/summarize.md",
            definition={
                "name": "summarize",
                "arguments": [
                    {"name": "text", "description": "What to summarize.", "required": True},
                    {"name": "style", "description": "bullets or prose"},
                ],
            },
        ),
        CatalogueItem(prompt, "greet", "greet", "", "prompts/greet.md", definition={"name": "greet"}),
    )


def sample_view(now: float) -> CoreView:
    """Two servers, two connected clients and the desk, protected by a key."""
    url = "http://127.0.0.1:3333/mcp/"
    return CoreView(
        servers=(
            ServerView("profiles", "Profiles", "1.2.0", "~/servers/profiles", url + "profiles", 1),
            ServerView("hello", "Hello", "0.1.0", "~/servers/hello", url + "hello", 1),
        ),
        clients=(
            ClientView(0, "profiles", "desk", "memory", "2026-07-28", now - 700, 12, 1),
            ClientView(
                1,
                "profiles",
                "claude-code 2.1",
                "http",
                "2025-11-25",
                now - 312,
                40,
                0,
                0.0031,
                0.012,
                ToolsSeen.FRESH,
            ),
            ClientView(
                2,
                "hello",
                "cursor 1.4",
                "stdio",
                "2025-06-18",
                now - 45,
                3,
                2,
                0.9,
                1.2,
                ToolsSeen.STALE,
            ),
        ),
        protection=Protection.KEY,
        api_key="sk-desk-0123456789abcdef",
        capture_path="~/.local/state/mcpdesk/captures/today.mcpd",
        questions_version=1,
    )


def sample_details() -> dict[int, ClientDetail]:
    """Details of the desk (empty), of a session (with everything), and of a pipe."""
    forms = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": True}}
    session = SessionView(3287.0, 1, True, 12, 3072)
    return {
        0: ClientDetail(forms, None, 3600.0, (("file:///config.json",),), (), False, (), ()),
        1: ClientDetail(
            forms, session, 3600.0, (), ("file:///config.json", "resource://getting-started"), True,
            (RunningCall("tools/call", "place-order", 4.2, 1),),
            (ParkedOperation("prompts/get", "letter", ("elicitation/create",)),),
        ),
        2: ClientDetail({}, None, 3600.0, (("toolsListChanged",),), (), True, (), ()),
    }  # fmt: skip


def sample_questions(now: float) -> tuple[Question, ...]:
    """One waiting set of two pages, one answered."""
    pages = (
        Page(
            "Which database should the service use?",
            "Storage",
            (
                Option("PostgreSQL", "relational, what production runs"),
                Option("SQLite", "one file, no server"),
            ),
        ),
        Page(
            "Which checks should run before a merge?",
            "Checks",
            (Option("lint"), Option("types", "mypy --strict"), Option("tests", "the whole suite")),
            multi_select=True,
        ),
    )
    waiting = Question(
        7, "profiles", "claude-code 2.1", "AskUserQuestion", pages, asked=now - 12, deadline=now + 588
    )
    done = structs.replace(
        waiting,
        id=6,
        asked=now - 300,
        state=QuestionState.ANSWERED,
        answers=(Answer(("SQLite",)), Answer(("lint", "tests"), "spelling")),
        answered_by="desk",
    )
    return (waiting, done)


def sample_logs(now: float) -> list[LogLine]:
    """One line per source and a few levels."""
    rows = (
        ("info", "server", "profiles: 3 tools, 4 resources, 2 prompts", "", "profiles"),
        (
            "warning",
            "server",
            "tools/send_mail.py left out: needs MAIL_TOKEN",
            "tools/send_mail.py:3",
            "profiles",
        ),
        ("info", "print", "looking up 123", "tools/user_profile.py:14", "profiles"),
        ("debug", "orders", "book opened, 17 rows", "tools/orders.py:40", "profiles"),
        ("warning", "stderr", "npm WARN deprecated [red]left-pad[/red] \x1b[31mred\x1b[0m", "", "profiles"),
        (
            "error",
            "orders",
            "Traceback (most recent call last):\n  ...\nKeyError: 'sku'",
            "tools/orders.py:52",
            "profiles",
        ),
    )
    return [
        LogLine(number, now - 60 + number * 7.5, level, source, text, where, server)
        for number, (level, source, text, where, server) in enumerate(rows)
    ]


@dataclass
class FakeCall:
    """A call that ends when a test ends it, or at once. Implements `link.Call`."""

    method: str
    params: dict[str, Any]
    request_id: int
    connection: int = 0
    started: float = field(default_factory=time.time)
    progress: Progress | None = None
    logs: list[str] = field(default_factory=list)
    outcome: Future[CallOutcome] = field(default_factory=Future)

    def cancel(self) -> None:
        """End it as cancelled, unless it has ended."""
        if not self.outcome.done():
            error = {"code": -32800, "message": "cancelled by the desk"}
            self.outcome.set_result(CallOutcome(None, error, b"", time.time() - self.started, cancelled=True))

    def finish(self, result: dict[str, Any] | None = None, error: dict[str, Any] | None = None) -> None:
        """End it with a result or a JSON-RPC error."""
        body = {"error": error} if error else {"result": result}
        raw = orjson.dumps({"jsonrpc": "2.0", "id": self.request_id, **body})
        self.outcome.set_result(CallOutcome(result, error, raw, max(0.0031, time.time() - self.started)))


def text_result(text: str, structured: Any = None, is_error: bool = False) -> dict[str, Any]:
    """A CallToolResult with one text block."""
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    if structured is not None:
        result["structuredContent"] = structured
    return {**result, "isError": True} if is_error else result


PEERS = ((0, "memory", "desk", "2026-07-28"), (1, "http", "claude-code 2.1", "2025-11-25"))
"""Number, transport, name and revision of the connections of the sample traffic."""

SAMPLE_TRAFFIC: tuple[tuple[int, Direction, dict[str, Any]], ...] = (
    (1, Direction.IN, {"id": 1, "method": "tools/list"}),
    (1, Direction.OUT, {"id": 1, "result": {"tools": []}}),
    (1, Direction.IN, {"id": 2, "method": "tools/call", "params": {"name": "user-profile"}}),
    (1, Direction.OUT, {"id": 2, "error": {"code": -32602, "message": "userId is required"}}),
    (1, Direction.OUT, {"method": "notifications/tools/list_changed"}),
    (1, Direction.IN, {"id": 3, "method": "tools/call", "params": {"name": "slow-report"}}),
)


def sample_settings() -> tuple[SettingView, ...]:
    limit = "Time limit of a tool call, in milliseconds. Waiting for a person does not count."
    ways = ("the option --tool-timeout-ms", "the variable MCPDESK_TOOL_TIMEOUT_MS")
    key = "API key that clients must send over HTTP."
    return (
        SettingView("port", "3333", "default", "TCP port to listen on.", "a whole number from 0 to 65535"),
        SettingView("tool_timeout_ms", "30000", "flag --tool-timeout-ms", limit, "a whole number", ways),
        SettingView("api_key", "••••", "environment MCPDESK_API_KEY", key, "visible ASCII characters"),
    )


def sample_recording(now: float) -> Recording:
    """A recording in memory of a few calls, the last of them still open."""
    recording = Recording(None)
    for number, transport, peer, revision in PEERS:
        recording.connect(ConnectionInfo(number, "profiles", transport, peer, revision, now - 300))
    for connection, direction, message in SAMPLE_TRAFFIC:
        recording.frame(connection, direction, orjson.dumps({"jsonrpc": "2.0", **message}))
    return recording


class FakeLink(Link):
    """Implements `link.Link` from attributes a test may replace."""

    def __init__(self, now: float | None = None) -> None:
        moment = time.time() if now is None else now
        self.core = sample_view(moment)
        self.spoken = list[tuple[str, str]]()
        self.catalogues = {
            "profiles": Catalogue("profiles", 1, sample_catalogue()),
            "hello": Catalogue("hello", 1, ()),
        }
        self.asked = list(sample_questions(moment))
        self.log_lines = sample_logs(moment)
        self.notice_list: list[Notice] = []
        self.calls: list[FakeCall] = []
        self.answers: list[tuple[int, tuple[Answer, ...]]] = []
        self.declined: list[tuple[int, str]] = []
        self.cancelled: list[int] = []
        self.cancelled_calls: list[tuple[int, Id]] = []
        self.watching: dict[str, int] = {}
        self.job_list: list[JobView] = []
        self.killed_jobs: list[str] = []
        self.uses: dict[str, JobUse] = {}
        self.outputs: dict[str, bytes] = {}
        self.callback_list: list[CallbackView] = []
        self.fired: list[tuple[str, int]] = []
        self.cancelled_callbacks: list[tuple[str, int]] = []
        self.todo_list: list[TodoView] = []
        self.plan_texts: dict[str, str] = {}
        self.ended_plans: list[tuple[str, str]] = []
        self.granted: tuple[GrantView, ...] = ()
        self.details = sample_details()
        self.disconnected: list[int] = []
        self.reloads: list[str] = []
        self.losses: tuple[str, ...] = ()
        self.setting_list = list(sample_settings())
        self.settings_answer: Future[tuple[SettingView, ...]] | None = None
        self.recording = sample_recording(moment)
        self.traffic = self.recording.index

    def view(self) -> CoreView:
        return self.core

    def catalogue(self, server: str) -> Catalogue:
        return self.catalogues.get(server) or super().catalogue(server)

    def questions(self) -> tuple[Question, ...]:
        return tuple(self.asked)

    def jobs(self) -> tuple[JobView, ...]:
        return tuple(self.job_list)

    def usage(self) -> Mapping[str, JobUse]:
        return dict(self.uses)

    def output(self, job: str, after: int) -> JobOutput | None:
        written = self.outputs.get(job)
        if written is None:
            return None
        start = after if 0 <= after <= len(written) else 0
        is_over = any(each.id == job and each.state.is_final for each in self.job_list)
        return JobOutput(written[start:].decode(errors="replace"), start, len(written), is_over)

    def kill_job(self, job: str) -> None:
        self.killed_jobs.append(job)

    def callbacks(self) -> tuple[CallbackView, ...]:
        return tuple(self.callback_list)

    def fire_callback(self, server: str, number: int) -> None:
        self.fired.append((server, number))

    def cancel_callback(self, server: str, number: int) -> None:
        self.cancelled_callbacks.append((server, number))

    def todo(self) -> tuple[TodoView, ...]:
        return tuple(self.todo_list)

    def plan_text(self, server: str, session: str) -> str | None:
        return self.plan_texts.get(server)

    def end_plan(self, server: str, session: str) -> None:
        self.ended_plans.append((server, session))

    def logs(self, after: int = -1) -> list[LogLine]:
        return [line for line in self.log_lines if line.number > after]

    def notices(self, after: int = -1) -> list[Notice]:
        return [notice for notice in self.notice_list if notice.number > after]

    def validate(self, server: str, tool: str, arguments: Any) -> list[SchemaFailure]:
        import jsonschema_rs

        schema = next(
            (item.definition.get("inputSchema", True) for item in self._items(server) if item.name == tool),
            True,
        )
        errors = jsonschema_rs.validator_for(schema, validate_formats=True).iter_errors(arguments)
        return [SchemaFailure(tuple(error.instance_path), error.message) for error in errors]

    def request(self, server: str, method: str, params: dict[str, Any]) -> FakeCall:
        call = FakeCall(method, params, request_id=len(self.calls) + 1)
        self.calls.append(call)
        self._record(Direction.IN, {"id": call.request_id, "method": method, "params": params})
        call.outcome.add_done_callback(lambda done: self._record(Direction.OUT, done.result().raw))
        name = params.get("name", "")
        if name == "slow-report":
            call.progress = Progress(3, 10, "reading day 3")
            call.logs.append("opened the book")
        else:
            result, error = _answer(method, params)
            call.finish(result, error)
        return call

    def give_token(self, server: str, text: str, needs: Collection[str] = ()) -> Future[tuple[str, ...]]:
        raise AssertionError("sample servers accept no tokens")

    def drop_token(self, server: str) -> None:
        raise AssertionError("sample servers accept no tokens")

    def answer(self, question: int, answers: Sequence[Answer], by: str = "desk") -> Future[bool]:
        self.answers.append((question, tuple(answers)))
        return self._settle(question, state=QuestionState.ANSWERED, answers=tuple(answers), answered_by=by)

    def decline(self, question: int, reason: str = "", by: str = "desk") -> Future[bool]:
        self.declined.append((question, reason))
        return self._settle(question, state=QuestionState.DECLINED, reason=reason, answered_by=by)

    def client(self, connection: int) -> ClientDetail | None:
        return self.details.get(connection)

    def cancel_call(self, connection: int, id: Id, started: float) -> Future[bool]:
        is_running = any(one.id == id and one.started == started for one in self.details[connection].running)
        if is_running:
            self.cancelled_calls.append((connection, id))
        return finished(is_running)

    def disconnect(self, connection: int) -> None:
        self.disconnected.append(connection)

    def choose_policy(self, server: str, tool: str, policy: Policy) -> None:
        catalogue = self.catalogues[server]
        items = [
            structs.replace(item, policy=policy) if item.name == tool else item for item in catalogue.items
        ]
        self.catalogues[server] = structs.replace(
            catalogue, version=catalogue.version + 1, items=tuple(items)
        )
        servers = [
            structs.replace(one, catalogue_version=one.catalogue_version + (one.name == server))
            for one in self.core.servers
        ]
        self.core = structs.replace(self.core, servers=tuple(servers))

    def grants(self) -> tuple[GrantView, ...]:
        return self.granted

    def revoke(self, grant: GrantView) -> None:
        self.granted = tuple(one for one in self.granted if one != grant)

    def cancel_question(self, question: int, by: str = "desk") -> Future[bool]:
        self.cancelled.append(question)
        return self._settle(question, state=QuestionState.CANCELLED, answered_by=by)

    def watch(self, server: str, uri: str) -> None:
        self.watching[uri] = 0

    def unwatch(self, server: str, uri: str) -> None:
        del self.watching[uri]

    def watched(self, server: str) -> Mapping[str, int]:
        return dict(self.watching)

    def reload(self, server: str) -> None:
        self.reloads.append(server)

    def reconnect_with_revision(self, server: str, revision: str) -> None:
        self.spoken.append((server, revision))

    def client_config(
        self, server: str, client: str, key: str | None = None, mode: str = "", over: str = ""
    ) -> Future[str]:
        url = next((view.url for view in self.core.servers if view.name == server), "")
        asked = " ".join((client, over, mode)).strip()
        return finished(f'{{"mcpServers": {{"{server}": {{"url": "{url}"}}}}}}  // {asked}')

    def settings(self) -> Future[tuple[SettingView, ...]]:
        return self.settings_answer or finished(tuple(self.setting_list))

    def busy(self) -> tuple[str, ...]:
        return self.losses

    def tell(self, text: str, severity: Severity = Severity.INFO, screen: str = "logs") -> None:
        """Add a notice."""
        self.notice_list.append(Notice(len(self.notice_list), text, severity, screen))

    def works(self, **changes: Any) -> None:
        """Change the background work of servers: another `WorkView` with higher versions."""
        work = self.core.work
        versions = {name: getattr(work, name) + 1 for name in ("jobs_version", "callbacks_version")}
        grown = structs.replace(work, **versions, todo_version=work.todo_version + 1)
        self.core = structs.replace(self.core, work=structs.replace(grown, **changes))

    def ask(self, *pages: Page) -> Question:
        """Add a waiting question and return it."""
        now = time.time()
        number = max((question.id for question in self.asked), default=0) + 1
        question = Question(number, "profiles", "claude-code 2.1", "AskUserQuestion", pages, now, now + 600)
        self.asked.append(question)
        self.core = structs.replace(self.core, questions_version=self.core.questions_version + 1)
        return question

    def _record(self, direction: Direction, message: dict[str, Any] | bytes) -> None:
        if message:
            data = message if isinstance(message, bytes) else orjson.dumps({"jsonrpc": "2.0", **message})
            self.recording.frame(0, direction, data)

    def _items(self, server: str) -> tuple[CatalogueItem, ...]:
        return self.catalogues[server].items

    def _settle(self, number: int, **changes: Any) -> Future[bool]:
        self.asked = [structs.replace(one, **changes) if one.id == number else one for one in self.asked]
        self.core = structs.replace(self.core, questions_version=self.core.questions_version + 1)
        done = Future[bool]()
        done.set_result(True)
        return done


def _answer(method: str, params: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """A result or an error for one request, as a real server would give."""
    if method == "tools/call":
        return _call_result(params)
    if method == "resources/read":
        return _contents(params["uri"])
    if method == "prompts/get":
        text = f"Summarize: {params.get('arguments', {}).get('text', '')}"
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}, None
    if method == "completion/complete":
        return {"completion": {"values": ["bullets", "prose"], "hasMore": False}}, None
    return {}, None


def _call_result(params: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    arguments = params.get("arguments") or {}
    if params["name"] == "user-profile":
        profile = {"name": "Ada", "id": arguments.get("userId"), "roles": ["admin", "author"], "active": True}
        return text_result(orjson.dumps(profile).decode(), profile), None
    if params["name"] == "place-order":
        return text_result("the oven is cold", is_error=True), None
    return None, {"code": -32602, "message": f"Unknown tool: {params['name']}"}


def _contents(uri: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    if uri == "resource://getting-started":
        text = '# Getting started\n\nAsk for a *profile* by id:\n\n```json\n{"userId": "123"}\n```\n'
        return {"contents": [{"uri": uri, "mimeType": "text/markdown", "text": text}]}, None
    if uri == "file:///logo.png":
        pixel = (
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
        )
        return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": pixel}]}, None
    if uri == "file:///config.json":
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": '{"debug": false}'}]}, None
    return None, {"code": -32002, "message": "Resource not found", "data": {"uri": uri}}
