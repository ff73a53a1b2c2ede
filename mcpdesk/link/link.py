"""Interface through which a front end reads the state of a core and sends it intents.

`Link` consists of facets, one for each subject. The methods of a facet return what a core without that
subject would return, so an implementation overrides only the facets it supports: `local.LocalLink` all of
them, `capture_link.CaptureLink` nearly none. Every method may be called from the front end's thread.
Snapshots are cheap and never wait for the core, so that a front end can show a core that is stuck. Intents
that wait return futures.
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
    """Running request of the front end, sent as the peer `desk`."""

    @property
    def request_id(self) -> int:
        """JSON-RPC id on the desk's connection."""

    @property
    def connection(self) -> int:
        """Recorder's number of the desk's connection, used to find its frames."""

    @property
    def started(self) -> float:
        """Start of the request, Unix time in seconds."""

    @property
    def progress(self) -> Progress | None:
        """Latest progress, or None."""

    @property
    def logs(self) -> Sequence[str]:
        """Texts of the log notifications received for this request so far."""

    @property
    def outcome(self) -> Future[CallOutcome]:
        """Future that is done when the response arrives or the call is cancelled.

        Never raises for a failed call.
        """

    def cancel(self) -> None:
        """Send `notifications/cancelled` and end the call at once."""


class ServerFacet:
    """Servers and their catalogues."""

    def catalogue(self, server: str) -> Catalogue:
        """Return the catalogue of a server. The same object is returned until it changes."""
        return Catalogue(server, 0, ())

    def validate(self, server: str, tool: str, arguments: Any) -> list[SchemaFailure]:
        """Check arguments with the validator that a call would use.

        An empty list means that they are valid.
        """
        return []

    def reload(self, server: str) -> None:
        """Reload the server folder now."""

    def speak(self, server: str, revision: str) -> None:
        """Reconnect to an upstream server with this revision; empty selects the newest common revision."""

    def untrusted(self, text: str) -> Future[UntrustedFile | None]:
        """Return the file in a text for `add_server` that the person must trust first, or None."""
        return finished(None)

    def add_server(self, text: str, agreed: str = "") -> Future[tuple[str, ...]]:
        """Add a server, named as on the command line. The future returns the names of the added servers.

        `agreed` is the SHA-256 of a configuration file in it that the person has agreed to trust. The future
        fails with ValueError, one or two sentences for a person, if the server cannot be added.
        """
        refused: Future[tuple[str, ...]] = Future()
        refused.set_exception(ValueError("No server can be added here."))
        return refused

    def remove_server(self, server: str) -> None:
        """Remove a server; ignored if it does not exist."""

    def log_in(self, server: str) -> None:
        """Log in to a remote server with a browser; the address to visit arrives as a question."""

    def client_config(
        self, server: str, client: str, key: str | None = None, mode: str = "", over: Over = ""
    ) -> Future[str]:
        """Return the text to paste into a client's configuration; empty for an unknown server.

        `client` is `claude-desktop`, `cursor`, `vscode` or `claude-code`, or `curl` for a single request.
        `key` replaces the core's own key, if the core requires one. `over` is `stdio` or `http`; empty
        selects the transport that suits the client. The client receives the tools of `mode`; empty means all
        tools.
        """
        return finished("")


class CallFacet:
    """Calls that the front end makes as the peer `desk`."""

    def request(self, server: str, method: str, params: dict[str, Any]) -> LinkCall:
        """Send a request over the in-memory transport. It is recorded like any other request.

        Raises: DeskUserError if no server is hosted.
        """
        raise DeskUserError("Requests cannot be sent to a capture.", "Open the desk on the server's folder.")

    def give_token(self, server: str, text: str, needs: Collection[str] = ()) -> Future[tuple[str, ...]]:
        """Call as the subject of a token until the token expires. The rules of the server are checked now.

        The future returns the scopes of `needs` that the token lacks; if there are any, the token is not
        used. The future fails with ValueError for an invalid token; the reason is worded to follow `it`.
        Raises: DeskUserError if no server is hosted.
        """
        raise DeskUserError("Tools of a capture cannot be called.", "Open the desk on the server's folder.")

    def drop_token(self, server: str) -> None:
        """Stop using the token."""

    def set_log_level(self, server: str, level: str) -> Future[bool]:
        """Request log messages of this level and above from a server; False if no server can be asked.

        The future fails with ValueError if the server has no log messages or refuses.
        """
        return _not_done()

    def choose_roots(self, texts: list[str]) -> Future[bool]:
        """Set the folders, URIs or paths, that the desk offers as roots, and notify the servers.

        The future fails with ValueError that names an invalid root.
        """
        return _not_done()

    def watch(self, server: str, uri: str) -> None:
        """Subscribe to a resource."""

    def unwatch(self, server: str, uri: str) -> None:
        """Unsubscribe from a resource."""

    def watched(self, server: str) -> Mapping[str, int]:
        """Return subscribed resources with the number of updates received.

        Refused subscriptions are left out.
        """
        return {}


class QuestionFacet:
    """The inbox of questions."""

    def questions(self) -> tuple[Question, ...]:
        """Return waiting questions, oldest first, then ended ones, newest first (bounded)."""
        return ()

    def answer(self, question: int, answers: Sequence[Answer], by: str = "desk") -> Future[bool]:
        """Answer a waiting question; False if it is no longer waiting, because the first answer wins.

        The future fails with ValueError for invalid answers.
        """
        return _not_done()

    def decline(self, question: int, reason: str = "", by: str = "desk") -> Future[bool]:
        """Decline a waiting question; False if it is no longer waiting."""
        return _not_done()

    def cancel_question(self, question: int, by: str = "desk") -> Future[bool]:
        """Cancel a waiting question without an answer; False if it cannot be cancelled."""
        return _not_done()


