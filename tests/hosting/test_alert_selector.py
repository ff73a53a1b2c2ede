"""Looking on before sleeping, told by a clock of the test's own; then with a real loop and real sockets."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from selectors import EVENT_READ, DefaultSelector, SelectorKey

import pytest

from mcpdesk.hosting import alert_selector, core_thread
from mcpdesk.hosting.alert_selector import LOOK_S, NAP_S, AlertSelector
from tests.support.patience import WITHIN_S

GLANCE_S = LOOK_S / 10
LONG_S = 10 * NAP_S


class World:
    """Time, when something will be ready, and how long was waited for it each time."""

    def __init__(self) -> None:
        self.now = self.ready_at = 1000.0
        self.asked: list[float | None] = []

    def select(self, timeout: float | None) -> list[tuple[SelectorKey, int]]:
        """What the system's selector does; to ask takes a moment."""
        self.asked.append(timeout)
        self.now += GLANCE_S
        left = max(0.0, self.ready_at - self.now)
        is_ready = timeout is None or left <= timeout
        self.now += left if is_ready else timeout or 0.0
        return [(SelectorKey(0, 0, EVENT_READ, None), EVENT_READ)] if is_ready else []


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(DefaultSelector, "select", lambda _, timeout=None: world.select(timeout))
    monkeypatch.setattr(alert_selector, "perf_counter", lambda: world.now)
    return world


@pytest.fixture
def selector() -> Iterator[AlertSelector]:
    with closing(AlertSelector()) as selector:
        yield selector


def wait(world: World, selector: AlertSelector, ready_in: float, timeout: float | None = None) -> list[float]:
    """Wait for something; returns how it was waited for."""
    world.asked.clear()
    world.ready_at = world.now + ready_in
    assert bool(selector.select(timeout)) is (timeout is None or ready_in <= timeout)
    return [-1.0 if asked is None else asked for asked in world.asked]


def test_where_nothing_happened_lately_it_sleeps_at_once(world: World, selector: AlertSelector) -> None:
    assert wait(world, selector, LONG_S) == [-1]
    assert wait(world, selector, LONG_S) == [-1]
    assert wait(world, selector, LONG_S, 2 * LONG_S) == [2 * LONG_S]


def test_after_a_short_wait_it_looks_on_and_does_not_sleep(world: World, selector: AlertSelector) -> None:
    assert wait(world, selector, NAP_S / 2) == [-1]
    for _ in range(3):
        asked = wait(world, selector, LOOK_S / 2)
        assert len(asked) > 1
        assert set(asked) == {0}


def test_a_timer_that_was_due_keeps_nobody_awake(world: World, selector: AlertSelector) -> None:
    assert wait(world, selector, LONG_S, NAP_S / 2) == [NAP_S / 2]
    assert wait(world, selector, LONG_S) == [-1]


def test_what_is_ready_already_is_looked_for_once(world: World, selector: AlertSelector) -> None:
    wait(world, selector, 0)
    assert wait(world, selector, 0) == [0]


def test_it_looks_in_vain_for_a_moment_only_and_then_sleeps(world: World, selector: AlertSelector) -> None:
    wait(world, selector, 0)
    asked = wait(world, selector, LONG_S)
    assert asked[-1] == -1
    assert set(asked[:-1]) == {0}
    assert len(asked) <= LOOK_S / GLANCE_S + 2
    assert wait(world, selector, LONG_S) == [-1]


@pytest.mark.parametrize("timeout", [LOOK_S / 4, LOOK_S, 3 * LOOK_S, LONG_S])
def test_looking_on_counts_towards_the_timeout(world: World, selector: AlertSelector, timeout: float) -> None:
    wait(world, selector, 0)
    began = world.now
    asked = wait(world, selector, 1.0, timeout)
    assert asked[-1] >= 0
    assert timeout <= world.now - began <= timeout + 3 * GLANCE_S


def test_a_look_without_waiting_is_just_that(world: World, selector: AlertSelector) -> None:
    wait(world, selector, 0)
    assert wait(world, selector, LONG_S, 0) == [0]
    assert wait(world, selector, LONG_S, -1) == [-1]


async def echo(rounds: int) -> int:
    """Send a byte back and forth in a loop of its own; returns how often it came back."""
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    near.setblocking(False)

    def answer() -> None:
        while data := far.recv(1):
            far.sendall(data)

    answering = threading.Thread(target=answer)
    answering.start()
    came = 0
    with near, far:
        for _ in range(rounds):
            await loop.sock_sendall(near, b"x")
            came += len(await loop.sock_recv(near, 1))
        near.shutdown(socket.SHUT_WR)
        await asyncio.to_thread(answering.join)
    return came


@pytest.mark.parametrize("processors", [{0}, {0, 1}])
def test_a_loop_answers_keeps_time_and_sleeps(processors: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: processors, raising=False)
    told: list[float] = []

    async def main() -> None:
        told.append(await echo(200))
        began, used = time.monotonic(), time.thread_time()
        await asyncio.sleep(0.3)
        told.append(time.monotonic() - began)
        told.append(time.thread_time() - used)

    core_thread.run(main(), core_thread.alert_loop)
    came, slept, used = told
    assert came == 200
    assert 0.3 <= slept < WITHIN_S
    assert used < 0.15, "it did not sleep"


@pytest.mark.parametrize(("processors", "is_alert"), [({3}, False), ({2, 3}, True)])
def test_a_lone_processor_is_left_to_the_client(
    processors: set[int], is_alert: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: processors, raising=False)
    with closing(core_thread.alert_loop()) as loop:
        assert isinstance(loop._selector, AlertSelector) is is_alert  # type: ignore[attr-defined]
