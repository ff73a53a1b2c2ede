"""A program without the feature intercepts nothing, and has neither its option nor its keys."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mcpdesk.features import VARIABLE
from mcpdesk.hosting.interception import interceptor_for
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.interceptor import InterceptedCore, Interceptor

NAMES = """
from mcpdesk.link.attach_messages import METHODS, PARTS
from mcpdesk.tui.actions import BY_ID
print(sorted(set(PARTS) & {"held", "todo"}), "do" in METHODS)
print(sorted({"traffic.hold", "traffic.faults", "traffic.mock", "traffic.export"} & set(BY_ID)))
"""


async def test_every_message_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "holding")
    interceptor = interceptor_for(InterceptedCore(Recording(None), lambda text: None))
    assert type(interceptor) is Interceptor
    assert not interceptor.is_active and not interceptor.needs_answers and not interceptor.parts
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}
    assert await interceptor.request(1, call) == (call, None)
    assert await interceptor.answer(1, call, 0.0, {"id": 1, "result": {}}) == {"id": 1, "result": {}}
    assert await interceptor.one_way(1, {"method": "a"}) == {"method": "a"}
    delivered: list[bytes] = []

    async def answered(answer: object) -> None:
        raise AssertionError("no answer is due")

    assert await interceptor.sent(1, b"{}", answered) == b"{}"
    queue = interceptor.open_queue(1, delivered.append, answered)
    queue.put(b"{}")
    await queue.wait_until_empty()
    assert delivered == [b"{}"] and not queue.has_messages and queue.close() == []
    await interceptor.wait_until_disconnected(1)


@pytest.mark.slow
def test_neither_option_nor_keys_nor_state_exist() -> None:
    def run(*argv: str) -> str:
        environment = {**os.environ, VARIABLE: "holding"}
        return subprocess.run([sys.executable, *argv], env=environment, capture_output=True, text=True).stdout

    for command in ("serve", "desk"):
        shown = run("-m", "mcpdesk", command, "--help-all")
        assert "--theme" in shown or "--socket" in shown
        assert "--faults" not in shown
    assert run("-c", NAMES).splitlines() == ["['todo'] True", "['traffic.export']"]
