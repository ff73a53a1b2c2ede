"""Files of jobs, and their downloads that a client abandons."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.auth.principal import OPEN
from mcpdesk.hosting.hosted_jobs import MAX_OPEN_READS, HostedJobs
from mcpdesk.jobs import downloads
from mcpdesk.jobs.downloads import Download
from mcpdesk.jobs.feed import CallFeed
from mcpdesk.jobs.job import Job, JobEnding
from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.server.background.job_work import job_owner
from tests.support.patience import WITHIN_S, in_time, until
from tests.support.served import Peer


def finished(folder: Path, *names: str) -> tuple[HostedJobs, Job, Peer]:
    """A finished job that made these files."""
    peer = Peer()
    peer.server.folder = folder
    for name in names:
        (folder / name).write_text(name)
    store = peer.services.jobs
    job = store.add("sample", job_owner(OPEN), "tool", "peer", 60, 10, lambda _: None, feed=CallFeed())
    job.files = downloads.record_files([folder / name for name in names], [folder])
    store.finish(job, TaskStatus.COMPLETED, JobEnding(b"{}"))
    return HostedJobs(store, {"sample": peer.endpoint}), job, peer


@pytest.mark.parametrize("number", [1, 2])
async def test_a_download_nobody_waits_for_any_more_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    jobs, job, peer = finished(tmp_path, *"ab"[:number])
    name = "single_download" if number == 1 else "archive_download"
    make, go_on, made = getattr(downloads, name), threading.Event(), asyncio.Queue[Download]()
    begun, loop = asyncio.Event(), asyncio.get_running_loop()

    def slowly(*asked: Any) -> Download:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(WITHIN_S)
        found: Download = make(*asked)
        loop.call_soon_threadsafe(made.put_nowait, found)
        return found

    monkeypatch.setattr(downloads, name, slowly)
    found = jobs.find(job.id, OPEN)
    assert found is not None
    asked = asyncio.create_task(found.download())
    await in_time(begun.wait())
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    # Its turn lasts as long as the work does.
    assert jobs._read_slots._value == (MAX_OPEN_READS if number == 1 else MAX_OPEN_READS - 1)
    go_on.set()
    unwanted = await in_time(made.get())
    await until(lambda: is_closed(unwanted.descriptor) and jobs._read_slots._value == MAX_OPEN_READS)
    peer.services.jobs.close()


def is_closed(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return True
    return False
