"""`mcpdesk call`, `list`, `read`, `prompt` and `complete`: one request, with its result on stdout.

Also `watch`.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from mcpdesk.cli import completion
from mcpdesk.cli.printing import (
    CANNOT_CONNECT,
    LIMIT,
    OK,
    PROTOCOL_ERROR,
    TOOL_ERROR,
    aligned,
    cut_text,
    cut_texts,
    exit_code,
    print_bytes,
    print_json,
    print_line,
    print_message,
    print_text,
    summary,
)
from mcpdesk.cli.reach import reach_options, with_hint
from mcpdesk.client.hints import ASK_OLDER, CLOSED
from mcpdesk.errors import DeskError, DeskUserError, InvalidAnswer, RemoteProtocolError
from mcpdesk.plain_text import clean, json_escaped
from mcpdesk.protocol.catalogue.result_faults import lenient_base64, prompt_faults, read_faults, result_faults
from mcpdesk.protocol.catalogue.schema_shapes import (
    MAX_SHAPES,
    is_of_type,
    is_same,
    named_types,
    property_shapes,
    resolve,
    shape_alternatives,
)
from mcpdesk.protocol.client_questions import wants_older_revision
from mcpdesk.upstream.target_transport import Reach

if TYPE_CHECKING:
    from mcpdesk.cli.command_client import CommandClient, Notification
    from mcpdesk.link.values import CatalogueItem

_UNKNOWN_TOOL = re.compile(r"(?i)unknown|not found|not exist|no such|no tool|not (a )?valid|unrecogni[sz]ed")
"""Words in the error text of a server that does not have the called tool."""
CALL_EXAMPLES = """\b
Examples:
  mcpdesk call sample_servers/hello greet name=Ada loudly=yes
  mcpdesk call sample_servers/hello greet --input '{"name": "Ada"}' --json
  mcpdesk call http://127.0.0.1:3333/mcp/hello greet name=Ada --key-env MCPDESK_API_KEY

Exit codes: 0 ok, 1 tool error, 2 invalid command, 3 cannot connect, 4 protocol error, 5 timed out.
"""
LIST_EXAMPLES = """\b
Examples:
  mcpdesk list                                 the servers of your clients
  mcpdesk list cursor:github
  mcpdesk list sample_servers/hello
  mcpdesk list sample_servers/hello --json
  mcpdesk list sample_servers/dataviz --mode look
  mcpdesk list http://127.0.0.1:3333/mcp/hello
"""
READ_EXAMPLES = """\b
Examples:
  mcpdesk read sample_servers/profiles resource://getting-started
  mcpdesk read sample_servers/profiles resource://getting-started --json
"""
PROMPT_EXAMPLES = """\b
Examples:
  mcpdesk prompt sample_servers/profiles summarize text='Once upon a time ...'
  mcpdesk prompt sample_servers/profiles summarize text=hello --json
"""
COMPLETE_EXAMPLES = """\b
Examples:
  mcpdesk complete sample_servers/conformance test_prompt_with_arguments arg1=test
  mcpdesk complete --json 'demo://resource/dynamic/text/{resourceId}' resourceId=1 -- npx -y some-server
"""
WATCH_EXAMPLES = """\b
Examples:
  mcpdesk watch sample_servers/hello
  mcpdesk watch https://example.com/mcp --resource file:///notes.md --json
  mcpdesk watch --era stateless -- npx -y some-server

Press Ctrl+C, or send SIGTERM, to stop. Exit codes: 0 stopped by you, 3 the server ended or cannot be reached
again.
"""

TARGET = click.argument("target", shell_complete=completion.target)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the complete result as JSON.")
ALONE = click.option(
    "--alone",
    is_flag=True,
    help="Do not use an open connection, or a desk that hosts the folder. Start or host the server again.",
)
TIMEOUT = click.option(
    "--timeout",
    "timeout_s",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for the connection and the answer.",
)


class RequestOptions(NamedTuple):
    """Options of the commands that send requests: the time limit, and the connection to the server."""

    timeout_s: float
    is_alone: bool
    reach: Reach

    def client(
        self, target: str, *, has_fixed_capabilities: bool = False
    ) -> AbstractContextManager[CommandClient]:
        """Return a client of a server. See `command_client.client` for `has_fixed_capabilities`."""
        from mcpdesk.cli.command_client import client

        return client(
            target,
            self.reach,
            connect_s=self.timeout_s,
            has_fixed_capabilities=has_fixed_capabilities,
            is_alone=self.is_alone,
        )


def request_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `RequestOptions` to a command, which receives them as `options`."""

    @TIMEOUT
    @ALONE
    @reach_options
    @wraps(function)
    def with_options(*, timeout_s: float, alone: bool, reach: Reach, **values: Any) -> Any:
        return function(options=RequestOptions(timeout_s, alone, reach), **values)

    return with_options


