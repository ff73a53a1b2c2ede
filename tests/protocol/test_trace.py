"""Trace context in request metadata."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.protocol.trace import NONE, Trace, read_trace, trace_of

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.requirement("10.6")
def test_well_formed_members_are_kept_and_told_to_children() -> None:
    meta = {
        "traceparent": PARENT,
        "tracestate": "congo=t61rcWkgMzE, a@b=1",
        "baggage": "userId=al%20ice;p=1,k = v",
    }
    trace = read_trace(meta)
    assert trace == Trace(**meta)
    assert trace.id == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert trace.environment() == {key.upper(): value for key, value in meta.items()}


@pytest.mark.requirement("10.6")
@pytest.mark.parametrize(
    "parent",
    [
        "",
        5,
        None,
        PARENT.upper(),
        PARENT + "-x",
        PARENT[:-1],
        "ff" + PARENT[2:],
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
        PARENT + "\n",
        f"{PARENT}\x00",
    ],
)
def test_a_malformed_parent_counts_as_absent_and_takes_its_state_along(parent: Any) -> None:
    assert read_trace({"traceparent": parent, "tracestate": "a=b"}) == NONE


def test_a_later_version_may_go_on_after_the_flags() -> None:
    assert read_trace({"traceparent": "cc" + PARENT[2:] + "-what-the-future-brings"}).id.startswith("4bf9")


@pytest.mark.parametrize("state", ["a", "A=b", "a=b\nc", "a=é", "a=b," * 33, "a=" + "b" * 600, ["a=b"]])
def test_malformed_state_counts_as_absent(state: Any) -> None:
    assert read_trace({"traceparent": PARENT, "tracestate": state}) == Trace(PARENT)


@pytest.mark.parametrize("baggage", ["a", "a=b\r\nX: y", "a=é", "é=a", 'a="b"', "a=b," * 181, {"a": "b"}])
def test_malformed_baggage_counts_as_absent(baggage: Any) -> None:
    assert read_trace({"baggage": baggage}) == NONE


@pytest.mark.parametrize("meta", [None, [], "x", {}, {"progressToken": 1}])
def test_metadata_without_it_has_none(meta: Any) -> None:
    assert read_trace(meta) is NONE


def test_trace_of_the_message_counts_before_that_of_its_http_request() -> None:
    meta, headers = {"traceparent": PARENT}, {"traceparent": f"00-{'1' * 32}-{'2' * 16}-00", "accept": "*/*"}
    assert trace_of(meta, headers) == trace_of(meta, None) == Trace(PARENT)
    around = trace_of({"traceparent": "nonsense"}, headers)
    assert (around.id, around.parent, around.is_sampled) == ("1" * 32, "2" * 16, False)
    assert trace_of(None, {"accept": "*/*"}) is NONE
    assert trace_of(None, None).is_sampled is False and NONE.parent == ""
    assert Trace(PARENT).is_sampled


@given(
    st.fixed_dictionaries({}, optional={key: st.text() for key in ("traceparent", "tracestate", "baggage")})
)
def test_nothing_unprintable_ever_reaches_an_environment(meta: dict[str, str]) -> None:
    for value in read_trace(meta).environment().values():
        assert value.isascii() and all(char >= " " or char == "\t" for char in value)
