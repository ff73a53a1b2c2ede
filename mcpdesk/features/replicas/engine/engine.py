"""The engine: a Valkey or Redis server that stores the state shared by several replicas.

Every command has a time limit. While the engine is known to be unreachable, commands fail at once, and a
background task checks regularly whether it answers again. A script may run twice if its reply was lost, so
every script must be idempotent. All keys have the name of the deployment as their hash tag. A cluster
therefore stores all keys in one slot.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct, structs

from mcpdesk.errors import DeskUserError, StorageError

T = TypeVar("T")
Client: TypeAlias = Any
"""A `redis.asyncio.Redis`, or the client of a cluster, which has the same commands."""

COMMAND_TIMEOUT_S = 1.0
"""Time limit in seconds of one command, and of one attempt to connect."""
OUTAGE_WAIT_S = 2.0
"""Seconds from the start of an outage during which scripts wait for the engine."""
CHECK_PERIOD_S = 0.5
"""Seconds between two checks whether the engine answers."""
READ_BLOCK_MS = 1_000
"""Milliseconds for which a blocking read of a stream waits for an entry."""
FILE_OPTIONS = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})
"""Options of a URL whose values are paths of files."""
UNTRUSTED_CERTIFICATE = re.compile(r"certificate verify failed: (.+?)\.? \(_ssl")
"""Pattern for errors about a certificate that is not trusted. The group is the reason."""
CONNECT_FAILURE = re.compile(r" connecting to |SSL|certificate")
"""Pattern for error messages of redis-py about a connection that could not be established."""
CERTIFICATE_REQUIRED = re.compile(r"certificate[ _]required", re.IGNORECASE)
MEMORY_FULL = re.compile(r"\bOOM\b|command not allowed when used memory")
CERTIFICATE_HINT = "ssl_certfile=FILE and ssl_keyfile=FILE in the URL name it"
MISSING_REDIS = "redis-py is not installed: pip install 'mcpdesk[redis]'"
DURATION_BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 0.5, 1.0)
"""Upper bounds in seconds of the histogram of command durations. The last range has no upper bound."""
PROBE_KEY_TTL_S: Final = 60
"""Seconds after which the key written by probes expires."""


class EngineRefusal(StrEnum):
    """Reasons why the engine does not execute a command."""

    AWAY = "away"
    """The engine is unreachable, or the connection broke."""
    TIMEOUT = "timeout"
    DENIED = "denied"
    """The login or the permissions of this user are not sufficient."""
    FULL = "full"
    READ_ONLY = "read_only"
    OTHER = "other"


GENERAL_REFUSALS: Final = frozenset({EngineRefusal.AWAY, EngineRefusal.TIMEOUT, EngineRefusal.DENIED})
"""Reasons that apply to all commands, and not only to one command."""
TEMPORARY_REFUSALS: Final = GENERAL_REFUSALS - {EngineRefusal.DENIED}
"""Reasons that may be temporary."""


class EngineUnavailable(StorageError):
    """The engine cannot be used now. The message has the URL and the reason.

    The commands of the caller were executed either fully or not at all.
    """

    def __init__(self, message: str, refusal: EngineRefusal = EngineRefusal.OTHER) -> None:
        super().__init__(message)
        self.refusal = refusal


class EngineStatus(Struct, frozen=True):
    """State of the engine: whether it answers and accepts writes."""

    refusal: EngineRefusal | None
    """Reason why commands or writes fail, or None while the engine answers and accepts writes."""
    reason: str
    """Reason in words, or "" if `refusal` is None."""
    since: float
    """Unix time in seconds of the latest change of `is_up` or `is_writable`."""

    @property
    def is_up(self) -> bool:
        """True if the engine answers."""
        return self.refusal not in GENERAL_REFUSALS

    @property
    def is_writable(self) -> bool:
        """True if the engine answers and accepts writes."""
        return self.refusal is None


class EngineFigures:
    """Metrics of the commands of one process: durations and refusals."""

    def __init__(self) -> None:
        self.refused: Counter[EngineRefusal] = Counter()
        """Number of failed requests, by reason.

        It includes requests that were not sent because the engine was known to be unreachable.
        """
        self.counts = [0] * (len(DURATION_BOUNDS_S) + 1)
        """Number of requests sent, by duration range."""
        self.total_s = 0.0
        """Total duration in seconds of the requests sent."""

    def add(self, seconds: float) -> None:
        """Count a request that was sent."""
        self.counts[bisect_left(DURATION_BOUNDS_S, seconds)] += 1
        self.total_s += seconds


class Engine:
    """Connection pool to the engine. Used on the loop on which it was started."""

    def __init__(
        self,
        url: str,
        name: str = "mcpdesk",
        report: Callable[[str], object] = lambda message: None,
        *,
        probes: bool = False,
    ) -> None:
        """Create a connection pool. Replicas with the same `name` share state.

        `report` receives a sentence for each change of `status`. If `probes`, a small key is written
        regularly to check whether the engine accepts writes.

        Raises: DeskUserError for an invalid URL, or if redis-py is not installed.
        """
        self.display_url = without_login(url)
        """URL without user, password and options."""
        self._has_certificate = "ssl_certfile=" in url
        self.name = name
        self.on_available: list[Callable[[], object]] = []
        """Functions that are called when the engine is usable again after it was unreachable or refused
        writes."""
        self.figures = EngineFigures()
        self.is_patient = True
        """True if scripts wait up to `OUTAGE_WAIT_S` for an engine that is unreachable."""
        self._probes = probes
        self._report = report
        self._commands = connect(url, COMMAND_TIMEOUT_S)
        self._readers = connect(url, READ_BLOCK_MS / 1000 + 4 * COMMAND_TIMEOUT_S)
        self._scripts: dict[str, Any] = {}
        self._status = EngineStatus(None, "", time.time())
        self._up_event = asyncio.Event()
        """Set while the engine answers."""
        self._up_event.set()
        self.clock_skew_s = 0.0
        """Seconds by which the engine's clock is ahead of this machine's clock."""
        self._running: set[asyncio.Future[None]] = set()
        """One future for each running command, done when the command has ended."""
        self._is_closed = False
        self._has_answered = False
        """True after the first successful command, which proves that handshake and login work."""
        self._watch_task: asyncio.Task[None] | None = None

    @property
    def status(self) -> EngineStatus:
        """Current status. Thread-safe."""
        return self._status

    def key(self, *parts: str) -> str:
        """Return a key such as `{mcpdesk}:session:ab12`."""
        return ":".join((f"{{{self.name}}}", *parts))

    def clock(self) -> float:
        """Return an estimate of the Unix time of the engine's clock, by which replicas compare times."""
        return time.time() + self.clock_skew_s

    async def start(self) -> None:
        """Start to check regularly whether the engine answers. The engine need not be reachable yet."""
        await self._check()
        self._watch_task = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Accept no more commands, and close every connection once running commands have ended."""
        self._is_closed = True
        if self._watch_task is not None:
            self._watch_task.cancel()
            await asyncio.gather(self._watch_task, return_exceptions=True)
        if self._running:
            # A command whose connection is closed opens another connection, which would then stay open.
            await asyncio.wait(self._running, timeout=2 * COMMAND_TIMEOUT_S)
        await close(self._commands)
        await close(self._readers)

    async def run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Return the result of `work(client)`, which runs commands.

        Raises: EngineUnavailable, without an attempt if the engine is known to be unreachable.
        """
        status = self._status
        if status.refusal is not None and not status.is_up:
            self.figures.refused[status.refusal] += 1
            raise self._unavailable(status.reason, status.refusal)
        began = time.perf_counter()
        try:
            return await self._attempt(work, self._commands)
        except EngineUnavailable as error:
            self.figures.refused[error.refusal] += 1
            raise
        finally:
            self.figures.add(time.perf_counter() - began)

    async def script(self, source: str, keys: Sequence[str], arguments: Sequence[Any] = ()) -> Any:
        """Run a Lua script, which must be idempotent. Return its result.

        If the engine is unreachable, wait for it up to `OUTAGE_WAIT_S`. Raises: EngineUnavailable.
        """
        prepared = self._scripts.get(source)
        if prepared is None:
            prepared = self._scripts[source] = self._commands.register_script(source)
        call = partial(_call_script, prepared, list(keys), list(arguments))
        try:
            return await self.run(call)
        except EngineUnavailable as error:
            may_wait = self.is_patient and error.refusal in TEMPORARY_REFUSALS
            if not may_wait or not await self._wait_until_back():
                raise
        return await self.run(call)

    async def _wait_until_back(self) -> bool:
        """Wait until the engine answers again or has been unreachable for `OUTAGE_WAIT_S`.

        Return True if the engine answers.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._status.since + OUTAGE_WAIT_S - time.time()):
                await self._up_event.wait()
        return self._up_event.is_set()

    async def read_stream(self, key: str, after: str) -> list[tuple[str, dict[bytes, bytes]]]:
        """Return the entries of a stream after an id.

        Wait up to a second for the first one. Raises: EngineUnavailable.
        """
        return (await self.read_streams({key: after}, READ_BLOCK_MS)).get(key, [])

    async def read_streams(
        self, after: Mapping[str, str], block_ms: int, max_entries: int = 1_000, within_s: float | None = None
    ) -> dict[str, list[tuple[str, dict[bytes, bytes]]]]:
        """Return new entries of several streams, at most `max_entries` of each. Raises: EngineUnavailable.

        `after` maps the key of each stream to the id of the entry after which to read. The engine waits up to
        `block_ms` milliseconds for a first entry. The reply must arrive within `within_s` seconds.
        """

        async def read(client: Client) -> Any:
            async with asyncio.timeout(within_s):
                return await client.xread(dict(after), count=max_entries, block=block_ms)

        reply = await self._attempt(read, self._readers)
        return {
            key.decode(): [(identifier.decode(), fields) for identifier, fields in entries]
            for key, entries in _stream_entries(reply)
        }

    async def entries(self, key: str, after: str, last: str = "+") -> list[tuple[str, dict[bytes, bytes]]]:
        """Return existing entries of a stream after the id `after`, up to the id `last`.

        Raises: EngineUnavailable.
        """
        reply = await self.run(lambda client: client.xrange(key, f"({after}", last))
        return [(identifier.decode(), fields) for identifier, fields in reply]

    async def _attempt(self, work: Callable[[Client], Awaitable[T]], client: Client) -> T:
        """Run commands even if the engine is known to be unreachable. Raises: EngineUnavailable."""
        from redis.exceptions import RedisError

        if self._is_closed:
            raise self._unavailable("it is closed", EngineRefusal.AWAY)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running.add(done)
        try:
            result = await _cancellable(work(client))
            self._has_answered = True
            return result
        except (RedisError, OSError, TimeoutError) as error:
            reason = _error_reason(error)
            if self._is_encrypted and not self._has_answered and _is_early_close(error):
                reason = self._early_close_reason()
            refusal = _refusal(error)
            if refusal in GENERAL_REFUSALS:
                self._set_status(EngineStatus(refusal, reason, time.time()))
            raise self._unavailable(reason, refusal) from error
        finally:
            self._running.discard(done)
            done.set_result(None)

    @property
    def _is_encrypted(self) -> bool:
        return self.display_url.startswith("rediss")

    def _early_close_reason(self) -> str:
        """Return the reason for an error if the server closed the connection before it answered a command.

        In TLS 1.3 a server rejects a client's certificate after the handshake. If the server then resets the
        connection, its alert with the reason may be lost.
        """
        cause = f"it may require a client certificate: {CERTIFICATE_HINT}"
        if self._has_certificate:
            cause = "it may reject this client certificate"
        return f"the server closed the connection right after the handshake: {cause}"

    def _unavailable(self, reason: str, refusal: EngineRefusal) -> EngineUnavailable:
        return EngineUnavailable(f"{self.display_url} cannot be used: {reason}", refusal)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(CHECK_PERIOD_S)
            await self._check()

    async def _check(self) -> None:
        """Check whether the engine answers and accepts writes, and measure `clock_skew_s`."""
        with contextlib.suppress(EngineUnavailable):
            start = time.time()
            seconds, micros = await self._attempt(lambda client: client.time(), self._commands)
            self.clock_skew_s = seconds + micros / 1e6 - (start + time.time()) / 2
            self._set_status(await self._probe() if self._probes else EngineStatus(None, "", time.time()))

    async def _probe(self) -> EngineStatus:
        """Write a small key to check whether the engine accepts writes. Return the resulting status.

        Raises: EngineUnavailable if the engine is unreachable.
        """
        key = self.key("probe")
        try:
            await self._attempt(lambda client: client.set(key, b"", ex=PROBE_KEY_TTL_S), self._commands)
        except EngineUnavailable as error:
            if error.refusal in GENERAL_REFUSALS:
                raise
            if error.refusal is EngineRefusal.READ_ONLY:
                # The host name may now resolve to a new primary. Only new connections reach it.
                await disconnect_idle(self._commands)
            return EngineStatus(error.refusal, _error_reason(error.__cause__ or error), time.time())
        return EngineStatus(None, "", time.time())

    def _set_status(self, status: EngineStatus) -> None:
        """Store the status, and report it if `is_up` or `is_writable` has changed."""
        previous = self._status
        if (status.is_up, status.is_writable) == (previous.is_up, previous.is_writable):
            self._status = structs.replace(status, since=previous.since)  # only the reason may have changed
            return
        self._status = status
        if status.is_up:
            self._up_event.set()
        else:
            self._up_event.clear()
        if not status.is_up:
            self._report(f"{self.display_url} is away: {status.reason}")
        elif not status.is_writable:
            self._report(f"{self.display_url} refuses writes: {status.reason}")
        else:
            self._report(f"{self.display_url} {'accepts writes' if previous.is_up else 'answers'} again")
            for listener in self.on_available:
                listener()


def _call_script(prepared: Any, keys: list[str], arguments: list[Any], client: Client) -> Awaitable[Any]:
    result: Awaitable[Any] = prepared(keys=keys, args=arguments, client=client)
    return result


def without_login(url: str) -> str:
    """Return an engine's URL without user, password and options."""
    parts = urlsplit(url)
    address = parts.netloc.rpartition("@")[2] + parts.path
    return f"{parts.scheme}://{address}"


