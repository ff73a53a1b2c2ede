"""One session's transitions."""

from __future__ import annotations

import pytest

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.protocol.handshake import Phase, Session, log_level
from mcpdesk.protocol.revisions import V2025_06_18, V2025_11_25

PARAMS = {
    "protocolVersion": V2025_06_18.name,
    "capabilities": {"roots": {}},
    "clientInfo": {"name": "cc", "version": "2"},
}


def test_a_session_opens_once_and_becomes_ready() -> None:
    session = Session()
    session.initialized()
    assert not session.is_open
    assert session.initialize(PARAMS) is V2025_06_18
    assert (session.terms.client, session.terms.capabilities) == ("cc 2", {"roots": {}})
    session.initialized()
    session.initialized()
    assert session.phase is Phase.READY
    with pytest.raises(RemoteProtocolError):
        session.initialize(PARAMS)


@pytest.mark.parametrize(
    "params", [{}, {"protocolVersion": 5}, {"protocolVersion": V2025_11_25.name, "capabilities": []}]
)
def test_a_bad_handshake_leaves_the_session_new(params: dict[str, object]) -> None:
    session = Session()
    with pytest.raises(RemoteProtocolError) as caught:
        session.initialize(params)
    assert caught.value.code == -32602
    assert not session.is_open


@pytest.mark.requirement("1.10")
def test_the_stateless_revision_is_not_negotiated() -> None:
    assert Session().initialize(PARAMS | {"protocolVersion": "2026-07-28"}) is V2025_11_25


def test_levels_ascend_and_unknown_ones_are_refused() -> None:
    assert log_level("debug") < log_level("warning") < log_level("emergency")
    for level in ("loud", None, 3, "loud" * 1_000, ["loud"] * 1_000):
        with pytest.raises(RemoteProtocolError, match="debug") as caught:
            log_level(level)
        assert len(str(caught.value)) < 300
