"""One client in full, as text."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from mcpdesk.link.values import ClientDetail, ClientView, ParkedOperation, RunningCall, SessionView, ToolsSeen
from mcpdesk.recorder.index.statistics import CallTally
from mcpdesk.tui.screens.clients import capabilities_text, client_text, era, title_of

EMPTY = ClientDetail({}, None, 3600.0, (), (), False, (), ())


def client(**more: object) -> ClientView:
    known = {"name": "cursor", "server": "hello", "transport": "http", "revision": "2025-11-25"}
    return ClientView(**{"connection": 1, "opened": 0.0, "calls": 3, "errors": 1, **known, **more})  # type: ignore[arg-type]


def lines(detail: ClientDetail, **more: object) -> list[str]:
    return client_text(client(**more), detail, 120.0).plain.splitlines()


def test_a_client_that_said_little() -> None:
    assert lines(EMPTY) == [
        "capabilities   none declared",
        "calls          3 · 1 error",
        "tools          never listed",
        "connected      2 min",
    ]
    assert lines(EMPTY, caller="token of ada", mode="review")[:2] == [
        "known as       token of ada",
        "mode           review",
    ]
    assert title_of(client(revision="")) == "cursor · hello over http · no message yet"


def test_calls_of_other_connections_of_the_name_are_told_apart() -> None:
    used = [("echo", cast(CallTally, SimpleNamespace(calls=5, errors=0, quantile=lambda fraction: None)))]
    told = client_text(client(calls=3), EMPTY, 120.0, used_tools=used).plain
    assert "(by all connections of this name)" in told
    assert "(with earlier" not in client_text(client(calls=5), EMPTY, 120.0, used_tools=used).plain


def test_everything_a_session_can_have() -> None:
    detail = ClientDetail(
        {"elicitation": {"form": {}}, "roots": True},
        SessionView(60.0, 1, False, 2, 2048),
        900.0,
        (("toolsListChanged", "file:///a"), ()),
        ("file:///b",),
        True,
        (RunningCall("tools/call", "slow", 1.5, 2),),
        (ParkedOperation("tools/call", "greet", ()),),
    )
    told = lines(detail, p50_s=0.001, p95_s=0.5, errors=0, tools=ToolsSeen.STALE)
    assert told == [
        "capabilities   elicitation (form) · roots",
        "calls          3 · 0 errors · p50 1.0 ms · p95 500 ms",
        "tools          last listed: stale",
        "session        open for 2 min · last used 14 min ago, ends in 1 min unless used · session_ttl_s 900",
        "               no GET stream · 1 stream in all · 2 kept events, 2.0 kB",
        "notified of    changes of every list",
        "               file:///b",
        "listens to     toolsListChanged, file:///a",
        "               nothing",
        "running        tools/call slow 1.5 s · waits for 2 answers of the client",
        "waited for     tools/call greet: a retry",
    ]


def test_a_session_in_use_does_not_end() -> None:
    detail = ClientDetail({}, SessionView(None, 1, True, 0, 0), 900.0, (), (), False, (), ())
    assert "kept open by a call or a stream" in lines(detail)[3]


def test_what_is_very_much_is_counted() -> None:
    detail = ClientDetail({}, None, 900.0, (), tuple(f"file:///{n}" for n in range(40)), False, (), ())
    assert lines(detail)[-1].strip() == "and 28 more"


def test_long_lines_are_wrapped_beside_their_label() -> None:
    detail = ClientDetail({"elicitation": {}, "sampling": {}, "roots": {}}, None, 1.0, (), (), False, (), ())
    told = client_text(client(), detail, 0.0, 40).plain.splitlines()
    assert told[:2] == ["capabilities   elicitation · sampling ·", "               roots"]


def test_text_of_strangers_stays_on_its_line() -> None:
    assert capabilities_text({"a\nb": 1}) == "a\nb"
    assert lines(ClientDetail({"a\n\x1b": 1}, None, 1.0, (), (), False, (), ()))[0].endswith("a⏎␛")


@pytest.mark.parametrize(
    ("revision", "word"),
    [("", ""), ("2024-11-05", "handshake"), ("2025-11-25", "handshake"), ("2026-07-28", "stateless")],
)
def test_revision_tells_the_era(revision: str, word: str) -> None:
    assert era(revision) == word
