"""Help of the program: grouped commands, short help for commands with many options, and `mcpdesk help`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from mcpdesk.cli.printing import OK

_SHOWS_ALL_KEY = "mcpdesk.help_all"
"""Key in `Context.meta` that is set while all options are shown."""
EXAMPLES = """\b
Examples:
  mcpdesk help
  mcpdesk help serve
  mcpdesk help serve --all
"""


class BriefCommand(click.Command):
    """Command whose `--help` shows its common options, and `--help-all` all options."""

    def __init__(self, *args: Any, common: Sequence[str] = (), **options: Any) -> None:
        """`common` are names of parameters, in the order of the help."""
        super().__init__(*args, **options)
        self._common = tuple(common)
        self.params.append(
            click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_print_all,
                help="Show all options.",
            )
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the common options and the number of other options."""
        if ctx.meta.get(_SHOWS_ALL_KEY):
            super().format_options(ctx, formatter)
            return
        params = {param.name: param for param in self.get_params(ctx) if isinstance(param, click.Option)}
        records = {name: record for name, param in params.items() if (record := param.get_help_record(ctx))}
        help_names = [name for name, param in params.items() if {"--help", "--help-all"} & set(param.opts)]
        names = [*self._common, *help_names]
        title = f"Common options; --help-all shows {len(records.keys() - set(names))} more"
        with formatter.section(title):
            formatter.write_dl([records[name] for name in names])


def _print_all(ctx: click.Context, _: click.Parameter, is_given: bool) -> None:
    if is_given and not ctx.resilient_parsing:
        ctx.meta[_SHOWS_ALL_KEY] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


@click.command(name="help", epilog=EXAMPLES, short_help="Show this help, or that of a command.")
@click.argument("command", required=False)
@click.option(
    "--all", "shows_all", is_flag=True, help="Show all options of COMMAND, not only the common ones."
)
@click.pass_context
def help_command(ctx: click.Context, command: str | None, shows_all: bool) -> int:
    """Show the help of COMMAND. Without COMMAND, list all commands."""
    parent = ctx.find_root()
    group = parent.command
    assert isinstance(group, click.Group)
    if command is None:
        click.echo(parent.get_help())
        return OK
    subcommand = group.get_command(parent, command)
    if subcommand is None:
        raise click.UsageError(f"Unknown command {command!r}. See `mcpdesk help`.")
    with click.Context(subcommand, info_name=command, parent=parent) as context:
        context.meta[_SHOWS_ALL_KEY] = shows_all
        click.echo(context.get_help())
    return OK
