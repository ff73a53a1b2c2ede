"""The commands `wrap` and `unwrap`, which put taps into a client's configuration file."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from mcpdesk import private_files
from mcpdesk.cli.printing import OK, TOOL_ERROR, print_message, print_text
from mcpdesk.client.config_files import language_of, parse_config, read_text, sha256_of
from mcpdesk.client.configs.client_places import CLIENTS, config_paths
from mcpdesk.client.configs.formats import known_formats, sections
from mcpdesk.client.configs.own_program import failure_reason, own_command, temporary_folders
from mcpdesk.client.trust import TrustStore
from mcpdesk.errors import DeskUserError
from mcpdesk.features.tap import json_edits, toml_edits, yaml_edits
from mcpdesk.features.tap.json_edits import ConfigEdit
from mcpdesk.paths import state_folder
from mcpdesk.runtime.core_process import require_unix

WRAP_EXAMPLES = """\b
Examples:
  mcpdesk wrap claude-desktop
  mcpdesk wrap cursor files git
  mcpdesk wrap .mcp.json
  mcpdesk wrap --check                 repair the taps of every known client
  mcpdesk open                         show the messages live

CLIENT is the name of a client or the path of a configuration file. Known clients: claude-desktop,
claude-code, codex, continue, copilot, cursor, gemini, goose, junie, opencode, vscode, windsurf and zed. If
this folder has no configuration of the client, your personal one is used.
"""
UNWRAP_EXAMPLES = """\b
Examples:
  mcpdesk unwrap claude-desktop
  mcpdesk unwrap .mcp.json
"""
CLIENT_NAMES = ", ".join(CLIENTS)
# Functions by language of the file
_WRAP = {"JSON": json_edits.wrapped, "TOML": toml_edits.wrapped, "YAML": yaml_edits.wrapped}
_UNWRAP = {"JSON": json_edits.unwrapped, "TOML": toml_edits.unwrapped, "YAML": yaml_edits.unwrapped}
_REPAIR = {"JSON": json_edits.repaired, "TOML": toml_edits.repaired, "YAML": yaml_edits.repaired}
_SERVER_NAMES = {
    "JSON": json_edits.server_names,
    "TOML": toml_edits.server_names,
    "YAML": yaml_edits.server_names,
}


@click.command(
    name="wrap", epilog=WRAP_EXAMPLES, short_help="Record the messages between a client and its servers."
)
@click.argument("client", required=False)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--check", "checks", is_flag=True, help="Repair taps whose mcpdesk program no longer exists. Add no tap."
)
def wrap_command(client: str | None, names: tuple[str, ...], checks: bool) -> int:
    """Record the messages between CLIENT and the servers that it starts. If you give NAMEs, record only those
    servers.

    The command changes the client's configuration file. The client then starts `mcpdesk stdio -- COMMAND`,
    which is called a tap. The tap starts COMMAND, forwards every byte, and records it. Nothing else in the
    file changes.

    `uvx` and `pipx run` start mcpdesk from a cache, which can be deleted. If you use one of them, the command
    writes a program into the file that works later, too: an installed `mcpdesk` on PATH, otherwise `uvx
    mcpdesk` or `pipx run mcpdesk`.

    With --check, the command repairs taps of CLIENT, or of every known client. It replaces an mcpdesk program
    that no longer exists, or that is in a cache, by the one that you run now.
    """
    require_unix("`mcpdesk wrap`", "the process groups and signals of a tap")
    if checks:
        if names:
            raise click.UsageError("--check checks every server of a file: omit the names.")
        return _check([client] if client is not None else list(CLIENTS))
    if client is None:
        raise click.UsageError("Missing argument 'CLIENT'.")
    path, text = _read_config(client)
    language = language_of(path, text)
    server_names = _SERVER_NAMES[language](text)
    if unknown := sorted(set(names) - set(server_names)):
        existing = ", ".join(server_names) or "none"
        raise DeskUserError(f"{path} has no server {unknown[0]!r}.", f"Its servers: {existing}.")
    edited = _WRAP[language](text, own_command(), names)
    if edited.changed:
        backup = _write_edit(path, text, edited.text, _original_text(path, text))
        print_text(f"{path}: added the tap to {', '.join(edited.changed)}.")
    else:
        print_text(f"{path}: nothing to do.")
    for name, reason in edited.unchanged.items():
        print_text(f"  {name} is unchanged: {reason}")
    if edited.changed:
        print_text(f"The original file is kept: {backup}")
        print_message(
            "Restart the client; `mcpdesk open` shows the messages, `mcpdesk unwrap` removes the tap."
        )
    return OK


def _write_edit(path: Path, old_text: str, new_text: str, original: str) -> Path:
    """Write an edited configuration file, and a backup for `unwrap`. Return the path of the backup.

    `old_text` and `new_text` are the texts of the file before and after the edit. `original` is its text
    without taps, for the backup.
    """
    backup = _backup_path(path, new_text)
    _write_file(backup, original, 0o600)
    _write_config(path, old_text, new_text)
    for old_backup in backup.parent.glob(f"{_backup_key(path)}-*"):
        if old_backup != backup:
            old_backup.unlink(missing_ok=True)
    return backup


def _check(clients: Sequence[str]) -> int:
    """Repair entries that start mcpdesk by a command that no longer exists or is temporary.

    Return the exit code.
    """
    file_count = unrepaired_count = 0
    command = tuple[str, ...]()
    for path, text in _config_files(clients):
        reasons = list[str]()

        def is_dead(words: Sequence[str], reasons: list[str] = reasons) -> bool:
            reason = failure_reason(words, os.environ, temporary_folders(os.environ))
            if reason and reason not in reasons:
                reasons.append(reason)
            return bool(reason)

        file_count += 1
        repair = _REPAIR[language_of(path, text)]
        trial = repair(text, ("mcpdesk",), is_dead)  # finds the dead entries
        if not trial.changed and not trial.unchanged:
            continue
        dead_names = ", ".join((*trial.changed, *trial.unchanged))
        print_text(f"{path}: dead: {dead_names} ({'; '.join(reasons)})")
        if trial.changed:
            command = command or own_command()
            edited = repair(text, command, is_dead)
            # The file may also start mcpdesk directly for a server folder, without a tap. This entry is
            # repaired in the backup, too. Otherwise `unwrap` would restore the dead command.
            _write_edit(path, text, edited.text, repair(_original_text(path, text), command, is_dead).text)
            print_text(f"  repaired: {', '.join(edited.changed)} starts {' '.join(command)}")
        for name, reason in trial.unchanged.items():
            print_text(f"  {name} is unchanged: {reason}")
            unrepaired_count += 1
    print_message(f"{file_count} configuration file{'s' * (file_count != 1)} read.")
    return TOOL_ERROR if unrepaired_count else OK


def _config_files(clients: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Yield every configuration file of the clients that has servers. Unreadable files are reported.

    Raises: DeskUserError if only one client was given and it has no readable file with servers.
    """
    if len(clients) == 1:
        _read_config(clients[0])
    home, folder = Path.home(), Path.cwd()
    candidates = (path for each in clients for path in config_paths(each, home, folder, os.environ))
    for path in dict.fromkeys(each.resolve() for each in candidates if each.is_file()):
        try:
            text = read_text(path)
            content = parse_config(path, text)
        except DeskUserError as error:
            print_message(f"mcpdesk: {error}")
            continue
        if isinstance(content, dict) and sections(content):
            yield path, text


