"""The exceptions of the project; builtins are used wherever nobody would catch a special class."""

from __future__ import annotations

from typing import Any


class DeskError(Exception):
    """Base of everything the project raises on purpose."""


class ProtocolError(DeskError):
    """A JSON-RPC failure."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class LocalProtocolError(ProtocolError):
    """Our side asked for something the protocol does not allow."""


class RemoteProtocolError(ProtocolError):
    """The peer answered with an error, or sent something the protocol does not allow."""

    def __init__(self, code: int, message: str, data: Any = None, hint: str = "") -> None:
        """`hint` says what a person can do about it."""
        super().__init__(code, message, data)
        self.hint = hint


class AnswerRefused(ProtocolError):
    """A large answer is not sent, because clients have left too much of others unread. HTTP status: 503."""


class Refusal(ProtocolError):
    """Raised by `refuse()`: the request is answered with this error."""


class TransportError(DeskError):
    """A connection could not be opened, or broke."""


class OtherEnvironmentError(TransportError):
    """A client cannot be served by this process: tools read variables that are others in the client's."""


class ReplicaSilent(TransportError):
    """Another replica took a request and gave no answer in time: nobody knows what became of it."""


class CallError(DeskError):
    """A request to a server came to nothing. `target` says where it went, without secrets."""

    def __init__(self, message: str, target: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.target = target

    def __str__(self) -> str:
        return f"{self.target}: {self.message}" if self.target else self.message


class SessionLost(DeskError):
    """A request is to be refused as if its session were gone."""


class AnswerCut(DeskError):
    """The connection is to break in the middle of an answer, which is encoded."""

    def __init__(self, answer: bytes) -> None:
        super().__init__("the connection broke in the middle of the answer, by a fault rule")
        self.answer = answer


class HttpError(CallError):
    """HTTP carried no answer of the server.

    `status` is the response's, 0 when there was no response; `body` the beginning of what it said, as text;
    `challenge` its `WWW-Authenticate`, which names what a token needs.
    """

    def __init__(
        self, message: str, target: str = "", status: int = 0, body: str = "", challenge: str = ""
    ) -> None:
        super().__init__(message, target)
        self.status = status
        self.body = body
        self.challenge = challenge


class Unreachable(CallError):
    """The program that is the server could not be started, or has ended."""


class InvalidAnswer(CallError):
    """An answer came, and is not what the protocol allows: no JSON, no response, no such result.

    `excerpt` is its beginning, as text.
    """

    def __init__(self, message: str, target: str = "", excerpt: str = "") -> None:
        super().__init__(message, target)
        self.excerpt = excerpt


class RpcError(CallError):
    """The server answered with a JSON-RPC error: `code`, `message` and `data` are the server's."""

    def __init__(self, code: int, message: str, data: Any = None, target: str = "") -> None:
        super().__init__(message, target)
        self.code = code
        self.data = data

    def __str__(self) -> str:
        return f"{super().__str__()} ({self.code})"


class AuthorizationError(CallError):
    """A token could not be obtained.

    `clause` names the rule that was broken, if one was: `RFC 8414, 3.3`; `hint` is what to do, as a sentence.
    """

    def __init__(self, message: str, clause: str = "", target: str = "", hint: str = "") -> None:
        super().__init__(message, target)
        self.clause = clause
        self.hint = hint

    def __str__(self) -> str:
        return f"{super().__str__()} ({self.clause})" if self.clause else super().__str__()


class NoLogin(AuthorizationError):
    """The server checks tokens, and names no place where a client can get one."""


class CallTimeout(CallError, TimeoutError):
    """No answer came within the time; the server was told to stop, where its revision has a way."""


class FileGone(DeskError):
    """A file was changed, replaced or removed since a job made it."""


class ArchiveTooLarge(DeskError):
    """The files of a job are too much for one archive; they can be had one by one."""


class ManifestError(DeskError):
    """A server folder's manifest is unusable.

    `path` is the file, `key` the offending key if one is known, `line` and `column` count from 1.
    """

    def __init__(
        self,
        message: str,
        path: str,
        key: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.key = key
        self.line = line
        self.column = column

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.path, self.line, self.column) if part is not None)
        return f"{place}: {self.message}"


class RegistrationError(DeskError):
    """One item cannot be registered. `source` is `file:line` of the offender."""

    def __init__(self, message: str, source: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.source = source

    def __str__(self) -> str:
        return f"{self.source}: {self.message}" if self.source else self.message


class MissingPrecondition(RegistrationError):
    """An item is not offered because something it needs is not there: a variable, a program."""

    @classmethod
    def of_variable(cls, variable: str, source: str = "") -> MissingPrecondition:
        """It needs an environment variable."""
        # The name comes first: a narrow list shows the beginning alone.
        return cls(f"needs {variable}, an environment variable that is not set", source)


class HandlerError(DeskError):
    """Raised by `fail()`: the tool answers with `message` and no stack. `data` becomes structured content."""

    is_expected = True
    """True for an ordinary answer to a caller, logged at info; False for a fault, logged as an error."""

    def __init__(self, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.data = data


class ServerStopping(HandlerError):
    """A call was ended because the server stops."""


class BadArgument(HandlerError):
    """An argument fits its schema and still cannot be used; it is told like one that does not fit."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


class ServerFailure(HandlerError):
    """The server cannot answer, whatever the caller asks for; it is logged as an error."""

    is_expected = False


class StorageError(ServerFailure):
    """A state file cannot be read or written; the message names it, and nothing of the work was kept."""


class ClientError(HandlerError):
    """A question to the client came to nothing. `code` is that of its error response, 0 without one."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class MissingCapability(ClientError):
    """The client did not declare what a question needs. `required` names it as capabilities do."""

    def __init__(self, message: str, required: dict[str, Any]) -> None:
        super().__init__(message)
        self.required = required


class ClientTimeout(ClientError):
    """The client did not answer in time."""


class DeskUserError(DeskError):
    """A mistake of the person at the keyboard. `exit_code` follows the command line's table."""

    def __init__(self, message: str, hint: str = "", exit_code: int = 2) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code


class UnknownMode(DeskUserError):
    """A server was asked for in a mode it does not have; `known` are those it has."""

    def __init__(self, server: str, mode: str, known: tuple[str, ...], only: str = "") -> None:
        which = f"Its modes: {', '.join(known)}." if known else "It has no modes: leave the mode out."
        if only:
            which = f"It is served in the mode {only!r} alone."
        super().__init__(f"The server {server!r} has no mode {mode[:80]!r}. {which}")
        self.server = server
        self.mode = mode
        self.known = known
