"""Sessions that all replicas share are written when they changed, and in time before they expire."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from mcpdesk.features.replicas.http.other_replicas import OtherReplicas
from mcpdesk.protocol.handshake import SessionState
from mcpdesk.transports.base import SharedSession
from mcpdesk.transports.http.sessions.session_records import seal

NOW = 1_000_000.0
KEY = "key of all replicas"
STATE = SessionState({"protocolVersion": "2025-11-25", "capabilities": {}}, True, "error", (), "mark")


def session(used: float, state: SessionState = STATE, owner: str = "ada") -> Any:
    """A session of ada that was last written at `used`, and has this state and owner now."""
    written = SharedSession("hash", "calc", seal("id", "ada", KEY), used, STATE, 1)
    dialogue = SimpleNamespace(state=state, catch_up=lambda state: None)
    return SimpleNamespace(id="id", owner=owner, shared=written, dialogue=dialogue, is_closed=False)


async def is_written(session: Any, ttl_s: float) -> bool:
    """Use a session, and return True if it was written then."""
    written: list[SharedSession] = []

    async def write(now: SharedSession, before: SessionState) -> SharedSession:
        written.append(now)
        return now

    store = SimpleNamespace(listen=lambda listener: None, write=write)
    replicas: Any = SimpleNamespace(id="a", clock=lambda: NOW, sessions=store)
    site: Any = SimpleNamespace(rules=SimpleNamespace(api_key=KEY))
    sessions: Any = SimpleNamespace(ttl_s=ttl_s)
    OtherReplicas(site, sessions, replicas).write_changed([session])
    await asyncio.sleep(0)  # the write begins
    return bool(written)


@pytest.mark.parametrize(("ttl_s", "period_s"), [(100, 10), (600, 60), (86_400, 60)])
async def test_a_session_in_use_is_written_each_minute_or_ten_times_before_it_expires(
    ttl_s: float, period_s: float
) -> None:
    assert not await is_written(session(NOW - period_s + 1), ttl_s)
    assert await is_written(session(NOW - period_s - 1), ttl_s)


async def test_a_session_is_written_when_its_state_or_owner_changed() -> None:
    assert not await is_written(session(NOW), 600)
    assert await is_written(session(NOW, replace(STATE, level="debug")), 600)
    assert await is_written(session(NOW, owner="grace"), 600)