@click.command(name="unwrap", epilog=UNWRAP_EXAMPLES, short_help="Undo `wrap`.")
@click.argument("client")
def unwrap_command(client: str) -> None:
    """Remove the taps from the configuration file of CLIENT, and restore its content byte for byte. If you
    edited the file after `mcpdesk wrap`, your changes are kept.
    """
    path, text = _read_config(client, is_wrapped=True)
    changed = _unwrapped(path, text).changed
    if not changed:
        print_text(f"{path} is not wrapped: it contains no tap.")
        return
    _write_config(path, text, _original_text(path, text))
    print_text(f"{path}: removed the tap from {', '.join(changed)}.")
    print_message("Restart the client.")


def _write_config(path: Path, old_text: str, new_text: str) -> None:
    """Write an edited configuration file. If its old content was trusted, trust the new content as well.

    Raises: DeskUserError if the file cannot be written.
    """
    store = TrustStore(state_folder())
    is_trusted = store.is_trusted(path, sha256_of(old_text))
    _write_file(path, new_text, stat.S_IMODE(path.stat().st_mode))
    if is_trusted:
        store.trust(path, sha256_of(new_text))


def _read_config(client: str, *, is_wrapped: bool = False) -> tuple[Path, str]:
    """Return the resolved path and the text of the first configuration file of a client that has servers.

    If `is_wrapped`, a file with a tap is preferred. Raises: DeskUserError if there is no such file, or if a
    file cannot be read.
    """
    candidates = config_paths(client, Path.home(), Path.cwd(), os.environ)
    config_texts: list[tuple[Path, str]] = []
    files_without_servers: list[Path] = []
    """The settings of an editor may be in several files, and only one of them has servers."""
    for path in (candidate.resolve() for candidate in candidates if candidate.is_file()):
        text = read_text(path)
        content = parse_config(path, text)
        if not isinstance(content, dict):
            raise DeskUserError(f"{path} must contain an object with servers.")
        if not sections(content):
            files_without_servers.append(path)
        else:
            config_texts.append((path, text))
    if not config_texts and files_without_servers:
        hint = f"Keys that are read: {known_formats()}."
        raise DeskUserError(f"{files_without_servers[0]} contains no servers.", hint)
    if not config_texts:
        paths = " or ".join(map(str, candidates))
        raise DeskUserError(
            f"File {paths} does not exist.", f"CLIENT is {CLIENT_NAMES}, or a configuration file."
        )
    if is_wrapped:
        config_texts.sort(key=lambda each: not _unwrapped(*each).changed)
    return config_texts[0]


def _unwrapped(path: Path, text: str) -> ConfigEdit:
    """Return the text of a file without taps, and the servers that had a tap."""
    return _UNWRAP[language_of(path, text)](text)


def _original_text(path: Path, text: str) -> str:
    """Return the text of a file as it was before `wrap`.

    If mcpdesk wrote the present `text`, the backup has the earlier text. Otherwise the taps are removed from
    `text`.
    """
    try:
        return _backup_path(path, text).read_bytes().decode()
    except OSError:
        return _unwrapped(path, text).text


def _backup_path(path: Path, text: str) -> Path:
    """Return the path of the backup that was made when mcpdesk wrote `text` to a file."""
    return state_folder() / "wrapped" / f"{_backup_key(path)}-{_digest(text)}{path.suffix}"


def _backup_key(path: Path) -> str:
    return f"{path.stem.strip('.')}-{_digest(str(path))}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _write_file(path: Path, text: str, mode: int) -> None:
    """Write a file atomically. Raises: DeskUserError if it cannot be written."""
    try:
        private_files.write(path, text.encode(), mode=mode)
    except OSError as error:
        raise DeskUserError(f"{path} cannot be written: {error.strerror}.", "Nothing was changed.") from None
