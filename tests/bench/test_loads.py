"""Every load is accepted by mcpdesk and by the frame: a few calls of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import product

import pytest

from tests.bench.contender import Contender, Served, contenders, served
from tests.bench.figure import FRAME, OURS, Effort
from tests.bench.load import CYCLE, Job, Load
from tests.bench.messages import ASKS, ERAS, EVENTS, LIST
from tests.bench.socket_line import SocketLine

EFFORT = Effort(1, 0.02, (FRAME,))
WHO = (OURS, FRAME)
KINDS = [
    *product(ERAS, ("echo", "list")),
    *product(("stateless",), ("big", "tick")),
    ("handshake", CYCLE),
]


@pytest.fixture(scope="module")
def places() -> Iterator[dict[str, Served]]:
    with served(EFFORT, tools=30) as all_of_them:
        yield all_of_them


@pytest.fixture(scope="module")
def known() -> Iterator[dict[str, Contender]]:
    with contenders(EFFORT, tools=30) as all_of_them:
        yield {one.name: one for one in all_of_them}


@pytest.mark.process
@pytest.mark.parametrize(("era", "ask"), KINDS)
@pytest.mark.parametrize("who", WHO)
async def test_load_over_http_is_answered(places: dict[str, Served], who: str, era: str, ask: str) -> None:
    (port, pid), path = places[who].place, places[who].path
    calls = EVENTS if ask == "tick" else 3
    said = await Load(Job(port, path, era, 5, 2, calls=calls, ask=ask, pid=pid)).run()
    assert "error" not in said
    assert float(said["rate"]) > 0


@pytest.mark.process
async def test_a_load_uses_sessions_that_were_opened_elsewhere(places: dict[str, Served]) -> None:
    (port, pid), path = places[OURS].place, places[OURS].path
    said = await Load(Job(port, path, "handshake", 5, 2, calls=3, pid=pid, opened_at=port)).run()
    assert "error" not in said


@pytest.mark.process
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("era", ERAS)
def test_load_over_stdio_is_answered(known: dict[str, Contender], who: str, era: str) -> None:
    with closing(known[who].pipe()) as pipe:
        if era == "handshake":
            pipe.shake_hands()
        assert pipe.ask(LIST, era).count(b'"name":"tool') == 30
        assert pipe.load(ASKS["echo"], era, EFFORT.seconds, 64).rate > 0
        assert pipe.load(ASKS["big"], era, EFFORT.seconds, 1).rate > 0
        if era == "stateless":
            assert pipe.load(ASKS["tick"], era, EFFORT.seconds, 1, EVENTS).rate > EVENTS


@pytest.mark.process
@pytest.mark.parametrize("who", WHO)
def test_load_over_a_websocket_is_answered(places: dict[str, Served], who: str) -> None:
    with closing(SocketLine(places[who].place, f"{places[who].path}/ws")) as line:
        for in_flight in (1, 64):
            assert line.load(ASKS["echo"], "stateless", EFFORT.seconds, in_flight).rate > 0


@pytest.mark.process
async def test_a_refusal_ends_the_load(places: dict[str, Served]) -> None:
    said = await Load(Job(places[OURS].place.port, "/mcp/nobody", "stateless", 5, 2, calls=3)).run()
    assert "404" in str(said["error"])
