"""Sessions that all replicas share are written when they changed, and in time before they expire."""

from __future__ import annotations

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
    return SimpleNamespace(id="id", owner=owner, shared=written, dialogue=SimpleNamespace(state=state))


def is_written(session: Any, ttl_s: float) -> bool:
    replicas: Any = SimpleNamespace(
        id="a", clock=lambda: NOW, sessions=SimpleNamespace(listen=lambda listener: None)
    )
    site: Any = SimpleNamespace(rules=SimpleNamespace(api_key=KEY))
    sessions: Any = SimpleNamespace(ttl_s=ttl_s)
    return OtherReplicas(site, sessions, replicas).is_changed(session)


@pytest.mark.parametrize(("ttl_s", "period_s"), [(100, 10), (600, 60), (86_400, 60)])
def test_a_session_in_use_is_written_each_minute_or_ten_times_before_it_expires(
    ttl_s: float, period_s: float
) -> None:
    assert not is_written(session(NOW - period_s + 1), ttl_s)
    assert is_written(session(NOW - period_s - 1), ttl_s)


def test_a_session_is_written_when_its_state_or_owner_changed() -> None:
    assert not is_written(session(NOW), 600)
    assert is_written(session(NOW, replace(STATE, level="debug")), 600)
    assert is_written(session(NOW, owner="grace"), 600)
