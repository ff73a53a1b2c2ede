"""Watching resources in either era: requests, and refusals."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpdesk.client.connection import ServerConnection
from mcpdesk.client.negotiation import Agreement
from mcpdesk.client.subscriptions.resource_watch import ResourceWatch
from mcpdesk.protocol.revisions import LATEST, LATEST_HANDSHAKE, Revision
from mcpdesk.protocol.stateless import SUBSCRIPTION_KEY
from tests.client.test_flows import Script

LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
both_eras = pytest.mark.parametrize("revision", [LATEST, LATEST_HANDSHAKE], ids=str)


async def turns() -> None:
    """Let all ready tasks run."""
    for _ in range(20):
        await asyncio.sleep(0)


class Sent:
    """A watch, and its requests."""

    def __init__(self, revision: Revision) -> None:
        self.server = Script()
        self.connection = ServerConnection(self.server, {}, agreement=Agreement(revision))
        self.watch = ResourceWatch(self.connection)

    async def asked(self) -> list[Any]:
        """Method, and URI or URIs, of every request so far."""
        await turns()
        return [
            (
                each["method"],
                each["params"].get("uri") or each["params"]["notifications"]["resourceSubscriptions"],
            )
            for each in self.server.requests
        ]


async def test_one_listen_request_names_all_and_the_next_one_replaces_it() -> None:
    sent = Sent(LATEST)
    for act, uri in (
        ("add", "a://"),
        ("add", "a://"),
        ("add", "b://"),
        ("remove", "a://"),
        ("remove", "b://"),
    ):
        getattr(sent.watch, act)(uri)
        await turns()
    assert await sent.asked() == [(LISTEN, ["a://"]), (LISTEN, ["a://", "b://"]), (LISTEN, ["b://"])]
    identifiers = [each["id"] for each in sent.server.requests]
    assert [each["params"]["requestId"] for each in sent.server.sent] == identifiers


async def test_sessions_subscribe_one_by_one() -> None:
    sent = Sent(LATEST_HANDSHAKE)
    sent.watch.add("a://")
    await turns()
    sent.watch.remove("a://")
    assert await sent.asked() == [("resources/subscribe", "a://"), ("resources/unsubscribe", "a://")]
    assert sent.server.sent == [] and sent.server.listens == 1
    sent.watch.close()


@both_eras
async def test_what_is_refused_is_watched_no_more(revision: Revision) -> None:
    sent = Sent(revision)
    sent.watch.add("a://")
    await turns()
    sent.server.answer({"error": {"code": -32601, "message": "no"}})
    await turns()
    assert sent.watch.updates == {}
    sent.watch.add("b://")
    await turns()
    assert sent.watch.updates == {"b://": 0}
    sent.watch.close()


async def test_only_the_acknowledgement_of_its_own_subscription_counts() -> None:
    sent = Sent(LATEST)
    sent.watch.add("a://")
    await turns()
    own = sent.server.requests[0]["id"]
    for identifier in (own, own + 1, str(own), None):
        sent.server.say(ACKNOWLEDGED, {"_meta": {SUBSCRIPTION_KEY: identifier}})
    sent.server.say(ACKNOWLEDGED, {})
    assert sent.watch.updates == {"a://": 0}
    sent.server.say(ACKNOWLEDGED, {"_meta": {SUBSCRIPTION_KEY: own}})
    assert sent.watch.updates == {"a://": 1}
    sent.watch.close()


@both_eras
async def test_only_watched_resources_count(revision: Revision) -> None:
    sent = Sent(revision)
    sent.watch.add("a://")
    await turns()
    for params in ({"uri": "a://"}, {"uri": "b://"}, {}, {"uri": 5}):
        sent.server.say("notifications/resources/updated", params)
    assert sent.watch.updates == {"a://": 1}
    sent.watch.close()
