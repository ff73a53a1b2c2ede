"""Advice for a person if a server cannot be reached, or violates the protocol."""

from __future__ import annotations

import re
import shlex
from typing import Any, NamedTuple

from mcpdesk.client.answers.connection_faults import NOT_HTTP, TLS_ANSWER, WRONG_ENCODING
from mcpdesk.client.child_process import BUFFERING_NOTE, STARTED_AGAIN, ProgramEnded
from mcpdesk.client.transport import (
    ENDLESS_REDIRECTS,
    REDIRECT_STATUSES,
    REFUSAL_STATUSES,
    excerpt,
    quoted_excerpt,
)
from mcpdesk.errors import CallError, ConnectTimeout, HttpError, InvalidAnswer, Unreachable
from mcpdesk.protocol.client_questions import wants_older_revision
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.protocol.revisions import BY_NAME

URL_REQUIRED = -32042
"""Code of an error with links that the person must open first. Source: MCP 2025-11-25, client/elicitation."""
# Advice for a person, by the cause of an error. `hint` selects it.
NOT_STARTED = "Check that it is installed, on PATH and executable, or use its full path."
NO_MODULE = (
    "Python finds no module {0!r}: check its name, install it in the environment of the project, or add "
    "--with {1} if the target is a Python file or module."
)
NO_FOLDER = "Create the folder, or correct its path (cwd)."
ENDED = "Run the command in a terminal: its output shows the reason."
NOT_REACHABLE = "Check that the server is running, and the host and port."
CERTIFICATE = "Set SSL_CERT_FILE to a file of certificates to trust, or use http:// if the server has no TLS."
CLOSED = "The server closed the connection: see its log."
WRONG_PATH = "Check the path. Most servers use /mcp, older ones /sse."
ENDLESS_REDIRECT = "Its redirects never end: see its settings, or those of a proxy before it."
REDIRECT = (
    "Use the URL that it redirects to, if you trust it. If that is a login page, the server needs a token."
)
SLOW = (
    "Check that it is an MCP server and does not wait for input. "
    "MCPDESK_CONNECT_TIMEOUT_S allows more time, which a first `npx` or `uvx` may need."
)
SLOW_OR_BUFFERED = (
    "MCPDESK_CONNECT_TIMEOUT_S allows more time. If that does not help, the server must flush its output "
    "after each message."
)
SLOW_ADDRESS = "Check that it is an MCP server, and see its log. MCPDESK_CONNECT_TIMEOUT_S allows more time."
FAILED = "The server failed: see its log."
PAGE = "This is a web page. Most servers use /mcp, older ones /sse."
EMPTY = "A request needs an answer; 202 and 204 are for notifications. See the server's log."
BAD_ENCODING = (
    "The server, or a proxy before it, must send what the header declares: turn its compression off."
)
BROKEN_HTTP = "The server, or a proxy before it, violates HTTP: see its log."
OTHER_PROTOCOL = "Check that no other program uses this port. A server with TLS needs https://."
BAD_BYTES = "The server violates the protocol: Traffic on the desk (mcpdesk TARGET, then 2) shows its bytes."
TOO_LARGE = "The limit protects this machine's memory: the server must send less."
OTHER_ID = "A server must answer with the unchanged id of the request: see its log."
NO_ANSWER = "The server, or a proxy before it, ended the stream too early: see its log."
NO_TOKEN = "Use a token (--token-env), the key (--key-env), or log in: mcpdesk login URL."
LOG_IN = "F6 logs in with a browser, and so does `mcpdesk login` in a shell."
SET_TOKEN = "On the desk, F6 sets it."
NO_LOGIN_NAMED = "It names no authorization server."
FORBIDDEN = "It denies this caller access: use another token or key (--token-env, --key-env)."
WRONG_HOST = (
    "The server rejects this Host name: use a name that it allows, or add this one to its allowed hosts."
)
CHALLENGE = (
    "A bot protection in front of the server demands a browser: ask to exempt the path, or use a direct URL."
)
TOO_MANY = "The server limits the rate of requests: wait, then try again."
SERVER_DOWN = "A proxy answered, but the server behind it did not: check that it is running."
TOO_SLOW = "A proxy stopped waiting for the server behind it: it is too slow, or not running."
BUSY = "The server is not ready or overloaded: wait, then try again."
REVISION = "Select a revision that it supports"
OLDER_REVISION = "--revision 2025-06-18, or 2025-03-26, which sends no MCP-Protocol-Version"
REVISION_AT_DESK = 'To use another revision with it: space, then "revision".'
ASK_OLDER = "The server can ask questions only in an older revision: try again with --revision 2025-11-25."
OPEN_LINK = "Open the link in a browser, finish there, and call again."
NEEDS_PERSON = (
    "The server asks a person: run `mcpdesk call` in a terminal (elicitation, sampling), "
    "or call it on the desk (also roots)."
)
NO_LINK = "The server named no link in data.elicitations: see its log or documentation for the page to open."
UNKNOWN_PROTOCOL = "Check that it is an MCP server. --era handshake or --revision selects an older revision."
REFUSED_REQUEST = "The server rejected the request: see its message, or its log."
NO_VARIABLE = (
    "The program needs the environment variable {0}: set it in `env` of its entry in the configuration, "
    "or in the shell."
)
_NO_MODULE = re.compile(r"No module named '([\w.]+)'")
_VARIABLE = r"(?!ERR_|MODULE_)[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+"
_NO_VARIABLE = re.compile(
    rf"\b({_VARIABLE})\b.{{0,60}}\b(?:required|missing|not set|not defined|must be set)\b"
    rf"|\b(?:KeyError|[Mm]issing|[Ss]et|[Rr]equires?|[Nn]eeds?)\b.{{0,40}}\b({_VARIABLE})\b"
)
BY_STATUS = {  # advice by HTTP status
    401: NO_TOKEN,
    403: FORBIDDEN,
    404: WRONG_PATH,
    405: WRONG_PATH,
    421: WRONG_HOST,
    429: TOO_MANY,
    502: SERVER_DOWN,
    503: BUSY,
    504: TOO_SLOW,
    521: SERVER_DOWN,
    522: SERVER_DOWN,
    523: SERVER_DOWN,
    524: TOO_SLOW,
}
_QUESTION_CAPABILITIES = ("elicitation", "sampling", "roots")
_HOST = re.compile(r"\bhost\b", re.I)
_DATES = re.compile(r"\b20\d\d-\d\d-\d\d\b")
_VERSION = re.compile(r"protocol.?version|unsupported.{0,20}version|\b20\d\d-\d\d-\d\d\b", re.I)


