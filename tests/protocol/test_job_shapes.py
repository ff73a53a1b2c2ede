"""JSON of jobs: the words for their states, and the errors of failed calls."""

from __future__ import annotations

import pytest

from mcpdesk.protocol import job_shapes
from mcpdesk.protocol.task_shapes import TaskStatus

TEXT = {"content": [{"type": "text", "text": "hi"}], "isError": False}
FAILED = {"content": [{"type": "text", "text": "no"}], "isError": True}
PROGRAM = {"exit_code": 3, "stdout": "out", "stderr": "err", "stage": "draw", "command": "map"}


@pytest.mark.parametrize(
    ("status", "has_begun", "word"),
    [
        (TaskStatus.WORKING, False, "queued"),
        (TaskStatus.WORKING, True, "running"),
        (TaskStatus.INPUT_REQUIRED, True, "running"),
        (TaskStatus.COMPLETED, True, "succeeded"),
        (TaskStatus.FAILED, True, "failed"),
        (TaskStatus.CANCELLED, False, "canceled"),
    ],
)
def test_every_state_has_its_word(status: TaskStatus, has_begun: bool, word: str) -> None:
    assert job_shapes.state(status, has_begun) == word


def test_a_call_that_failed_is_an_error() -> None:
    error = job_shapes.execution_error("draw-map", FAILED, PROGRAM)
    assert error is not None and error.code == -32000
    assert error.data == PROGRAM
    bare = job_shapes.execution_error(
        "draw-map", FAILED, {"exit_code": 2, "stdout": "", "command": "run this"}
    )
    assert bare is not None and bare.data == {"exit_code": 2, "stage": "draw", "command": "map"}
    late = job_shapes.execution_error("draw-map", FAILED, PROGRAM | {"exit_code": 143, "timed_out": True})
    assert late is not None and str(late) == "draw-map timed out and ended with exit code 143"
    assert job_shapes.execution_error("draw-map", TEXT, PROGRAM) is None
    odd = job_shapes.execution_error("draw-map", FAILED, PROGRAM | {"exit_code": 0})
    assert odd is not None and odd.data == PROGRAM | {"exit_code": 0}
    for other in (None, {}, {"exit_code": "3"}, {"exit_code": True}, [3]):
        tool = job_shapes.execution_error("draw-map", FAILED, other)
        assert tool is not None and (tool.code, str(tool)) == (-32000, "no")
        named = {"exit_code": None, "stage": "draw", "command": "map", "stderr": "no"}
        assert tool.data == named | ({} if other is None else {"structuredContent": other})
