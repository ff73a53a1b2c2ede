"""Commands for a client's configuration file: `wrap` and `unwrap` for the tap, and `trust`."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from mcpdesk import private_files
from mcpdesk.cli.core_process import require_unix
from mcpdesk.cli.printing import OK, TOOL_ERROR, aligned, print_message, print_text
from mcpdesk.cli.reach import can_ask, print_untrusted
from mcpdesk.client import config_edits
from mcpdesk.client.config_edits import ConfigEdit
from mcpdesk.client.config_files import language_of, parsed, read_config, read_text, sha256_of
from mcpdesk.client.configs import toml_edits, yaml_edits
from mcpdesk.client.configs.formats import known_formats, sections
from mcpdesk.client.configs.own_program import own_command, temporary_folders, why_dead
from mcpdesk.client.trust import TrustStore, untrusted
from mcpdesk.errors import DeskUserError
from mcpdesk.paths import state_folder

WRAP_EXAMPLES = """\b
Examples:
  mcpdesk wrap claude-desktop
  mcpdesk wrap cursor files git
  mcpdesk wrap .mcp.json
  mcpdesk wrap --check                 every known client: repair entries that no longer start
  mcpdesk open                         shows the messages live

CLIENT is claude-desktop, claude-code, codex, continue, cursor, gemini, goose, opencode, vscode or zed (the
file of this folder, else the user's), or a file.
"""
UNWRAP_EXAMPLES = """\b
Examples:
  mcpdesk unwrap claude-desktop
  mcpdesk unwrap .mcp.json
"""
TRUST_EXAMPLES = """\b
Examples:
  mcpdesk trust .mcp.json
  mcpdesk trust cursor --yes
  mcpdesk trust --list
  mcpdesk trust --forget .mcp.json
"""
CLIENTS = (
    "claude-desktop", "claude-code", "codex", "continue", "cursor", "gemini", "goose", "opencode", "vscode",
    "zed",
)  # fmt: skip
NAMES = ", ".join(CLIENTS)
_WRAPPED = {"JSON": config_edits.wrapped, "TOML": toml_edits.wrapped, "YAML": yaml_edits.wrapped}
_UNWRAPPED = {"JSON": config_edits.unwrapped, "TOML": toml_edits.unwrapped, "YAML": yaml_edits.unwrapped}
_REPAIRED = {"JSON": config_edits.repaired, "TOML": toml_edits.repaired, "YAML": yaml_edits.repaired}
_SERVER_NAMES = {
    "JSON": config_edits.server_names,
    "TOML": toml_edits.server_names,
    "YAML": yaml_edits.server_names,
}


@click.command(
    name="wrap", epilog=WRAP_EXAMPLES, short_help="Record the messages between a client and its servers."
)
@click.argument("client", required=False)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--check", "checks", is_flag=True, help="Find taps whose program no longer exists, and repair them."
)
def wrap_command(client: str | None, names: tuple[str, ...], checks: bool) -> int:
    """Put a tap in front of the programs that CLIENT starts as servers, or of the named ones.

    Its configuration file then starts `mcpdesk stdio -- COMMAND`, which forwards every byte and records it.
    Nothing else in the file changes. Under `uvx` or `pipx run`, `uvx mcpdesk` or the installed
    program is written into the file, because the environment of such a run is temporary.

    With --check no tap is added. Entries whose mcpdesk no longer exists, or is in a cache, are changed to the
    present one: for CLIENT, or for every known client.
    """
    require_unix("`mcpdesk wrap`", "the process groups and signals of a tap")
    if checks:
        if names:
            raise click.UsageError("--check checks every server of a file: omit the names.")
        return _check([client] if client is not None else list(CLIENTS))
    if client is None:
        raise click.UsageError("Missing argument 'CLIENT'.")
    path, text = _read(client)
    language = language_of(path, text)
    present = _SERVER_NAMES[language](text)
    if unknown := sorted(set(names) - set(present)):
        known = ", ".join(present) or "none"
        raise DeskUserError(f"{path} has no server {unknown[0]!r}.", f"Its servers: {known}.")
    edited = _WRAPPED[language](text, own_command(), names)
    if edited.changed:
        kept = _edit(path, text, edited.text, _original(path, text))
        print_text(f"{path}: added the tap to {', '.join(edited.changed)}.")
    else:
        print_text(f"{path}: nothing to do.")
    for name, reason in edited.left.items():
        print_text(f"  {name} is unchanged: {reason}")
    if edited.changed:
        print_text(f"The original file is kept: {kept}")
        print_message(
            "Restart the client; `mcpdesk open` shows the messages, `mcpdesk unwrap` removes the tap."
        )
    return OK


def _edit(path: Path, before: str, after: str, original: str) -> Path:
    """Write an edited configuration file. Back up its original for `unwrap`, and return the backup's path."""
    kept = _backup(path, after)
    _write(kept, original, 0o600)
    _replace(path, before, after)
    for other in kept.parent.glob(f"{_key(path)}-*"):
        if other != kept:
            other.unlink(missing_ok=True)
    return kept


def _check(clients: Sequence[str]) -> int:
    """Repair entries that start this program by a command that no longer exists or is temporary."""
    count, left, command = 0, 0, tuple[str, ...]()
    for path, text in _files(clients):
        reasons = list[str]()

        def is_dead(words: Sequence[str], reasons: list[str] = reasons) -> bool:
            reason = why_dead(words, os.environ, temporary_folders(os.environ))
            reasons.extend([reason] if reason and reason not in reasons else ())
            return bool(reason)

        count += 1
        repair = _REPAIRED[language_of(path, text)]
        found = repair(text, ("mcpdesk",), is_dead)
        if not found.changed and not found.left:
            continue
        print_text(f"{path}: dead: {', '.join((*found.changed, *found.left))} ({'; '.join(reasons)})")
        if found.changed:
            command = command or own_command()
            edited = repair(text, command, is_dead)
            # A server folder of ours in the file has no tap, and `unwrap` must not restore its dead program.
            _edit(path, text, edited.text, repair(_original(path, text), command, is_dead).text)
            print_text(f"  repaired: {', '.join(edited.changed)} starts {' '.join(command)}")
        for name, reason in found.left.items():
            print_text(f"  {name} is unchanged: {reason}")
            left += 1
    print_message(f"{count} configuration file{'s' * (count != 1)} read.")
    return TOOL_ERROR if left else OK


def _files(clients: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Yield every configuration file of the clients that has servers. Unreadable files are reported.

    Raises: DeskUserError if a single client has no readable file.
    """
    if len(clients) == 1:
        _read(clients[0])
    wanted = (place for each in clients for place in places(each, Path.home(), Path.cwd(), os.environ))
    for path in dict.fromkeys(place.resolve() for place in wanted if place.is_file()):
        try:
            text = read_text(path)
            content = parsed(path, text)
        except DeskUserError as error:
            print_message(f"mcpdesk: {error}")
            continue
        if isinstance(content, dict) and sections(content):
            yield path, text


@click.command(name="unwrap", epilog=UNWRAP_EXAMPLES, short_help="Undo `wrap`.")
@click.argument("client")
def unwrap_command(client: str) -> None:
    """Remove the taps from the configuration of CLIENT, and restore the file byte for byte.

    Changes made since `mcpdesk wrap` stay.
    """
    path, text = _read(client, is_wrapped=True)
    changed = _unwrapped(path, text).changed
    if not changed:
        print_text(f"{path} is not wrapped: it contains no tap.")
        return
    _replace(path, text, _original(path, text))
    print_text(f"{path}: removed the tap from {', '.join(changed)}.")
    print_message("Restart the client.")


@click.command(name="trust", epilog=TRUST_EXAMPLES, short_help="Trust the content of a configuration file.")
@click.argument("file", required=False)
@click.option("--yes", is_flag=True, help="Agree without a question.")
@click.option("--list", "lists", is_flag=True, help="List the files that you agreed to.")
@click.option("--forget", metavar="FILE", help="Withdraw your agreement to this file.")
def trust_command(file: str | None, yes: bool, lists: bool, forget: str | None) -> None:
    """Show what FILE would start, reach and read, and ask whether you agree to it.

    FILE may be a client, as in `mcpdesk wrap`. A configuration file is used after you have agreed to its
    content. If the content changes, you are asked again. This command starts nothing.
    """
    from mcpdesk.settings import resolve

    if [file is not None, lists, forget is not None].count(True) != 1:
        raise click.UsageError("Name a FILE, or use --list, or --forget FILE.")
    store = TrustStore(resolve({}, os.environ).settings.state_dir)
    if lists:
        _list_trusted(store)
    elif forget is not None:
        place = _config_file(forget)
        if not store.forget(place):
            raise DeskUserError(f"{place} is not trusted.", "See `mcpdesk trust --list`.")
        print_text(f"{place} is no longer trusted.")
    elif file is not None:
        _trust(store, _config_file(file), yes)


def _trust(store: TrustStore, path: Path, is_agreed: bool) -> None:
    """Ask for agreement to the content of a file. Raises: DeskUserError without an agreement."""
    config = read_config(path)
    if store.is_trusted(path, config.sha256):
        print_text(f"{path} is already trusted.")
        return
    print_untrusted(untrusted(config))
    if not is_agreed:
        if not can_ask():
            raise DeskUserError(
                f"{path} is not trusted, and no terminal is attached to ask.", "Agree with --yes."
            )
        if not click.confirm("Do you trust this content?", default=False, err=True):
            raise DeskUserError(f"{path} is not trusted.")
    store.trust(path, config.sha256)
    print_text(f"{path} is trusted until its content changes.")


def _list_trusted(store: TrustStore) -> None:
    found = store.read()
    rows = [
        (time.strftime("%Y-%m-%d %H:%M", time.localtime(each.agreed)), each.sha256[:12], each.path)
        for each in found.entries
    ]
    print_text("\n".join(aligned([("agreed", "sha256", "file"), *rows])))
    if found.dropped:
        print_message(f"{found.dropped} older entries were dropped.")


def _config_file(client: str) -> Path:
    """Return a client's file, preferably one with servers, or the file with that path."""
    wanted = places(client, Path.home(), Path.cwd(), os.environ)
    found = [place for place in wanted if place.is_file()]
    if len(found) > 1:
        found = [place for place in found if sections(parsed(place, read_text(place)))] or found
    return (found or wanted)[0].resolve()


def _replace(path: Path, before: str, after: str) -> None:
    """Write an edited configuration file. If its old content was trusted, the new content is, too.

    Raises: DeskUserError if it cannot be written.
    """
    store = TrustStore(state_folder())
    is_trusted = store.is_trusted(path, sha256_of(before))
    _write(path, after, stat.S_IMODE(path.stat().st_mode))
    if is_trusted:
        store.trust(path, sha256_of(after))


def places(client: str, home: Path, folder: Path, environ: Mapping[str, str]) -> list[Path]:
    """Possible paths of a client's configuration, nearest first. Any other name is the path of a file."""
    xdg = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    settings = home / "Library" / "Application Support" if sys.platform == "darwin" else xdg
    codex = Path(environ.get("CODEX_HOME") or home / ".codex")
    zed = home / ".config" if sys.platform == "darwin" else xdg
    opencode = ("opencode.json", "opencode.jsonc")
    known = {
        "claude-code": [folder / ".mcp.json", home / ".claude.json"],
        "claude-desktop": [settings / "Claude" / "claude_desktop_config.json"],
        "codex": [folder / ".codex" / "config.toml", codex / "config.toml"],
        "continue": [home / ".continue" / "config.yaml"],
        "cursor": [folder / ".cursor" / "mcp.json", home / ".cursor" / "mcp.json"],
        "gemini": [folder / ".gemini" / "settings.json", home / ".gemini" / "settings.json"],
        "goose": [xdg / "goose" / "config.yaml"],
        "opencode": [place / name for place in (folder, xdg / "opencode") for name in opencode],
        "vscode": [folder / ".vscode" / "mcp.json", settings / "Code" / "User" / "mcp.json"],
        "zed": [folder / ".zed" / "settings.json", zed / "zed" / "settings.json"],
    }
    return known.get(client) or [Path(client).expanduser()]


def _read(client: str, *, is_wrapped: bool = False) -> tuple[Path, str]:
    """Return resolved path and text of a client's file.

    This is the first one with servers, or with `is_wrapped` the first one with a tap.

    Raises: DeskUserError if it is missing or cannot be read.
    """
    wanted = places(client, Path.home(), Path.cwd(), os.environ)
    found: list[tuple[Path, str]] = []
    empty: list[Path] = []
    """Files without servers. An editor's settings may be in several files."""
    for path in (place.resolve() for place in wanted if place.is_file()):
        text = read_text(path)
        content = parsed(path, text)
        if not isinstance(content, dict):
            raise DeskUserError(f"{path} must contain an object with servers.")
        if not sections(content):
            empty.append(path)
        else:
            found.append((path, text))
    if not found and empty:
        hint = f"Keys that are read: {known_formats()}."
        raise DeskUserError(f"{empty[0]} contains no servers.", hint)
    if not found:
        looked = " or ".join(map(str, wanted))
        raise DeskUserError(f"File {looked} does not exist.", f"CLIENT is {NAMES}, or a configuration file.")
    if is_wrapped:
        found.sort(key=lambda each: not _unwrapped(*each).changed)
    return found[0]


def _unwrapped(path: Path, text: str) -> ConfigEdit:
    """Return the text of a file without the tap."""
    return _UNWRAPPED[language_of(path, text)](text)


def _original(path: Path, text: str) -> str:
    """Return the text without the tap. This is the backup if the file is unchanged since it was written."""
    try:
        return _backup(path, text).read_bytes().decode()
    except OSError:
        return _unwrapped(path, text).text


def _backup(path: Path, text: str) -> Path:
    """Path of the backup made before a file's content became `text`."""
    return state_folder() / "wrapped" / f"{_key(path)}-{_digest(text)}{path.suffix}"


def _key(path: Path) -> str:
    return f"{path.stem.strip('.')}-{_digest(str(path))}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _write(path: Path, text: str, mode: int) -> None:
    """Write a file atomically. Raises: DeskUserError if it cannot be written."""
    try:
        private_files.write(path, text.encode(), mode=mode)
    except OSError as error:
        raise DeskUserError(f"{path} cannot be written: {error.strerror}.", "Nothing was changed.") from None
