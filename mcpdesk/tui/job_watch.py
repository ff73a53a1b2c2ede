"""Notices jobs that fail while nobody looks at them."""

from __future__ import annotations

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, JobState, JobView


class JobWatch:
    """Looks on behalf of one screen. Jobs that had failed before its first look are not told."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._version: int | None = None
        self._failed: frozenset[str] | None = None
        """Those that had failed at the last look; None before the first one."""

    def failed(self, view: CoreView) -> list[JobView]:
        """Jobs that have failed since the last look, also those that began after it."""
        if view.work.jobs_version == self._version:
            return []
        self._version = view.work.jobs_version
        failed = [job for job in self._link.jobs() if job.state is JobState.FAILED]
        told, self._failed = self._failed, frozenset(job.id for job in failed)
        return [] if told is None else [job for job in failed if job.id not in told]
