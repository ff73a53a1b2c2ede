"""Reader of `mcp.json`, the manifest of a server folder. Errors name the line and the rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from mcpdesk import settings
from mcpdesk.errors import DeskUserError, ManifestError
from mcpdesk.protocol.catalogue.publication import MAX_NAME_LENGTH, PUBLIC_NAME
from mcpdesk.server.asks.approval_policies import Policy
from mcpdesk.setting_values import GivenValue, converted

if TYPE_CHECKING:
    from json import JSONDecoder

Step = str | int
"""Key in an object, or index in a list."""
FILE = "mcp.json"
"""Name of the manifest in a server folder."""
LOCK_NAME = "mcp.lock.json"
"""File in a server folder with the agreed contract."""
NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?"
"""Regular expression for the name of a server or mode. `NAME_RULE` describes it."""
NAME_RULE = "letters, digits, '.', '_' and '-', at most 64, starting and ending with a letter or digit"
SCHEMA_URL = "https://raw.githubusercontent.com/mcpdesk/mcpdesk/main/docs/mcp.schema.json"
SCOPE = r"[\x21\x23-\x5b\x5d-\x7e]{1,100}"
"""Regular expression for a scope."""
KEY_SOURCES = ("secret_env", "jwks_file", "jwks_url")
"""Fields of `auth.jwt`, of which exactly one must be set."""
MAX_LEEWAY_S = 600
"""Maximum value of `auth.jwt.leeway_s` in seconds."""
CHOICES = {"theme": "light, dark", "approvals": ", ".join(Policy)}
"""For each setting with a fixed set of values, the text that lists these values in messages."""
_SPACE = re.compile(r"[ \t\r\n]*")
_URL_RULE = "allowed: https addresses, and http ones of this machine, without a query or a fragment"
"""Allowed URLs, as the end of a message."""

Refuse = Callable[..., ManifestError]
"""Function that creates an error from a message and the path of a value."""


class ManifestPart(Struct, forbid_unknown_fields=True, kw_only=True):
    """Section of the manifest. Unknown keys are errors."""


class Jwt(ManifestPart):
    """Rules for checking JSON Web Tokens."""

    algorithms: list[str] = []
    secret_env: str = ""
    jwks_file: str = ""
    jwks_url: str = ""
    issuer: str = ""
    audience: str | list[str] = ""
    leeway_s: float = 0


class Needs(ManifestPart):
    """Additional requirements for callers of one tool."""

    requires_jwt: bool = True
    scopes: list[str] = []


class Auth(ManifestPart):
    """Access rules for callers, from the `auth` section."""

    requires_jwt: bool = False
    jwt: Jwt | None = None
    scopes: list[str] = []
    """Scopes that every token must have."""
    includes: dict[str, list[str]] = {}
    """Narrower scopes that each broader scope implies."""
    authorization_servers: list[str] = []
    """URLs of the issuers of tokens. The protected resource metadata publishes these URLs."""
    resource: str = ""
    """Public URI of the server, if it is behind a proxy."""
    tools: dict[str, Needs] = {}
    """Requirements by tool name, in addition to those in the tools' code."""

    @property
    def audiences(self) -> frozenset[str]:
        """Accepted audiences of a token. The default is the server's own URI."""
        audience = self.jwt.audience if self.jwt is not None else ""
        audiences = [audience] if isinstance(audience, str) else audience
        return frozenset(accepted for accepted in audiences if accepted) or frozenset(
            [self.resource] if self.resource else []
        )


class Mode(ManifestPart):
    """Named selection of tools."""

    tools: list[str]
    description: str = ""


class Icon(ManifestPart, omit_defaults=True):
    """An icon of the server."""

    src: str
    mimeType: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


class Publish(ManifestPart):
    """Fields that only server cards, `server.json` and bundles use."""

    name: str = ""
    """Name in reverse-DNS form, such as `io.github.ada/profiles`."""
    author: str = ""
    license: str = ""
    repository: str = ""
    """URL of the source code."""
    bundle: str = ""
    """Download URL of the bundle."""


class ManifestFile(ManifestPart):
    """Content of `mcp.json`."""

    name: str = ""
    title: str = ""
    version: str = "0.0.0"
    description: str = ""
    instructions: str = ""
    website_url: str = field(default="", name="websiteUrl")
    icons: list[Icon] = []
    builtins: list[str] = []
    """Names of the built-in tools to offer, in this order."""
    approvals: dict[str, Policy] = {}
    """Approval policy of each tool. `*` stands for all other tools."""
    auth: Auth = field(default_factory=Auth)
    modes: dict[str, Mode] = {}
    commands: list[Any] = []
    """Entries of `commands`, unchecked. They are checked one by one, so that an error affects only one
    command.
    """
    publish: Publish = field(default_factory=Publish)
    requires: list[str] = []
    """Packages that the folder's Python files need, as requirements such as `httpx>=0.27`."""
    settings: dict[str, Any] = {}
    """Settings by name, with valid names and values. Module `folder_rights` decides which of them apply."""
    schema: str = field(default="", name="$schema")
    """URL of the JSON schema, for editors only."""


