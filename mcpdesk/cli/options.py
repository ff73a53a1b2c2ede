"""Options that commands share: one flag for every setting, server folders, and how to reach a server."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

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
    if is_url(text):
        raise DeskUserError(f"{text}: only server folders can be hosted here.", "Name a folder.")
    path = Path(text).expanduser()
    if not path.exists():
        hint = "A server folder has tools/, resources/ or prompts/."
        raise DeskUserError(f"There is no folder {text!r}.", hint)
    if not path.is_dir():
        meant = f"open {text}` to show a capture" if path.suffix == ".jsonl" else f"{path.parent}`"
        raise DeskUserError(f"{text!r} is a file, not a folder.", f"Did you mean `mcpdesk {meant}?")
    return path.resolve()


def is_url(target: str) -> bool:
    """Whether a target is a server somewhere else, and no folder."""
    return "://" in target


class Reach(NamedTuple):
    """How to reach a server, from the command line. Secrets come from environment variables."""

    mode: str = ""
    token: str | None = None
    key: str | None = None


def reach_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--mode`, `--token-env` and `--key-env`; it gets them as `reach`."""

    @click.option("--mode", default="", metavar="NAME", help="Use the tools of this mode alone.")
    @click.option("--token-env", metavar="VAR", help="The variable with the bearer token.")
    @click.option("--key-env", metavar="VAR", help="For a URL: the variable with the API key.")
    @wraps(function)
    def reached(*given: Any, mode: str, token_env: str | None, key_env: str | None, **more: Any) -> Any:
        reach = Reach(mode, secret(token_env, "--token-env"), secret(key_env, "--key-env"))
        # Hosted code and its programs must not see them, and one that is named like ours is no setting.
        for variable in (token_env, key_env):
            os.environ.pop(variable or "", None)
        return function(*given, reach=reach, **more)

    return reached


def secret(variable: str | None, flag: str) -> str | None:
    """Return what an environment variable holds. Raises: DeskUserError when it is not set."""
    if variable is None:
        return None
    value = os.environ.get(variable, "").strip()
    if not value:
        hint = f"Set it: {variable}=..."
        raise DeskUserError(f"{flag}: the environment variable {variable} is not set.", hint)
    return value