class MissingToken(NamedTuple):
    """Token that a server asks for in its challenge."""

    scopes: tuple[str, ...]
    """Scopes that the token must have, or an empty tuple if the server names none."""
    has_login: bool
    """True if the server names an authorization server."""
    is_insufficient: bool
    """True if the request had a valid token, which lacks the scopes."""

    @property
    def scope_words(self) -> str:
        """Text such as ` with the scope wallet:send`. Empty without scopes."""
        return scope_words(self.scopes)


def scope_words(scopes: tuple[str, ...]) -> str:
    """Return a text such as ` with the scopes "a b"`. Empty without scopes."""
    if not scopes:
        return ""
    return f" with the scope{'s' if len(scopes) > 1 else ''} {quoted_excerpt(' '.join(scopes))}"


def missing_token(error: HttpError) -> MissingToken | None:
    """Return the token that a server asks for in its challenge, or None if the error has no challenge."""
    from mcpdesk.client.oauth.discovery import parse_challenge

    challenge = parse_challenge([error.challenge]) if error.status in REFUSAL_STATUSES else None
    if challenge is None:
        return None
    scopes = tuple(challenge.scope.split())
    is_insufficient = error.status == 403 or challenge.error == "insufficient_scope"
    return MissingToken(scopes, bool(challenge.metadata_url), is_insufficient)


def shell_token_hint(missing: MissingToken) -> str:
    """Return advice for a person in a shell: which token is missing, and how to provide it."""
    article = "another" if missing.is_insufficient else "a"
    need = f"It needs {article} token{missing.scope_words}"
    if missing.has_login:
        scope = excerpt(" ".join(missing.scopes))
        is_shown = missing.is_insufficient and "`" not in scope
        scope_option = f" --scope {shlex.quote(scope)}" if is_shown else ""
        return f"{need}. Log in: mcpdesk login URL{scope_option}. Or use --token-env VAR."
    return f"{need}: use --token-env VAR or --header. {NO_LOGIN_NAMED}"


def desk_token_hint(missing: MissingToken) -> str:
    """Return advice for a person at the desk: which token is missing, and how to provide it."""
    article = "another" if missing.is_insufficient else "a"
    need = f"It needs {article} token{missing.scope_words}"
    if missing.has_login:
        return f"{need}. F6 logs in with a browser, and so does `mcpdesk login` in a shell."
    token_options = (
        "give it to `mcpdesk` by --token-env VAR or --header, or in the headers of its configuration"
    )
    return f"{need}: {token_options}. {NO_LOGIN_NAMED}"


def error_hint(code: int, message: str, data: Any) -> str:
    """Return advice for a JSON-RPC error, or an empty string for an unknown code."""
    if code == URL_REQUIRED:
        return OPEN_LINK if "://" in str(data) else NO_LINK
    if code == ErrorCode.MISSING_CAPABILITY and any(word in str(data) for word in _QUESTION_CAPABILITIES):
        return NEEDS_PERSON
    return ASK_OLDER if wants_older_revision(message) else ""


