"""Decisions about the messages that pass a tap.

A tap is a process between a client and a server. The part of the tap that copies lines between them is called
the gate. While messages may be held, the gate reports each line and waits for a command. Use a `HeldTap` on
one event loop.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from time import time
from typing import Any, TypeAlias

from mcpdesk.errors import AnswerCut, ProtocolError
from mcpdesk.features.tap.tapped_messages import TAPPED
from mcpdesk.hosting.interception import interceptor_for
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import Id, JSONObject, is_id, meta_of, params_of, progress_token
from mcpdesk.protocol.reading.message_framer import MessageLines
from mcpdesk.protocol.request_table import RequestTable
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.interceptor import InterceptedCore
from mcpdesk.transports import relay

MAX_PENDING_REQUESTS = 10_000
"""Maximum number of requests without an answer that are remembered.

Answers to older requests are not held.
"""
READY_S = 1.0
"""Maximum number of seconds for which `ready` waits."""
INCOMPLETE_S = 2.0
"""Seconds to wait for the next line of a message that has several lines."""
MAX_MESSAGE_BYTES = relay.MAX_COPIES_BYTES // 2
"""Maximum size in bytes of a message with several lines, because the gate must buffer all of it."""

LineNumbers: TypeAlias = tuple[int, ...]
"""Line numbers of one message."""


class HeldTap:
    """Decides about the lines that the gate of a tap reports."""

    def __init__(
        self, recording: Recording, report: Callable[[str], object], on_view: Callable[[], object]
    ) -> None:
        """`report` shows a message to a person. `on_view` is called after a change of the interceptor's
        state.
        """
        self.interceptor = interceptor_for(
            InterceptedCore(recording, report, self.intercept, on_part=on_view)
        )
        self._reader = asyncio.StreamReader()
        self._commands: asyncio.WriteTransport | None = None
        self._must_report = False
        """True if the latest command to the gate was to report lines."""
        self._confirmed = asyncio.Event()
        """Set when the gate has confirmed the latest command to start or to stop reporting lines."""
        self._lines = {is_from_client: MessageLines(MAX_MESSAGE_BYTES) for is_from_client in (True, False)}
        self._timers: dict[bool, asyncio.TimerHandle] = {}
        """Timers by direction.

        When a timer fires, the tap stops waiting for the rest of an incomplete message.
        """
        self._requests = RequestTable[Id, tuple[JSONObject, float]](MAX_PENDING_REQUESTS)
        """Requests of the client that have no answer yet, as they were sent to the server, each with its Unix
        time."""
        self._tokens: dict[Id, Id] = {}
        """Request ids by progress token."""
        self._last_tasks: dict[Id | None, asyncio.Task[None]] = {}
        """Latest task that holds a message of the server, by id of the request that the message is about.

        The key None is for messages about no request.
        """
        self._tasks: set[asyncio.Task[None]] = set()

    async def connect(self, reports: int, commands: int) -> None:
        """Open the pipes from and to the gate. `reports` and `commands` are their file descriptors."""
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._reader), os.fdopen(reports, "rb", 0)
        )
        self._commands, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(commands, "wb", 0))
        self.intercept()

    async def listen(self) -> None:
        """Decide about every line that the gate reports, until the tap ends."""
        reader = self._reader
        try:
            while True:
                is_from_client, number, size = relay.REPORT_HEADER.unpack(
                    await reader.readexactly(relay.REPORT_HEADER.size)
                )
                if not number:
                    self._confirmed.set()
                    continue
                self._on_line(is_from_client, number, await reader.readexactly(size))
        except asyncio.IncompleteReadError:
            self.interceptor.close()

    def intercept(self) -> None:
        """Make the gate report lines while the interceptor is active, and only then."""
        is_active = self.interceptor.is_active
        if is_active != self._must_report:
            self._must_report = is_active
            self._confirmed.clear()
            self._discard_lines()
            self._write_command(relay.BEGIN if is_active else relay.END)

    async def ready(self) -> None:
        """Wait until the gate reports every line, at most `READY_S` seconds."""
        if self._must_report:
            with suppress(TimeoutError):
                async with asyncio.timeout(READY_S):
                    await self._confirmed.wait()

    def _write_command(self, word: int, number: int = 0, data: bytes = b"") -> None:
        """Send one command to the gate. `number` is the line that it is about, or 0."""
        if self._commands is not None:
            self._commands.write(relay.COMMAND_HEADER.pack(word, number, len(data)) + data)

    def _on_line(self, is_from_client: bool, number: int, line: bytes) -> None:
        """Add one line, and decide about the messages that it completes."""
        if (timer := self._timers.pop(is_from_client, None)) is not None:
            timer.cancel()
        lines = self._lines[is_from_client]
        for numbers, data in lines.feed(number, line):
            self._start_decision(is_from_client, numbers, data)
        if lines.is_within_message:
            timer = asyncio.get_running_loop().call_later(INCOMPLETE_S, self._split_message, is_from_client)
            self._timers[is_from_client] = timer

    def _split_message(self, is_from_client: bool) -> None:
        """Treat each line of an incomplete message as a separate message."""
        self._timers.pop(is_from_client, None)
        for numbers, data in self._lines[is_from_client].give_up():
            self._start_decision(is_from_client, numbers, data)

    def _discard_lines(self) -> None:
        """Discard incomplete messages. The gate passes on the lines that it still holds."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for lines in self._lines.values():
            lines.give_up()

    def _start_decision(self, is_from_client: bool, numbers: LineNumbers, data: bytes) -> None:
        """Start the decision about these lines. If they are not exactly one message, pass them on."""
        try:
            message = codec.decode(data)
        except ProtocolError:
            message = None
        if not isinstance(message, dict):
            self._start_task(self._pass_lines(numbers), numbers)
        elif is_from_client:
            self._start_task(self._decide_client_message(numbers, message), numbers)
        elif isinstance(message.get("method"), str):
            request_id = self._request_of(message)
            previous = self._last_tasks.get(request_id)
            decision = self._decide_server_message(numbers, message, data, request_id, previous)
            self._last_tasks[request_id] = task = self._start_task(decision, numbers)
            task.add_done_callback(lambda done: self._forget_task(request_id, done))
        else:
            self._start_task(self._decide_answer(numbers, message, data), numbers)

    async def _pass_lines(self, numbers: LineNumbers) -> None:
        """Pass lines on. Run this as a task, so that decisions about earlier lines come first."""
        self._send_command(numbers, relay.PASS)

    def _send_command(self, numbers: LineNumbers, word: int, data: bytes = b"") -> None:
        """Send a command for the lines of one message.

        `data` replaces the whole message: the command for the last line has it, and the other lines are
        dropped.
        """
        *others, last = numbers
        for number in others:
            self._write_command(relay.PASS if word == relay.PASS else relay.DROP, number)
        self._write_command(word, last, data)

    def _start_task(self, decision: Coroutine[Any, Any, None], numbers: LineNumbers) -> asyncio.Task[None]:
        """Start a task that decides about lines. If the task fails, pass the lines on."""
        task = asyncio.get_running_loop().create_task(decision)
        self._tasks.add(task)

        def on_end(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            if not done.cancelled() and done.exception() is not None:
                self._send_command(numbers, relay.PASS)  # the loop reports the exception

        task.add_done_callback(on_end)
        return task

    def _forget_task(self, request_id: Id | None, done: asyncio.Task[None]) -> None:
        if self._last_tasks.get(request_id) is done:
            del self._last_tasks[request_id]

    def _request_of(self, message: JSONObject) -> Id | None:
        """Return the id of the request that a progress notification is about. None for any other message."""
        token = progress_token(params_of(message))
        return None if token is None else self._tokens.get(token)

    async def _decide_client_message(self, numbers: LineNumbers, message: JSONObject) -> None:
        """Hold a message of the client if a rule matches, and then pass it on, replace, answer or drop it."""
        identifier = message.get("id")
        if not isinstance(message.get("method"), str) or not is_id(identifier):
            self._release(numbers, message, await self.interceptor.one_way(TAPPED, message))
            return
        arrival = time()
        request, answer = await self.interceptor.request(TAPPED, message)
        if request is not None:
            self._remember_request(identifier, request, arrival)
        self._release(numbers, message, request)
        if answer is not None:
            self._write_command(relay.TO_CLIENT, 0, codec.encode(answer) + b"\n")

    def _remember_request(self, identifier: Id, request: JSONObject, arrival: float) -> None:
        """Remember a request and its progress token until the answer arrives."""
        if (removed := self._requests.add(identifier, (request, arrival))) is not None:
            self._forget_token(removed[0])
        if (token := progress_token(meta_of(request))) is not None:
            self._tokens[token] = identifier

    def _forget_token(self, request: JSONObject) -> None:
        """Forget the progress token of a request, unless another request uses the token now."""
        token = progress_token(meta_of(request))
        if token is not None and self._tokens.get(token) == request["id"]:
            del self._tokens[token]

    async def _decide_server_message(
        self,
        numbers: LineNumbers,
        message: JSONObject,
        line_data: bytes,
        request_id: Id | None,
        previous: asyncio.Task[None] | None,
    ) -> None:
        """Decide about a notification or question of the server.

        `previous` is the task that decides about the previous message about the same request, or None. It
        must end first.
        """
        if previous is not None and not previous.done():
            await asyncio.wait({previous})
        data = line_data.rstrip()
        released = await self.interceptor.sent(TAPPED, data, self._answer_for_client, request_id)
        if released is None or released is data:
            self._release(numbers, message, None if released is None else message)
        else:
            self._send_command(numbers, relay.REPLACE, released + b"\n")

    async def _answer_for_client(self, answer: JSONObject) -> None:
        self._write_command(relay.TO_PROGRAM, 0, codec.encode(answer) + b"\n")

    async def _decide_answer(self, numbers: LineNumbers, message: JSONObject, data: bytes) -> None:
        """Decide about an answer of the server, after the notifications about its request."""
        identifier = message.get("id")
        pending = self._requests.take(identifier) if is_id(identifier) else None
        if pending is None:
            self._send_command(numbers, relay.PASS)
            return
        request, arrival = pending
        self._forget_token(request)
        if (previous := self._last_tasks.get(identifier)) is not None and not previous.done():
            await asyncio.wait({previous})
        try:
            released = await self.interceptor.answer(TAPPED, request, arrival, message)
        except AnswerCut:
            self._send_command(numbers, relay.CUT, data[: len(data) // 2])
            return
        self._release(numbers, message, released)

    def _release(self, numbers: LineNumbers, message: JSONObject, released: JSONObject | None) -> None:
        """Pass `message` on, replace it by `released`, or drop it if `released` is None."""
        if released is None:
            self._send_command(numbers, relay.DROP)
        elif released is message:
            self._send_command(numbers, relay.PASS)
        else:
            self._send_command(numbers, relay.REPLACE, codec.encode(released) + b"\n")