def connect(url: str, timeout_s: float) -> Client:
    """Return a client for the URL of an engine.

    The schemes are `redis://`, `rediss://` and `unix://` as in redis-py, `redis+cluster://` for a cluster,
    and `redis+sentinel://HOST:PORT,HOST:PORT/SERVICE[/DB]`. Schemes that begin with `rediss` use TLS.

    Raises: DeskUserError.
    """
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.exceptions import ConnectionError as ConnectionLost
    except ImportError:
        raise DeskUserError(f"`shared` cannot be used: {MISSING_REDIS}.") from None
    # One retry: the first command on an idle connection fails if the engine was restarted in the meantime.
    options: dict[str, Any] = {
        "socket_timeout": timeout_s,
        "socket_connect_timeout": min(timeout_s, COMMAND_TIMEOUT_S),
        "retry": Retry(NoBackoff(), 1, (ConnectionLost,)),
        "protocol": 2,
    }
    try:
        _check_files(url)
        scheme = url.partition("://")[0]
        if scheme.endswith("+sentinel"):
            return _sentinel_client(url, options)
        if scheme.endswith("+cluster"):
            from redis.asyncio.cluster import RedisCluster

            return RedisCluster.from_url(url.replace("+cluster", "", 1), **options)
        client: Any = Redis.from_url(url, **options)
        client.connection_pool.make_connection()  # this opens no socket, but validates the options
        return client
    except ValueError as error:
        raise DeskUserError(f"shared: {without_login(url)} cannot be used: {error}.") from None
    except TypeError as error:
        option = str(error).rpartition("argument ")[2]
        raise DeskUserError(
            f"shared: {without_login(url)} has an option that redis-py does not support: {option}."
        ) from None


