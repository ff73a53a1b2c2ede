"""The servers and inputs that a configuration file names, in one form for all formats."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from mcpdesk.client.oauth.login_options import NO_OPTIONS, LoginOptions


class InputVariable(Struct, frozen=True):
    """A value that VS Code asks a person for: `${input:name}`."""

    name: str
    description: str = ""
    is_secret: bool = False
    default: str = ""
    options: tuple[str, ...] = ()


class ConfiguredServer(Struct, frozen=True):
    """One server of a file: a command, or a URL."""

    name: str
    argv: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    """Variables added to the environment; also looked up by `${NAME}` in the same entry."""
    folder: str = ""
    url: str = ""
    headers: Mapping[str, str] = {}
    kind: str = ""
    """`http`, `sse` or `ws` where the file says so; empty: it is found out."""
    account: str = ""
    """Login to use, where a person has several for one URL."""
    login: LoginOptions = NO_OPTIONS
    """Login options; texts may contain variables, and file names are relative to the project."""
    environment_file: str = ""
    """File of more variables (VS Code's `envFile`); `environment` comes before it."""
    project: str = ""
    """Folder of the project that the entry belongs to, where one file has entries of several."""
    problem: str = ""
    """Why it cannot be used; empty when it can."""
    remarks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"ConfiguredServer({self.name!r})"  # environment and headers hold secrets
