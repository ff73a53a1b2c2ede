"""Command line: finds the command, and reports errors.

The module of a command is imported when it is needed.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from mcpdesk.cli.printing import report, report_crash
from mcpdesk.errors import DeskError, DeskUserError
from mcpdesk.features import features_with
from mcpdesk.version import __version__

OWN_GROUPS: dict[str, dict[str, str]] = {
    "Show and serve": {
        "desk": "desk",
        "serve": "serve",
        "stdio": "serve",
        "attach": "desk",
        "open": "desk",
    },
    "Use a server": {
        "call": "requests",
        "list": "requests",
        "read": "requests",
        "prompt": "requests",
        "complete": "requests",
        "send": "send_command",
        "watch": "requests",
        "login": "login",
        "logout": "login",
    },
    "Build and test a server": {
        "new": "authoring.new",
        "schemas": "authoring.folders",
    },
    "Clients and recordings": {
        "config": "authoring.folders",
        "trust": "trust_command",
        "diff": "captures",
        "prune": "captures",
    },
    "This program": {
        "settings": "options",
        "keys": "keys_command",
        "skill": "skill_command",
        "completion": "completion",
        "help": "command_help",
    },
}
"""Groups of commands in the order of the help. Each command has the module that defines `<name>_command`.

`_groups` adds the commands of features.
"""


def _groups() -> dict[str, dict[str, str]]:
    groups = {
        title: {name: f"mcpdesk.cli.{module}" for name, module in commands.items()}
        for title, commands in OWN_GROUPS.items()
    }
    for name, command in FEATURE_COMMANDS.items():
        rows = list(groups[command.group].items())
        names = [each for each, _ in rows]
        position = names.index(command.before) if command.before in names else len(rows)
        groups[command.group] = dict([*rows[:position], (name, command.module), *rows[position:]])
    return groups


FEATURE_COMMANDS = {
    name: command for feature in features_with("commands") for name, command in feature.commands.items()
}
GROUPS = _groups()
COMMANDS = {name: module for group in GROUPS.values() for name, module in group.items()}

ANY_SERVER_COMMANDS = frozenset(
    {"call", "list", "read", "prompt", "complete", "send", "watch", "schemas"}
    | {name for name, command in FEATURE_COMMANDS.items() if command.takes_any_server}
)
"""Commands whose target may be any server. The target may also be given as a command line after `--`."""
WITH_SCREEN = frozenset({"desk", "attach", "open"})
"""Commands that show the full screen and therefore manage the terminal themselves."""
SEVERAL_SERVER_COMMANDS = frozenset({"desk", "serve"})
"""Commands that take several servers. The last server may be given as a command line after `--`."""
INTERRUPTED = 130
"""Exit code after Ctrl+C."""
OUTPUT_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""Values of `OSError.errno` after a failed write to stdout. `OSError.filename` is None in this case."""
EPILOG = """\b
Examples:
  mcpdesk                              the desk on the bundled sample
  mcpdesk -- npx -y @modelcontextprotocol/server-everything
                                       the desk on a program
  mcpdesk https://example.com/mcp      the desk on a URL
  mcpdesk .mcp.json                    the desk on every server of a client's configuration
  mcpdesk server.py                    the desk on a Python file of FastMCP or the SDK
  mcpdesk -m package.server:app        the desk on a server object of a module
  mcpdesk ~/servers/profiles           the desk on a server folder
  mcpdesk serve ~/servers/profiles     the same server without a screen
  mcpdesk stdio ~/servers/profiles     the command for a client's configuration
  mcpdesk call ~/servers/profiles user-profile user_id=42
"""


