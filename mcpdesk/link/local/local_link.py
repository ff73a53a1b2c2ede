"""Link to a core that runs in this process on a separate thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from mcpdesk.errors import CallError, DeskError, DeskUserError
from mcpdesk.features import client_extensions
from mcpdesk.hosting.channel import HostedDialogue, next_connection
from mcpdesk.hosting.endpoint import HostedEndpoint
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.setting_views import setting_views
from mcpdesk.inbox.question import Answer, Question
from mcpdesk.link.feature_part import Intent
from mcpdesk.link.feature_part import Result as PartResult
from mcpdesk.link.link import ClientFacet, Link, Part, finished, promise
from mcpdesk.link.local.client_views import LISTEN, PassedRow, hosted_views, passed_views
from mcpdesk.link.local.local_catalogue import LocalServers
from mcpdesk.link.local.local_work import LocalWork
from mcpdesk.link.values import (
    ClientDetail,
    ClientView,
    CoreView,
    GrantView,
    LogLine,
    Notice,
    ParkedOperation,
    Policy,
    Protection,
    RunningCall,
    ServerView,
    SessionView,
    SettingView,
    connected,
)
from mcpdesk.protocol.jsonrpc import Id
from mcpdesk.protocol.methods import ALL_LOGS
from mcpdesk.protocol.revisions import BY_NAME
from mcpdesk.recorder.record import ConnectionInfo
from mcpdesk.server.calls.running_call import Call

if TYPE_CHECKING:
    from mcpdesk.link.local.desk_client import DeskCall, DeskClient, HostedDesk
    from mcpdesk.upstream.upstream import Upstream

MANY_CLIENTS = 50
"""If a core has at least this many clients, their views are cached for `CACHE_S` seconds."""
MAX_AWAITED_LINES = 20
"""Maximum number of running calls of one client whose awaited source line is looked up."""
CACHE_S = 1.0
"""Seconds for which the views of many clients are cached."""

Result = TypeVar("Result")


class LocalClients(ClientFacet):
    """Clients of a host, including the connections of the desk itself."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._clients: tuple[ClientView, ...] = ()
        """Cached result of `client_views`."""
        self._view_time = float("-inf")

    def client_views(self) -> tuple[ClientView, ...]:
        """Return one view per client, by connection.

        If the core has `MANY_CLIENTS` clients, views may be `CACHE_S` seconds old.
        """
        now = time.monotonic()
        if len(self._clients) < MANY_CLIENTS or now - self._view_time > CACHE_S:
            http = self._host.http
            last_seen = {} if http is None else http.last_seen()
            views = [
                view
                for endpoint in list(self._host.by_name.values())
                for view in hosted_views(endpoint, last_seen)
            ]
            if http is not None:
                passed_rows = [
                    PassedRow(
                        client.key.server, client.summary, None if client.running_answers else client.seen
                    )
                    for client in http.passed_clients()
                ]
                views += passed_views(passed_rows, http.former_passed_clients())
            self._clients = tuple(sorted(views, key=lambda view: view.connection))
            self._view_time = now
        return self._clients

    def client(self, connection: int) -> ClientDetail | None:
        """Return details of one client, or None if it is unknown."""
        ttl_s = self._host.rules.session_ttl_s
        for passed_client in self._host.passed_clients():
            if passed_client.info.number == connection:
                return ClientDetail(passed_client.capabilities, None, ttl_s, (), (), False, (), ())
        former = [] if self._host.http is None else list(self._host.http.former_passed_clients().values())
        for endpoint in list(self._host.by_name.values()):
            dialogue = endpoint.dialogues.get(connection)
            if dialogue is not None:
                return self._detail(endpoint, dialogue)
            former.append(endpoint.former_clients)
        for clients in former:
            if (former_client := clients.find(connection)) is not None:
                return ClientDetail(
                    dict(former_client.capabilities), None, ttl_s, (), (), False, (), (), has_left=True
                )
        return None

    def disconnect(self, connection: int) -> None:
        """Close the session or the connection of a client."""
        self._host.call_soon(lambda: self._host.disconnect(connection))

    def _detail(self, endpoint: HostedEndpoint, dialogue: HostedDialogue) -> ClientDetail:
        from mcpdesk.server.calls.awaited_line import awaited_line  # not needed before the screen is drawn

        conversation = dialogue.conversation
        running, session = conversation.running, conversation.session
        # If an operation needs several requests, its handler runs in a separate task.
        tasks = {deadline.capture_key: deadline.task for deadline in self._host.services.deadlines}
        running_calls: list[RunningCall] = []
        for call in running:
            if call.method != LISTEN:
                where = ""
                if len(running_calls) < MAX_AWAITED_LINES:
                    where = awaited_line(tasks.get(call.capture_key), endpoint.server.folder)
                running_calls.append(_running_call(call, conversation.questioned_calls, where))
        return ClientDetail(
            capabilities=conversation.terms.capabilities,
            session=self._session(dialogue.connection),
            session_ttl_s=self._host.rules.session_ttl_s,
            listens=tuple(_listened_items(call) for call in running if call.method == LISTEN),
            subscribed=tuple(sorted(session.subscriptions)),
            receives_list_changes=session.is_open,
            running=tuple(running_calls),
            parked=tuple(self._parked(endpoint.name, conversation.peer)),
        )

    def _session(self, connection: int) -> SessionView | None:
        """Return the HTTP session of a connection, or None if it has none."""
        session = self._host.http.session(connection) if self._host.http is not None else None
        if session is None:
            return None
        return SessionView(
            expires_in_s=session.remaining_s(self._host.rules.session_ttl_s),
            streams=session.events.connected_streams,
            has_get_stream=session.standing.is_connected,
            kept_events=len(session.events),
            kept_bytes=session.events.size,
        )

    def _parked(self, server: str, peer: str) -> Iterator[ParkedOperation]:
        """Yield the operations that wait until a client sends answers."""
        for parked_round in self._host.services.rounds.parked:
            if parked_round.server == server and parked_round.call.peer == peer:
                methods = tuple(asking.method for asking in parked_round.questions().values())
                yield ParkedOperation(parked_round.call.method, _item_name(parked_round.call), methods)


