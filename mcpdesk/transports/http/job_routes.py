"""Asynchronous calls over HTTP: their state, their files, and their progress.

Files can be downloaded in ranges (RFC 9110). Progress is sent as server-sent events or over a WebSocket.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from aiohttp import WSCloseCode, WSMsgType, web
from aiohttp.client_exceptions import ClientConnectionError, ClientConnectionResetError

from mcpdesk.auth.principal import Principal, until_expired
from mcpdesk.errors import AnswerRefused, ArchiveTooLarge, FileUnavailable, StorageError, TransportError
from mcpdesk.portable_files import read_at
from mcpdesk.protocol import codec
from mcpdesk.protocol.outlet import LARGE_ANSWER_BYTES
from mcpdesk.transports.http.connections import connection_of
from mcpdesk.transports.http.event_stream import EventStream
from mcpdesk.transports.http.request_head import head_of
from mcpdesk.transports.http.responses import (
    JSON_HEADERS,
    RETRY_AFTER,
    SANDBOX_HEADERS,
    json_answer,
    large_answer,
    method_error,
    plain_error,
    retry_later,
)
from mcpdesk.transports.http.socket_upgrade import CLOSE_TIMEOUT_S, HEARTBEAT_S, upgrade
from mcpdesk.transports.http.websocket import EXPIRED_REASON

if TYPE_CHECKING:
    from mcpdesk.hosting.hosted_jobs import HostedJob, RecordedJob
    from mcpdesk.jobs.downloads import Download
    from mcpdesk.transports.http.other_processes import OtherProcesses
    from mcpdesk.transports.http.site import Site

INTERVAL_MS, MIN_INTERVAL_MS, MAX_INTERVAL_MS = 200, 10, 60_000
"""Milliseconds between two events: the default, the minimum and the maximum."""
MAX_WAIT_MS = 24 * 3600 * 1000
"""Longest time in milliseconds for which a client can follow the progress of a job in one request."""
PAUSE_S = 0.05
"""Seconds between two messages on a WebSocket. Events in this time are sent together."""
EVENT_KINDS = ("stdout", "stderr", "progress")
MAX_MESSAGE_BYTES = 4096
"""Maximum size in bytes of a message from the client. It is read and ignored."""

NO_JOB = "No such job: it never existed, or has expired"
NO_FILE = "The job has no such file"

AsyncCall: TypeAlias = "HostedJob | RecordedJob"
Verb: TypeAlias = "Callable[[web.BaseRequest, AsyncCall, Principal], Awaitable[web.StreamResponse]]"
Socket: TypeAlias = "web.WebSocketResponse[Literal[True]]"

_JOB_PATH = re.compile(
    r"(?:/v1)?/(jobs|ws/jobs|mcp/progress)/([A-Za-z0-9_-]{1,64})(?:/(manifest|download))?/?"
)
_JOB_LIST_PATH = re.compile(r"(?:/v1)?/jobs")
NOT_OWNED = (
    "Anonymous callers cannot list jobs; ask for a job by its id, or send the Mcp-Session-Id of the session "
    "that started it"
)


class JobPath(NamedTuple):
    """Job id in a path, and the handlers of the path by method."""

    verbs: Mapping[str, Verb]
    job: str
    """Id of the job. Empty for the list of jobs."""
    is_socket: bool


class JobRoutes:
    """Routes for the jobs of a site."""

    def __init__(self, site: Site, other_processes: OtherProcesses | None = None) -> None:
        self._site, self._other_processes = site, other_processes

    def parse_path(self, path: str) -> JobPath | None:
        """Parse a path. Return None if it is not a path of jobs."""
        match = _JOB_PATH.fullmatch(path)
        if match is None:
            return JobPath({}, "", False) if _JOB_LIST_PATH.fullmatch(path) else None
        verbs = _HANDLERS.get((match[1], match[3]))
        return None if verbs is None else JobPath(verbs, match[2], match[1] == "ws/jobs")

    async def answer(
        self, request: web.BaseRequest, job_path: JobPath, callers: Sequence[Principal]
    ) -> web.StreamResponse:
        """Answer a request. `callers` are the client's principals, one for each server that accepts it."""
        try:
            if not job_path.job:
                return await self._list(request, callers)
            verb = job_path.verbs.get(request.method)
            if verb is None:
                return method_error(request, job_path.verbs)
            for caller in callers:
                job = self._site.jobs.find(job_path.job, caller)
                if job is not None:
                    return await verb(request, job, caller)
            answer = await self._forward(request, job_path, verb, callers)
            return answer or plain_error(404, f"{NO_JOB}, or it is not yours")
        except StorageError as error:
            return retry_later(error)

    async def _forward(
        self, request: web.BaseRequest, job_path: JobPath, verb: Verb, callers: Sequence[Principal]
    ) -> web.StreamResponse | None:
        """Answer a request about a job that is not in this process. Return None if no such job exists.

        The process that runs the job answers, if it can be reached. Otherwise the job's record is used.
        Raises: StorageError.
        """
        if self._other_processes is None or self._site.jobs.has(job_path.job):
            return None
        answer = await self._other_processes.job(request, job_path.job, callers, is_socket=job_path.is_socket)
        if answer is not None:
            return answer
        for caller in callers:
            job = await self._site.jobs.recorded(job_path.job, caller)
            if job is not None:
                if not job.is_over and verb not in RECORD_HANDLERS:
                    raise StorageError(MACHINE_UNREACHABLE)
                return await verb(request, job, caller)
        return None

    async def _list(self, request: web.BaseRequest, callers: Sequence[Principal]) -> web.StreamResponse:
        """List the caller's own jobs."""
        if request.method not in ("GET", "HEAD"):
            return method_error(request, ("GET",))
        session = request.headers.get("Mcp-Session-Id", "")
        jobs_by_owner = {caller.identity: await self._site.jobs.listed(caller, session) for caller in callers}
        jobs = b",".join(job for owned_jobs in jobs_by_owner.values() for job in owned_jobs or ())
        is_anonymous = all(owned_jobs is None for owned_jobs in jobs_by_owner.values())
        note = b',"note":%b' % codec.encode(NOT_OWNED) if is_anonymous else b""
        return json_answer(200, b'{"jobs":[%b]%b}' % (jobs, note))


