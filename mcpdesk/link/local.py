"""The link to a core in this process, on its own thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from mcpdesk.hosting.host import Host
from mcpdesk.inbox.question import Answer, Question
from mcpdesk.link.desk_answers import folder_roots
from mcpdesk.link.desk_client import DeskCall, DeskClient
from mcpdesk.link.link import Link
from mcpdesk.link.local_catalogue import LocalServers
from mcpdesk.link.local_clients import LocalClients
from mcpdesk.link.local_work import LocalWork
from mcpdesk.link.values import CoreView, GrantView, LogLine, Notice, Protection, ServerView, connected
from mcpdesk.protocol.revisions import BY_NAME


class LocalLink(LocalServers, LocalWork, LocalClients, Link):
    """Implements `Link` over a `Host`. Snapshots are read in place: the core need not answer for them."""

    def __init__(self, host: Host, present: int = 1) -> None:
        """`present` people look at this front end now: there is somebody to ask while it is not 0."""
        LocalServers.__init__(self, host)
        LocalWork.__init__(self, host)
        LocalClients.__init__(self, host)
        self.traffic = host.recording.index
        self._present = 0
        self._desks: dict[str, DeskClient] = {}
        """The desk's own connections, by server."""
        self._lock = threading.Lock()
        self.attend(present)

    def view(self) -> CoreView:
        """Everything small, at this moment."""
        host = self._host
        return CoreView(
            servers=tuple(self._server_view(name) for name in list(host.by_name)),
            clients=self.client_views(),
            protection=Protection(host.protection),
            api_key=host.rules.api_key,
            api_key_header=host.rules.api_key_header,
            capture_path=str(host.recording.path or ""),
            capture_failing=host.recording.failing,
            stuck=host.heartbeat.stuck(),
            questions_version=host.inbox.version,
            work=self.work_view(),
        )

    def request(self, server: str, method: str, params: dict[str, Any]) -> DeskCall:
        """Send one request as the peer `desk`."""
        return self._desk(server).request(method, params)

    def give_token(self, server: str, text: str, needs: Collection[str] = ()) -> Future[tuple[str, ...]]:
        """Call as the subject of a token."""
        return self._desk(server).token.give(text, needs)

    def drop_token(self, server: str) -> None:
        """Call without a token again."""
        self._desk(server).token.drop()

    def watch(self, server: str, uri: str) -> None:
        """Subscribe to a resource."""
        desk = self._desk(server)
        self._host.call_soon(lambda: desk.watch.add(uri))

    def unwatch(self, server: str, uri: str) -> None:
        """Cancel the subscription of a resource."""
        desk = self._desk(server)
        self._host.call_soon(lambda: desk.watch.remove(uri))

    def watched(self, server: str) -> Mapping[str, int]:
        """Subscribed resources, and how often each was reported as changed."""
        desk = self._desks.get(server)
        return {} if desk is None else desk.watch.updates

    def questions(self) -> tuple[Question, ...]:
        """Waiting ones first, then the ended ones."""
        return self._host.inbox.questions()

    def answer(self, question: int, answers: Sequence[Answer], by: str = "desk") -> Future[bool]:
        """Answer a waiting question."""
        return self._ask_core(lambda: self._host.inbox.answer(question, answers, by))

    def decline(self, question: int, reason: str = "", by: str = "desk") -> Future[bool]:
        """Decline a waiting question."""
        return self._ask_core(lambda: self._host.inbox.decline(question, reason, by))

    def cancel_question(self, question: int, by: str = "desk") -> Future[bool]:
        """Close a waiting question without saying yes or no."""
        return self._ask_core(lambda: self._host.inbox.cancel(question, by))

    def cycle_policy(self, server: str, tool: str) -> None:
        """Go on to the next policy of a tool."""
        self._host.call_soon(lambda: self._host.cycle_policy(server, tool))

    def grants(self) -> tuple[GrantView, ...]:
        """Peers that need no approval any more."""
        found = (
            GrantView(name, grant.tool, grant.peer, grant.granted)
            for name, endpoint in list(self._host.by_name.items())
            if (state := endpoint.server.hosted) is not None
            for grant in state.approvals.grants
        )
        return tuple(sorted(found, key=lambda grant: -grant.granted))

    def revoke(self, grant: GrantView) -> None:
        """Require approval for a peer again."""
        self._host.call_soon(lambda: self._host.revoke(grant.server, grant.tool, grant.peer))

    def logs(self, after: int = -1) -> list[LogLine]:
        """Log lines numbered above `after`."""
        return self._host.journal.lines(after)

    def notices(self, after: int = -1) -> list[Notice]:
        """Notices numbered above `after`."""
        return self._host.journal.notices(after)

    def busy(self) -> tuple[str, ...]:
        """What would be lost by quitting, one phrase each."""
        calls = sum(desk.running for desk in self._desks.values())
        # Those behind pipes go on with a core of their own.
        there = (each for each in self.client_views() if each.transport != "stdio")
        counted = (
            ("running call", calls),
            ("running job", sum(1 for each in self.jobs() if not each.state.is_final)),
            ("connected client", connected(there, time.time())),
            ("waiting question", sum(1 for each in self.questions() if each.state == "waiting")),
        )
        return tuple(f"{number} {noun}{'s' if number > 1 else ''}" for noun, number in counted if number)

    def attend(self, count: int) -> None:
        """So many people more look at this front end, less when negative."""
        self._host.call_soon(lambda: self._attend(count))

    def close(self) -> None:
        """This front end leaves."""
        self._host.call_soon(self._leave)

    def _desk(self, server: str) -> DeskClient:
        """The desk's connection to a server, opened when it is needed for the first time."""
        with self._lock:
            desk = self._desks.get(server)
            if desk is None:
                revision = BY_NAME[self._host.settings.desk_revision]
                endpoint = self._host.by_name[server]
                desk = DeskClient(endpoint, self._host.call_soon, self._roots, revision)
                self._desks[server] = desk
            return desk

    def _roots(self) -> list[dict[str, Any]]:
        return folder_roots(hosted.folder for hosted in list(self._host.folders.values()))

    def _server_view(self, name: str) -> ServerView:
        desk = self._desks.get(name)
        return self.server_view(name, None if desk is None else desk.token.view())

    def _ask_core(self, function: Callable[[], bool]) -> Future[bool]:
        """Run a function on the core's loop; its result, or what it raised, comes in the future."""
        done: Future[bool] = Future()

        def run() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                result = function()
            except ValueError as error:
                done.set_exception(error)
            except Exception as error:
                # A mistake of ours, which the loop tells of. Whoever waits for the future has to hear, too.
                done.set_exception(error)
                raise
            else:
                done.set_result(result)

        self._host.call_soon(run)
        return done

    def _attend(self, count: int) -> None:
        self._present += count
        self._host.inbox.audience += count

    def _leave(self) -> None:
        self._attend(-self._present)
        with self._lock:
            desks = list(self._desks.values())
        for desk in desks:
            desk.close()
