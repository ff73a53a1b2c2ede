"""What a client needs of a transport, and the replies it brings back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from mcpdesk.errors import HttpError, InvalidAnswer, RpcError
from mcpdesk.plain_text import clean
from mcpdesk.protocol.jsonrpc import Id, JSONObject, is_id
from mcpdesk.protocol.reading.message import is_answer
from mcpdesk.protocol.reading.remark import Remark
from mcpdesk.protocol.revisions import Revision

EXCERPT = 300
"""Characters of an answer that an error shows."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
REFUSED = frozenset({401, 403})


class Incoming(Struct, frozen=True):
    """What a server sent besides the answers that are waited for."""

    message: JSONObject | None
    """A request, a notification, or a response that is not waited for; None for what cannot be used."""
    frame: bytes = b""
    """Its bytes as they came; empty for remarks alone."""
    remarks: tuple[Remark, ...] = ()
    """What is wrong with it."""
    request: Id | None = None
    """The request it was meant for, if that is known."""


Receive: TypeAlias = Callable[[Incoming], None]
"""Takes what the server sends by itself. Raises: CallError, which ends the exchange it came with."""


def excerpt(data: bytes | str) -> str:
    """The beginning of an answer, fit to be shown: one line, its control characters made visible."""
    text = data[: EXCERPT * 4].decode("utf-8", "replace") if isinstance(data, bytes) else data
    words = " ".join(clean(text).split())
    return words if len(words) <= EXCERPT else words[: EXCERPT - 1] + "…"


def without_query(url: str) -> str:
    """A URL without the parts that may be secret; empty for what is no URL."""
    try:
        return urlunsplit(urlsplit(url)._replace(query="", fragment=""))
    except ValueError:
        return ""


def is_error(message: Any) -> bool:
    """Whether a decoded message is a JSON-RPC error."""
    error = message.get("error") if isinstance(message, dict) else None
    return (
        isinstance(error, dict)
        and isinstance(error.get("code"), int)
        and not isinstance(error["code"], bool)
        and isinstance(error.get("message"), str)
    )


class ServerResponse(Struct, frozen=True):
    """A well-formed JSON-RPC response. It holds either a result or an error."""

    message: JSONObject
    frame: bytes
    """The message as it came."""

    @property
    def result(self) -> JSONObject | None:
        """The result; None for an error."""
        return self.message.get("result")

    @property
    def error(self) -> JSONObject | None:
        """The error object; None for a result."""
        return self.message.get("error")

    def value(self) -> JSONObject:
        """The result. Raises: RpcError for an error."""
        if self.error is not None:
            raise RpcError(self.error["code"], excerpt(self.error["message"]), self.error.get("data"))
        return dict(self.message["result"])


class ServerReply(Struct, frozen=True):
    """What a transport brought back for a request, before anybody judged it.

    `message` is the JSON-RPC response if there was one; `body` are its bytes, or what came instead.
    """

    message: Any = None
    body: bytes = b""
    status: int = 200
    """The status of HTTP; other transports have none."""
    headers: Mapping[str, str] = {}
    """The headers of HTTP, with lower-case names."""
    remarks: tuple[Remark, ...] = ()
    """What is wrong with the response, though it could be read."""

    @property
    def code(self) -> int | None:
        """The code of a JSON-RPC error; None when it is none."""
        return self.message["error"]["code"] if is_error(self.message) else None

    def response(self, identifier: Id, kinds: Collection[str] = ("complete",)) -> ServerResponse:
        """The response to the request `identifier`.

        Raises: HttpError for a status that forbids one, or comes without one; InvalidAnswer for what is no
        response to this request, and for a result that is of none of the `kinds` agreed upon.
        """
        if self.status in REFUSED or self.status in REDIRECTS:
            raise self.failure()
        if not is_answer(self.message):
            if self.status >= 300:
                raise self.failure()
            media_type = self.headers.get("content-type", "") or "no content type"
            what = "an empty answer" if not self.body else f"no JSON-RPC answer, but {media_type[:80]}"
            raise InvalidAnswer(f"HTTP {self.status} with {what}", excerpt=excerpt(self.body))
        if self.status >= 400 and not is_error(self.message):
            raise self.failure()
        if reason := _response_fault(self.message, identifier, kinds):
            raise InvalidAnswer(reason, excerpt=excerpt(repr(self.message)))
        return ServerResponse(self.message, self.body)

    def failure(self) -> HttpError:
        """The status as an exception."""
        said = excerpt(self.body) if self.message is None else excerpt(_reason(self.message))
        if self.status in REDIRECTS:
            place = excerpt(without_query(self.headers.get("location", "")))
            said = f"it redirects to {place or 'nowhere'}, and redirects are not followed"
        about = f"HTTP {self.status}{f': {said}' if said else ''}"
        challenge = excerpt(self.headers.get("www-authenticate", ""))
        return HttpError(about, status=self.status, body=said, challenge=challenge)


