"""The interface through which a front end sees and steers a core: snapshots out, intents in.

`Link` is made of facets, one for each subject. A facet's own methods answer for a core that has nothing of
the kind, so an implementation overrides only the facets it has: `local.LocalLink` all of them,
`capture_link.CaptureLink` nearly none. Every method may be called from the front end's thread. Snapshots are
cheap and never wait for the core, so a stuck core still has a screen. Intents that wait return futures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar, Protocol, TypeVar

from mcpdesk.errors import DeskUserError
from mcpdesk.hosting.client_config import Over as Over
from mcpdesk.inbox.question import Answer, Question
from mcpdesk.link.values import (
    CallbackView,
    CallOutcome,
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
    Progress,
    SchemaFailure,
    TodoView,
    UntrustedFile,
    Verdict,
    Ways,
)
from mcpdesk.recorder.index.traffic_index import Index

Result = TypeVar("Result")


class LinkCall(Protocol):
    """A request of the front end's own, under way as the peer `desk`."""

    @property
    def request_id(self) -> int:
        """Its JSON-RPC id on the desk's connection."""

    @property
    def connection(self) -> int:
        """The recorder's number of the desk's connection, to find its frames."""

    @property
    def started(self) -> float:
        """Unix time in seconds."""

    @property
    def progress(self) -> Progress | None:
        """The latest progress, or None."""

    @property
    def logs(self) -> Sequence[str]:
        """Text of the log notifications that came with it so far."""

    @property
    def outcome(self) -> Future[CallOutcome]:
        """Done when the response arrived or the call was cancelled. Never raises for a failed call."""

    def cancel(self) -> None:
        """Send `notifications/cancelled`; the outcome follows at once."""


class ServerFacet:
    """What the hosted servers offer."""

    def catalogue(self, server: str) -> Catalogue:
        """What a server offers now. The same object until it changes."""
        return Catalogue(server, 0, ())

    def validate(self, server: str, tool: str, arguments: Any) -> list[SchemaFailure]:
        """Check arguments with the validator a call would use. An empty list means that they are valid."""
        return []

    def reload(self, server: str) -> None:
        """Read the server's folder again now."""

    def speak(self, server: str, revision: str) -> None:
        """Connect anew to a server that is no folder, in this revision; empty: the newest that both know."""

    def untrusted(self, text: str) -> Future[UntrustedFile | None]:
        """The file in a text for `add_server` whose content the person has to agree to first, or None."""
        return finished(None)

    def add_server(self, text: str, agreed: str = "") -> Future[tuple[str, ...]]:
        """Put a server on the desk, named as on the command line; the future has the names of what came.

        `agreed` is the SHA-256 of a configuration file in it whose content the person agreed to.
        It fails with ValueError, one or two sentences for a person, for what cannot be put there.
        """
        refused: Future[tuple[str, ...]] = Future()
        refused.set_exception(ValueError("Nothing can be added here."))
        return refused

    def remove_server(self, server: str) -> None:
        """Take a server off the desk; ignored when it is not there."""

    def log_in(self, server: str) -> None:
        """Log in to a remote server with a browser; the address to visit arrives as a question."""

    def client_config(
        self, server: str, client: str, key: str | None = None, mode: str = "", over: Over = ""
    ) -> Future[str]:
        """Ask for the text to paste into a client's configuration; empty for an unknown server.

        `client` is `claude-desktop`, `cursor`, `vscode` or `claude-code`, or `curl` for one request. `key`
        replaces the core's own key, if the core asks for one. `over` is `stdio` or `http`; empty means what
        suits the client. The client gets the tools of `mode`; empty means all.
        """
        return finished("")


