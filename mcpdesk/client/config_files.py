"""The configuration files of MCP clients: Claude Desktop and Code, Cursor, VS Code. Comments are allowed.

Every one of them is JSON with an object of servers, by name, each a command or a URL.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from mcpdesk.errors import DeskUserError

KEYS = frozenset(
    {
        "command",
        "args",
        "env",
        "cwd",
        "type",
        "transport",
        "url",
        "serverUrl",
        "headers",
        "envFile",
        "account",
    }
)
"""Keys of a server that mean something here."""
IGNORED = frozenset(
    {"disabled", "autoApprove", "alwaysAllow", "gallery", "version", "dev", "description", "timeout", "tools"}
)
"""Keys that tell their client how to treat the server; they mean nothing here."""
KINDS = {
    "stdio": "",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "sse": "sse",
    "ws": "ws",
    "websocket": "ws",
}
SECTIONS = ("mcpServers", "servers", "mcp_servers")
LARGEST = 4 << 20
"""Bytes of a file that is read."""
_VARIABLE = re.compile(r"\$\{(?P<name>[^{}]*)\}")
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)


class InputVariable(Struct, frozen=True):
    """A value that VS Code asks a person for: `${input:name}`."""

    name: str
    description: str = ""
    is_secret: bool = False
    default: str = ""
    options: tuple[str, ...] = ()


class ConfiguredServer(Struct, frozen=True):
    """One server of a file: a command, or a URL."""

    name: str
    argv: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    """What is added to the environment."""
    folder: str = ""
    url: str = ""
    headers: Mapping[str, str] = {}
    kind: str = ""
    """`http`, `sse` or `ws` where the file says so; empty: it is found out."""
    account: str = ""
    """Whose login is used, where a person has several for one URL."""
    problem: str = ""
    """Why it cannot be used; empty when it can."""
    remarks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"ConfiguredServer({self.name!r})"  # environment and headers hold secrets


class ConfigFile(Struct, frozen=True):
    """What a file says."""

    path: Path
    servers: tuple[ConfiguredServer, ...]
    inputs: Mapping[str, InputVariable]
    sha256: str
    """SHA-256 of the content."""

    @property
    def is_of_project(self) -> bool:
        """Whether it belongs to a project, in whose folder its servers run: not to a client as a whole."""
        return self.path.name in (".mcp.json", "mcp.json")

    @property
    def workspace(self) -> Path:
        """The folder of the project it belongs to."""
        folder = self.path.resolve().parent
        return folder.parent if folder.name in (".vscode", ".cursor") else folder

    def server(self, name: str) -> ConfiguredServer:
        """The server of that name. Raises: DeskUserError naming those there are."""
        for each in self.servers:
            if each.name == name:
                return each
        known = ", ".join(each.name for each in self.servers)
        raise DeskUserError(f"{self.path}: there is no server {name[:80]!r}.", f"Its servers: {known}.")


def is_config_file(text: str) -> bool:
    """Whether a text names a file that can only be such a configuration."""
    path = Path(text).expanduser()
    return path.suffix in (".json", ".jsonc") and path.is_file()


def read_config(path: Path) -> ConfigFile:
    """Read a file. Raises: DeskUserError naming file, line and what is wrong."""
    text = read_text(path)
    found = parsed(path, text)
    section = _section(found)
    if section is None and path.name == "mcp.json" and isinstance(found, dict) and "name" in found:
        raise DeskUserError(f"{path} describes a server folder.", f"Name the folder: {path.parent}.")
    if section is None:
        hint = 'Write {"mcpServers": {"name": {"command": ...}}}, or "servers" as VS Code does.'
        raise DeskUserError(f"{path}: there are no servers in it.", hint)
    servers = tuple(_server(name, each) for name, each in section.items())
    return ConfigFile(path, servers, _inputs(found), sha256_of(text))


def sha256_of(text: str) -> str:
    """SHA-256 of the bytes of a file with this text."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_text(path: Path) -> str:
    """The text of a file, as it is. Raises: DeskUserError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DeskUserError(f"{path}: {error.strerror}.", "Is it the right file?") from None
    if len(data) > LARGEST:
        raise DeskUserError(f"{path}: a configuration has at most {LARGEST} bytes.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise DeskUserError(f"{path}: this is no text in UTF-8.") from None


def parsed(path: Path, text: str) -> Any:
    """What the text of a file says. Raises: DeskUserError naming the line and what is wrong."""
    try:
        return json.loads(without_comments(text))
    except RecursionError:
        raise DeskUserError(f"{path}: it is nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise DeskUserError(
            f"{path}:{error.lineno}:{error.colno}: {error.msg}.", "It has to be JSON."
        ) from None


def without_comments(text: str) -> str:
    """JSON with comments and trailing commas as JSON: they become blanks, so that places stay.

    So does the mark some editors put at the beginning of a file.
    """

    def blanked(found: re.Match[str]) -> str:
        whole = found[0]
        return whole if whole[0] == '"' else re.sub(r"[^\n]", " ", whole)

    # Twice: a comma may be the last one but for a comment.
    return _COMMENT.sub(blanked, _COMMENT.sub(blanked, re.sub("^\ufeff", " ", text)))


def expanded(
    server: ConfiguredServer,
    environ: Mapping[str, str],
    inputs: Mapping[str, InputVariable],
    ask: Callable[[InputVariable], str],
    folder: Path,
) -> ConfiguredServer:
    """The server with `${...}` replaced; `ask` gives the value of an input, `folder` is the workspace.

    A value is put in as it is: what looks like a variable in it is none.
    Raises: DeskUserError naming a variable that is not set, or not known.
    """

    def value(found: re.Match[str]) -> str:
        name, has_default, default = found["name"].partition(":-")
        match name.partition(":"):
            case ("input", ":", key):
                if key not in inputs:
                    raise _unknown(server, found[0], f"inputs has {', '.join(inputs) or 'nothing'}")
                return ask(inputs[key])
            case ("env", ":", variable) | (variable, "", ""):
                named = {"workspaceFolder": str(folder), "userHome": str(Path.home()), "pathSeparator": "/"}
                known = environ.get(variable, named.get(variable))
                if known is None and not has_default:
                    raise _unknown(server, found[0], "the environment variable is not set")
                return default if known is None else known
        raise _unknown(server, found[0], "known are ${NAME}, ${NAME:-default}, ${env:NAME} and ${input:name}")

    def replaced(text: str) -> str:
        return _VARIABLE.sub(value, text)

    return ConfiguredServer(
        server.name,
        tuple(map(replaced, server.argv)),
        {name: replaced(text) for name, text in server.environment.items()},
        replaced(server.folder),
        replaced(server.url),
        {name: replaced(text) for name, text in server.headers.items()},
        server.kind,
        replaced(server.account),
        server.problem,
        server.remarks,
    )


def variables(server: ConfiguredServer) -> tuple[str, ...]:
    """Names of the variables that `expanded` would replace, sorted; those of inputs as `input:NAME`."""
    texts = [*server.argv, server.folder, server.url, server.account]
    texts += [*server.environment.values(), *server.headers.values()]
    named = (found["name"].partition(":-")[0] for text in texts for found in _VARIABLE.finditer(text))
    return tuple(sorted({name.removeprefix("env:") for name in named}))


def _unknown(server: ConfiguredServer, variable: str, reason: str) -> DeskUserError:
    return DeskUserError(f"{server.name}: {variable[:80]} has no value: {reason}.")


def _section(found: Any) -> dict[str, Any] | None:
    """The servers of a file, wherever its client keeps them."""
    if not isinstance(found, dict):
        return None
    nested = found.get("mcp")
    for place in (found, nested if isinstance(nested, dict) else {}):
        for key in SECTIONS:
            if isinstance(place.get(key), dict):
                section: dict[str, Any] = place[key]
                return section
    return None


def _server(name: str, given: Any) -> ConfiguredServer:
    problem = _problem(given)
    if problem:
        return ConfiguredServer(name, problem=problem)
    unknown = sorted(set(given) - KEYS - IGNORED)
    kind = KINDS[given.get("type", given.get("transport", "stdio"))]
    return ConfiguredServer(
        name,
        (given["command"], *map(str, given.get("args") or ())) if "command" in given else (),
        {key: str(value) for key, value in (given.get("env") or {}).items() if value is not None},
        given.get("cwd") or "",
        given.get("url") or given.get("serverUrl") or "",
        {key: str(value) for key, value in (given.get("headers") or {}).items()},
        kind,
        given.get("account") or "",
        remarks=tuple(f"{key[:80]!r} means nothing here" for key in unknown),
    )


def _problem(given: Any) -> str:
    """Why an entry cannot be used; empty when it can."""
    if not isinstance(given, dict):
        return "it has to be an object with a command or a url"
    place = given.get("url", given.get("serverUrl"))
    kind = given.get("type", given.get("transport", "stdio"))
    if kind not in KINDS:
        return f"type is {str(kind)[:80]!r}; known are {', '.join(KINDS)}"
    if ("command" in given) == (place is not None):
        return "it needs either a command or a url"
    shapes = {
        "command": str,
        "url": str,
        "account": str,
        "args": list,
        "env": dict,
        "headers": dict,
        "cwd": str,
    }
    for key, shape in shapes.items():
        if given.get(key) is not None and not isinstance(given[key], shape):
            return f"{key} has to be {_NAMES[shape]}"
    if "command" in given and not given["command"].strip():
        return "its command is empty"
    return ""


_NAMES = {str: "a text", list: "a list", dict: "an object"}


def _inputs(found: dict[str, Any]) -> dict[str, InputVariable]:
    nested = found.get("mcp")
    given = found.get("inputs", nested.get("inputs") if isinstance(nested, dict) else None)
    inputs = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    return {
        str(each.get("id")): InputVariable(
            str(each.get("id")),
            str(each.get("description", "")),
            each.get("password") is True,
            str(each.get("default", "")),
            tuple(map(str, each.get("options", ()))),
        )
        for each in inputs
    }
