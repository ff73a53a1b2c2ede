"""What a person can try when a server cannot be reached, or does not speak the protocol."""

from __future__ import annotations

from mcpdesk.client.child_process import ProgramEnded
from mcpdesk.client.transport import REDIRECTS
from mcpdesk.errors import CallError, HttpError, InvalidAnswer, Unreachable

NOT_STARTED = "Is it installed, on PATH and executable? Its whole path works, too."
ENDED = "Run the command by itself in a terminal: what it says there tells why."
NOT_THERE = "Does the server run, and are host and port right?"
CERTIFICATE = "SSL_CERT_FILE names a file of certificates to trust instead; use http:// if it speaks no TLS."
CLOSED = "The server closed the connection: its own log may say why."
WRONG_PATH = "Is the path right? Most servers answer at /mcp, older ones at /sse."
REDIRECT = "Name the URL it redirects to, if you trust it; one that leads to a login page needs a token."
FAILED = "The server itself failed: its own log says why."
PAGE = "This is a page for people. Most servers answer at /mcp, older ones at /sse."
TOO_MUCH = "The bound protects this machine's memory: the server must send less."
OTHER_ID = "A server must answer with the id of the request, as it was sent: its own log may say more."
NO_PROTOCOL = "Is it an MCP server? --era handshake and --revision speak an older revision to it."


def hint(error: CallError) -> str:
    """Return what to try, as one sentence or two; empty when the error says all there is."""
    match error:
        case ProgramEnded():
            return ENDED
        case Unreachable():
            return NOT_STARTED
        case HttpError(status=0) if "certificate" in error.message or "SSL" in error.message:
            return CERTIFICATE
        case HttpError(status=0) if "reached" not in error.message:
            return CLOSED
        case HttpError(status=0):
            return NOT_THERE
        case HttpError(status=status) if status in REDIRECTS:
            return REDIRECT
        case HttpError(status=status) if status >= 500:
            return FAILED
        case HttpError():
            return WRONG_PATH
        case InvalidAnswer() if "text/html" in error.message:
            return PAGE
        case InvalidAnswer() if "no end" in error.message or "more than" in error.message:
            return TOO_MUCH
        case InvalidAnswer() if "the answer is to request" in error.message:
            return OTHER_ID
        case InvalidAnswer():
            return NO_PROTOCOL
    return ""
