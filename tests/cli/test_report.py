"""How a mistake is told, and its exit code."""

from __future__ import annotations

import click
import pytest

from mcpdesk.cli.report import report
from mcpdesk.errors import (
    CallTimeout,
    DeskError,
    DeskUserError,
    HttpError,
    InvalidAnswer,
    ManifestError,
    RemoteProtocolError,
    RpcError,
    TransportError,
)


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (DeskUserError("No.", "Do this."), 2, "mcpdesk: No.\n  Do this.\n"),
        (DeskUserError("Too slow.", exit_code=5), 5, "mcpdesk: Too slow.\n"),
        (ManifestError("no", "mcp.json", line=3, column=4), 2, "mcpdesk: mcp.json:3:4: no\n"),
        (TransportError("gone"), 3, "mcpdesk: gone\n"),
        (RemoteProtocolError(-32602, "Unknown tool"), 4, "mcpdesk: Unknown tool\n"),
        (HttpError("HTTP 404", "http://x"), 3, "mcpdesk: http://x: HTTP 404\n"),
        (InvalidAnswer("no JSON", "http://x"), 4, "mcpdesk: http://x: no JSON\n"),
        (RpcError(-32602, "Unknown tool", None, "http://x"), 4, "mcpdesk: http://x: Unknown tool (-32602)\n"),
        (CallTimeout("no answer", "http://x"), 5, "mcpdesk: http://x: no answer\n"),
        (DeskError("odd"), 1, "mcpdesk: odd\n"),
        (click.UsageError("No such option"), 2, "mcpdesk: No such option\n  See `mcpdesk --help`.\n"),
        (click.FileError("f", "why"), 2, "mcpdesk: Could not open file 'f': why\n"),
    ],
)
def test_error_is_one_sentence_a_hint_and_a_code(
    error: DeskError | click.ClickException, code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(error) == code
    captured = capsys.readouterr()
    assert captured.err == told
    assert captured.out == ""
