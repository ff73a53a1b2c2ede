"""Configuration file formats of known clients.

`FORMATS` is the table of formats. A format defines where a file contains servers, and which keys an entry
has. The function `read` of a format converts an entry to the keys of Claude and VS Code. The module `entries`
validates the converted entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from mcpdesk.client.configs.entry_values import InvalidEntry, OnlyInClient, pairs_at, text_at, texts_at

Keys = dict[str, Any]
SectionPath = tuple[str, ...]
"""Keys from the root of a file to an object of servers. `*` matches any key."""


class RepeatableObject(dict[str, Any]):
    """JSON object in which keys may be repeated. It has the last value of each key."""

    repeated: tuple[str, ...] = ()
    """Names of the keys that are repeated."""


class ConfigFormat(Struct, frozen=True):
    """Storage format for the servers of one kind of client."""

    clients: str
    paths: tuple[SectionPath, ...]
    read: Callable[[Keys], Keys]
    """Converts an entry to the keys of Claude. Raises: InvalidEntry."""
    file_names: str
    """Names of the clients' files."""
    language: str = "JSON"
    """Usual language of the file. JSON may have comments."""
    is_list: bool = False
    """True if the servers are a list of objects with the key `name`."""
    marker_keys: frozenset[str] = frozenset()
    """An entry of this format must have at least one of these keys. Empty to accept any entry.

    Needed if other programs use the same `paths` for something else.
    """


class Section(Struct, frozen=True):
    """Part of a file that contains servers: an object with the servers by name, or a list."""

    format: ConfigFormat
    entries: tuple[tuple[str, Any], ...]
    repeated: tuple[str, ...] = ()
    """Names of servers that are in the section more than once."""
    keys: tuple[str, ...] = ()
    """Keys from the root of the file to this section."""

    @property
    def project(self) -> str:
        """Folder of the project that the section belongs to, or an empty string."""
        return self.keys[1] if len(self.keys) > 2 else ""


def sections(document: Any) -> list[Section]:
    """Return the sections in the content of a file, or an empty list if the file has no known format.

    Formats with the keys of Claude are always read. Any other format is read only if the formats before it in
    `FORMATS` found no servers. Sections of a project come last.
    """
    matches: list[Section] = []
    for config_format in FORMATS:
        has_claude_keys = config_format.read in (_plain, _vscode)
        if has_claude_keys or not any(section.entries for section in matches):
            matches += _sections(config_format, document)
    return sorted(matches, key=lambda section: bool(section.project))


def is_section(config_format: ConfigFormat, value: Any) -> bool:
    """Return True if a value contains servers in this format. A single server is not such a value."""
    if config_format.is_list != isinstance(value, list) or not isinstance(value, dict | list):
        return False
    entries = value if isinstance(value, list) else list(value.values())
    objects = [each for each in entries if isinstance(each, dict)]
    if config_format.is_list and not objects:
        return False
    if isinstance(value, dict) and any(isinstance(value.get(key), str | list) for key in _SERVER_KEYS):
        return False
    marker_keys = config_format.marker_keys
    return not marker_keys or any(marker_keys & set(each) for each in objects)


def known_formats() -> str:
    """List the formats in a sentence: `Zed: context_servers`."""
    return "; ".join(f"{each.clients}: {'.'.join(each.paths[0])}" for each in FORMATS)


def _sections(config_format: ConfigFormat, document: Any) -> Iterator[Section]:
    for path in config_format.paths:
        for keys, value in _values_at(document, path):
            if is_section(config_format, value):
                repeated = value.repeated if isinstance(value, RepeatableObject) else ()
                yield Section(config_format, tuple(_named_entries(value)), repeated, keys)


def _values_at(document: Any, path: SectionPath) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the values at a path with their keys from the root."""
    values: list[tuple[tuple[str, ...], Any]] = [((), document)]
    for key in path:
        values = [
            ((*keys, name), value)
            for keys, parent in values
            if isinstance(parent, dict)
            for name, value in (parent.items() if key == "*" else [(key, parent.get(key))])
        ]
    yield from values


def _named_entries(section: Any) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a section by name. An entry of a list without a name is called `server-NUMBER`."""
    if isinstance(section, dict):
        yield from ((str(name), each) for name, each in section.items())
        return
    for number, entry in enumerate(section, 1):
        name = entry.get("name") if isinstance(entry, dict) else None
        yield name if isinstance(name, str) and name else f"server-{number}", entry


def _plain(keys: Keys) -> Keys:
    """Return an entry that already has the keys of Claude."""
    return keys


def _vscode(keys: Keys) -> Keys:
    """Read an entry of VS Code or OpenCode 2, whose path is the same. Only OpenCode has these two types."""
    return _opencode(keys) if keys.get("type") in ("local", "remote") else keys


