"""One upstream server of the desk.

The desk connects to it, reads its lists, follows their changes and reconnects when needed.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.client.child_process import ProgramEnded
from mcpdesk.client.connection import LIST_CHANGES_FILTER, Questions, ServerConnection
from mcpdesk.client.hints import LOG_IN, SET_TOKEN, desk_hint
from mcpdesk.client.negotiation import Agreement
from mcpdesk.client.oauth.stored_grants import open_grants
from mcpdesk.client.oauth.values import OAuthGrant
from mcpdesk.client.subscriptions.subscription import Subscription
from mcpdesk.client.targets import BrokenTarget, CommandTarget, RemoteTarget, UrlTarget
from mcpdesk.client.transport import REFUSAL_STATUSES, ServerReply, excerpt
from mcpdesk.errors import (
    AuthorizationError,
    CallError,
    ConnectTimeout,
    DeskError,
    HttpError,
    LoginUnavailable,
)
from mcpdesk.inbox.inbox import Inbox
from mcpdesk.inbox.question import Page
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.methods import LOG_LEVELS
from mcpdesk.protocol.revisions import BY_NAME
from mcpdesk.recorder.record import ConnectionInfo, Recorder
from mcpdesk.upstream.offers import OFFER_LISTS, Offer, read_offers
from mcpdesk.upstream.program_log import ProgramLog
from mcpdesk.upstream.recorded_transport import OPENING, RecordedTransport
from mcpdesk.upstream.target_transport import (
    ClientPlace,
    ProgramEvents,
    Reach,
    login_options,
    target_transport,
)

if TYPE_CHECKING:
    from watchfiles import Change

    from mcpdesk.recorder.exchange_watch import ExchangeWatch
    from mcpdesk.recorder.interceptor import Interceptor

LOG_LEVEL = "debug"
"""Log level that the desk requests at first, so that it receives all messages. A person can select a higher
level.
"""
RETRY_HINT = "F5 tries again."
ENABLE_HINT = "To use it anyway, open FILE:NAME."
REFRESH_DELAY_S = 0.2
"""Seconds for which the desk waits for more changes after a list has changed. Then it reads the lists
again.
"""
NEGOTIATION_METHODS = frozenset({"server/discover", "initialize", OPENING})
"""Methods of the messages with which client and server agree on a protocol revision."""
_log = logging.getLogger(__name__)


class UpstreamPlan(Struct, frozen=True):
    """Target and options of an upstream server. `name` is unique in the desk and valid in a URL."""

    name: str
    target: RemoteTarget
    reach: Reach = Reach()
    is_mock: bool = False
    """True if a capture file answers the requests. It needs no handshake."""
    leads: bool = False
    """True if this server comes before all folders on the command line."""

    @property
    def account(self) -> str:
        """Account whose login is used, or "" for the default account."""
        return (self.target.account if isinstance(self.target, UrlTarget) else "") or self.reach.account

    @property
    def location(self) -> str:
        """Command or URL, as shown to a person."""
        if isinstance(self.target, CommandTarget):
            return self.target.text
        return self.target.url if isinstance(self.target, UrlTarget) else ""


class UpstreamState(StrEnum):
    """Connection state of a server."""

    CONNECTING = "connecting"
    READY = "ready"
    FAILED = "failed"
    ENDED = "ended"
    """The program has ended. The next call starts it again."""
    DISABLED = "disabled"
    """Its entry in a configuration file is disabled. No connection is attempted."""


class UpstreamStatus(Struct, frozen=True):
    """Connection state of a server, and its items. The object is replaced at every change."""

    state: UpstreamState = UpstreamState.CONNECTING
    agreement: Agreement | None = None
    offers: tuple[Offer, ...] = ()
    problems: tuple[str, ...] = ()
    """Errors in the lists, or the reason why the server is not connected. One sentence each."""
    hint: str = ""
    """Advice on how to fix these problems."""
    login: str = ""
    """Text about the token in use: owner, expiry and storage, or "" without a login."""
    steps: tuple[str, ...] = ()
    """Steps of the connection attempt, each with its result."""
    wants_token: bool = False
    """True if the server offers no login, so that a person must enter a token."""
    version: int = 0
    """Number that increases with every change."""


class UpstreamSite(NamedTuple):
    """Functions and data of the core that an upstream server uses."""

    recorder: Recorder
    location: ClientPlace
    identity: Mapping[str, Any]
    """Name and version that this program sends to servers."""
    next_connection: Callable[[], int]
    questions: Callable[[str], Callable[[], Questions]]
    """Function that takes the name of a server and returns a function for its questions to the desk."""
    log: Callable[[str, str, str, str, float | None], None]
    """Function that writes a log line: level, source, text, server, and Unix time (None means now)."""
    notify: Callable[[str, bool], None]
    """Function that shows a text to the person. Its second argument is True for a failure."""
    inbox: Inbox
    connect_timeout_s: float
    interceptor: Interceptor
    agreed: Callable[[ConnectionInfo], None] = lambda info: None
    """Function that is called with the connection when a revision was agreed."""
    restarted: Callable[[str], None] = lambda name: None
    """Function that is called with the name of a server that restarts."""
    watch: Callable[[], ExchangeWatch | None] = lambda: None
    """Function that returns the observer of requests, or None."""
    extensions: Mapping[str, JSONObject] = MappingProxyType({})
    """Extensions of MCP to declare: settings by id."""


class Upstream:
    """One upstream server.

    Use it on the core's loop. `status`, `connection` and `number` may be read on any thread.
    """

    def __init__(self, plan: UpstreamPlan, site: UpstreamSite) -> None:
        self.plan = plan
        self.status = UpstreamStatus()
        self.is_down: bool | None = None
        """True if the latest connection attempt failed, or None before the first attempt has ended."""
        self.failure: DeskError | None = None
        """Error of the latest connection attempt, or None if it has not failed."""
        self.listeners: list[Callable[[str, JSONObject], None]] = []
        """Functions that are called with the method and parameters of each notification. They are kept when
        the server restarts.
        """
        self.status_listeners: list[Callable[[], None]] = []
        """Functions that are called after `status` has changed."""
        self._site = site
        self._tasks: set[asyncio.Task[None]] = set()
        self.log_level = LOG_LEVEL
        """Lowest level of the log messages that are requested."""
        self._steps: list[str] = []
        self._is_closing = False
        self._read_task: asyncio.Task[None] | None = None
        """Task that will read the lists again, or None if the lists have not changed."""
        self._is_resuming = False
        """True while the lists are read again after a restart of the program."""
        self._login_text = ""
        self._prepare()

    @property
    def name(self) -> str:
        """Name of the server on the desk."""
        return self.plan.name

    @property
    def program_output(self) -> ProgramEvents:
        """Functions that handle the output of the program, except its messages."""
        return ProgramEvents(ProgramLog(self._on_log_entry).feed, self._on_stray_line)

    def input_schema(self, tool: str) -> JSONObject:
        """Return the input schema of a tool from the latest list, or an empty dict if the tool is unknown."""
        offers = (offer for offer in self.status.offers if offer.kind == "tool" and offer.name == tool)
        schema = next((offer.definition.get("inputSchema") for offer in offers), None)
        return schema if isinstance(schema, dict) else {}

    def offers(self, kind: str, name: str) -> bool:
        """Return True if the latest lists contain an item of that kind and name."""
        return any(offer.kind == kind and offer.name == name for offer in self.status.offers)

    def offered(self) -> dict[str, int]:
        """Return the number of listed items by kind: tools, resources, templates and prompts."""
        counts = Counter(offer.kind for offer in self.status.offers)
        return {offer_list.kind: counts[offer_list.kind] for offer_list in OFFER_LISTS}

    def start(self) -> None:
        """Connect to the server, unless it is disabled. If it is a program, watch the files that its command
        names.
        """
        target = self.plan.target
        if isinstance(target, BrokenTarget) and target.is_disabled:
            problems = (f"{target.problem}.",)
            self._set_status(
                replace(self.status, state=UpstreamState.DISABLED, problems=problems, hint=ENABLE_HINT)
            )
            return
        self._start_task(self._connect())
        if isinstance(target, CommandTarget):
            self._start_task(self._watch_files(target))

    async def restart(self) -> None:
        """End the connection and connect again."""
        self._site.restarted(self.name)
        await self._reconnect()

    async def reconnect_with_revision(self, revision: str) -> None:
        """Reconnect with this revision. If `revision` is empty, use the newest revision that both sides
        support.

        Clients of the pass-through still negotiate their own revision.
        """
        self.plan = replace(self.plan, reach=self.plan.reach._replace(revision=revision))
        await self._reconnect()

    async def _reconnect(self) -> None:
        # Set the state first, so that the end of the program is not reported as a failure.
        self._set_status(replace(self.status, state=UpstreamState.CONNECTING, problems=(), hint="", steps=()))
        await self._disconnect()
        self._prepare()
        self.start()

    async def log_in(self) -> None:
        """Start the login with a browser. The address to visit is shown as a question in the inbox."""
        target, site = self.plan.target, self._site
        if not isinstance(target, UrlTarget):
            site.notify(f"{self.name} is not a remote server, so it has no login.", True)
            return
        from mcpdesk.client.oauth.browser_login import LOGIN_TIMEOUT_S, log_in

        question_ids: list[int] = []

        def show_address(address: str) -> None:
            page = Page(f"Log in to {self.name}", "login", own_words=False, is_required=False, link=address)
            question_id, _ = site.inbox.ask(
                server=self.name, peer="desk", tool="login", pages=(page,), timeout_s=LOGIN_TIMEOUT_S
            )
            question_ids.append(question_id)

        try:
            store = open_grants(site.location.state_dir, self.plan.account)
            await log_in(
                target.url,
                store,
                show_address,
                options=login_options(target, self.plan.reach),
                watch=self._transport.record_fetch,
                report_deviation=self._transport.remark_on_fetch,
            )
            site.notify(f"Logged in to {self.name}; the token is stored in {store.location}.", False)
        except DeskError as error:
            hint = getattr(error, "hint", "")
            if isinstance(error, LoginUnavailable):
                self._set_status(replace(self.status, wants_token=True))
                hint = f"{hint} {SET_TOKEN}".strip()
            if self.status.state is UpstreamState.FAILED:
                # Show the error of the login, instead of the error that made it necessary.
                self._fail(f"login: {error}", hint)
            else:
                site.notify(f"{self.name}: {error}", True)
            return
        finally:
            for question_id in question_ids:
                site.inbox.withdraw(question_id, "the login is over")
        await self.restart()

    async def set_token(self, token: str) -> None:
        """Connect again with a token that a person entered. The token is kept only in memory."""
        self.plan = replace(self.plan, reach=self.plan.reach._replace(token=token))
        await self.restart()

    async def set_log_level(self, level: str) -> None:
        """Request log messages of this level and above. Raises: CallError if the server does not support
        this.
        """
        await self.connection.set_log_level(level)
        self.log_level = level

    def roots_changed(self) -> None:
        """Notify the server that the roots of the desk have changed."""
        if self.status.state is UpstreamState.READY:
            self._start_task(self._notify_roots_changed())

    async def _notify_roots_changed(self) -> None:
        try:
            await self.connection.notify_roots_changed()
        except CallError as error:
            text = f"it was not notified that the roots changed: {error}"
            self._site.log("debug", "server", text, self.name, None)

    async def close(self) -> None:
        """End the connection. If the server is a program, end the program."""
        self._is_closing = True
        await self._disconnect()

    def _prepare(self) -> None:
        """Create the transport and the connection for the next connection attempt."""
        plan, site = self.plan, self._site
        self.number = site.next_connection()
        """Number of the connection in the recorder."""
        kind = (plan.target.kind or "http") if isinstance(plan.target, UrlTarget) else "stdio"
        revision = BY_NAME.get(plan.reach.revision)
        info = ConnectionInfo(self.number, plan.name, kind, "desk", plan.reach.revision, time.time())
        events = self.program_output._replace(on_ended=self._program_ended)
        transport = target_transport(plan.target, plan.reach, site.location, events)
        self._transport = RecordedTransport(
            transport, site.recorder, info, site.interceptor, self._on_reply, site.agreed, site.watch
        )
        self.connection = ServerConnection(
            self._transport,
            site.identity,
            questions=site.questions(plan.name),
            revision=revision,
            log_level=self.log_level,
            extensions=site.extensions,
        )
        self.connection.listeners.append(self._on_notification)
        self._steps = []

    async def _disconnect(self) -> None:
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.connection.close()
        self._transport.ended(time.time())

    async def _connect(self) -> None:
        """Connect, subscribe and read the lists. An error becomes the state of the server."""
        timeout_s = self._site.connect_timeout_s
        self.failure = None
        self._login_text = await asyncio.to_thread(self._read_login_text)
        is_first = True  # an error concerns the first message
        try:
            async with asyncio.timeout(timeout_s):
                agreement = await self.connection.discover_server()
            is_first = False
            self.connection.listen()
            await self._subscribe(agreement)
            await self._read(agreement)
        except TimeoutError:
            received_note = (
                f": {self.connection.unexpected_bytes}" if self.connection.unexpected_bytes else ""
            )
            message = f"it did not answer within {timeout_s:g} s (connect_timeout_s){received_note}"
            self.failure = ConnectTimeout(message, self.connection.target)
            self._fail(message, _hint(self.plan, self.failure, is_first))
            await self.connection.close()
            return
        except DeskError as error:
            self.failure = error
            self._fail(getattr(error, "message", "") or str(error), _hint(self.plan, error, is_first))

    def _read_login_text(self) -> str:
        """Return a text about the token in use, or "" without a login. Call this on a worker thread."""
        if not isinstance(self.plan.target, UrlTarget):
            return ""
        account = self.plan.account
        store = open_grants(self._site.location.state_dir, account)
        grant = store.grant(self.plan.target.url)
        login = "" if grant is None else login_text(grant, store.location)
        return f"account {account}: {login or 'not logged in'}" if account else login

    async def _read(self, agreement: Agreement) -> None:
        """Read the lists of the server."""
        offers, problems = await read_offers(self.connection, agreement.capabilities)
        self._login_text = await asyncio.to_thread(self._read_login_text)
        self._set_status(
            replace(
                self.status,
                state=UpstreamState.READY,
                agreement=agreement,
                offers=offers,
                problems=problems,
                hint="",
                login=self._login_text,
                steps=tuple(self._steps),
            )
        )
        for problem in problems:
            self._site.log("warning", "server", problem, self.name, None)

    async def _subscribe(self, agreement: Agreement) -> None:
        """Subscribe to list changes. In stateless revisions, servers notify only clients that subscribe."""
        if not agreement.revision.is_stateless:
            return
        subscription = Subscription(
            self.connection, LIST_CHANGES_FILTER, self._lists_changed, self._log_unsubscribed
        )
        self._start_task(subscription.follow())
        await subscription.wait_until_begun()

    def _log_unsubscribed(self, reason: str) -> None:
        text = f"no subscription to changes of its lists: {reason}"
        self._site.log("debug", "server", text, self.name, None)

    async def _read_again(self) -> None:
        """Wait for further changes, then read the lists again."""
        await asyncio.sleep(REFRESH_DELAY_S)
        self._read_task = None
        try:
            await self._read(await self.connection.discover_server())
        except CallError as error:
            self._site.log("warning", "server", str(error), self.name, None)

    async def _resume(self) -> None:
        """Read the lists again after a call has restarted the program."""
        try:
            agreement = await self.connection.discover_server()
            await self._subscribe(agreement)
            await self._read(agreement)
        except CallError as error:
            self._site.log("warning", "server", str(error), self.name, None)
        finally:
            self._is_resuming = False

    async def _watch_files(self, program: CommandTarget) -> None:
        """Restart the program when one of its files is saved."""
        files = await asyncio.to_thread(watched_files, program)
        if not files:
            return
        from watchfiles import DefaultFilter, PythonFilter, awatch

        default_filter, python_filter = DefaultFilter(), PythonFilter()

        def is_relevant(change: Change, path: str) -> bool:
            is_source = any(Path(path).is_relative_to(source) for source in program.sources)
            is_watched = any(Path(path).is_relative_to(watched) for watched in program.watched)
            path_filter = python_filter if is_source and not is_watched else default_filter
            return path_filter(change, path)

        async for _ in awatch(*files, watch_filter=is_relevant):
            self._site.notify(f"{self.name}: one of its files changed, so it is restarted", False)
            await self.restart()
            return

    def _on_notification(self, method: str, params: JSONObject) -> None:
        """Handle a notification: read the lists again after a change, or write a message to the log."""
        for listener in self.listeners:
            listener(method, params)
        if method == "notifications/message":
            data, level = params.get("data"), params.get("level")
            text = data if isinstance(data, str) else codec.encode(data).decode()
            known_level = level if level in LOG_LEVELS else "info"
            logger = str(params.get("logger") or "server")[:80]
            self._site.log(str(known_level), logger, text, self.name, None)
        elif method.endswith("/list_changed"):
            self._lists_changed()

    def _lists_changed(self) -> None:
        if self._read_task is None:
            self._read_task = self._start_task(self._read_again())

    def _on_reply(self, method: str, reply: ServerReply) -> None:
        """Record a step of the negotiation. After a restart of the program, read the lists again."""
        if self.status.state is UpstreamState.ENDED and not self._is_resuming:
            self._is_resuming = True
            self._start_task(self._resume())
        if self.status.state is not UpstreamState.CONNECTING or method not in NEGOTIATION_METHODS:
            return
        if reply.code is not None:
            text = excerpt(f"error {reply.code}: {reply.message['error']['message']}")
        elif reply.message is None:
            text = f"HTTP {reply.status}"
        else:
            text = "answered"
        self._steps.append(f"{method}: {text}")

    def _on_log_entry(self, level: str, text: str, start_time: float) -> None:
        self._site.log(level, "stderr", text, self.name, start_time)

    def _on_stray_line(self, line: bytes) -> None:
        self._site.log("warning", "stdout", f"not a message: {excerpt(line)}", self.name, None)

    def _program_ended(self, ended: ProgramEnded) -> None:
        self._transport.end_questions()
        if self._is_closing or self.status.state is not UpstreamState.READY:
            return
        self._set_status(
            replace(self.status, state=UpstreamState.ENDED, problems=(ended.message,), hint=RETRY_HINT)
        )
        self._site.notify(f"{self.name}: {ended.message}; the next call starts it again", True)

    def _fail(self, message: str, hint: str = "") -> None:
        """Set the state to failed, and notify the person."""
        self._set_status(
            replace(
                self.status,
                state=UpstreamState.FAILED,
                problems=(message,),
                hint=hint,
                offers=(),
                login=self._login_text,
                steps=tuple(self._steps),
            )
        )
        self._site.notify(f"{self.name}: {message}{f'. {hint}' if hint else ''}", True)

    def _set_status(self, status: UpstreamStatus) -> None:
        """Replace the status and notify the listeners."""
        self.status = replace(status, version=self.status.version + 1)
        if status.state is not UpstreamState.CONNECTING:
            self.is_down = status.state is UpstreamState.FAILED
        for listener in self.status_listeners:
            listener()

    def _start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task, which is cancelled when the connection ends."""
        task = asyncio.get_running_loop().create_task(self._run_guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run_guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # an error of one server must not end the others
            _log.exception("%s cannot continue", self.name)
            self._fail(f"mcpdesk failed: {error!r}")


def _hint(plan: UpstreamPlan, error: DeskError, is_first: bool) -> str:
    """Return advice on a failed connection. `is_first` is True if the first message got no valid answer."""
    if isinstance(plan.target, BrokenTarget):
        return "Fix its entry in the file, then open the desk again."
    if isinstance(error, AuthorizationError):
        return LOG_IN
    advice = desk_hint(error, is_first=is_first) if isinstance(error, CallError) else ""
    is_about_token = isinstance(error, HttpError) and error.status in REFUSAL_STATUSES
    return advice if is_about_token else f"{advice} {RETRY_HINT}".strip()


def login_text(grant: OAuthGrant, location: str) -> str:
    """Return a text such as `token of https://issuer, until 14:05, stored in the keyring of the system`."""
    expiry_text = (
        "" if grant.expires is None else time.strftime(", until %H:%M", time.localtime(grant.expires))
    )
    renewal_text = " and then renewed" if expiry_text and grant.refresh_token else ""
    return f"token of {grant.issuer}{expiry_text}{renewal_text}, stored in {location}"


def watched_files(target: CommandTarget) -> tuple[Path, ...]:
    """Return the files that are named in a program's command and that a person may edit, and the other files
    and folders to watch. The program itself is left out.

    Reads the disk, so call it on a worker thread.
    """
    folder = target.folder or Path.cwd()
    paths = (folder / word for word in target.argv[1:] if re.search(r"\.\w{1,4}$", word))
    command_files = [path for path in paths if path.is_file() and "site-packages" not in path.parts]
    return (*command_files, *(path for path in (*target.watched, *target.sources) if path.exists()))
