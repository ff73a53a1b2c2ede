"""Interface through which a front end reads the state of a core and sends it intents.

`Link` inherits from one base class (a facet) for each subject. By default, the methods of a facet do nothing
and return empty results. An implementation overrides only the facets that it supports: `local.LocalLink`
overrides all, `capture_link.CaptureLink` only a few. A method with the decorator `intent` or `snapshot` also
works for cores in other processes: `core_copy.CoreCopy` sends it to the core, and the link of several cores
sends it to the cores of its `Route`.

Every method may be called on the front end's thread. Snapshots return at once and never wait for the core, so
that a front end can show a core that is stuck. Intents that take time return futures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar, Protocol, TypeVar

from mcpdesk.errors import DeskUserError
from mcpdesk.hosting.client_config import ClientTransport as ClientTransport
from mcpdesk.inbox.question import Answer, Question
from mcpdesk.link.feature_part import FeaturePart, Intent
from mcpdesk.link.feature_part import Result as PartResult
from mcpdesk.link.link_methods import INTENTS as INTENTS
from mcpdesk.link.link_methods import SNAPSHOTS as SNAPSHOTS
from mcpdesk.link.link_methods import Facet, Route, first, intent, snapshot, union
from mcpdesk.link.values import (
    CallbackView,
    CallOutcome,
    Catalogue,
    ClientDetail,
    CoreView,
    GrantView,
    JobOutput,
    JobUse,
    JobView,
    LogLine,
    Notice,
    Policy,
    Progress,
    SchemaFailure,
    ServerOffer,
    SettingView,
    TodoView,
    UntrustedFile,
)
from mcpdesk.protocol.jsonrpc import Id
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.interceptor import NOT_DONE

Part = TypeVar("Part", bound=FeaturePart)
Result = TypeVar("Result")


class LinkCall(Protocol):
    """Running request of the front end, which acts as the client `desk`."""

    @property
    def request_id(self) -> int:
        """JSON-RPC id on the desk's connection."""

    @property
    def connection(self) -> int:
        """Recorder's number for the connection of the desk. It identifies the frames of the call."""

    @property
    def started(self) -> float:
        """Unix time in seconds when the request started."""

    @property
    def progress(self) -> Progress | None:
        """Latest progress, or None."""

    @property
    def logs(self) -> Sequence[str]:
        """Texts of the log notifications that this request has received so far."""

    @property
    def outcome(self) -> Future[CallOutcome]:
        """Future that completes when the response arrives or the call is cancelled.

        It has a result even if the call failed.
        """

    def cancel(self) -> None:
        """Send `notifications/cancelled`. The call ends at once."""


class ServerFacet(Facet):
    """Intents and snapshots about servers and their catalogues."""

    def catalogue(self, server: str) -> Catalogue:
        """Return the catalogue of a server. The same object is returned until the catalogue changes."""
        return Catalogue(server, 0, ())

    def validate(self, server: str, tool: str, arguments: Any) -> list[SchemaFailure]:
        """Check arguments as a call would. An empty list means that they are valid."""
        return []

    @intent(Route.WITH_SERVER)
    def reload(self, server: str) -> None:
        """Reload the server folder now."""

    @intent(Route.WITH_SERVER)
    def reconnect_with_revision(self, server: str, revision: str) -> None:
        """Reconnect to an upstream server with a revision. Empty selects the newest common one."""

    @intent(Route.EVERY_CORE, first)
    def untrusted(self, text: str) -> Future[UntrustedFile | None]:
        """Return the file that the person must trust before `add_server` can use this text, or None if no
        trust is needed.
        """
        return finished(None)

    @intent(Route.ANY_CORE)
    def server_offers(self) -> Future[tuple[ServerOffer, ...]]:
        """Return servers on this machine that the person may want to add. Nothing is started."""
        return finished(())

    @intent(Route.EVERY_CORE, union)
    def add_server(self, text: str, agreed: str = "") -> Future[tuple[str, ...]]:
        """Add the servers in a text, written as on the command line. The result has their names.

        If the text names a configuration file, `agreed` is the SHA-256 of the content that the person trusts.
        If the server cannot be added, the future fails with ValueError and one or two sentences for the
        person.
        """
        failure: Future[tuple[str, ...]] = Future()
        failure.set_exception(ValueError("No server can be added here."))
        return failure

    @intent(Route.WITH_SERVER)
    def remove_server(self, server: str) -> None:
        """Remove a server. Ignored if it does not exist."""

    @intent(Route.SERVING)
    def log_in(self, server: str) -> None:
        """Log in to an upstream server with a browser. The address to visit arrives as a question."""

    @intent(Route.SERVING)
    def client_config(
        self, server: str, client: str, key: str | None = None, mode: str = "", over: ClientTransport = ""
    ) -> Future[str]:
        """Return the text to paste into a client's configuration. Empty for an unknown server.

        `client` is `claude-desktop`, `cursor`, `vscode` or `claude-code`, or `curl` for a single request.
        `key` replaces the core's own key, if the core requires one. `over` is `stdio` or `http`; empty
        selects the client's preferred transport. The client gets the tools of `mode`; empty means all tools.
        """
        return finished("")


