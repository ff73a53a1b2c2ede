"""Exceptions of the project. Built-in exceptions are used where no caller needs a special class."""

from __future__ import annotations

from typing import Any


class DeskError(Exception):
    """Base class of all exceptions that the project raises on purpose."""


class ProtocolError(DeskError):
    """JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class LocalProtocolError(ProtocolError):
    """This process attempted an operation that the protocol does not allow."""


class RemoteProtocolError(ProtocolError):
    """The peer answered with an error, or sent a message that the protocol does not allow."""

    def __init__(
        self, code: int, message: str, data: Any = None, hint: str = "", next_command: str = ""
    ) -> None:
        """`hint` is advice for a person. `next_command` is the command in the hint, or empty."""
        super().__init__(code, message, data)
        self.hint = hint
        self.next_command = next_command


class AnswerRefused(ProtocolError):
    """A large answer was not sent, because too many bytes of earlier answers are still unread. HTTP status:
    503.
    """


class Refusal(ProtocolError):
    """Raised by `refuse()`. The request is answered with this error."""


class TransportError(DeskError):
    """A connection could not be opened, or broke."""


class OtherEnvironmentError(TransportError):
    """This process cannot serve a client, because tools read environment variables whose values differ in the
    client's environment.
    """


class CallError(DeskError):
    """A request to a server failed. `target` is the server, without secrets."""

    def __init__(self, message: str, target: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.target = target

    def __str__(self) -> str:
        return f"{self.target}: {self.message}" if self.target else self.message


class SessionLost(DeskError):
    """A request must be rejected as if its session did not exist."""


class AnswerCut(DeskError):
    """The connection must be closed in the middle of an answer. `answer` is the complete answer as bytes."""

    def __init__(self, answer: bytes) -> None:
        super().__init__("the connection broke in the middle of the answer, by a fault rule")
        self.answer = answer


class HttpError(CallError):
    """An HTTP exchange failed without an answer from the server.

    `status` is the status of the response, or 0 if no response arrived. `body` is the beginning of the
    response's body, as text. `challenge` is the `WWW-Authenticate` header, which describes the token that is
    needed.
    """

    def __init__(
        self, message: str, target: str = "", status: int = 0, body: str = "", challenge: str = ""
    ) -> None:
        super().__init__(message, target)
        self.status = status
        self.body = body
        self.challenge = challenge


class Unreachable(CallError):
    """The server's program could not be started, or has ended."""


class InvalidAnswer(CallError):
    """The answer violates the protocol: invalid JSON, not a response, or a result of the wrong shape.

    `excerpt` is the beginning of the answer, as text.
    """

    def __init__(self, message: str, target: str = "", excerpt: str = "") -> None:
        super().__init__(message, target)
        self.excerpt = excerpt


class RpcError(CallError):
    """The server answered with a JSON-RPC error. `code`, `message` and `data` come from the server."""

    def __init__(self, code: int, message: str, data: Any = None, target: str = "") -> None:
        super().__init__(message, target)
        self.code = code
        self.data = data

    def __str__(self) -> str:
        return f"{super().__str__()} ({self.code})"


class AuthorizationError(CallError):
    """A token could not be obtained.

    `clause` is the rule that was violated, such as `RFC 8414, 3.3`, or empty. `hint` is advice, as a
    sentence.
    """

    def __init__(self, message: str, clause: str = "", target: str = "", hint: str = "") -> None:
        super().__init__(message, target)
        self.clause = clause
        self.hint = hint

    def __str__(self) -> str:
        return f"{super().__str__()} ({self.clause})" if self.clause else super().__str__()


class LoginUnavailable(AuthorizationError):
    """The server requires a token, but does not name an authorization server where a person could log in."""


class CallTimeout(CallError, TimeoutError):
    """The answer did not arrive in time. The request was cancelled if the protocol revision supports that."""


class ConnectTimeout(CallTimeout):
    """The server did not answer the first message in time."""


class FileUnavailable(DeskError):
    """A file was changed, replaced or removed after a job created it."""


class ArchiveTooLarge(DeskError):
    """The files of a job exceed the limit of one archive. They can be downloaded one by one."""


class ManifestError(DeskError):
    """The manifest of a server folder is invalid.

    `path` is the file. `key` is the invalid key, if known. `line` and `column` count from 1.
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
        location = ":".join(str(part) for part in (self.path, self.line, self.column) if part is not None)
        return f"{location}: {self.message}"


class RegistrationError(DeskError):
    """An item cannot be registered. `source` is its location, `file:line`."""

    def __init__(self, message: str, source: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.source = source

    def __str__(self) -> str:
        return f"{self.source}: {self.message}" if self.source else self.message


class MissingPrecondition(RegistrationError):
    """An item is not offered because a requirement is missing, such as a variable or a program."""

    @classmethod
    def of_variable(cls, variable: str, source: str = "") -> MissingPrecondition:
        """Return the error for a missing environment variable."""
        # The name comes first, because a narrow list shows only the beginning.
        return cls(f"needs {variable}, an environment variable that is not set", source)


class HandlerError(DeskError):
    """Raised by `fail()`. The result of the tool is `message`, without a traceback. `data` is the structured
    content of the result.
    """

    is_expected = True
    """True for an expected failure, which is logged at level info. False for a fault of the server, which is
    logged at level error.
    """

    def __init__(self, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.data = data


class ServerStopping(HandlerError):
    """A call was ended because the server is stopping."""


class BadArgument(HandlerError):
    """An argument matches its schema but cannot be used. It is reported like a schema violation."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


class ServerFailure(HandlerError):
    """The server cannot answer, regardless of the arguments. Logged as an error."""

    is_expected = False


class StorageError(ServerFailure):
    """A state file cannot be read or written. The message names the file. No part of the change was saved."""


class ClientError(HandlerError):
    """A question to the client failed. `code` is the code of the client's error response, or 0 if no response
    arrived.
    """

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class MissingCapability(ClientError):
    """The client did not declare a capability that a question needs.

    `required` is the missing capability, in the form in which a client declares capabilities.
    """

    def __init__(self, message: str, required: dict[str, Any]) -> None:
        super().__init__(message)
        self.required = required


class ClientTimeout(ClientError):
    """The client did not answer in time."""


class DeskUserError(DeskError):
    """Invalid input of the user of the command line or desk.

    `exit_code` is one of the documented exit codes. `next_command` is the command in the hint that a script
    or agent can run next, or empty. It is separate, because a hint may quote text of a server.
    """

    def __init__(self, message: str, hint: str = "", exit_code: int = 2, *, next_command: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
        self.next_command = next_command


class UnknownMode(DeskUserError):
    """A server was requested in a mode that it does not have. `server_modes` are the modes of the server."""

    def __init__(self, server: str, mode: str, server_modes: tuple[str, ...], only_mode: str = "") -> None:
        """`only_mode` is the only mode in which this process serves the server, or empty."""
        modes_text = (
            f"Its modes: {', '.join(server_modes)}." if server_modes else "It has no modes: omit the mode."
        )
        if only_mode:
            modes_text = f"It is only served in the mode {only_mode!r}."
        super().__init__(f"The server {server!r} has no mode {mode[:80]!r}. {modes_text}")
        self.server = server
        self.mode = mode
        self.server_modes = server_modes