def _running_call(call: Call, asking_calls: Sequence[object], where: str) -> RunningCall:
    """Describe a running call. `asking_calls` has a call once for each of its unanswered questions."""
    elapsed_s = time.monotonic() - call.started
    return RunningCall(
        call.method, _item_name(call), elapsed_s, asking_calls.count(call), call.id, where, call.started
    )


def _item_name(call: Call) -> str:
    """Return the name of the tool or prompt that a call is about, or the URI, or ""."""
    return str(call.params.get("name") or call.params.get("uri") or "")


def _listened_items(call: Call) -> tuple[str, ...]:
    """Return the notifications and URIs that a listen stream subscribes to."""
    filters = call.params.get("notifications") or {}
    uris = filters.get("resourceSubscriptions") or ()
    return (*(key for key, value in filters.items() if value is True), *uris)


class LocalLink(LocalServers, LocalWork, LocalClients, Link):
    """Link to a `Host`. Snapshots read the host directly and never wait for the core."""

    def __init__(
        self, host: Host, viewers: int = 1, *, shows_others: bool = True, peer: str = "desk"
    ) -> None:
        """Create a link with `viewers` viewers. While a core has a viewer, its servers can ask questions.

        `shows_others=False` leaves out questions of other cores. It is used by a desk that combines the links
        of all cores. `peer` is the name of the client whose requests are sent.
        """
        LocalServers.__init__(self, host)
        LocalWork.__init__(self, host)
        LocalClients.__init__(self, host)
        self.traffic = host.recording.index
        self._viewers = 0
        """Number of people who can answer questions at this front end."""
        self._shows_others = shows_others
        self._peer = peer
        self._hosted_desks: dict[str, HostedDesk] = {}
        """Connections of this front end to hosted servers, by server."""
        self._upstream_desks: dict[str, DeskClient] = {}
        """Connections of this front end to upstream servers, by server."""
        self._lock = threading.Lock()
        host.on_roots.append(self._notify_roots_changed)
        self.attend(viewers)

    def view(self) -> CoreView:
        """Return a snapshot of the core."""
        host = self._host
        return CoreView(
            servers=tuple(self._server_views()),
            clients=self.client_views(),
            protection=Protection(host.protection),
            api_key=host.rules.api_key,
            api_key_header=host.rules.api_key_header,
            capture_path=str(host.recording.path or ""),
            capture_failing=host.recording.failing,
            stuck=host.blocking_code.heartbeat.stuck(),
            questions_version=host.inbox.version,
            is_loading=not host.is_loaded,
            roots=host.roots.uris,
            work=self.work_view(),
        )

    @property
    def reports_changes(self) -> bool:
        """True if the core's event loop can be observed."""
        return self._host.turns.changes.is_complete

    def on_change(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` when the core may have changed."""
        return self._host.turns.changes.listen(listener)

    def request(self, server: str, method: str, params: dict[str, Any]) -> DeskCall:
        """Send a request as the client of this link. If the server was removed just now, the call fails."""
        try:
            return self._desk(server).request(method, params)
        except DeskUserError as error:
            from mcpdesk.link.local.desk_client import DeskCall

            call = DeskCall(0, method, params, lambda _: None)
            call.finish({"error": {"code": 0, "message": str(error)}})
            return call

    def give_token(self, server: str, text: str, needs: Collection[str] = ()) -> Future[tuple[str, ...]]:
        """Use a token for the calls to a server. An upstream server is reconnected with it."""
        if server in self._host.upstreams:
            return self._run_function(partial(self._use_upstream_token, server, text))
        return self._hosted_desk(server).token.give(text, needs)

    def _use_upstream_token(self, server: str, text: str) -> tuple[str, ...]:
        """Use a token for an upstream server. Raises: ValueError if it cannot be sent in a header."""
        from mcpdesk.client.credentials import credential_headers

        try:
            credential_headers(text, None, "")
        except DeskUserError as error:
            raise ValueError(error.message.removesuffix(".")) from None
        self._host.log_in(server, text)
        return ()

    def drop_token(self, server: str) -> None:
        """Stop using the token."""
        self._hosted_desk(server).token.drop()

    def set_log_level(self, server: str, level: str) -> Future[bool]:
        """Request log messages of this level and above from a server."""
        upstream = self._host.upstreams.get(server)
        future = promise()
        try:
            target = self._hosted_desk(server).server if upstream is None else upstream
        except DeskUserError as error:
            future.set_exception(ValueError(str(error)))
            return future

        async def request_level() -> None:
            try:
                await target.set_log_level(level)
                future.set_result(True)
            except CallError as error:
                future.set_exception(ValueError(str(error)))

        self._host.call_soon(lambda: self._host.start_chore(request_level()))
        return future

    def choose_roots(self, texts: list[str]) -> Future[bool]:
        """Set the folders that the desk offers to servers as roots."""

        def choose() -> bool:
            self._host.choose_roots(texts)
            return True

        return self._run_function(choose)

    def watch(self, server: str, uri: str) -> None:
        """Subscribe to a resource."""
        with suppress(DeskUserError):
            desk = self._desk(server)
            self._host.call_soon(lambda: desk.watch.add(uri))

    def unwatch(self, server: str, uri: str) -> None:
        """Unsubscribe from a resource."""
        with suppress(DeskUserError):
            desk = self._desk(server)
            self._host.call_soon(lambda: desk.watch.remove(uri))

    def watched(self, server: str) -> Mapping[str, int]:
        """Return subscribed resources with the number of updates received."""
        desk = self._open_desk(server)
        return {} if desk is None else desk.watch.updates

    def questions(self) -> tuple[Question, ...]:
        """Return waiting questions first, then ended ones."""
        questions = self._host.inbox.questions()
        if self._shows_others:
            return questions
        return tuple(question for question in questions if not question.core)

    def answer(self, question: int, answers: Sequence[Answer], by: str = "desk") -> Future[bool]:
        """Answer a waiting question."""
        return self._run_coroutine(lambda: self._host.inbox.answering.answer(question, answers, by))

    def decline(self, question: int, reason: str = "", by: str = "desk") -> Future[bool]:
        """Decline a waiting question."""
        return self._run_coroutine(lambda: self._host.inbox.answering.decline(question, reason, by))

    def cancel_question(self, question: int, by: str = "desk") -> Future[bool]:
        """Cancel a waiting question without an answer."""
        return self._run_coroutine(lambda: self._host.inbox.answering.cancel(question, by))

    def cancel_call(self, connection: int, id: Id, started: float) -> Future[bool]:
        """Cancel a running call of a client. The client receives an error."""

        def cancel() -> bool:
            dialogues = (endpoint.dialogues.get(connection) for endpoint in self._host.by_name.values())
            return any(
                dialogue.conversation.cancel_at_desk(id, started)
                for dialogue in dialogues
                if dialogue is not None
            )

        return self._run_function(cancel)

    def feature_part(self, kind: type[Part]) -> Part:
        """Return the state of a feature."""
        part = next((part for part in self._host.interceptor.parts if isinstance(part, kind)), None)
        return part or self._host.parts.state(kind) or kind()

    def do(self, intent: Intent[PartResult]) -> Future[PartResult]:
        """Carry out a request to a feature."""

        def do() -> PartResult:
            part = self._host.parts.for_intent(intent) or self._host.made_interceptor()
            result: PartResult = part.do(intent)
            return result

        return self._run_function(do)

    def choose_policy(self, server: str, tool: str, policy: Policy) -> None:
        """Set the policy of a tool."""
        self._host.call_soon(lambda: self._host.choose_policy(server, tool, policy))

    def grants(self) -> tuple[GrantView, ...]:
        """Return the approvals, newest first."""
        all_grants = (
            GrantView(name, grant.tool, grant.peer, grant.granted)
            for name, endpoint in list(self._host.by_name.items())
            if (state := endpoint.server.hosted) is not None
            for grant in state.approvals.grants
        )
        return tuple(sorted(all_grants, key=lambda grant: -grant.granted))

    def revoke(self, grant: GrantView) -> None:
        """Withdraw an approval."""
        self._host.call_soon(lambda: self._host.revoke(grant.server, grant.tool, grant.peer))

    def settings(self) -> Future[tuple[SettingView, ...]]:
        """Return the settings with which the core was started."""
        return finished(setting_views(self._host.plan))

    def logs(self, after: int = -1) -> list[LogLine]:
        """Return log lines numbered above `after`."""
        return self._host.journal.lines(after)

    def notices(self, after: int = -1) -> list[Notice]:
        """Return notices numbered above `after`."""
        return self._host.journal.notices(after)

    def busy(self) -> tuple[str, ...]:
        """Return the work that quitting would interrupt, as phrases."""
        calls = sum(desk.running for desk in self._all_desks())
        # A client over stdio is not interrupted: it continues with a core of its own.
        dependent_clients = (client for client in self.client_views() if client.transport != "stdio")
        own_questions = (question for question in self._host.inbox.questions() if not question.core)
        counts = (
            ("running call", calls),
            ("running job", sum(not job.state.is_final for job in self.jobs())),
            ("connected client", connected(dependent_clients, time.time())),
            ("waiting question", sum(question.state == "waiting" for question in own_questions)),
        )
        return tuple(f"{number} {noun}{'s' if number > 1 else ''}" for noun, number in counts if number)

    def attend(self, count: int) -> None:
        """Change the number of viewers by `count`, which may be negative."""
        self._host.call_soon(lambda: self._attend(count))

    def close(self) -> None:
        """Disconnect this front end."""
        self._host.call_soon(self._leave)

    def _desk(self, server: str) -> DeskClient:
        """Return the desk's connection to a server. The connection is opened on first use.

        Raises: DeskUserError for an unknown server.
        """
        upstream = self._host.upstreams.get(server)
        if upstream is None:
            return self._hosted_desk(server)
        with self._lock:
            desk = self._upstream_desks.get(server)
            if desk is None or desk.server is not upstream.connection:
                if desk is not None:
                    self._host.call_soon(desk.close)
                desk = self._upstream_desks[server] = self._create_upstream_desk(upstream)
            return desk

    def _create_upstream_desk(self, upstream: Upstream) -> DeskClient:
        """Create the object that sends the requests of this front end to an upstream server."""
        from mcpdesk.link.local.desk_client import DeskClient, RecordedDesk

        run = self._host.call_soon
        if self._peer == "desk":
            return DeskClient(upstream.connection, upstream.number, run)
        info = ConnectionInfo(next_connection(), upstream.name, "memory", self._peer, "", time.time())
        return RecordedDesk(upstream.connection, upstream.number, run, self._host.recording, info)

    def _all_desks(self) -> list[DeskClient]:
        """Return all connections of this front end to servers."""
        with self._lock:
            return [*self._hosted_desks.values(), *self._upstream_desks.values()]

    def _open_desk(self, server: str) -> DeskClient | None:
        """Return the open connection to a server, or None if it is closed or the server was replaced."""
        upstream = self._host.upstreams.get(server)
        if upstream is None:
            return self._open_hosted_desk(server)
        desk = self._upstream_desks.get(server)
        return desk if desk is not None and desk.server is upstream.connection else None

    def _open_hosted_desk(self, server: str) -> HostedDesk | None:
        """Return the open connection to a hosted server, or None."""
        desk = self._hosted_desks.get(server)
        return desk if desk is not None and desk.endpoint is self._host.by_name.get(server) else None

    def _hosted_desk(self, server: str) -> HostedDesk:
        """Return the connection to a hosted server. Raises: DeskUserError for any other server."""
        if server in self._host.upstreams:
            location = self._host.upstreams[server].plan.location
            raise DeskUserError("The token of such a server comes from a login.", f"mcpdesk login {location}")
        endpoint = self._host.by_name.get(server)
        if endpoint is None:
            raise DeskUserError(f"This desk has no server {server}.")
        with self._lock:
            desk = self._hosted_desks.get(server)
            if desk is None or desk.endpoint is not endpoint:
                if desk is not None:
                    self._host.call_soon(desk.close)
                from mcpdesk.link.local.desk_client import HostedDesk

                revision = BY_NAME[self._host.settings.desk_revision]
                desk = HostedDesk(
                    endpoint,
                    self._host.call_soon,
                    self._roots,
                    revision,
                    peer=self._peer,
                    extensions=client_extensions(),
                )
                self._hosted_desks[server] = desk
            return desk

    def _roots(self) -> list[dict[str, Any]]:
        return self._host.roots.offered(hosted.folder for hosted in list(self._host.folders.values()))

    def _notify_roots_changed(self) -> None:
        for desk in list(self._hosted_desks.values()):
            self._host.start_chore(desk.server.notify_roots_changed())

    def _server_views(self) -> Iterator[ServerView]:
        """Yield the views of all servers, with the token and log level of this front end."""
        for name in [*self._host.by_name, *self._host.upstreams]:
            desk = self._open_desk(name)
            hosted_desk = self._open_hosted_desk(name)
            with suppress(KeyError):  # the server was removed at this moment
                token = None if hosted_desk is None else hosted_desk.token.view()
                yield self.server_view(name, token, ALL_LOGS if desk is None else desk.server.log_level)

    def _run_function(self, function: Callable[[], Result]) -> Future[Result]:
        """Run a function on the core's loop. The future gets its result or exception."""
        future: Future[Result] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = function()
            except ValueError as error:
                future.set_exception(error)
            except Exception as error:
                # A bug. The loop logs it, and the caller gets it from the future.
                future.set_exception(error)
                raise
            else:
                future.set_result(result)

        self._host.call_soon(run)
        return future

    def _run_coroutine(self, work: Callable[[], Coroutine[Any, Any, bool]]) -> Future[bool]:
        """Run a coroutine on the core's loop. The future gets its result or exception."""
        future: Future[bool] = Future()

        async def run() -> None:
            try:
                future.set_result(await work())
            except Exception as error:
                future.set_exception(error)
                if not isinstance(error, ValueError | DeskError):
                    raise  # a bug: the loop logs it

        def start() -> None:
            if future.set_running_or_notify_cancel():
                self._host.start_chore(run())

        self._host.call_soon(start)
        return future

    def _attend(self, count: int) -> None:
        self._viewers += count
        self._host.inbox.attend(count)

    def _leave(self) -> None:
        """Remove this front end from the core. Runs on the core's loop."""
        self._host.on_roots.remove(self._notify_roots_changed)
        self._attend(-self._viewers)
        for desk in self._all_desks():
            desk.close()
