"""Targets to add to the desk: folders to host, and upstream servers."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import click
from msgspec.structs import replace

from mcpdesk.cli.reach import ask_input, find_server, reach_options, server_folder
from mcpdesk.client.configs.client_places import is_client_server
from mcpdesk.client.configs.program_names import plain_name, program_name
from mcpdesk.client.oauth.login_options import NO_OPTIONS
from mcpdesk.client.targets import (
    COMMAND,
    CommandTarget,
    FolderTarget,
    RemoteTarget,
    Target,
    UrlTarget,
    command_text,
    configured_targets,
)
from mcpdesk.errors import DeskUserError
from mcpdesk.settings import Settings
from mcpdesk.upstream.target_transport import Reach

if TYPE_CHECKING:
    from mcpdesk.client.config_files import ConfigFile
    from mcpdesk.client.configs.servers import InputVariable
    from mcpdesk.client.trust import Agree
    from mcpdesk.client.untrusted_file import UntrustedFile
    from mcpdesk.upstream.upstream import UpstreamPlan

AskInput = Callable[["InputVariable"], str]


class DeskTargets(NamedTuple):
    """Folders to host and upstream servers."""

    folders: tuple[Path, ...] = ()
    upstreams: tuple[UpstreamPlan, ...] = ()

    def watching(self, paths: Sequence[Path]) -> DeskTargets:
        """Return the targets. Each program among them restarts when one of the files or folders changes.

        Raises: DeskUserError if no target is a program.
        """
        if not paths:
            return self
        if not any(isinstance(each.target, CommandTarget) for each in self.upstreams):
            hint = "Server folders are watched anyway. A server at a URL cannot be restarted from here."
            raise DeskUserError("--watch is for programs and Python files.", hint)
        resolved = tuple(path.resolve() for path in paths)
        return self._replace(
            upstreams=tuple(
                replace(plan, target=replace(plan.target, watched=(*plan.target.watched, *resolved)))
                if isinstance(plan.target, CommandTarget)
                else plan
                for plan in self.upstreams
            )
        )


class _TypedContext(NamedTuple):
    """Context in which a text that was typed at the desk is resolved."""

    used_names: Collection[str]
    settings: Settings
    agreed_sha256: str


def typed_targets(
    text: str, used_names: Collection[str], settings: Settings, agreed_sha256: str = ""
) -> DeskTargets:
    """Resolve a text that was typed at the desk. Words and options are the same as on the command line.

    `used_names` are the names of existing servers. `settings` are the settings of the core. `agreed_sha256`
    is the SHA-256 of a configuration file whose content the person agreed to.

    Raises: UntrustedFileError if the person has not agreed to the current content of the file; DeskUserError
    for an invalid target.
    """
    words = [text] if text and Path(text).expanduser().exists() else _words(text)
    try:
        context = _TypedContext(used_names, settings, agreed_sha256)
        targets: DeskTargets = _parse_typed.main(words, "add", standalone_mode=False, obj=context)
    except click.ClickException as error:
        raise DeskUserError(error.format_message()) from None
    return targets


@click.command(add_help_option=False)
@click.argument("targets", nargs=-1)
@reach_options
@click.pass_obj
def _parse_typed(context: _TypedContext, targets: tuple[str, ...], reach: Reach) -> DeskTargets:
    """Parse the words of a typed text. Raises: like `typed_targets`."""
    if not targets:
        raise DeskUserError("Missing target: a folder, a URL, a file or `-- COMMAND ARGS`.")

    def agree(config: ConfigFile) -> None:
        from mcpdesk.client.trust import TrustStore, UntrustedFileError, describe_untrusted

        store = TrustStore(context.settings.state_dir)
        is_agreed = reach.trusts_files or context.settings.trust
        if is_agreed or store.is_trusted(config.path, config.sha256):
            return
        if config.sha256 != context.agreed_sha256:
            raise UntrustedFileError(describe_untrusted(config))
        store.trust(config.path, config.sha256)

    return desk_targets(targets, reach, context.used_names, _refuse_input, agree=agree)


def untrusted_file(text: str, settings: Settings) -> UntrustedFile | None:
    """Return the configuration file in a typed text if the person must first agree to its content. Otherwise
    return None.
    """
    from mcpdesk.client.trust import UntrustedFileError

    try:
        typed_targets(text, (), settings)
    except UntrustedFileError as error:
        return error.file
    except DeskUserError:
        return None  # this error is reported when the target is added
    return None


def _refuse_input(variable: InputVariable) -> str:
    """Return the default of an input, because the desk cannot ask for the value.

    Raises: DeskUserError if the input has no default.
    """
    if variable.default:
        return variable.default
    hint = "Start mcpdesk with that file, or write the value into it."
    raise DeskUserError(f"${{input:{variable.name}}} must be typed in a terminal.", hint)


def _words(text: str) -> list[str]:
    """Split a command line into words. A prompt, `mcpdesk` and `desk` before the targets are dropped."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise DeskUserError(f"{text[:80]!r} cannot be read: {error}.", "Close the quotation mark.") from None
    for prefix in ("$", "mcpdesk", "desk"):
        words = words[1:] if words[:1] == [prefix] else words
    if words[:1] == ["-m"] and len(words) > 1:
        from mcpdesk.client.configs.python_commands import MODULE

        words = [MODULE + words[1], *words[2:]]
    if "--" not in words:
        return words
    separator = words.index("--")
    if not words[separator + 1 :]:
        raise DeskUserError("A command must follow `--`.", "Example: -- npx -y SERVER.")
    return [*words[:separator], command_text(words[separator + 1 :])]


