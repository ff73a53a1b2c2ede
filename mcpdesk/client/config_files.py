"""Reader of MCP clients' configuration files, in JSON with comments, TOML or YAML.

A file contains servers by name. Each server has a command or a URL. `configs.formats` has the table of
formats.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from mcpdesk.client.configs.entries import configured_server
from mcpdesk.client.configs.entry_values import InvalidEntry, OnlyInClient
from mcpdesk.client.configs.fastmcp_file import fastmcp_server, is_fastmcp
from mcpdesk.client.configs.formats import ConfigFormat, RepeatableObject, known_formats, sections
from mcpdesk.client.configs.program_names import shell_word
from mcpdesk.client.configs.servers import ConfiguredServer, InputVariable
from mcpdesk.errors import DeskUserError
from mcpdesk.protocol.catalogue.bounded_yaml import YamlFault, load_yaml

MAX_FILE_BYTES = 4 << 20
"""Largest file that is read, in bytes."""
LANGUAGES = {
    ".json": "JSON",
    ".jsonc": "JSON",
    ".json5": "JSON",
    ".toml": "TOML",
    ".yaml": "YAML",
    ".yml": "YAML",
}
"""Language by suffix."""
PROJECT_FILES = frozenset({".mcp.json", "mcp.json"})
PROJECT_FOLDERS = frozenset(
    {".vscode", ".cursor", ".codex", ".gemini", ".zed", ".opencode", ".windsurf", ".continue", ".junie"}
)
"""Folders in a project that contain the files of one client."""
PROJECT_SUBFOLDERS = frozenset({"mcp", "mcpServers"})
"""Folders in `PROJECT_FOLDERS` that contain the files of Junie and Continue."""
_COMMENT = re.compile(
    r'"(?:[^"\\\n]|\\.)*+"?|//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?|,(?=\s*+[}\]])', re.DOTALL
)
"""A string, a comment, or a comma that JSON does not allow.

An unterminated string or comment extends to the end of the file.
"""


class ConfigFile(Struct, frozen=True):
    """Content of a configuration file."""

    path: Path
    servers: tuple[ConfiguredServer, ...]
    inputs: Mapping[str, InputVariable]
    sha256: str
    """SHA-256 of the content. For a file of FastMCP, it includes the command of the project's Python."""

    @property
    def is_of_project(self) -> bool:
        """True if the file belongs to a project, in whose folder its servers run.

        False for a client's own configuration file, such as one in the home folder.
        """
        project = self._folder_with_client_folder
        return self.path.name in PROJECT_FILES or project not in (None, Path.home())

    @property
    def workspace(self) -> Path:
        """Folder of the project that the file belongs to."""
        return self._folder_with_client_folder or self.path.resolve().parent

    @property
    def _folder_with_client_folder(self) -> Path | None:
        """Folder that contains the `PROJECT_FOLDERS` folder of the file, or None if the file is in none."""
        folder = self.path.resolve().parent
        if folder.name in PROJECT_SUBFOLDERS:
            folder = folder.parent
        return folder.parent if folder.name in PROJECT_FOLDERS else None

    def workspace_of(self, server: ConfiguredServer) -> Path:
        """Folder of the project that a server belongs to."""
        return Path(server.project) if server.project else self.workspace

    def server(self, name: str) -> ConfiguredServer:
        """Return the server with that name. Raises: DeskUserError with the existing names."""
        for each in self.servers:
            if each.name == name:
                return each
        names = ", ".join(shell_word(each.name) for each in self.servers)
        raise DeskUserError(f"{self.path} has no server {name[:80]!r}.", f"Its servers: {names}.")


class NoServers(DeskUserError):
    """A file is valid, and has no servers."""


def is_config_file(text: str) -> bool:
    """Return True if a text is the path of an existing file with a configuration suffix."""
    path = Path(text).expanduser()
    return path.suffix in LANGUAGES and path.is_file()


def read_config(path: Path) -> ConfigFile:
    """Read a file. Raises: DeskUserError with the file, line and reason."""
    text = read_text(path)
    document = parse_config(path, text)
    if is_fastmcp(document):
        server = fastmcp_server(path, document)
        python = "\0".join(("", *server.project_python)) if server.project_python else ""
        return ConfigFile(path, (server,), {}, sha256_of(text + python))
    file_sections = sections(document)
    if not file_sections and path.name == "mcp.json" and isinstance(document, dict) and "name" in document:
        raise NoServers(f"{path} describes a server folder.", f"Name the folder: {path.parent}.")
    if not file_sections:
        example = '{"mcpServers": {"name": {"command": ...}}}'
        hint = f"Write {example}. Keys that are read: {known_formats()}."
        raise NoServers(f"{path} contains no servers.", hint)
    servers: list[ConfiguredServer] = []
    for section in file_sections:
        repeated = set(section.repeated)
        for name, entry in section.entries:
            server = _read_entry(section.format, name, entry, section.project)
            if name in repeated:
                remark = "the name is in the file more than once; the last entry is used"
                server = msgspec.structs.replace(server, remarks=(*server.remarks, remark))
            servers.append(_with_unique_name(server, {each.name for each in servers}))
    return ConfigFile(path, tuple(servers), _inputs(document), sha256_of(text))


