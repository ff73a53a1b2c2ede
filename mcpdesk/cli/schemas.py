"""`mcpdesk schemas`: the tools of a server as a model API wants them told."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import click

from mcpdesk.cli import completion
from mcpdesk.cli.options import Reach, is_url, reach_options, server_folder
from mcpdesk.cli.printing import print_json, print_message
from mcpdesk.errors import DeskUserError, HttpError

if TYPE_CHECKING:
    from mcpdesk.bridge import ApiName, ToolSchemas

APIS = ("openai", "anthropic")
EPILOG = """\b
Examples:
  mcpdesk schemas sample_servers/hello --for openai
  mcpdesk schemas ~/servers/profiles --for anthropic --mode review
  mcpdesk schemas http://127.0.0.1:3333/mcp/hello --for openai --key-env MCPDESK_API_KEY

The list goes to stdout, ready to be the `tools` of a request; what had to be changed for the API, to stderr.

Exit codes: 0 ok, 2 usage, 3 cannot connect, 4 protocol error, 5 timed out.
"""


@click.command(name="schemas", epilog=EPILOG, short_help="Print tools as model APIs take them.")
@click.argument("target", metavar="FOLDER|URL", shell_complete=completion.folder)
@click.option(
    "--for", "api", type=click.Choice(APIS), help="The API; by default that of the setting `model`."
)
@reach_options
@click.option("--timeout", "timeout_s", type=float, default=30.0, show_default=True, help="Seconds to wait.")
def schemas_command(target: str, api: ApiName | None, timeout_s: float, reach: Reach) -> None:
    """Print the tools of a server folder, or of the server at URL, as JSON schemas for a model API."""
    if is_url(target):
        found = asyncio.run(_of_url(target, api, reach, timeout_s))
    else:
        if reach.token or reach.key:
            message = "The schemas of a folder need no token and no key."
            raise DeskUserError(message, "They are for a server at a URL.")
        found = _of_folder(target, api, reach.mode)
    for remark in found.remarks:
        print_message(f"mcpdesk: {remark}")
    print_json(found)


async def _of_url(url: str, api: ApiName | None, reach: Reach, timeout_s: float) -> ToolSchemas:
    from mcpdesk.bridge import Client, tool_schemas
    from mcpdesk.cli.command_client import with_hint
    from mcpdesk.settings import resolve

    settings = resolve({}, os.environ).settings
    chosen = _chosen(api, settings.model)
    client = Client(
        url,
        mode=reach.mode,
        token=reach.token,
        api_key=reach.key,
        api_key_header=settings.api_key_header,
        timeout_s=timeout_s,
    )
    try:
        async with client:
            return await tool_schemas(client, api=chosen)
    except HttpError as error:
        raise with_hint(error) from None


def _of_folder(folder: str, api: ApiName | None, mode: str) -> ToolSchemas:
    """The folder is loaded as a server would load it; what its code prints goes to stderr."""
    from mcpdesk.bridge import tool_schemas
    from mcpdesk.cli.command_client import print_stray_output
    from mcpdesk.cli.core_process import loaded
    from mcpdesk.hosting.host import Host
    from mcpdesk.hosting.host_plan import HostPlan, effective_settings

    place = server_folder(folder)
    settings = effective_settings({}, os.environ, place).settings
    chosen = _chosen(api, settings.model)
    host = Host(HostPlan((place,), settings, http=False, meet=False, watch=False))
    with loaded(host):
        endpoint = host.endpoint("", mode)
        assert endpoint is not None
        found = asyncio.run(tool_schemas(endpoint.server, api=chosen))
    print_stray_output(host)
    return found


def _chosen(api: ApiName | None, model: str | None) -> ApiName:
    """Raises: DeskUserError when neither says anything."""
    if api is not None:
        return api
    if not model:
        raise DeskUserError("Which API are the schemas for?", f"Add --for {' or --for '.join(APIS)}.")
    from mcpdesk.bridge.model_schemas import api_of_model

    return api_of_model(model)
