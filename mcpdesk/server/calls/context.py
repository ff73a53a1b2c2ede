"""Context of a handler: progress, logging, questions to a person, and the caller."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from msgspec import Struct

from mcpdesk.errors import ClientError, HandlerError, ServerFailure
from mcpdesk.protocol import client_questions, codec
from mcpdesk.protocol.handshake import log_level
from mcpdesk.server.offer.server import RequestView, Server
from mcpdesk.server.state.server_state import ServerState, ToolOptions

if TYPE_CHECKING:
    from mcpdesk.auth.access import Access
    from mcpdesk.inbox.question import Page, Question
    from mcpdesk.jobs.feed import CallFeed
    from mcpdesk.protocol.trace import Trace
    from mcpdesk.server.asks import question_wording
    from mcpdesk.server.asks.person_questions import ClientTask
    from mcpdesk.server.asks.question_wording import ClientQuestion, Elicited, Root, Sampled
    from mcpdesk.server.calls.running_call import Call
    from mcpdesk.server.calls.services import Services

T = TypeVar("T")


class CallContext:
    """Properties of a call that `Context` and `SyncContext` share.

    `context` is the result of `create_context` in `context.py`. `state` is the value that `lifespan` in
    `context.py` yielded. `tool` is the name of the tool, resource or prompt.
    """

    __slots__ = ("_call", "_request", "_services", "context", "server", "state", "tool")

    def __init__(self, server: Server, services: Services, call: Call, tool: str) -> None:
        self.server = server
        self.tool = tool
        self.context: Any = None
        self.state: Any = None
        self._services = services
        self._call = call
        self._request: RequestView | None = None

    @property
    def request(self) -> RequestView:
        """Request as it arrived: headers or environment, peer, and claims of the token."""
        if self._request is None:
            self._request = _request_view(self._call, self._services, self.server.access)
        return self._request

    @property
    def peer(self) -> str:
        """Display name of the caller."""
        return self._call.peer

    @property
    def caller(self) -> str:
        """Identity of the caller. It is the same for all calls of a principal or of a session."""
        return self._call.owner or self._call.peer

    @property
    def session(self) -> str:
        """Session of the call, or "" if the client has none."""
        return self._call.session

    @property
    def claims(self) -> Mapping[str, Any] | None:
        """Verified token claims, or None."""
        return self._call.principal.claims

    @property
    def trace(self) -> Trace:
        """Trace context of the caller. Its members are empty if the caller sent no trace context, or an
        invalid one.
        """
        return self._call.trace

    @property
    def client_environment(self) -> Mapping[str, str] | None:
        """Environment of the client's process, or None if the client has the environment of this process."""
        return self._call.environment

    @property
    def environment(self) -> dict[str, str]:
        """Environment that programs started for this call may receive."""
        return _environment(self._call, self._services)

    @property
    def folder(self) -> Path | None:
        """The server folder."""
        return self.server.folder

    @property
    def hosted(self) -> ServerState:
        """State of the server that is kept after a call. Raises: HandlerError for a server without a
        folder.
        """
        if self.server.hosted is None:
            raise HandlerError("this server has no folder, so it cannot store state")
        return self.server.hosted

    @property
    def options(self) -> ToolOptions:
        """Settings for tools."""
        return self.server.hosted.options if self.server.hosted is not None else ToolOptions()

    @property
    def is_desk(self) -> bool:
        """True if the desk itself is the caller."""
        return self._call.is_desk

    @property
    def cancelled(self) -> bool:
        """True if the caller cancelled or disconnected, or the time limit was exceeded."""
        return bool(self._call.stop)

    @property
    def wants_progress(self) -> bool:
        """True if the caller asked for progress."""
        call = self._call
        return call.feed is not None or (call.progress_token is not None and self.server.streaming)

    @property
    def feed(self) -> CallFeed | None:
        """Receiver of output and files while the tool runs, or None if no caller reads them before the
        result.
        """
        return self._call.feed

    @property
    def limit_s(self) -> float:
        """Time limit of the handler in seconds."""
        return self._call.limit_s

    @property
    def audience(self) -> int:
        """Number of front ends at which a person could answer a question now."""
        return self._services.inbox.people

    def offers(self, needed: Mapping[str, Any]) -> bool:
        """Return True if the client supports a request: `ctx.offers({"elicitation": {"url": {}}})`."""
        return client_questions.declares(self._call.terms, dict(needed))


