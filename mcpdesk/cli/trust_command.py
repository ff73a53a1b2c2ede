"""The command `trust`."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from mcpdesk.cli.printing import aligned, print_message, print_text
from mcpdesk.cli.reach import can_ask, print_untrusted
from mcpdesk.client.config_files import parse_config, read_config, read_text
from mcpdesk.client.configs.client_places import config_paths
from mcpdesk.client.configs.formats import sections
from mcpdesk.client.trust import TrustStore, describe_untrusted
from mcpdesk.errors import DeskUserError

TRUST_EXAMPLES = """\b
Examples:
  mcpdesk trust .mcp.json
  mcpdesk trust cursor --yes
  mcpdesk trust ~/.claude.json ~/.cursor/mcp.json
  mcpdesk trust --list
  mcpdesk trust --forget .mcp.json
"""


@click.command(name="trust", epilog=TRUST_EXAMPLES, short_help="Trust the content of a configuration file.")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--yes", is_flag=True, help="Trust each FILE without a question.")
@click.option("--list", "is_list", is_flag=True, help="List the files that you trust.")
@click.option("--forget", metavar="FILE", help="Stop trusting FILE.")
def trust_command(files: tuple[str, ...], yes: bool, is_list: bool, forget: str | None) -> None:
    """Show which programs the configuration file FILE starts, which URLs it connects to and which files it
    reads. Then ask whether you trust it. Several files are shown one after the other.

    mcpdesk uses a configuration file only if you trust its content. If the content changes, mcpdesk asks
    again. This command starts no program. FILE can also be the name of a client, as in `mcpdesk wrap`.
    """
    from mcpdesk.settings import resolve

    if [bool(files), is_list, forget is not None].count(True) != 1:
        raise click.UsageError("Name a FILE, or use --list, or --forget FILE.")
    store = TrustStore(resolve({}, os.environ).settings.state_dir)
    if is_list:
        _list_trusted(store)
    elif forget is not None:
        config_path = _config_file(forget)
        if not store.forget(config_path):
            raise DeskUserError(f"{config_path} is not trusted.", "See `mcpdesk trust --list`.")
        print_text(f"{config_path} is no longer trusted.")
    for file in files:
        _trust(store, _config_file(file), yes)


def _trust(store: TrustStore, path: Path, is_agreed: bool) -> None:
    """Ask for agreement to the content of a file. Raises: DeskUserError without an agreement."""
    config = read_config(path)
    if store.is_trusted(path, config.sha256):
        print_text(f"{path} is already trusted.")
        return
    print_untrusted(describe_untrusted(config))
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
    trusted_files = store.read()
    rows = [
        (time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.agreed)), entry.sha256[:12], entry.path)
        for entry in trusted_files.entries
    ]
    print_text("\n".join(aligned([("agreed", "sha256", "file"), *rows])))
    if trusted_files.dropped:
        print_message(f"{trusted_files.dropped} older entries were dropped.")


def _config_file(client_or_path: str) -> Path:
    """Return the absolute path of a client's configuration file, or of the file with a path.

    If a client has several files, one that contains servers is preferred.
    """
    candidates = config_paths(client_or_path, Path.home(), Path.cwd(), os.environ)
    existing = [path for path in candidates if path.is_file()]
    if len(existing) > 1:
        existing = [path for path in existing if sections(parse_config(path, read_text(path)))] or existing
    return (existing or candidates)[0].resolve()
