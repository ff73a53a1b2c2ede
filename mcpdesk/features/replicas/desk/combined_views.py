"""Functions that merge the views of several cores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, TypeVar

from msgspec import structs

from mcpdesk.inbox.question import Question, QuestionState
from mcpdesk.link.traffic_copy import OWN_MASK
from mcpdesk.link.values import (
    CallbackView,
    Catalogue,
    CoreView,
    GrantView,
    JobState,
    JobView,
    PlanView,
    Protection,
    ServerView,
    Severity,
    ShownCore,
    TodoView,
    WorkView,
)
from mcpdesk.protocol import codec

_PROTECTION_ORDER: Final = (
    Protection.OPEN,
    Protection.LOOPBACK,
    Protection.SOCKET,
    Protection.KEY,
    Protection.STARTING,
    Protection.OFFLINE,
)
"""Protection levels, least protected first.

A merged view has the first level in this order that a replica has.
"""
Value = TypeVar("Value")
MIN_DIFFERING_COMPARISONS: Final = 3
"""Number of comparisons in a row that must find a difference before it is reported.

Replicas reload a folder at different times, so short differences are normal.
"""


def merged_view(
    living: Sequence[tuple[str, CoreView]],
    former: Sequence[CoreView],
    replicas: tuple[ShownCore, ...],
    servers: Iterable[ServerView],
    work: WorkView,
    questions_version: int,
    gone_reason: str,
) -> CoreView:
    """Merge the views of all replicas. `living` has the views of living replicas with their names."""
    views = [view for _, view in living]
    first = next(iter(views), CoreView((), (), Protection.OFFLINE))
    clients = [client for view in (*former, *views) for client in view.clients]
    protections = {view.protection for view in views}
    stuck = next(((name, view.stuck) for name, view in living if view.stuck is not None), None)
    failing = [f"{name}: {view.capture_failing}" for name, view in living if view.capture_failing]
    is_silent = bool(views) and all(view.silent_s for view in views)
    return structs.replace(
        first,
        servers=tuple(servers),
        clients=tuple(sorted(clients, key=lambda client: client.opened)),
        protection=next((each for each in _PROTECTION_ORDER if each in protections), Protection.OFFLINE),
        capture_failing="; ".join(failing),
        stuck=stuck and structs.replace(stuck[1], where=f"{stuck[1].where} on {stuck[0]}".strip()),
        questions_version=questions_version,
        work=work,
        gone=gone_reason,
        silent_s=min(view.silent_s for view in views) if is_silent else 0,
        cores=replicas,
    )


def merged_work(living: Sequence[WorkView], former: Sequence[WorkView], versions: Sequence[int]) -> WorkView:
    """Merge the state of background work.

    `versions` are the versions of the merged jobs, callbacks and task lists.
    """
    next_callbacks = [work.next_callback for work in living if work.next_callback is not None]
    plans = [plan for work in (*living, *former) for plan in work.plans]
    return WorkView(
        jobs_version=versions[0],
        running_jobs=sum(work.running_jobs for work in living),
        callbacks_version=versions[1],
        next_callback=min(next_callbacks, default=None),
        todo_version=versions[2],
        plans=tuple(_distinct(plans, _plan_identity)),
    )


def merged_questions(own: Iterable[Question], copies: Iterable[Question]) -> tuple[Question, ...]:
    """Merge questions without duplicates.

    Waiting questions come first, oldest first, then ended questions, newest first. `own` are questions at the
    replicas that asked them. `copies` are the same questions at other replicas.
    """
    questions = list(_distinct((*own, *copies), lambda question: question.origin or question.id))
    waiting = [question for question in questions if question.state is QuestionState.WAITING]
    ended = [question for question in questions if question.state is not QuestionState.WAITING]
    return (
        *sorted(waiting, key=lambda question: question.asked),
        *sorted(ended, key=lambda question: -(question.ended or question.asked)),
    )


def merged_jobs(living: Iterable[JobView], former: Iterable[JobView]) -> tuple[JobView, ...]:
    """Merge jobs without duplicates.

    A job that only an ended replica has is shown as killed.
    """
    jobs = _distinct([*living, *map(_ended_job, former)], lambda job: job.id)
    return tuple(sorted(jobs, key=lambda job: job.started))


def merged_callbacks(callbacks: Iterable[CallbackView]) -> tuple[CallbackView, ...]:
    """Merge callbacks without duplicates."""
    distinct = _distinct(callbacks, lambda each: (each.server, each.id & OWN_MASK, each.created))
    return tuple(sorted(distinct, key=lambda each: each.created))


def merged_todo(todos: Iterable[TodoView]) -> tuple[TodoView, ...]:
    """Merge tasks without duplicates."""
    return tuple(_distinct(todos, lambda each: (each.server, each.id & OWN_MASK, each.created)))


def merged_grants(grants: Iterable[GrantView]) -> tuple[GrantView, ...]:
    """Merge approvals without duplicates, newest first."""
    newest_first = sorted(grants, key=lambda grant: -grant.granted)
    return tuple(_distinct(newest_first, lambda grant: (grant.server, grant.tool, grant.peer)))


class Offer:
    """Properties of a server that may differ between replicas."""

    def __init__(self, version: str, catalogue: Catalogue, folder_digest: str) -> None:
        """`folder_digest` is a digest of the server's files, or "" if it is unknown."""
        self.version = version
        self.item_count = len(catalogue.items)
        definitions = sorted(
            (item.kind.value, item.name, codec.dumps(item.definition)) for item in catalogue.items
        )
        content = repr((version, definitions, folder_digest)).encode()
        self.digest = blake2b(content, digest_size=4).hexdigest()

    def __str__(self) -> str:
        version = f"version {self.version}, " if self.version else ""
        return f"{version}{self.item_count} item{'' if self.item_count == 1 else 's'} ({self.digest})"


