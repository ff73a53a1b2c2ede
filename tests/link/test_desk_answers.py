"""What the desk answers without its client: refusals, roots and what it declares."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.errors import ProtocolError
from mcpdesk.inbox import inbox as inbox_module
from mcpdesk.inbox.inbox import Inbox
from mcpdesk.link.desk_answers import DeskAnswers, folder_roots
from mcpdesk.server.offer.server import Server


def answers(inbox: Inbox | None = None) -> DeskAnswers:
    return DeskAnswers(Server("s"), inbox or Inbox(), lambda: folder_roots([Path("/srv/a b")]))


async def test_folders_are_roots() -> None:
    assert await answers().answer("roots/list", {}, "") == {
        "roots": [{"uri": "file:///srv/a%20b", "name": "a b"}]
    }


async def test_a_ping_is_answered_and_what_was_not_declared_is_refused() -> None:
    assert await answers().answer("ping", {}, "") == {}
    with pytest.raises(ProtocolError, match="does not answer tasks/list") as refused:
        await answers().answer("tasks/list", {}, "")
    assert refused.value.code == -32601


async def test_a_full_inbox_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "MAX_WAITING", 0)
    params = {"message": "?", "mode": "url", "url": "https://example.org"}
    with pytest.raises(ProtocolError, match="the inbox is full"):
        await answers().answer("elicitation/create", params, "")


def test_what_needs_a_person_is_declared_with_a_screen_only() -> None:
    inbox = Inbox()
    assert answers(inbox).capabilities == {"roots": {}}
    inbox.audience = 1
    assert answers(inbox).capabilities == {
        "elicitation": {"form": {}, "url": {}},
        "sampling": {},
        "roots": {},
    }
