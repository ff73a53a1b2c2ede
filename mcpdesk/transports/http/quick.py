"""Requests that have arrived whole are answered in the next turn of the loop, in a lane.

aiohttp serves a connection from one task that waits for requests and starts another for each: three turns of
the loop a request. Here the bytes that complete a request queue it for a parked lane, and the waiting task
sleeps on. A head that came before is not even parsed, where a request may begin.
Whatever is not simple (pipelined or partly arrived requests, upgrades, HTTP/1.0, `Connection: close`, clients
that do not read) goes aiohttp's way, and so does anything after it until that way is idle again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NoReturn

from aiohttp import web
from aiohttp.http import HttpVersion11, RawRequestMessage, StreamWriter
from aiohttp.streams import StreamReader

from mcpdesk.transports.http.arriving import Arriving
from mcpdesk.transports.http.connection import Connection
from mcpdesk.transports.http.departures import Departures
from mcpdesk.transports.http.ready import Ready
from mcpdesk.transports.http.repeated import END, LONGEST, Known, Patterns, Repeated, Track
from mcpdesk.transports.lanes import Lanes

LEARNED = frozenset({"POST", "DELETE"})
"""Methods whose requests are known by their heads."""


class QuickConnection(Connection):
    """A connection that wakes aiohttp's task only for what it does not answer itself."""

    __slots__ = (
        "_arriving", "_departures", "_known", "_lanes", "_largest", "_patterns", "_quick_aio", "_resting",
        "_track",
    )  # fmt: skip

    def __init__(
        self,
        *args: Any,
        lanes: Lanes[None],
        departures: Departures,
        patterns: Patterns,
        largest: Callable[[], int],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._lanes = lanes
        self._departures = departures
        self._patterns = patterns
        self._largest = largest
        """Bytes a body may have."""
        self._known: Known | None = None
        """The known head that came last."""
        self._track = Track()
        self._arriving: Arriving | None = None
        """A request with a known head of which more is to come."""
        self._resting: asyncio.Future[None] | None = None
        """What aiohttp's task waits for, kept from it while a request is answered here."""
        self._quick_aio: asyncio.Task[Any] | None = None
        """The lane a request is being answered in."""

    def data_received(self, data: bytes) -> None:
        """Take what came. aiohttp's task hears of it when it is idle and there is something for it."""
        if (socket := self._payload_parser) is not None:
            # A WebSocket from here on: no request follows.
            if not (self._force_close or self._close) and socket.feed_data(data)[0]:
                self.close()
            return
        waiter, track = self._waiter, self._track
        if waiter is None or waiter.done():
            track.count(data)
            super().data_received(data)
            return
        if track.is_between and self._is_known(data, waiter):
            return
        self._parse(data, waiter)

    def _parse(self, data: bytes, waiter: asyncio.Future[None]) -> None:
        """Give aiohttp's parser what came while nothing else is going on."""
        self._track.count(data)
        self._waiter = None
        super().data_received(data)
        self._waiter = waiter
        if self._messages and not self._answers_itself(waiter) and not waiter.done():
            waiter.set_result(None)

    @property
    def is_waiting(self) -> bool:
        """Whether the next request has not come, or not entirely, and nothing else is done meanwhile."""
        return self._arriving is None and super().is_waiting

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Go on reading, if that was stopped: readers say so after every piece."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def force_close(self) -> None:
        """Close now, but for answers that are on their way.

        A request being answered here goes on, as it would in a task of aiohttp's.
        """
        self._departures.let_go()
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        super().force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._drop_arriving()

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        """End, at the latest after `timeout` seconds whatever is being answered.

        aiohttp would wait as long twice: for the answer, then for its own task, which sleeps meanwhile.
        """
        try:
            async with asyncio.timeout(timeout):
                await super().shutdown(None)
        except TimeoutError:
            if self._task_handler is not None:
                self._task_handler.cancel()
            self.force_close()
        if self._quick_aio is not None:
            self._quick_aio.cancel()

    # Requests with a known head

    def _is_known(self, data: bytes, waiter: asyncio.Future[None]) -> bool:
        """Begin to answer or to receive a request whose head is known; False: it is not one, or not alone."""
        arriving = self._arriving
        if arriving is not None:
            self._go_on(arriving, data, waiter)
            return True
        known = self._known
        if known is None or not data.startswith(known.raw):
            end = data.find(END, 0, LONGEST)
            known = self._patterns.find(data[: end + len(END)]) if end >= 0 else None
            if known is None:
                return False
            self._known = known
        if self._paused or self._close or self._force_close:
            return False
        begin = len(known.raw)
        missing = begin + known.size - len(data)
        if not missing:
            self._request_count += 1
            self._waiter, self._resting = None, waiter
            self._lanes.run(self._serve(Repeated(known, data[begin:], self)), self)
        elif missing < 0 or known.size > self._largest():
            return False
        else:
            self._request_count += 1
            self._came = 0
            self._arriving = Arriving(known, self.holding)
            self._go_on(self._arriving, data[begin:], waiter)
        return True

    def _go_on(self, arriving: Arriving, data: bytes, waiter: asyncio.Future[None]) -> None:
        """More of a body came. What lies behind its end is for aiohttp."""
        rest = arriving.take(data)
        if rest is None:
            # Refused the long way, which hears a client out that is still sending.
            self._arriving = None
            came = arriving.known.raw + arriving.body() + data
            arriving.give_back()
            self._request_count -= 1
            self._parse(came, waiter)
            return
        self._came += len(data)
        if arriving.is_whole:
            self._arriving = None
            self._waiter, self._resting = None, waiter
            self._lanes.run(self._serve(Repeated(arriving.known, arriving.body(), self)), self)
            if rest:
                self.data_received(rest)

    def _drop_arriving(self) -> None:
        if self._arriving is not None:
            self._arriving.give_back()
            self._arriving = None

    def _awaited(self) -> tuple[int, bool] | None:
        if self._arriving is not None:
            return self._request_count, True
        return None if type(self._current_request) is Repeated else super()._awaited()

    def _give_up(self, reason: str) -> None:
        if self._arriving is None:
            super()._give_up(reason)
        else:
            self._drop_arriving()
            self.refuse(408, reason)

    def _learn(self, request: web.BaseRequest) -> None:
        """Know the head of this request from now on, if it is of a kind that comes again."""
        message, head = request._message, self._head
        raw = self._track.parsed(message)
        if raw is None or head is None or head.passed is None or self._raw_headers is not message.raw_headers:
            return
        if (
            head.is_plain
            and head.method in LEARNED
            and (head.method, head.asked) == (message.method, message.path)
        ):
            self._patterns.learn(raw, head, message)

    # Requests that aiohttp parsed

    async def _handle_request(
        self,
        request: web.BaseRequest,
        start_time: float | None,
        request_handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
    ) -> tuple[web.StreamResponse, bool]:
        try:
            answered = await super()._handle_request(request, start_time, request_handler)
        finally:
            self.holding.give_back()
        if type(request) is not Repeated:
            self._learn(request)
        return answered

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
        # Where several ask, not within this turn of the loop: parsing what came for all connections and then
        # answering all is a quarter quicker than going back and forth, for the processor keeps to one kind
        # of work.
        self._lanes.run(self._serve(request), self)
        return True

    async def _serve(self, request: web.BaseRequest) -> None:
        """What `RequestHandler.start` does for one request."""
        handler = self._request_handler
        is_over = True
        if handler is None:  # The client left before this began.
            self.holding.give_back()
            return
        self._quick_aio = self._lanes.lane
        self._request_in_progress, self._current_request = True, request
        try:
            try:
                answer = await handler(request)
            except Exception as error:
                answer, is_lost = await self._handle_request(request, None, partial(_raise, error))
                is_over = is_lost or not answer.keep_alive
            else:
                if type(answer) is Ready and answer.keep_alive is None:
                    # Whoever sends a request that is answered here stays, unless the answer forbids it.
                    self._departures.send(answer, self.transport)
                    if self._paused:
                        await request.writer.drain()
                    is_over = False
                else:
                    answer, is_lost = await self.finish_response(request, answer, None)
                    is_over = is_lost or not answer.keep_alive
            if type(request) is not Repeated:
                self._learn(request)
        except ConnectionError:
            self.log_debug("Ignored premature client disconnection")
        except Exception as error:
            self.log_exception("Unhandled exception", exc_info=error)
        finally:
            self._quick_aio = self._current_request = None
            self._request_in_progress = False
            self.holding.give_back()
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