class ClientTransport(ABC):
    """A way to one server. Errors it raises need not name the server: `ServerConnection` adds that."""

    target: str
    """Where it leads, without secrets."""

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent without opening it again."""
        return True

    @property
    def mirrors_arguments(self) -> bool:
        """Whether headers repeat those arguments of tools that ask for it."""
        return False

    @property
    def closing_cancels(self) -> bool:
        """Whether an abandoned exchange cancels its request on the server."""
        return False

    @property
    def probe_s(self) -> float | None:
        """How long the first request may stay unanswered, before a handshake is tried; None: for ever."""
        return None

    @abstractmethod
    async def open(self, receive: Receive) -> None:
        """Connect. `receive` takes what the server sends outside of any exchange. Raises: CallError."""

    @abstractmethod
    async def exchange(
        self, request: JSONObject, headers: Mapping[str, str], receive: Receive
    ) -> ServerReply:
        """Send a request and wait for its reply. Raises: CallError when none came.

        `receive` takes what the server sends before, if the transport can tell what belongs to it.
        """

    @abstractmethod
    async def send(self, message: JSONObject) -> None:
        """Send a notification or a response. Raises: CallError when the server does not accept it."""

    @abstractmethod
    async def close(self) -> None:
        """End the connection, and every exchange with it."""

    def agreed(self, revision: Revision, reply: ServerReply) -> None:
        """The revision is settled; `reply` is what the server answered to the first request."""
        return

    def remarked(self, remark: Remark, request: Id | None) -> None:
        """The client remarks on an answer that this transport brought."""
        return

    def older(self) -> ClientTransport | None:
        """The transport to try when the server knows no handshake over this one."""
        return None

    async def listen(self, opened: Callable[[], None]) -> None:
        """Receive what belongs to no request, until cancelled; returns if that needs no stream of its own.

        `opened` is called once the stream has begun.
        """
        return

    async def until_ended(self) -> None:
        """Wait until the connection ends, where it is one channel. Raises: CallError saying why."""
        raise HttpError("the server has no stream for notifications, or ended it")


class SessionGone(HttpError):
    """The server does not know the session any more. It did nothing of the request."""


def _response_fault(message: JSONObject, identifier: Id, kinds: Collection[str]) -> str:
    """What is wrong with the response to a request; empty when nothing is."""
    if message.get("jsonrpc") != "2.0":
        return "the answer is no JSON-RPC message"
    if is_error(message) and message.get("id") is None:
        return ""  # it could not read our id
    answered = message.get("id")
    if not is_id(answered) or answered != identifier:
        return f"the answer is to request {answered!r}, not to {identifier!r}"
    if ("result" in message) == ("error" in message):
        return "the answer needs either a result or an error"
    if "error" in message:
        return "" if is_error(message) else "the error of the answer has no code or no message"
    result = message["result"]
    if not isinstance(result, dict):
        return "the result is no object"
    if result.get("resultType", "complete") not in kinds:
        return f"the result is of type {excerpt(str(result['resultType']))!r}, which was not offered"
    return ""


def _reason(message: Any) -> str:
    error = message.get("error", "")
    return str(error.get("message", "") if isinstance(error, dict) else error)
