"""`mcp.json`: what a server folder says about itself. A mistake is named with place and rule."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct, field

from mcpdesk import settings
from mcpdesk.errors import DeskUserError, ManifestError
from mcpdesk.hosting.folder import manifest_auth
from mcpdesk.hosting.folder.manifest_auth import Auth, ManifestPart, Refuse, check_auth
from mcpdesk.server.asks.approval_policies import Policy
from mcpdesk.settings import GivenValue, converted

if TYPE_CHECKING:
    from mcpdesk.hosting.folder.manifest_errors import Step

FILE = "mcp.json"
NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?"
POLICIES = [policy.value for policy in Policy]
NAME_RULE = "letters, digits, '.', '_' and '-', at most 64, starting and ending with a letter or digit"


class Mode(ManifestPart):
    """A selection of tools."""

    tools: list[str]
    description: str = ""


class Icon(ManifestPart):
    """A picture of the server."""

    src: str
    mimeType: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


class _File(ManifestPart):
    """The structure of the whole file."""

    name: str = ""
    title: str = ""
    version: str = "0.0.0"
    description: str = ""
    instructions: str = ""
    websiteUrl: str = ""
    icons: list[Icon] = []
    builtins: list[str] = []
    approvals: dict[str, Any] = {}
    auth: Auth = msgspec.field(default_factory=Auth)
    modes: dict[str, Mode] = {}
    commands: list[Any] = []
    settings: dict[str, Any] = {}


class Manifest(Struct, frozen=True):
    """The checked content of a folder's `mcp.json`."""

    folder: Path
    """Absolute, symlinks resolved."""
    name: str
    title: str = ""
    version: str = "0.0.0"
    description: str = ""
    instructions: str = ""
    website_url: str = ""
    icons: tuple[dict[str, Any], ...] = ()
    builtins: tuple[str, ...] = ()
    """Names of built-in tools to offer, in this order."""
    approvals: dict[str, Policy] = field(default_factory=dict)
    """The policy of each tool; `*` stands for all that are not named."""
    auth: Auth = field(default_factory=Auth)
    modes: dict[str, Mode] = field(default_factory=dict)
    commands: tuple[Any, ...] = ()
    """The commands as they stand in the file, unchecked: a mistake in one does not affect the others."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings by name; names and values have been checked."""
    text: str = ""
    """The text of the file."""

    def source(self, *trail: Step) -> str:
        """The place of a value in the file, as `mcp.json:12`."""
        from mcpdesk.hosting.folder.manifest_errors import position_of

        line = position_of(self.text, *trail).line
        return FILE if line is None else f"{FILE}:{line}"


def read_manifest(folder: Path) -> Manifest:
    """Read a folder's manifest. Without `mcp.json` only the folder's name is known.

    Raises: ManifestError for a missing folder and for every mistake in the file, with line and column.
    """
    folder = _existing(folder)
    path = folder / FILE
    try:
        text = _text(path)
    except FileNotFoundError:
        return Manifest(folder, _name_of(folder))
    return _manifest(folder, _checked(_parse(text, path), text, path), text)


def placeholder_manifest(folder: Path) -> Manifest:
    """A stand-in for a manifest with a mistake: the name it seems to have, and nothing else.

    Raises: ManifestError for a missing folder.
    """
    folder = _existing(folder)
    try:
        found = re.search(rf'"name"\s*:\s*"({NAME})"', _text(folder / FILE))
    except (ManifestError, FileNotFoundError):
        found = None
    return Manifest(folder, found[1] if found else _name_of(folder))


def certain_settings(folder: Path) -> dict[str, Any] | None:
    """The settings of a file with a mistake elsewhere; None where the mistake may concern the settings.

    Raises: ManifestError for a missing folder.
    """
    path = _existing(folder) / FILE
    text = ""
    try:
        text = _text(path)
        data = _parse(text, path)
        if not data.keys() <= frozenset(_names(_File)):
            return None  # "setings" may be what was meant to be settings
        return _checked({"settings": data.get("settings", {})}, text, path).settings
    except FileNotFoundError:
        return {}
    except ManifestError:
        return {} if text and not _may_set(text) else None