class CallFacet:
    """The front end's own calls, as the peer `desk`."""

    def request(self, server: str, method: str, params: dict[str, Any]) -> LinkCall:
        """Send one request over the in-memory transport; it is recorded like any other.

        Raises: DeskUserError where nothing is hosted.
        """
        raise DeskUserError("A capture cannot be asked anything.", "Open the desk on the server's folder.")

    def give_token(self, server: str, text: str, needs: Collection[str] = ()) -> Future[tuple[str, ...]]:
        """Call as the subject of a token until it ends. The server's own rules check it now.

        The future has those of `needs` that the token does not allow; with any, it is not used. The future
        fails with ValueError for a token that is not valid; the reason is worded to follow `it`.
        Raises: DeskUserError where nothing is hosted.
        """
        raise DeskUserError("A capture cannot be called.", "Open the desk on the server's folder.")

    def drop_token(self, server: str) -> None:
        """Call without a token again."""

    def set_log_level(self, server: str, level: str) -> Future[bool]:
        """Ask a server for log messages of this level and above; False where there is nothing to ask.

        The future fails with ValueError when the server has none, or refuses.
        """
        return _not_done()

    def choose_roots(self, texts: list[str]) -> Future[bool]:
        """Name these folders, URIs or paths, to servers that ask for the desk's roots; servers are told.

        The future fails with ValueError naming what is no root.
        """
        return _not_done()

    def watch(self, server: str, uri: str) -> None:
        """Subscribe to a resource."""

    def unwatch(self, server: str, uri: str) -> None:
        """Cancel the subscription of a resource."""

    def watched(self, server: str) -> Mapping[str, int]:
        """Subscribed resources, and how often each was reported as changed. Refused ones are left out."""
        return {}


class QuestionFacet:
    """The inbox of questions."""

    def questions(self) -> tuple[Question, ...]:
        """Waiting questions first, oldest first, then the ended ones, newest first (bounded)."""
        return ()

    def answer(self, question: int, answers: Sequence[Answer], by: str = "desk") -> Future[bool]:
        """Answer a waiting question; False when it is no longer waiting, because the first answer wins.

        The future fails with ValueError for answers that do not fit.
        """
        return _not_done()

    def decline(self, question: int, reason: str = "", by: str = "desk") -> Future[bool]:
        """Decline a waiting question; False when it is no longer waiting."""
        return _not_done()

    def cancel_question(self, question: int, by: str = "desk") -> Future[bool]:
        """Close a waiting question without saying yes or no; False where that is not possible."""
        return _not_done()


class PolicyFacet:
    """Which tools may be called, and by whom without approval."""

    def choose_policy(self, server: str, tool: str, policy: Policy) -> None:
        """Say whether clients may call a tool."""

    def grants(self) -> tuple[GrantView, ...]:
        """Peers that need no approval any more, of all servers, the newest first."""
        return ()

    def revoke(self, grant: GrantView) -> None:
        """Require approval for a peer again; ignored when it is required already."""


class OperatorFacet:
    """Browsers in which the operator is signed in."""

    def sign_in_link(self) -> Future[str]:
        """Return the address of the dashboard with a word that signs in one browser, once.

        The future fails with ValueError if the core does not listen on TCP.
        """
        refused: Future[str] = Future()
        refused.set_exception(ValueError("Nothing is served here, so there is no dashboard."))
        return refused

    def sign_out_browsers(self) -> Future[int]:
        """End the sign-ins of all browsers; returns how many there were."""
        return finished(0)


class WorkFacet:
    """Work that outlives a call: jobs, callbacks, task lists, plans."""

    def jobs(self) -> tuple[JobView, ...]:
        """Programs in the background, asynchronous calls and tasks, oldest first (bounded)."""
        return ()

    def usage(self) -> Mapping[str, JobUse]:
        """What running programs use, by job. Takes milliseconds: not for the thread of the screen."""
        return {}

    def output(self, job: str, after: int) -> JobOutput | None:
        """What a job wrote from byte `after` on, or the end of it when `after` is -1 or too far back.

        None for a job without output. Reads a file: not for the thread of the screen.
        """
        return None

    def kill_job(self, job: str) -> None:
        """End a job with all it started; ignored when it is over."""

    def callbacks(self) -> tuple[CallbackView, ...]:
        """Callbacks that wait, and those that are over as long as they are kept, oldest first."""
        return ()

    def fire_callback(self, server: str, number: int) -> None:
        """Let a callback fire now, before its time; ignored when it is over."""

    def cancel_callback(self, server: str, number: int) -> None:
        """Cancel a callback; ignored when it is over."""

    def todo(self) -> tuple[TodoView, ...]:
        """The newest tasks of the lists clients keep, oldest first (bounded)."""
        return ()

    def plan_text(self, server: str, session: str) -> str | None:
        """The Markdown of a session's plan, or None without one. Reads a file: call it on a worker thread."""
        return None

    def end_plan(self, server: str, session: str) -> None:
        """End the plan mode of a session; ignored when it has ended."""


