"""`mcpdesk completion`: shell completion of commands, options, folders and tool names."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import BashComplete, CompletionItem

from mcpdesk.cli.printing import summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VARIABLE = "_MCPDESK_COMPLETE"
"""Environment variable that the shell's script sets when it requests completions."""
LISTING_TIMEOUT_S = 3.0
"""Time limit for a server to list its items, because a person waits for the shell."""
PARTS = ("mcp.json", "tools", "resources", "prompts", "skills", "src")
"""Files and folders that identify a server folder."""
MAX_FOLDERS = 200
"""Maximum number of entries of the working folder that are checked."""
MAX_SERVERS = 200
"""Maximum number of servers of client configurations that are suggested."""
_BASH_SCRIPT = """\
%(complete_func)s() {
    local IFS=$'\\n'
    local line=$COMP_LINE words=() current prefix="" index word gap response completion type value

    # Bash splits words at colons, as in cursor:github. This loop joins words that have no space between them.
    for ((index = 0; index <= COMP_CWORD; index++)); do
        word=${COMP_WORDS[index]}
        gap=$line
        if [[ -n $word ]]; then
            gap=${line%%%%"$word"*}
            line=${line#*"$word"}
        fi
        if [[ $index -gt 0 && -z $gap ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
    done

    # Bash replaces only the part after the last colon.
    current=${words[-1]}
    if [[ $COMP_WORDBREAKS == *:* && $current == *:* ]]; then
        prefix=${current%%"${current##*:}"}
    fi

    index=$((${#words[@]} - 1))
    response=$(env COMP_WORDS="${words[*]}" COMP_CWORD=$index %(complete_var)s=bash_complete "$1")

    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"

        if [[ $type == 'dir' ]]; then
            COMPREPLY=()
            compopt -o dirnames
        elif [[ $type == 'file' ]]; then
            COMPREPLY=()
            compopt -o default
        elif [[ $type == 'plain' ]]; then
            printf -v value %%q "${value#"$prefix"}"
            COMPREPLY+=("$value")
        fi
    done

    return 0
}

%(complete_func)s_setup() {
    complete -o nosort -F %(complete_func)s %(prog_name)s
}

%(complete_func)s_setup;
"""
"""Script for bash: a changed copy of the script in Click, which cannot complete words with colons."""


class _ColonBash(BashComplete):
    source_template = _BASH_SCRIPT


EPILOG = """\b
Examples:
  eval "$(mcpdesk completion bash)"          in ~/.bashrc
  eval "$(mcpdesk completion zsh)"           in ~/.zshrc
  mcpdesk completion fish | source           in ~/.config/fish/config.fish
"""


@click.command(name="completion", epilog=EPILOG, short_help="Print a shell completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print a script for your shell. With it, the Tab key completes commands, options, folders, and the
    names of tools and prompts.

    To complete such a name, the script gets the list from the server, as `mcpdesk list` does.
    """
    from click.shell_completion import get_completion_class

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    completion_class = _ColonBash if shell == "bash" else completion_class
    click.echo(completion_class(ctx.find_root().command, {}, "mcpdesk", VARIABLE).source())


def server_folders(incomplete: str) -> Iterator[CompletionItem]:
    """Complete the names of the server folders in the working folder. Paths with a slash do not match."""
    with contextlib.suppress(OSError), os.scandir() as entries:
        for entry in sorted(entries, key=lambda each: each.name)[:MAX_FOLDERS]:
            if entry.name.startswith(incomplete) and any(Path(entry.path, part).exists() for part in PARTS):
                yield CompletionItem(entry.name)


def folder(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete a folder at any depth. URLs are not completed."""
    return [] if "://" in incomplete else [CompletionItem(incomplete, type="dir")]


def target(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete an open connection, a server of a client's configuration, such as `cursor:github`, or a
    folder.
    """
    candidates = [*open_connections(incomplete), *discovered_servers(incomplete)]
    return candidates or folder(ctx, param, incomplete)


def open_connections(incomplete: str) -> list[CompletionItem]:
    """Complete the names of open connections."""
    from mcpdesk.features import features_with

    names = (name for each in features_with("open_connection_names") for name in each.open_connection_names())
    return [CompletionItem(name, help="open connection") for name in names if name.startswith(incomplete)]


def discovered_servers(incomplete: str) -> list[CompletionItem]:
    """Complete the servers of client configurations, such as `cursor:github`.

    The part before the colon must be the name of a client. Without a colon, it may also be the beginning of
    one. Empty for any other text.
    """
    from mcpdesk.client.configs.client_places import CLIENTS
    from mcpdesk.client.discovery import discover
    from mcpdesk.plain_text import clean

    client, colon, _ = incomplete.partition(":")
    clients = tuple(
        name for name in CLIENTS if name == client or (client and not colon and name.startswith(client))
    )
    if not clients:
        return []
    return [
        CompletionItem(server.target, help=clean(server.address, newlines=False)[:80])
        for server in discover(clients=clients).servers[:MAX_SERVERS]
        if server.target.startswith(incomplete) and server.target.isprintable()
    ]


def words(
    candidates: Iterable[str],
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return a completer for fixed words."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(word) for word in candidates if word.startswith(incomplete)]

    return complete


def items(method: str, key: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return a completer for the names of the target's tools or prompts, with their descriptions.

    `method` is the request for the list, such as `tools/list`. `key` is the key of the list in its result.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [
            CompletionItem(item["name"], help=summary(item)[:80])
            for item in _server_items(ctx, method, key)
            if str(item.get("name", "")).startswith(incomplete)
        ]

    return complete


def _server_items(ctx: click.Context, method: str, key: str) -> list[dict[str, Any]]:
    """Return the items that the target on the command line lists. Empty if it cannot be reached.

    Nothing is printed.
    """
    from mcpdesk.cli.command_client import client
    from mcpdesk.cli.reach import given_reach
    from mcpdesk.errors import DeskError

    target = str(ctx.params.get("target", ""))
    with open(os.devnull, "w") as null_device, contextlib.redirect_stderr(null_device):
        try:
            with client(target, given_reach(ctx.params), connect_s=LISTING_TIMEOUT_S) as peer:
                return peer.request_all(method, key, LISTING_TIMEOUT_S)
        except (DeskError, OSError):
            return []
