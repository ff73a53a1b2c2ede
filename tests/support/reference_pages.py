"""All files of `docs/` that are generated from the program's tables; run as a module, it writes them."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import msgspec

from mcpdesk.cli.main import EPILOG, GROUPS, program
from mcpdesk.settings import SETTINGS
from mcpdesk.tui.actions import ACTIONS, key_name
from tests.support import settings_page
from tests.support.manifest_schema import manifest_schema
from tests.support.manifest_schema import text as manifest_schema_text
from tests.support.metrics_page import METRICS, metric_rows

DOCS = Path(__file__).parents[2] / "docs"
MADE = "<!-- Made from {}: python -m tests.support.reference_pages -->"
KEYS = """\
# Keys

{made}

Press `?` on the desk to see the keys of the focused pane. In a text field, press `f1` instead. Press
`ctrl+p` to open the palette. It finds every action by its name or by another word for it, such as
`breakpoint` or `order by`. It also finds tools, resources, prompts, servers, themes, and settings with their
values.

For example, call the tool `greet` like this:

1. Press `j` until `greet` is highlighted, and press Enter.
2. Type a name in the form.
3. Press `ctrl+r`.

Press `space` to see all actions of the selected item.

In the tables, `^p` means ctrl+p, `⇧↑` shift+up, `⌥x` alt+x, `⏎` enter and `⌫` backspace. If a row has several
keys, you can press any of them. `g r` is a sequence: press `g`, and then `r`. If you pause after the first
key, the screen shows the possible second keys. `space`… means that the action has no key: choose it in the
menu that `space` opens, or in the palette.

## Your own keys

The file `keys.toml` in the configuration folder (`mcpdesk settings` prints its path) gives actions other
keys:

```toml
"traffic.filter" = "ctrl+f"
"app.show_help" = ["f1", "?"]
"jobs.kill" = []
"logs.level" = "v l"
```

Each line has the id of an action, and a key or a list of keys. A sequence of two keys must begin with `g`,
`v`, `[` or `]`. With an empty list, the action has no key. You can still choose it in the palette. `mcpdesk
keys` lists the ids and the keys of all actions. It also reports invalid lines, and keys that two actions
would have. The desk ignores invalid lines.
"""
COMMANDS_HEAD = """\
# Commands

{made}

