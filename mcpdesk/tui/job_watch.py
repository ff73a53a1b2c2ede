"""Notices jobs that fail while nobody looks at them."""

from __future__ import annotations

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, JobState, JobView


class JobWatch:
    """Looks on behalf of one screen. Jobs that had failed before its first look are not told."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._version: int | None = None
        self._running: set[str] = set()

    def failed(self, view: CoreView) -> list[JobView]:
        """Jobs that ran at the last look and have failed since."""
        if view.work.jobs_version == self._version:
            return []
        self._version = view.work.jobs_version
        jobs = self._link.jobs()
        failed = [job for job in jobs if job.id in self._running and job.state is JobState.FAILED]
        self._running = {job.id for job in jobs if not job.state.is_final}
        return failed
