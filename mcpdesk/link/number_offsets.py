"""Unique numbers for the items of several cores. Each core has an offset that is added to its numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import structs

from mcpdesk.inbox.question import Question
from mcpdesk.link.feature_part import FeaturePart
from mcpdesk.link.traffic_copy import EPOCH_BITS
from mcpdesk.link.values import (
    CallbackView,
    Catalogue,
    CoreView,
    JobKind,
    JobView,
    LogLine,
    TodoView,
)

EPOCH_SEPARATOR: Final = "@"
"""Separator between the id of a background command and the epoch (number) of its core."""


class NumberOffset:
    """Adds the offset of one core to the numbers of this core, and the name of the core to its items."""

    def __init__(self, epoch: int, core: str) -> None:
        """`core` is the name of the core, or "" if the front end shows only one core.

        With one core, the ids of jobs, callbacks and todo entries are not changed.
        """
        self._epoch = epoch
        self._offset = epoch << EPOCH_BITS
        self._core = core

    def view(self, view: CoreView) -> CoreView:
        """Return a view with the offset added to its numbers."""
        offset, core, work = self._offset, self._core, view.work
        return structs.replace(
            view,
            servers=tuple(
                structs.replace(item, catalogue_version=item.catalogue_version + offset)
                for item in view.servers
            ),
            clients=tuple(
                structs.replace(item, connection=item.connection + offset, core=core) for item in view.clients
            ),
            questions_version=view.questions_version + offset,
            work=structs.replace(
                work,
                jobs_version=work.jobs_version + offset,
                callbacks_version=work.callbacks_version + offset,
                todo_version=work.todo_version + offset,
                plans=tuple(structs.replace(plan, core=core) for plan in work.plans),
            ),
        )

    def line(self, line: LogLine) -> LogLine:
        """Return a log line with the offset added to its numbers."""
        call = None if line.call is None else (line.call[0] + self._offset, line.call[1])
        return structs.replace(line, call=call, core=self._core)

    def part(self, name: str, value: Any) -> Any:
        """Return a part of the state with the offset added to its numbers.

        The parts `view` and `logs` have their own methods.
        """
        if isinstance(value, FeaturePart):
            return value.with_offset(self._offset, self._core)
        add_offset = _OFFSET_FUNCTIONS.get(name)
        return value if add_offset is None else add_offset(self, value)

    def _catalogue(self, value: Catalogue) -> Catalogue:
        return structs.replace(value, version=value.version + self._offset)

    def _questions(self, value: tuple[Question, ...]) -> tuple[Question, ...]:
        offset = self._offset
        return tuple(
            structs.replace(
                question,
                id=question.id + offset,
                connection=question.connection + offset if question.connection else 0,
                core=question.core or self._core,
            )
            for question in value
        )

    def _jobs(self, value: tuple[JobView, ...]) -> tuple[JobView, ...]:
        """Add the epoch to the ids of background commands (`JobKind.PROGRAM`).

        Two cores can use the same number for a background command. The ids of other jobs are unique.
        """
        suffix = f"{EPOCH_SEPARATOR}{self._epoch}" if self._core else ""
        return tuple(
            structs.replace(
                job, id=job.id + suffix if job.kind is JobKind.PROGRAM else job.id, core=self._core
            )
            for job in value
        )

    def _callbacks_or_todo(
        self, value: tuple[CallbackView, ...] | tuple[TodoView, ...]
    ) -> tuple[CallbackView | TodoView, ...]:
        """Add the offset to the ids, if the front end shows several cores."""
        offset = self._offset if self._core else 0
        return tuple(structs.replace(item, id=item.id + offset, core=self._core) for item in value)


_OFFSET_FUNCTIONS: Final[dict[str, Callable[[NumberOffset, Any], Any]]] = {
    "catalogue": NumberOffset._catalogue,
    "questions": NumberOffset._questions,
    "jobs": NumberOffset._jobs,
    "callbacks": NumberOffset._callbacks_or_todo,
    "todo": NumberOffset._callbacks_or_todo,
}
"""Functions that add the offset to the numbers of a part, by name of the part."""