class ClientFacet:
    """Connected clients."""

    def client(self, connection: int) -> ClientDetail | None:
        """More about one client; None when it is gone."""
        return None

    def disconnect(self, connection: int) -> None:
        """End the session or the connection of a client; ignored when it is gone."""


class HoldFacet:
    """Messages that wait at the desk for a person."""

    def held(self) -> HoldView:
        """What is to be held, and what is, oldest first."""
        return HoldView()

    def hold(self, rule: str, ways: Ways) -> Future[bool]:
        """Hold what a filter of the traffic lets pass; with an empty one all goes on.

        The future fails with ValueError for what is no filter.
        """
        return _not_done()

    def let_go(self, number: int, how: Verdict, text: str = "") -> Future[bool]:
        """Let a held message go on, changed or not, or not at all; False when it is not held any more.

        The future fails with ValueError for a text that cannot stand in its place.
        """
        return _not_done()

    def delay(self, number: int, seconds: float) -> Future[bool]:
        """Let a held message go on by itself after some seconds; False when it is not held any more."""
        return _not_done()

    def can(self, what: CannedCall, answer: str) -> Future[bool]:
        """Answer such requests with a captured answer from now on; an empty one ends that.

        The future fails with ValueError for what is no answer.
        """
        return _not_done()

    def set_faults(self, text: str) -> Future[bool]:
        """Let messages meet faults as rules say, a line each; without any, none.

        The future fails with ValueError for what is no rule.
        """
        return _not_done()


class LogFacet:
    """Log lines and notices."""

    def logs(self, after: int = -1) -> list[LogLine]:
        """Log lines numbered above `after`, oldest first (bounded in the past)."""
        return []

    def notices(self, after: int = -1) -> list[Notice]:
        """Notices numbered above `after`, oldest first (bounded in the past)."""
        return []


class Link(
    ServerFacet,
    CallFacet,
    QuestionFacet,
    PolicyFacet,
    OperatorFacet,
    WorkFacet,
    ClientFacet,
    HoldFacet,
    LogFacet,
    ABC,
):
    """A front end's view of one core."""

    traffic: Index
    """Every frame the recorder has seen, paired into exchanges. Shared: read only."""
    is_elsewhere: ClassVar[bool] = False
    """Whether the core is another process: its clients do not wait for what the screen takes of this one."""

    @abstractmethod
    def view(self) -> CoreView:
        """Everything small, at this moment."""

    @property
    def reports_changes(self) -> bool:
        """True if `on_change` reports every change. Otherwise a front end polls."""
        return False

    def on_change(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener`, on any thread, when the core may have changed; returns what ends that.

        It is called often, and must return at once.
        """
        return _do_nothing

    def busy(self) -> tuple[str, ...]:
        """What would be lost by quitting, one phrase each: `2 running calls`, `1 connected client`."""
        return ()


def promise() -> Future[Any]:
    """A future that always gets a result or an exception: who stops waiting for it does not cancel it."""
    done: Future[Any] = Future()
    done.set_running_or_notify_cancel()
    return done


def finished(result: Result) -> Future[Result]:
    """A future that has its result already."""
    done: Future[Result] = Future()
    done.set_result(result)
    return done


def _do_nothing() -> None:
    pass


def _not_done() -> Future[bool]:
    return finished(False)
