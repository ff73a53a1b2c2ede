"""`mcpdesk call`: one tool, once; and how words like `key=value` become its arguments."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from mcpdesk.cli import completion
from mcpdesk.cli.options import Reach, reach_options
from mcpdesk.cli.printing import OK, TOOL_ERROR
from mcpdesk.errors import DeskUserError

EPILOG = """\b
Examples:
  mcpdesk call sample_servers/hello greet name=Ada loudly=yes
  mcpdesk call sample_servers/hello greet --input '{"name": "Ada"}' --json
  mcpdesk call http://127.0.0.1:3333/mcp/hello greet name=Ada --key-env MCPDESK_API_KEY

Exit codes: 0 ok, 1 tool error, 2 usage, 3 cannot connect, 4 protocol error, 5 timed out.
"""


@click.command(name="call", epilog=EPILOG, short_help="Call a tool.")
@click.argument("target", shell_complete=completion.folder)
@click.argument("tool", shell_complete=completion.items("tools/list", "tools"))
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE | KEY:=JSON]...")
@click.option(
    "--input", "whole", metavar="JSON", help="All arguments as one JSON object; - reads it from stdin."
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@click.option("--timeout", "timeout_s", type=float, default=60.0, show_default=True, help="Seconds to wait.")
@reach_options
def command(
    target: str,
    tool: str,
    arguments: tuple[str, ...],
    whole: str | None,
    as_json: bool,
    timeout_s: float,
    reach: Reach,
) -> int:
    """Call TOOL of TARGET, a server folder or the URL of a server, and print its result.

    KEY=VALUE becomes what the tool's schema says: a text, a number, true or false; KEY:=JSON is any value.
    What the tool asks is asked in the terminal; without one it hears that nobody can answer. The timeout does
    not run while a question waits.
    """
    from mcpdesk.bridge.result_text import result_text
    from mcpdesk.cli.command_client import client
    from mcpdesk.cli.printing import print_json, print_text

    given, texts = parse_arguments(arguments, whole), given_as_text(arguments)
    with client(target, reach) as peer:
        if texts:
            known = peer.request_all("tools/list", "tools", timeout_s)
            schema: dict[str, Any] = next(
                (each["inputSchema"] for each in known if each.get("name") == tool), {}
            )
            given = fitted(given, texts, schema)
        params: dict[str, Any] = {"name": tool, "arguments": given}
        result = peer.request("tools/call", params, timeout_s)
    if as_json:
        print_json(result)
    else:
        print_text(result_text(result))
    return TOOL_ERROR if result.get("isError") else OK


_ARGUMENT = re.compile(r"(?P<key>[^=]+?)(?P<is_json>:)?=(?P<value>.*)", re.DOTALL)
FORM = "Write key=value for a text, key:=json for any other value."
SWITCHES = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
DEEPEST = 8
"""References and alternatives of a schema that are followed within each other."""


def parse_arguments(words: Iterable[str], whole: str | None = None) -> dict[str, Any]:
    """The arguments as one object. `whole` is an object in JSON to start from; `-` reads it from stdin.

    Raises: DeskUserError naming the word that is not understood.
    """
    arguments = _object(sys.stdin.read() if whole == "-" else whole) if whole else {}
    for word in words:
        found = _ARGUMENT.fullmatch(word)
        if found is None:
            raise DeskUserError(f"{word!r} is not an argument.", FORM)
        key, value = found["key"], found["value"]
        arguments[key] = _json(value, key) if found["is_json"] else value
    return arguments


def given_as_text(words: Iterable[str]) -> set[str]:
    """The names of the arguments that were written `key=value`."""
    found = [match for match in map(_ARGUMENT.fullmatch, words) if match is not None]
    return {match["key"] for match in found if not match["is_json"]}


def fitted(arguments: dict[str, Any], texts: set[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with those of `texts` converted to the type the input schema of the tool names.

    What allows a text stays one. What cannot be converted stays as it is: the server says what is allowed.
    """
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    return {
        key: _as_schema_says(value, set(_types(known.get(key), schema))) if key in texts else value
        for key, value in arguments.items()
    }


def _types(node: Any, schema: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """The JSON types a part of a schema allows; none where it does not say."""
    if not isinstance(node, dict) or depth > DEEPEST:
        return
    named = node.get("type", ())
    yield from (named,) if isinstance(named, str) else named
    yield from (
        JSON_TYPES[type(each)] for each in (*node.get("enum", ()), node.get("const")) if each is not None
    )
    reference = str(node.get("$ref", ""))
    if reference.startswith("#/$defs/"):
        yield from _types(schema.get("$defs", {}).get(reference.removeprefix("#/$defs/")), schema, depth + 1)
    for alternative in (*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())):
        yield from _types(alternative, schema, depth + 1)


def _as_schema_says(text: str, types: set[str]) -> Any:
    if "string" in types:
        return text
    if (
        "boolean" in types
        and text.lower() in SWITCHES
        and not (types & {"integer", "number"} and text in "01")
    ):
        return SWITCHES[text.lower()]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    kind = JSON_TYPES[type(value)]
    fits = kind in types or (kind == "integer" and "number" in types)
    return value if fits else text


JSON_TYPES = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


def texts_only(words: Iterable[str]) -> dict[str, str]:
    """Arguments of a prompt, which are texts.

    Raises: DeskUserError naming the word that is something else.
    """
    arguments = parse_arguments(words)
    for key, value in arguments.items():
        if not isinstance(value, str):
            raise DeskUserError(f"{key}: a prompt's arguments are texts.", f"Write {key}=value.")
    return arguments


def _json(text: str, key: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DeskUserError(f"{key}: {text!r} is not JSON: {error}.", FORM) from None


def _object(text: str) -> dict[str, Any]:
    value = _json(text, "--input")
    if not isinstance(value, dict):
        raise DeskUserError(
            "--input: the arguments have to be a JSON object.", 'For example {"name": "Ada"}.'
        )
    return value
