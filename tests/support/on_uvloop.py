"""Runs tests on uvloop: `python -m pytest -p tests.support.on_uvloop FILES`, with the extra `speed`."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable

import uvloop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], AbstractEventLoop]]:
    """Give every test a loop of uvloop."""
    return {"uvloop": uvloop.new_event_loop}