class Commands(click.Group):
    """Group that loads commands lazily. A first word that is not a command is a target of the desk."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their groups."""
        width = max(map(len, COMMANDS))
        for title, names in GROUPS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (name.ljust(width), each.get_short_help_str(formatter.width - 6 - width))
                        for name, each in commands
                        if each is not None
                    ]
                )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(COMMANDS[cmd_name]), f"{cmd_name.replace('-', '_')}_command")
        assert isinstance(command, click.Command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `desk` if there is no command, except while a shell completes the first word."""
        if ctx.resilient_parsing and not args:
            return super().parse_args(ctx, args)
        if "--web" in args:
            from mcpdesk.cli.options import with_web_address

            args = with_web_address(args)
        args = with_command(args)
        if args[0] in COMMANDS and args[0] not in (*WITH_SCREEN, "stdio") and not ctx.resilient_parsing:
            from mcpdesk.transports import clean_terminal

            clean_terminal.guard()
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands, server folders and servers of clients; any other word is completed as a path."""
        from mcpdesk.cli.completion import discovered_servers, folder, server_folders

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        completions = [
            *super().shell_complete(ctx, incomplete),
            *server_folders(incomplete),
            *discovered_servers(incomplete),
        ]
        return completions or folder(ctx, self.params[0], incomplete)


def with_command(arguments: list[str]) -> list[str]:
    """Return the arguments, beginning with a command or with an option of mcpdesk itself. If no command is
    given, insert `desk`. `-m MODULE` becomes a target.

    Raises: DeskUserError for a first word that is neither a command nor a target.
    """
    arguments = _with_module(arguments)
    first_word = arguments[0] if arguments else ""
    if "--" in arguments and (
        first_word in SEVERAL_SERVER_COMMANDS | ANY_SERVER_COMMANDS or first_word not in COMMANDS
    ):
        separator = arguments.index("--")
        argv = arguments[separator + 1 :]
        from mcpdesk.client.targets import command_text

        if not argv:
            hint = "Example: mcpdesk -- npx -y SERVER."
            raise DeskUserError("A command must follow `--`.", hint)
        if first_word in ANY_SERVER_COMMANDS:  # the command after `--` is the target
            return [first_word, command_text(argv), *arguments[1:separator]]
        arguments = [*arguments[:separator], command_text(argv)]
        return arguments if first_word in SEVERAL_SERVER_COMMANDS else ["desk", *arguments]
    if first_word in COMMANDS or first_word in ("--help", "-h", "--version"):
        return arguments
    if first_word and not first_word.startswith("-") and not _is_target(first_word):
        import difflib

        from mcpdesk.client.targets import client_hint

        similar_names = difflib.get_close_matches(first_word, COMMANDS, n=1)
        command = f"mcpdesk {similar_names[0] if similar_names else '--help'}"
        hint = f"Did you mean `{command}`?" if similar_names else f"See `{command}`."
        if client_hint_text := client_hint(first_word):
            hint = client_hint_text
            command = ""
        raise DeskUserError(f"Unknown command or folder {first_word!r}.", hint, next_command=command)
    return ["desk", *arguments]


def _with_module(arguments: list[str]) -> list[str]:
    """Replace `-m MODULE`, as the first words or after a command, by the target `module:MODULE`."""
    index = 1 if arguments[:1] and arguments[0] in COMMANDS else 0
    if arguments[index : index + 1] != ["-m"] or "_MCPDESK_COMPLETE" in os.environ:
        return arguments
    if arguments[index + 1 : index + 2] in ([], ["--"]):
        raise DeskUserError("A module must follow -m.", "Example: mcpdesk -m package.server:app.")
    from mcpdesk.client.configs.python_commands import MODULE

    return [*arguments[:index], MODULE + arguments[index + 1], *arguments[index + 2 :]]


def _is_target(word: str) -> bool:
    """Return True if a word names a target of the desk, such as a path, a URL or a server of a client."""
    if "://" in word or os.sep in word or Path(word).exists():
        return True
    from mcpdesk.client.configs.client_places import is_client_server
    from mcpdesk.client.configs.python_commands import module_target

    if is_client_server(word) or module_target(word, Path.cwd()) is not None:
        return True
    return any(word in each.open_connection_names() for each in features_with("open_connection_names"))


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
    subcommand_metavar="[COMMAND] [ARGS]...",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def program() -> None:
    """A desk for MCP servers, your own or any other: call their tools, watch every message and answer their
    questions.

    Without a command it opens the desk on the servers that follow: a program (-- COMMAND), a URL, a client's
    configuration file, a Python file, a folder.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Errors in the input are reported without a traceback."""
    command_words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = program.main(command_words, prog_name="mcpdesk", standalone_mode=False)
    except (DeskError, click.ClickException) as error:
        words = command_words[: command_words.index("--")] if "--" in command_words else command_words
        return report(error, as_json="--json" in words)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return 1
    except OSError as error:
        if error.errno not in OUTPUT_ERRORS or error.filename is not None:
            return report_crash()
        _discard_output()
        return report(DeskUserError(f"The output cannot be written: {error.strerror}."))
    except Exception:
        return report_crash()
    return code if isinstance(code, int) else 0


def _discard_output() -> None:
    """Discard the buffered output, because Python would report the error again when it flushes at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Run the command line and end the process with its exit code."""
    sys.exit(run())