def desk_targets(
    texts: Sequence[str],
    reach: Reach,
    existing_names: Collection[str] = (),
    ask: AskInput = ask_input,
    *,
    agree: Agree,
) -> DeskTargets:
    """Resolve texts to targets. A configuration file gives a target for each of its servers; any other text
    gives one target.

    `existing_names` are the names of existing servers. `ask` returns the value of an input of a configuration
    file. `agree` is called with the file before its content is used. Raises: DeskUserError for an invalid
    target.
    """
    folders: list[Path] = []
    upstreams: list[UpstreamPlan] = []
    for name, target in (pair for text in texts for pair in _named_targets(text, reach, ask, agree)):
        if isinstance(target, FolderTarget):
            folders.append(target.path)
            continue
        from mcpdesk.upstream.upstream import UpstreamPlan

        used_names = {each.name for each in upstreams} | {each.name for each in folders} | set(existing_names)
        server_reach = reach
        if isinstance(target, CommandTarget):
            server_reach = reach._replace(headers=(), token=None, key=None, account="", login=NO_OPTIONS)
        leads = not folders and not existing_names
        upstreams.append(
            UpstreamPlan(_unused_name(name, used_names), target, server_reach._replace(mode=""), leads=leads)
        )
    return DeskTargets(tuple(folders), tuple(upstreams))


def _named_targets(
    text: str, reach: Reach, ask: AskInput, agree: Agree
) -> Iterator[tuple[str, Target | RemoteTarget]]:
    """Yield the name and the target of each server that a text names."""
    if "://" not in text and not text.startswith(COMMAND) and Path(text).expanduser().is_dir():
        folder = server_folder(text)
        yield folder.name, FolderTarget(folder)
        return
    from mcpdesk.client.config_files import is_config_file

    if is_config_file(text):
        yield from configured_targets(Path(text).expanduser(), os.environ, ask, agree)
        return
    target = find_server(text, reach, ask, agree)
    if isinstance(target, FolderTarget):
        target = FolderTarget(server_folder(text))
    name = server_name(text, target)
    yield f"{name}-{reach.account}" if reach.account and isinstance(target, UrlTarget) else name, target


def server_name(text: str, target: Target) -> str:
    """Derive a server's name from its folder, file, entry, host or program."""
    if isinstance(target, FolderTarget):
        return target.path.name
    if is_client_server(text):
        return plain_name(text.partition(":")[2])
    if not isinstance(target, CommandTarget):
        return plain_name(urlsplit(target.url).hostname or "server")
    from mcpdesk.client.config_files import is_config_file
    from mcpdesk.client.configs.python_commands import module_target

    if not Path(text).exists() and (module := module_target(text, Path.cwd())):
        return plain_name(module[0])
    path, _, entry = text.rpartition(":")
    if entry and is_config_file(path):
        return plain_name(entry)
    if not text.startswith("$ "):
        return plain_name(Path(path or text).stem)
    return program_name(target.argv)


def _unused_name(name: str, used_names: set[str]) -> str:
    """Return the name. If it is in use, append a number."""
    candidate = plain_name(name)
    number = 1
    while candidate in used_names:
        number += 1
        candidate = f"{plain_name(name)}-{number}"
    return candidate