@click.command(name="call", epilog=CALL_EXAMPLES, short_help="Call a tool.")
@TARGET
@click.argument("tool", required=False, shell_complete=completion.items("tools/list", "tools"))
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE | KEY:=JSON]...")
@click.option(
    "--input",
    "input_json",
    metavar="JSON",
    help="All arguments as one JSON object. With -, the object is read from stdin.",
)
@AS_JSON
@LIMIT
@request_options
def call_command(
    target: str,
    tool: str | None,
    arguments: tuple[str, ...],
    input_json: str | None,
    as_json: bool,
    limit: int | None,
    options: RequestOptions,
) -> int:
    """Call TOOL of the server TARGET, and print the result. Without TOOL, list the tools, each with an
    example.

    KEY=VALUE gives a text, a number, true or false; it is converted to the type in the tool's input schema.
    KEY:=JSON gives any JSON value. The same KEY several times gives a list. If the tool asks a question,
    answer it in the terminal. Without a terminal, questions are declined. The time limit does not include
    the time that you need for answers.

    If a desk or `mcpdesk serve` hosts the folder TARGET, that process runs the call. The desk then shows the
    call and the questions that the tool asks a person, the policies of the tools apply, and background
    programs continue after the call. Otherwise this command hosts the folder until the call ends. If
    `mcpdesk up` keeps the server connected, the call uses this connection, and TARGET may be its name. The
    same is true for `list`, `read`, `prompt`, `complete`, `send` and `watch`.
    """
    from mcpdesk.bridge.result_text import result_text
    from mcpdesk.cli.tool_examples import listing_command, print_tools, tool_hint
    from mcpdesk.protocol.reading.remark import Remark, RemarkKind

    if tool is None:
        if input_json is not None:
            raise click.UsageError("--input needs a TOOL.")
        with options.client(target) as server:
            faults = list[str]()
            tools = server.request_all("tools/list", "tools", options.timeout_s, faults)
        print_tools(tools, faults, target, as_json)
        return OK
    values, text_keys = parse_arguments(arguments, input_json)
    with options.client(target) as server:
        tools, definition = _tools_and_definition(server, tool, options.timeout_s, is_needed=bool(text_keys))
        values = converted_arguments(values, text_keys, definition.get("inputSchema") or {})
        try:
            result = server.request("tools/call", {"name": tool, "arguments": values}, options.timeout_s)
        except RemoteProtocolError as error:
            if definition or error.hint:
                raise
            hint = tool_hint(tool, tools, target, error.message)
            listing = listing_command(target)
            raise RemoteProtocolError(error.code, error.message, error.data, hint, listing) from None
        for fault in result_faults(result, definition, schema_failures):
            server.remark(Remark(RemarkKind.RESULT, fault))
        remarks = server.remarks()
    if as_json:
        print_json(cut_texts(with_remarks(result, remarks), limit))
    else:
        print_text(cut_text(result_text(result), limit))
    if not result.get("isError"):
        return OK
    text = result_text(result)
    if tools and not definition and tool in text and _UNKNOWN_TOOL.search(text):
        print_message(f"mcpdesk: The server has no tool {tool!r}.\n  {tool_hint(tool, tools, target, text)}")
        return PROTOCOL_ERROR
    if wants_older_revision(text):
        print_message(f"  {ASK_OLDER}")
    return TOOL_ERROR


