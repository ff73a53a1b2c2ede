"""Options shared by commands, such as a flag for each setting. Also the command `mcpdesk settings`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from mcpdesk import paths
from mcpdesk.cli import completion
from mcpdesk.cli.printing import aligned, print_message, print_text
from mcpdesk.cli.reach import server_folder
from mcpdesk.errors import DeskUserError
from mcpdesk.features import features_with
from mcpdesk.setting_values import Setting, SettingKind, allowed, value_text
from mcpdesk.settings import DEFAULT_WEB_ADDRESS, SETTINGS, WEB_ADDRESS

Command = TypeVar("Command", bound=Callable[..., Any])
CORE_OPTIONS = tuple(each for feature in features_with("core_options") for each in feature.core_options())
"""Options that features add to the commands that start a core: `mcpdesk` and `mcpdesk serve`."""

_HTTP_ADDRESS = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:]+\]|[^:\s]+)?:)?(?P<port>\d{1,5})")
SETTINGS_EXAMPLES = """\b
Examples:
  mcpdesk settings
  mcpdesk settings ~/servers/profiles --explain
  MCPDESK_PORT=4000 mcpdesk settings --json
"""
METAVARS = {
    SettingKind.TEXT: "TEXT",
    SettingKind.INTEGER: "NUMBER",
    SettingKind.BYTES: "BYTES",
    SettingKind.DURATION: "DURATION",
    SettingKind.SWITCH: "true|false",
    SettingKind.LIST: "A,B",
    SettingKind.PATH: "PATH",
}


def setting_options(function: Command) -> Command:
    """Add a flag for every setting that is not a secret, and `--http`, to a command."""
    for setting in reversed(SETTINGS):
        # `reach_options` has --trust, also for commands without other settings.
        if setting.kind is not SettingKind.SECRET and setting.name != "trust":
            function = _option(setting)(function)
    return click.option(
        "--http",
        metavar="HOST:PORT",
        help="Address to listen on; sets --host and --port. Default: 127.0.0.1:3333.",
    )(function)


def _option(setting: Setting) -> Callable[[Command], Command]:
    if setting.name == "no_auth":
        return click.option(setting.flag, setting.name, is_flag=True, default=None, help=setting.help)
    if setting.name == "web":  # the value of --web is optional, see `with_web_address`
        return click.option(setting.flag, setting.name, metavar="[HOST:PORT]", help=setting.help)
    text = f"{setting.help} [{value_text(setting, setting.default)}]"
    return click.option(setting.flag, setting.name, metavar=METAVARS[setting.kind], help=text)


def with_web_address(arguments: list[str]) -> list[str]:
    """Return the arguments. If `--web` has no value, insert the default value after `--web`."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    if "--web" not in arguments[:end]:
        return arguments
    value_index = arguments.index("--web") + 1
    if value_index < end and arguments[value_index] and re.fullmatch(WEB_ADDRESS, arguments[value_index]):
        return arguments
    return [*arguments[:value_index], DEFAULT_WEB_ADDRESS, *arguments[value_index:]]


def mode_option(function: Command) -> Command:
    """Add `--mode` to a command."""
    text = "Serve only the tools of this mode, to every client. Modes are defined in the folder's mcp.json."
    return click.option("--mode", default="", metavar="NAME", help=text)(function)


def core_options(function: Command) -> Command:
    """Add the options of features to a command that starts a core for clients."""
    for option in reversed(CORE_OPTIONS):
        function = option.add(function)
    return function


def feature_values(values: dict[str, Any]) -> dict[str, str]:
    """Remove the options of features from the options of a command. Return their values as texts, by name.

    Raises: DeskUserError.
    """
    return {each.name: each.read(values.pop(each.name)) for each in CORE_OPTIONS}


def given_flags(values: dict[str, Any]) -> dict[str, object]:
    """Return the flags of `setting_options` in the form that `settings.resolve` takes.

    Raises: DeskUserError if `--http` is invalid.
    """
    flags = {setting.name: values.get(setting.name) for setting in SETTINGS}
    if http := values.get("http"):
        match = _HTTP_ADDRESS.fullmatch(http)
        if match is None:
            raise DeskUserError(f"--http: invalid address {http!r}.", "Write HOST:PORT, or a PORT alone.")
        flags["host"] = (match["host"] or "").strip("[]") or flags["host"]
        flags["port"] = match["port"]
    return flags


@click.command(
    name="settings", epilog=SETTINGS_EXAMPLES, short_help="Show every setting, its value and its origin."
)
@click.argument("folder", required=False, shell_complete=completion.folder)
@click.option(
    "--explain", is_flag=True, help="Also describe each setting, its allowed values and its variables."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@setting_options
def settings_command(folder: str | None, explain: bool, as_json: bool, **values: Any) -> None:
    """Show every setting with its value and its source: a flag, an environment variable, the env file or
    mcp.json of FOLDER, or the default. Then show where captures, keys and other files are stored.

    If FOLDER contains a setting that a folder must not set, the setting is ignored and reported on
    stderr."""
    from mcpdesk.hosting.host_plan import effective_settings

    folder_path = server_folder(folder) if folder else None
    resolved = effective_settings(given_flags(values), os.environ, folder_path)
    if folder_path is not None:
        from mcpdesk.hosting.folder.folder_rights import refusals
        from mcpdesk.hosting.folder.manifest import read_manifest

        for refusal in refusals(folder_path, read_manifest(folder_path)):
            print_message(f"mcpdesk: {refusal}")
    settings = resolved.settings
    state_dir = settings.state_dir
    rows = [
        (each.name, value_text(each, getattr(settings, each.name)), resolved.origins[each.name])
        for each in SETTINGS
    ]
    config_origin = "environment MCPDESK_CONFIG_DIR" if os.environ.get("MCPDESK_CONFIG_DIR") else "default"
    locations = [
        ("captures", str(paths.captures_folder(state_dir)), "state_dir"),
        ("key", str(state_dir / "api-key"), "state_dir"),
        ("operator keys", str(state_dir / "operator"), "state_dir"),
        ("configuration", str(paths.config_folder()), config_origin),
        ("themes", str(paths.package_themes()), "bundled"),
        ("samples", str(paths.sample_servers()), "bundled"),
    ]
    if as_json:
        facts = {name: {"value": value, "origin": origin} for name, value, origin in rows + locations}
        click.echo(json.dumps(facts))
        return
    parts = [
        "\n".join(aligned([("setting", "value", "origin"), *rows])),
        "\n".join(aligned([(name, value) for name, value, _ in locations])),
    ]
    if explain:
        parts += map(explanation, SETTINGS)
    print_text("\n\n".join(parts))


def explanation(setting: Setting) -> str:
    """Describe a setting: its effect, allowed values, variables, and whether a folder may set it."""
    names = ", ".join(setting.environment)
    return (
        f"{setting.name}\n  {setting.help}\n  Allowed: {allowed(setting)}.\n  Environment: {names}."
        f"\n  A folder may set it: {setting.folder}."
    )
