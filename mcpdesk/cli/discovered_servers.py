"""Output of `mcpdesk list` without a target: the servers in the configurations of clients."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mcpdesk.cli.authoring.folder_source import has_command
from mcpdesk.cli.printing import aligned, print_json, print_message, print_text
from mcpdesk.client.configs.program_names import shell_word
from mcpdesk.client.discovery import FoundServer, FoundServers, discover
from mcpdesk.client.trust import TrustStore
from mcpdesk.plain_text import clean


def print_discovered(as_json: bool) -> None:
    """Print the servers, and on stderr the files that cannot be read."""
    from mcpdesk.settings import resolve

    discovery = discover()
    settings = resolve({}, os.environ).settings
    trusted = trusted_files(discovery, TrustStore(settings.state_dir), settings.trust)
    if as_json:
        print_json(
            {
                "servers": [server_facts(each, each.path in trusted) for each in discovery.servers],
                "problems": [
                    {"client": each.client, "file": str(each.path), "reason": each.reason}
                    for each in discovery.problems
                ],
            }
        )
        return
    if discovery.servers:
        rows = [_row(each, each.path in trusted) for each in discovery.servers]
        print_text("\n".join(aligned([("server", "transport", "program or url", "trusted", "file"), *rows])))
    else:
        print_text("No client on this machine has a server in its configuration.")
    for problem in discovery.problems:
        print_message(f"mcpdesk: {problem.client}: {problem.path}: {problem.reason}")
    for each in discovery.servers:
        if each.server.problem:
            print_message(f"mcpdesk: {each.target} cannot be used: {each.server.problem}")
    if discovery.is_cut:
        print_message("mcpdesk: there are more configuration files or servers than are listed.")
    if hint := _hint(discovery):
        print_message(hint)


def trusted_files(discovery: FoundServers, store: TrustStore, trusts_all: bool) -> set[Path]:
    """Return the files whose content the person agreed to."""
    contents = {(each.path, each.sha256) for each in discovery.servers}
    return {path for path, sha256 in contents if trusts_all or store.is_trusted(path, sha256)}


def _hint(discovery: FoundServers) -> str:
    """Return sentences with commands for the listed servers. Empty if no server is usable."""
    sentences = []
    if discovery.servers and has_command("doctor"):
        sentences.append("Check all of them: mcpdesk doctor.")
    usable = (each for each in discovery.servers if not each.server.problem and not each.server.is_disabled)
    if server := next(usable, None):
        sentences.append(f"Use a server: mcpdesk list {shell_word(server.target)}")
    return " ".join(sentences)


def _row(entry: FoundServer, is_trusted: bool) -> tuple[str, ...]:
    address = "cannot be used" if entry.server.problem else entry.address
    if entry.server.is_disabled:
        address = f"{address} (disabled)"
    cells = (entry.target, entry.transport, address, "yes" if is_trusted else "no", _home_path(entry.path))
    return tuple(clean(cell, newlines=False) for cell in cells)


def _home_path(path: Path) -> str:
    """Return the path as text. The home folder at its beginning is written as `~`."""
    home = Path.home()
    return f"~{os.sep}{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def server_facts(found_server: FoundServer, is_trusted: bool) -> dict[str, Any]:
    """Return the members of a server in the output of `mcpdesk list --json`."""
    return {
        "target": found_server.target,
        "client": found_server.client,
        "name": found_server.server.name,
        "scope": found_server.scope,
        "file": "" if found_server.connection else str(found_server.path),
        "project": found_server.server.project,
        "transport": found_server.transport,
        "address": "" if found_server.server.problem else found_server.address,
        "trusted": is_trusted,
        "disabled": found_server.server.is_disabled,
        "problem": found_server.server.problem,
        "remarks": list(found_server.server.remarks),
    }
