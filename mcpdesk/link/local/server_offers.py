"""Servers that an empty desk offers: in the working folder, and in the configurations of clients.

Nothing is started, and no code is imported.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from mcpdesk.client.config_files import read_config
from mcpdesk.client.discovery import FoundServer, FoundServers, discover
from mcpdesk.errors import DeskUserError
from mcpdesk.link.values import ServerOffer

MAX_OFFERS = 500
"""Maximum number of offers."""


def server_offers() -> tuple[ServerOffer, ...]:
    """Return the servers of the working folder, then those of client configurations. Blocks."""
    discovery = discover()
    offers = [
        *_folder_offers(Path.cwd()),
        *map(_offer, discovery.servers),
        *_problem_offers(discovery),
    ]
    return tuple(offers[:MAX_OFFERS])


def _folder_offers(folder: Path) -> Iterator[ServerOffer]:
    """Yield the Python file, the configuration file and the server folder at the working folder."""
    if (folder / "server.py").is_file():
        yield ServerOffer("server.py", "server.py", "Python file in this folder", runs_code=True)
    if (folder / "fastmcp.json").is_file():
        yield ServerOffer("./fastmcp.json", "fastmcp.json", "server of FastMCP in this folder")
    manifest = folder / "mcp.json"
    if manifest.is_file():
        try:
            count = len(read_config(manifest).servers)
        except DeskUserError:
            # A server folder. If its mcp.json is invalid, the desk shows the reason.
            yield ServerOffer(".", f"{folder.name or folder}/", "server folder with mcp.json", runs_code=True)
        else:
            yield ServerOffer("./mcp.json", "mcp.json", f"servers in this folder's configuration: {count}")
    elif (folder / "tools").is_dir():
        yield ServerOffer(".", f"{folder.name or folder}/", "server folder with tools", runs_code=True)


def _offer(server: FoundServer) -> ServerOffer:
    """Return the offer of a server in a client configuration."""
    note = f"{server.transport}, {server.address}{', disabled' if server.server.is_disabled else ''}"
    return ServerOffer(shlex.quote(server.target), server.target, note, server.server.problem)


def _problem_offers(discovery: FoundServers) -> Iterator[ServerOffer]:
    """Yield an offer that cannot be added for each configuration that cannot be read."""
    for problem in discovery.problems:
        home = Path.home()
        is_inside = problem.path.is_relative_to(home)
        path = Path("~", problem.path.relative_to(home)) if is_inside else problem.path
        yield ServerOffer("", f"{problem.client} configuration", "", f"{path}: {problem.reason}")