def _codex(keys: Keys) -> Keys:
    """Read an entry of Codex, whose headers may name variables of the environment."""
    headers = pairs_at(keys, "http_headers")
    headers |= {name: f"${{{variable}}}" for name, variable in pairs_at(keys, "env_http_headers").items()}
    if token := text_at(keys, "bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    codex_keys = {"http_headers", "env_http_headers", "bearer_token_env_var", "env_vars"}
    entry = {key: value for key, value in keys.items() if key not in codex_keys}
    return entry | ({"headers": headers} if headers else {})


def _zed(keys: Keys) -> Keys:
    """Read an entry of Zed, whose command may be an object. Entries of extensions have no command."""
    command = keys.get("command")
    if isinstance(command, dict):
        command_keys = {key: command[key] for key in ("args", "env") if key in command}
        return {**keys, "command": command.get("path"), **command_keys}
    if keys.get("source") == "extension" or ("settings" in keys and "url" not in keys and command is None):
        raise OnlyInClient("it comes from an extension of Zed; only Zed knows its command")
    return keys


def _opencode(keys: Keys) -> Keys:
    """Read an entry of OpenCode, whose command is a list with the arguments."""
    entry = _with_variables(keys, _OPENCODE_VARIABLE, r"${env:\1}")
    if _mentions(keys, "{file:"):
        raise InvalidEntry("{file:...} is not supported; write the value, or use {env:NAME}")
    command = entry.get("command")
    if command is not None:
        if isinstance(command, str):
            raise InvalidEntry("command must be a list")
        words = texts_at(entry, "command")
        if not words:
            raise InvalidEntry("its command is empty")
        entry = {**entry, "command": words[0], "args": words[1:]}
    if "environment" in entry:
        entry = {**entry, "env": pairs_at(entry, "environment")}
    return {key: value for key, value in entry.items() if key != "environment"}


def _goose(keys: Keys) -> Keys:
    """Read an entry of Goose. `env_keys` lists variables of the environment."""
    kind = keys.get("type")
    if isinstance(kind, str) and kind in _GOOSE_KINDS:
        raise OnlyInClient(f"type is {kind!r}: it is built into Goose and cannot be reached")
    names = {"cmd": "command", "envs": "env"}
    entry = {names.get(key, key): value for key, value in keys.items() if key != "env_keys"}
    if variable_names := texts_at(keys, "env_keys"):
        entry["env"] = {name: f"${{{name}}}" for name in variable_names} | pairs_at(entry, "env")
    return entry


def _continue(keys: Keys) -> Keys:
    """Read an entry of Continue, with its headers in `requestOptions` and its key in `apiKey`."""
    if "uses" in keys:
        raise InvalidEntry("it uses a block of Continue's hub, which this file does not contain")
    entry = _with_variables(keys, _CONTINUE_VARIABLE, r"${\1}")
    options = entry.pop("requestOptions", None)
    if isinstance(options, dict):
        entry["headers"] = pairs_at(options, "headers")
    if key := text_at(entry, "apiKey"):
        entry["headers"] = {"Authorization": f"Bearer {key}"} | pairs_at(entry, "headers")
    return {name: value for name, value in entry.items() if name != "apiKey"}


_SERVER_KEYS = ("command", "url", "type")
_GOOSE_KINDS = frozenset({"builtin", "platform", "frontend", "inline_python"})
_OPENCODE_VARIABLE = re.compile(r"\{env:([^{}]*)\}")
_CONTINUE_VARIABLE = re.compile(r"\$\{\{\s*(?:secrets|inputs)\.([^{}\s]*)\s*\}\}")


def _with_variables(value: Any, variable: re.Pattern[str], replacement: str) -> Any:
    """Return a value with a client's variables rewritten in our syntax."""
    if isinstance(value, str):
        return variable.sub(replacement, value)
    if isinstance(value, list):
        return [_with_variables(each, variable, replacement) for each in value]
    if isinstance(value, dict):
        return {name: _with_variables(each, variable, replacement) for name, each in value.items()}
    return value


def _mentions(value: Any, text: str) -> bool:
    if isinstance(value, dict):
        return any(_mentions(each, text) for each in value.values())
    if isinstance(value, list):
        return any(_mentions(each, text) for each in value)
    return isinstance(value, str) and text in value


FORMATS = (
    ConfigFormat(
        "Claude, Cursor, Gemini CLI, Windsurf, Cline",
        (("mcpServers",), ("projects", "*", "mcpServers")),
        _plain,
        "claude_desktop_config.json, .mcp.json, ~/.claude.json, .cursor/mcp.json, .gemini/settings.json",
    ),
    ConfigFormat(
        "VS Code",
        (("servers",), ("mcp", "servers"), ("mcp", "mcpServers")),
        _vscode,
        ".vscode/mcp.json, settings.json",
    ),
    ConfigFormat("Codex", (("mcp_servers",),), _codex, "~/.codex/config.toml", "TOML"),
    ConfigFormat("Zed", (("context_servers",),), _zed, "~/.config/zed/settings.json"),
    ConfigFormat("OpenCode", (("mcp",),), _opencode, "opencode.json"),
    ConfigFormat("Continue", (("mcpServers",),), _continue, "~/.continue/config.yaml", "YAML", is_list=True),
    ConfigFormat(
        "Goose",
        (("extensions",),),
        _goose,
        "~/.config/goose/config.yaml",
        "YAML",
        marker_keys=frozenset({"type", "cmd", "uri"}),
    ),
)
"""Supported formats, in the order of reading by `sections`. A file may be JSON, TOML or YAML."""