def _tools_and_definition(
    server: CommandClient, tool: str, timeout_s: float, is_needed: bool
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the tools of the server, and the definition of one of them. The definition is empty if the tool
    is not listed.

    `is_needed` is True if arguments must be converted to the types of the definition. If the list is invalid
    or refused, a message then reports that the arguments are sent as text. Raises: DeskError if the
    definition is needed, and the server cannot be reached.
    """
    faults = list[str]()
    tools = list[dict[str, Any]]()
    try:
        tools = server.request_all("tools/list", "tools", timeout_s, faults)
    except DeskError as error:
        if is_needed and exit_code(error) != PROTOCOL_ERROR:
            raise
        faults.append(str(error))
    definition = next((each for each in tools if each.get("name") == tool), {})
    if faults and not definition:
        tools = []  # the tool may be in the part of the list that cannot be read
    if is_needed and faults and not definition:
        message = "warning: arguments written as KEY=VALUE are sent as text, because tools/list failed"
        print_message(f"{message}: {clean(faults[0], newlines=False)}")
    return tools, definition


def with_remarks(result: dict[str, Any], remarks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a result as `--json` prints it, with the faults of the server's messages."""
    return {**result, "remarks": remarks} if remarks else result


LISTS: dict[str, tuple[str, str, str]] = {
    "tools": ("tools", "tools/list", "name"),
    "resources": ("resources", "resources/list", "uri"),
    "resourceTemplates": ("resource templates", "resources/templates/list", "uriTemplate"),
    "prompts": ("prompts", "prompts/list", "name"),
}
"""Heading, method, and name field of the items, by key of the answer."""


@click.command(
    name="list", epilog=LIST_EXAMPLES, short_help="List tools, resources, prompts and skills, or servers."
)
@click.argument("target", required=False, shell_complete=completion.target)
@AS_JSON
@request_options
def list_command(target: str | None, as_json: bool, options: RequestOptions) -> None:
    """List the tools, resources, prompts and skills of the server TARGET. For a folder, also list unavailable
    items, with the reason.

    Without TARGET, list the servers in the configuration files of all known clients on this machine: in this
    folder, its parents and your home folder. Each has a name such as `cursor:github`, which every command
    accepts as TARGET. This starts no server.

    If a desk or `mcpdesk serve` hosts the folder, that process answers.
    """
    if target is None:
        from mcpdesk.cli.discovered_servers import print_discovered

        print_discovered(as_json)
        return

    faults: list[str] = []
    with options.client(target, has_fixed_capabilities=True) as server:
        items = dict[str, list[dict[str, Any]]]()
        failures = list[DeskUserError | RemoteProtocolError]()
        for key, (_, method, _) in LISTS.items():
            items[key] = []
            try:
                items[key] = server.request_all(method, key, options.timeout_s, faults)
            except (DeskUserError, RemoteProtocolError) as error:
                if isinstance(error, DeskUserError) and error.exit_code != PROTOCOL_ERROR:
                    raise
                failures.append(error)  # the other lists may be usable
        items["skills"] = server.skills(options.timeout_s, faults)
        unavailable, remarks = server.unavailable(), server.remarks()
    other_failures = failures[1:] if any(items.values()) else ()
    for fault in (*faults, *map(str, other_failures)):
        print_message(f"mcpdesk: malformed: {fault}")
    if failures and not any(items.values()):
        raise failures[0]
    if as_json:
        rows = [{"kind": each.kind, "name": each.name, "reason": each.problem} for each in unavailable]
        print_json(with_remarks(items | {"unavailable": rows}, remarks))
    else:
        _print_lists(items, unavailable)
    if failures:
        raise failures[0]


def _print_lists(items: Mapping[str, list[dict[str, Any]]], unavailable: Sequence[CatalogueItem]) -> None:
    sections = {
        heading: [(str(item.get(name)), summary(item)) for item in items[key]]
        for key, (heading, _, name) in LISTS.items()
    }
    sections["skills"] = [(each["uri"], summary(each["frontmatter"])) for each in items["skills"]]
    sections["unavailable"] = [(f"{each.kind} {each.name}", each.problem) for each in unavailable]
    texts = ["\n".join([heading, *aligned(rows, "  ")]) for heading, rows in sections.items() if rows]
    print_text("\n\n".join(texts) or "nothing")


@click.command(name="read", epilog=READ_EXAMPLES, short_help="Read a resource.")
@TARGET
@click.argument("uri")
@AS_JSON
@LIMIT
@request_options
def read_command(
    target: str,
    uri: str,
    as_json: bool,
    limit: int | None,
    options: RequestOptions,
) -> None:
    """Read the resource URI of the server TARGET, and print its contents.

    If stdout is a pipe or a file, the contents are written unchanged. On a terminal, control characters are
    made visible, and binary contents are only described.

    The server's list of skills has the size, digest and front matter of each file. If URI names a file of a
    skill, and its contents do not match that list, they are not printed, and the exit code is 4.
    """
    from mcpdesk.client.transport import excerpt
    from mcpdesk.protocol.reading.remark import Remark, RemarkKind

    with options.client(target) as server:
        for fault in server.verify_skill(uri, options.timeout_s):
            print_message(f"mcpdesk: malformed: {fault}")
        result = server.request("resources/read", {"uri": uri}, options.timeout_s)
        for fault in read_faults(result):
            server.remark(Remark(RemarkKind.RESULT, fault))
        remarks = server.remarks()
    if as_json:
        print_json(cut_texts(with_remarks(result, remarks), limit))
        return
    parts = result.get("contents", ())
    for contents in parts:
        if contents.get("text") is not None:
            print_text(cut_text(contents["text"], limit), exact=len(parts) == 1)
            continue
        blob = contents.get("blob") or ""
        data = lenient_base64(blob)
        if data is None:
            raise InvalidAnswer(f"the contents are not valid Base64. It sent: {excerpt(blob)}")
        print_bytes(data, contents.get("mimeType") or "")


@click.command(name="prompt", epilog=PROMPT_EXAMPLES, short_help="Get a prompt.")
@TARGET
@click.argument("name", shell_complete=completion.items("prompts/list", "prompts"))
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@AS_JSON
@LIMIT
@request_options
def prompt_command(
    target: str,
    name: str,
    arguments: tuple[str, ...],
    as_json: bool,
    limit: int | None,
    options: RequestOptions,
) -> None:
    """Get the prompt NAME of the server TARGET with the given arguments, and print its messages."""
    from mcpdesk.bridge.result_text import content_text
    from mcpdesk.protocol.reading.remark import Remark, RemarkKind

    values, text_keys = parse_arguments(arguments)
    for key in values.keys() - text_keys:
        raise DeskUserError(f"{key}: the arguments of a prompt must be text.", f"Write {key}=value.")
    _require_single_values(values)
    with options.client(target) as server:
        result = server.request("prompts/get", {"name": name, "arguments": values}, options.timeout_s)
        for fault in prompt_faults(result):
            server.remark(Remark(RemarkKind.RESULT, fault))
        remarks = server.remarks()
    if as_json:
        print_json(cut_texts(with_remarks(result, remarks), limit))
        return
    messages = result.get("messages", [])
    for message in messages:
        text = cut_text(content_text(message["content"]), limit)
        print_text(f"{message['role']}:\n{text}" if len(messages) > 1 else text)


@click.command(name="complete", epilog=COMPLETE_EXAMPLES, short_help="Complete an argument.")
@TARGET
@click.argument("name", metavar="PROMPT|TEMPLATE", shell_complete=completion.items("prompts/list", "prompts"))
@click.argument("arguments", nargs=-1, required=True, metavar="[KEY=VALUE]... KEY=BEGINNING")
@AS_JSON
@request_options
def complete_command(
    target: str,
    name: str,
    arguments: tuple[str, ...],
    as_json: bool,
    options: RequestOptions,
) -> None:
    """Print the values that the server suggests for an argument of a prompt or a resource template.

    The last argument on the command line is the one to complete. The server also receives the arguments
    before it, because suggestions can depend on them.
    """
    from mcpdesk.client.transport import value_excerpt

    context_arguments, _ = parse_arguments(arguments[:-1])
    _require_single_values(context_arguments)
    ((key, beginning),) = parse_arguments(arguments[-1:])[0].items()
    is_template = "{" in name or "://" in name
    params = {
        "ref": {"type": "ref/resource", "uri": name} if is_template else {"type": "ref/prompt", "name": name},
        "argument": {"name": key, "value": beginning},
    }
    with options.client(target) as server:
        context = {"context": {"arguments": context_arguments}} if context_arguments else {}
        result = server.request("completion/complete", params | context, options.timeout_s)
        remarks = server.remarks()
    if as_json:
        print_json(with_remarks(result, remarks))
        return
    completions = result.get("completion")
    if not isinstance(completions, dict) or not isinstance(completions.get("values"), list):
        fault = "completion/complete: the result has no list completion.values"
        raise with_hint(InvalidAnswer(fault, excerpt=value_excerpt(result)))
    values = (each if isinstance(each, str) else json.dumps(each) for each in completions["values"])
    lines = [clean(value, newlines=False) for value in values]
    print_text("\n".join([*lines, ""]), exact=True)
    if completions.get("hasMore"):
        total = completions.get("total")
        print_message(f"More exist, {total} in all." if total else "More exist.")


_ARGUMENT = re.compile(r"(?P<key>[^=]+?)(?P<is_json>:)?=(?P<value>.*)", re.DOTALL)
ARGUMENT_SYNTAX = "Write key=value for a text, key:=json for any other value."
OBJECT_EXAMPLE = 'For example {"name": "Ada"}.'
BOOLEAN_WORDS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
JSON_TYPES = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


def parse_arguments(words: Iterable[str], input_json: str | None = None) -> tuple[dict[str, Any], set[str]]:
    """Return the arguments as one object, and the names of the arguments that were written as `key=value`.

    `input_json` is a JSON object with initial arguments; `-` reads it from stdin. Raises: DeskUserError with
    the word that cannot be parsed.
    """
    arguments: Any = {}
    if input_json:
        text = sys.stdin.read() if input_json == "-" else input_json
        arguments = json_value(text, "--input", OBJECT_EXAMPLE)
        if not isinstance(arguments, dict):
            raise DeskUserError("--input: the arguments must be a JSON object.", OBJECT_EXAMPLE)
    text_keys: set[str] = set()
    for word in words:
        match = _ARGUMENT.fullmatch(word)
        if match is None:
            raise DeskUserError(f"{word!r} is not an argument.", ARGUMENT_SYNTAX)
        key, value = match["key"], match["value"]
        if not _is_unicode(word):
            raise DeskUserError(f"{clean(key)}: the argument is not UTF-8 text.", ARGUMENT_SYNTAX)
        if match["is_json"]:
            arguments[key] = json_value(value, key, ARGUMENT_SYNTAX)
            text_keys.discard(key)
        else:
            arguments[key] = _appended_text(arguments[key], value) if key in text_keys else value
            text_keys.add(key)
    return arguments, text_keys


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _require_single_values(arguments: Mapping[str, Any]) -> None:
    for key, value in arguments.items():
        if isinstance(value, list):
            raise DeskUserError(
                f"{key}: given {len(value)} times, but it takes one value.", f"Write {key}=value once."
            )


def _appended_text(earlier: Any, value: str) -> list[str]:
    """Return all texts of an argument that was given several times."""
    return [*(earlier if isinstance(earlier, list) else [earlier]), value]


def json_value(text: str, key: str, hint: str) -> Any:
    """Return the value of a JSON text. Raises: DeskUserError if it cannot be sent without a change.

    The error names `key`, the origin of the text, and has the hint.
    """
    try:
        value = json.loads(text, object_pairs_hook=_object_with_unique_keys)
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise DeskUserError(f"{key}: {clean(repr(text[:200]))} is not JSON: {error}.", hint) from None
    return value


def _object_with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object with these members. Raises: ValueError if a key is repeated."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key is given more than once in one object")
    return members


