"""Requests that have arrived whole are answered in the next turn of the loop, in a lane.

aiohttp serves a connection from one task that waits for requests and starts another for each: three turns of
the loop a request. Here the bytes that complete a request queue it for a parked lane, and the waiting task
sleeps on.
Whatever is not simple (pipelined or partly arrived requests, upgrades, HTTP/1.0, `Connection: close`, clients
that do not read) goes aiohttp's way, and so does anything after it until that way is idle again.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, NoReturn

from aiohttp import web
from aiohttp.http import HttpVersion11, RawRequestMessage, StreamWriter
from aiohttp.streams import StreamReader

from mcpdesk.transports.http.connection import Connection
from mcpdesk.transports.http.ready import Ready
from mcpdesk.transports.lanes import Lanes


class QuickConnection(Connection):
    """A connection that wakes aiohttp's task only for what it does not answer itself."""

    __slots__ = ("_lanes", "_quick_aio", "_resting")

    def __init__(self, *args: Any, lanes: Lanes[None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lanes = lanes
        self._resting: asyncio.Future[None] | None = None
        """What aiohttp's task waits for, kept from it while a request is answered here."""
        self._quick_aio: asyncio.Task[Any] | None = None
        """The lane a request is being answered in."""

    def data_received(self, data: bytes) -> None:
        """Parse what came. aiohttp's task hears of it when it is idle and there is something for it."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            super().data_received(data)
            return
        self._waiter = None
        super().data_received(data)
        self._waiter = waiter
        if self._messages and not self._answers_itself(waiter) and not waiter.done():
            waiter.set_result(None)

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Go on reading, if that was stopped: readers say so after every piece."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def force_close(self) -> None:
        """Close now. A request being answered here goes on, as it would in a task of aiohttp's."""
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        super().force_close()

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        """End, at the latest after `timeout` seconds whatever is being answered."""
        await super().shutdown(timeout)
        if self._quick_aio is not None:
            self._quick_aio.cancel()

    def _answers_itself(self, waiter: asyncio.Future[None]) -> bool:
        """Begin to answer the only request there is, if it is a simple one that came whole."""
        message, payload = self._messages[0]
        if (
            len(self._messages) > 1
            or not isinstance(message, RawRequestMessage)
            or not _is_simple(message, payload)
            or self._paused
            or self._close
            or self._force_close
            or self._request_factory is None
            or self._parser is None
        ):
            return False
        self._messages.popleft()
        self._parser.message_consumed()
        task = self._task_handler
        assert task is not None
        request = self._request_factory(message, payload, self, StreamWriter(self, self._loop), task)
        self._waiter, self._resting = None, waiter
        # Not within this turn of the loop: parsing what came for all connections and then answering all is
        # a quarter quicker than going back and forth, for the processor keeps to one kind of work.
        self._lanes.run(self._serve(request))
        return True

    async def _serve(self, request: web.BaseRequest) -> None:
        """What `RequestHandler.start` does for one request."""
        handler = self._request_handler
        is_lost, is_over = False, True
        if handler is None:
            return  # The client left before this began.
        self._quick_aio = asyncio.current_task(self._loop)
        self._request_in_progress, self._current_request = True, request
        try:
            try:
                answer = await handler(request)
            except Exception as error:
                answer, is_lost = await self._handle_request(request, None, partial(_raise, error))
            else:
                if isinstance(answer, Ready):
                    answer.send(request)
                    if self._paused:
                        await request.writer.drain()
                else:
                    answer, is_lost = await self.finish_response(request, answer, None)
            is_over = is_lost or not answer.keep_alive
        except ConnectionError:
            self.log_debug("Ignored premature client disconnection")
        except Exception as error:
            self.log_exception("Unhandled exception", exc_info=error)
        finally:
            self._quick_aio = self._current_request = None
            self._request_in_progress = False
            if self._handler_waiter is not None and not self._handler_waiter.done():
                self._handler_waiter.set_result(None)
            self._rest(is_over)

    def _rest(self, is_over: bool) -> None:
        """The answer is out: wait for the next request, hand over what came meanwhile, or close."""
        waiter, self._resting = self._resting, None
        if waiter is None:
            return
        self._waiter = waiter
        if is_over or self._close or self._force_close:
            self.force_close()
            return
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        if self._messages and not waiter.done():
            waiter.set_result(None)


def _is_simple(message: RawRequestMessage, payload: StreamReader) -> bool:
    return (
        message.version == HttpVersion11
        and not message.should_close
        and not message.upgrade
        and payload.is_eof()
        and payload.exception() is None
    )


async def _raise(error: Exception, request: web.BaseRequest) -> NoReturn:
    raise error
