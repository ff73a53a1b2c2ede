"""Parts below a result: the logs of its call, and the difference from the same call before."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mcpdesk.hosting.journal import LogLine
from mcpdesk.link.values import CallOutcome
from mcpdesk.tui.results.after_call import (
    MAX_COMPARED_BYTES,
    call_log_widgets,
    differences,
    failure_code,
    log_blocks,
)


def outcome(text: str = "", error: dict[str, Any] | None = None, **more: Any) -> CallOutcome:
    result = {"content": [{"type": "text", "text": text}], **more} if error is None else None
    return CallOutcome(result, error, text.encode(), 0.1)


def shown(widgets: Any) -> list[str]:
    return [str(widget.render()) for widget in widgets]


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (None, outcome("a"), []),
        (outcome("a"), outcome("a"), ["= the same as before"]),
        (outcome("a", _meta={"n": 1}), outcome("a", _meta={"n": 2}), ["= the same as before"]),
        (outcome("a\nb"), outcome("a\nc"), ["changed since the call before", "-b\n+c"]),
        (outcome("a", structuredContent={"n": 1}), outcome("a", structuredContent={"n": 2}), ['-    "n": 1']),
        (outcome("KeyError", isError=True), outcome("a"), ["-KeyError\n+a"]),
        (outcome("a"), outcome("b", isError=True), ["-a\n+b"]),
        (outcome("a", isError=True), outcome("b", isError=True), ["-a\n+b"]),
        (replace(outcome("a"), cancelled=True), outcome("b"), []),
        (outcome("x" * MAX_COMPARED_BYTES + "y"), outcome("a"), []),
    ],
)
def test_what_changed_is_told(before: CallOutcome | None, now: CallOutcome, told: list[str]) -> None:
    text = "\n".join(shown(differences(before, now)))
    assert all(each in text for each in told) and bool(told) == bool(text), text


def test_only_what_differs_is_shown_and_nothing_of_what_follows_a_text() -> None:
    assert shown(differences(outcome("a"), outcome("b")))[1] == "@@ -1 +1 @@\n-a\n+b"


def test_equal_tracebacks_are_shown_once_with_their_number_where_the_last_one_was() -> None:
    traceback = "Traceback\nKeyError: 'tea'"
    lines = [LogLine(number, 0.0, "error", "t", traceback) for number in range(2)]
    lines.insert(1, LogLine(9, 0.0, "info", "t", "again"))
    lines += [LogLine(10, 0.0, "info", "t", "again"), LogLine(11, 0.0, "info", "t", "a\nb")]
    assert shown(log_blocks(lines)) == [
        "info again",
        f"error ×2\n{traceback}",
        "info again",
        "info\na\nb",
    ]


def test_the_log_of_a_call_names_the_place_of_its_failure() -> None:
    lines = [
        LogLine(1, 0.0, "info", "t", "looking\x1b[2J"),
        LogLine(2, 0.0, "error", "t", "Traceback\nKeyError: 'tea'", "tools/t.py:9"),
    ]
    assert shown(call_log_widgets(lines)) == [
        "log of this call · tools/t.py:9 · g c opens it",
        "info looking␛[2J",
        "error\nTraceback\nKeyError: 'tea'",
    ]
    secret = LogLine(3, 0.0, "info", "print", "password: hunter2")
    assert "hunter2" not in shown(call_log_widgets([secret]))[1]
    assert shown(call_log_widgets(lines[:1]))[0] == "log of this call"
    assert shown(call_log_widgets([])) == []


def test_equal_tracebacks_of_a_call_are_counted() -> None:
    stack = "Traceback\nKeyError: 'tea'"
    lines = [LogLine(at, 0.0, "error", "t", each) for at, each in enumerate((stack, "said", stack, stack))]
    assert shown(log_blocks(lines)) == ["error said", f"error ×3\n{stack}"]


def test_the_code_that_failed_is_found_as_python_and_as_rich_write_it() -> None:
    python = 'Traceback\n  File "t.py", line 9, in f\n    return int(x)\n    ^^^\nKeyError: 1'
    assert failure_code(LogLine(1, 0.0, "error", "t", python, "t.py:9")) == (2, "return int(x)")
    rich = "ERROR\n│ /srv/t.py:9 in f │\n│   8 │ x = 1    │\n│ ❱ 9 │   return x │\n╰──╯\nKeyError: 1"
    assert failure_code(LogLine(1, 0.0, "error", "t", rich, "/srv/t.py:9")) == (3, "return x")
    assert failure_code(LogLine(1, 0.0, "error", "t", "one\ntwo", "t.py:9")) == (1, "")


def test_a_traceback_of_rich_stands_at_the_left_edge() -> None:
    said = "12:03:40 ERROR  failed  server.py:9\n      ╭─ Traceback ─╮      \n      │ x = 1       │      "
    assert shown(log_blocks([LogLine(1, 0.0, "error", "stderr", said)])) == [
        "error\n12:03:40 ERROR  failed  server.py:9\n╭─ Traceback ─╮\n│ x = 1       │"
    ]
