"""The tap in the configuration file of Codex, which is TOML: put in front of servers, and taken out again.

Only a command and arguments within `[mcp_servers.NAME]` are edited. An edit is used if the file that results
reads exactly as it should; an entry that is written in another form is left alone.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

from mcpdesk.client.config_edits import OURS, TAP, ConfigEdit, is_our_name

SECTION = "mcp_servers"
_LITERAL = r""""(?:[^"\\\r\n]|\\.)*"|'[^'\r\n]*'"""
_TABLE = re.compile(r"(?m)^[ \t]*\[(?P<key>[^\[\]\r\n]+)\][ \t]*(?:#[^\r\n]*)?\r?$")
_COMMAND = re.compile(rf"(?m)^[ \t]*command[ \t]*=[ \t]*(?P<value>{_LITERAL})")
_ARGS = re.compile(r"(?m)^[ \t]*args[ \t]*=[ \t]*\[")
_NEW_ARGS = "\nargs = "


def wrapped(text: str, command: Sequence[str], names: Collection[str] = ()) -> ConfigEdit:
    """Put the tap in front of every server that is a program, or of those named."""
    changed, left = list[str](), dict[str, str]()
    words = ", ".join(map(_quoted, (*command[1:], *TAP)))
    for name, server in _servers(text):
        if names and name not in names:
            continue
        if reason := _reason(server):
            left[name] = reason
            continue

        def put_in(body: str) -> str:
            found, args = _COMMAND.search(body), _ARGS.search(body)
            if found is None:
                return body
            own = found["value"]
            edits = [(found.start("value"), found.end("value"), _quoted(command[0]))]
            if args is None:
                edits.append((found.end("value"), found.end("value"), f"{_NEW_ARGS}[{words}, {own}]"))
            else:
                edits.append((args.end(), args.end(), f"{words}, {own}, "))
            return _applied(body, edits)

        wanted = {"command": command[0]}
        args = [*command[1:], *TAP, server["command"], *server.get("args", ())]
        edited = _edited(text, name, put_in, server | wanted | {"args": args})
        if edited is None:
            left[name] = "it is written in a form that is not edited; put the tap in front of it yourself"
        else:
            text = edited
            changed.append(name)
    return ConfigEdit(text, tuple(changed), left)


def unwrapped(text: str) -> ConfigEdit:
    """Take the tap out again, wherever it is."""
    changed: list[str] = []
    for name, server in _servers(text):
        ours = _tap_of(server)
        if not ours:
            continue
        take_out = partial(_without_tap, ours)
        args = server["args"][len(ours) + 1 :]
        restored = server | {"command": server["args"][len(ours)], "args": args}
        without = {key: value for key, value in restored.items() if key != "args" or args}
        edited = _edited(text, name, take_out, restored) or _edited(text, name, take_out, without)
        if edited is not None:
            text = edited
            changed.append(name)
    return ConfigEdit(text, tuple(changed), {})


def _without_tap(ours: Sequence[str], body: str) -> str:
    """The table of a server without the tap; unchanged if it is not written as `wrapped` writes it."""
    start = ", ".join(map(_quoted, ours))
    found, args = _COMMAND.search(body), _ARGS.search(body)
    place = re.compile(rf"{re.escape(start)}, (?P<own>{_LITERAL})(?P<more>, )?")
    inside = place.match(body, args.end()) if args else None
    if found is None or args is None or inside is None:
        return body
    new = f"{_NEW_ARGS}["
    is_new = body.startswith(new, found.end("value")) and args.end() == found.end("value") + len(new)
    first, last = inside.span()
    if is_new and not inside["more"] and body.startswith("]", last):
        first, last = found.end("value"), last + 1
    return _applied(body, [(found.start("value"), found.end("value"), inside["own"]), (first, last, "")])


def server_names(text: str) -> list[str]:
    """The names of all servers."""
    return [name for name, _ in _servers(text)]


def _servers(text: str) -> list[tuple[str, dict[str, Any]]]:
    section = tomllib.loads(text.removeprefix("\ufeff")).get(SECTION)
    found = section.items() if isinstance(section, dict) else ()
    return [(name, server) for name, server in found if isinstance(server, dict)]


def _reason(server: dict[str, Any]) -> str:
    """Why a server is left alone; empty when it is not."""
    if _tap_of(server):
        return "it is behind the tap already"
    if "command" not in server:
        return "it is reached by a URL, and no program is started"
    command, args = server["command"], server.get("args", [])
    if not isinstance(command, str) or not isinstance(args, list):
        return "its command and args are not a text and a list"
    if (is_our_name(command) or args[:2] == ["-m", "mcpdesk"]) and "stdio" in args:
        return "it is served by mcpdesk, whose desk shows it"
    return ""


def _tap_of(server: dict[str, Any]) -> tuple[str, ...]:
    """The arguments that start the tap; empty if there is no tap."""
    command, args = server.get("command"), server.get("args")
    if not isinstance(command, str) or not isinstance(args, list):
        return ()
    for ours in OURS:
        is_ours = len(ours) > len(TAP) or is_our_name(command)
        if is_ours and tuple(args[: len(ours)]) == ours and len(args) > len(ours):
            return ours
    return ()


def _edited(text: str, name: str, edit: Callable[[str], str], wanted: dict[str, Any]) -> str | None:
    """The text after an edit in the table of a server, or None if it does not read as wanted."""
    expected = copy.deepcopy(tomllib.loads(text.removeprefix("\ufeff")))
    expected[SECTION][name] = wanted
    for start, stop in _bodies(text, name):
        edited = text[:start] + edit(text[start:stop]) + text[stop:]
        try:
            if edited != text and tomllib.loads(edited.removeprefix("\ufeff")) == expected:
                return edited
        except tomllib.TOMLDecodeError:
            continue
    return None


def _bodies(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Start and end of what may be the table of a server."""
    tables = list(_TABLE.finditer(text))
    for number, table in enumerate(tables):
        try:
            read = tomllib.loads(f"[{table['key']}]")
        except tomllib.TOMLDecodeError:
            continue
        if read == {SECTION: {name: {}}}:
            yield table.end(), tables[number + 1].start() if number + 1 < len(tables) else len(text)


def _applied(text: str, edits: list[tuple[int, int, str]]) -> str:
    for start, stop, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[stop:]
    return text


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
