"""The one interface through which a front end sees and steers a core: snapshots out, intents in.

Every method may be called from the front end's thread. Snapshots are cheap and never wait for the core, so a
stuck core still has a screen. Intents that wait return futures.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from mcpdesk.hosting.client_config import Over as Over
from mcpdesk.inbox.question import Answer, Question
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
    Outcome,
    Progress,
    TodoView,
)
from mcpdesk.recorder.index.traffic_index import Index


class Call(Protocol):
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
    def outcome(self) -> Future[Outcome]:
        """Done when the response arrived or the call was cancelled. Never raises for a failed call."""

    def cancel(self) -> None:
        """Send `notifications/cancelled`; the outcome follows at once."""


class Link(Protocol):
    """A front end's view of one core."""

    @property
    def traffic(self) -> Index:
        """Every frame the recorder has seen, paired into exchanges. Shared: read only."""

    def view(self) -> CoreView:
        """Everything small, at this moment."""

    def catalogue(self, server: str) -> Catalogue:
        """What a server offers now. The same object until it changes."""

    def questions(self) -> tuple[Question, ...]:
        """Waiting questions first, oldest first, then the ended ones, newest first (bounded)."""

    def jobs(self) -> tuple[JobView, ...]:
        """Work that outlives its call, ended work as long as it is kept, oldest first (bounded)."""

    def usage(self) -> Mapping[str, JobUse]:
        """What running programs use, by job. Takes milliseconds: for another thread than the screen's."""

    def output(self, job: str, after: int) -> JobOutput | None:
        """What a program wrote from byte `after` on; a piece of its end for who is far behind (or -1).

        None for what has no output. Reads a file: for another thread than the screen's.
        """

    def kill_job(self, job: str) -> None:
        """End a job with all it started; ignored when it is over."""

    def callbacks(self) -> tuple[CallbackView, ...]:
        """Callbacks that wait, and those that are over as long as they are kept, oldest first."""

    def fire_callback(self, server: str, number: int) -> None:
        """Let a callback fire now, before its time; ignored when it is over."""

    def cancel_callback(self, server: str, number: int) -> None:
        """A callback shall not fire again; ignored when it is over."""

    def todo(self) -> tuple[TodoView, ...]:
        """The newest tasks of the lists clients keep, oldest first (bounded)."""

    def plan_text(self, server: str) -> str | None:
        """The Markdown of a server's plan; None where there is none. Reads a file: for another thread."""

    def logs(self, after: int = -1) -> list[LogLine]:
        """Log lines numbered above `after`, oldest first (bounded in the past)."""

    def notices(self, after: int = -1) -> list[Notice]:
        """Notices numbered above `after`, oldest first (bounded in the past)."""

    def validate(self, server: str, tool: str, arguments: Any) -> list[Failure]:
        """Check arguments with the very validator a call would use. Empty: valid."""

    def request(self, server: str, method: str, params: dict[str, Any]) -> Call:
        """Send one request as the peer `desk`, over the in-memory transport, recorded like any other."""

    def give_token(self, server: str, text: str, needs: Collection[str] = ()) -> Future[tuple[str, ...]]:
        """Be whom a token is of, as the peer `desk`, until it ends: the server's own rules check it now.

        The future has those of `needs` that it does not allow: with any, it was not taken. It fails with
        ValueError for a token that does not count, with the reason in words that follow `it`.
        """

    def drop_token(self, server: str) -> None:
        """Be anybody again."""

    def answer(self, question: int, answers: Sequence[Answer], by: str = "desk") -> Future[bool]:
        """Answer a waiting question; False when it is no longer waiting, because the first answer wins.

        The future fails with ValueError for answers that do not fit.
        """

    def decline(self, question: int, reason: str = "", by: str = "desk") -> Future[bool]:
        """Decline a waiting question; False when it is no longer waiting."""

    def client(self, connection: int) -> ClientDetail | None:
        """More about one client; None when it is gone."""

    def disconnect(self, connection: int) -> None:
        """End the session or the connection of a client; ignored when it is gone."""

    def cycle_policy(self, server: str, tool: str) -> None:
        """Go on to the next policy of a tool: allow, ask, deny."""

    def grants(self) -> tuple[GrantView, ...]:
        """Peers that need no approval any more, of all servers, the newest first."""

    def revoke(self, grant: GrantView) -> None:
        """Let a peer be approved again; ignored when it is anyway."""

    def cancel_question(self, question: int, by: str = "desk") -> Future[bool]:
        """Close a waiting question without saying yes or no; False where that is not possible."""

    def watch(self, server: str, uri: str) -> None:
        """Hear of the changes of a resource, as the peer `desk`."""

    def unwatch(self, server: str, uri: str) -> None:
        """Hear of them no more."""

    def watched(self, server: str) -> Mapping[str, int]:
        """Watched resources, and how often each is said to have changed. What was refused is not in it."""

    def reload(self, server: str) -> None:
        """Look at the server's folder again now."""

    def client_config(
        self, server: str, client: str, key: str | None = None, mode: str = "", over: Over = ""
    ) -> str:
        """Text to paste: `claude-desktop`, `cursor`, `vscode` or `claude-code`; `curl` for one request.

        `key` stands where the core's own would, if it asks for one. `over` is `stdio` or `http`; empty: as
        suits the client. A client has the tools of `mode`; empty: all.
        """

    def busy(self) -> tuple[str, ...]:
        """What would be lost by quitting, one phrase each: `2 running calls`, `1 connected client`."""