async def _state_answer(request: web.BaseRequest, job: AsyncCall, caller: Principal) -> web.StreamResponse:
    if job.result_size < LARGE_ANSWER_BYTES:
        return json_answer(200, job.facts())
    try:  # check before encoding
        await connection_of(request).reserve(job.result_size)
    except AnswerRefused as refused:
        return plain_error(503, refused.message, RETRY_AFTER)
    return await large_answer(request, 200, job.facts(), JSON_HEADERS | head_of(request).page_headers)


async def _cancel(request: web.BaseRequest, job: AsyncCall, caller: Principal) -> web.StreamResponse:
    if not await job.cancel("canceled by the client"):
        return plain_error(409, f"The job has already ended: {job.state}", state=job.state)
    return await _state_answer(request, job, caller)


async def _manifest(request: web.BaseRequest, job: AsyncCall, caller: Principal) -> web.StreamResponse:
    return json_answer(200, await job.manifest())


async def _download(request: web.BaseRequest, job: AsyncCall, caller: Principal) -> web.StreamResponse:
    answer = await download(request, job)
    if answer is None:
        return plain_error(404, NO_FILE, manifest=f"{request.path.rpartition('/')[0]}/manifest")
    return answer


async def download(
    request: web.BaseRequest, job: AsyncCall, headers: Mapping[str, str] = MappingProxyType({})
) -> web.StreamResponse | None:
    """Send the file named in the query, or all files, with additional `headers`. Return None for no file."""
    if not job.is_over:
        return plain_error(409, f"The job is {job.state}: it has no files to download yet", state=job.state)
    try:
        file = await job.download(request.query.get("file", ""))
    except FileUnavailable as error:
        return plain_error(410, str(error))
    except ArchiveTooLarge as error:
        return plain_error(413, str(error))
    return None if file is None else await send(request, file, headers)


async def _progress(request: web.BaseRequest, job: AsyncCall, caller: Principal) -> web.StreamResponse:
    """Send an event at once and after every interval, until the job, the time limit or the token ends."""
    try:
        interval_s = _query_seconds(request, "interval_ms", MIN_INTERVAL_MS, MAX_INTERVAL_MS)
        max_s = _query_seconds(request, "max_ms", 0, MAX_WAIT_MS)
    except ValueError as error:
        return plain_error(400, str(error))
    interval_s = interval_s or INTERVAL_MS / 1000
    stream = EventStream(request)
    now = asyncio.get_running_loop().time
    due = now()
    end_time = float("inf") if max_s is None else due + max_s
    with job.reader() as reader:
        async with until_expired(caller):
            while not stream.is_broken:
                stream.put(b"data: %b\n\n" % codec.encode(reader.event()))
                if reader.is_complete or now() >= end_time:
                    break
                await stream.drain()  # a slow client gets the next event later
                # Counting from the due time avoids adding up the time for writing.
                due = max(due + interval_s, now())
                await reader.wait_for_end(min(due, end_time) - now())
    return await stream.finish()