def _may_set(text: str) -> bool:
    """Whether a text that cannot be parsed has a key that may be meant as `settings`, or names a setting."""
    import difflib

    keys = set(re.findall(r"(\w+)[\"']?\s*:", text))
    known = {"settings", *settings.BY_NAME} - {"tools", "model"}  # which stand elsewhere in the file as well
    return bool(keys & known) or any(difflib.get_close_matches(key, ["settings"]) for key in keys)


def _text(path: Path) -> str:
    """Read the file. Raises: FileNotFoundError; ManifestError for a file that is no text or not readable."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"cannot be read: {error}", str(path)) from error


def _existing(folder: Path) -> Path:
    resolved = folder.expanduser().resolve()
    if resolved.is_dir():
        return resolved
    import difflib

    what = "is a file, not a folder" if resolved.exists() else "does not exist"
    near = difflib.get_close_matches(resolved.name, _neighbours(resolved), n=1)
    hint = f"; did you mean {resolved.parent / near[0]}?" if near else ""
    raise ManifestError(f"this server folder {what}{hint}", str(folder))


def _neighbours(folder: Path) -> list[str]:
    try:
        return [each.name for each in folder.parent.iterdir() if each.is_dir()]
    except OSError:
        return []


def _parse(text: str, path: Path) -> dict[str, Any]:
    import json

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        for key in found if len(found) < len(pairs) else ():
            if sum(each == key for each, _ in pairs) > 1:
                line, column = _last_place(text, key)
                raise ManifestError(f"the key {key!r} is given twice", str(path), key, line, column)
        return found

    try:
        data = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ManifestError(f"not JSON: {error.msg}", str(path), None, error.lineno, error.colno) from error
    except RecursionError as error:
        raise ManifestError("nested too deeply", str(path)) from error
    if not isinstance(data, dict):
        raise ManifestError('must be an object, like {"name": "hello"}', str(path), None, 1, 1)
    return data


def _checked(data: dict[str, Any], text: str, path: Path) -> _File:
    def refuse(message: str, *trail: Step) -> ManifestError:
        from mcpdesk.hosting.folder.manifest_errors import position_of

        key = next((step for step in reversed(trail) if isinstance(step, str)), "")
        return ManifestError(message, str(path), key, *position_of(text, *trail))

    _refuse_unknown(data, refuse)
    try:
        file = msgspec.convert(data, _File)
    except msgspec.ValidationError as error:
        from mcpdesk.hosting.folder.manifest_errors import complaint_and_path, in_plain_words, path_text

        message, where = complaint_and_path(error)
        way = _path_of(data, where)
        told = in_plain_words(message, CHOICES.get(str(way[-1]) if way else "", ""))
        raise refuse(f"{path_text(way)}: {told}", *way) from error
    if file.name and not re.fullmatch(NAME, file.name):
        raise refuse(f"name: {file.name!r} is not allowed; allowed: {NAME_RULE}", "name")
    for name, value in file.settings.items():
        try:
            converted(GivenValue(settings.BY_NAME[name], value, FILE))
        except DeskUserError as error:
            raise refuse(f"settings.{error.message} {error.hint}", "settings", name) from error
        if not settings.BY_NAME[name].from_folder:
            raise refuse(f"settings.{name}: only a flag or the environment may set it", "settings", name)
    for name, policy in file.approvals.items():
        if policy not in POLICIES:
            told = f"approvals.{name}: {policy!r} is not allowed; allowed: {', '.join(Policy)}"
            raise refuse(told, "approvals", name)
    for name in file.modes:
        if not re.fullmatch(NAME, name):
            raise refuse(f"modes: {name!r} is not allowed as a name; allowed: {NAME_RULE}", "modes", name)
    if file.icons:
        _check_icons(file.icons, refuse)
    check_auth(file.auth, refuse)
    return file


def _path_of(data: dict[str, Any], trail: str) -> tuple[Step, ...]:
    """The path to what msgspec complains about, which writes `[...]` for the key of an object."""
    from mcpdesk.hosting.folder.manifest_errors import path_steps

    before, unknown, behind = trail.partition("[...]")
    way = path_steps(before)
    if not unknown:
        return way
    parent: Any = data
    for step in way:
        parent = parent[step]
    return next(
        ((*way, key, *path_steps(behind)) for key in parent if _is_wrong(way, {key: parent[key]})), way
    )


def _is_wrong(way: tuple[Step, ...], part: Any) -> bool:
    for step in reversed(way):
        part = {step: part}
    try:
        msgspec.convert(part, _File)
    except msgspec.ValidationError:
        return True
    return False


def _refuse_unknown(data: dict[str, Any], refuse: Refuse) -> None:
    """Refuse unknown keys anywhere in the file."""
    for trail, given, known in _parts(data):
        for key in given:
            if key not in known:
                from mcpdesk.hosting.folder.manifest_errors import path_text

                told = f"{path_text((*trail, key))}: unknown key{_suggestion(trail, key, known)}"
                raise refuse(told, *trail, key)


def _parts(data: dict[str, Any]) -> list[tuple[tuple[Step, ...], dict[str, Any], list[str]]]:
    """Each object of the file whose keys are fixed: its path, the object, and the known keys."""
    found: list[tuple[tuple[Step, ...], Any, list[str]]] = [((), data, _names(_File))]
    found += [(trail, given, _names(part)) for trail, given, part in manifest_auth.parts(data.get("auth"))]
    found.append((("settings",), data.get("settings"), list(settings.BY_NAME)))
    modes = data.get("modes")
    for name, mode in modes.items() if isinstance(modes, dict) else ():
        found.append((("modes", name), mode, _names(Mode)))
    icons = data.get("icons")
    for index, item in enumerate(icons if isinstance(icons, list) else ()):
        found.append((("icons", index), item, _names(Icon)))
    return [part for part in found if isinstance(part[1], dict)]


def _suggestion(trail: tuple[Step, ...], key: str, known: list[str]) -> str:
    import difflib

    if not trail and key in settings.BY_NAME:
        return f'; it is a setting and belongs into "settings": {{"{key}": ...}}'
    near = difflib.get_close_matches(key, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; allowed: {', '.join(known)}"


def _names(part: type[Struct]) -> list[str]:
    return list(part.__struct_fields__)


def _last_place(text: str, key: str) -> tuple[int | None, int | None]:
    """Line and column, from 1, of the last occurrence of a key in a text that cannot be parsed."""
    import json

    found = list(re.finditer(rf"{re.escape(json.dumps(key, ensure_ascii=False))}\s*:", text))
    if not found:
        return None, None
    start = found[-1].start()
    return text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)


def _manifest(folder: Path, file: _File, text: str) -> Manifest:
    return Manifest(
        folder=folder,
        name=file.name or _name_of(folder),
        title=file.title,
        version=file.version,
        description=file.description,
        instructions=file.instructions,
        website_url=file.websiteUrl,
        icons=tuple(_icon(icon) for icon in file.icons),
        builtins=tuple(dict.fromkeys(file.builtins)),
        approvals={name: Policy(policy) for name, policy in file.approvals.items()},
        auth=file.auth,
        modes=file.modes,
        commands=tuple(file.commands),
        settings=file.settings,
        text=text,
    )


def _check_icons(icons: list[Icon], refuse: Refuse) -> None:
    from mcpdesk.protocol.annotations import check_icons  # few have any

    for number, icon in enumerate(icons):
        try:
            check_icons([_icon(icon)])
        except ValueError as error:
            raise refuse(f"icons[{number}]: {str(error).removeprefix('icons: ')}", "icons", number) from None


def _icon(icon: Icon) -> dict[str, Any]:
    given: dict[str, Any] = msgspec.to_builtins(icon)
    return {key: value for key, value in given.items() if value is not None}


def _name_of(folder: Path) -> str:
    """A server name, fit for a URL, made of the folder's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder.name)[:64].strip("-._") or "server"


CHOICES = {"theme": "light, dark"}
