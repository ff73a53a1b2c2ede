"""Errors of servers that are almost right: what is read instead, and the remark about it."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.client.answers.refusal_words import repaired_error

CODE = "the code of the error is {}, but must be a whole number"


@pytest.mark.parametrize(
    ("error", "fixed", "fault"),
    [
        ({"code": -1, "message": "no"}, {"code": -1, "message": "no"}, ""),
        ({"code": -1}, {"code": -1, "message": "no message"}, "the error has no message"),
        ({"code": -1, "message": 7}, {"code": -1, "message": "7"}, "its message is a number"),
        (
            {"code": -1, "data": {"message": "the disk is full"}},
            {"code": -1, "data": {"message": "the disk is full"}, "message": "the disk is full"},
            "the error has no message",
        ),
        ({"message": "no"}, {"code": 0, "message": "no"}, "the error has no code"),
        ({"code": "-32000", "message": "no"}, {"code": -32000, "message": "no"}, CODE.format("text")),
        ({"code": "E42", "message": "no"}, {"code": 0, "message": "no (E42)"}, CODE.format("text")),
        ({"code": True, "message": "no"}, {"code": 0, "message": "no (True)"}, CODE.format("true or false")),
        ({"code": [1], "message": "no"}, {"code": 0, "message": "no ([1])"}, CODE.format("an array")),
        ("no", {"code": 0, "message": "no"}, "the error is text, but must be an object"),
        ([1], {"code": 0, "message": "[1]"}, "the error is an array, but must be an object"),
    ],
)
def test_an_error_is_read_and_its_fault_named(error: Any, fixed: dict[str, Any], fault: str) -> None:
    message, remark = repaired_error({"jsonrpc": "2.0", "id": 1, "error": error})
    assert message == {"jsonrpc": "2.0", "id": 1, "error": fixed}
    assert remark.startswith(fault) and bool(remark) == bool(fault)


def test_several_faults_are_all_named() -> None:
    _, remark = repaired_error({"id": 1, "error": {}, "result": {}})
    assert remark == (
        "a result is present beside an error; it was read as the error; the error has no code; "
        "the error has no message"
    )


def test_a_result_beside_a_null_error_is_the_result() -> None:
    message, remark = repaired_error({"id": 1, "error": None, "result": {"a": 1}})
    assert message == {"id": 1, "result": {"a": 1}} and remark.startswith('"error" is null beside a result')