class Manifest(ManifestFile, kw_only=True):
    """Checked content of a folder's `mcp.json`. The name is never empty."""

    folder: Path
    """Absolute path with symlinks resolved."""
    text: str = ""
    """Text of the file."""

    def source(self, *path: Step) -> str:
        """Return the location of a value in the file, such as `mcp.json:12`."""
        line = position_of(self.text, *path).line
        return FILE if line is None else f"{FILE}:{line}"


def read_manifest(folder: Path) -> Manifest:
    """Read a folder's manifest. Without `mcp.json`, the server has the name of the folder and defaults.

    Raises: ManifestError for a missing folder and for any error in the file, with line and column.
    """
    folder = _existing_folder(folder)
    path = folder / FILE
    try:
        text = _read_text(path)
    except FileNotFoundError:
        return Manifest(folder=folder, name=_name_of(folder))
    file = msgspec.structs.asdict(_checked_file(_parsed_object(text, path), text, path))
    return Manifest(**{**file, "name": file["name"] or _name_of(folder)}, folder=folder, text=text)


def placeholder_manifest(folder: Path) -> Manifest:
    """Return a manifest that has only a name, to use while the real manifest is invalid.

    The name is read from the invalid file if possible. Raises: ManifestError for a missing folder.
    """
    folder = _existing_folder(folder)
    try:
        match = re.search(rf'"name"\s*:\s*"({NAME})"', _read_text(folder / FILE))
    except (ManifestError, FileNotFoundError):
        match = None
    return Manifest(folder=folder, name=match[1] if match else _name_of(folder))


def readable_settings(folder: Path) -> dict[str, Any] | None:
    """Return the settings of an invalid file if the error is in another section, or None if the error may
    concern the settings. Raises: ManifestError for a missing folder.
    """
    path = _existing_folder(folder) / FILE
    text = ""
    try:
        text = _read_text(path)
        data = _parsed_object(text, path)
        if not data.keys() <= frozenset(_known_keys(ManifestFile)):
            return None  # the key may be a misspelt `settings`
        return _checked_file({"settings": data.get("settings", {})}, text, path).settings
    except FileNotFoundError:
        return {}
    except ManifestError:
        return {} if text and not _may_have_settings(text) else None


def _may_have_settings(text: str) -> bool:
    """Return True if a text that cannot be parsed seems to contain settings."""
    import difflib

    keys = set(re.findall(r"(\w+)[\"']?\s*:", text))
    # `tools` and `model` are also keys in other sections.
    setting_keys = {"settings", *settings.BY_NAME} - {"tools", "model"}
    return bool(keys & setting_keys) or any(difflib.get_close_matches(key, ["settings"]) for key in keys)


