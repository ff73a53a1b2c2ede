"""Selection of servers for a check-up by the targets on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mcpdesk.cli.reach import similar_servers
from mcpdesk.client.config_files import ConfigFile, is_config_file, read_config
from mcpdesk.client.configs.client_places import CLIENTS, is_client_server
from mcpdesk.client.configs.servers import ConfiguredServer, InputVariable
from mcpdesk.client.discovery import FoundServer, FoundServers, discover, find_configured_server
from mcpdesk.client.targets import CommandTarget, UrlTarget, client_hint, split_target
from mcpdesk.client.trust import Agree, TrustStore, UntrustedFileError, describe_untrusted
from mcpdesk.errors import DeskUserError

if TYPE_CHECKING:
    from mcpdesk.settings import Settings


def only_trusted(settings: Settings, *, trusts_all: bool) -> Agree:
    """Return a function that refuses a file unless a person has already trusted its content.

    The function asks no person. It raises UntrustedFileError for a file that it refuses.
    """
    store = TrustStore(settings.state_dir)

    def agree(config: ConfigFile) -> None:
        if not (trusts_all or settings.trust or store.is_trusted(config.path, config.sha256)):
            raise UntrustedFileError(describe_untrusted(config))

    return agree


def no_input(variable: InputVariable) -> str:
    """Return the default of an input, because no person is asked. Raises: DeskUserError if it has none."""
    if variable.default:
        return variable.default
    message = f"${{input:{variable.name}}} must be typed in."
    raise DeskUserError(message, "Name the server as TARGET, in a terminal.")


def selected(targets: Sequence[str]) -> FoundServers:
    """Return the servers that the targets name, each once. Without targets, return all servers.

    Raises: DeskUserError for a target that names no server.
    """
    if not targets:
        return discover()
    discoveries = [_servers_of_target(target) for target in targets]
    servers = {(each.path, each.server.name): each for part in discoveries for each in part.servers}
    problems = dict.fromkeys(each for part in discoveries for each in part.problems)
    return FoundServers(
        tuple(servers.values()),
        tuple(problems),
        sum(part.files for part in discoveries),
        any(part.is_cut for part in discoveries),
    )


def with_connections(
    targets: Sequence[str], connections: Mapping[str, tuple[UrlTarget | CommandTarget, object]]
) -> FoundServers:
    """Return the servers that the targets name, and the servers of open connections.

    `connections` has the targets of open connections by name. Without targets and connections, return all
    servers of clients. Raises: DeskUserError for a target that names no server.
    """
    discovery = selected(targets) if targets or not connections else FoundServers((), (), 0)
    servers = tuple(_connection_server(name, target) for name, (target, _) in connections.items())
    return msgspec.structs.replace(discovery, servers=(*discovery.servers, *servers))


def _connection_server(name: str, target: UrlTarget | CommandTarget) -> FoundServer:
    """Return the server of an open connection. It is in no file."""
    if isinstance(target, UrlTarget):
        server = ConfiguredServer(name, url=target.url, kind=target.kind, headers=target.headers)
    else:
        server = ConfiguredServer(name, target.argv, target.environment, str(target.folder or ""))
    return FoundServer("", server, Path(), "", "connection", connection=name)


def _servers_of_target(target: str) -> FoundServers:
    """Return the servers that one target names. Raises: DeskUserError if it names none."""
    if target.removesuffix(":") in CLIENTS and not Path(target).exists():
        discovery = discover(clients=(target.removesuffix(":"),))
        if not (discovery.servers or discovery.problems):
            message = f"No configuration of {target.removesuffix(':')} has a server."
            hint = "`mcpdesk list` lists the servers of all clients."
            raise DeskUserError(message, hint, next_command="mcpdesk list")
        return discovery
    if is_client_server(target):
        path, name = find_configured_server(target)
        return _servers_of_file(path, name)
    path, name = split_target(target)
    if not is_config_file(str(path)):
        kinds = "A target is a client (`cursor:`), a server (`cursor:github`) or a configuration file."
        raise DeskUserError(
            f"{target[:200]!r} is not a client, an open connection or a configuration file.",
            client_hint(target)
            or similar_servers(target)
            or f"{kinds} `mcpdesk check TARGET` checks any other server.",
        )
    return _servers_of_file(path.expanduser(), name)


def _servers_of_file(path: Path, name: str) -> FoundServers:
    """Return the servers of a file, or only the server `name` if `name` is not "".

    If a client's own file cannot be read, this becomes a problem in the result, so that other targets are
    still examined. Raises: DeskUserError if any other file cannot be read, or if the file has no server
    `name`.
    """
    discovery = discover()
    servers = [each for each in discovery.servers if each.path.resolve() == path.resolve()]
    problems = tuple(each for each in discovery.problems if each.path.resolve() == path.resolve())
    if problems and not servers and not name:
        return FoundServers((), problems, 1)
    if not servers:
        config = read_config(path)
        scope = "project" if config.is_of_project else "user"
        servers = [FoundServer("", each, path.resolve(), config.sha256, scope) for each in config.servers]
    if name:
        servers = [each for each in servers if each.server.name == name]
    if not servers:
        read_config(path).server(name)  # raises the error for a missing server
    return FoundServers(tuple(servers), problems, 1)
