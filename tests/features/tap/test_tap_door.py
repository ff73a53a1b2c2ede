"""The door of a tap: screens receive held messages when they change, without polling."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextvars import Context
from pathlib import Path
from typing import Any, TypeVarTuple

import msgspec

from mcpdesk.features.holding.held_message import HoldView, SetFaults
from mcpdesk.features.tap import tap_door
from mcpdesk.link.attach_messages import METHODS, Ask, Join, Reply, State, framed, pack, read_message
from mcpdesk.link.core_copy import _core_decoder
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.transports.relay import REPORT_HEADER
from mcpdesk.version import __version__

Given = TypeVarTuple("Given")


class ObservedLoop(asyncio.SelectorEventLoop):
    """Notes the delays of its timers."""

    def __init__(self) -> None:
        super().__init__()
        self.delays: list[float] = []

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Given], object],
        *args: *Given,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self.delays.append(delay)
        return super().call_later(delay, callback, *args, context=context)


def test_screens_receive_what_is_held_without_polling(tmp_path: Path) -> None:
    with asyncio.Runner(loop_factory=ObservedLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, ObservedLoop)
        runner.run(_hold_and_see(tmp_path / "meet", loop))


async def _hold_and_see(place: Path, loop: ObservedLoop) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place))
    listener.listen()
    ours, first = socket.socketpair()
    told, gate_tells = os.pipe()
    gate_hears, words = os.pipe()
    serving = loop.create_task(tap_door.serve_screens(listener, first, Recording(None), told, words))
    reader = ours.makefile("rb")

    async def received() -> Any:
        return _core_decoder.decode(await asyncio.to_thread(read_message, reader.read))

    async def held() -> HoldView:
        news = await received()
        assert isinstance(news, State) and news.part == "held"
        return msgspec.msgpack.decode(news.value, type=HoldView)

    ours.sendall(framed(Join(__version__)))
    assert not (await held()).rule
    assert tap_door.UPDATE_DELAY_S not in loop.delays, "nothing was changed, and no timer runs"
    ours.sendall(framed(Ask(1, "do", pack((SetFaults("delay 1s for tool:x"),)))))
    os.write(gate_tells, REPORT_HEADER.pack(False, 0, 0))  # the gate asks about every line from now on
    answers = [await received(), await received()]
    reply = next(each for each in answers if isinstance(each, Reply))
    assert METHODS["do"].result.decode(reply.value) and not reply.error
    assert any(isinstance(each, State) for each in answers)
    assert loop.delays.count(tap_door.UPDATE_DELAY_S) == 1
    serving.cancel()
    reader.close()
    for each in (ours, listener):
        each.close()
    for descriptor in (gate_tells, gate_hears):
        os.close(descriptor)
    await asyncio.wait({serving})
