"""Options that commands share: one flag for every setting, server folders, and how to reach a server."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from mcpdesk.errors import DeskUserError
from mcpdesk.settings import SETTINGS, Setting, SettingKind, value_text

Command = TypeVar("Command", bound=Callable[..., Any])

_HTTP = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:]+\]|[^:\s]+)?:)?(?P<port>\d{1,5})")
METAVARS = {
    SettingKind.TEXT: "TEXT",
    SettingKind.INTEGER: "NUMBER",
    SettingKind.BYTES: "BYTES",
    SettingKind.SWITCH: "true|false",
    SettingKind.LIST: "A,B",
    SettingKind.PATH: "PATH",
}


def setting_options(function: Command) -> Command:
    """Give a command a flag for every setting that is no secret, and `--http`."""
    for setting in reversed(SETTINGS):
        if setting.kind is not SettingKind.SECRET:
            function = _option(setting)(function)
    return click.option("--http", metavar="HOST:PORT", help="Short for --host and --port.")(function)


def _option(setting: Setting) -> Callable[[Command], Command]:
    if setting.name == "no_auth":
        return click.option(setting.flag, setting.name, is_flag=True, default=None, help=setting.help)
    text = f"{setting.help} [{value_text(setting, setting.default)}]"
    return click.option(setting.flag, setting.name, metavar=METAVARS[setting.kind], help=text)


def mode_option(function: Command) -> Command:
    """Give a command `--mode`."""
    text = "Serve the tools of this mode alone, to everybody. The folder's mcp.json has its modes."
    return click.option("--mode", default="", metavar="NAME", help=text)(function)


def faults_option(function: Command) -> Command:
    """Give a command `--faults`."""
    text = "Let messages meet faults as the rules in FILE say; docs/faults.md has them."
    return click.option("--faults", metavar="FILE", type=click.Path(path_type=Path), help=text)(function)


def fault_rules(file: Path | None) -> str:
    """The rules of `--faults`, a line each. Raises: DeskUserError for a file that cannot be used."""
    if file is None:
        return ""
    from mcpdesk.hosting.holding.faults import FaultRules

    try:
        return FaultRules(file.expanduser().read_text("utf-8")).text
    except OSError as error:
        raise DeskUserError(f"--faults: {file} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise DeskUserError(f"--faults: {file}, {error}.", "A rule: delay 2s 10% for tool:echo") from None


def given_flags(values: dict[str, Any]) -> dict[str, object]:
    """Return the flags of `setting_options` in the form `settings.resolve` takes.

    Raises: DeskUserError when `--http` is not understood.
    """
    flags = {setting.name: values.get(setting.name) for setting in SETTINGS}
    if http := values.get("http"):
        found = _HTTP.fullmatch(http)
        if found is None:
            raise DeskUserError(f"--http: {http!r} is not understood.", "Write HOST:PORT, or a PORT alone.")
        flags["host"] = (found["host"] or "").strip("[]") or flags["host"]
        flags["port"] = found["port"]
    return flags


def server_folder(text: str) -> Path:
    """Return the folder that was named on the command line.

    Raises: DeskUserError when it is a URL, missing or a file.
    """
    if "://" in text:
        raise DeskUserError(f"{text}: only server folders can be hosted here.", "Name a folder.")
    path = Path(text).expanduser()
    if not path.exists():
        hint = "A server folder has tools/, resources/ or prompts/."
        raise DeskUserError(f"There is no folder {text!r}.", hint)
    if not path.is_dir():
        meant = f"open {text}` to show a capture" if path.suffix == ".jsonl" else f"{path.parent}`"
        raise DeskUserError(f"{text!r} is a file, not a folder.", f"Did you mean `mcpdesk {meant}?")
    return path.resolve()
