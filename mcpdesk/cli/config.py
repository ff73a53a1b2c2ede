"""`mcpdesk config`: what to paste into a client so that it uses a server folder."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import click

from mcpdesk.cli import completion
from mcpdesk.cli.options import server_folder
from mcpdesk.cli.printing import print_text
from mcpdesk.errors import UnknownMode

PLACES = {
    "claude-desktop": "Paste it into claude_desktop_config.json (Settings, Developer, Edit Config); restart.",
    "cursor": "Paste it into ~/.cursor/mcp.json, or .cursor/mcp.json of a project.",
    "vscode": "Paste it into .vscode/mcp.json, or run `MCP: Open User Configuration`.",
    "claude-code": "Run it in a shell; add `--scope user` before the name for all your projects.",
}
"""Client -> where its configuration goes, in one sentence."""
EPILOG = """\b
Examples:
  mcpdesk config sample_servers/hello --for claude-desktop
  mcpdesk config ~/servers/profiles --for claude-code --mode review
  mcpdesk config ~/servers/profiles --for cursor --http http://127.0.0.1:3333

Without --http the client starts `mcpdesk stdio FOLDER` itself. With it, somebody has to run the desk or
`mcpdesk serve`; the key goes along when callers need it, so keep the text to yourself.
"""


@click.command(name="config", epilog=EPILOG, short_help="Print a client's configuration to paste.")
@click.argument("folder", metavar="FOLDER", shell_complete=completion.folder)
@click.option("--for", "client", type=click.Choice(tuple(PLACES)), required=True, help="The client.")
@click.option(
    "--http", "url", metavar="URL", help="Where the folder is served, such as http://127.0.0.1:3333."
)
@click.option("--mode", default="", metavar="NAME", help="Offer the tools of this mode alone.")
def config_command(folder: str, client: str, url: str | None, mode: str) -> None:
    """Print what to paste into a client so that it uses the server folder FOLDER."""
    from mcpdesk.cli.core_process import loaded
    from mcpdesk.hosting.client_config import ServerAddress, client_config, own_command
    from mcpdesk.hosting.folder.manifest import read_manifest
    from mcpdesk.hosting.host import Host
    from mcpdesk.hosting.host_plan import HostPlan, effective_settings

    place = server_folder(folder)
    manifest = read_manifest(place)
    if mode and mode not in manifest.modes:
        raise UnknownMode(manifest.name, mode, tuple(manifest.modes))
    address = ServerAddress(manifest.name, str(place), mode=mode, command=own_command())
    if url:
        settings = effective_settings({}, os.environ, place).settings
        host = Host(HostPlan((place,), settings, meet=False, watch=False))
        with loaded(host):  # what it offers decides whether callers need a key
            key = host.rules.api_key
        address = address._replace(url=_endpoint(url, manifest.name), key=key, header=settings.api_key_header)
    print_text(client_config(client, address, "http" if url else "stdio"))
    click.echo(PLACES[client], err=True)
    if url and manifest.auth.requires_jwt:
        click.echo("Callers need a bearer token, too: add it as the header Authorization.", err=True)


def _endpoint(url: str, name: str) -> str:
    """The URL of the server, where only that of the program was given. Raises: DeskUserError for no URL."""
    from mcpdesk.client.http_transports import checked_url

    parts = urlsplit(checked_url(url))
    bare = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    return bare if parts.path.strip("/") else f"{bare}/mcp/{name}"
