"""Malformed errors of servers are fixed, and the fault is described."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mcpdesk.client.answers.refusal_words import repaired_error


@pytest.mark.parametrize(
    ("error", "fixed", "fault"),
    [
        ({"message": "x"}, {"code": 0, "message": "x"}, "the error has no code"),
        (
            {"code": [1], "message": "x"},
            {"code": 0, "message": "x ([1])"},
            "the code of the error is .*, but must be a whole number",
        ),
        ({"code": "-32602", "message": "x"}, {"code": -32602, "message": "x"}, "must be a whole number"),
        ({"code": 5}, {"code": 5, "message": "no message"}, "the error has no message"),
        ({"code": 5, "message": 7}, {"code": 5, "message": "7"}, "its message is "),
        ("gone", {"code": 0, "message": "gone"}, "must be an object with `code` and `message`"),
    ],
)
def test_an_error_is_fixed_and_its_fault_described(error: Any, fixed: Any, fault: str) -> None:
    message, said = repaired_error({"id": 1, "error": error})
    assert message == {"id": 1, "error": fixed}
    assert re.search(fault, said)


def test_a_valid_error_stays_as_it_is() -> None:
    valid = {"id": 1, "error": {"code": 5, "message": "x"}}
    assert repaired_error(valid) == (valid, "")
