"""Commands for one server: `mcpdesk schemas` and `config`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from mcpdesk.cli import completion
from mcpdesk.cli.printing import print_json, print_message, print_text
from mcpdesk.cli.reach import reach_options, secret, server_folder
from mcpdesk.cli.requests import TIMEOUT
from mcpdesk.errors import DeskUserError, UnknownMode
from mcpdesk.runtime.core_process import loaded_host
from mcpdesk.upstream.target_transport import Reach

if TYPE_CHECKING:
    from mcpdesk.bridge import ApiName, ToolSchemas
    from mcpdesk.hosting.endpoint import HostedEndpoint

SCHEMAS_EXAMPLES = """\b
Examples:
  mcpdesk schemas sample_servers/hello --for openai
  mcpdesk schemas ~/servers/profiles --for anthropic --mode review
  mcpdesk schemas http://127.0.0.1:3333/mcp/hello --for openai --key-env MCPDESK_API_KEY

Use the output as `tools` in a request to the API. If a schema had to be changed for the API, the change is
reported on stderr.

Exit codes: 0 ok, 2 invalid command, 3 cannot connect, 4 protocol error, 5 timed out.
"""
CONFIG_EXAMPLES = """\b
Examples:
  mcpdesk config sample_servers/hello --for claude-desktop
  mcpdesk config ~/servers/profiles --for claude-code --mode review
  mcpdesk config ~/servers/profiles --for cursor --http http://127.0.0.1:3333
  mcpdesk config ~/servers/wallet --for cursor --token-env WALLET_TOKEN

