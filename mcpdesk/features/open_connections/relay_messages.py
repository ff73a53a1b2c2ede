"""Additions to MCP between a command and the process of an open connection."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from mcpdesk.cli.printing import exit_code
from mcpdesk.cli.reach import with_hint
from mcpdesk.errors import CallError, DeskUserError
from mcpdesk.protocol.jsonrpc import JSONObject

NOTICE: Final = "mcpdesk/notice"
"""Method of a notification with a text for the person. Its parameter is `text`."""
FAILURE: Final = "mcpdesk"
"""Member of an error response, beside `error`, with a `Failure`.

A server cannot send this member, because the process passes on only `error` of a server's response.
"""
REVISION: Final = "2025-06-18"
"""Protocol revision between the command and the process.

In this revision, servers can ask questions. The process waits for the results of tasks itself.
"""


class Failure(Struct, frozen=True):
    """Reason why a request got no answer from the server, as a command reports it."""

    message: str
    hint: str
    exit_code: int


def failure_of(error: CallError | DeskUserError) -> JSONObject:
    """Convert an error to the form that is sent."""
    reported = with_hint(error) if isinstance(error, CallError) else error
    failure = Failure(str(reported), getattr(reported, "hint", ""), exit_code(reported))
    return dict(msgspec.to_builtins(failure))


def error_of(member: JSONObject) -> DeskUserError:
    """Return the error that `failure_of` sent. Raises: ValidationError."""
    failure = msgspec.convert(member, Failure)
    return DeskUserError(failure.message, failure.hint, failure.exit_code)