def _read_text(path: Path) -> str:
    """Read the file. Raises: FileNotFoundError; ManifestError if the file is unreadable or not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"cannot be read: {error}", str(path)) from error


def _existing_folder(folder: Path) -> Path:
    """Return the absolute path of a folder. Raises: ManifestError if it does not exist."""
    resolved = folder.expanduser().resolve()
    if resolved.is_dir():
        return resolved
    import difflib

    problem = "is a file, not a folder" if resolved.exists() else "does not exist"
    matches = difflib.get_close_matches(resolved.name, _neighbours(resolved), n=1)
    hint = f"; did you mean {resolved.parent / matches[0]}?" if matches else ""
    raise ManifestError(f"this server folder {problem}{hint}", str(folder))


def _neighbours(folder: Path) -> list[str]:
    """Return the names of the folders next to a folder."""
    try:
        return [neighbour.name for neighbour in folder.parent.iterdir() if neighbour.is_dir()]
    except OSError:
        return []


def _parsed_object(text: str, path: Path) -> dict[str, Any]:
    """Parse a text as a JSON object. Raises: ManifestError for invalid JSON or a duplicate key."""
    import json

    def unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            duplicate = next(key for key in members if sum(other == key for other, _ in pairs) > 1)
            line, column = _last_position(text, duplicate)
            raise ManifestError(f"the key {duplicate!r} is given twice", str(path), duplicate, line, column)
        return members

    try:
        data = json.loads(text, object_pairs_hook=unique_members)
    except json.JSONDecodeError as error:
        raise ManifestError(f"not JSON: {error.msg}", str(path), None, error.lineno, error.colno) from error
    except RecursionError as error:
        raise ManifestError("nested too deeply", str(path)) from error
    if not isinstance(data, dict):
        raise ManifestError('must be an object, like {"name": "hello"}', str(path), None, 1, 1)
    return data


def _checked_file(data: dict[str, Any], text: str, path: Path) -> ManifestFile:
    """Check all keys and values of a parsed file. Raises: ManifestError for the first error."""
    refuse = partial(_error_at, text, path)
    for section_path, part, allowed_keys in _objects_with_known_keys(data):
        for key in part:
            if key not in allowed_keys:
                hint = suggestion(key, allowed_keys, f"allowed: {', '.join(allowed_keys)}")
                if not section_path and key in settings.BY_NAME:
                    hint = f'; it is a setting and belongs into "settings": {{"{key}": ...}}'
                raise refuse(f"unknown key{hint}", *section_path, key)
    try:
        file = msgspec.convert(data, ManifestFile)
    except msgspec.ValidationError as error:
        message, value_path = complaint_and_path(error)
        steps = _invalid_value_path(data, value_path)
        choices = next((CHOICES[step] for step in steps if step in CHOICES), "")
        raise refuse(in_plain_words(message, choices), *steps) from error
    if file.name and not re.fullmatch(NAME, file.name):
        raise refuse(f"{file.name!r} is not allowed; allowed: {NAME_RULE}", "name")
    for name, value in file.settings.items():
        try:
            converted(GivenValue(settings.BY_NAME[name], value, FILE))
        except DeskUserError as error:
            detail = f"{error.message} {error.hint}".removeprefix(f"{name}: ")
            raise refuse(detail, "settings", name) from error
    for name in file.modes:
        if not re.fullmatch(NAME, name):
            raise refuse(f"this name is not allowed; allowed: {NAME_RULE}", "modes", name)
    if file.icons:
        _check_icons(file.icons, refuse)
    if file.requires:
        _check_requirements(file.requires, refuse)
    _check_auth(file.auth, refuse)
    _check_publish(file.publish, refuse)
    return file


def _error_at(text: str, path: Path, message: str, *steps: Step) -> ManifestError:
    """Create an error about the value at a path in the file."""
    key = next((step for step in reversed(steps) if isinstance(step, str)), "")
    detail = f"{path_text(steps)}: {message}" if steps else message
    return ManifestError(detail, str(path), key, *position_of(text, *steps))


def _invalid_value_path(data: dict[str, Any], text: str) -> tuple[Step, ...]:
    """Return the path of a value in an error message of msgspec, which writes `[...]` for keys."""
    prefix, placeholder, suffix = text.partition("[...]")
    steps = path_steps(prefix)
    if not placeholder:
        return steps
    parent: Any = data
    for step in steps:
        parent = parent[step]
    for key, value in parent.items():
        if _is_invalid(steps, {key: value}):
            return (*steps, key, *path_steps(suffix))
    return steps


def _is_invalid(steps: tuple[Step, ...], part: Any) -> bool:
    """Return True if a file that has only `part`, at a path, would be invalid."""
    for step in reversed(steps):
        part = {step: part}
    try:
        msgspec.convert(part, ManifestFile)
    except msgspec.ValidationError:
        return True
    return False


def _objects_with_known_keys(
    data: dict[str, Any],
) -> Iterator[tuple[tuple[Step, ...], dict[str, Any], list[str]]]:
    """Yield each object of the file that allows only known keys: its path, the object, and these keys."""
    yield (), data, _known_keys(ManifestFile)
    auth, modes, icons = data.get("auth"), data.get("modes"), data.get("icons")
    sections: list[tuple[tuple[Step, ...], Any, list[str]]] = [
        (("auth",), auth, _known_keys(Auth)),
        (("publish",), data.get("publish"), _known_keys(Publish)),
        (("settings",), data.get("settings"), list(settings.BY_NAME)),
    ]
    if isinstance(auth, dict):
        sections.append((("auth", "jwt"), auth.get("jwt"), _known_keys(Jwt)))
        tools = auth.get("tools")
        if isinstance(tools, dict):
            needs_keys = _known_keys(Needs)
            sections += [(("auth", "tools", name), needs, needs_keys) for name, needs in tools.items()]
    if isinstance(modes, dict):
        sections += [(("modes", name), mode, _known_keys(Mode)) for name, mode in modes.items()]
    if isinstance(icons, list):
        sections += [(("icons", index), icon, _known_keys(Icon)) for index, icon in enumerate(icons)]
    for steps, part, allowed_keys in sections:
        if isinstance(part, dict):
            yield steps, part, allowed_keys


def suggestion(name: str, candidates: Iterable[str], default: str = "") -> str:
    """Return the end of a message about an unknown name: the most similar candidate, or `default`."""
    import difflib

    matches = difflib.get_close_matches(name, candidates, n=1)
    if matches:
        return f"; did you mean {matches[0]}?"
    return f"; {default}" if default else ""


def _known_keys(part: type[Struct]) -> list[str]:
    """Return the names of the fields as they are written in the file."""
    return list(part.__struct_encode_fields__)


def _last_position(text: str, key: str) -> tuple[int | None, int | None]:
    """Return line and column (from 1) of the last occurrence of a key in a text that cannot be parsed."""
    import json

    matches = list(re.finditer(rf"{re.escape(json.dumps(key, ensure_ascii=False))}\s*:", text))
    if not matches:
        return None, None
    start = matches[-1].start()
    return text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)


def _check_icons(icons: list[Icon], refuse: Refuse) -> None:
    from mcpdesk.protocol.catalogue.annotations import check_icons  # rarely needed

    for number, icon in enumerate(icons):
        try:
            check_icons([msgspec.to_builtins(icon)])
        except ValueError as error:
            raise refuse(str(error).removeprefix("icons: "), "icons", number) from None


def _check_requirements(requires: list[str], refuse: Refuse) -> None:
    from mcpdesk.hosting.folder.requirements import requirement  # rarely needed

    for number, text in enumerate(requires):
        try:
            requirement(text)
        except ValueError as error:
            raise refuse(str(error), "requires", number) from None


def _check_publish(publish: Publish, refuse: Refuse) -> None:
    if publish.name and not (
        len(publish.name) <= MAX_NAME_LENGTH and re.fullmatch(PUBLIC_NAME, publish.name)
    ):
        message = f"{publish.name[:80]!r} is not allowed; write one like io.github.ada/profiles"
        raise refuse(message, "publish", "name")
    for key in ("repository", "bundle"):
        if (url := getattr(publish, key)) and not _is_web_url(url):
            raise refuse(f"{url[:80]!r} is not allowed; {_URL_RULE}", "publish", key)


def _check_auth(auth: Auth, refuse: Refuse) -> None:
    """Check that the fields are consistent. Raises: ManifestError."""
    _check_scopes(auth, refuse)
    if auth.jwt is None:
        for key in ("requires_jwt", "scopes", "authorization_servers", "tools"):
            if getattr(auth, key):
                raise refuse("needs auth.jwt, which defines how tokens are checked", "auth", key)
        return
    _check_jwt(auth.jwt, refuse)
    if auth.resource and not _is_web_url(auth.resource):
        raise refuse("must be an address like https://h.example/mcp/name", "auth", "resource")
    for url in auth.authorization_servers:
        if not _is_web_url(url):
            raise refuse(f"{url!r} is not allowed; {_URL_RULE}", "auth", "authorization_servers")
    if auth.authorization_servers and not (auth.jwt.issuer and auth.audiences):
        reason = "tokens of other issuers or for other audiences would be accepted"
        raise refuse(f"needs issuer and audience with authorization_servers: {reason}", "auth", "jwt")


def _check_jwt(jwt: Jwt, refuse: Refuse) -> None:
    from mcpdesk.auth.keys import ALGORITHMS, HMAC  # most servers use no tokens

    if sum(bool(getattr(jwt, name)) for name in KEY_SOURCES) != 1:
        raise refuse(f"needs exactly one of {', '.join(KEY_SOURCES)}", "auth", "jwt")
    unusable_algorithms = [name for name in jwt.algorithms if (name in HMAC) != bool(jwt.secret_env)]
    unknown = next((name for name in jwt.algorithms if name not in ALGORITHMS), None)
    fault = ""
    if not jwt.algorithms or "none" in (name.lower() for name in jwt.algorithms):
        fault = 'needs at least one, like "HS256", and never "none"'
    elif unknown is not None:
        fault = f"{unknown!r} is not known; known: {', '.join(ALGORITHMS)}"
    elif unusable_algorithms and not jwt.jwks_file:
        missing_field = "jwks_file or jwks_url" if jwt.secret_env else "secret_env"
        fault = f"{', '.join(unusable_algorithms)} cannot be used without {missing_field}"
    if fault:
        raise refuse(fault, "auth", "jwt", "algorithms")
    if jwt.jwks_url and not _is_web_url(jwt.jwks_url, with_query=True):
        raise refuse(_URL_RULE, "auth", "jwt", "jwks_url")
    if not 0 <= jwt.leeway_s <= MAX_LEEWAY_S:
        fault = f"0 to {MAX_LEEWAY_S} are allowed, not {jwt.leeway_s:g}"
        raise refuse(fault, "auth", "jwt", "leeway_s")


def _check_scopes(auth: Auth, refuse: Refuse) -> None:
    scopes = [
        *auth.scopes,
        *auth.includes,
        *(scope for narrower_scopes in auth.includes.values() for scope in narrower_scopes),
    ]
    scopes += [scope for needs in auth.tools.values() for scope in needs.scopes]
    for scope in scopes:
        if re.fullmatch(SCOPE, scope) is None:
            allowed = "printable ASCII without spaces, quotes and backslashes"
            raise refuse(f"{scope!r} is not a scope; allowed: {allowed}", "auth")


def _is_web_url(url: str, with_query: bool = False) -> bool:
    """Return True for an https URL, or an http URL of this machine.

    The URL must have neither user nor fragment, and may have a query only if `with_query`.
    """
    from mcpdesk.auth.http_origin import is_loopback

    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if not host or parts.fragment or parts.username is not None or (parts.query and not with_query):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def _name_of(folder: Path) -> str:
    """Create a server name that is valid in a URL from the folder's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder.name)[:64].strip("-._") or "server"