async def _socket(request: web.BaseRequest, job: AsyncCall, caller: Principal) -> web.StreamResponse:
    """Send events as JSON messages until the job or the token ends, or the client disconnects."""
    kinds_text = request.query.get("stream", ",".join(EVENT_KINDS))
    kinds = [kind.strip() for kind in kinds_text.split(",") if kind.strip()]
    unknown_kinds = [kind for kind in kinds if kind not in EVENT_KINDS]
    if unknown_kinds:
        text = f"stream: {unknown_kinds[0][:80]!r} is not allowed; use {', '.join(EVENT_KINDS)}"
        return plain_error(400, text)
    return await send_texts(request, await opened_socket(request), _event_texts(job, kinds), caller)


async def opened_socket(request: web.BaseRequest) -> Socket | web.Response:
    """Upgrade the connection to a WebSocket, or return an error response."""
    socket: Socket = web.WebSocketResponse(
        heartbeat=HEARTBEAT_S, timeout=CLOSE_TIMEOUT_S, compress=False, max_msg_size=MAX_MESSAGE_BYTES
    )
    return await upgrade(request, socket) or socket


async def send_texts(
    request: web.BaseRequest,
    socket: Socket | web.Response,
    texts: AsyncGenerator[str, None],
    caller: Principal,
) -> web.StreamResponse:
    """Send texts until they end, the token expires or the connection is lost."""
    if isinstance(socket, web.Response):
        return socket
    send_task = asyncio.create_task(_send(request, socket, texts))
    try:
        async with until_expired(caller):
            while (await socket.receive()).type in (WSMsgType.TEXT, WSMsgType.BINARY):
                pass
        if caller.has_expired(time.time()):
            await socket.close(code=WSCloseCode.POLICY_VIOLATION, message=EXPIRED_REASON)
    finally:
        send_task.cancel()
        await asyncio.wait({send_task})
    return socket


RECORD_HANDLERS: tuple[Verb, ...] = (_state_answer, _cancel, _manifest, _download)
"""Handlers that need only the record of a job, and therefore work while its process does not respond."""
MACHINE_UNREACHABLE = "the machine that runs the job does not answer, so it cannot be followed: try again"
_HANDLERS: dict[tuple[str, str | None], dict[str, Verb]] = {
    ("jobs", None): {"GET": _state_answer, "DELETE": _cancel},
    ("jobs", "manifest"): {"GET": _manifest},
    ("jobs", "download"): {"GET": _download, "HEAD": _download},
    ("ws/jobs", None): {"GET": _socket},
    ("mcp/progress", None): {"GET": _progress},
}
"""Handlers by the two fixed parts of a path, then by method."""


async def _event_texts(job: AsyncCall, kinds: list[str]) -> AsyncGenerator[str, None]:
    """Yield the events of a job until it has ended."""
    with job.reader(kinds) as reader:
        while True:
            for event in reader.changes():
                yield codec.encode(event).decode()
            if reader.is_complete:
                return
            await reader.wait_for_change()
            await asyncio.sleep(PAUSE_S)


async def _send(request: web.BaseRequest, socket: Socket, texts: AsyncGenerator[str, None]) -> None:
    try:
        async with aclosing(texts):
            async for text in texts:
                await socket.send_str(text)
        await socket.close()
    except (ConnectionError, ClientConnectionError):
        return
    except TransportError:
        connection_of(request).abort()  # otherwise the client would take this for the end of the job


def _query_seconds(request: web.BaseRequest, name: str, minimum: int, maximum: int) -> float | None:
    """Return a query parameter in milliseconds as seconds, or None if it is missing.

    Raises: ValueError with the limits.
    """
    text = request.query.get(name)
    if text is None:
        return None
    is_number = text.isascii() and text.isdigit() and len(text) < 12
    if not is_number or not minimum <= int(text) <= maximum:
        raise ValueError(f"{name}: {text[:80]!r} is not a number of milliseconds from {minimum} to {maximum}")
    return int(text) / 1000


