"""How a mistake is told: one sentence and a hint on stderr, and the exit code that goes with it."""

from __future__ import annotations

import click

from mcpdesk.cli.printing import tell
from mcpdesk.errors import (
    CallError,
    CallTimeout,
    DeskError,
    DeskUserError,
    HttpError,
    ManifestError,
    ProtocolError,
    TransportError,
)

OK = 0
TOOL_ERROR = 1
USAGE = 2
CANNOT_CONNECT = 3
PROTOCOL_ERROR = 4
TIMED_OUT = 5

CODES: tuple[tuple[type[DeskError], int], ...] = (
    (ManifestError, USAGE),
    (TransportError, CANNOT_CONNECT),
    (ProtocolError, PROTOCOL_ERROR),
    (CallTimeout, TIMED_OUT),
    (HttpError, CANNOT_CONNECT),
    (CallError, PROTOCOL_ERROR),
)
"""Kind of error -> exit code; the first that fits counts."""


def report(error: DeskError | click.ClickException) -> int:
    """Tell the error on stderr and return its exit code."""
    if isinstance(error, click.UsageError):
        message, hint, code = " ".join(error.format_message().split()), _usage_hint(error), USAGE
    elif isinstance(error, click.ClickException):
        message, hint, code = error.format_message(), "", USAGE
    elif isinstance(error, DeskUserError):
        message, hint, code = str(error), error.hint, error.exit_code
    else:
        message, hint = str(error), ""
        code = next((code for kind, code in CODES if isinstance(error, kind)), TOOL_ERROR)
    tell(f"mcpdesk: {message}")
    if hint:
        tell(f"  {hint}")
    return code


def report_crash() -> int:
    """Tell on stderr where the exception in hand comes from, without local values; returns the exit code."""
    import traceback

    tell(f"{traceback.format_exc()}mcpdesk: This is a mistake of mcpdesk. Please report it with these lines.")
    return TOOL_ERROR


def _usage_hint(error: click.UsageError) -> str:
    return f"See `{error.ctx.command_path} --help`." if error.ctx else "See `mcpdesk --help`."
