"""`mcpdesk settings`: every setting's value and where it came from."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from mcpdesk import paths
from mcpdesk.cli import completion
from mcpdesk.cli.options import given_flags, server_folder, setting_options
from mcpdesk.cli.printing import aligned, print_text
from mcpdesk.settings import SETTINGS, Setting, allowed, value_text

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
def settings_command(folder: str | None, explain: bool, as_json: bool, **values: Any) -> None:
    """Show every setting, its value and where that came from: a flag, the environment, the env file or
    mcp.json of FOLDER, or the default. Below it, where captures and the rest are kept."""
    from mcpdesk.hosting.host_plan import effective_settings

    resolved = effective_settings(given_flags(values), os.environ, server_folder(folder) if folder else None)
    state, values_of = resolved.settings.state_dir, resolved.settings
    rows = [
        (each.name, value_text(each, getattr(values_of, each.name)), resolved.origins[each.name])
        for each in SETTINGS
    ]
    chosen = "environment MCPDESK_CONFIG_DIR" if os.environ.get("MCPDESK_CONFIG_DIR") else "default"
    places = [
        ("captures", str(paths.captures_folder(state)), "state_dir"),
        ("key", str(state / "api-key"), "state_dir"),
        ("configuration", str(paths.config_folder()), chosen),
        ("themes", str(paths.package_themes()), "bundled"),
        ("samples", str(paths.sample_servers()), "bundled"),
    ]
    if as_json:
        facts = {name: {"value": value, "origin": origin} for name, value, origin in rows + places}
        click.echo(json.dumps(facts))
        return
    parts = [
        "\n".join(aligned([("setting", "value", "origin"), *rows])),
        "\n".join(aligned([(name, value) for name, value, _ in places])),
    ]
    if explain:
        parts += map(explanation, SETTINGS)
    print_text("\n\n".join(parts))


def explanation(setting: Setting) -> str:
    """Return what a setting does, may be, and is called in the environment."""
    names = ", ".join(setting.environment)
    return f"{setting.name}\n  {setting.help}\n  Allowed: {allowed(setting)}.\n  Environment: {names}."
