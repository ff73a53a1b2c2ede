"""Valid messages, and the comparison of ids."""

from __future__ import annotations

import pytest

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.protocol.jsonrpc import MessageKind, classify, readable_id
from mcpdesk.protocol.methods import METHODS, canonical
from mcpdesk.protocol.revisions import REVISIONS, V2024_11_05, V2025_03_26, V2026_07_28


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"jsonrpc": "2.0", "id": 1, "method": "ping"}, MessageKind.REQUEST),
        ({"jsonrpc": "2.0", "id": "", "method": "ping", "params": {}}, MessageKind.REQUEST),
        ({"jsonrpc": "2.0", "method": "notifications/initialized"}, MessageKind.NOTIFICATION),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, MessageKind.RESPONSE),
        ({"jsonrpc": "2.0", "error": {"code": 1, "message": "x"}}, MessageKind.RESPONSE),
    ],
)
def test_legal_messages_are_told_apart(message: object, kind: MessageKind) -> None:
    assert classify(message) is kind


@pytest.mark.requirement("2.1")
@pytest.mark.parametrize(
    "message",
    [
        1,
        None,
        "ping",
        {},
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": None, "method": "ping"},
        {"jsonrpc": "2.0", "id": True, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
        {"jsonrpc": "2.0", "id": [1], "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "method": 5},
        {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]},
        {"jsonrpc": "2.0", "id": 1, "method": "ping", "result": {}},
        {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}},
        {"jsonrpc": "2.0", "id": 1},
    ],
)
def test_illegal_messages_are_invalid_requests(message: object) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        classify(message)
    assert caught.value.code == -32600


def test_an_unreadable_id_is_not_echoed() -> None:
    assert readable_id({"id": 7}) == 7
    assert readable_id({"id": None}) is None
    assert readable_id([1]) is None


def test_methods_exist_where_the_specification_has_them() -> None:
    here = {name for name, row in METHODS.items() if V2026_07_28.name in row.revisions}
    assert {"server/discover", "subscriptions/listen", "tools/call"} <= here
    assert here.isdisjoint({"initialize", "ping", "logging/setLevel", "resources/subscribe"})
    assert V2024_11_05.name in METHODS["completion/complete"].revisions
    assert V2025_03_26.name in METHODS["completion/complete"].revisions
    assert all(revision.name in METHODS["tools/list"].revisions for revision in REVISIONS)


def test_dotted_and_misspelt_names_are_understood() -> None:
    assert canonical("resources.templates.list") == "resources/templates/list"
    assert canonical("notifications/canceled") == "notifications/cancelled"
    assert canonical("custom.method") == "custom.method"
