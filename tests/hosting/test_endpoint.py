"""Dialogues are known to the recorder by number, name and revision."""

from __future__ import annotations

from mcpdesk.hosting.endpoint import HIDDEN_ERROR, HostedEndpoint
from mcpdesk.server.offer.registry import Unavailable
from tests.support.served import Peer
from tests.support.site import Frames


async def test_a_dialogue_is_announced_named_and_ended() -> None:
    peer, frames = Peer(), Frames()
    endpoint = HostedEndpoint(peer.server, peer.services, frames)
    dialogue = endpoint.open("http", "10.0.0.1")
    assert frames.connections[dialogue.connection].peer == "10.0.0.1"
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "curl", "version": "8"},
    }
    dialogue.accept_message(
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, peer.channel, None, None
    )
    known = frames.connections[dialogue.connection]
    assert (known.peer, known.revision, known.closed) == ("curl 8", "2025-06-18", None)
    dialogue.close()
    assert frames.connections[dialogue.connection].closed is not None
    assert not endpoint.dialogues


async def test_a_revision_can_be_adopted_without_a_handshake() -> None:
    peer = Peer()
    dialogue = peer.endpoint.open("http", "curl")
    assert dialogue.assume_revision("2025-06-18", "curl")
    assert dialogue.revision == "2025-06-18"
    assert not dialogue.assume_revision("2026-07-28", "curl")
    assert not dialogue.assume_revision("1999-01-01", "curl")


async def test_facts_count_what_is_offered() -> None:
    peer_facts = Peer().endpoint.facts()
    assert peer_facts == {
        "name": "sample", "version": "1.0", "token_required": False, "tools": 9, "resources": 1,
        "templates": 1, "prompts": 1, "modes": [], "unavailable": [],
    }  # fmt: skip


async def test_facts_name_what_is_missing_but_not_what_code_said_when_it_failed() -> None:
    peer = Peer()
    needs = "needs MAIL, an environment variable that is not set"
    failed = "OSError: no route to postgres://ada:s3cret@db"
    left_out = [
        Unavailable("mail", needs, "mcp.json:1", is_fit=True),
        Unavailable("shop", failed, "tools/shop.py:1"),
    ]
    peer.server.tools.replace([], left_out)
    mail, shop = peer.endpoint.facts()["unavailable"]
    assert mail == {"name": "mail", "reason": needs}
    assert shop == {"name": "shop", "reason": HIDDEN_ERROR}