def converted_arguments(
    arguments: dict[str, Any], text_keys: Iterable[str], schema: Mapping[str, Any]
) -> dict[str, Any]:
    """Convert the arguments in `text_keys` to the types in the tool's input schema.

    A string that the schema allows is kept. A string that cannot be converted is sent unchanged, so that the
    server reports the error. Several strings for one argument are the items of a list. Raises: DeskUserError
    if the schema allows no list.
    """
    root = dict(schema)
    return arguments | {
        key: _converted_argument(key, arguments[key], _argument_shapes(root, key), root) for key in text_keys
    }


def _converted_argument(
    key: str, value: str | list[str], shapes: Sequence[dict[str, Any]], root: dict[str, Any]
) -> Any:
    if isinstance(value, str):
        return _converted(value, shapes)
    if shapes and not any("array" in (named_types(shape) or ("array",)) for shape in shapes):
        raise DeskUserError(
            f"{key}: given {len(value)} times, but the tool takes one value.", ARGUMENT_SYNTAX
        )
    items = [
        each for shape in shapes for each in shape_alternatives(resolve(shape.get("items"), root), root)
    ][:MAX_SHAPES]
    return [_converted(text, items) for text in value]


def schema_failures(schema: Any, value: Any) -> list[str]:
    """Validate a value; return errors with their positions. Empty if the schema cannot be compiled."""
    from mcpdesk.server.schemas.validation import SchemaError, compile_schema

    try:
        failures = compile_schema(schema).failures(value)
    except SchemaError:
        return []
    return [
        f"{'.'.join(map(str, each.path))}: {each.message}" if each.path else each.message for each in failures
    ]


