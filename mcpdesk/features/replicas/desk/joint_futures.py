"""Combination of several futures into one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from mcpdesk.link.link import promise

Result = TypeVar("Result")


def all_of(futures: Sequence[Future[Result]], merge: Callable[[list[Result]], Any]) -> Future[Any]:
    """Return a future that is done when all `futures` are done.

    Its result is `merge(results)`. If one of `futures` failed, it has the first exception. If `futures` is
    empty, it has a ValueError.
    """
    combined, lock = promise(), threading.Lock()
    remaining = len(futures)
    if not futures:
        combined.set_exception(ValueError("no replica is available"))

    def count_finished(_: Future[Result]) -> None:
        nonlocal remaining
        with lock:
            remaining -= 1
            if remaining:
                return
        errors = [error for each in futures if (error := each.exception()) is not None]
        if errors:
            combined.set_exception(errors[0])
        else:
            combined.set_result(merge([each.result() for each in futures]))

    for each in futures:
        each.add_done_callback(count_finished)
    return combined
