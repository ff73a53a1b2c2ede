"""A call of the desk's that became a task: looked at until it is over, and its questions answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from mcpdesk.errors import ProtocolError
from mcpdesk.link.desk_call import DeskCall
from mcpdesk.link.values import Progress
from mcpdesk.protocol.jsonrpc import JSONObject

Exchange = Callable[[str, JSONObject], Awaitable[tuple[JSONObject, bytes]]]
"""Sends a request; the response as a message and as it came."""
AnswerAll = Callable[[JSONObject, DeskCall], Awaitable[JSONObject]]
"""Answers to the questions of a server, by key. Raises: ProtocolError for what is refused."""
POLL_S = 0.5
"""How often to look where the server does not say."""


class DeskTask:
    """Follows one task of the extension. Whoever cancels `outcome` cancels the task."""

    def __init__(self, call: DeskCall, exchange: Exchange, answer_all: AnswerAll) -> None:
        self._call = call
        self._exchange = exchange
        self._answer_all = answer_all

    async def outcome(self, created: JSONObject) -> tuple[JSONObject, bytes]:
        """What the call would have been answered: a message with `result` or `error`, and its frame."""
        named = {"taskId": created["taskId"]}
        pause_s = created.get("pollIntervalMs", POLL_S * 1000) / 1000
        try:
            while True:
                message, frame = await self._exchange("tasks/get", named)
                task = message.get("result") or {}
                if "error" in message or task.get("status") in _ENDS:
                    return _ended(message, task), frame
                self._call.progress = Progress(0.0, None, _at(task))
                asked = task.get("inputRequests")
                if asked:
                    answers = await self._answer_all(asked, self._call)
                    await self._exchange("tasks/update", named | {"inputResponses": answers})
                else:
                    await asyncio.sleep(pause_s)
        except ProtocolError as refused:
            # A refusal cannot be told to the server: the task ends here.
            await self._exchange("tasks/cancel", named)
            return {"error": {"code": refused.code, "message": refused.message}}, b""


_ENDS = frozenset({"completed", "failed", "cancelled"})


def _ended(message: JSONObject, task: JSONObject) -> JSONObject:
    if "error" in message:
        return message
    if "result" in task:
        return {"result": task["result"]}
    if "error" in task:
        return {"error": task["error"]}
    return {"error": {"code": 0, "message": f"the task was cancelled: {task.get('statusMessage', '')}"}}


def _at(task: JSONObject) -> str:
    said: Any = task.get("statusMessage")
    state = str(task.get("status")).replace("_", " ")
    return f"a task, {state}: {said}" if said else f"a task, {state}"