class CallFacet(Facet):
    """Calls that the front end makes as the client `desk`."""

    def request(self, server: str, method: str, params: dict[str, Any]) -> LinkCall:
        """Send a request over the in-memory transport. It is recorded like any other.

        Raises: DeskUserError if no server is hosted.
        """
        raise DeskUserError("Requests cannot be sent to a capture.", "Open the desk on the server's folder.")

    @intent(Route.WITH_SERVER, union)
    def give_token(self, server: str, text: str, needs: Collection[str] = ()) -> Future[tuple[str, ...]]:
        """Use a token for the calls to a server until the token expires.

        The token is checked by the server's rules now. The result has the scopes in `needs` that the token
        lacks. If scopes are missing, the token is not used. For an invalid token the future fails with
        ValueError and the reason, as a clause after `it`. Raises: DeskUserError if no server is hosted.
        """
        raise DeskUserError("Tools of a capture cannot be called.", "Open the desk on the server's folder.")

    @intent(Route.WITH_SERVER)
    def drop_token(self, server: str) -> None:
        """Stop using the token of a server."""

    @intent(Route.WITH_SERVER)
    def set_log_level(self, server: str, level: str) -> Future[bool]:
        """Ask a server for log messages of this level and above.

        The result is False if the server cannot be asked. The future fails with ValueError if the server has
        no log messages or refuses.
        """
        return _not_done()

    @intent(Route.EVERY_CORE)
    def choose_roots(self, texts: list[str]) -> Future[bool]:
        """Set the roots that the desk offers to servers, as URIs or paths, and notify the servers.

        The future fails with ValueError if a root is invalid; the message names it.
        """
        return _not_done()

    @intent(Route.SERVING)
    def watch(self, server: str, uri: str) -> None:
        """Subscribe to a resource."""

    @intent(Route.SERVING)
    def unwatch(self, server: str, uri: str) -> None:
        """Unsubscribe from a resource."""

    def watched(self, server: str) -> Mapping[str, int]:
        """Return the subscribed resources, each with the number of updates received.

        Subscriptions that a server refused are left out.
        """
        return {}


class QuestionFacet(Facet):
    """Questions in the inbox."""

    @snapshot(lambda view: view.questions_version)
    def questions(self) -> tuple[Question, ...]:
        """Return waiting questions, oldest first, then ended ones, newest first. The number is limited."""
        return ()

    @intent(Route.QUESTION)
    def answer(self, question: int, answers: Sequence[Answer], by: str = "desk") -> Future[bool]:
        """Answer a question. The result is False if it has already ended: the first answer counts.

        The future fails with ValueError for invalid answers.
        """
        return _not_done()

    @intent(Route.QUESTION)
    def decline(self, question: int, reason: str = "", by: str = "desk") -> Future[bool]:
        """Decline a question. The result is False if it has already ended."""
        return _not_done()

    @intent(Route.QUESTION)
    def cancel_question(self, question: int, by: str = "desk") -> Future[bool]:
        """End a question without an answer. The result is False if the question cannot be ended."""
        return _not_done()


class PolicyFacet(Facet):
    """Policies of tools, and approvals of peers."""

    @intent(Route.WITH_STATE)
    def choose_policy(self, server: str, tool: str, policy: Policy) -> None:
        """Set the policy of a tool."""

    @snapshot()
    def grants(self) -> tuple[GrantView, ...]:
        """Return the approvals of all servers, newest first."""
        return ()

    @intent(Route.WITH_SERVER)
    def revoke(self, grant: GrantView) -> None:
        """Withdraw an approval. Ignored if it does not exist."""


