"""Handshakes and answers of a client that offers nothing."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.client.line import answer_to, opened, opening
from mcpdesk.errors import InvalidAnswer
from mcpdesk.protocol.revisions import R1, R3


def test_opening_names_the_revision_and_offers_nothing() -> None:
    assert opening(R1)["protocolVersion"] == "2024-11-05"
    assert opening(R3)["capabilities"] == {}


def test_result_settles_revision_server_and_instructions() -> None:
    told = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "s"}, "instructions": "Be kind."}
    assert opened(told, "t") == (R3, {"name": "s"}, "Be kind.")
    assert opened({"protocolVersion": "2025-06-18", "serverInfo": 5, "instructions": 5}, "t") == (R3, {}, "")


@pytest.mark.parametrize("version", [None, 5, "", "2026-07-28", "1999-01-01"])
def test_revision_without_a_handshake_is_no_answer(version: Any) -> None:
    with pytest.raises(InvalidAnswer):
        opened({"protocolVersion": version}, "t")


@pytest.mark.parametrize(
    "message",
    [None, 5, {"method": "x"}, {"id": 1}, {"id": True, "method": "ping"}, {"id": None, "method": "ping"}],
)
def test_what_is_no_request_has_no_answer(message: Any) -> None:
    assert answer_to(message) is None
