"""A request of the desk's ends once, whoever ends it."""

from __future__ import annotations

from mcpdesk.link.desk_call import KEPT_LOGS, DeskCall


def call(params: dict[str, object] | None = None) -> DeskCall:
    return DeskCall(1, 1, "tools/call", params or {}, lambda ended: ended.finish(None, b""))


def test_cancelling_ends_it_and_a_late_answer_changes_nothing() -> None:
    one = call()
    one.cancel()
    one.finish({"result": {}}, b"{}")
    outcome = one.outcome.result()
    assert outcome.cancelled and outcome.error is not None and outcome.result is None


def test_a_response_is_its_outcome() -> None:
    one = call()
    one.finish({"error": {"code": -1, "message": "no"}}, b"raw")
    outcome = one.outcome.result()
    assert (outcome.error, outcome.raw, outcome.cancelled) == ({"code": -1, "message": "no"}, b"raw", False)


def test_logs_are_kept_up_to_a_bound() -> None:
    one = call()
    for number in range(KEPT_LOGS + 5):
        one.note(str(number))
    assert len(one.logs) == KEPT_LOGS


def test_what_runs_has_a_name() -> None:
    assert [call(params).subject for params in ({"name": "a"}, {"uri": "b://"}, {})] == [
        "a",
        "b://",
        "tools/call",
    ]
