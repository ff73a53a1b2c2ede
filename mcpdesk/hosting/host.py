"""A core: the hosted folders, their endpoints, and the listeners for clients. It runs on one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from mcpdesk.auth.operator import Operator
from mcpdesk.errors import DeskUserError, UnknownMode
from mcpdesk.features import features_with, required
from mcpdesk.hosting.callback_reports import CallbackReports
from mcpdesk.hosting.capture_watch import masked, recording_for, watch_capture
from mcpdesk.hosting.core_loop.blocking_code import BlockingCodeWatcher
from mcpdesk.hosting.core_loop.changes import LoopTurns
from mcpdesk.hosting.endpoint import HostedEndpoint, intercept_all
from mcpdesk.hosting.environment import collect_rarely, withhold
from mcpdesk.hosting.folder.manifest import FILE
from mcpdesk.hosting.host_part import StartedCore
from mcpdesk.hosting.host_parts import HostParts
from mcpdesk.hosting.host_plan import HostPlan, ignored_settings, late_settings, rules_of, separate_policies
from mcpdesk.hosting.hosted_folder import HostedFolder, no_tool
from mcpdesk.hosting.hosted_upstreams import HostedUpstreams
from mcpdesk.hosting.journal import Journal, LogLine, Severity
from mcpdesk.hosting.kept.kept_jobs import StoredJobs
from mcpdesk.hosting.kept.request_state_keys import RequestStateKeys
from mcpdesk.hosting.pump_sockets import PipeOpener, PumpSockets
from mcpdesk.hosting.server_access import public_environment, secret_variables
from mcpdesk.hosting.shared_core import SharedCore, SharingCore
from mcpdesk.jobs.schedule import NamedLocks, SerialQueue, call_soon_safely
from mcpdesk.protocol.jsonrpc import Id
from mcpdesk.protocol.reading.remark import Remark, RemarkKind
from mcpdesk.recorder.interceptor import InterceptedCore, Interceptor
from mcpdesk.recorder.record import CallLog, RecordedRemark
from mcpdesk.server.asks.approval_policies import Policy, policies_of
from mcpdesk.server.calls.call_starts import CallStarts
from mcpdesk.server.calls.services import Services
from mcpdesk.server.calls.threads.running_code import CODE_ENDED, CODE_STILL_RUNS
from mcpdesk.server.calls.threads.worker_threads import WORKERS
from mcpdesk.settings import Settings
from mcpdesk.transports import rendezvous

if TYPE_CHECKING:
    from mcpdesk.client.roots import DeskRoots
    from mcpdesk.client.untrusted_file import UntrustedFile
    from mcpdesk.hosting.folder.manifest import Manifest
    from mcpdesk.hosting.folder.state_peers import FolderPeers
    from mcpdesk.hosting.hosted_jobs import HostedJobs
    from mcpdesk.inbox.inbox import Inbox
    from mcpdesk.link.front_end import FrontEnd
    from mcpdesk.recorder.exchange_watch import ExchangeWatch
    from mcpdesk.recorder.record import CaptureHealth
    from mcpdesk.transports.base import Rules
    from mcpdesk.transports.http.http_service import HttpService
    from mcpdesk.transports.http.passing.passed_clients import PassedClient
    from mcpdesk.transports.metric import MetricFamily
    from mcpdesk.upstream.upstream import Upstream, UpstreamPlan

HostTargets: TypeAlias = "tuple[tuple[Path, ...], tuple[UpstreamPlan, ...]]"
"""Folders to host, and upstream servers to connect to."""
MAX_DRAWING_WAIT_S = 1.5
"""Maximum number of seconds that a core with a screen waits until the screen is drawn."""
REMOVED_REASON = "its server was removed"


class Host:
    """One core. Call its methods on the core's loop, except where a docstring allows any thread."""

    def __init__(self, plan: HostPlan) -> None:
        self.plan = plan
        self.settings = settings = plan.settings
        self.turns = LoopTurns()
        self.journal = Journal(self.turns.changes.notify)
        self.recorder = self.recording = recording_for(plan, self.journal)
        self.journal.keep_for_call = self._record_log
        if settings.log_format == "json":
            self.journal.origin_of = self._origin_of
        notify = partial(self.journal.notify, severity=Severity.INFO, screen="traffic")
        self.by_name: dict[str, HostedEndpoint] = {}
        self.interceptor = Interceptor()
        """Interceptor of messages. It passes every message on until `made_interceptor` is called."""
        self._intercepted = InterceptedCore(
            self.recording, notify, self._intercept_clients, self.disconnect, options=plan.feature_options
        )
        if any(plan.feature_options.values()):
            self.made_interceptor()
        self.services = Services(
            self.journal.log,
            request_state_keys=RequestStateKeys(settings, lambda: self.shared).current,
            mask=masked,
            environment=lambda: public_environment(self.hidden_variables()),
            starts=CallStarts(lambda: self.turns.turn_start),
        )
        self.services.on_running_code = self._record_abandoned_code
        self.folders: dict[str, HostedFolder] = {}
        self._callback_reports = CallbackReports(self.services, self.journal, self.folders, self.start_chore)
        self.shared: SharedCore | None = self._create_shared_core() if settings.shared else None
        """Connection to other cores with the same state, or None if this core shares nothing."""
        self.hosted_upstreams = HostedUpstreams(
            settings,
            self.journal,
            self.recording,
            self.services,
            lambda: self.roots,
            self.made_interceptor,
            lambda: self.watch,
            plan.http,
        )
        """Upstream servers and their pass-throughs."""
        self.upstreams = self.hosted_upstreams.by_name
        self.pass_throughs = self.hosted_upstreams.pass_throughs
        self.on_roots: list[Callable[[], None]] = []
        """Functions to call after the roots changed. The upstream servers are notified separately."""
        self.blocking_code = BlockingCodeWatcher(self.folders, self.journal, self.turns)
        self.is_loaded = False
        """True once the folders are read."""
        self.is_draining = False
        """True if the core accepts no new clients and only finishes running calls."""
        self.http: HttpService | None = None
        self.jobs: HostedJobs  # set when the core begins to listen for HTTP
        self._key = ""
        """API key that callers over HTTP must send, or "" until one is needed."""
        self.operator = Operator(settings.operator_key)
        """The operator's key, and the browsers that signed in with it."""
        self.front_end: Callable[[], FrontEnd] | None = None
        """Function that opens a link for a front end, on any thread. None if the core has no front ends."""
        self.own_front_end: Callable[[str], FrontEnd] | None = None
        """Like `front_end`, but of this core alone. The argument is the client's name in the traffic."""
        self._kept_jobs = (
            StoredJobs(self.services, self.journal, self.by_name)
            if self.shared is None
            else self.shared.kept_jobs(self.by_name, lambda: self.is_draining)
        )
        self.read_targets: Callable[[str, Collection[str], Settings, str], HostTargets] | None = None
        """Function that parses a text with servers to add. None if this core cannot add servers."""
        self.read_untrusted: Callable[[str, Settings], UntrustedFile | None] = lambda text, settings: None
        """Function that returns the file in a text for `read_targets` whose content a person must approve."""
        pipes = PipeOpener(self.endpoint, self.folders, self.hidden_variables, self.journal, settings)
        self.open_pipe = pipes.open
        self._pumps = PumpSockets(self.open_pipe, self.journal, self.chosen_state)
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._reloads = SerialQueue(self._reload)
        self._capture_watch: asyncio.Task[None] | None = None
        self._chores: set[asyncio.Task[None]] = set()
        self._name_locks = NamedLocks()
        """Locks by server name, held while a server of that name is added or removed."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self.parts = HostParts()
        self.watch: ExchangeWatch | None = None
        """Observer of exchanges with upstream servers, or None."""
        self._start_time = time.monotonic()
        self._drawn = asyncio.Event()
        self._pending_functions: list[Callable[[], object]] = []

    def _create_shared_core(self) -> SharedCore:
        core = SharingCore(
            self.settings,
            self.journal,
            self.services,
            lambda: {name: hosted.folder for name, hosted in self.folders.items()},
            self._reload_state,
            self.start_chore,
        )
        shared_cores = (feature.shared_core(core) for feature in features_with("shared_core"))
        return required(shared_cores, "shared: this program cannot share its state with other machines.")

    def _reload_state(self, name: str) -> None:
        if (hosted := self.folders.get(name)) is not None:
            self.start_chore(hosted.reload_state())

    def made_interceptor(self) -> Interceptor:
        """Return the interceptor of a feature. It is created at the first use, to keep the start short."""
        if type(self.interceptor) is Interceptor:
            from mcpdesk.hosting.interception import interceptor_for

            self.interceptor = interceptor_for(self._intercepted)
            self._intercept_clients()
        return self.interceptor

    def _intercept_clients(self) -> None:
        intercept_all(self.by_name, self.interceptor)

    @cached_property
    def roots(self) -> DeskRoots:
        """Roots that the desk offers to servers."""
        from mcpdesk.client.roots import DeskRoots

        return DeskRoots()

    @cached_property
    def peers(self) -> FolderPeers:
        """Other processes that use the same state files."""
        from mcpdesk.hosting.folder.state_peers import FolderPeers

        return FolderPeers(self.journal, self.state_dir)

    @property
    def inbox(self) -> Inbox:
        """Inbox with the questions for a person."""
        return self.services.inbox

    @property
    def feature_options(self) -> Mapping[str, str]:
        """Values of the command line options of features, by name."""
        return self.plan.feature_options

    @property
    def state_dir(self) -> Path:
        """The state folder."""
        return self.settings.state_dir

    @property
    def unready(self) -> str:
        """Reason why new clients should not be sent here, or "" if the core is ready for them."""
        if self.is_draining:
            return "it is ending: running calls finish, and another process serves new clients"
        refusals = [endpoint.refusal for endpoint in self.endpoints()]
        if refusals and all(refusals) and not self.pass_throughs:
            return refusals[0]
        upstream_reason = self.hosted_upstreams.unready(is_all=all(refusals))
        return upstream_reason or ("" if self.shared is None else self.shared.unready)

    @property
    def down_servers(self) -> list[str]:
        """Pass-through servers whose latest connection attempt failed."""
        return self.hosted_upstreams.down_servers

    @property
    def uptime_s(self) -> float:
        """Seconds since the core started."""
        return time.monotonic() - self._start_time

    @cached_property
    def rules(self) -> Rules:
        """Rules for callers over HTTP. Cached until `_refresh_rules`."""
        from mcpdesk.auth import api_key

        settings = self.settings
        if not self._is_key_due(no_auth=settings.no_auth):
            return rules_of(settings, "")
        shared = self.shared.api_key if self.shared is not None else ""
        self._key = settings.api_key or self._key or shared or api_key.load_or_create(settings.state_dir)
        return rules_of(settings, self._key)

    @property
    def protection(self) -> str:
        """Protection of the HTTP address, as a value of `link.Protection`."""
        if self.plan.http and (self.http is None or not self.http.address):
            return "starting"
        if self.http is None or not self.http.address:
            return "offline"
        if self.rules.api_key:
            return "key"
        if not self.http.address.startswith("http"):
            return "socket"
        return "open" if self._is_key_due(no_auth=False) or self.is_exposed else "loopback"

    @property
    def is_exposed(self) -> bool:
        """True if other machines can call a server here without a key and without a token."""
        from mcpdesk.auth.http_origin import is_loopback

        if self.rules.api_key or self.http is None or not self.http.address.startswith("http"):
            return False
        servers = [endpoint.server for endpoint in self.by_name.values()]
        is_open = bool(self.pass_throughs) or not all(server.requires_jwt for server in servers)
        return is_open and not is_loopback(self.settings.host)

    def endpoint(self, name: str, mode: str = "") -> HostedEndpoint | None:
        """Return a server, or the first one if the name is empty. `mode` selects one of its modes.

        Raises: UnknownMode, which lists the server's modes.
        """
        endpoint = self.by_name.get(name) if name else next(iter(self.by_name.values()), None)
        if not mode or endpoint is None or endpoint.server.mode == mode:
            return endpoint
        if only_mode := endpoint.server.mode:
            raise UnknownMode(endpoint.name, mode, (only_mode,), only_mode)
        return endpoint.in_mode(self.folders[endpoint.name].modes.view(mode))

    def endpoints(self) -> list[HostedEndpoint]:
        """Return the endpoints of all hosted servers, in order."""
        return list(self.by_name.values())

    @property
    def capture(self) -> CaptureHealth:
        """State of the capture file."""
        return self.recording.health

    def figures(self) -> Callable[[], list[MetricFamily]]:
        """Return a function that computes the metrics. Counting takes time, so call it on a worker thread."""
        from mcpdesk.hosting.metrics.figures import with_traffic

        shared = [] if self.shared is None else self.shared.figures
        figures = [*self.core_figures(), *self.parts.figures, *shared]
        return partial(with_traffic, figures, self.recording.index, self.endpoints(), self.upstreams.copy())

    def core_figures(self) -> list[MetricFamily]:
        """Metrics that the core itself counts."""
        from mcpdesk.hosting.metrics.figures import core_figures

        return core_figures(self.recording, self.services, self.endpoints(), self.uptime_s)

    def url(self, name: str) -> str:
        """Return the address of a server, or "" while the core does not listen."""
        if self.http is None or not self.http.address:
            return ""
        address = self.http.address
        return address if address.startswith("unix:") else f"{address}/mcp/{name}"

    def call_soon(self, function: Callable[[], object]) -> None:
        """Run a function on the core's loop. May be called on any thread, even before the loop runs."""
        loop = self._loop
        if loop is None:
            self._pending_functions.append(function)
        else:
            call_soon_safely(loop, function)

    def load(self) -> None:
        """Read every folder. May be called without an event loop.

        Raises: ManifestError for a folder that cannot be hosted, unless the plan withholds such folders until
        they are fixed. DeskUserError if two folders have one name, or if a folder lacks the requested mode.
        """
        for folder in self.plan.folders:
            restart_settings = partial(late_settings, self.plan, is_first=not self.folders)
            hosted = self._read_folder(folder, restart_settings if self.plan.withholds_invalid else None)
            self._host_folder(hosted)
        for plan in self.plan.upstreams:
            self._load_upstream(plan, self.hosted_upstreams.has_login(plan))
        if self.plan.is_unsure:
            first_folder, *other_folders = self.folders.values()
            for hosted in other_folders:
                hosted.hold_back(f"its settings come from {first_folder.folder / FILE}, which has an error")
        for warning in (*self._unknown_tools(), *ignored_settings(self.plan.folders[1:])):
            self.journal.log("warning", "settings", warning)
        self._refresh_rules()
        self.is_loaded = True

    def _read_folder(
        self, folder: Path, restart_settings: Callable[[Manifest], list[str]] | None = None
    ) -> HostedFolder:
        settings, policies = separate_policies(self.plan)
        state_of = None if self.shared is None else self.shared.state_of
        return HostedFolder(
            folder, settings, self.journal, restart_settings, self.plan.mode, state_of, policies
        )

    def _host_folder(self, hosted: HostedFolder) -> str:
        """Add a folder that was read, and return the name of its server. Raises: DeskUserError."""
        name = hosted.server.name
        if name in self.by_name or name in self.upstreams:
            other = self.folders[name].folder if name in self.folders else self.upstreams[name].plan.location
            message = f"Two servers are called {name!r}: {other} and {hosted.folder}."
            raise DeskUserError(message, "Change `name` in one mcp.json.")
        server = hosted.modes.view(self.plan.mode) if self.plan.mode else hosted.server
        self.folders[name] = hosted
        self.by_name[name] = HostedEndpoint(server, self.services, self.recording)
        if self.interceptor.is_active:
            self.by_name[name].intercept(self.interceptor)
        server.tools.subscribe(lambda _: self._refresh_rules())
        assert hosted.server.hosted is not None
        hosted.server.hosted.is_brief = self.plan.is_brief
        self._callback_reports.observe(name, hosted.server.hosted)
        hosted.server.hosted.on_program_over = partial(self.parts.program_over, name)
        return name

    def _load_upstream(self, plan: UpstreamPlan, has_login: bool) -> Upstream:
        if plan.name in self.by_name or plan.name in self.upstreams:
            raise DeskUserError(f"Two servers are called {plan.name!r}.", "Give one another name.")
        return self.hosted_upstreams.load(plan, has_login)

    async def add(self, text: str, agreed: str = "") -> tuple[str, ...]:
        """Add the servers that a text names, and return their names. Raises: DeskError.

        `agreed` is the file content that the person approved.
        """
        if self.read_targets is None:
            raise DeskUserError("No server can be added here.", "Start `mcpdesk` or `mcpdesk serve` with it.")
        folders, upstreams = await asyncio.to_thread(
            self.read_targets, text, (*self.by_name, *self.upstreams), self.settings, agreed
        )
        if known := next((hosted for hosted in self.folders.values() if hosted.folder in folders), None):
            raise DeskUserError(f"{known.folder} is already added, as {known.server.name}.")
        names: list[str] = []
        for folder in folders:
            hosted = await asyncio.to_thread(self._read_folder, folder)
            async with self._name_locks.of(hosted.server.name):  # the earlier one may still be closing
                names.append(name := self._host_folder(hosted))
                await self._wake_folder(name)
                await self._open_folder(name)
            for warning in await asyncio.to_thread(ignored_settings, (folder,)):
                self.journal.log("warning", "settings", warning)
        for plan in upstreams:
            has_login = await asyncio.to_thread(self.hosted_upstreams.has_login, plan)
            async with self._name_locks.of(plan.name):
                self._load_upstream(plan, has_login).start()
            names.append(plan.name)
        self._refresh_rules()
        return tuple(names)

    async def remove(self, name: str) -> None:
        """Remove a server: disconnect its clients and end its jobs. Its recorded traffic is kept."""
        async with self._name_locks.of(name):
            if (upstream := self.upstreams.pop(name, None)) is not None:
                passed = self.pass_throughs.pop(name, None)
                await asyncio.gather(upstream.close(), *([] if passed is None else [passed.close()]))
            elif name in self.folders:
                await self._remove_folder(name)
            else:
                return
        self._refresh_rules()
        self.journal.notify(f"{name} was removed; its traffic is kept", Severity.INFO, "traffic")

    async def _remove_folder(self, name: str) -> None:
        endpoint, hosted = self.by_name[name], self.folders[name]
        if (watch := self._watches.pop(name, None)) is not None:
            watch.cancel()
        hosted.withdraw()
        await self._pumps.leave(name)
        await self.peers.leave(name)
        for connection in list(endpoint.dialogues):
            self.disconnect(connection)
        if self.services.has_created("jobs"):
            self.services.jobs.cancel_all(name, REMOVED_REASON)
        await self._kept_jobs.forget(name)
        del self.by_name[name], self.folders[name]
        if self.services.has_created("jobs"):
            self.services.jobs.delete_jobs_of_server(name)
        await hosted.close()

    def choose_roots(self, texts: Sequence[str]) -> None:
        """Replace the roots offered to servers and notify them. Raises: ValueError for an invalid root."""
        self.roots.choose(texts)
        for notify in (*(upstream.roots_changed for upstream in self.upstreams.values()), *self.on_roots):
            notify()

    def _sign_in(self) -> Callable[[], str] | None:
        """Return the maker of links that sign in a browser, or None if no browser can sign in over TCP."""
        return self.http.sign_in_link if self.http is not None and self.http.has_sign_in else None

    def screen_drawn(self) -> None:
        """Continue the start, because the screen has drawn the servers. May be called on any thread."""
        self.call_soon(self._drawn.set)

    async def start(self) -> None:
        """Load the folders if needed, and start to serve. Raises: DeskError."""
        await self.wake()
        await self.open()

    async def wake(self) -> None:
        """Load the folders if needed, and restore the state of a previous run. Raises: DeskError."""
        self._loop = asyncio.get_running_loop()
        WORKERS.max_threads = self.settings.max_threads
        self.recording.start()
        if self.shared is not None:
            await self.shared.start()
            self._refresh_rules()
        self._capture_watch = asyncio.create_task(watch_capture(self.recording, self.journal))
        self.blocking_code.start()
        self.parts.start(
            StartedCore(
                self.settings, self.plan.sends_telemetry, self.journal, self.upstreams, self.core_figures,
                self.operator, self._sign_in, self.by_name, self.recording, lambda: self.interceptor,
                self.chosen_state, self.plan.draws_first,
            )
        )  # fmt: skip
        self.services.watch, self.watch = self.parts.call_watch, self.parts.exchange_watch
        if not self.by_name and not self.upstreams:
            self.load()
        for function in self._pending_functions:
            function()
        self._pending_functions.clear()
        self.services.on_job = self._kept_jobs.update
        self.services.on_session = self._callback_reports.report_missed
        await asyncio.gather(*map(self._wake_folder, self.folders))

    async def _wake_folder(self, name: str) -> None:
        """Restore the state of a server from a previous run."""
        await self.folders[name].wake()
        await self._kept_jobs.recall(name)

    async def open(self) -> None:
        """Listen for clients, and watch the folders. Raises: DeskError if an address cannot be used."""
        has_folders = bool(self.folders)
        # Without folders, the first catalogue comes from an upstream server.
        if not has_folders:
            for upstream in self.upstreams.values():
                upstream.start()
        if self.plan.draws_first:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(MAX_DRAWING_WAIT_S):
                    await self._drawn.wait()
        for name in list(self.folders):
            await self._open_folder(name)
        if self.plan.http:
            await self._listen()
        if has_folders:
            for upstream in self.upstreams.values():
                upstream.start()
        if self.shared is not None and self.http is not None:
            await self.shared.describe(self.http.address)
        self._kept_jobs.start()
        collect_rarely()

    async def _open_folder(self, name: str) -> None:
        """Listen for the pumps of a server, and watch its folder."""
        hosted = self.folders[name]
        if self.shared is None and rendezvous.HAS_SOCKETS:
            await self.peers.join(hosted)
        if self.plan.accepts_pumps:
            await hosted.find_code_variables()
            if rendezvous.HAS_SOCKETS:
                await self._pumps.listen(name, hosted.folder)
        if self.plan.watch:
            self._watches[name] = asyncio.create_task(hosted.watch(lambda: self._reloads.ask(hosted)))

    async def stop(self) -> None:
        """End calls, streams and listeners, and write the unwritten part of the capture.

        The capture is written even if an earlier step fails.
        """
        async with contextlib.AsyncExitStack() as stack:  # the callback that is added last runs first
            stack.push_async_callback(asyncio.to_thread, self.recording.close)
            stack.callback(self.journal.flush)
            stack.callback(self.blocking_code.heartbeat.stop)
            stack.push_async_callback(self.parts.stop)
            if self.shared is not None:
                stack.push_async_callback(self.shared.close)
            await self._stop_serving()

    async def _stop_serving(self) -> None:
        tasks = [*self._watches.values(), *([self._capture_watch] if self._capture_watch else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, self._reloads.close(), return_exceptions=True)
        await self.send_pumps_away()
        await self._kept_jobs.close()
        await self.services.close()
        self.interceptor.close()
        await self._pumps.close()
        if self.http is not None:
            await self.http.close()
        await asyncio.gather(*(upstream.close() for upstream in self.upstreams.values()))
        await asyncio.gather(*(passed_server.close() for passed_server in self.pass_throughs.values()))
        for endpoint in self.by_name.values():
            for dialogue in list(endpoint.dialogues.values()):
                dialogue.close("the core stops")
        await asyncio.gather(*self._chores, return_exceptions=True)
        if "peers" in self.__dict__:
            await self.peers.close()
        await asyncio.gather(*(hosted.close() for hosted in self.folders.values()))

    async def send_pumps_away(self) -> None:
        """Ask pumps that have no running call to use another process."""
        await self._pumps.send_away()

    def passed_clients(self) -> list[PassedClient]:
        """Return the clients of upstream servers. May be called on any thread."""
        return [] if self.http is None else self.http.passed_clients()

    def _record_log(self, line: LogLine) -> None:
        """Record a log line of a call in the capture. May be called on any thread."""
        if line.call is not None:
            connection, identifier = line.call
            log = CallLog(connection, identifier, line.time, line.level, line.source, line.text, line.where)
            self.recording.log(log)

    def _record_abandoned_code(self, capture_key: tuple[int, Id], runs: bool) -> None:
        """Record whether code of a call still runs after the call ended. May be called on any thread."""
        kind, text = (RemarkKind.CODE_RUNS, CODE_STILL_RUNS) if runs else (RemarkKind.CODE_ENDED, CODE_ENDED)
        self.recording.remark(RecordedRemark(*capture_key, time.time(), Remark(kind, text)))

    def _origin_of(self, capture_key: tuple[int, Id]) -> tuple[str, str]:
        """Return the server and tool of a running call, by its connection and id. For any thread."""
        for name, endpoint in list(self.by_name.items()):
            if (dialogue := endpoint.dialogues.get(capture_key[0])) is not None:
                calls = (call for call in dialogue.conversation.running if call.id == capture_key[1])
                return name, next(
                    (str(call.params.get("name")) for call in calls if call.method == "tools/call"), ""
                )
        return "", ""

    def disconnect(self, connection: int) -> bool:
        """End the session or connection of a peer. Return False if no connection has that number."""
        dialogues = (endpoint.dialogues.get(connection) for endpoint in self.by_name.values())
        dialogue = next((dialogue for dialogue in dialogues if dialogue is not None), None)
        if dialogue is None:
            return self.http is not None and self.http.disconnect(connection)
        is_http = self.http is not None and self.http.disconnect(connection)
        if not is_http and not self._pumps.disconnect(connection):
            dialogue.close("disconnected at the desk")
        return True

    def reload(self, name: str) -> None:
        """Read a server folder again, or reconnect to an upstream server."""
        if name in self.upstreams:
            self.start_chore(self.upstreams[name].restart())
        elif name in self.folders:
            self._reloads.ask(self.folders[name])

    def log_in(self, name: str, token: str = "") -> None:
        """Start the login to an upstream server at the screen, or use a token that the person entered."""
        self.start_chore(self.hosted_upstreams.log_in(name, self._refresh_rules, token))

    def choose_policy(self, server: str, tool: str, policy: Policy) -> None:
        """Set the policy of a tool of a server."""
        self.start_chore(self.folders[server].choose_policy(tool, policy))

    def revoke(self, server: str, tool: str, peer: str) -> None:
        """Withdraw a peer's approval for a tool. The next call needs approval again."""
        self.start_chore(self.folders[server].revoke(tool, peer))

    def start_chore(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task for work that was requested at the desk."""
        chore = asyncio.get_running_loop().create_task(work)
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)

    def _unknown_tools(self) -> list[str]:
        """Return warnings about approvals that name a tool that no server has."""
        existing_tools = frozenset[str]().union(*(hosted.tools for hosted in self.folders.values()))
        tool_names = policies_of(self.settings.approvals).keys()
        unknown_names = (name for name in tool_names if name not in existing_tools)
        return [f"approvals: {no_tool(name, existing_tools)}" for name in unknown_names]

    async def _listen(self) -> None:
        from mcpdesk.hosting.hosted_jobs import HostedJobs
        from mcpdesk.transports.http.http_service import HttpService, ListeningForbidden

        self.jobs = HostedJobs(self.services.jobs, self.by_name, self.services.records_of)
        self.http = HttpService(self)
        settings = self.settings
        if settings.socket and self.plan.serves_socket:
            await self.http.listen_unix(settings.socket)
            return self._refresh_rules()
        try:
            port = await self.http.listen_tcp(settings.host, settings.port, self.plan.may_move)
        except ListeningForbidden as error:
            if not rendezvous.HAS_SOCKETS:
                raise
            path = settings.socket or Path(rendezvous.fallback_socket(next(iter(self.by_name), "desk")))
            await self.http.listen_unix(path)
            self.journal.notify(f"{error}: serving HTTP on the Unix socket {path}", Severity.WARNING)
        else:
            if settings.port and port != settings.port:
                self.journal.notify(f"Port {settings.port} is taken: serving on {port}", Severity.WARNING)
        self._refresh_rules()

    @property
    def chosen_state(self) -> str:
        """State folder if the user chose one, else empty. Cores with the same folder find each other."""
        return "" if self.plan.origins.get("state_dir", "default") == "default" else str(self.state_dir)

    async def _reload(self, hosted: HostedFolder) -> None:
        old_access = hosted.server.access
        changes = await hosted.reload()
        if hosted not in self.folders.values():
            return  # the server was removed during the reload
        if hosted.server.access is not old_access:
            self._refresh_rules()
        if not next(iter(self.folders.values())).server.withheld:
            for other in self.folders.values():
                if other.release():
                    self._reloads.ask(other)
        for endpoint in self.by_name.values():
            endpoint.forget_offers()
        for uri in changes.updated:
            self.services.subscriptions.resource_updated(hosted.server.name, uri)
        if self.shared is not None:
            self.start_chore(self.shared.describe_folders())

    def _refresh_rules(self) -> None:
        self.__dict__.pop("rules", None)
        withhold(self.hidden_variables())

    def hidden_variables(self) -> set[str]:
        """Names of the environment variables with secrets. Code and programs of a folder cannot see them."""
        return secret_variables(hosted.secret_variable for hosted in self.folders.values())

    def _is_key_due(self, *, no_auth: bool) -> bool:
        """Return True if callers over HTTP must send an API key."""
        from mcpdesk.auth import api_key

        over_tcp = self.plan.http and (self.http is None or not self.http.address.startswith("unix:"))
        servers = [endpoint.server for endpoint in self.by_name.values()]
        # Callers with a valid token need no key.
        runs_programs = any(server.runs_programs and not server.requires_jwt for server in servers)
        lends_credentials = any(passed.holds_credentials for passed in self.pass_throughs.values())
        return api_key.is_required(
            runs_programs=runs_programs or lends_credentials,
            over_tcp=over_tcp,
            no_auth=no_auth,
            configured=bool(self.settings.api_key),
        )
