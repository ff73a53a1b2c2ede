"""`mcpdesk call` without a tool: the tools of a server, each with an example command.

Also the hint for a tool that the server does not have.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from mcpdesk.cli.printing import print_json, print_message, print_text, summary
from mcpdesk.client.targets import COMMAND
from mcpdesk.plain_text import clean
from mcpdesk.protocol.catalogue.example_value import example_value
from mcpdesk.protocol.catalogue.schema_shapes import Schema, property_shapes

MAX_EXAMPLE_LENGTH = 1_000
"""Maximum number of characters of an example. A longer one has no arguments."""
MAX_SUMMARY_LENGTH = 100
"""Maximum number of characters of a tool's description."""
PLAIN_KEY = re.compile(r"[^=:\s-][^=:\s]*")
"""Names of arguments that can be written as `key=value`."""


def print_tools(
    tools: Sequence[Mapping[str, Any]], faults: Sequence[str], target: str, as_json: bool
) -> None:
    """Print the tools of a server, each with an example of a call. `faults` of the list go to stderr."""
    for fault in faults:
        print_message(f"mcpdesk: malformed: {fault}")
    rows = [
        {
            "name": str(tool["name"]),
            "description": summary(tool),
            "example": example_command(target, tool),
        }
        for tool in tools
    ]
    if as_json:
        print_json({"tools": rows})
        return
    texts = [
        "\n".join(
            part
            for part in (
                clean(row["name"], newlines=False),
                f"  {clean(row['description'], newlines=False)[:MAX_SUMMARY_LENGTH]}".rstrip(),
                f"  {clean(row['example'], newlines=False)}",
            )
            if part.strip()
        )
        for row in rows
    ]
    print_text("\n\n".join(texts) or "The server has no tools.")


def example_command(target: str, tool: Mapping[str, Any]) -> str:
    """Return a command that calls a tool of the target with minimal arguments.

    Empty if the name of the tool looks like an option.
    """
    name = str(tool["name"])
    if name.startswith("-"):
        return ""
    example = _command(target, [name, *_argument_words(tool.get("inputSchema"))])
    return example if len(example) <= MAX_EXAMPLE_LENGTH else _command(target, [name])


def _command(target: str, words: Sequence[str]) -> str:
    """Return a `call` of the target with further words. The command line of a program comes last."""
    if target.startswith(COMMAND):
        return f"{shlex.join(['mcpdesk', 'call', *words])} -- {target.removeprefix(COMMAND)}"
    return shlex.join(["mcpdesk", "call", target, *words])


def listing_command(target: str) -> str:
    """Return the command that lists the tools of a target."""
    return _command(target, [])


def _argument_words(schema: Any) -> list[str]:
    """Return the required arguments as words of a command line."""
    root: Schema = schema if isinstance(schema, dict) else {}
    value = example_value(root, root)
    arguments = value if isinstance(value, dict) else {}
    if not all(PLAIN_KEY.fullmatch(key) for key in arguments):
        return ["--input", json.dumps(arguments, ensure_ascii=False)]
    return [_argument_word(key, value, root) for key, value in arguments.items()]


def _argument_word(key: str, value: Any, root: Schema) -> str:
    if isinstance(value, str):
        needs_text = not value and not any("default" in each for each in property_shapes(root, key, root))
        return f"{key}={'TEXT' if needs_text else value}"
    if isinstance(value, bool | int | float):
        return f"{key}={json.dumps(value)}"
    return f"{key}:={json.dumps(value, ensure_ascii=False)}"


def tool_hint(name: str, tools: Sequence[Mapping[str, Any]], target: str, answer: str) -> str:
    """Return a hint for an unknown tool: the command that lists all, and a similar tool unless the server's
    answer names it already.
    """
    from mcpdesk.server.offer.registry import similar_name

    listing = f"`{listing_command(target)}` lists the tools."
    similar = similar_name(name, [str(each.get("name")) for each in tools])
    return f"Did you mean {similar!r}? {listing}" if similar and similar not in answer else listing
