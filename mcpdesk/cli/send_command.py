"""`mcpdesk send`: any request or notification, with its result as JSON on stdout."""

from __future__ import annotations

import sys

import click

from mcpdesk.cli import completion
from mcpdesk.cli.printing import LIMIT, cut_texts, print_json, print_message
from mcpdesk.cli.requests import TARGET, RequestOptions, json_value, request_options, with_remarks
from mcpdesk.errors import DeskUserError
from mcpdesk.protocol.methods import METHODS

EXAMPLES = """\b
Examples:
  mcpdesk send sample_servers/hello server/discover
  mcpdesk send sample_servers/hello tools/list
  mcpdesk send sample_servers/hello tools/call '{"name": "greet", "arguments": {"name": "Ada"}}'
  mcpdesk send https://example.com/mcp notifications/cancelled '{"requestId": 7}'
  mcpdesk send some/method - -- npx -y some-server < params.json
"""
NOTIFICATION = "notifications/"
PARAMS_EXAMPLE = 'For example {"name": "greet"}.'
"""Hint for parameters that are not a JSON object."""


@click.command(name="send", epilog=EXAMPLES, short_help="Send any request or notification.")
@TARGET
@click.argument("method", shell_complete=completion.words(METHODS))
@click.argument("params", required=False, metavar="[JSON]")
@click.option(
    "--notify", is_flag=True, help="Send a notification, even if METHOD does not begin with notifications/."
)
@click.option("--json", "as_json", is_flag=True, help="Also print errors as JSON on stdout.")
@LIMIT
@request_options
def send_command(
    target: str,
    method: str,
    params: str | None,
    notify: bool,
    as_json: bool,
    limit: int | None,
    options: RequestOptions,
) -> None:
    """Send METHOD to the server TARGET, and print the result as JSON. METHOD may be one that mcpdesk does not
    know.

    JSON is the object `params`. With -, it is read from stdin. A METHOD that begins with `notifications/` is
    sent as a notification, which servers do not answer.

    mcpdesk connects first. It adds the fields that the protocol revision requires, such as `_meta`. It does
    not check the result.
    """
    parameters = _params(params)
    with options.client(target) as server:
        if notify or method.startswith(NOTIFICATION):
            server.notify(method, parameters, options.timeout_s)
            print_message(f"sent: {method}")
            return
        result = server.unchecked_result(method, parameters, options.timeout_s)
        remarks = server.remarks()
    print_json(cut_texts(with_remarks(result, remarks), limit))


def _params(text: str | None) -> dict[str, object]:
    """Return the parameters. Raises: DeskUserError if the text is not a JSON object."""
    if text is None:
        return {}
    value = json_value(sys.stdin.read() if text == "-" else text, "params", PARAMS_EXAMPLE)
    if not isinstance(value, dict):
        raise DeskUserError("params: must be a JSON object.", PARAMS_EXAMPLE)
    return value