A command line has this form: `mcpdesk COMMAND [OPTIONS] TARGET`. The TARGET is a server: a folder, a URL, a
file, or `--` and a program ([all forms](any-server.md#targets)). Without a COMMAND, `mcpdesk TARGET` opens
the desk on the target. `mcpdesk COMMAND --help` prints the help of a command.

```text
{examples}
```

{index}
All commands use the same [exit codes](any-server.md#in-the-shell), except where a section lists its own.

## Options for a target

Commands that use a target have these options:
{shared}"""
FLAGS = {f"--{setting.name.replace('_', '-')}" for setting in SETTINGS}
MANIFEST = """\
# mcp.json

{made}

The file `mcp.json` in a server folder describes the server and contains its settings. You can omit the file,
and you can omit each of its members. A typical file:

```json
{{
  "name": "tea",
  "version": "1.2.0",
  "instructions": "Sells tea, one kind at a time.",
  "builtins": ["ReadDocs"],
  "approvals": {{"ReadDocs": "ask"}},
  "settings": {{"page_size": 40}}
}}
```

Editors can complete and explain the members, because the file has a [JSON Schema](mcp.schema.json). Set
`"$schema"` to the address or path of the schema. `mcpdesk new` does this for you.
"""


def cell(text: str) -> str:
    """A text in a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def code(text: str) -> str:
    """Inline code in a table."""
    quotes = "``" if "`" in text else "`"
    return f"{quotes} {text} {quotes}" if "`" in text else quotes + text.replace("|", "\\|") + quotes


def table(head: str, *rows: tuple[str, ...]) -> str:
    """A table, or "" without rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    columns = head.count("|") + 1
    return "\n".join(["", f"| {head} |", "|" + " --- |" * columns, *lines, ""]) if rows else ""


def keys_page() -> str:
    """Every action by its group."""
    parts = [KEYS.format(made=MADE.format("mcpdesk/tui/actions.py"))]
    for group in dict.fromkeys(action.group for action in ACTIONS):
        rows = [
            (
                " ".join(code(key_name(key)) for key in action.keys.split(",") if key) or "`space`…",
                cell(action.title),
                cell(action.help),
            )
            for action in ACTIONS
            if action.group == group
        ]
        parts.append(f"\n## {group}\n{table('keys | action | details', *rows)}")
    return "".join(parts)


def commands_page() -> str:
    """Every command with its options; those that most commands with a target have are listed once."""
    root = click.Context(program, info_name="mcpdesk")
    commands = {name: program.get_command(root, name) for names in GROUPS.values() for name in names}
    rows = {name: option_rows(command, root, name) for name, command in commands.items() if command}
    shared = tuple(row for row in rows["list"] if row in rows["call"] and row in rows["serve"])
    index = table(
        "group | commands",
        *(
            (group, ", ".join(f"[{name}](#mcpdesk-{name})" for name in names))
            for group, names in GROUPS.items()
        ),
    )
    parts = [
        COMMANDS_HEAD.format(
            made=MADE.format("the commands' own help"),
            examples=verbatim(EPILOG),
            index=index.lstrip(),
            shared=table("option | does", *shared),
        )
    ]
    for name, command in commands.items():
        assert command is not None
        parts += command_part(name, command, root, rows[name], shared)
    return "".join(parts)


Row = tuple[str, ...]


def option_rows(command: click.Command, root: click.Context, name: str) -> list[Row]:
    """Options in the command's help that are not settings."""
    ctx = click.Context(command, parent=root, info_name=name)
    options = [each for each in command.params if isinstance(each, click.Option)]
    return [option_row(each, ctx) for each in options if not (each.hidden or FLAGS.intersection(each.opts))]


def command_part(
    name: str, command: click.Command, root: click.Context, rows: list[Row], shared: tuple[Row, ...]
) -> Iterator[str]:
    """The section of one command."""
    usage = " ".join(command.collect_usage_pieces(click.Context(command, parent=root, info_name=name)))
    options = [each for each in command.params if isinstance(each, click.Option)]
    has_shared = set(shared) <= set(rows)
    yield f"\n## mcpdesk {name}\n\n```text\nmcpdesk {name} {usage}\n```\n"
    yield from prose(command.help or "")
    yield table("option | does", *(row for row in rows if not (has_shared and row in shared)))
    also = [
        text
        for is_one, text in (
            (has_shared, "the [options for a target](#options-for-a-target)"),
            (any(FLAGS.intersection(each.opts) for each in options), "each of the [settings](settings.md)"),
            (any(each.hidden for each in options), "the options of [`mcpdesk login`](#mcpdesk-login)"),
        )
        if is_one
    ]
    if also:
        yield f"\nFurther options: {', '.join(also)}.\n"
    if command.epilog:
        yield f"\n```text\n{verbatim(command.epilog)}\n```\n"


def option_row(option: click.Option, ctx: click.Context) -> Row:
    """An option and what it does. Choices are listed in the text, because there may be many."""
    record = option.get_help_record(ctx)
    assert record is not None
    written, description = record
    if isinstance(option.type, click.Choice):
        choices = [str(each) for each in option.type.choices]
        written = written.replace(f"[{'|'.join(choices)}]", (option.name or "").upper())
        description = f"{description} One of {', '.join(choices)}."
    return code(written), cell(description)


def prose(text: str) -> Iterator[str]:
    """Paragraphs of a help text; parts with fixed lines become blocks."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b"):
            yield f"\n```text\n{verbatim(paragraph)}\n```\n"
        else:
            yield f"\n{paragraph.replace('<', '&lt;').replace('*', chr(92) + '*')}\n"


def verbatim(text: str) -> str:
    """Text without click's marks against wrapping."""
    return textwrap.dedent(text.replace("\b\n", "").replace("\b", "")).strip()


def manifest_page() -> str:
    """Every member of `mcp.json`."""
    schema = manifest_schema()
    parts = [MANIFEST.format(made=MADE.format("mcpdesk/hosting/folder/manifest.py"))]
    for title, name in OBJECTS.items():
        parts.append(members(title, schema["$defs"][name] if name else schema, schema["$defs"]))
    parts.append("\n`settings` may contain every [setting](settings.md) that is marked with **F**.\n")
    return "".join(parts)


OBJECTS = {
    "members": "",
    "auth": "Auth",
    "publish": "Publish",
    "jwt": "Jwt",
    "needs": "Needs",
    "mode": "Mode",
    "command": "Command",
}
"""Heading -> object of the schema that it describes."""


def members(title: str, schema: dict[str, Any], others: dict[str, Any]) -> str:
    """Table of one object's members."""
    required = schema.get("required", ())
    rows = [
        (
            code(key) + (" (required)" if key in required else ""),
            kind(each, others),
            cell(each.get("description", "")),
        )
        for key, each in schema["properties"].items()
    ]
    return f"\n## {title}\n{table('member | type | meaning', *rows)}"


def kind(schema: dict[str, Any], others: dict[str, Any]) -> str:
    """Type of a value, in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        title = next((title for title, object_ in OBJECTS.items() if object_ == name), "")
        return f"[{title}](#{title})" if title else kind(others[name], others)
    if "anyOf" in schema:
        return " or ".join(kind(each, others) for each in schema["anyOf"] if each.get("type") != "null")
    if "enum" in schema:
        return f"one of {', '.join(code(str(each)) for each in schema['enum'])}"
    if schema.get("type") == "array":
        items = schema.get("items", {})
        inner = kind(items, others)
        plural = {"text": "texts", "object": "objects"}.get(inner, inner)
        return f"a list, each value is {inner}" if "enum" in items else f"a list of {plural}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object; each value is {kind(schema['additionalProperties'], others)}"
    names = {"string": "text", "integer": "number", "number": "number", "boolean": "true or false"}
    return names.get(str(schema.get("type")), "object")


CLIENTS = """\
# What known clients do

{made}

AI clients do not all accept the same tools, schemas and features. This page lists limits that users and
vendors have reported, each with its source. `mcpdesk check` compares a server with the list:

```sh
mcpdesk new hello
mcpdesk check hello --clients
```

With `--client cursor`, the command checks only the limits of Cursor.

The desk compares the results of tools with the limits for results. A line above a result on the workbench,
and in the details of its call on the traffic screen, names each client that cuts or refuses a result of this
size, or saves it to a file. If the traffic shows that one of these clients called the tool, the line names
only this client. If the tool declares a higher limit in `_meta`, the higher limit applies.

Clients change. Before you rename a tool, read the source of the limit. The last column has a link to the
source, with the date of the report and often with the version of the client. Clients can have other limits
that are not listed here.
"""
ABOUT = {
    "called": "a tool whose name in the client (`{form}`) has more than {most:,} characters",
    "tool_name": "a tool whose name does not match `{pattern}`",
    "description": "a tool's description of more than {most:,} characters",
    "instructions": "instructions of more than {most:,} characters",
    "tool_count": "more than {most} tools",
    "result_size": "results of more than {most:,} characters, from a tool without `{hint}` in `_meta`",
    "root_keyword": "an input schema with {words} at the top level",
    "parameter_name": "a parameter whose name does not match `{pattern}`",
    "array_items": "an array without `items` in an input schema",
    "reference": "`$ref` in an input schema",
    "open_object": "`additionalProperties` with a schema as its value",
    "output_type": 'an output schema without `"type": "object"`',
    "structured_output": "a tool with an output schema",
    "unsaid_hint": "a tool without `{hint}`",
    "lacks": "{features}",
}
"""Text for each check of a claim."""


def listed(words: Sequence[str]) -> str:
    """Words in a sentence: `a, b or c`."""
    *most, last = words or ("",)
    return f"{', '.join(most)} or {last}" if most else last


def clients_page() -> str:
    """Every claim about a client."""
    from mcpdesk.features.contract.known_clients import claims

    parts = [CLIENTS.format(made=MADE.format("mcpdesk/features/contract/known_clients.json"))]
    for client in dict.fromkeys(claim.client for claim in claims()):
        rows = []
        for claim in claims():
            if claim.client != client:
                continue
            rule = {key: getattr(claim.rule, key) for key in claim.rule.__struct_fields__}
            words = [code(word) for word in rule["words"]]
            rule |= {"words": listed(words), "features": listed(rule["features"])}
            about = ABOUT[claim.check].format(**rule)
            about = about.replace("whose name in the client (`{tool}`) has", "with a name of")
            is_plural = rule["features"].endswith("s") or len(claim.rule.features) > 1
            effect = claim.effect.replace("{feature}", "them" if is_plural else "it")
            version = f" ({claim.version})" if claim.version else ""
            rows.append((about.replace("|", "\\|"), cell(effect), f"[{claim.date}]({claim.source}){version}"))
        parts.append(f"\n## {client}\n{table('if the server has or uses | the client | source', *rows)}")
    return "".join(parts)


FILES = """\
# Where clients keep their servers

{made}

`mcpdesk list` reads these files and lists the servers in them, without starting any. Each server has a name
of the form `CLIENT:SERVER`, which all commands accept as a target
([how](any-server.md#servers-of-your-clients)). For example, this entry in `~/.cursor/mcp.json` is the server
`cursor:github`:

```json
{{"mcpServers": {{"github": {{"command": "npx", "args": ["-y", "@modelcontextprotocol/server-github"]}}}}}}
```

Files of a *project* are looked for in the current folder and in all its parents. Variables in the paths:

| variable | value |
| --- | --- |
| `{{home}}` | your home folder |
| `{{project}}` | the current folder, or one of its parents |
| `{{config}}` | `XDG_CONFIG_HOME`, otherwise `~/.config` |
| `{{library}}` | `~/Library/Application Support` |
| `{{roaming}}` | `APPDATA`, otherwise `~/AppData/Roaming` |
| `{{programs}}`, `{{programdata}}` | `ProgramFiles` and `ProgramData` |
| `{{claude}}` | `CLAUDE_CONFIG_DIR`, otherwise your home folder |
| `{{codex}}` | `CODEX_HOME`, otherwise `~/.codex` |
| `{{copilot}}` | `COPILOT_HOME`, otherwise `~/.copilot` |

A path that ends with `*` means all YAML and JSON files in that folder. The column `source` has a link to
the page that describes the path, and the date on which it was checked.
"""


def files_page() -> str:
    """Configuration files of all clients."""
    from mcpdesk.client.configs.client_places import CLIENTS as NAMES
    from mcpdesk.client.configs.client_places import client_files

    parts = [FILES.format(made=MADE.format("mcpdesk/client/configs/client_files.json"))]
    for client in sorted(NAMES):
        rows = [
            (
                code(row.path),
                row.scope,
                ", ".join(row.platforms) or "all",
                cell(row.note),
                f"[{row.date}]({row.source})",
            )
            for row in client_files()
            if row.client == client
        ]
        parts.append(f"\n## {client}\n{table('file | scope | system | note | source', *rows)}")
    return "".join(parts)


def metrics_page() -> str:
    """Every metric by its name."""
    rows = [(code(row.name), row.kind, cell(row.help)) for row in metric_rows()]
    made = MADE.format("the metrics in the code").replace("`", "")
    return METRICS.format(made=made) + table("metric | type | meaning", *rows)


def doctor_schema() -> str:
    """JSON Schema of the report of `mcpdesk doctor`."""
    from mcpdesk.features.doctor import report

    return report_schema(report, report.Report, "Report of mcpdesk doctor")


def login_schema() -> str:
    """JSON Schema of the report of `mcpdesk doctor --login`."""
    from mcpdesk.features.doctor import login_report

    return report_schema(login_report, login_report.LoginReport, "Report of mcpdesk doctor --login")


def ps_schema() -> str:
    """JSON Schema of the list of `mcpdesk ps`."""
    from mcpdesk.features.open_connections import report

    return report_schema(report, report.ConnectionList, "List of mcpdesk ps")


def report_schema(module: ModuleType, report: type[msgspec.Struct], title: str) -> str:
    """JSON Schema of a report, with the docstrings of the members."""
    schema = msgspec.json.schema(report)
    tree = ast.parse(inspect.getsource(module))
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in schema["$defs"]:
            members = schema["$defs"][node.name].get("properties", {})
            for member, text in pairwise(node.body):
                match member, text:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(description))),
                    ) if name in members:
                        members[name]["description"] = " ".join(description.split())
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    return json.dumps(head | schema, indent=2, ensure_ascii=False) + "\n"


def bench_schema() -> str:
    """JSON Schema of the reports of `mcpdesk oauth-bench` and `mcpdesk era-bench`."""
    from mcpdesk.features.client_bench import bench_report

    title = "Report of mcpdesk oauth-bench and era-bench"
    return report_schema(bench_report, bench_report.BenchReport, title)


LLMS = """\
# mcpdesk

> mcpdesk is a terminal app and a command line for people and agents that write or run MCP (Model Context
> Protocol) servers. It calls tools, records and changes traffic, answers questions of tools, serves folders
> of Python functions, and checks and tests servers.

An agent with a shell begins with `mcpdesk skill`, which prints instructions, and `mcpdesk doctor --json`.
"""


def llms_text() -> str:
    """An index of the documentation for language models, in the order of the navigation.

    Source of the format: llmstxt.org.
    """
    parts = [LLMS]
    # Read as text, because the file has tags that only mkdocs knows.
    lines = (DOCS.parent / ".mkdocs.yml").read_text().partition("\nnav:\n")[2].splitlines()
    for line in lines:
        if page := re.fullmatch(r"      - (?P<title>.+): (?P<file>[\w-]+\.md)", line):
            parts.append(f"- [{page['title']}]({page['file']})\n")
        elif group := re.fullmatch(r"  - (?P<title>.+):", line):
            parts.append(f"\n## {group['title']}\n\n")
    return "".join(parts)


PAGES = {
    "client-bench.schema.json": bench_schema,
    "doctor.schema.json": doctor_schema,
    "doctor-login.schema.json": login_schema,
    "ps.schema.json": ps_schema,
    "metrics.md": metrics_page,
    "known-clients.md": clients_page,
    "client-files.md": files_page,
    "keys.md": keys_page,
    "commands.md": commands_page,
    "mcp-json.md": manifest_page,
    "settings.md": settings_page.page,
    "mcp.schema.json": manifest_schema_text,
    "llms.txt": llms_text,
}
"""File in `docs/` -> function that returns its text."""

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())
