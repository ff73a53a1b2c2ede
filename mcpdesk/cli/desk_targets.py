"""What is put on the desk: folders, and servers that are reached as a client reaches them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from mcpdesk.cli.options import server_folder
from mcpdesk.cli.reach import ask_input
from mcpdesk.client.config_files import is_config_file
from mcpdesk.client.targets import (
    CommandTarget,
    FolderTarget,
    RemoteTarget,
    Target,
    configured_targets,
    find_target,
    plain_name,
    program_name,
)
from mcpdesk.upstream.target_transport import Reach
from mcpdesk.upstream.upstream import UpstreamPlan


class DeskTargets(NamedTuple):
    """Targets, sorted by how they come onto the desk."""

    folders: tuple[Path, ...] = ()
    upstreams: tuple[UpstreamPlan, ...] = ()


def desk_targets(texts: Sequence[str], reach: Reach) -> DeskTargets:
    """What texts name: every server of a configuration file, one for anything else.

    Raises: DeskUserError for what cannot be put on the desk.
    """
    folders: list[Path] = []
    upstreams: list[UpstreamPlan] = []
    for name, target in (pair for text in texts for pair in _named(text, reach)):
        if isinstance(target, FolderTarget):
            folders.append(target.path)
            continue
        taken = {each.name for each in upstreams} | {each.name for each in folders}
        own = (
            reach
            if not isinstance(target, CommandTarget)
            else reach._replace(headers=(), token=None, key=None)
        )
        upstreams.append(UpstreamPlan(_free(name, taken), target, own._replace(mode="")))
    return DeskTargets(tuple(folders), tuple(upstreams))


def _named(text: str, reach: Reach) -> Iterator[tuple[str, Target | RemoteTarget]]:
    if is_config_file(text):
        yield from configured_targets(Path(text).expanduser(), os.environ, ask_input)
        return
    target = find_target(text, os.environ, ask_input, reach.packages)
    if isinstance(target, FolderTarget):
        target = FolderTarget(server_folder(text))
    yield server_name(text, target), target


def server_name(text: str, target: Target) -> str:
    """A name for a server: of its file, of the host of its URL, of its program."""
    if isinstance(target, FolderTarget):
        return target.path.name
    if not isinstance(target, CommandTarget):
        return plain_name(urlsplit(target.url).hostname or "server")
    file, _, name = text.partition(".json:")
    if name:
        return plain_name(name)
    if not text.startswith("$ "):
        return plain_name(Path(file.rpartition(":")[0] if ":" in file else file).stem)
    return program_name(target.argv)


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number when it is taken."""
    number, found = 1, plain_name(name)
    while found in taken:
        number += 1
        found = f"{plain_name(name)}-{number}"
    return found