def difference(offers: Mapping[str, Offer]) -> str:
    """Describe how replicas differ in the tools and files of one server, or return "" if they do not."""
    replicas_by_digest = defaultdict[str, list[str]](list)
    for replica, offer in offers.items():
        replicas_by_digest[offer.digest].append(replica)
    if len(replicas_by_digest) < 2:
        return ""
    groups = [f"{', '.join(names)}: {offers[names[0]]}" for names in replicas_by_digest.values()]
    return f"not the same on every replica · {' · '.join(groups)}"


class OfferComparison:
    """Comparison of the servers that replicas offer.

    A difference is reported after `MIN_DIFFERING_COMPARISONS` comparisons in a row.
    """

    def __init__(self, notify: Callable[[str, Severity, str], object]) -> None:
        self.version = 0
        """Number that increases whenever the result of `problem` may have changed."""
        self._notify = notify
        self._differing: dict[str, tuple[str, int]] = {}
        """Difference of each server, with the number of comparisons in a row that found this difference."""

    def problem(self, server: str) -> str:
        """Return a sentence about a lasting difference of a server, or "" if no difference has lasted."""
        text, repeats = self._differing.get(server, ("", 0))
        return text if repeats >= MIN_DIFFERING_COMPARISONS else ""

    def compare(self, offers: Mapping[str, Mapping[str, Offer]]) -> None:
        """Compare the servers that replicas offer now. `offers` is by name of the server, then by replica."""
        for name in dict.fromkeys((*self._differing, *offers)):
            difference_text = difference(offers.get(name, {}))
            previous, repeats = self._differing.pop(name, ("", 0))
            if difference_text:
                self._differing[name] = difference_text, repeats + 1 if difference_text == previous else 1
                if self._differing[name][1] == MIN_DIFFERING_COMPARISONS:
                    self._notify(f"{name} is {difference_text}", Severity.WARNING, "workbench")
            elif repeats >= MIN_DIFFERING_COMPARISONS:
                self._notify(f"{name} is the same on every replica again", Severity.INFO, "logs")
            if difference_text != previous or (difference_text and repeats + 1 == MIN_DIFFERING_COMPARISONS):
                self.version += 1


def _ended_job(job: JobView) -> JobView:
    if job.state.is_final:
        return job
    return structs.replace(job, state=JobState.KILLED, message=f"{job.core} has ended")


def _plan_identity(plan: PlanView) -> Hashable:
    return plan.server, plan.session, plan.goal, plan.file, plan.since, plan.is_active


def _distinct(values: Iterable[Value], key: Callable[[Value], Hashable]) -> Iterable[Value]:
    """Return the first value for each key, in order."""
    unique = dict[Hashable, Value]()
    for value in values:
        unique.setdefault(key(value), value)
    return unique.values()