PIECE_BYTES = 256 << 10
_RANGE = re.compile(r"bytes\s*+=\s*+(\d{0,18}+)\s*+-\s*+(\d{0,18}+)\s*+", re.IGNORECASE | re.ASCII)
_UNSAFE_NAME_CHARS = re.compile(r"[^\w.,+() -]", re.ASCII)


class ByteRange(NamedTuple):
    """Range of `length` bytes that begins at `start`."""

    start: int
    length: int


async def send(
    request: web.BaseRequest, download: Download, extra_headers: Mapping[str, str] = MappingProxyType({})
) -> web.StreamResponse:
    """Send an open file and close its descriptor. `extra_headers` are additional headers."""
    try:
        return await _send_range(request, download, extra_headers)
    finally:
        os.close(download.descriptor)


async def _send_range(
    request: web.BaseRequest, download: Download, extra_headers: Mapping[str, str]
) -> web.StreamResponse:
    """Send the requested range of a file, or an answer with status 304 or 416."""
    tag = f'"{download.tag}"'
    headers = {
        "Content-Type": download.media_type,
        "Content-Disposition": disposition(download.name),
        "Accept-Ranges": "bytes",
        "ETag": tag,
        "Cache-Control": "private, no-cache",
        **SANDBOX_HEADERS,
        **extra_headers,
    }
    known_tags = request.headers.get("If-None-Match", "").split(",")
    if tag in [each.strip().removeprefix("W/") for each in known_tags]:
        return web.Response(status=304, headers={"ETag": tag})
    span = ByteRange(0, download.size)
    status = 200
    if request.headers.get("If-Range", tag) == tag:
        byte_range = requested_range(request.headers.get("Range", ""), download.size)
        if byte_range is not None and not byte_range.length:
            reason = f"The file has {download.size} bytes: the range is outside of the file"
            return plain_error(416, reason, {"Content-Range": f"bytes */{download.size}"})
        if byte_range is not None:
            span, status = byte_range, 206
            headers["Content-Range"] = f"bytes {span.start}-{span.start + span.length - 1}/{download.size}"
    response = web.StreamResponse(status=status, headers=headers | head_of(request).page_headers)
    response.content_length = span.length
    await response.prepare(request)
    if request.method != "HEAD":
        await _copy(response, download.descriptor, span)
    return response


def disposition(name: str) -> str:
    """Return a `Content-Disposition` header that makes a browser save a file.

    It contains the exact name and an ASCII form of it.
    """
    ascii_name = _UNSAFE_NAME_CHARS.sub("_", name) or "file"
    header = f'attachment; filename="{ascii_name}"'
    return header if ascii_name == name else f"{header}; filename*=UTF-8''{quote(name, safe='')}"


def requested_range(header: str, size: int) -> ByteRange | None:
    """Return the requested range, or None for the whole file.

    The length is 0 if the range is outside the file. For invalid headers and several ranges, the whole file
    is sent.
    """
    match = _RANGE.fullmatch(header.strip())
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        length = min(int(last), size)
        return ByteRange(size - length, length)
    start = int(first)
    end = min(int(last), size - 1) if last else size - 1
    if last and int(last) < start:
        return None
    return ByteRange(start, max(0, end - start + 1))


async def _copy(response: web.StreamResponse, descriptor: int, span: ByteRange) -> None:
    """Write a range of a file to a response. Raises: ConnectionError if the client disconnects."""
    position, end = span.start, span.start + span.length
    try:
        while position < end:
            piece = await _read(descriptor, min(PIECE_BYTES, end - position), position)
            if not piece:
                raise ConnectionError("the file became shorter while it was sent")
            position += len(piece)
            await response.write(piece)
        await response.write_eof()
    except ClientConnectionResetError as error:
        raise ConnectionError("the client disconnected") from error


async def _read(descriptor: int, length: int, position: int) -> bytes:
    """Read from a file on a worker thread.

    The read cannot be interrupted. If this coroutine is cancelled, it waits for the read, because the
    descriptor must not be closed and reused during the read.
    """
    read_task = asyncio.ensure_future(asyncio.to_thread(read_at, descriptor, length, position))
    try:
        return await asyncio.shield(read_task)
    except asyncio.CancelledError:
        await asyncio.wait({read_task})
        raise