class TextPosition(NamedTuple):
    """Line and column, counted from 1. Both are None if the position was not found."""

    line: int | None = None
    column: int | None = None


class _Member(NamedTuple):
    step: Step
    start: int
    """Offset of the key in an object, or of the value in a list."""
    value: int
    """Offset of the value."""


def position_of(text: str, *steps: Step) -> TextPosition:
    """Return the position of a key or list item in valid JSON text.

    If the key or item does not exist, return the position of its nearest existing parent.
    """
    import json

    decoder = json.JSONDecoder()
    start: int | None = None
    value_start = _skip_space(text, 0)
    for step in steps:
        # Of duplicate keys, the parser uses the last one.
        members = [member for member in _members(text, value_start, decoder) if member.step == step]
        if not members:
            break
        start, value_start = members[-1].start, members[-1].value
    if start is None:
        return TextPosition()
    return TextPosition(text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start))


def _members(text: str, start: int, decoder: JSONDecoder) -> Iterator[_Member]:
    """Yield the members of the object or list at `start`. Yield nothing for any other value."""
    bracket = text[start : start + 1]
    if bracket not in ("{", "["):
        return
    offset = _skip_space(text, start + 1)
    index = 0
    while text[offset : offset + 1] not in ("}", "]", ""):
        member_start: int = offset
        step: Step = index
        if bracket == "{":
            step, offset = decoder.raw_decode(text, offset)
            offset = _skip_space(text, _skip_space(text, offset) + 1)  # after the colon
        yield _Member(step, member_start, offset)
        _, offset = decoder.raw_decode(text, offset)
        offset = _skip_space(text, offset)
        if text[offset : offset + 1] == ",":
            offset = _skip_space(text, offset + 1)
        index += 1


