"""Messages are held as usual in a core whose messages another feature intercepts as well."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mcpdesk.features.holding import FEATURE
from mcpdesk.features.holding.held_message import HoldView, Release, SetHold, Verdict
from mcpdesk.hosting import interception
from tests.hosting.test_interception import Bell, Ring, StampFeature
from tests.support.desk import running_desk
from tests.support.folders import write
from tests.support.messages import text_of
from tests.support.patience import until


async def test_a_call_is_held_and_then_reaches_the_other_interceptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = StampFeature("B", Bell())
    monkeypatch.setattr(interception, "features_with", lambda member: iter((FEATURE, other)))
    code = 'async def say(text: str) -> str:\n    """Say it."""\n    return text\n'
    write(tmp_path, {"mcp.json": '{"name": "one"}', "tools/say.py": code})
    async with running_desk(tmp_path) as desk:
        assert await asyncio.wrap_future(desk.do(SetHold("tool:say", "requests")))
        call = desk.request("one", "tools/call", {"name": "say", "arguments": {"text": "mine"}})
        await until(lambda: desk.feature_part(HoldView).messages)
        (held,) = desk.feature_part(HoldView).messages
        changed = held.text.replace("mine", "yours")
        assert await asyncio.wrap_future(desk.do(Release(held.number, Verdict.CHANGE, changed)))
        outcome = await asyncio.wrap_future(call.outcome)
        assert outcome.result is not None and text_of({"result": outcome.result}) == "yoursB"
        assert desk.feature_part(Bell) == Bell()
        assert await asyncio.wrap_future(desk.do(Ring())) == "Ring by B"