def _end_hint(message: str) -> str:
    """Return advice about a program that ended. `message` has the end of its stderr."""
    if missing_module := _NO_MODULE.search(message):
        return NO_MODULE.format(missing_module[1], missing_module[1].partition(".")[0])
    if missing_variable := _NO_VARIABLE.search(message):
        return NO_VARIABLE.format(missing_variable[1] or missing_variable[2])
    return ENDED


def hint(error: CallError, *, is_first: bool = False) -> str:
    """Return advice in one or two sentences, or an empty string if the error message is sufficient.

    `is_first` is True if the error concerns the first message, so that the server may use another protocol.
    """
    match error:
        case ProgramEnded(message=message):
            return _end_hint(message)
        case ConnectTimeout(message=message) if STARTED_AGAIN in message:
            return _end_hint(message)
        case Unreachable(message=message) if "working folder" in message:
            return NO_FOLDER
        case Unreachable():
            return NOT_STARTED
        case ConnectTimeout(target=target) if target.startswith(("http://", "https://")):
            return SLOW_ADDRESS
        case ConnectTimeout(message=message) if BUFFERING_NOTE in message:
            return SLOW_OR_BUFFERED
        case ConnectTimeout():
            return SLOW
        case HttpError(status=0) if "certificate" in error.message or "SSL" in error.message:
            return CERTIFICATE
        case HttpError(status=0) if WRONG_ENCODING in error.message:
            return BAD_ENCODING
        case HttpError(status=0) if NOT_HTTP in error.message:
            is_other_protocol = TLS_ANSWER in error.message or "status line" in error.message
            return OTHER_PROTOCOL if is_other_protocol else BROKEN_HTTP
        case HttpError(status=0) if "reached" not in error.message:
            return CLOSED
        case HttpError(status=0):
            return NOT_REACHABLE
        case HttpError(status=status, message=message) if (
            status in REDIRECT_STATUSES and ENDLESS_REDIRECTS in message
        ):
            return ENDLESS_REDIRECT
        case HttpError(status=status) if status in REDIRECT_STATUSES:
            return REDIRECT
        case HttpError(message=message) if "(challenge)" in message:
            return CHALLENGE
        case HttpError(body=body, status=status) if _HOST.search(body) and status in (400, 403, 421):
            return WRONG_HOST
        case HttpError(status=400, body=body) if _VERSION.search(body):
            return _revision_hint(body)
        case HttpError() if (missing := missing_token(error)) and (missing.scopes or missing.has_login):
            return shell_token_hint(missing)
        case HttpError(status=status) if status in BY_STATUS:
            return BY_STATUS[status]
        case HttpError(status=status) if status >= 500:
            return FAILED
        case HttpError():
            return REFUSED_REQUEST
        case InvalidAnswer() if "event stream" in error.message:
            return NO_ANSWER
        case InvalidAnswer() if "text/html" in error.message:
            return PAGE
        case InvalidAnswer() if re.search(r"no end|more than \d", error.message):
            return TOO_LARGE
        case InvalidAnswer() if re.search("the answer (?:is to request|has no id)", error.message):
            return OTHER_ID
        case InvalidAnswer() if "compressed with gzip" in error.message:
            return BAD_ENCODING
        case InvalidAnswer() if "an empty answer" in error.message:
            return EMPTY
        case InvalidAnswer() if "'input_required', which was not offered" in error.message:
            return NEEDS_PERSON
        case InvalidAnswer() if "'roots/list', which was not offered" in error.message:
            return NEEDS_PERSON
        case InvalidAnswer() if is_first:
            return UNKNOWN_PROTOCOL
        case InvalidAnswer():
            return BAD_BYTES
    return ""


def _revision_hint(reason: str) -> str:
    """Return advice for a refused revision: to use the newest known revision that the reason mentions."""
    known_revisions = [name for name in _DATES.findall(reason) if name in BY_NAME]
    option = f"--revision {max(known_revisions)}" if known_revisions else OLDER_REVISION
    return f"{REVISION}: {option}."


AT_DESK = {
    ENDED: "Its last lines are in the log (5).",
    UNKNOWN_PROTOCOL: 'Check that it is an MCP server. To use an older revision: space, then "revision".',
    BAD_BYTES: "The server violates the protocol: Traffic (2) shows its bytes.",
}
"""Hints for a person at the desk, by the corresponding hint for a shell."""


def desk_hint(error: CallError, *, is_first: bool = False) -> str:
    """Return advice for a person at the desk, where command-line options do not apply."""
    missing = missing_token(error) if isinstance(error, HttpError) else None
    if missing is not None and (missing.scopes or missing.has_login):
        return desk_token_hint(missing)
    advice = hint(error, is_first=is_first)
    if advice.startswith(REVISION):
        return REVISION_AT_DESK
    return LOG_IN if advice in (NO_TOKEN, FORBIDDEN) else AT_DESK.get(advice, advice)