class WorkFacet(Facet):
    """Work that outlives a call: jobs, callbacks, task lists, plans."""

    @snapshot()
    def jobs(self) -> tuple[JobView, ...]:
        """Return background programs, asynchronous calls and tasks, oldest first. The number is limited."""
        return ()

    @intent(Route.EVERY_CORE)
    def usage(self) -> Mapping[str, JobUse]:
        """Return resource usage of running programs, by job id.

        Takes milliseconds, so do not call it on the UI thread.
        """
        return {}

    @intent(Route.JOB)
    def output(self, job: str, after: int) -> JobOutput | None:
        """Return output of a job from byte `after` on. Reads a file, so do not call it on the UI thread.

        If `after` is -1 or too old, return the last part. None if the job has no output.
        """
        return None

    @intent(Route.JOB)
    def kill_job(self, job: str) -> None:
        """Kill a job and all its descendants. Ignored if it has ended."""

    @snapshot(lambda view: view.work.callbacks_version)
    def callbacks(self) -> tuple[CallbackView, ...]:
        """Return scheduled callbacks and recently ended ones, oldest first."""
        return ()

    @intent(Route.CALLBACK)
    def fire_callback(self, server: str, number: int) -> None:
        """Fire a callback now, before it is due. Ignored if it has ended."""

    @intent(Route.CALLBACK)
    def cancel_callback(self, server: str, number: int) -> None:
        """Cancel a callback. Ignored if it has ended."""

    @snapshot(lambda view: view.work.todo_version)
    def todo(self) -> tuple[TodoView, ...]:
        """Return the newest tasks of the clients' task lists, oldest first. The number is limited."""
        return ()

    @intent(Route.PLAN)
    def plan_text(self, server: str, session: str) -> str | None:
        """Return a session's plan as Markdown, or None if the session has no plan.

        Reads a file, so do not call it on the UI thread.
        """
        return None

    @intent(Route.PLAN)
    def end_plan(self, server: str, session: str) -> None:
        """End the plan mode of a session. Ignored if it has ended."""


class ClientFacet(Facet):
    """Connected clients."""

    def client(self, connection: int) -> ClientDetail | None:
        """Return details of one client, or None if it has left."""
        return None

    @intent(Route.CONNECTION)
    def disconnect(self, connection: int) -> None:
        """Close the session or connection of a client. Ignored if it has left."""

    @intent(Route.CONNECTION)
    def cancel_call(self, connection: int, id: Id, started: float) -> Future[bool]:
        """Cancel a running call of a client. The client receives an error.

        `started` is that of its `RunningCall`. The result is False if no such call runs, even if another call
        has the same id now.
        """
        return _not_done()


class FeatureFacet(Facet):
    """State that features add to a core, and requests about it."""

    def feature_part(self, kind: type[Part]) -> Part:
        """Return the state of one kind. If the core lacks its feature, return the default state."""
        return kind()

    @intent(Route.ITEM)
    def do(self, intent: Intent[PartResult]) -> Future[PartResult]:
        """Carry out a request.

        A result that is False means that the request had no effect, because its item no longer exists. The
        future fails with ValueError for an invalid request, and if the core lacks the feature.
        """
        failure: Future[PartResult] = Future()
        failure.set_exception(ValueError(NOT_DONE))
        return failure


class SettingFacet(Facet):
    """Settings of the core."""

    @intent(Route.ANY_CORE)
    def settings(self) -> Future[tuple[SettingView, ...]]:
        """Return all settings of the core with their values. Secrets are masked."""
        return finished(())


class LogFacet(Facet):
    """Log lines and notices of the core."""

    def logs(self, after: int = -1) -> list[LogLine]:
        """Return log lines numbered above `after`, oldest first. Only the newest are kept."""
        return []

    def notices(self, after: int = -1) -> list[Notice]:
        """Return notices numbered above `after`, oldest first. Only the newest are kept."""
        return []


class Link(
    ServerFacet,
    CallFacet,
    QuestionFacet,
    PolicyFacet,
    WorkFacet,
    ClientFacet,
    FeatureFacet,
    SettingFacet,
    LogFacet,
    ABC,
):
    """Access of a front end to one core."""

    traffic: Index
    """All recorded frames, paired into exchanges. Read only, because the core uses the same object."""
    is_remote: ClassVar[bool] = False
    """True if the core is in another process. Work in this process then does not delay the core's clients."""

    @abstractmethod
    def view(self) -> CoreView:
        """Return a snapshot of the core."""

    @property
    def reports_changes(self) -> bool:
        """True if `on_change` reports every change. If False, a front end must poll."""
        return False

    def on_change(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` when the core may have changed. Return a function that stops these calls.

        The listener is called often and on any thread. It must return at once.
        """
        return _do_nothing

    def busy(self) -> tuple[str, ...]:
        """Return the work that quitting would interrupt, as phrases such as `2 running calls`."""
        return ()


def promise() -> Future[Any]:
    """Return a future that must be given a result or an exception. Cancelling it has no effect."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def finished(result: Result) -> Future[Result]:
    """Return a future that already has its result."""
    future: Future[Result] = Future()
    future.set_result(result)
    return future


def _do_nothing() -> None:
    pass


def _not_done() -> Future[bool]:
    return finished(False)
