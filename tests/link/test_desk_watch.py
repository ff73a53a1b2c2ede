"""Watching resources in either era: what is sent, and what a refusal does."""

from __future__ import annotations

from itertools import count
from typing import Any

from mcpdesk.link.desk_watch import DeskWatch
from mcpdesk.protocol.revisions import LATEST, LATEST_HANDSHAKE, Revision


class Sent:
    """A watch, and what it sent."""

    def __init__(self, revision: Revision) -> None:
        self.requests: list[tuple[str, Any]] = []
        self.withdrawn: list[int] = []
        ids = count(1)

        def send(method: str, params: dict[str, Any]) -> int:
            self.requests.append(
                (method, params.get("uri") or params["notifications"]["resourceSubscriptions"])
            )
            return next(ids)

        self.watch = DeskWatch(revision, send, self.withdrawn.append)


def test_one_listen_request_names_all_and_the_next_one_replaces_it() -> None:
    sent = Sent(LATEST)
    sent.watch.add("a://")
    sent.watch.add("a://")
    sent.watch.add("b://")
    sent.watch.remove("a://")
    sent.watch.remove("b://")
    listen = "subscriptions/listen"
    assert sent.requests == [(listen, ["a://"]), (listen, ["a://", "b://"]), (listen, ["b://"])]
    assert sent.withdrawn == [1, 2, 3]


def test_sessions_subscribe_one_by_one() -> None:
    sent = Sent(LATEST_HANDSHAKE)
    sent.watch.add("a://")
    sent.watch.remove("a://")
    assert sent.requests == [("resources/subscribe", "a://"), ("resources/unsubscribe", "a://")]
    assert sent.withdrawn == []


def test_what_is_refused_is_watched_no_more() -> None:
    stateless, session = Sent(LATEST), Sent(LATEST_HANDSHAKE)
    for sent in (stateless, session):
        sent.watch.add("a://")
        assert not sent.watch.answered(7, True)
        assert sent.watch.answered(1, True) and sent.watch.updates == {}
    session.watch.add("b://")
    assert session.watch.answered(2, False) and session.watch.updates == {"b://": 0}


def test_only_watched_resources_count() -> None:
    sent = Sent(LATEST)
    sent.watch.add("a://")
    sent.watch.updated("a://")
    sent.watch.updated("b://")
    assert sent.watch.updates == {"a://": 1}
