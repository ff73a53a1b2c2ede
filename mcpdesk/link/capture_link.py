"""A front end's view of a capture on disk: its traffic, and a core that hosts nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NoReturn

from mcpdesk.errors import DeskUserError
from mcpdesk.hosting.client_config import Over
from mcpdesk.inbox.question import Answer, Question
from mcpdesk.link.values import (
    CallbackView,
    Catalogue,
    ClientDetail,
    CoreView,
    Failure,
    GrantView,
    JobUse,
    JobView,
    LogLine,
    Notice,
    Protection,
    Severity,
    TodoView,
)
from mcpdesk.recorder.archive import MOST_FRAMES, Archive
from mcpdesk.recorder.index.traffic_index import gaps_in_words


class CaptureLink:
    """Implements `Link` over an archive."""

    def __init__(self, archive: Archive) -> None:
        self.path: Path = archive.path
        self.traffic = archive.index
        self._view = CoreView((), (), Protection.OFFLINE, capture_path=str(archive.path))
        said = _problems(archive)
        self._notices = [Notice(at, each, Severity.WARNING, "traffic") for at, each in enumerate(said)]

    def view(self) -> CoreView:
        """Nothing but where the capture lies."""
        return self._view

    def catalogue(self, server: str) -> Catalogue:
        """Empty."""
        return Catalogue(server, 0, ())

    def questions(self) -> tuple[Question, ...]:
        """None."""
        return ()

    def jobs(self) -> tuple[JobView, ...]:
        """None."""
        return ()

    def usage(self) -> Mapping[str, JobUse]:
        """Nothing runs."""
        return {}

    def output(self, job: str, after: int) -> None:
        """There is none."""

    def kill_job(self, job: str) -> None:
        """There is none."""

    def callbacks(self) -> tuple[CallbackView, ...]:
        """None."""
        return ()

    def fire_callback(self, server: str, number: int) -> None:
        """There is none."""

    def cancel_callback(self, server: str, number: int) -> None:
        """There is none."""

    def todo(self) -> tuple[TodoView, ...]:
        """None."""
        return ()

    def plan_text(self, server: str) -> None:
        """There is none."""

    def logs(self, after: int = -1) -> list[LogLine]:
        """None."""
        return []

    def notices(self, after: int = -1) -> list[Notice]:
        """What could not be read of the file."""
        return [notice for notice in self._notices if notice.number > after]

    def validate(self, server: str, tool: str, arguments: Any) -> list[Failure]:
        """No schema is known."""
        return []

    def request(self, server: str, method: str, params: dict[str, Any]) -> NoReturn:
        """Raises: DeskUserError, as nobody is there to be asked."""
        raise DeskUserError("A capture cannot be asked anything.", "Open the desk on the server's folder.")

    def give_token(self, server: str, text: str, needs: Collection[str] = ()) -> NoReturn:
        """Raises: DeskUserError, as nobody is there to be called."""
        raise DeskUserError("A capture cannot be called.", "Open the desk on the server's folder.")

    def drop_token(self, server: str) -> None:
        """There is none."""

    def answer(self, question: int, answers: Sequence[Answer], by: str = "desk") -> Future[bool]:
        """There is no question."""
        return _not_done()

    def decline(self, question: int, reason: str = "", by: str = "desk") -> Future[bool]:
        """There is no question."""
        return _not_done()

    def cycle_policy(self, server: str, tool: str) -> None:
        """There is no tool."""

    def grants(self) -> tuple[GrantView, ...]:
        """None."""
        return ()

    def revoke(self, grant: GrantView) -> None:
        """There is none."""

    def cancel_question(self, question: int, by: str = "desk") -> Future[bool]:
        """There is no question."""
        return _not_done()

    def client(self, connection: int) -> ClientDetail | None:
        """Nobody is connected."""
        return None

    def disconnect(self, connection: int) -> None:
        """Nobody is connected."""

    def watch(self, server: str, uri: str) -> None:
        """No resource changes."""

    def unwatch(self, server: str, uri: str) -> None:
        """No resource is watched."""

    def watched(self, server: str) -> Mapping[str, int]:
        """None."""
        return {}

    def reload(self, server: str) -> None:
        """There is no folder."""

    def client_config(
        self, server: str, client: str, key: str | None = None, mode: str = "", over: Over = ""
    ) -> str:
        """There is nothing to connect to."""
        return ""

    def busy(self) -> tuple[str, ...]:
        """Nothing is lost by quitting."""
        return ()


def _not_done() -> Future[bool]:
    done: Future[bool] = Future()
    done.set_result(False)
    return done


def _problems(archive: Archive) -> Iterator[str]:
    """What a capture lacks, a sentence each."""
    if lines := archive.unreadable:
        said = "1 line" if lines == 1 else f"{lines:,} lines"
        yield f"{said} of the capture cannot be read: cut off or damaged"
    if missing := gaps_in_words(archive.index):
        yield missing
    if archive.is_cut:
        yield f"only the first {MOST_FRAMES:,} frames of the capture are shown"