def _check_files(url: str) -> None:
    """Check the certificate and key files in a URL. Raises: ValueError if a file cannot be read."""
    for name, path in parse_qsl(urlsplit(url).query):
        if name in FILE_OPTIONS:
            try:
                open(path, "rb").close()
            except OSError as error:
                raise ValueError(f"{name}: {path}: {error.strerror}") from None


async def close(client: Client) -> None:
    """Close a client's connections, including those to its sentinels."""
    pool = getattr(client, "connection_pool", None)
    manager = getattr(pool, "sentinel_manager", None)
    for each in (client, *getattr(manager, "sentinels", ())):
        with contextlib.suppress(OSError, *_redis_errors()):  # broken connections need no close
            await each.aclose()


async def disconnect_idle(client: Client) -> None:
    """Close the connections of a client on which no command is running."""
    pool = getattr(client, "connection_pool", None)
    if pool is not None:
        with contextlib.suppress(OSError, *_redis_errors()):
            await pool.disconnect(inuse_connections=False)


async def _cancellable(work: Awaitable[T]) -> T:
    """Await `work`. If the current task was cancelled in the meantime, raise CancelledError.

    redis-py uses `asyncio.wait_for`. Before Python 3.12, `wait_for` loses a cancellation that arrives at the
    moment when the awaited work is done.
    """
    task = asyncio.current_task()
    cancel_count = task.cancelling() if task is not None else 0
    result = await work
    if task is not None and task.cancelling() > cancel_count:
        raise asyncio.CancelledError
    return result


