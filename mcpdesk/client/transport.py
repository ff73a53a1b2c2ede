"""Interface of a client transport, and the replies it returns."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from mcpdesk.client.answers.refusal_words import explanation, is_challenge, is_page
from mcpdesk.errors import HttpError, InvalidAnswer, RpcError
from mcpdesk.plain_text import clean
from mcpdesk.protocol.jsonrpc import Id, JSONObject, is_id
from mcpdesk.protocol.reading.message import is_answer
from mcpdesk.protocol.reading.remark import Remark
from mcpdesk.protocol.revisions import Revision

MAX_EXCERPT_LENGTH = 300
"""Maximum number of characters of an answer that an error quotes."""
MAX_CHALLENGE_LENGTH = 8 << 10
"""Maximum length in characters of a `WWW-Authenticate` header in an error."""
REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
REFUSAL_STATUSES = frozenset({401, 403})
ENDLESS_REDIRECTS = "so its redirects never end"
GZIP_MAGIC = b"\x1f\x8b"
"""First bytes of gzip data."""
MAX_QUOTED_LENGTH = 120
"""Maximum number of characters that are shown of a body that is not an answer."""
_PLAIN_WORD = re.compile(r"[\w.:/@~+*=,#?&%-]{1,120}", re.ASCII)


class Incoming(Struct, frozen=True):
    """A message from the server other than an awaited answer."""

    message: JSONObject | None
    """A request, a notification or an unexpected response, or None if the message is unusable."""
    frame: bytes = b""
    """Original bytes of the message, or no bytes if there are only remarks."""
    remarks: tuple[Remark, ...] = ()
    """Faults of the message."""
    request: Id | None = None
    """Request that the message belongs to, if known."""


Receive: TypeAlias = Callable[[Incoming], None]
"""Handler of messages that are not the awaited answer.

