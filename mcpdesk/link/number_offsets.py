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

AT: Final = "@"
"""Separator between the id of a program and the epoch (number) of its core."""


class NumberOffset:
    """Adds the offset of one core to its numbers, and its name to its items."""

    def __init__(self, epoch: int, core: str) -> None:
        self._epoch = epoch
        self._above = epoch << EPOCH_BITS
        self._core = core

    def view(self, view: CoreView) -> CoreView:
        """Return a view with the offset added to its numbers."""
        above, core, work = self._above, self._core, view.work
        return structs.replace(
            view,
            servers=tuple(
                structs.replace(one, catalogue_version=one.catalogue_version + above) for one in view.servers
            ),
            clients=tuple(
                structs.replace(one, connection=one.connection + above, core=core) for one in view.clients
            ),
            questions_version=view.questions_version + above,
            work=structs.replace(
                work,
                jobs_version=work.jobs_version + above,
                callbacks_version=work.callbacks_version + above,
                todo_version=work.todo_version + above,
                plans=tuple(structs.replace(plan, core=core) for plan in work.plans),
            ),
        )

    def line(self, line: LogLine) -> LogLine:
        """Return a log line with the offset added to its numbers."""
        call = None if line.call is None else (line.call[0] + self._above, line.call[1])
        return structs.replace(line, call=call, core=self._core)

    def part(self, part: str, value: Any) -> Any:
        """Return any other part with the offset added to its numbers."""
        if isinstance(value, FeaturePart):
            return value.raised(self._above, self._core)
        raise_it = _RAISED.get(part)
        return value if raise_it is None else raise_it(self, value)

    def _catalogue(self, value: Catalogue) -> Catalogue:
        return structs.replace(value, version=value.version + self._above)

    def _questions(self, value: tuple[Question, ...]) -> tuple[Question, ...]:
        above = self._above
        return tuple(
            structs.replace(
                one,
                id=one.id + above,
                connection=one.connection and one.connection + above,
                core=one.core or self._core,
            )
            for one in value
        )

    def _jobs(self, value: tuple[JobView, ...]) -> tuple[JobView, ...]:
        """Add the epoch to the ids of programs, because each core counts its programs itself.

        Other job ids are unique.
        """
        return tuple(
            structs.replace(
                one,
                id=f"{one.id}{AT}{self._epoch}" if one.kind is JobKind.PROGRAM and self._core else one.id,
                core=self._core,
            )
            for one in value
        )

    def _numbered(
        self, value: tuple[CallbackView, ...] | tuple[TodoView, ...]
    ) -> tuple[CallbackView | TodoView, ...]:
        above = self._above if self._core else 0
        return tuple(structs.replace(one, id=one.id + above, core=self._core) for one in value)


_RAISED: Final[dict[str, Callable[[NumberOffset, Any], Any]]] = {
    "catalogue": NumberOffset._catalogue,
    "questions": NumberOffset._questions,
    "jobs": NumberOffset._jobs,
    "callbacks": NumberOffset._numbered,
    "todo": NumberOffset._numbered,
}
"""Functions that add the offset to the numbers of a part, by name of the part."""
