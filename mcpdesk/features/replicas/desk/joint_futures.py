"""Combination of several futures into one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from mcpdesk.link.link import promise

Result = TypeVar("Result")


def all_of(futures: Sequence[Future[Result]], merge: Callable[[list[Result]], Any]) -> Future[Any]:
    """Return one future for several futures.

    When all have ended, its result is `merge(results)`. If any of them failed, or if `futures` is empty, it
    has an exception instead.
    """
    combined, remaining, lock = promise(), len(futures), threading.Lock()
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
