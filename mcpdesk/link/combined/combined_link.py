"""The link to several cores at once: one screen over all replicas.

Each core has a copy of its own (`core_copy`), all in one room, so that their numbers never collide and their
frames are one traffic. A server that several replicas have is one server here; what is asked of it goes to
one of them, as long as that lives. A replica that ends is told in one line, and its rows stay. Where replicas
are found, and how they are reached, is the matter of a `ReplicaSource`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

from mcpdesk.errors import DeskUserError
from mcpdesk.inbox.question import Answer, Question
from mcpdesk.link.combined.combined_views import (
    Offer,
    OfferComparison,
    merged_callbacks,
    merged_grants,
    merged_holds,
    merged_jobs,
    merged_questions,
    merged_todo,
    merged_view,
    merged_work,
)
from mcpdesk.link.combined.joint_futures import all_of, union
from mcpdesk.link.combined.member import Member
from mcpdesk.link.combined.replica_source import FoundReplica, ReplicaSource
from mcpdesk.link.core_copy import CopyRoom, CoreCopy, other_version
from mcpdesk.link.link import Link, LinkCall, Over
from mcpdesk.link.values import (
    CallbackView,
    CannedCall,
    Catalogue,
    ClientDetail,
    CoreView,
    GrantView,
    HoldView,
    JobOutput,
    JobUse,
    JobView,
    LogLine,
    Notice,
    Policy,
    ReplicaState,
    ReplicaView,
    SchemaFailure,
    ServerView,
    Severity,
    TodoView,
    UntrustedFile,
    Verdict,
    Ways,
)
from mcpdesk.link.waiting import WAIT_S, refuse_on_event_loop
from mcpdesk.version import __version__

LOOK_S = 1.0
"""Seconds between two looks for replicas that have come."""
FIRST_S = 10.0
"""How long the first may take to show itself."""
LENIENT_S = 6.0
"""How long a replica may take to be found again after nobody could tell which live."""
MOST_FORMER: Final = 8
"""Replicas that have ended and are still shown."""
_log = logging.getLogger(__name__)
Result = TypeVar("Result")


class CombinedLink(Link):
    """Implements `Link` over any number of cores."""

    is_elsewhere = True

    def __init__(self, source: ReplicaSource, people: int = 1) -> None:
        """Join the replicas there are, and wait until one shows itself.

        With no `people` who look, nothing is joined, and nobody waited for, until `attend` is told of some.
        Raises: DeskUserError when no replica shows itself.
        """
        self.source = source
        self._people = people
        self.room = CopyRoom()
        self.journal = self.room.journal
        self.traffic = self.room.traffic
        self._members: tuple[Member, ...] = ()
        """In the order of their names, the living ones before those that have ended."""
        self._unreadable: dict[str, ReplicaView] = {}
        """By key: those of another version."""
        self._lenient_until = 0.0
        """Until when no replica is taken for dead, in monotonic seconds: nobody could tell who lives."""
        self._trouble = ""
        """Why nobody can tell which replicas live."""
        self._serving: dict[str, CoreCopy] = {}
        """By server: which replica is asked."""
        self._watched: dict[str, set[str]] = {}
        """By server: resources this desk is subscribed to."""
        self._wanted: dict[object, tuple[str, tuple[Any, ...]]] = {}
        """Holds, faults and captured answers this desk has set: a replica that comes later gets them, too."""
        self._counts: dict[str, tuple[object, int]] = {}
        self._comparison = OfferComparison(self.journal.notify)
        self._kept: tuple[object, CoreView] | None = None
        self._lock = threading.Lock()
        self._looked = threading.Event()
        self._wake = asyncio.Event()
        self.room.start(self._live())
        self.room.is_quiet = not people
        if people:
            self._wait_for_first()

    def close(self) -> None:
        """Leave; the replicas go on."""
        self.room.close()

    def attend(self, count: int) -> None:
        """So many more people look now, or fewer; the replicas are left while it is nobody."""
        self._people += count
        self.room.call_soon(self._wake.set)

    def _wait_for_first(self) -> None:
        until = time.monotonic() + FIRST_S
        self._looked.wait(FIRST_S)
        for member in self._members:
            if member.copy.shown.wait(max(0.0, until - time.monotonic())) and not member.is_over:
                return
        why = self._trouble or next((each.said for each in self._unreadable.values()), "")
        self.close()
        hint = "It must run with `shared` set to the same." if not why else ""
        raise DeskUserError(why or f"No replica of mcpdesk is to be seen at {self.source.title}.", hint)

    # The whole

    def view(self) -> CoreView:
        """Everything small of all replicas, the servers of the same name as one."""
        members = self._members
        views = [(member, member.copy.view()) for member in members]
        gone = self._trouble or ("" if any(not view.gone for _, view in views) else "every replica has ended")
        states = [member.state for member in members], tuple(self._unreadable.values())
        key = [view for _, view in views], states, gone, self._comparison.version
        kept = self._kept
        if kept is not None and kept[0] == key:
            return kept[1]
        living = [(member.copy.replica, view) for member, view in views if not view.gone]
        former = [replace(view, clients=member.copy.former) for member, view in views if view.gone]
        replicas = self._replicas(views)
        works = [view.work for _, view in views]
        work = merged_work(
            [view.work for _, view in living],
            [view.work for view in former],
            [
                self._count(name, [getattr(work, name) for work in works])
                for name in ("jobs_version", "callbacks_version", "todo_version")
            ],
        )
        self._kept = key, merged_view(
            living,
            former,
            replicas,
            self._servers(views, replicas),
            work,
            self._count("questions", [view.questions_version for _, view in views]),
            gone,
        )  # fmt: skip
        return self._kept[1]

    @property
    def reports_changes(self) -> bool:
        """False: replicas come, go and fall silent without a message."""
        return False

    def on_change(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` when a copy has changed."""
        return self.room.changes.listen(listener)

    def busy(self) -> tuple[str, ...]:
        """The calls of this screen: all else goes on without it."""
        return tuple(
            f"{said} on {member.copy.title}" for member in self._members for said in member.copy.busy()
        )

    def _count(self, name: str, versions: object) -> int:
        """A number that grows whenever the versions are others."""
        kept, count = self._counts.get(name, (None, 0))
        if kept != versions:
            count += 1
            self._counts[name] = versions, count
        return count

    def _servers(
        self, views: Sequence[tuple[Member, CoreView]], replicas: Sequence[ReplicaView]
    ) -> Iterator[ServerView]:
        for name in dict.fromkeys(server.name for _, view in views for server in view.servers):
            copy = self._copy_for(name)
            view = copy.view() if copy is not None else CoreView((), (), views[0][1].protection)
            server = next((each for each in view.servers if each.name == name), None)
            if server is None:
                continue
            told = self._comparison.problem(name)
            problems = (told, *server.problems) if told else server.problems
            having = tuple(each for each in replicas if name in each.servers)
            yield replace(server, problems=problems, replicas=having)

    def _replicas(self, views: Sequence[tuple[Member, CoreView]]) -> tuple[ReplicaView, ...]:
        found = dict[str, ReplicaView]()
        for member, view in views:
            said = view.gone or (f"no answer for {view.silent_s} s" if view.silent_s else "")
            names = tuple(server.name for server in view.servers)
            name, place = member.copy.replica, member.copy.core.address
            found.setdefault(name, ReplicaView(name, member.state, names, place, said))
        return tuple(sorted((*found.values(), *self._unreadable.values()), key=lambda each: each.name))

    # Which replica

    def _living(self, server: str = "") -> list[CoreCopy]:
        """The replicas that have not ended; those that have a server."""
        return [
            member.copy
            for member in self._members
            if not member.is_over and (not server or member.has(server))
        ]

    def _copy_for(self, server: str) -> CoreCopy | None:
        """The replica that is asked about a server: the same as long as it lives and answers."""
        with self._lock:
            before = self._serving.get(server)
            living = self._living(server)
            answering = [copy for copy in living if not copy.view().silent_s]
            if before in answering:
                return before
            former = [member.copy for member in self._members if member.has(server)]
            chosen = next(iter((*answering, *living, *former)), None)
            if chosen is None or chosen is before:
                return chosen
            self._serving[server] = chosen
        for uri in self._watched.get(server, ()):
            chosen.watch(server, uri)
        return chosen

    def _asked(self, server: str) -> CoreCopy:
        """Raises: DeskUserError when no replica has the server."""
        copy = self._copy_for(server)
        if copy is None:
            raise DeskUserError(f"No replica has a server {server!r}.")
        return copy

    def _copy_of(self, number: int) -> CoreCopy | None:
        return self.room.copy_of(number)

    def _owner(self, job: str) -> CoreCopy | None:
        copies = [member.copy for member in self._members]
        return next((copy for copy in copies if any(each.id == job for each in copy.jobs())), None)

    # Servers

    def catalogue(self, server: str) -> Catalogue:
        """What the replica that is asked offers."""
        copy = self._copy_for(server)
        return super().catalogue(server) if copy is None else copy.catalogue(server)

    def validate(self, server: str, tool: str, arguments: Any) -> list[SchemaFailure]:
        """Check arguments here, by the schema in the catalogue."""
        copy = self._copy_for(server)
        return [] if copy is None else copy.validate(server, tool, arguments)

    def reload(self, server: str) -> None:
        """Read the folder again on every replica."""
        for copy in self._living(server):
            copy.reload(server)

    def untrusted(self, text: str) -> Future[UntrustedFile | None]:
        """The first file that a replica does not trust. Other contents are refused when they are added."""
        return all_of(
            [copy.untrusted(text) for copy in self._living()], lambda found: next(filter(None, found), None)
        )

    def add_server(self, text: str, agreed: str = "") -> Future[tuple[str, ...]]:
        """Put a server on every replica."""
        return all_of([copy.add_server(text, agreed) for copy in self._living()], union)

    def remove_server(self, server: str) -> None:
        """Take a server off every replica."""
        for copy in self._living(server):
            copy.remove_server(server)

    def speak(self, server: str, revision: str) -> None:
        """On every replica."""
        for copy in self._living(server):
            copy.speak(server, revision)

    def log_in(self, server: str) -> None:
        """Log in on the replica that is asked."""
        if (copy := self._copy_for(server)) is not None:
            copy.log_in(server)

    def client_config(
        self, server: str, client: str, key: str | None = None, mode: str = "", over: Over = ""
    ) -> Future[str]:
        """Ask one replica for its text."""
        copy = self._copy_for(server)
        if copy is None:
            return super().client_config(server, client, key, mode, over)
        return copy.client_config(server, client, key, mode, over)

    # Calls

    def request(self, server: str, method: str, params: dict[str, Any]) -> LinkCall:
        """Send one request to a replica that lives."""
        return self._asked(server).request(server, method, params)

    def give_token(self, server: str, text: str, needs: Collection[str] = ()) -> Future[tuple[str, ...]]:
        """Call as the subject of a token on every replica."""
        return all_of([copy.give_token(server, text, needs) for copy in self._living(server)], union)

    def drop_token(self, server: str) -> None:
        """Call without a token again."""
        for copy in self._living(server):
            copy.drop_token(server)

    def set_log_level(self, server: str, level: str) -> Future[bool]:
        """Ask every replica for log messages of this level and above."""
        return all_of([copy.set_log_level(server, level) for copy in self._living(server)], any)

    def choose_roots(self, texts: list[str]) -> Future[bool]:
        """Name these folders on every replica."""
        return all_of([copy.choose_roots(texts) for copy in self._living()], any)

    def sign_in_link(self) -> Future[str]:
        """Return the address of the dashboard of one replica: each shows and answers for all."""
        living = self._living()
        return living[0].sign_in_link() if living else super().sign_in_link()

    def sign_out_browsers(self) -> Future[int]:
        """End the sign-ins of all browsers on every replica."""
        return all_of([copy.sign_out_browsers() for copy in self._living()], sum)

    def watch(self, server: str, uri: str) -> None:
        """Subscribe to a resource, on one replica at a time."""
        copy = self._copy_for(server)
        self._watched.setdefault(server, set()).add(uri)
        if copy is not None:
            copy.watch(server, uri)

    def unwatch(self, server: str, uri: str) -> None:
        """Cancel the subscription of a resource."""
        self._watched.get(server, set()).discard(uri)
        if (copy := self._copy_for(server)) is not None:
            copy.unwatch(server, uri)

    def watched(self, server: str) -> Mapping[str, int]:
        """Subscribed resources, and how often each was reported as changed."""
        copy = self._copy_for(server)
        return {} if copy is None else copy.watched(server)

    # Questions

    def questions(self) -> tuple[Question, ...]:
        """Those of all replicas."""
        own, seen = list[Question](), list[Question]()
        for member in self._members:
            for one in member.copy.questions():
                (own if one.replica == member.copy.replica else seen).append(one)
        return merged_questions(own, seen)

    def answer(self, question: int, answers: Sequence[Answer], by: str = "desk") -> Future[bool]:
        """Answer on the replica that asks."""
        copy = self._copy_of(question)
        return super().answer(question, answers, by) if copy is None else copy.answer(question, answers, by)

    def decline(self, question: int, reason: str = "", by: str = "desk") -> Future[bool]:
        """Decline on the replica that asks."""
        copy = self._copy_of(question)
        return super().decline(question, reason, by) if copy is None else copy.decline(question, reason, by)

    def cancel_question(self, question: int, by: str = "desk") -> Future[bool]:
        """Close it on the replica that asks."""
        copy = self._copy_of(question)
        return super().cancel_question(question, by) if copy is None else copy.cancel_question(question, by)

    # Policies

    def choose_policy(self, server: str, tool: str, policy: Policy) -> None:
        """Say whether clients may call a tool: on one replica where that holds on all."""
        copy = self._copy_for(server)
        shared = [] if copy is None else [copy]
        for each in shared if self.source.shares_state else self._living(server):
            each.choose_policy(server, tool, policy)

    def grants(self) -> tuple[GrantView, ...]:
        """Those of all replicas, each once."""
        return merged_grants(grant for copy in self._living() for grant in copy.grants())

    def revoke(self, grant: GrantView) -> None:
        """Require approval again on every replica."""
        for copy in self._living(grant.server):
            copy.revoke(grant)

    # Work

    def jobs(self) -> tuple[JobView, ...]:
        """Those of all replicas."""
        return merged_jobs(*self._kept_by(CoreCopy.jobs))

    def usage(self) -> Mapping[str, JobUse]:
        """What running programs use on every replica; those that do not answer in time are left out."""
        refuse_on_event_loop()
        asked = {copy: copy.ask("usage") for copy in self._living()}
        wait(asked.values(), WAIT_S)
        found = dict[str, JobUse]()
        for copy, done in asked.items():
            if done.done() and done.exception() is None:
                found |= copy.known_uses(done.result())
        return found

    def output(self, job: str, after: int) -> JobOutput | None:
        """What a job wrote, from the replica that does it."""
        copy = self._owner(job)
        return None if copy is None else copy.output(job, after)

    def kill_job(self, job: str) -> None:
        """End a job where it runs."""
        if (copy := self._owner(job)) is not None:
            copy.kill_job(job)

    def callbacks(self) -> tuple[CallbackView, ...]:
        """Those of all replicas."""
        living, former = self._kept_by(CoreCopy.callbacks)
        return merged_callbacks((*living, *former))

    def fire_callback(self, server: str, number: int) -> None:
        """Let it fire where it is kept."""
        if (copy := self._copy_of(number)) is not None:
            copy.fire_callback(server, number)

    def cancel_callback(self, server: str, number: int) -> None:
        """Cancel it where it is kept."""
        if (copy := self._copy_of(number)) is not None:
            copy.cancel_callback(server, number)

    def todo(self) -> tuple[TodoView, ...]:
        """Those of all replicas."""
        living, former = self._kept_by(CoreCopy.todo)
        return merged_todo((*living, *former))

    def plan_text(self, server: str, session: str) -> str | None:
        """The plan of a session, from the first replica that has it."""
        copy = self._planning(server, session)
        return None if copy is None else copy.plan_text(server, session)

    def end_plan(self, server: str, session: str) -> None:
        """End the plan mode of a session where that is."""
        if (copy := self._planning(server, session)) is not None:
            copy.end_plan(server, session)

    def _planning(self, server: str, session: str) -> CoreCopy | None:
        for copy in self._living(server):
            if any((plan.server, plan.session) == (server, session) for plan in copy.view().work.plans):
                return copy
        return None

    def _kept_by(
        self, snapshot: Callable[[CoreCopy], tuple[Result, ...]]
    ) -> tuple[list[Result], list[Result]]:
        """What living replicas have, and what those had that have ended."""
        living, former = list[Result](), list[Result]()
        for member in self._members:
            (former if member.is_over else living).extend(snapshot(member.copy))
        return living, former

    # Clients

    def client(self, connection: int) -> ClientDetail | None:
        """More about one client, from its replica."""
        copy = self._copy_of(connection)
        if copy is None or copy.view().gone:
            former = () if copy is None else copy.former
            is_known = any(one.connection == connection for one in former)
            return ClientDetail({}, None, 0.0, (), (), False, (), (), has_left=True) if is_known else None
        return copy.client(connection)

    def disconnect(self, connection: int) -> None:
        """End it on its replica."""
        if (copy := self._copy_of(connection)) is not None:
            copy.disconnect(connection)

    # Holds

    def held(self) -> HoldView:
        """What all replicas hold."""
        return merged_holds([copy.held() for copy in self._living()])

    def hold(self, rule: str, ways: Ways) -> Future[bool]:
        """Hold on every replica, also on those that come later."""
        return self._want("hold", "hold", rule, ways)

    def set_faults(self, text: str) -> Future[bool]:
        """Let messages meet faults on every replica."""
        return self._want("faults", "set_faults", text)

    def can(self, what: CannedCall, answer: str) -> Future[bool]:
        """Answer such requests with a captured answer on every replica."""
        return self._want(what, "can", what, answer)

    def let_go(self, number: int, how: Verdict, text: str = "") -> Future[bool]:
        """Let a message go on where it is held."""
        copy = self._copy_of(number)
        return super().let_go(number, how, text) if copy is None else copy.let_go(number, how, text)

    def delay(self, number: int, seconds: float) -> Future[bool]:
        """Let it go on by itself after some seconds, where it is held."""
        copy = self._copy_of(number)
        return super().delay(number, seconds) if copy is None else copy.delay(number, seconds)

    def _want(self, key: object, method: str, *arguments: Any) -> Future[bool]:
        """Ask all replicas for it, and remember it for those to come unless one refuses."""
        done = all_of([getattr(copy, method)(*arguments) for copy in self._living()], all)

        def remember(done: Future[bool]) -> None:
            if done.exception() is None:
                self._wanted[key] = method, arguments

        done.add_done_callback(remember)
        return done

    # Log

    def logs(self, after: int = -1) -> list[LogLine]:
        """Log lines of all replicas, in the order they came."""
        return self.journal.lines(after)

    def notices(self, after: int = -1) -> list[Notice]:
        """Notices of all replicas."""
        return self.journal.notices(after)

    # On the thread of the room

    async def _live(self) -> None:
        """Look for replicas until the link is closed."""
        try:
            while True:
                self._wake.clear()
                if self._people > 0:
                    await self._look()
                    self._compare()
                    self._looked.set()
                else:
                    self._pause()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._wake.wait()
        finally:
            with suppress(OSError):
                await self.source.close()

    async def _look(self) -> None:
        try:
            found = await self.source.look()
        except OSError as error:
            trouble = f"{self.source.title} cannot be reached: {error}"
            if not self._trouble:
                self.journal.notify(f"{trouble}; what was seen stays", Severity.ERROR)
            self._trouble, self.room.is_cut_off = trouble, True
            return
        if self._trouble:
            self._trouble, self.room.is_cut_off = "", False
            self._lenient_until = time.monotonic() + LENIENT_S
            self.journal.notify(f"{self.source.title} is reached again", Severity.INFO)
        known = {member.found.key: member for member in self._members}
        there = {each.key for each in found}
        self._unreadable = {key: each for key, each in self._unreadable.items() if key in there}
        for each in found:
            member = known.get(each.key)
            if member is None:
                self._join(each)
            elif member.following is None and not member.is_refused:  # it was left, or taken for dead
                member.is_paused = member.has_left = False
                member.following = asyncio.create_task(self._follow(member))
        if self.source.knows_the_ended and time.monotonic() >= self._lenient_until:
            for member in self._members:
                if member.found.key not in there and member.following is not None:
                    member.has_left = await self.source.has_left(member.found.key)
                    member.cancel()

    def _pause(self) -> None:
        """Leave every replica for now."""
        for member in self._members:
            if member.following is not None:
                member.is_paused = True
                member.cancel()

    def _join(self, found: FoundReplica) -> None:
        if found.core.mcpdesk != __version__:
            if found.key not in self._unreadable:
                self.journal.notify(f"{found.name}: {other_version(found.core)}", Severity.WARNING)
            state, core = ReplicaState.UNREADABLE, found.core
            self._unreadable[found.key] = ReplicaView(
                found.name, state, core.names, core.address, other_version(core)
            )
            return
        member = Member(found, CoreCopy(found.core, self.room, found.name))
        member.following = asyncio.create_task(self._follow(member))
        if self._looked.is_set() and not self.room.is_quiet:
            self.journal.notify(f"{found.name} has appeared", Severity.INFO)
        self._arrange([*self._members, member])

    async def _follow(self, member: Member) -> None:
        """Keep one copy until its core ends."""
        ended, copy, severity = "has ended", member.copy, Severity.ERROR
        try:
            copy.core, wire = await member.found.join()
            self.room.loop.call_soon(self._tell_wishes, copy)  # once it is followed
            self.room.loop.call_later(LOOK_S, lambda: self._arrange(self._members))
            await copy.follow(wire)
        except asyncio.CancelledError:
            if member.has_left:
                severity = Severity.INFO
            elif not member.is_paused and not self.room.is_over:
                ended = "is lost: nothing is heard of it"
        except (EOFError, OSError):
            pass
        except Exception as error:
            _log.exception("what %s sent cannot be shown", copy.title)
            ended, member.is_refused = f"sent what cannot be shown: {error}", True
        finally:
            member.following = None
            member.ended = time.monotonic()
            was_shown = copy.shown.is_set()
            copy.lose(ended, is_news=was_shown and not member.is_paused, severity=severity)
            # One that never showed itself is tried again.
            self._arrange([each for each in self._members if was_shown or each is not member])

    def _tell_wishes(self, copy: CoreCopy) -> None:
        """Let a replica that came later do what was asked of all."""
        for method, arguments in list(self._wanted.values()):
            getattr(copy, method)(*arguments)

    def _arrange(self, members: Iterable[Member]) -> None:
        """Order the replicas, and forget the oldest of very many that have ended."""
        every = list(members)
        living = [member for member in every if not member.is_over]
        former = [member for member in every if member.is_over][-MOST_FORMER:]
        living.sort(key=lambda member: member.copy.replica)
        before, self._members = self._members, (*living, *former)
        for member in set(before) - set(self._members):
            self.room.leave(member.copy)
        names = {member.copy.replica for member in living}
        self.traffic.mark_former(
            frozenset(name for member in former if (name := member.copy.replica) not in names)
        )

    def _compare(self) -> None:
        """Compare what the replicas offer."""
        offers = dict[str, dict[str, Offer]]()
        for member in self._members:
            copy = member.copy
            for server in copy.view().servers if not member.is_over else ():
                folder = member.found.folders.get(server.name, "")
                offer = Offer(server.version, copy.catalogue(server.name), folder)
                offers.setdefault(server.name, {})[copy.replica] = offer
        self._comparison.compare(offers)