def _read_entry(entry_format: ConfigFormat, name: str, entry: Any, project: str) -> ConfiguredServer:
    try:
        keys = entry_format.read(entry) if isinstance(entry, dict) else entry
        server = configured_server(name, keys, project)
    except InvalidEntry as error:
        is_of_client = isinstance(error, OnlyInClient)
        server = ConfiguredServer(name, project=project, problem=str(error), is_only_in_client=is_of_client)
    except RecursionError:
        server = ConfiguredServer(name, project=project, problem="it is nested too deeply")
    return msgspec.structs.replace(server, is_disabled=_is_disabled(entry))


def _is_disabled(entry: Any) -> bool:
    return isinstance(entry, dict) and (entry.get("disabled") is True or entry.get("enabled") is False)


def _with_unique_name(server: ConfiguredServer, used_names: set[str]) -> ConfiguredServer:
    """Return the server with a name that is not used yet. Append its project or a number if necessary."""
    if server.name not in used_names:
        return server
    base = f"{server.name}@{Path(server.project).name}" if server.project else server.name
    name, number = base, 1
    while name in used_names:
        number += 1
        name = f"{base}-{number}"
    remark = f"an earlier entry has the same name {server.name[:80]!r}"
    return msgspec.structs.replace(server, name=name, remarks=(*server.remarks, remark))


def sha256_of(text: str) -> str:
    """SHA-256 of the bytes of a file with this text."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_text(path: Path) -> str:
    """Return the text of a file unchanged. Raises: DeskUserError."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise DeskUserError(f"{path}: {error.strerror}.", "Check the path.") from None
    if len(data) > MAX_FILE_BYTES:
        raise DeskUserError(f"{path}: a configuration has at most {MAX_FILE_BYTES} bytes.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise DeskUserError(f"{path} is not UTF-8 text.") from None


def language_of(path: Path, text: str) -> str:
    """Return `JSON`, `TOML` or `YAML`. Raises: DeskUserError for a file in another language."""
    if language := LANGUAGES.get(path.suffix.lower()):
        return language
    if path.name.startswith(".") or text.lstrip("\ufeff \t\r\n")[:1] in ("{", "/"):
        return "JSON"
    hint = f"Configurations are read as {', '.join(LANGUAGES)}. A program is started by `-- COMMAND ARGS`."
    raise DeskUserError(f"{path}: this format is not supported.", hint)


def parse_config(path: Path, text: str) -> Any:
    """Parse the content of a file. Raises: DeskUserError with the line and reason."""
    language = language_of(path, text)
    hint = f"It must be {language}."
    try:
        match language:
            case "TOML":
                return tomllib.loads(text.removeprefix("\ufeff"))
            case "YAML":
                return from_yaml(text)
            case _:
                return json.loads(without_comments(text), object_pairs_hook=_json_object)
    except RecursionError:
        raise DeskUserError(f"{path}: it is nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise DeskUserError(f"{path}:{error.lineno}:{error.colno}: {error.msg}.", hint) from None
    except YamlFault as error:
        raise DeskUserError(f"{path}:{error.line or 1}: {error}.", hint) from None
    except ValueError as error:  # TOML errors, and numbers that are too long
        match = re.search(r" \(at (?:line (\d+), column (\d+)|(end of document))\)$", str(error))
        reason = str(error)[: match.start()] if match else str(error)
        position = f":{match[1]}:{match[2]}" if match and match[1] else ""
        end_text = ", at the end" if match and match[3] else ""
        raise DeskUserError(f"{path}{position}: {reason}{end_text}.", hint) from None


def _json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = RepeatableObject(pairs)
    if len(members) < len(pairs):
        members.repeated = tuple(
            name for name, count in Counter(name for name, _ in pairs).items() if count > 1
        )
    return members


def from_yaml(text: str) -> Any:
    """Parse YAML. Raises: YamlFault."""
    from mcpdesk.protocol.catalogue.yaml_core import core_loader

    return load_yaml(text.removeprefix("\ufeff"), core_loader(), MAX_FILE_BYTES)


def without_comments(text: str) -> str:
    """Replace comments and trailing commas of JSON text by spaces, so that positions do not change.

    A byte order mark is replaced as well.
    """

    def blank(match: re.Match[str]) -> str:
        token = match[0]
        has_end = not token.startswith("/*") or (len(token) > 3 and token.endswith("*/"))
        return re.sub(r"[^\n]", " ", token) if token[0] != '"' and has_end else token

    # Twice, because a comment may follow a trailing comma.
    return _COMMENT.sub(blank, _COMMENT.sub(blank, re.sub("^\ufeff", " ", text)))


def _inputs(document: Any) -> dict[str, InputVariable]:
    """Return the inputs of a file by id. Inputs whose id is not a string are skipped."""
    nested = document.get("mcp")
    definitions = document.get("inputs", nested.get("inputs") if isinstance(nested, dict) else None)
    inputs = [each for each in definitions if isinstance(each, dict)] if isinstance(definitions, list) else []
    return {each["id"]: _input(each) for each in inputs if isinstance(each.get("id"), str)}


def _input(definition: Mapping[str, Any]) -> InputVariable:
    default, listed_options = definition.get("default"), definition.get("options")
    options: list[Any] = listed_options if isinstance(listed_options, list) else []
    values = [each.get("value", each.get("label")) if isinstance(each, dict) else each for each in options]
    return InputVariable(
        definition["id"],
        str(definition.get("description") or ""),
        definition.get("password") is True,
        "" if default is None else str(default),
        tuple(str(value) for value in values if value is not None),
    )