def _argument_shapes(schema: dict[str, Any], key: str) -> list[dict[str, Any]]:
    shapes = (
        flat_shape
        for shape in property_shapes(schema, key, schema)
        for flat_shape in shape_alternatives(shape, schema)
    )
    return list(islice(shapes, MAX_SHAPES))


def _converted(text: str, shapes: Sequence[dict[str, Any]]) -> Any:
    """Convert a text to an allowed constant, or else to a value of an allowed type."""
    constants = [value for shape in shapes for value in _constants(shape)]
    if text in constants:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if any(is_same(value, each) for each in constants):
        return value
    types = {name for shape in shapes for name in named_types(shape)}
    types |= {"null" for shape in shapes if shape.get("nullable") is True}
    types |= {JSON_TYPES[type(each)] for each in constants if each is not None}
    if "string" in types:
        return text
    if any(is_of_type(value, name) for name in types):
        return value
    return BOOLEAN_WORDS.get(text.lower(), text) if "boolean" in types else text


def _constants(shape: Mapping[str, Any]) -> Sequence[Any]:
    if "const" in shape:
        return [shape["const"]]
    enum = shape.get("enum")
    return enum if isinstance(enum, list) else []


@click.command(name="watch", epilog=WATCH_EXAMPLES, short_help="Print notifications until ended.")
@TARGET
@click.option(
    "--resource",
    "uris",
    multiple=True,
    metavar="URI",
    help="Also report changes of this resource. You can repeat this option.",
)
@click.option("--json", "as_json", is_flag=True, help="Print each notification as one line of JSON.")
@ALONE
@reach_options
def watch_command(target: str, uris: tuple[str, ...], as_json: bool, alone: bool, reach: Reach) -> None:
    """Print the notifications of the server TARGET: changed lists and resources, log messages, tasks.

    When files of a folder change, the folder is read again, and the changes are printed. If a desk or
    `mcpdesk serve` hosts the folder, that process reports the changes.

    If a subscription ends, for example because the server restarts, it is renewed. stderr reports this.
    """
    from mcpdesk.cli.command_client import client

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with client(target, reach, watches=True, is_alone=alone) as server:
            for each in server.notifications(uris):
                print_line(notification_line(each, as_json), server.output_fd)
    except KeyboardInterrupt:
        return
    raise DeskUserError("The server ended the subscription.", CLOSED, CANNOT_CONNECT)


def notification_line(notification: Notification, as_json: bool) -> str:
    """Format a notification as one line."""
    if as_json:
        return json_escaped(json.dumps(notification._asdict()))
    time_text = time.strftime("%H:%M:%S", time.localtime(notification.time))
    name = notification.method.removeprefix("notifications/")
    return f"{time_text}  {name}  {_notification_text(notification)}".rstrip()


def _notification_text(notification: Notification) -> str:
    """Format the parameters of a notification as one line."""
    params = {key: value for key, value in notification.params.items() if key != "_meta"}
    if notification.method == "notifications/message":
        logger = params.get("logger")
        data = params.get("data")
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        return clean(f"{params.get('level')}  {f'{logger}: ' if logger else ''}{text}", newlines=False)
    values = (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for value in params.values()
    )
    return clean("  ".join(values), newlines=False)