def _skip_space(text: str, offset: int) -> int:
    """Return the offset of the first character that is not white space."""
    match = _SPACE.match(text, offset)
    return match.end() if match else offset


_TYPE_WORDS = {"str": "a text", "int": "a whole number", "bool": "true or false", "float": "a number",
          "array": "a list", "object": "an object", "null": "null"}  # fmt: skip


def in_plain_words(message: str, choices: str = "") -> str:
    """Rewrite a message of msgspec in plain words. `choices` lists the allowed values of an enum."""
    text = re.sub(r"`(\w+)( \| null)?`", lambda match: _TYPE_WORDS.get(match[1], match[1]), message)
    text = text.replace("Expected", "must be", 1).replace("Object missing required field", "lacks the key")
    if message.startswith("Invalid enum value"):
        return f"{message.removeprefix('Invalid enum value ')} is not allowed; allowed: {choices}"
    return text


def complaint_and_path(error: Exception) -> tuple[str, str]:
    """Split an error of msgspec into its message and the path of the value, such as `.run[1]`."""
    message, _, path = str(error).partition(" - at `$")
    return message, path.strip("`")


def path_text(steps: Iterable[Step]) -> str:
    """Format a path for messages, such as `run[1]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def path_steps(text: str) -> tuple[Step, ...]:
    """Parse a path of msgspec: `.run[1]` becomes `run`, 1. Parsing stops at `[...]`."""
    steps: list[Step] = []
    for key, index in re.findall(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]", text):
        if index == "...":
            break
        steps.append(int(index) if index else key)
    return tuple(steps)