def _redis_errors() -> tuple[type[Exception], ...]:
    from redis.exceptions import RedisError

    return (RedisError,)


def _sentinel_client(url: str, options: dict[str, Any]) -> Client:
    """Return a client that asks the sentinels in a URL for the address of the primary. Raises: ValueError."""
    from redis.asyncio import sentinel

    parts = urlsplit(url)
    account, _, hosts = parts.netloc.rpartition("@")
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("missing service name: redis+sentinel://HOST:PORT/SERVICE")
    user, _, password = account.partition(":")
    addresses = list[tuple[str, int]]()
    for address in hosts.split(","):
        host, separator, port = address.rpartition(":")
        addresses.append((host, int(port)) if separator else (address, 26379))
    master_options: dict[str, Any] = dict(parse_qsl(parts.query))
    if parts.scheme.startswith("rediss"):
        options = options | {
            "ssl": True,
            **{name: master_options.pop(name) for name in list(master_options) if name in FILE_OPTIONS},
        }
    if account:
        master_options |= {"username": unquote(user) or None, "password": unquote(password) or None}
    if database:
        master_options["db"] = int(database)
    sentinel_class: Any = sentinel.Sentinel
    return sentinel_class(addresses, sentinel_kwargs=options).master_for(service, **options, **master_options)