class Context(CallContext):
    """Context of a handler that is an `async def`. Plain functions get a `SyncContext`."""

    __slots__ = ()

    def own_limit(self) -> AbstractContextManager[None]:
        """Return a context manager whose block does not count against the time limit. For handlers that apply
        the limit themselves.
        """
        return self._services.deadlines.paused(self._call)

    async def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Report progress.

        Does nothing if the caller did not ask for progress, or if the value is not larger than the last one.
        """
        call, outlet = self._call, self._call.outlet
        if message and call.round is not None:
            call.round.report(message)
        if call.feed is not None and not call.stop:
            call.feed.progress(progress, total, message)
        if call.progress_token is None or not self.server.streaming:
            if call.feed is not None and not call.stop:
                # Nothing is sent, but a handler that reports often must let other tasks run.
                await outlet.drain()
            return
        if call.stop or not call.progress < progress < math.inf:
            return
        call.progress = progress
        params: dict[str, Any] = {"progressToken": call.progress_token, "progress": progress}
        if total is not None and math.isfinite(total):
            params["total"] = total
        if message:  # revision 2024-11-05 has no `message`, but its clients ignore or show unknown members
            params["message"] = message
        if call.round is not None and call.round.message_meta is not None:
            params["_meta"] = call.round.message_meta
        outlet.send(codec.notification("notifications/progress", params))
        if outlet.must_drain:
            await outlet.drain()

    def produced(self, path: str | Path) -> None:
        """Register a file that the tool made. It can be downloaded if the tool runs as a job.

        A relative path starts at the server folder. Files outside this folder and `output_dirs` cannot be
        downloaded.
        """
        if self._call.feed is not None:
            self._call.feed.add_file((self.folder or Path.cwd()) / path)

    async def log(self, level: str, data: Any, logger: str = "") -> None:
        """Log to the desk, and to the caller if the caller wants messages of this level.

        Raises: RemoteProtocolError for an unknown level; the error lists the known levels.
        """
        severity = log_level(level)
        text = data if isinstance(data, str) else codec.encode(data).decode()
        source = logger or self.tool or "server"
        self._services.log(level, source, text, "", self.server.name, self.trace.id, self._call.capture_key)
        min_severity = self._call.terms.log_level
        if min_severity is None or severity < min_severity or self._call.stop:
            return
        params = {"level": level, "logger": logger or self.tool or self.server.name, "data": data}
        await self._notify("notifications/message", params)

    def log_later(self, logger: str) -> Callable[[str, Any], bool]:
        """Return a function that logs to the caller's connection after this call has ended.

        It takes a level and data. It returns False if the connection is closed, or if every message on the
        connection must belong to a request.
        """
        terms, requests = self._call.terms, self._call.requests

        def log(level: str, data: Any) -> bool:
            min_severity = terms.log_level
            if requests is None or requests.push is None or min_severity is None:
                return False
            if log_level(level) >= min_severity:
                params = {"level": level, "logger": logger, "data": data}
                requests.push(codec.notification("notifications/message", params))
            return True

        return log

    async def debug(self, data: Any) -> None:
        """Log at level `debug`."""
        await self.log("debug", data)

    async def info(self, data: Any) -> None:
        """Log at level `info`."""
        await self.log("info", data)

    async def warning(self, data: Any) -> None:
        """Log at level `warning`."""
        await self.log("warning", data)

    async def error(self, data: Any) -> None:
        """Log at level `error`."""
        await self.log("error", data)

    async def ask(self, pages: Sequence[Page]) -> Question:
        """Ask a person and wait. Return the question in its final state, answered or not.

        The setting `ask_order` decides whether the desk or the calling client shows the question.

        Raises: HandlerError if no person can answer: no desk is open, and the client cannot be asked.
        """
        from mcpdesk.server.asks.person_questions import ask_in_order

        return await ask_in_order(pages, self)

    async def ask_desk(self, pages: Sequence[Page], client_task: ClientTask | None = None) -> Question:
        """Ask the person at the desk, even if no desk is open.

        The wait does not count against the time limit, and the caller receives keep-alive messages.
        `client_task` is the same question at the client. If the client answers, the question at the desk is
        withdrawn.
        """
        from mcpdesk.inbox.question import QuestionKind
        from mcpdesk.server.asks.person_questions import DeskQuestion

        desk_question = DeskQuestion(self, self._call, self._services, pages, QuestionKind.QUESTION)
        return await desk_question.answer(client_task)

    def show_ended_question(self, question: Question) -> None:
        """Show a question at the desk that was asked through the client and has ended."""
        self._services.inbox.add_ended(question)

    @overload
    async def elicit(self, message: str, schema: type[T], key: str | None = None) -> Elicited[T]: ...
    @overload
    async def elicit(
        self, message: str, schema: Mapping[str, Any], key: str | None = None
    ) -> Elicited[dict[str, Any]]: ...
    async def elicit(
        self, message: str, schema: Mapping[str, Any] | type, key: str | None = None
    ) -> Elicited[Any]:
        """Ask the client to show a form to its user. Return `Accepted` with the content, `Declined` or
        `Cancelled`.

        `schema` is a dataclass, a TypedDict, a msgspec Struct or a pydantic model; the content is then an
        instance of this class. The fields of the class are texts, numbers, booleans, dates, choices among
        texts (`Literal`, `Enum`) or lists of such choices. `schema` may also be a flat JSON Schema; the
        content is then a dict.

        Raises: ClientError if the client cannot be asked, refuses, or sends an invalid answer. ValueError if
        a form of the client's revision cannot show a field; the error names the field.
        """
        from mcpdesk.server.asks import question_wording

        return await self._ask_client(question_wording.form(message, schema, self._call.terms), key)

    async def elicit_url(self, message: str, url: str, key: str | None = None) -> Elicited[None]:
        """Ask the client to let its user open a URL. Raises: as `elicit`."""
        from mcpdesk.server.asks import question_wording

        return await self._ask_client(question_wording.link(message, url, self._call.terms), key)

    async def complete_elicitation(self, answer: Elicited[Any]) -> None:
        """Notify the client that the action at the URL of a question is complete. Does nothing in revisions
        without such a message.
        """
        if answer.id and not self._call.stop:
            await self._notify("notifications/elicitation/complete", {"elicitationId": answer.id})

    async def sample(
        self,
        messages: question_wording.Messages,
        *,
        max_tokens: int = 1000,
        system: str | None = None,
        temperature: float | None = None,
        stop: Sequence[str] | None = None,
        preferences: Mapping[str, Any] | None = None,
        include_context: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Sampled:
        """Ask the client's model for a message. A string is one message of the user. Raises: ClientError.

        Without `preferences`, the setting `model` is used as the hint.
        """
        from mcpdesk.server.asks import question_wording

        if preferences is None and self.options.model:
            preferences = {"hints": [{"name": self.options.model}]}
        options = {
            "maxTokens": max_tokens,
            "systemPrompt": system,
            "temperature": temperature,
            "stopSequences": stop,
            "modelPreferences": preferences,
            "includeContext": include_context,
            "metadata": metadata,
            "tools": tools,
            "toolChoice": tool_choice,
        }
        return await self._ask_client(question_wording.sampling(messages, options, self._call.terms), key)

    async def list_roots(self, key: str | None = None) -> list[Root]:
        """Return the roots of the client. Raises: ClientError."""
        from mcpdesk.server.asks import question_wording

        return await self._ask_client(question_wording.roots(), key)

    async def _ask_client(self, question: ClientQuestion[T], key: str | None) -> T:
        """Ask the client, within the time limit of this kind of question."""
        call = self._call
        question.check(call.terms)
        # A question to a person has its own time limit. Any other question has the time limit of the tool.
        is_for_person = question.kind == "elicitation"
        limit_s = self.server.limits.question_timeout_s if is_for_person else call.limit_s
        with self._services.question_span(call, question.method, self.server.name, self.tool) as span:
            answer = await self._answer_to(question, key, limit_s)
            span.outcome = getattr(answer, "action", span.outcome)
            return answer

    async def _answer_to(self, question: ClientQuestion[T], key: str | None, limit_s: float) -> T:
        call = self._call
        if call.round is not None:
            return await call.round.ask(question, limit_s, key)
        if call.requests is None:
            raise ClientError(f"The client cannot be asked for {question.capability_name} at this moment")
        with self._services.deadlines.paused(call, is_client=True):
            return await call.ask_client(question, limit_s)

    def resource_updated(self, uri: str) -> None:
        """Notify subscribers that the content of a resource has changed."""
        self._services.subscriptions.resource_updated(self.server.name, uri)

    async def become_task(self) -> bool:
        """Answer the caller with a task, and continue. Return True if the call is now a task.

        For tools with `asks_first=True`, which can ask questions before the call becomes a task. Other tools
        with task support start as a task if the caller supports tasks.
        """
        operation = self._call.round
        return operation is not None and operation.become_task()

    async def close_stream(self, retry_ms: int = 1000) -> bool:
        """Close the caller's connection and continue the call. The caller reconnects after `retry_ms`.

        Return False and do nothing if the caller or the transport does not support this.
        """
        return await self._call.outlet.close_stream(retry_ms)

    async def _notify(self, method: str, params: dict[str, Any]) -> None:
        outlet, operation = self._call.outlet, self._call.round
        if operation is not None and operation.message_meta is not None:
            params["_meta"] = operation.message_meta
        outlet.send(codec.notification(method, params))
        if outlet.must_drain:
            await outlet.drain()


class ToolCall(Struct):
    """Call of a tool that `around_call` of `context.py` receives, and may change before the tool runs."""

    tool: str
    arguments: dict[str, Any]
    """Validated arguments. `around_call` may pass on different arguments."""
    context: Context


async def make_context(server: Server, services: Services, call: Call, name: str) -> Context:
    """Create the context of one call. This calls `create_context` of the folder.

    Raises: HandlerError with the line in `context.py` that failed, or with the message given to `fail`.
    """
    context = Context(server, services, call, name)
    if server.lifespan is not None:
        context.state = await server.lifespan.state(server)
    if server.create_context is not None:
        try:
            context.context = await server.create_context(context.request)
        except HandlerError:
            raise
        except Exception as error:  # `context.py` is hosted code
            from mcpdesk.server.calls.outcomes import author_location, described

            location = author_location(error, server.folder) or "context.py"
            failure = ServerFailure(f"{name} got no context: {location}: {described(error)}")
            raise failure.with_traceback(error.__traceback__) from None
    return context


def _environment(call: Call, services: Services) -> dict[str, str]:
    return services.environment() if call.environment is None else dict(call.environment)


def _request_view(call: Call, services: Services, access: Access) -> RequestView:
    """Return the request for hosted code. If the server verifies tokens, its code gets the claims, but not
    the token.
    """
    request_headers = call.opening_headers if call.headers is None else call.headers
    headers = {name.lower(): value for name, value in (request_headers or {}).items()}
    if access.verifier is not None:
        headers = {name: value for name, value in headers.items() if name not in ("authorization", "cookie")}
    environment = _environment(call, services) if request_headers is None else {}
    return RequestView(call.method, call.transport, call.peer, headers, environment, call.claims)
