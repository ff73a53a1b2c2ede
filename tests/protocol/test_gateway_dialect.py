"""The words and forms of the gateway dialect."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.protocol import gateway_dialect
from mcpdesk.protocol.task_shapes import TaskStatus

TEXT = {"content": [{"type": "text", "text": "hi"}], "isError": False}
FAILED = {"content": [{"type": "text", "text": "no"}], "isError": True}
PROGRAM = {"exit_code": 3, "stdout": "out", "stderr": "err", "stage": "draw", "command": "map"}


def request(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": 1, "method": method}
    return message if params is None else message | {"params": params}


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
    assert gateway_dialect.state(status, has_begun) == word


@pytest.mark.parametrize(
    ("offered", "spoken"),
    [
        (None, "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2024-11-05", "2024-11-05"),
        ("2026-07-28", "2025-06-18"),
        ("1999-01-01", "2025-06-18"),
        (7, "2025-06-18"),
    ],
)
def test_a_handshake_names_a_revision_or_gets_the_dialects_own(offered: Any, spoken: str) -> None:
    params = None if offered is None else {"protocolVersion": offered}
    assert gateway_dialect.translated(request("initialize", params))["params"]["protocolVersion"] == spoken


def test_stage_and_command_make_the_name_of_a_tool() -> None:
    params = {"stage": "draw", "command": "map", "args": {"input": "a"}, "mode": "async", "more": 1}
    assert gateway_dialect.translated(request("callTool", params)) == request(
        "tools/call", {"name": "draw-map", "arguments": {"input": "a"}, "mode": "async"}
    )
    named = {"name": "draw-map", "arguments": {"input": "a"}}
    assert gateway_dialect.translated(request("callTool", named))["params"] == named
    assert gateway_dialect.translated(request("listTools"))["method"] == "tools/list"
    assert gateway_dialect.translated(request("ping")) == request("ping")


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (None, "params.stage"),
        ({"stage": "a"}, "params.command"),
        ({"stage": "", "command": "b"}, "params.stage"),
        ({"stage": 1, "command": "b"}, "params.stage"),
        ({"stage": "a", "command": "b", "args": []}, "params.args must be an object"),
    ],
)
def test_a_call_without_a_tool_is_refused_by_name(params: Any, said: str) -> None:
    with pytest.raises(RemoteProtocolError, match=said) as caught:
        gateway_dialect.translated(request("callTool", params))
    assert caught.value.code == -32602


@pytest.mark.parametrize("given", ["fast", "", 1, True, {}, []])
def test_other_modes_are_refused(given: Any) -> None:
    with pytest.raises(RemoteProtocolError, match='"sync" or "async"') as caught:
        gateway_dialect.mode({"mode": given})
    assert caught.value.code == -32602
    assert gateway_dialect.mode({}) == gateway_dialect.mode({"mode": None}) == "sync"


def test_results_keep_their_members_and_get_more() -> None:
    assert gateway_dialect.superset(TEXT, None) == TEXT | {
        "status": "ok", "stdout": "hi", "stderr": "", "exit_code": 0,
    }  # fmt: skip
    done = PROGRAM | {"exit_code": 0}
    body = TEXT | {"structuredContent": done}
    assert gateway_dialect.superset(body, done) == body | {
        "status": "ok", "stdout": "out", "stderr": "err", "exit_code": 0,
    }  # fmt: skip


def test_a_call_that_failed_is_an_error() -> None:
    error = gateway_dialect.execution_error("draw-map", FAILED, PROGRAM)
    assert error is not None and error.code == -32000
    assert error.data == PROGRAM
    bare = gateway_dialect.execution_error(
        "draw-map", FAILED, {"exit_code": 2, "stdout": "", "command": "run this"}
    )
    assert bare is not None and bare.data == {"exit_code": 2, "stage": "draw", "command": "map"}
    late = gateway_dialect.execution_error(
        "draw-map", FAILED, PROGRAM | {"exit_code": 143, "timed_out": True}
    )
    assert late is not None and str(late) == "draw-map timed out and ended with exit code 143"
    assert gateway_dialect.execution_error("draw-map", TEXT, PROGRAM) is None
    odd = gateway_dialect.execution_error("draw-map", FAILED, PROGRAM | {"exit_code": 0})
    assert odd is not None and odd.data == PROGRAM | {"exit_code": 0}
    for other in (None, {}, {"exit_code": "3"}, {"exit_code": True}, [3]):
        tool = gateway_dialect.execution_error("draw-map", FAILED, other)
        assert tool is not None and (tool.code, str(tool)) == (-32000, "no")
        named = {"exit_code": None, "stage": "draw", "command": "map", "stderr": "no"}
        assert tool.data == named | ({} if other is None else {"structuredContent": other})