def _stream_entries(reply: Any) -> Iterable[tuple[bytes, Sequence[tuple[bytes, dict[bytes, bytes]]]]]:
    """Return the streams that have entries in a reply to XREAD. The reply is a list or, with RESP3, a
    mapping.
    """
    if not isinstance(reply, dict):
        return reply or ()
    return [
        (key, batches[0] if batches and isinstance(batches[0], list) else batches)
        for key, batches in reply.items()
    ]


def _refusal(error: BaseException) -> EngineRefusal:
    """Return the `EngineRefusal` for an error of redis-py."""
    from redis import exceptions

    text = str(error)
    match error:
        case TimeoutError() | exceptions.TimeoutError():
            return EngineRefusal.TIMEOUT
        case exceptions.AuthenticationError() | exceptions.AuthorizationError():
            return EngineRefusal.DENIED
        case exceptions.ReadOnlyError():
            return EngineRefusal.READ_ONLY
        case exceptions.ResponseError() | exceptions.DataError():
            if MEMORY_FULL.search(text):
                return EngineRefusal.FULL
            return EngineRefusal.READ_ONLY if "READONLY" in text else EngineRefusal.OTHER
    return EngineRefusal.AWAY


def _is_early_close(error: Exception) -> bool:
    """Return True if the error means that an established connection was closed before the reply."""
    from redis import exceptions

    refusals = (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.BusyLoadingError)
    is_lost = isinstance(error, exceptions.ConnectionError | ConnectionError)
    return is_lost and not isinstance(error, refusals) and not CONNECT_FAILURE.search(str(error))


def _error_reason(error: BaseException) -> str:
    """Return the text of an error, as a sentence about the engine without its URL."""
    from redis import exceptions

    if isinstance(error, TimeoutError | exceptions.TimeoutError):
        return f"it did not answer within {COMMAND_TIMEOUT_S:g} s"
    text = str(error).replace("\n", " ").partition(" script: ")[0]
    if MEMORY_FULL.search(text):
        return "its memory is full (OOM command not allowed)"
    if match := UNTRUSTED_CERTIFICATE.search(text):
        hint = "" if "mismatch" in match[1] else "; ssl_ca_certs=FILE in the URL names the CA to trust"
        return f"its certificate is not trusted: {match[1]}{hint}"
    if CERTIFICATE_REQUIRED.search(text):
        return f"it requires a client certificate: {CERTIFICATE_HINT}"
    return text[:300] or type(error).__name__
