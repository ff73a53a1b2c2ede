"""SetCallback: due messages are sent to the caller, the desk and all subscribers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.errors import HandlerError
from mcpdesk.server.state.callback_timers import CallbackTimers
from mcpdesk.server.state.server_state import ServerState
from tests.support.desk import RunningDesk, running_desk
from tests.support.patience import in_time, until
from tests.tools.support import ToolContext, fields, use


class Clock:
    """A manual clock."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Caller(ToolContext):
    """Keeps the messages it receives after its call."""

    def __init__(self, home: ServerState) -> None:
        super().__init__(home=home)
        self.told: list[tuple[str, dict[str, Any]]] = []

    def log_later(self, logger: str) -> Any:
        assert logger == "callback"

        def tell(level: str, data: dict[str, Any]) -> bool:
            self.told.append((level, data))
            return True

        return tell


@pytest.fixture
def clock(home: ServerState) -> Clock:
    made = Clock()
    home.__dict__["callbacks"] = CallbackTimers(home.data, made)
    return made


@pytest.fixture
def caller(home: ServerState, clock: Clock) -> Caller:
    return Caller(home)


async def manage(caller: ToolContext, action: str, **more: Any) -> list[dict[str, Any]]:
    result = await use("SetCallback", caller, action=action, **more)
    found: list[dict[str, Any]] = fields(result)["callbacks"]
    return found


async def passed(home: ServerState, clock: Clock, seconds: float) -> None:
    """Advance the clock, and fire due callbacks."""
    version = home.callbacks.version
    clock.now += seconds
    home.callbacks._schedule.wake()
    await until(lambda: home.callbacks.version != version)


async def test_a_message_comes_back_as_often_as_was_asked(
    home: ServerState, clock: Clock, caller: Caller
) -> None:
    (callback,) = await manage(caller, "set", message="stretch", delay_seconds=60, repeat_count=2)
    assert (callback["callback_id"], callback["state"], callback["uri"]) == (1, "waiting", "callback://1")
    assert caller.told == []
    await passed(home, clock, 60)
    await passed(home, clock, 60)
    assert caller.told == [
        ("notice", {"callback_id": 1, "message": "stretch", "fired": 1, "left": 1}),
        ("notice", {"callback_id": 1, "message": "stretch", "fired": 2, "left": 0}),
    ]
    assert [each["state"] for each in await manage(caller, "list")] == ["over"]


async def test_a_cancelled_one_stays_silent(home: ServerState, clock: Clock, caller: Caller) -> None:
    await manage(caller, "set", message="stretch", delay_seconds=60)
    await manage(caller, "set", message="drink", delay_seconds=60)
    (callback,) = await manage(caller, "cancel", callback_id=1)
    assert callback["state"] == "over"
    await passed(home, clock, 61)
    assert [data["message"] for _, data in caller.told] == ["drink"]
    again = await use("SetCallback", caller, action="cancel", callback_id=1)
    assert "had already ended" in again.content[0]["text"]


async def test_it_survives_the_server_and_catches_up_once(
    home: ServerState, clock: Clock, caller: Caller
) -> None:
    await manage(caller, "set", message="stretch", delay_seconds=60, repeat_count=10)
    await home.close()
    again = ServerState(home.folder, home.state)
    heard = asyncio.Queue[tuple[int, bool]]()
    clock.now += 3600
    callbacks = CallbackTimers(again.data, clock)
    callbacks.subscribe(lambda callback, has_fired: heard.put_nowait((callback.fired, has_fired)))
    await callbacks.wake()
    assert await in_time(heard.get()) == (1, True)
    assert heard.empty() and callbacks.snapshot[0].remaining_firings == 9
    await callbacks.close()
    await again.close()


async def test_it_can_be_fired_before_its_time(home: ServerState, clock: Clock, caller: Caller) -> None:
    await manage(caller, "set", message="stretch", delay_seconds=3600)
    assert await home.callbacks.fire(1)
    assert [data["left"] for _, data in caller.told] == [0]
    assert not await home.callbacks.fire(1) and not await home.callbacks.fire(7)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"action": "set", "delay_seconds": 5}, "message: is missing"),
        ({"action": "set", "message": " ", "delay_seconds": 5}, "message: is missing"),
        ({"action": "set", "message": "x" * 10_001, "delay_seconds": 5}, "message: has 10001 characters"),
        ({"action": "set", "message": "\x07", "delay_seconds": 5}, r"control character U\+0007"),
        ({"action": "set", "message": "x"}, "delay_seconds: is missing; 1 to 3600"),
        ({"action": "cancel"}, "callback_id: is missing"),
        ({"action": "cancel", "callback_id": 9}, "callback_id: no callback 9"),
        ({"action": "cancel", "callback_id": 1 << 80}, "callback_id: no callback"),
    ],
)
async def test_what_cannot_be_done_names_the_parameter(
    caller: Caller, arguments: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(HandlerError, match=complaint):
        await use("SetCallback", caller, **arguments)


async def test_a_looping_client_does_not_fill_the_file(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpdesk.server.state.callback_timers.MAX_CALLBACKS", 1)
    await manage(caller, "set", message="x", delay_seconds=60)
    with pytest.raises(HandlerError, match="1 callbacks are already waiting, which is the limit"):
        await manage(caller, "set", message="x", delay_seconds=60)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "mcp.json").write_text('{"name": "shop", "builtins": ["SetCallback"]}')
    async with running_desk(folder, state_dir=str(tmp_path / "state")) as link:
        yield link


@pytest.mark.slow
async def test_the_desk_hears_of_it_and_the_resource_tells(desk: RunningDesk) -> None:
    arguments = {"action": "set", "message": "stretch", "delay_seconds": 1}
    await desk.answer_of("shop", "tools/call", {"name": "SetCallback", "arguments": arguments})
    await until(lambda: any("stretch" in notice.text for notice in desk.notices()), 5)
    assert desk.notices()[-1].screen == "activity/callbacks"
    read = await desk.answer_of("shop", "resources/read", {"uri": "callback://1"})
    assert '"state":"over"' in read["contents"][0]["text"].replace(" ", "")


@pytest.mark.parametrize("delay", [0, 3601, -1])
async def test_a_delay_out_of_range_is_told_the_range(desk: RunningDesk, delay: int) -> None:
    arguments = {"action": "set", "message": "x", "delay_seconds": delay}
    result = await desk.answer_of("shop", "tools/call", {"name": "SetCallback", "arguments": arguments})
    assert result["isError"] and "delay_seconds" in result["content"][0]["text"]
