"""How the commands that ask a server reach it: its mode, and what opens a guarded one."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import click

from mcpdesk.cli.printing import CANNOT_CONNECT, PROTOCOL_ERROR
from mcpdesk.errors import DeskError, DeskUserError, HttpError, RemoteProtocolError
from mcpdesk.protocol.jsonrpc import ErrorCode

REFUSED = frozenset({401, 403})
_TOKENS: dict[int, str] = {
    ErrorCode.UNAUTHORIZED: "Give a token with --token-env.",
    ErrorCode.FORBIDDEN: "Give another token with --token-env.",
}
_OPTIONS = (
    click.option("--mode", default="", metavar="NAME", help="Use the tools of this mode alone."),
    click.option("--token-env", metavar="VAR", help="The variable with the bearer token."),
    click.option("--key-env", metavar="VAR", help="For a URL: the variable with the API key."),
)


class Reach(NamedTuple):
    """How to reach a server, from the command line. Secrets come from environment variables."""

    mode: str = ""
    token: str | None = None
    key: str | None = None


HERE = Reach()
"""Nothing was said."""


def reach_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command those options; it gets them as `reach`."""

    @wraps(function)
    def reached(*given: Any, mode: str, token_env: str | None, key_env: str | None, **more: Any) -> Any:
        reach = Reach(mode, secret(token_env, "--token-env"), secret(key_env, "--key-env"))
        # Hosted code and its programs are not to see them, and one that is named like ours is no setting.
        for variable in (token_env, key_env):
            os.environ.pop(variable or "", None)
        return function(*given, reach=reach, **more)

    decorated: Callable[..., Any] = reached
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def secret(variable: str | None, flag: str) -> str | None:
    """What an environment variable holds. Raises: DeskUserError when it is not set."""
    if variable is None:
        return None
    value = os.environ.get(variable, "").strip()
    if not value:
        hint = f"Set it: {variable}=..."
        raise DeskUserError(f"{flag}: the environment variable {variable} is not set.", hint)
    return value


def is_url(target: str) -> bool:
    """Whether a target is a server somewhere else, and no folder."""
    return "://" in target


def folder_needs_no_key(reach: Reach) -> None:
    """Raises: DeskUserError for a key that would not be used."""
    if reach.key:
        raise DeskUserError("A folder needs no key.", "It is for a server at a URL.")


def schemas_need_neither(reach: Reach) -> None:
    """Raises: DeskUserError for a key or token that would not be used."""
    if reach.token or reach.key:
        message = "The schemas of a folder need no token and no key."
        raise DeskUserError(message, "They are for a server at a URL.")


def hinted(error: HttpError) -> DeskError:
    """The error, with what to do about it where a key or token is what is missing."""
    if error.status not in REFUSED:
        return error
    hint = "Give a token with --token-env, or the key with --key-env."
    return DeskUserError(str(error), hint, CANNOT_CONNECT)


def refusal(error: RemoteProtocolError) -> DeskError:
    """The error of a folder hosted here, with what to do about it where a token is what is missing."""
    hint = _TOKENS.get(error.code)
    return error if hint is None else DeskUserError(str(error), hint, PROTOCOL_ERROR)