Raises: CallError to end the exchange that the message arrived in.
"""


def excerpt(data: bytes | str) -> str:
    """Return the beginning of an answer as one line, with control characters made visible."""
    text = data[: MAX_EXCERPT_LENGTH * 4].decode("utf-8", "replace") if isinstance(data, bytes) else data
    line = " ".join(clean(text).split())
    return line if len(line) <= MAX_EXCERPT_LENGTH else line[: MAX_EXCERPT_LENGTH - 1] + "…"


def quoted_excerpt(text: str) -> str:
    """Return the beginning of a server's text for a sentence of ours, such as a hint.

    A single plain word is unchanged. Other text is put in double quotes, and its own quotes and backquotes
    become apostrophes. A reader can then distinguish it from our words and commands.
    """
    if _PLAIN_WORD.fullmatch(text):
        return text
    line = excerpt(text).replace('"', "'").replace("`", "'")
    return f'"{line}"'


def value_excerpt(value: Any) -> str:
    """Return the beginning of a decoded JSON value, like `excerpt`."""
    return excerpt(json.dumps(value, ensure_ascii=False))


def without_query(url: str) -> str:
    """Return a URL without its query and fragment, which may be secret, or "" for an invalid URL."""
    try:
        return urlunsplit(urlsplit(url)._replace(query="", fragment=""))
    except ValueError:
        return ""


def is_error(message: Any) -> bool:
    """Return True if a decoded message is a JSON-RPC error."""
    error = message.get("error") if isinstance(message, dict) else None
    return (
        isinstance(error, dict)
        and isinstance(error.get("code"), int)
        and not isinstance(error["code"], bool)
        and isinstance(error.get("message"), str)
    )


def named_revision(reply: ServerReply) -> str:
    """Return the revision in the answer to a handshake, or "" if it is missing or not valid in a header."""
    result = reply.message.get("result") if isinstance(reply.message, dict) else None
    revision = result.get("protocolVersion") if isinstance(result, dict) else None
    if not isinstance(revision, str) or len(revision) > 40:
        return ""
    return revision.strip() if revision.isascii() and revision.isprintable() else ""


class ServerResponse(Struct, frozen=True):
    """Well-formed JSON-RPC response with either a result or an error."""

    message: JSONObject
    frame: bytes
    """Original bytes of the message."""

    @property
    def result(self) -> JSONObject | None:
        """Result, or None for an error."""
        return self.message.get("result")

    @property
    def error(self) -> JSONObject | None:
        """Error object, or None for a result."""
        return self.message.get("error")

    def value(self) -> JSONObject:
        """Return the result. Raises: RpcError for an error."""
        if self.error is not None:
            code = self.error["code"]
            message = excerpt(self.error["message"]) or f"error {code}, without a message"
            raise RpcError(code, message, self.error.get("data"))
        return dict(self.message["result"])


class ServerReply(Struct, frozen=True):
    """Unvalidated reply of a transport to a request.

    `message` is the JSON-RPC response, or None. `body` has the bytes of the response, or the data received
    instead of a response.
    """

    message: Any = None
    body: bytes = b""
    status: int = 200
    """HTTP status. Other transports use 200."""
    headers: Mapping[str, str] = {}
    """HTTP headers with lower-case names."""
    remarks: tuple[Remark, ...] = ()
    """Faults of a response that could still be read."""
    is_circular: bool = False
    """True if redirects were followed, and the reply is a redirect again."""

    @property
    def code(self) -> int | None:
        """Code of the JSON-RPC error, or None if the message is not an error."""
        return self.message["error"]["code"] if is_error(self.message) else None

    def response(self, identifier: Id, kinds: Collection[str] = ("complete",)) -> ServerResponse:
        """Return the validated response to the request `identifier`.

        Raises: HttpError if the request was rejected or redirected, or has an error status without a valid
        error; InvalidAnswer if the message is not a response to this request, or its result type is not in
        `kinds`.
        """
        if self.status in REFUSAL_STATUSES or self.status in REDIRECT_STATUSES:
            raise self.failure()
        if not is_answer(self.message):
            if self.status >= 300:
                raise self.failure()
            raise InvalidAnswer(
                f"HTTP {self.status} with {self._received_description()}", excerpt=excerpt(self.body)
            )
        if self.status >= 400 and (not is_error(self.message) or not self._has_id_of(identifier)):
            raise self.failure()
        if reason := _response_fault(self.message, identifier, kinds):
            raise InvalidAnswer(reason, excerpt=value_excerpt(self.message))
        return ServerResponse(self.message, self.body)

    def _has_id_of(self, identifier: Id) -> bool:
        """Return True if the response has the id of the request, or null.

        Some servers send the id of another request with an HTTP error.
        """
        return self.message.get("id") in (identifier, None)

    def _received_description(self) -> str:
        """Describe the data received instead of an answer."""
        media_type = self.headers.get("content-type", "")
        if self.status == 200 and media_type.startswith("text/event-stream"):
            last_event = excerpt(self.body)[:MAX_QUOTED_LENGTH]
            end_text = "an event stream that ended without the answer"
            return f"{end_text}; its last event was {last_event}" if last_event else end_text
        if not self.body.strip():
            return "an empty answer"
        if self.body.startswith(GZIP_MAGIC):
            return "a body compressed with gzip, and no matching Content-Encoding"
        if is_page(self.body, media_type):
            return f"no JSON-RPC answer, but text/html: {excerpt(explanation(self.body, media_type))}"
        text = excerpt(self.body)[:MAX_QUOTED_LENGTH]
        return f"no JSON-RPC answer, but {media_type[:80] or 'no content type'}: {text}"

    @property
    def reason(self) -> str:
        """Server's explanation in a rejection, as one line."""
        if self.message is None:
            return excerpt(explanation(self.body, self.headers.get("content-type", "")))
        return excerpt(_explanation(self.message))

    def failure(self) -> HttpError:
        """Return the status as an exception."""
        reason = self.reason
        if self.status in REDIRECT_STATUSES:
            location = excerpt(without_query(self.headers.get("location", "")))
            redirect_text = f"it redirects to {location}" if location else "it redirects without a Location"
            if self.is_circular:
                reason = f"it redirects to {location}, {ENDLESS_REDIRECTS}"
            else:
                reason = f"{redirect_text}, and such redirects are not followed"
        status_text = f"HTTP {self.status}{f': {reason}' if reason else ''}"
        if is_challenge(self.headers):
            status_text = (
                f"{status_text}: a bot protection in front of the server demands a browser (challenge)"
            )
        if self.status in (429, 503) and (retry_after := excerpt(self.headers.get("retry-after", ""))):
            status_text = f"{status_text}; Retry-After: {retry_after}"
        challenge = clean(self.headers.get("www-authenticate", "")[:MAX_CHALLENGE_LENGTH])
        return HttpError(status_text, status=self.status, body=reason, challenge=challenge)


