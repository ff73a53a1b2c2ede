"""Stable numbers for the questions of several replicas."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from msgspec import structs

from mcpdesk.features.replicas.desk.combined_views import merged_questions
from mcpdesk.inbox.question import Question


class QuestionNumbers:
    """Merges the questions of all replicas. A question keeps the number under which it was first shown.

    Without this class, the number could change while a person answers the question, because the copy of a
    question on another replica may arrive before the question itself. May be used on any thread.
    """

    def __init__(self) -> None:
        self._shown_numbers: dict[str | int, int] = {}
        """Number under which each question is shown.

        The key is its origin or, without an origin, its own number.
        """
        self._replica_numbers: dict[int, int] = {}
        """Number of a question at the replica where it must be answered, by its shown number."""
        self._lock = threading.Lock()

    def merged(self, own: Iterable[Question], copies: Iterable[Question]) -> tuple[Question, ...]:
        """Merge questions as `merged_questions` does, with stable numbers."""
        with self._lock:
            questions = {each.origin or each.id: each for each in merged_questions(own, copies)}
            self._shown_numbers = {
                key: self._shown_numbers.get(key, question.id) for key, question in questions.items()
            }
            self._replica_numbers = {
                self._shown_numbers[key]: question.id for key, question in questions.items()
            }
            return tuple(
                structs.replace(question, id=self._shown_numbers[key]) for key, question in questions.items()
            )

    def replica_number(self, number: int) -> int:
        """Return the number of a question at the replica where it must be answered.

        `number` is the number under which the question is shown.
        """
        return self._replica_numbers.get(number, number)
