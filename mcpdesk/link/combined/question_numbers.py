"""Numbers of questions in the combined view of several replicas."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from msgspec import structs

from mcpdesk.inbox.question import Question
from mcpdesk.link.combined.combined_views import merged_questions


class QuestionNumbers:
    """Merges the questions of all replicas; each keeps the number with which it was shown first.

    The copy on another replica may arrive before the question of the replica that asks, and a person may
    already be answering it. Used on any thread.
    """

    def __init__(self) -> None:
        self._shown: dict[str | int, int] = {}
        """Shown number of each question, by its origin, or by its number without one."""
        self._actual: dict[int, int] = {}
        """Numbers at the replicas that questions are answered on, by shown number."""
        self._lock = threading.Lock()

    def merged(self, own: Iterable[Question], seen: Iterable[Question]) -> tuple[Question, ...]:
        """Return the questions without duplicates, in the order of `merged_questions`."""
        with self._lock:
            found = {one.origin or one.id: one for one in merged_questions(own, seen)}
            self._shown = {key: self._shown.get(key, one.id) for key, one in found.items()}
            self._actual = {self._shown[key]: one.id for key, one in found.items()}
            return tuple(structs.replace(one, id=self._shown[key]) for key, one in found.items())

    def actual(self, shown: int) -> int:
        """Return the number of a question at the replica on which it is to be answered."""
        return self._actual.get(shown, shown)
