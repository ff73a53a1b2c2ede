"""`mcpdesk settings`: every setting's value and where it came from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

import click

from mcpdesk import paths
from mcpdesk.cli import completion
from mcpdesk.cli.options import given_flags, server_folder, setting_options
from mcpdesk.cli.printing import aligned, print_text
from mcpdesk.settings import SETTINGS, Resolved, allowed, value_text

EPILOG = """\b
Examples:
  mcpdesk settings
  mcpdesk settings ~/servers/profiles --explain
  MCPDESK_PORT=4000 mcpdesk settings --json
"""


@click.command(name="settings", epilog=EPILOG, short_help="Show every setting, its value and its origin.")
@click.argument("folder", required=False, shell_complete=completion.folder)
@click.option("--explain", is_flag=True, help="Say what each setting does, may be, and is called elsewhere.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@setting_options
def command(folder: str | None, explain: bool, as_json: bool, **values: Any) -> None:
    """Show every setting, its value and where that came from: a flag, the environment, the env file or
    mcp.json of FOLDER, or the default. Below it, where captures and the rest are kept."""
    from mcpdesk.hosting.host_plan import effective_settings

    resolved = effective_settings(given_flags(values), os.environ, server_folder(folder) if folder else None)
    rows = list(setting_rows(resolved))
    places = list(place_rows(resolved))
    if as_json:
        click.echo(
            json.dumps({name: {"value": value, "origin": origin} for name, value, origin in rows + places})
        )
        return
    parts = [
        "\n".join(aligned([("setting", "value", "origin"), *rows])),
        "\n".join(aligned([(name, value) for name, value, _ in places])),
        *(explanations() if explain else ()),
    ]
    print_text("\n\n".join(parts))


def setting_rows(resolved: Resolved) -> Iterable[tuple[str, str, str]]:
    """Name, value and origin of every setting."""
    for setting in SETTINGS:
        yield (
            setting.name,
            value_text(setting, getattr(resolved.settings, setting.name)),
            resolved.origins[setting.name],
        )


def place_rows(resolved: Resolved) -> Iterable[tuple[str, str, str]]:
    """What is kept where."""
    state = resolved.settings.state_dir
    yield "captures", str(paths.captures_folder(state)), "state_dir"
    yield "key", str(state / "api-key"), "state_dir"
    chosen = os.environ.get("MCPDESK_CONFIG_DIR")
    yield (
        "configuration",
        str(paths.config_folder()),
        "environment MCPDESK_CONFIG_DIR" if chosen else "default",
    )
    yield "themes", str(paths.package_themes()), "bundled"
    yield "samples", str(paths.sample_servers()), "bundled"


def explanations() -> Iterable[str]:
    """One paragraph for every setting."""
    for setting in SETTINGS:
        names = ", ".join(setting.environment)
        yield f"{setting.name}\n  {setting.help}\n  Allowed: {allowed(setting)}.\n  Environment: {names}."
