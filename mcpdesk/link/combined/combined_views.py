"""What several cores show, made into one: pure functions of their views, the living ones first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final, TypeVar

from msgspec import structs

from mcpdesk.inbox.question import Question, QuestionState
from mcpdesk.link.traffic_copy import OWN
from mcpdesk.link.values import (
    CallbackView,
    Catalogue,
    CoreView,
    GrantView,
    HoldView,
    JobState,
    JobView,
    PlanView,
    Protection,
    ReplicaView,
    ServerView,
    Severity,
    TodoView,
    WorkView,
)
from mcpdesk.protocol import codec

_GRAVEST: Final = (
    Protection.OPEN,
    Protection.LOOPBACK,
    Protection.KEY,
    Protection.STARTING,
    Protection.OFFLINE,
)
"""Of several replicas, the protection that a person should know of first."""
Kept = TypeVar("Kept")
LASTING: Final = 3
"""Looks in a row that find replicas different before it is said: they reload a folder one after another."""


def merged_view(
    living: Sequence[tuple[str, CoreView]],
    former: Sequence[CoreView],
    replicas: tuple[ReplicaView, ...],
    servers: Iterable[ServerView],
    work: WorkView,
    questions_version: int,
    gone: str,
) -> CoreView:
    """One view of all. `living` are those that have not ended, by name."""
    views = [view for _, view in living]
    first = next(iter(views), CoreView((), (), Protection.OFFLINE))
    clients = [client for view in (*former, *views) for client in view.clients]
    found = {view.protection for view in views}
    stuck = next(((name, view.stuck) for name, view in living if view.stuck is not None), None)
    failing = [f"{name}: {view.capture_failing}" for name, view in living if view.capture_failing]
    is_silent = bool(views) and all(view.silent_s for view in views)
    return replace(
        first,
        servers=tuple(servers),
        clients=tuple(sorted(clients, key=lambda client: client.opened)),
        protection=next((each for each in _GRAVEST if each in found), Protection.OFFLINE),
        capture_failing="; ".join(failing),
        stuck=stuck and structs.replace(stuck[1], where=f"{stuck[1].where} on {stuck[0]}".strip()),
        questions_version=questions_version,
        work=work,
        gone=gone,
        silent_s=min(view.silent_s for view in views) if is_silent else 0,
        replicas=replicas,
    )


def merged_work(living: Sequence[WorkView], former: Sequence[WorkView], versions: Sequence[int]) -> WorkView:
    """`versions` are those of jobs, callbacks and task lists."""
    due = [work.next_callback for work in living if work.next_callback is not None]
    plans = [plan for work in (*living, *former) for plan in work.plans]
    return WorkView(
        jobs_version=versions[0],
        running_jobs=sum(work.running_jobs for work in living),
        callbacks_version=versions[1],
        next_callback=min(due, default=None),
        todo_version=versions[2],
        plans=tuple(_distinct(plans, _plan)),
    )


def merged_questions(own: Iterable[Question], seen: Iterable[Question]) -> tuple[Question, ...]:
    """Waiting ones first, oldest first, then the ended ones, newest first. Each once.

    `own` are those of the replicas that ask them, `seen` what replicas know of the questions of others.
    """
    every = list(_distinct((*own, *seen), lambda one: one.origin or one.id))
    waiting = [one for one in every if one.state is QuestionState.WAITING]
    ended = [one for one in every if one.state is not QuestionState.WAITING]
    return (
        *sorted(waiting, key=lambda one: one.asked),
        *sorted(ended, key=lambda one: -(one.ended or one.asked)),
    )


def merged_jobs(living: Iterable[JobView], former: Iterable[JobView]) -> tuple[JobView, ...]:
    """Each job once; what was running on a replica that has ended ended with it, unless another has it."""
    every = _distinct([*living, *map(_ended_job, former)], lambda job: job.id)
    return tuple(sorted(every, key=lambda job: job.started))


def merged_callbacks(kept: Iterable[CallbackView]) -> tuple[CallbackView, ...]:
    """Each callback once, whichever replica keeps it."""
    every = _distinct(kept, lambda each: (each.server, each.id & OWN, each.created))
    return tuple(sorted(every, key=lambda each: each.created))


def merged_todo(kept: Iterable[TodoView]) -> tuple[TodoView, ...]:
    """Each task once."""
    return tuple(_distinct(kept, lambda each: (each.server, each.id & OWN, each.created)))


def merged_grants(grants: Iterable[GrantView]) -> tuple[GrantView, ...]:
    """Each once, the newest first."""
    every = sorted(grants, key=lambda grant: -grant.granted)
    return tuple(_distinct(every, lambda grant: (grant.server, grant.tool, grant.peer)))


def merged_holds(views: Sequence[HoldView]) -> HoldView:
    """What all hold, oldest first."""
    ruling = next((view for view in views if view.rule), HoldView())
    return HoldView(
        ruling.rule,
        ruling.ways,
        tuple(sorted((one for view in views for one in view.messages), key=lambda one: one.since)),
        tuple(dict.fromkeys(each for view in views for each in view.canned)),
        next((view.faults for view in views if view.faults), ""),
        sum(view.struck for view in views),
    )


class Offer:
    """What one replica has of a server, as far as replicas can differ."""

    def __init__(self, version: str, catalogue: Catalogue, folder: str) -> None:
        """`folder` is a digest of its files; empty where that is not known."""
        self.version = version
        self.items = len(catalogue.items)
        told = sorted((item.kind.value, item.name, codec.dumps(item.definition)) for item in catalogue.items)
        self.digest = blake2b(repr((version, told, folder)).encode(), digest_size=4).hexdigest()

    def __str__(self) -> str:
        version = f"version {self.version}, " if self.version else ""
        return f"{version}{self.items} item{'' if self.items == 1 else 's'} ({self.digest})"


def difference(offers: Mapping[str, Offer]) -> str:
    """How replicas differ in a server, by their names; empty when they do not."""
    alike = defaultdict[str, list[str]](list)
    for replica, offer in offers.items():
        alike[offer.digest].append(replica)
    if len(alike) < 2:
        return ""
    told = [f"{', '.join(names)}: {offers[names[0]]}" for names in alike.values()]
    return f"not the same on every replica · {' · '.join(told)}"


class OfferComparison:
    """Differences between what replicas offer, reported once they have lasted."""

    def __init__(self, notify: Callable[[str, Severity, str], object]) -> None:
        self.version = 0
        """Grows with each change of a difference."""
        self._notify = notify
        self._differing: dict[str, tuple[str, int]] = {}
        """By server: how replicas differ, and for how many looks in a row they have."""

    def problem(self, server: str) -> str:
        """Sentence on a server that lasts to differ; empty if there is nothing to report."""
        told, lasted = self._differing.get(server, ("", 0))
        return told if lasted >= LASTING else ""

    def compare(self, offers: Mapping[str, Mapping[str, Offer]]) -> None:
        """Take what each replica offers now, by server and replica."""
        for name in dict.fromkeys((*self._differing, *offers)):
            told = difference(offers.get(name, {}))
            before, lasted = self._differing.pop(name, ("", 0))
            if told:
                self._differing[name] = told, lasted + 1 if told == before else 1
                if self._differing[name][1] == LASTING:
                    self._notify(f"{name} is {told}", Severity.WARNING, "workbench")
            elif lasted >= LASTING:
                self._notify(f"{name} is the same on every replica again", Severity.INFO, "logs")
            if told != before or (told and lasted + 1 == LASTING):
                self.version += 1


def _ended_job(job: JobView) -> JobView:
    if job.state.is_final:
        return job
    return structs.replace(job, state=JobState.KILLED, message=f"{job.replica} has ended")


def _plan(plan: PlanView) -> Hashable:
    return plan.server, plan.session, plan.goal, plan.file, plan.since, plan.is_active


def _distinct(values: Iterable[Kept], key: Callable[[Kept], Hashable]) -> Iterable[Kept]:
    """The first of each key, in order."""
    found = dict[Hashable, Kept]()
    for value in values:
        found.setdefault(key(value), value)
    return found.values()
