"""The link to a core in this process, on its own thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from mcpdesk.hosting.client_config import Over, ServerAddress, client_config, own_command
from mcpdesk.hosting.host import Host
from mcpdesk.inbox.question import Answer, Question
from mcpdesk.link.catalogue import Shelf
from mcpdesk.link.desk_answers import folder_roots
from mcpdesk.link.desk_call import DeskCall
from mcpdesk.link.desk_client import DeskClient
from mcpdesk.link.modes import ModeList
from mcpdesk.link.peers import Peers
from mcpdesk.link.values import (
    CallbackView,
    Catalogue,
    ClientDetail,
    CoreView,
    Failure,
    GrantView,
    JobOutput,
    JobUse,
    JobView,
    LogLine,
    Notice,
    Protection,
    ServerView,
    TodoView,
    connected,
)
from mcpdesk.link.work import Work
from mcpdesk.protocol.revisions import BY_NAME
from mcpdesk.recorder.index.traffic_index import Index


class LocalLink:
    """Implements `Link` over a `Host`. Snapshots are read in place: the core need not answer for them."""

    def __init__(self, host: Host, present: int = 1) -> None:
        """`present` people look at this front end now: there is somebody to ask while it is not 0."""
        self._host = host
        self._present = 0
        self._clients: dict[str, DeskClient] = {}
        self._shelves: dict[str, Shelf] = {}
        self._modes: dict[str, ModeList] = {}
        self._lock = threading.Lock()
        self._peers = Peers(host)
        self._work = Work(host)
        self.attend(present)

    @property
    def traffic(self) -> Index:
        """Every recorded frame, paired into exchanges."""
        return self._host.recording.index

    def view(self) -> CoreView:
        """Everything small, at this moment."""
        host = self._host
        return CoreView(
            servers=tuple(self._server_view(name) for name in list(host.by_name)),
            clients=self._peers.views(),
            protection=Protection(host.protection),
            api_key=host.rules.api_key,
            api_key_header=host.rules.api_key_header,
            capture_path=str(host.recording.path or ""),
            capture_failing=host.recording.failing,
            stuck=host.heartbeat.stuck(),
            questions_version=host.inbox.version,
            work=self._work.view(),
        )

    def catalogue(self, server: str) -> Catalogue:
        """What a server offers now."""
        return self._shelf(server).catalogue()

    def questions(self) -> tuple[Question, ...]:
        """Waiting ones first, then the ended ones."""
        return self._host.inbox.questions()

    def jobs(self) -> tuple[JobView, ...]:
        """Work that outlives its call, oldest first."""
        return self._work.jobs()

    def usage(self) -> Mapping[str, JobUse]:
        """What running programs use."""
        return self._work.usage()

    def output(self, job: str, after: int) -> JobOutput | None:
        """What a program wrote."""
        return self._work.output(job, after)

    def kill_job(self, job: str) -> None:
        """End a job with all it started."""
        self._work.kill(job)

    def callbacks(self) -> tuple[CallbackView, ...]:
        """Messages that come back."""
        return self._work.callbacks()

    def fire_callback(self, server: str, number: int) -> None:
        """Let a callback fire now."""
        self._work.fire(server, number)

    def cancel_callback(self, server: str, number: int) -> None:
        """A callback shall not fire again."""
        self._work.cancel(server, number)

    def todo(self) -> tuple[TodoView, ...]:
        """The newest tasks of each server."""
        return self._work.todo()

    def plan_text(self, server: str) -> str | None:
        """The Markdown of a server's plan."""
        return self._work.plan_text(server)

    def logs(self, after: int = -1) -> list[LogLine]:
        """Log lines numbered above `after`."""
        return self._host.journal.lines(after)

    def notices(self, after: int = -1) -> list[Notice]:
        """Notices numbered above `after`."""
        return self._host.journal.notices(after)

    def validate(self, server: str, tool: str, arguments: Any) -> list[Failure]:
        """Check arguments with the validator a call would use."""
        failures = self._host.by_name[server].dispatcher.tool_calls.check(tool, arguments)
        return [Failure(each.path, each.message) for each in failures]

    def request(self, server: str, method: str, params: dict[str, Any]) -> DeskCall:
        """Send one request as the peer `desk`."""
        return self._client(server).request(method, params)

    def give_token(self, server: str, text: str, needs: Collection[str] = ()) -> Future[tuple[str, ...]]:
        """Be whom a token is of, as the peer `desk`."""
        return self._client(server).token.give(text, needs)

    def drop_token(self, server: str) -> None:
        """Be anybody again."""
        self._client(server).token.drop()

    def answer(self, question: int, answers: Sequence[Answer], by: str = "desk") -> Future[bool]:
        """Answer a waiting question."""
        return self._ask_core(lambda: self._host.inbox.answer(question, answers, by))

    def decline(self, question: int, reason: str = "", by: str = "desk") -> Future[bool]:
        """Decline a waiting question."""
        return self._ask_core(lambda: self._host.inbox.decline(question, reason, by))

    def client(self, connection: int) -> ClientDetail | None:
        """More about one client."""
        return self._peers.detail(connection)

    def disconnect(self, connection: int) -> None:
        """End the session or the connection of a client."""
        self._host.call_soon(lambda: self._host.disconnect(connection))

    def cycle_policy(self, server: str, tool: str) -> None:
        """Go on to the next policy of a tool."""
        self._host.call_soon(lambda: self._host.cycle_policy(server, tool))

    def grants(self) -> tuple[GrantView, ...]:
        """Peers that need no approval any more."""
        found = (
            GrantView(name, grant.tool, grant.peer, grant.granted)
            for name, endpoint in list(self._host.by_name.items())
            if (home := endpoint.server.home) is not None
            for grant in home.approvals.grants
        )
        return tuple(sorted(found, key=lambda grant: -grant.granted))

    def revoke(self, grant: GrantView) -> None:
        """Let a peer be approved again."""
        self._host.call_soon(lambda: self._host.revoke(grant.server, grant.tool, grant.peer))

    def cancel_question(self, question: int, by: str = "desk") -> Future[bool]:
        """Close a waiting question without saying yes or no."""
        return self._ask_core(lambda: self._host.inbox.cancel(question, by))

    def watch(self, server: str, uri: str) -> None:
        """Hear of the changes of a resource."""
        client = self._client(server)
        self._host.call_soon(lambda: client.watch.add(uri))

    def unwatch(self, server: str, uri: str) -> None:
        """Hear of them no more."""
        client = self._client(server)
        self._host.call_soon(lambda: client.watch.remove(uri))

    def watched(self, server: str) -> Mapping[str, int]:
        """Watched resources, and how often each is said to have changed."""
        client = self._clients.get(server)
        return {} if client is None else client.watch.updates

    def reload(self, server: str) -> None:
        """Look at the server's folder again now."""
        self._host.call_soon(lambda: self._host.reload(server))

    def client_config(
        self, server: str, client: str, key: str | None = None, mode: str = "", over: Over = ""
    ) -> str:
        """Text to paste into a client's configuration."""
        host = self._host
        url, own = host.url(server), host.rules.api_key
        hosted = host.by_name[server].server
        shown = key if own and key is not None else own
        header, folder = host.rules.api_key_header, str(hosted.folder or "")
        facts = ServerAddress(server, folder, url, shown, header, mode or hosted.mode, own_command())
        return client_config(client, facts, over)

    def busy(self) -> tuple[str, ...]:
        """What would be lost by quitting, one phrase each."""
        calls = sum(client.running for client in self._clients.values())
        # Those behind pipes go on with a core of their own.
        there = (each for each in self._peers.views() if each.transport != "stdio")
        peers = connected(there, time.time())
        waiting = sum(1 for each in self.questions() if each.state == "waiting")
        jobs = sum(1 for each in self.jobs() if not each.state.is_final)
        counted = (
            ("running call", calls),
            ("running job", jobs),
            ("connected client", peers),
            ("waiting question", waiting),
        )
        return tuple(f"{number} {noun}{'s' if number > 1 else ''}" for noun, number in counted if number)

    def attend(self, count: int) -> None:
        """So many people more look at this front end, less when negative."""
        self._host.call_soon(lambda: self._attend(count))

    def close(self) -> None:
        """This front end leaves."""
        self._host.call_soon(self._leave)

    def _client(self, server: str) -> DeskClient:
        with self._lock:
            client = self._clients.get(server)
            if client is None:
                client = DeskClient(
                    self._host.by_name[server],
                    self._host.call_soon,
                    self._roots,
                    BY_NAME[self._host.settings.desk_revision],
                )
                self._clients[server] = client
            return client

    def _roots(self) -> list[dict[str, Any]]:
        return folder_roots(hosted.folder for hosted in list(self._host.folders.values()))

    def _shelf(self, name: str) -> Shelf:
        """Made at the first look: folders may still be loading when the screen is there already."""
        shelf = self._shelves.get(name)
        if shelf is None:
            shelf = self._shelves[name] = Shelf(self._host.by_name[name].server)
        return shelf

    def _mode_list(self, name: str) -> ModeList:
        """Made at the first look, as a shelf is."""
        modes = self._modes.get(name)
        if modes is None:
            modes = self._modes[name] = ModeList(self._host.folders[name])
        return modes

    def _server_view(self, name: str) -> ServerView:
        server, desk = self._host.by_name[name].server, self._clients.get(name)
        return ServerView(
            name=name,
            title=server.title or name,
            version=server.version,
            folder=str(server.folder or ""),
            url=self._host.url(name),
            catalogue_version=self._shelf(name).version,
            problems=server.problems,
            modes=self._mode_list(name).views(),
            mode=server.mode,
            wants_token=server.access.requires_token,
            token_scopes=tuple(sorted(server.access.scopes)),
            looks_at_tokens=server.access.verifier is not None,
            token=None if desk is None else desk.token.view(),
        )

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
            clients = list(self._clients.values())
        for client in clients:
            client.close()
