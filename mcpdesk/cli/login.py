"""`mcpdesk login` and `logout`: tokens of remote servers."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import webbrowser
from typing import TYPE_CHECKING, Any

import click

from mcpdesk.cli import completion
from mcpdesk.cli.printing import CANNOT_CONNECT, print_message, print_text
from mcpdesk.cli.reach import account_name, find_server, given_login, login_flags, named_connection
from mcpdesk.client.targets import FolderTarget, UrlTarget
from mcpdesk.errors import AuthorizationError, CallError, DeskUserError
from mcpdesk.transports.clean_terminal import is_terminal
from mcpdesk.upstream.target_transport import Reach, login_options

if TYPE_CHECKING:
    from mcpdesk.client.oauth.stored_grants import StoredGrants
    from mcpdesk.client.oauth.values import OAuthGrant

LOGIN_EXAMPLES = """\b
Examples:
  mcpdesk login https://mcp.example.com/mcp
  mcpdesk login cursor:github
  mcpdesk login https://mcp.example.com/mcp --account work
  mcpdesk login https://mcp.example.com/mcp --client-id abc --client-secret-env SECRET
  mcpdesk login https://mcp.example.com/mcp --client-id abc --client-secret-env SECRET --client-credentials
  mcpdesk login https://mcp.example.com/mcp --client-metadata-url https://example.com/client.json

With --account you can keep several logins for one URL. `mcpdesk URL --account work` uses one of them.

\b
The command opens your browser. Over ssh it prints the address instead. Your browser must then reach this
machine, so forward a port: `ssh -L 33427:127.0.0.1:33427 HOST`. Then log in with `--callback-port 33427`.
"""
LOGOUT_EXAMPLES = """\b
Example:
  mcpdesk logout https://mcp.example.com/mcp
"""


ACCOUNT = click.option(
    "--account",
    default="",
    metavar="NAME",
    help="Name of this login, if you keep several logins for the URL.",
)


TRUST = click.option(
    "--trust", is_flag=True, help="Use a configuration file without asking whether you trust its content."
)


@click.command(name="login", epilog=LOGIN_EXAMPLES, short_help="Log in to a remote server.")
@click.argument("target", shell_complete=completion.target)
@ACCOUNT
@TRUST
@login_flags(is_hidden=False)
@click.option("--timeout", "timeout_s", type=float, default=300.0, show_default=True, metavar="SECONDS",
              help="Time limit for the login in the browser.")  # fmt: skip
def login_command(target: str, account: str, trust: bool, timeout_s: float, **flags: Any) -> None:
    """Log in to the server TARGET, and store its token. The desk and all commands then use the token.

    TARGET is a URL, or a server with a URL in the configuration of a client, such as `cursor:github`. Its
    entry can then have the account and the options of the login.

    You log in with a browser. These options log in without one: --client-credentials and --client-key-file
    use the client's own secret or key, --assertion-env and --assertion-file use a token from your platform,
    and --idp-token-url uses your identity provider.
    """
    reach = Reach(account=account_name(account), login=given_login(flags), trusts_files=trust)
    from mcpdesk.client.oauth.browser_login import log_in

    server = server_at(target, reach)
    url = server.url
    account = reach.account or server.account
    store = token_store(account)
    try:
        grant = asyncio.run(
            log_in(
                url,
                store,
                show_address,
                options=login_options(server, reach),
                timeout_s=timeout_s,
                report_deviation=lambda text: print_message(f"warning: {text}"),
            )
        )
    except AuthorizationError as error:
        hint = error.hint or ("" if error.clause else "Ask who runs the server, or give --client-id.")
        raise DeskUserError(str(error), hint, CANNOT_CONNECT) from None
    print_text("\n".join(_token_lines(grant, store, account)))


@click.command(
    name="logout", epilog=LOGOUT_EXAMPLES, short_help="Revoke and forget the token of a remote server."
)
@click.argument("target", shell_complete=completion.target)
@ACCOUNT
@TRUST
def logout_command(target: str, account: str, trust: bool) -> None:
    """Delete the token of the server TARGET, and revoke it if the server supports that.

    TARGET is a URL, or a server with a URL in the configuration of a client, such as `cursor:github`.
    """
    server = server_at(target, Reach(trusts_files=trust))
    url = server.url
    account = account or server.account
    account_text = f" of the account {account}" if account else ""
    store = token_store(account)
    store.check()
    if store.grant(url) is None:
        raise DeskUserError(f"No token{account_text} for {url}.", f"Tokens are in {store.location}.")
    from mcpdesk.client.oauth.browser_login import revoke

    is_revoked = False
    try:
        is_revoked = asyncio.run(revoke(url, store))
    except CallError as error:
        print_message(f"warning: the token could not be revoked and may still be valid: {error}")
    store.forget(url)
    print_text(f"The token{account_text} for {url} was {'revoked and ' if is_revoked else ''}forgotten.")


def server_at(target: str, reach: Reach) -> UrlTarget:
    """Resolve a target to a URL, with the options of its entry in a configuration, or of its open connection.

    Raises: DeskUserError for a folder or program, because only a URL has a login.
    """
    connection = named_connection(target, Reach())  # the options of a login also apply to its server
    server_target = find_server(target, reach) if connection is None else connection.opened()[0]
    if isinstance(server_target, UrlTarget):
        return server_target
    kind = "server folder" if isinstance(server_target, FolderTarget) else "program"
    raise DeskUserError(f"{target} is a {kind}, which needs no login.", "Name a server with a URL.")


def token_store(account: str) -> StoredGrants:
    """Return the token store of an account, or of the default account."""
    from mcpdesk.client.oauth.stored_grants import open_grants
    from mcpdesk.settings import resolve

    return open_grants(resolve({}, os.environ).settings.state_dir, account_name(account))


def show_address(url: str) -> None:
    """Print an address for a person to visit, and open it if a browser is available."""
    print_message(f"Log in at\n{url}")
    has_browser = "SSH_CONNECTION" not in os.environ and is_terminal()
    if has_browser:
        # A text browser runs until the person closes it, and the login must answer its requests until then.
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()


def _token_lines(grant: OAuthGrant, store: StoredGrants, account: str) -> list[str]:
    """Return lines about a new token, for the person who logged in."""
    lines = [f"Logged in to {grant.resource} by {grant.issuer}{f', as {account}' if account else ''}."]
    if grant.scopes:
        lines.append(f"Scopes: {' '.join(grant.scopes)}.")
    if grant.expires is not None:
        minutes = max(0, round((grant.expires - time.time()) / 60))
        renewal = ", and is then renewed automatically" if grant.refresh_token else ""
        lines.append(f"The token lasts {minutes} minutes{renewal}.")
    lines.append(f"It is stored in {store.location}.")
    return lines