class ClientTransport(ABC):
    """Transport to one server. Its errors need no server name, because `ServerConnection` adds the name."""

    target: str
    """Address of the server, without secrets."""

    @property
    def is_open(self) -> bool:
        """True if requests can be sent without opening the transport again."""
        return True

    @property
    def mirrors_arguments(self) -> bool:
        """True if headers repeat the arguments of tools whose schemas ask for it."""
        return False

    @property
    def closing_cancels(self) -> bool:
        """True if abandoning an exchange cancels its request on the server."""
        return False

    @property
    def probe_s(self) -> float | None:
        """Seconds to wait for the first response before a handshake is tried, or None for no limit."""
        return None

    @property
    def unexpected_bytes(self) -> str:
        """Description of the bytes received instead of the latest answer, for a person, or "" if unknown."""
        return ""

    @abstractmethod
    async def open(self, receive: Receive) -> None:
        """Connect. `receive` handles messages outside of any exchange. Raises: CallError."""

    @abstractmethod
    async def exchange(
        self, request: JSONObject, headers: Mapping[str, str], receive: Receive
    ) -> ServerReply:
        """Send a request and wait for its reply. Raises: CallError if no reply arrives.

        `receive` handles other messages that belong to the request, if the transport can identify them.
        """

    @abstractmethod
    async def send(self, message: JSONObject) -> None:
        """Send a notification or a response. Raises: CallError if the server does not accept the message."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection and end all exchanges."""

    def apply_revision(self, revision: Revision, reply: ServerReply) -> None:
        """Apply the agreed revision. `reply` is the reply to the first request."""
        return

    def record_remark(self, remark: Remark, request: Id | None) -> None:
        """Record a remark of the client about an answer."""
        return

    def older_transport(self) -> ClientTransport | None:
        """Return the transport to try if the server rejects a handshake over this one, or None."""
        return None

    async def listen(self, on_open: Callable[[], None]) -> None:
        """Receive messages that belong to no request, until cancelled.

        `on_open` is called once the stream has started. Return at once if the transport needs no separate
        stream for these messages.
        """
        return

    async def until_ended(self) -> None:
        """Wait until the connection ends. Raises: CallError with the reason.

        A transport without a permanent connection raises HttpError at once.
        """
        raise HttpError("the server has no stream for notifications, or ended it")


class SessionGone(HttpError):
    """The server no longer knows the session, and did not process the request.

    `reply` is the reply that reports this, or None if no reply does. `has_received` is True if an event
    arrived on the stream of the session.
    """

    reply: ServerReply | None = None
    has_received: bool = False


def _response_fault(message: JSONObject, identifier: Id, kinds: Collection[str]) -> str:
    """Return the error in the response to a request, or an empty string."""
    if message.get("jsonrpc") != "2.0":
        return "the answer is not a JSON-RPC message"
    if is_error(message) and message.get("id") is None:
        return ""  # the server could not read our id
    answer_id = message.get("id")
    if answer_id is None:
        return f"the answer has no id; the request has {identifier!r}"
    if not is_id(answer_id) or answer_id != identifier:
        return f"the answer is to request {answer_id!r}, not to {identifier!r}"
    if ("result" in message) == ("error" in message):
        return "the answer needs either a result or an error"
    if "error" in message:
        return "" if is_error(message) else "the error of the answer has no code or no message"
    result = message["result"]
    if not isinstance(result, dict):
        return "the result is not an object"
    if result.get("resultType", "complete") not in kinds:
        return f"the result is of type {excerpt(str(result['resultType']))!r}, which was not offered"
    return ""


def _explanation(message: Any) -> str:
    if isinstance(message, dict) and "result" in message and "error" not in message:
        return "the answer has a result, but the status is that of an error"
    error = message.get("error", "")
    if not isinstance(error, dict):
        return str(error)
    code = f" ({error['code']})" if is_error(message) else ""
    return f"{error.get('message', '')}{code}"
