"""Each subscriber receives the changes it asked for, tagged with its own id."""

from __future__ import annotations

import orjson

from mcpdesk.server.calls.subscriptions import Subscriber, Subscriptions


async def test_updates_reach_those_who_named_the_uri() -> None:
    subscriptions = Subscriptions()
    heard: list[bytes] = []
    session = Subscriber("s", heard.append, {"a:1"})
    listener = Subscriber("s", heard.append, {"a:1"}, frozenset(), listen_id=7)
    other = Subscriber("other", heard.append, {"a:1"})
    for each in (session, listener, other):
        subscriptions.add(each)
    subscriptions.resource_updated("s", "a:1")
    subscriptions.resource_updated("s", "a:2")
    params = [orjson.loads(each)["params"] for each in heard]
    tag = {"io.modelcontextprotocol/subscriptionId": 7}
    assert params == [{"uri": "a:1"}, {"uri": "a:1", "_meta": tag}]
    subscriptions.remove(session)
    subscriptions.remove(session)
    assert len(subscriptions) == 2


async def test_closing_lets_listeners_end() -> None:
    subscriptions = Subscriptions()
    subscriptions.close()
    await subscriptions.until_closed()


def test_changed_list_is_told_to_those_who_see_the_server_so() -> None:
    subscriptions = Subscriptions()
    heard: list[str] = []
    for mode in ("", "review"):
        told = lambda _, mode=mode: heard.append(mode)  # noqa: E731
        subscriptions.add(Subscriber("s", told, {"a:1"}, mode=mode))
    subscriptions.list_changed("s", "tool")
    subscriptions.list_changed("s", "tool", "review")
    subscriptions.list_changed("s", "tool", "other")
    assert heard == ["", "review"]
    subscriptions.resource_updated("s", "a:1")
    assert heard == ["", "review", "", "review"]
