"""What a client needs of a transport, and the replies it brings back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from mcpdesk.client.answers.refusal_words import is_challenge, is_page, words
from mcpdesk.errors import HttpError, InvalidAnswer, RpcError
from mcpdesk.plain_text import clean
from mcpdesk.protocol.jsonrpc import Id, JSONObject, is_id
from mcpdesk.protocol.reading.message import is_answer
from mcpdesk.protocol.reading.remark import Remark
from mcpdesk.protocol.revisions import Revision

EXCERPT = 300
"""Characters of an answer that an error shows."""
MOST_CHALLENGE = 8 << 10
"""Characters of `WWW-Authenticate` that an error keeps."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
REFUSED = frozenset({401, 403})
GZIP = b"\x1f\x8b"
"""First bytes of what is compressed with gzip."""
SHOWN = 120
"""Characters of a body that are shown where no answer is in it."""


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


def named_revision(reply: ServerReply) -> str:
    """The revision in the answer to a handshake, if it can be a header; empty otherwise."""
    result = reply.message.get("result") if isinstance(reply.message, dict) else None
    named = result.get("protocolVersion") if isinstance(result, dict) else None
    is_fit = isinstance(named, str) and named.isascii() and named.isprintable() and len(named) <= 40
    return str(named).strip() if is_fit else ""


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
            raise InvalidAnswer(f"HTTP {self.status} with {self._instead()}", excerpt=excerpt(self.body))
        if self.status >= 400 and (not is_error(self.message) or not self._is_to(identifier)):
            raise self.failure()
        if reason := _response_fault(self.message, identifier, kinds):
            raise InvalidAnswer(reason, excerpt=excerpt(repr(self.message)))
        return ServerResponse(self.message, self.body)

    def _is_to(self, identifier: Id) -> bool:
        """Whether the response may be to a request; in HTTP any may, but some servers make up an id."""
        return self.message.get("id") in (identifier, None)

    def _instead(self) -> str:
        """What came where an answer is due."""
        media_type = self.headers.get("content-type", "")
        if not self.body.strip():
            is_stream = media_type.startswith("text/event-stream")
            return "an event stream that ended without the answer" if is_stream else "an empty answer"
        if self.body.startswith(GZIP):
            return "a body compressed with gzip, and no Content-Encoding that says so"
        if is_page(self.body, media_type):
            return f"no JSON-RPC answer, but text/html: {excerpt(words(self.body, media_type))}"
        return f"no JSON-RPC answer, but {media_type[:80] or 'no content type'}: {excerpt(self.body)[:SHOWN]}"

    @property
    def said(self) -> str:
        """The server's own words in a refusal, as one line."""
        if self.message is None:
            return excerpt(words(self.body, self.headers.get("content-type", "")))
        return excerpt(_reason(self.message))

    def failure(self) -> HttpError:
        """The status as an exception."""
        said = self.said
        if self.status in REDIRECTS:
            place = excerpt(without_query(self.headers.get("location", "")))
            where = f"it redirects to {place}" if place else "it redirects without a Location"
            said = f"{where}, and such redirects are not followed"
        about = f"HTTP {self.status}{f': {said}' if said else ''}"
        if is_challenge(self.headers):
            about = f"{about}: a guard in front of the server wants to see a browser (challenge)"
        if self.status in (429, 503) and (after := excerpt(self.headers.get("retry-after", ""))):
            about = f"{about}; Retry-After: {after}"
        challenge = clean(self.headers.get("www-authenticate", "")[:MOST_CHALLENGE])
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

    @property
    def silence(self) -> str:
        """Description for a person of the bytes received instead of the latest answer, if known."""
        return ""

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
    """The server does not know the session any more. It did nothing of the request.

    `reply` says so; None where it did not come over a connection.
    """

    reply: ServerReply | None = None


def _response_fault(message: JSONObject, identifier: Id, kinds: Collection[str]) -> str:
    """What is wrong with the response to a request; empty when nothing is."""
    if message.get("jsonrpc") != "2.0":
        return "the answer is no JSON-RPC message"
    if is_error(message) and message.get("id") is None:
        return ""  # it could not read our id
    answered = message.get("id")
    if answered is None:
        return f"the answer has no id, and the request has {identifier!r}"
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
    if not isinstance(error, dict):
        return str(error)
    code = f" ({error['code']})" if is_error(message) else ""
    return f"{error.get('message', '')}{code}"
