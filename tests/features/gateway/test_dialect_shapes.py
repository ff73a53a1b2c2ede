"""The words and forms of the gateway dialect."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.features.gateway import dialect_shapes

TEXT = {"content": [{"type": "text", "text": "hi"}], "isError": False}
PROGRAM = {"exit_code": 3, "stdout": "out", "stderr": "err", "stage": "draw", "command": "map"}


def request(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": 1, "method": method}
    return message if params is None else message | {"params": params}


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
    assert dialect_shapes.translated(request("initialize", params))["params"]["protocolVersion"] == spoken


def test_stage_and_command_make_the_name_of_a_tool() -> None:
    params = {"stage": "draw", "command": "map", "args": {"input": "a"}, "mode": "async", "more": 1}
    assert dialect_shapes.translated(request("callTool", params)) == request(
        "tools/call", {"name": "draw-map", "arguments": {"input": "a"}, "mode": "async"}
    )
    named = {"name": "draw-map", "arguments": {"input": "a"}}
    assert dialect_shapes.translated(request("callTool", named))["params"] == named
    assert dialect_shapes.translated(request("listTools"))["method"] == "tools/list"
    assert dialect_shapes.translated(request("ping")) == request("ping")


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
        dialect_shapes.translated(request("callTool", params))
    assert caught.value.code == -32602


@pytest.mark.parametrize("given", ["fast", "", 1, True, {}, []])
def test_other_modes_are_refused(given: Any) -> None:
    with pytest.raises(RemoteProtocolError, match='"sync" or "async"') as caught:
        dialect_shapes.mode({"mode": given})
    assert caught.value.code == -32602
    assert dialect_shapes.mode({}) == dialect_shapes.mode({"mode": None}) == "sync"


def test_results_keep_their_members_and_get_more() -> None:
    assert dialect_shapes.dialect_result(TEXT, None) == TEXT | {
        "status": "ok", "stdout": "hi", "stderr": "", "exit_code": 0,
    }  # fmt: skip
    done = PROGRAM | {"exit_code": 0}
    body = TEXT | {"structuredContent": done}
    assert dialect_shapes.dialect_result(body, done) == body | {
        "status": "ok", "stdout": "out", "stderr": "err", "exit_code": 0,
    }  # fmt: skip