class PolicyFacet:
    """Tool policies, and peers that call without approval."""

    def choose_policy(self, server: str, tool: str, policy: Policy) -> None:
        """Set the policy of a tool."""

    def grants(self) -> tuple[GrantView, ...]:
        """Return the grants of all servers, newest first."""
        return ()

    def revoke(self, grant: GrantView) -> None:
        """Require approval from a peer again; ignored if it is required already."""


class OperatorFacet:
    """Browsers in which the operator is signed in."""

    def sign_in_link(self) -> Future[str]:
        """Return the dashboard's URL with a one-time word that signs in one browser.

        The future fails with ValueError if the core does not listen on TCP.
        """
        refused: Future[str] = Future()
        refused.set_exception(ValueError("HTTP is not served here, so no dashboard is available."))
        return refused

    def sign_out_browsers(self) -> Future[int]:
        """Sign out all browsers; the future returns how many there were."""
        return finished(0)


class WorkFacet:
    """Work that outlives a call: jobs, callbacks, task lists, plans."""

    def jobs(self) -> tuple[JobView, ...]:
        """Return background programs, asynchronous calls and tasks, oldest first (bounded)."""
        return ()

    def usage(self) -> Mapping[str, JobUse]:
        """Return resource usage of running programs, by job id.

        Takes milliseconds: do not call it on the UI thread.
        """
        return {}

    def output(self, job: str, after: int) -> JobOutput | None:
        """Return output of a job from byte `after` on, or its last part if `after` is -1 or too far back.

        None if the job has no output. Reads a file: do not call it on the UI thread.
        """
        return None

    def kill_job(self, job: str) -> None:
        """Kill a job and all its descendants; ignored if it has ended."""

    def callbacks(self) -> tuple[CallbackView, ...]:
        """Return pending callbacks and recently finished ones, oldest first."""
        return ()

    def fire_callback(self, server: str, number: int) -> None:
        """Fire a callback now, before it is due; ignored if it has ended."""

    def cancel_callback(self, server: str, number: int) -> None:
        """Cancel a callback; ignored if it has ended."""

    def todo(self) -> tuple[TodoView, ...]:
        """Return the newest tasks of the clients' task lists, oldest first (bounded)."""
        return ()

    def plan_text(self, server: str, session: str) -> str | None:
        """Return the Markdown of a session's plan, or None without one.

        Reads a file: call it on a worker thread.
        """
        return None

    def end_plan(self, server: str, session: str) -> None:
        """End the plan mode of a session; ignored if it has ended."""


class ClientFacet:
    """Connected clients."""

    def client(self, connection: int) -> ClientDetail | None:
        """Return details of one client, or None if it has left."""
        return None

    def disconnect(self, connection: int) -> None:
        """Close the session or the connection of a client; ignored if it has left."""


class HoldFacet:
    """Messages that are held until a person decides."""

    def held(self) -> HoldView:
        """Return the hold rule and the held messages, oldest first."""
        return HoldView()

    def hold(self, rule: str, ways: Ways) -> Future[bool]:
        """Hold messages that match a traffic filter; an empty filter holds none and releases all.

        The future fails with ValueError for an invalid filter.
        """
        return _not_done()

    def let_go(self, number: int, how: Verdict, text: str = "") -> Future[bool]:
        """Release a held message, changed or not, or drop it; False if it is no longer held.

        The future fails with ValueError for a text that is not a valid replacement.
        """
        return _not_done()

    def delay(self, number: int, seconds: float) -> Future[bool]:
        """Release a held message after some seconds; False if it is no longer held."""
        return _not_done()

    def can(self, what: CannedCall, answer: str) -> Future[bool]:
        """Answer such requests with a captured answer from now on; an empty answer ends this.

        The future fails with ValueError for an invalid answer.
        """
        return _not_done()

    def set_faults(self, text: str) -> Future[bool]:
        """Set fault rules, one per line; an empty text removes all rules.

        The future fails with ValueError for an invalid rule.
        """
        return _not_done()


class LogFacet:
    """Log lines and notices."""

    def logs(self, after: int = -1) -> list[LogLine]:
        """Return log lines numbered above `after`, oldest first. Old lines are dropped."""
        return []

    def notices(self, after: int = -1) -> list[Notice]:
        """Return notices numbered above `after`, oldest first. Old notices are dropped."""
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
    """Front end's access to one core."""

    traffic: Index
    """All recorded frames, paired into exchanges. Shared with the core: read only."""
    is_elsewhere: ClassVar[bool] = False
    """True if the core is another process. Work in this process then does not delay its clients."""

    @abstractmethod
    def view(self) -> CoreView:
        """Return a snapshot of the core."""

    @property
    def reports_changes(self) -> bool:
        """True if `on_change` reports every change. Otherwise a front end must poll."""
        return False

    def on_change(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener`, on any thread, when the core may have changed; return an unsubscribe function.

        The listener is called often and must return at once.
        """
        return _do_nothing

    def busy(self) -> tuple[str, ...]:
        """Return what quitting would interrupt, one phrase each: `2 running calls`, `1 connected client`."""
        return ()


def promise() -> Future[Any]:
    """Return a future that always gets a result or an exception. Cancelling it has no effect."""
    done: Future[Any] = Future()
    done.set_running_or_notify_cancel()
    return done


def finished(result: Result) -> Future[Result]:
    """Return a future that already has its result."""
    done: Future[Result] = Future()
    done.set_result(result)
    return done


def _do_nothing() -> None:
    pass


def _not_done() -> Future[bool]:
    return finished(False)
