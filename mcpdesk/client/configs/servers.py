"""Servers and inputs of a configuration file, in one form for all formats."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from mcpdesk.client.oauth.login_options import NO_OPTIONS, LoginOptions


class InputVariable(Struct, frozen=True):
    """Value that VS Code asks the user for: `${input:name}`."""

    name: str
    description: str = ""
    is_secret: bool = False
    default: str = ""
    options: tuple[str, ...] = ()


class ConfiguredServer(Struct, frozen=True):
    """Server in a configuration file: a command or a URL."""

    name: str
    argv: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    """Variables added to the environment. `${NAME}` in the same entry may refer to them."""
    folder: str = ""
    url: str = ""
    headers: Mapping[str, str] = {}
    kind: str = ""
    """Transport in the file: `http`, `sse` or `ws`. Empty to detect it."""
    account: str = ""
    """Name of the login to use if the user has several logins for one URL."""
    login: LoginOptions = NO_OPTIONS
    """Login options. Texts may contain variables. File names are relative to the project."""
    environment_file: str = ""
    """File with further variables (VS Code's `envFile`). `environment` has precedence."""
    project: str = ""
    """Folder of the project that the entry belongs to, if the file has entries of several projects."""
    python_file: str = ""
    """Python file in `argv` whose existence and Python are determined once its configuration file is trusted.
    Empty for any other command.
    """
    project_python: tuple[str, ...] = ()
    """Command of the Python in the environment of the project of `python_file`, if it has an environment."""
    problem: str = ""
    """Reason why the server cannot be used, or an empty string."""
    is_only_in_client: bool = False
    """True if the entry is valid, but only its client can use the server. `problem` has the reason."""
    is_disabled: bool = False
    """True if the entry is switched off: its client does not start the server."""
    remarks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"ConfiguredServer({self.name!r})"  # environment and headers contain secrets
