"""Link to several cores at once, so that one front end shows all replicas.

The link has a local copy of each core's state, a `core_copy.CoreCopy`. All copies share a `CopyRoom`: their
numbers are unique, and their frames form one list of traffic. If several replicas have a server of the same
name, the server is shown once. Requests to this server go to one of these replicas as long as that replica
lives. When a replica ends, a notice reports this, and its rows remain. A `ReplicaSource` finds replicas and
connects to them.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

from msgspec.structs import replace

from mcpdesk.errors import DeskUserError
from mcpdesk.features.replicas.desk.combined_views import (
    Offer,
    OfferComparison,
    merged_callbacks,
    merged_grants,
    merged_jobs,
    merged_todo,
    merged_view,
    merged_work,
)
from mcpdesk.features.replicas.desk.joint_futures import all_of
from mcpdesk.features.replicas.desk.member import Member
from mcpdesk.features.replicas.desk.question_numbers import QuestionNumbers
from mcpdesk.features.replicas.desk.replica_source import FoundReplica, ReplicaSource
from mcpdesk.inbox.question import Question
from mcpdesk.link.core_copy import CopyRoom, CoreCopy, other_version
from mcpdesk.link.feature_part import Intent
from mcpdesk.link.feature_part import Result as PartResult
from mcpdesk.link.link import Link, LinkCall, Part, finished
from mcpdesk.link.link_methods import LinkIntent, Route
from mcpdesk.link.values import (
    CallbackView,
    Catalogue,
    ClientDetail,
    CoreView,
    GrantView,
    JobUse,
    JobView,
    LogLine,
    Notice,
    SchemaFailure,
    ServerView,
    Severity,
    ShownCore,
    ShownCoreState,
    TodoView,
)
from mcpdesk.link.waiting import WAIT_S, refuse_on_event_loop
from mcpdesk.version import __version__

SEARCH_PERIOD_S = 1.0
"""Seconds between two searches for new replicas."""
FIRST_STATE_TIMEOUT_S = 10.0
"""Seconds within which the first replica must send its state."""
OUTAGE_GRACE_S = 6.0
"""Seconds after an outage of the source during which a missing replica does not count as ended."""
MAX_FORMER_REPLICAS: Final = 8
"""Maximum number of ended replicas that are still shown."""
_log = logging.getLogger(__name__)
Result = TypeVar("Result")


class CombinedLink(Link):
    """Link to any number of cores."""

    is_remote = True

    def __init__(self, source: ReplicaSource, people: int = 1) -> None:
        """Connect to the replicas, and wait until the first one has sent its state.

        With `people=0` (no viewers), connect to no replica until `attend` adds viewers. Raises: DeskUserError
        if no replica sends its state in time.
        """
        self.source = source
        self._viewers = people
        self.room = CopyRoom()
        self.journal = self.room.journal
        self.traffic = self.room.traffic
        self._members: tuple[Member, ...] = ()
        """Living replicas in the order of their names, followed by ended replicas."""
        self._unreadable: dict[str, ShownCore] = {}
        """Replicas that run another version of mcpdesk, by key."""
        self._lenient_until = 0.0
        """Monotonic time until which no missing replica counts as ended."""
        self._source_error = ""
        """Reason why the source cannot be reached, or "" if it can be reached."""
        self._serving_copies: dict[str, CoreCopy] = {}
        """Copy of the replica that receives the requests for a server, by name of the server."""
        self._watched: dict[str, set[str]] = {}
        """URIs of subscribed resources, by name of the server."""
        self._replayed_intents: dict[object, Intent[Any]] = {}
        """Intents of this desk that apply to whole cores, by key. Replicas that join later also get them."""
        self._merged_versions: dict[str, tuple[object, int]] = {}
        """Last versions at the replicas, and the version of the merged state, by name of the state."""
        self._comparison = OfferComparison(self.journal.notify)
        self._cached_view: tuple[object, CoreView] | None = None
        self._reported_state: object = None
        """Value of `state` at the last report of `_report`."""
        self._question_numbers = QuestionNumbers()
        self._lock = threading.Lock()
        self._search_done = threading.Event()
        self._wake = asyncio.Event()
        self.room.start(self._run())
        self.room.is_quiet = not people
        if people:
            self._wait_for_first()

    def close(self) -> None:
        """Disconnect from the replicas without stopping them."""
        self.room.close()

    def attend(self, count: int) -> None:
        """Change the number of viewers by `count`, which may be negative.

        Without viewers, the link disconnects from all replicas.
        """
        self._viewers += count
        self.room.call_soon(self._wake.set)

    def _wait_for_first(self) -> None:
        deadline = time.monotonic() + FIRST_STATE_TIMEOUT_S
        self._search_done.wait(FIRST_STATE_TIMEOUT_S)
        for member in self._members:
            if member.copy.state_event.wait(max(0.0, deadline - time.monotonic())) and not member.is_over:
                return
        reason = self._source_error or next((each.reason for each in self._unreadable.values()), "")
        self.close()
        hint = "Replicas must use the same value of `shared`." if not reason else ""
        raise DeskUserError(reason or f"No replica of mcpdesk was found at {self.source.title}.", hint)

    # Combined view

    def view(self) -> CoreView:
        """Return a view of all replicas. Servers with the same name are merged."""
        members = self._members
        views = [(member, member.copy.view()) for member in members]
        gone_reason = self._source_error
        if not gone_reason and all(view.gone for _, view in views):
            gone_reason = "every replica has ended"
        states = [member.state for member in members], tuple(self._unreadable.values())
        key = [view for _, view in views], states, gone_reason, self._comparison.version
        cached = self._cached_view
        if cached is not None and cached[0] == key:
            return cached[1]
        living = [(member.copy.label, view) for member, view in views if not view.gone]
        former = [replace(view, clients=member.copy.last_clients) for member, view in views if view.gone]
        replicas = self._replicas(views)
        work_versions = [
            self._merged_version(name, [getattr(view.work, name) for _, view in views])
            for name in ("jobs_version", "callbacks_version", "todo_version")
        ]
        work = merged_work([view.work for _, view in living], [view.work for view in former], work_versions)
        questions_version = self._merged_version("questions", [view.questions_version for _, view in views])
        servers = self._servers(views, replicas)
        combined = merged_view(living, former, replicas, servers, work, questions_version, gone_reason)
        self._cached_view = key, combined
        return combined

    @property
    def reports_changes(self) -> bool:
        """True if the link reports every change of its state to the listeners of `on_change`."""
        return self.room.changes.is_complete

    def on_change(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` when a copy has changed. Return a function that removes the listener."""
        return self.room.changes.listen(listener)

    def busy(self) -> tuple[str, ...]:
        """Return the running calls of this front end, which quitting would interrupt."""
        return tuple(
            f"{reason} on {member.copy.title}" for member in self._members for reason in member.copy.busy()
        )

    def _merged_version(self, name: str, versions: object) -> int:
        """Return a number that increases whenever `versions` differs from the previous call."""
        cached, count = self._merged_versions.get(name, (None, 0))
        if cached != versions:
            count += 1
            self._merged_versions[name] = versions, count
        return count

    def _servers(
        self, views: Sequence[tuple[Member, CoreView]], replicas: Sequence[ShownCore]
    ) -> Iterator[ServerView]:
        """Yield each server once, as its serving replica shows it."""
        for name in dict.fromkeys(server.name for _, view in views for server in view.servers):
            copy = self._copy_for(name)
            view = copy.view() if copy is not None else CoreView((), (), views[0][1].protection)
            server = next((each for each in view.servers if each.name == name), None)
            if server is None:
                continue
            difference = self._comparison.problem(name)
            problems = (difference, *server.problems) if difference else server.problems
            cores = tuple(each for each in replicas if name in each.servers)
            yield replace(server, problems=problems, cores=cores)

    def _replicas(self, views: Sequence[tuple[Member, CoreView]]) -> tuple[ShownCore, ...]:
        """Return the replicas of the combined view, sorted by name."""
        replicas = dict[str, ShownCore]()
        for member, view in views:
            reason = view.gone or (f"no answer for {view.silent_s} s" if view.silent_s else "")
            names = tuple(server.name for server in view.servers)
            name, address = member.copy.label, member.copy.core.address
            replicas.setdefault(name, ShownCore(name, member.state, names, address, reason))
        return tuple(sorted((*replicas.values(), *self._unreadable.values()), key=lambda each: each.name))

    # Choice of a replica

    def _living(self, server: str = "") -> list[CoreCopy]:
        """Return the copies of all living replicas, or only of those that have a server."""
        return [
            member.copy
            for member in self._members
            if not member.is_over and (not server or member.has(server))
        ]

    def _copy_for(self, server: str) -> CoreCopy | None:
        """Return the copy of the replica that receives the requests to a server.

        The replica stays the same until it ends or stops answering. An ended replica is used only if no
        living replica has the server. None if no replica has it.
        """
        with self._lock:
            previous = self._serving_copies.get(server)
            living = self._living(server)
            answering = [copy for copy in living if not copy.view().silent_s]
            if previous in answering:
                return previous
            with_server = [member.copy for member in self._members if member.has(server)]
            serving = next(iter((*answering, *living, *with_server)), None)
            if serving is None or serving is previous:
                return serving
            self._serving_copies[server] = serving
        for uri in self._watched.get(server, ()):
            serving.watch(server, uri)
        return serving

    def _required_copy(self, server: str) -> CoreCopy:
        """Return the same copy as `_copy_for`. Raises: DeskUserError if no replica has the server."""
        copy = self._copy_for(server)
        if copy is None:
            raise DeskUserError(f"No replica has a server {server!r}.")
        return copy

    def _copy_of(self, number: int) -> CoreCopy | None:
        """Return the copy of the replica with a connection, question, callback or item, or None."""
        return self.room.copy_of(number)

    def _copy_with_job(self, job: str) -> CoreCopy | None:
        copies = [member.copy for member in self._members]
        return next((copy for copy in copies if any(each.id == job for each in copy.jobs())), None)

    # Servers

    def catalogue(self, server: str) -> Catalogue:
        """Return the catalogue of the replica that serves the requests."""
        copy = self._copy_for(server)
        return super().catalogue(server) if copy is None else copy.catalogue(server)

    def validate(self, server: str, tool: str, arguments: Any) -> list[SchemaFailure]:
        """Check arguments in this process, against the schema in the catalogue."""
        copy = self._copy_for(server)
        return [] if copy is None else copy.validate(server, tool, arguments)

    # Calls

    def request(self, server: str, method: str, params: dict[str, Any]) -> LinkCall:
        """Send one request to a living replica."""
        return self._required_copy(server).request(server, method, params)

    # Intents

    def execute(self, intent: LinkIntent, arguments: tuple[Any, ...]) -> Any:
        """Send an intent to the replicas of its route."""
        if intent.route is Route.QUESTION:
            arguments = (self._question_numbers.replica_number(arguments[0]), *arguments[1:])
        copies = self._on_route(intent.route, arguments)
        results = [copy.execute(intent, arguments) for copy in copies]
        if intent.route.is_for_many:
            return all_of(results, intent.combine) if intent.returns_future else None
        return results[0] if results else super().execute(intent, arguments)

    def _on_route(self, route: Route, arguments: tuple[Any, ...]) -> list[CoreCopy]:
        """Return the copies of the replicas that must execute an intent."""
        match route, arguments:
            case Route.EVERY_CORE, _:
                return self._living()
            case Route.ANY_CORE, _:
                return self._living()[:1]
            case Route.WITH_STATE, (server, *_) if self.source.shares_state:
                copy = self._copy_for(server)
            case ((Route.WITH_SERVER | Route.WITH_STATE), (target, *_)):
                return self._living(target.server if isinstance(target, GrantView) else target)
            case Route.SERVING, (server, *_):
                copy = self._copy_for(server)
            case ((Route.QUESTION | Route.CONNECTION), (number, *_)):
                copy = self._copy_of(number)
            case Route.CALLBACK, (_, number, *_):
                copy = self._copy_of(number)
            case Route.JOB, (job, *_):
                copy = self._copy_with_job(job)
            case Route.PLAN, (server, session, *_):
                copy = self._copy_with_plan(server, session)
            case _:
                raise ValueError(f"route {route.name} needs other arguments than {arguments!r:.200}")
        return [] if copy is None else [copy]

    def watch(self, server: str, uri: str) -> None:
        """Subscribe to a resource on the replica that serves the requests."""
        copy = self._copy_for(server)
        self._watched.setdefault(server, set()).add(uri)
        if copy is not None:
            copy.watch(server, uri)

    def unwatch(self, server: str, uri: str) -> None:
        """Unsubscribe from a resource."""
        self._watched.get(server, set()).discard(uri)
        if (copy := self._copy_for(server)) is not None:
            copy.unwatch(server, uri)

    def watched(self, server: str) -> Mapping[str, int]:
        """Return subscribed resources with the number of updates received."""
        copy = self._copy_for(server)
        return {} if copy is None else copy.watched(server)

    # Questions

    def questions(self) -> tuple[Question, ...]:
        """Return the questions of all replicas."""
        own, copies = list[Question](), list[Question]()
        for member in self._members:
            for question in member.copy.questions():
                (own if question.core == member.copy.label else copies).append(question)
        return self._question_numbers.merged(own, copies)

    def grants(self) -> tuple[GrantView, ...]:
        """Return the approvals of all replicas without duplicates."""
        return merged_grants(grant for copy in self._living() for grant in copy.grants())

    # Work

    def jobs(self) -> tuple[JobView, ...]:
        """Return the jobs of all replicas."""
        return merged_jobs(*self._snapshots(CoreCopy.jobs))

    def usage(self) -> Mapping[str, JobUse]:
        """Return resource usage of running programs. Replicas that do not answer in time are left out."""
        refuse_on_event_loop()
        futures = {copy: copy.ask_usage() for copy in self._living()}
        wait(futures.values(), WAIT_S)
        usages = dict[str, JobUse]()
        for copy, future in futures.items():
            if future.done() and future.exception() is None:
                usages |= copy.known_uses(future.result())
        return usages

    def callbacks(self) -> tuple[CallbackView, ...]:
        """Return the callbacks of all replicas."""
        living, former = self._snapshots(CoreCopy.callbacks)
        return merged_callbacks((*living, *former))

    def todo(self) -> tuple[TodoView, ...]:
        """Return the tasks of all replicas."""
        living, former = self._snapshots(CoreCopy.todo)
        return merged_todo((*living, *former))

    def _copy_with_plan(self, server: str, session: str) -> CoreCopy | None:
        for copy in self._living(server):
            if any((plan.server, plan.session) == (server, session) for plan in copy.view().work.plans):
                return copy
        return None

    def _snapshots(
        self, snapshot: Callable[[CoreCopy], tuple[Result, ...]]
    ) -> tuple[list[Result], list[Result]]:
        """Return two snapshots: one of all living replicas, and one of all ended replicas."""
        living, former = list[Result](), list[Result]()
        for member in self._members:
            (former if member.is_over else living).extend(snapshot(member.copy))
        return living, former

    # Clients

    def client(self, connection: int) -> ClientDetail | None:
        """Return details of one client from its replica."""
        copy = self._copy_of(connection)
        if copy is None:
            return None
        if not copy.view().gone:
            return copy.client(connection)
        has_left = any(client.connection == connection for client in copy.last_clients)
        return ClientDetail({}, None, 0.0, (), (), False, (), (), has_left=True) if has_left else None

    # Features

    def feature_part(self, kind: type[Part]) -> Part:
        """Return the state of a feature, merged from all replicas."""
        return kind.merged([copy.feature_part(kind) for copy in self._living()])

    def do(self, intent: Intent[PartResult]) -> Future[PartResult]:
        """Send an intent to the replica that has its item.

        An intent for whole cores goes to every replica. If the intent has a key and no replica refuses it,
        replicas that join later receive it as well.
        """
        if (item := intent.item) is not None:
            copy = self._copy_of(item)
            return cast("Future[PartResult]", finished(False)) if copy is None else copy.do(intent)
        living = self._living()
        if intent.for_one_core:
            able = [copy for copy in living if intent.is_possible(copy)]
            living = (able or living)[:1]
        future = all_of([copy.do(intent) for copy in living], intent.combined)

        def remember(future: Future[PartResult]) -> None:
            if future.exception() is None and intent.key is not None:
                self._replayed_intents[intent.key] = intent

        future.add_done_callback(remember)
        return future

    # Log

    def logs(self, after: int = -1) -> list[LogLine]:
        """Return log lines of all replicas in the order of their arrival."""
        return self.journal.lines(after)

    def notices(self, after: int = -1) -> list[Notice]:
        """Return notices of all replicas."""
        return self.journal.notices(after)

    # The following methods run on the thread of the room

    async def _run(self) -> None:
        """Search for replicas until the link is closed."""
        try:
            while True:
                self._wake.clear()
                if self._viewers > 0:
                    await self._search()
                    self._compare()
                    self._report()
                    self._search_done.set()
                else:
                    self._pause()
                with suppress(TimeoutError):
                    async with asyncio.timeout(SEARCH_PERIOD_S):
                        await self._wake.wait()
        finally:
            with suppress(OSError):
                await self.source.close()

    def _report(self) -> None:
        """Report changes that replicas do not report themselves: a replica appears, ends or hangs."""
        views = [(member.state, member.copy.view().silent_s) for member in self._members]
        state = views, tuple(self._unreadable.values()), self._source_error, self._comparison.version
        if state != self._reported_state:
            self._reported_state = state
            self.room.changes.notify()

    async def _search(self) -> None:
        """Search for replicas. Connect to new ones, and disconnect from those that have ended."""
        try:
            replicas = await self.source.look()
        except OSError as error:
            error_text = f"{self.source.title} cannot be reached: {error}"
            if not self._source_error:
                self.journal.notify(f"{error_text}; earlier traffic is kept", Severity.ERROR)
            self._source_error, self.room.is_cut_off = error_text, True
            return
        if self._source_error:
            self._source_error, self.room.is_cut_off = "", False
            self._lenient_until = time.monotonic() + OUTAGE_GRACE_S
            self.journal.notify(f"{self.source.title} can be reached again", Severity.INFO)
        members = {member.replica.key: member for member in self._members}
        found_keys = {each.key for each in replicas}
        self._unreadable = {key: core for key, core in self._unreadable.items() if key in found_keys}
        for replica in replicas:
            member = members.get(replica.key)
            if member is None:
                self._join(replica)
            elif member.follow_task is None and not member.is_refused:
                # The connection was lost, or the replica was wrongly considered ended.
                member.is_paused = member.has_left = False
                member.follow_task = asyncio.create_task(self._follow(member))
        if self.source.reports_ended_replicas and time.monotonic() >= self._lenient_until:
            for member in self._members:
                if member.replica.key not in found_keys and member.follow_task is not None:
                    member.has_left = await self.source.has_left(member.replica.key)
                    member.cancel()

    def _pause(self) -> None:
        """Disconnect from all replicas until there are viewers again."""
        for member in self._members:
            if member.follow_task is not None:
                member.is_paused = True
                member.cancel()

    def _join(self, replica: FoundReplica) -> None:
        """Connect to a new replica. If it runs another version of mcpdesk, only list it."""
        core = replica.core
        if core.mcpdesk != __version__:
            if replica.key not in self._unreadable:
                self.journal.notify(f"{replica.name}: {other_version(core)}", Severity.WARNING)
            self._unreadable[replica.key] = ShownCore(
                replica.name, ShownCoreState.UNREADABLE, core.names, core.address, other_version(core)
            )
            return
        member = Member(replica, CoreCopy(core, self.room, replica.name))
        member.follow_task = asyncio.create_task(self._follow(member))
        if self._search_done.is_set() and not self.room.is_quiet:
            self.journal.notify(f"{replica.name} has appeared", Severity.INFO)
        self._sort_members([*self._members, member])

    async def _follow(self, member: Member) -> None:
        """Keep the copy of one replica up to date until its core ends."""
        copy = member.copy
        reason, severity = "has ended", Severity.ERROR
        try:
            copy.core, wire = await member.replica.join()
            self.room.loop.call_soon(self._replay_intents, copy)  # once `follow` has begun
            self.room.loop.call_later(SEARCH_PERIOD_S, lambda: self._sort_members(self._members))
            await copy.follow(wire)
        except asyncio.CancelledError:
            if member.has_left:
                severity = Severity.INFO
            elif not member.is_paused and not self.room.is_over:
                reason = "is lost: it no longer sends anything"
        except (EOFError, OSError):
            pass
        except Exception as error:
            _log.exception("invalid data from %s", copy.title)
            reason, member.is_refused = f"sent invalid data: {error}", True
        finally:
            member.follow_task = None
            member.ended_at = time.monotonic()
            was_shown = copy.state_event.is_set()
            copy.mark_ended(reason, is_news=was_shown and not member.is_paused, severity=severity)
            # A replica that never sent its state is removed, and the next search connects to it again.
            self._sort_members([each for each in self._members if was_shown or each is not member])

    def _replay_intents(self, copy: CoreCopy) -> None:
        """Send the remembered intents to a replica that has just joined."""
        for intent in list(self._replayed_intents.values()):
            copy.do(intent)

    def _sort_members(self, members: Iterable[Member]) -> None:
        """Sort the replicas. Keep only the last `MAX_FORMER_REPLICAS` ended replicas."""
        members = list(members)
        living = [member for member in members if not member.is_over]
        former = [member for member in members if member.is_over][-MAX_FORMER_REPLICAS:]
        living.sort(key=lambda member: member.copy.label)
        previous, self._members = self._members, (*living, *former)
        for member in set(previous) - set(self._members):
            self.room.leave(member.copy)
        living_names = {member.copy.label for member in living}
        self.traffic.mark_former(frozenset(member.copy.label for member in former) - living_names)

    def _compare(self) -> None:
        """Compare the servers of the living replicas."""
        offers = dict[str, dict[str, Offer]]()
        for member in self._members:
            if member.is_over:
                continue
            copy = member.copy
            for server in copy.view().servers:
                folder_digest = member.replica.folders.get(server.name, "")
                offer = Offer(server.version, copy.catalogue(server.name), folder_digest)
                offers.setdefault(server.name, {})[copy.label] = offer
        self._comparison.compare(offers)
