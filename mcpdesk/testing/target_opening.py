"""Opens connections of tests to each kind of target, and defines their options."""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from msgspec.structs import replace

from mcpdesk.client.targets import CommandTarget, RemoteTarget, UrlTarget
from mcpdesk.errors import DeskUserError
from mcpdesk.protocol.revisions import BY_NAME, ERAS
from mcpdesk.testing.connected_server import ConnectedServer, connected, isolated

if TYPE_CHECKING:
    from mcpdesk.client.config_files import ConfigFile
    from mcpdesk.client.configs.servers import InputVariable
    from mcpdesk.upstream.target_transport import Reach

COMMAND = "-- "
"""Prefix of a target that is a command."""


class ConnectOptions(TypedDict, total=False):
    """Options of a connection; all are optional."""

    mode: str
    """Mode whose tools are used. Allowed only for a folder or a URL."""
    revision: str
    """Revision to use, such as `2025-11-25`, or an era: `handshake`, `stateless`. Default: the newest."""
    headers: Mapping[str, str]
    """Additional headers of every request. If given, a folder is served over HTTP."""
    token: str
    """Bearer token of the caller."""
    api_key: str
    """API key, for a URL."""
    account: str
    """Name of the login to use, for a URL."""
    environment: Mapping[str, str]
    """Additional environment variables of the program. If given, a separate process serves a folder."""
    folder: str | os.PathLike[str]
    """Working folder of the program."""
    packages: Sequence[str]
    """Packages that a Python file needs."""


@asynccontextmanager
async def opened(target: Any, options: ConnectOptions) -> AsyncIterator[ConnectedServer]:
    """Connect to a target: a text or a path as in the commands, or a server object.

    Raises: DeskError if the server cannot be hosted, started or reached; TypeError for an unknown option.
    """
    if unknown := sorted(options.keys() - ConnectOptions.__annotations__.keys()):
        allowed = ", ".join(ConnectOptions.__annotations__)
        raise TypeError(f"{unknown[0]!r} is not an option of a connection; allowed: {allowed}")
    reach = _reach(options)
    if not isinstance(target, str | os.PathLike):
        async with _connect_object(target, options, reach) as server:
            yield server
        return
    target_text = os.fspath(target)
    if (folder := _server_folder(target_text)) is not None:
        async with _connect_folder(folder, options, reach) as server:
            yield server
        return
    async with connected(_remote_target(target_text, options), reach) as server:
        yield server


def _server_folder(target_text: str) -> Path | None:
    return Path(target_text) if not target_text.startswith(COMMAND) and Path(target_text).is_dir() else None


def _reach(options: ConnectOptions) -> Reach:
    """Return the options of a connection as `Reach`. Raises: DeskUserError for an unknown revision."""
    from mcpdesk.upstream.target_transport import Reach

    revision_name = options.get("revision", "")
    revision = ERAS.get(revision_name, revision_name)
    if revision and revision not in BY_NAME:
        allowed = ", ".join((*BY_NAME, *ERAS))
        raise DeskUserError(f"Unknown revision {revision_name!r}.", f"Allowed: {allowed}.")
    return Reach(
        options.get("mode", ""),
        options.get("token"),
        options.get("api_key"),
        tuple(options.get("headers", {}).items()),
        revision,
        account=options.get("account", ""),
    )


def _connect_folder(
    folder: Path, options: ConnectOptions, reach: Reach
) -> AbstractAsyncContextManager[ConnectedServer]:
    """Host a folder with separate state. If `options` has environment variables, another process hosts the
    folder.
    """
    _refuse_options(options, ("api_key", "account", "folder", "packages"), "A folder")
    if environment := options.get("environment"):
        _refuse_options(options, ("headers", "token"), "A folder that gets variables")
        return isolated(folder, reach, "stdio", environment=environment)
    return isolated(folder, reach, "http" if reach.headers else "memory")


@asynccontextmanager
async def _connect_object(
    target: Any, options: ConnectOptions, reach: Reach
) -> AsyncIterator[ConnectedServer]:
    """Connect to a server object. Raises: DeskUserError for an unsupported option or object."""
    from mcpdesk.server.offer.server import Server
    from mcpdesk.testing.server_objects import object_url

    refused_names = ("mode", "environment", "folder", "packages", "account")
    if isinstance(target, Server):
        _refuse_options(options, (*refused_names, "headers", "api_key"), "A Server")
        async with connected(target, reach) as server:
            yield server
        return
    _refuse_options(options, refused_names, "A server object")
    with object_url(target) as url:
        async with connected(UrlTarget(url, kind="http"), reach) as server:
            yield server


def _remote_target(target_text: str, options: ConnectOptions) -> RemoteTarget:
    """Return the target of a text, with the options for a program. Raises: DeskUserError."""
    from mcpdesk.client.targets import FolderTarget, find_target

    if target_text.startswith(COMMAND):
        target: RemoteTarget | FolderTarget = CommandTarget(tuple(shlex.split(target_text[len(COMMAND) :])))
    else:
        target = find_target(
            target_text, os.environ, _refuse_input, _agree, tuple(options.get("packages", ()))
        )
    assert not isinstance(target, FolderTarget)
    if isinstance(target, CommandTarget):
        environment = {**target.environment, **options.get("environment", {})}
        folder = Path(options["folder"]) if "folder" in options else target.folder
        return replace(target, environment=environment, folder=folder)
    _refuse_options(options, ("environment", "folder"), "A server behind a URL")
    return target


def _refuse_options(options: ConnectOptions, names: Sequence[str], target_kind: str) -> None:
    """Check that options which a kind of target does not support are not used. Raises: DeskUserError."""
    if used_options := [name for name in names if options.get(name)]:
        raise DeskUserError(f"{target_kind} takes no {used_options[0]}.", "")


def _agree(config: ConfigFile) -> None:
    """Check that a person has agreed to the content of a file earlier. Tests cannot ask for an agreement.
    Raises: UntrustedFileError.
    """
    from mcpdesk.client.trust import TrustStore, UntrustedFileError, describe_untrusted
    from mcpdesk.settings import resolve

    settings = resolve({}, os.environ).settings
    if not settings.trust and not TrustStore(settings.state_dir).is_trusted(config.path, config.sha256):
        raise UntrustedFileError(describe_untrusted(config))


def _refuse_input(variable: InputVariable) -> str:
    raise DeskUserError(f"${{input:{variable.name}}} must be typed in, but no terminal is attached.")
