"""Stable numbers for the questions of several replicas."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from msgspec import structs

from mcpdesk.features.replicas.desk.combined_views import merged_questions
from mcpdesk.inbox.question import Question


class QuestionNumbers:
    """Merges the questions of all replicas. A question keeps the number under which it was first shown.

    Otherwise its number could change while a person answers it, because the copy of a question on another
    replica may arrive before the question itself. May be used on any thread.
    """

    def __init__(self) -> None:
        self._shown: dict[str | int, int] = {}
        """Number under which each question is shown.

        The key is its origin or, without an origin, its own number.
        """
        self._actual: dict[int, int] = {}
        """Number of a question at the replica where it must be answered, by its shown number."""
        self._lock = threading.Lock()

    def merged(self, own: Iterable[Question], copies: Iterable[Question]) -> tuple[Question, ...]:
        """Merge questions as `merged_questions` does, with stable numbers."""
        with self._lock:
            questions = {one.origin or one.id: one for one in merged_questions(own, copies)}
            self._shown = {key: self._shown.get(key, one.id) for key, one in questions.items()}
            self._actual = {self._shown[key]: one.id for key, one in questions.items()}
            return tuple(structs.replace(one, id=self._shown[key]) for key, one in questions.items())

    def actual(self, shown: int) -> int:
        """Return the number of a shown question at the replica where it must be answered."""
        return self._actual.get(shown, shown)
