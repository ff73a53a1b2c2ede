"""Errors of connections that fail, break, or use another protocol than HTTP."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from mcpdesk.client.transport import excerpt
from mcpdesk.errors import HttpError

WRONG_ENCODING = "the answer does not match its Content-Encoding, or the encoding is not supported"
CONNECTION_BROKE = "the connection broke before the answer was complete"
NOT_HTTP = "the answer is not HTTP"
TLS_ANSWER = "it is TLS"


@contextmanager
def connection_errors() -> Iterator[None]:
    """Convert connection errors to HttpError."""
    import aiohttp

    try:
        yield
    except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError) as error:
        if "content-encoding" in str(error).lower():
            raise HttpError(WRONG_ENCODING) from None
        raise HttpError(CONNECTION_BROKE) from None
    except aiohttp.WSServerHandshakeError as error:
        raise HttpError(f"HTTP {error.status}: {excerpt(error.message)}", status=error.status) from None
    except aiohttp.ClientResponseError as error:
        if "content-encoding" in error.message.lower():
            raise HttpError(WRONG_ENCODING) from None
        raise HttpError(f"{NOT_HTTP}: {_http_violation(error.message)}") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        message = CONNECTION_BROKE if _is_cut(error) else f"cannot be reached: {_failure_reason(error)}"
        raise HttpError(message) from None


def _is_cut(error: Exception) -> bool:
    """Return True if an established connection was reset or closed."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError | ConnectionRefusedError):
        return False
    return isinstance(error, ConnectionError) or (
        isinstance(error, aiohttp.ClientOSError) and error.errno in (errno.ECONNRESET, errno.EPIPE)
    )


def _http_violation(message: str) -> str:
    """Describe the part of an answer that violates HTTP, from aiohttp's message."""
    text = " ".join(message.removesuffix("^").split())
    if "\\x15\\x03" in text or "\\x16\\x03" in text:
        return TLS_ANSWER
    return excerpt(text)


def _failure_reason(error: Exception) -> str:
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not trusted"
    if isinstance(error, aiohttp.ClientConnectorError):
        error_number = error.os_error.errno
        if error_number and error_number > 0:
            return os.strerror(error_number)
        return excerpt(str(error.os_error))
    return excerpt(str(error)) or type(error).__name__