Without --http, the client starts `mcpdesk stdio FOLDER` itself. With --http, you must run the desk or
`mcpdesk serve`. If that server needs an API key, the printed text contains the key, so keep it secret.
The printed text also contains the token of --token-env.
"""
APIS = ("openai", "anthropic")
INSTRUCTIONS = {
    "claude-desktop": "Paste it into claude_desktop_config.json (Settings, Developer, Edit Config); restart.",
    "cursor": "Paste it into ~/.cursor/mcp.json, or .cursor/mcp.json of a project.",
    "vscode": "Paste it into .vscode/mcp.json, or run `MCP: Open User Configuration`.",
    "claude-code": "Run it in a shell; add `--scope user` before the name for all your projects.",
}
"""Instruction for adding the configuration, by client."""


@click.command(name="schemas", epilog=SCHEMAS_EXAMPLES, short_help="Print tools as model APIs take them.")
@click.argument("target", shell_complete=completion.target)
@click.option(
    "--for",
    "api",
    type=click.Choice(APIS),
    help="Model API that will receive the schemas. Default: the API of the setting `model`.",
)
@TIMEOUT
@reach_options
def schemas_command(target: str, api: ApiName | None, timeout_s: float, reach: Reach) -> None:
    """Print the tools of the server TARGET as JSON, in the form that a model API accepts."""
    if Path(target).expanduser().is_dir():
        if reach.token or reach.is_remote:
            message = "Tokens, keys and headers cannot be used with a folder."
            raise DeskUserError(message, "Use them with a URL, a command or a file.")
        schemas = _folder_schemas(target, api, reach.mode)
    else:
        schemas = _server_schemas(target, api, reach, timeout_s)
    for remark in schemas.remarks:
        print_message(f"mcpdesk: {remark}")
    print_json(schemas)


def _server_schemas(target: str, api: ApiName | None, reach: Reach, timeout_s: float) -> ToolSchemas:
    """Return the schemas of a server that is not a folder. Raises: DeskError."""
    from mcpdesk.bridge.model_schemas import ToolSchemas, model_api
    from mcpdesk.cli.command_client import client
    from mcpdesk.settings import resolve

    selected_api = _selected_api(api, resolve({}, os.environ).settings.model)
    with client(target, reach, connect_s=timeout_s, has_fixed_capabilities=True) as server:
        return ToolSchemas(server.request_all("tools/list", "tools", timeout_s), model_api(selected_api))


def _folder_schemas(folder: str, api: ApiName | None, mode: str) -> ToolSchemas:
    """Load a folder, and return the schemas of its tools. Output of its code goes to stderr."""
    from mcpdesk.bridge import tool_schemas
    from mcpdesk.cli.command_client import print_stray_output

    with loaded_host(server_folder(folder)) as host:
        endpoint = host.endpoint("", mode)
        assert endpoint is not None
        selected_api = _selected_api(api, host.settings.model)
        schemas = asyncio.run(tool_schemas(endpoint.server, api=selected_api))
    print_stray_output(host)
    return schemas


def _selected_api(api: ApiName | None, model: str | None) -> ApiName:
    """Return the given API, or else the API of the model. Raises: DeskUserError if neither is given."""
    if api is not None:
        return api
    if not model:
        raise DeskUserError("No model API was selected.", f"Add --for {' or --for '.join(APIS)}.")
    from mcpdesk.bridge.model_schemas import api_of_model

    return api_of_model(model)


@click.command(name="config", epilog=CONFIG_EXAMPLES, short_help="Print a client's configuration to paste.")
@click.argument("folder", metavar="FOLDER", shell_complete=completion.folder)
@click.option(
    "--for", "client", type=click.Choice(tuple(INSTRUCTIONS)), required=True, help="Client to configure."
)
@click.option(
    "--http",
    "url",
    metavar="URL",
    help="Address of a running server, such as http://127.0.0.1:3333. Default: use stdio.",
)
@click.option(
    "--mode",
    default="",
    metavar="NAME",
    help="Offer only the tools of this mode of the server. Default: all tools.",
)
@click.option(
    "--token-env",
    "variable",
    metavar="VAR",
    help="Environment variable with the bearer token for the client.",
)
def config_command(folder: str, client: str, url: str | None, mode: str, variable: str | None) -> None:
    """Print the configuration that connects an AI client to the server folder FOLDER.

    If every call of the server needs a token, add --token-env. This is not necessary with --http if mcp.json
    names an authorization server. The client then logs in there.
    """
    from mcpdesk.hosting.client_config import ServerAddress, client_config
    from mcpdesk.hosting.folder.manifest import read_manifest

    folder_path = server_folder(folder)
    manifest = read_manifest(folder_path)
    if mode and mode not in manifest.modes:
        raise UnknownMode(manifest.name, mode, tuple(manifest.modes))
    token = secret(variable, "--token-env") or ""
    if variable:
        os.environ.pop(variable, None)  # hosted code must not see the token
    address = ServerAddress(manifest.name, str(folder_path), mode=mode, token=token)
    notes = list[str]()
    if url or token or manifest.auth.jwt is not None:
        # The folder is loaded, because its tools decide whether callers need a key.
        with loaded_host(folder_path, http=bool(url)) as host:
            endpoint = host.endpoint("", mode)
            assert endpoint is not None
            access = endpoint.access
            key = host.rules.api_key if url else ""
            header = host.settings.api_key_header
            if token:
                notes += asyncio.run(_token_notes(endpoint, token))
            elif not access.requires_token and endpoint.server.token_tools:
                notes.append(_tools_without_token(endpoint.server.token_tools, bool(url)))
        address = address._replace(
            key=key,
            header=header,
            needs_token=access.requires_token,
            has_login=bool(access.authorization_servers),
        )
    if url:
        address = address._replace(url=_server_url(url, manifest.name))
    print_text(client_config(client, address, "http" if url else "stdio"))
    for line in (INSTRUCTIONS[client], *notes):
        print_message(line)


async def _token_notes(endpoint: HostedEndpoint, token: str) -> list[str]:
    """Return notes about a token that is written to a configuration.

    Raises: DeskUserError if the token is invalid, or if the server checks no tokens.
    """
    from mcpdesk.auth.keys import KeysMissing
    from mcpdesk.auth.principal import Rejected

    access = endpoint.access
    if access.verifier is None:
        hint = "Set auth.jwt in mcp.json to accept tokens."
        raise DeskUserError(f"{endpoint.name} does not accept tokens.", hint)
    try:
        holder = await access.verify(token)
    except Rejected as reason:
        message = f"The token is not valid for {endpoint.name}: {reason}."
        raise DeskUserError(message, "See --token-env.") from None
    except KeysMissing as reason:
        return [f"The token cannot be checked now: {reason}."]
    finally:
        access.verifier.close()  # the verifier may still load keys
    if not access.admits(holder):
        scopes = " ".join(sorted(access.scopes - holder.scopes))
        raise DeskUserError(f"The token lacks the scope {scopes}, which every request needs.")
    if holder.expires is None:
        return []
    expiry = time.strftime("%Y-%m-%d %H:%M", time.localtime(holder.expires))
    return [f"The token is valid until {expiry}; then write the configuration again, with a new one."]


def _tools_without_token(names: Sequence[str], is_http: bool) -> str:
    """Return a note about the tools that a configuration without a token cannot use."""
    requirement = f"{', '.join(names)} {'needs' if len(names) == 1 else 'need'} a token"
    if is_http:
        return f"{requirement}: add one with --token-env VAR, or let the client log in if it can."
    verb = "is" if len(names) == 1 else "are"
    return f"{requirement} and {verb} not listed without one: add it with --token-env VAR."


def _server_url(url: str, name: str) -> str:
    """Return the URL of the server. The path of the server is added if the URL has none. Raises:
    DeskUserError for an invalid URL.
    """
    from mcpdesk.client.http_transports import checked_url

    parts = urlsplit(checked_url(url))
    base_url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    return base_url if parts.path.strip("/") else f"{base_url}/mcp/{name}"
