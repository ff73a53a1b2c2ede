"""The bridge in two functions: the tools of a server for a model, and a call of one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mcpdesk.bridge.client import DEFAULT_TIMEOUT_S, Client, Target
from mcpdesk.bridge.model_api import ApiName, configured_api, model_api
from mcpdesk.bridge.schemas import ToolSchemas


async def tool_schemas(
    server_or_client: Target | Client, mode: str = "", api: ApiName | None = None, *, token: str | None = None
) -> ToolSchemas:
    """The tools of a server as a model API takes them.

    `server_or_client` is a folder, a URL, a `Server` or an open `Client`; `mode` one of the server's modes,
    which a client that is open has already chosen; `api` is `openai` (chat completions) or `anthropic`
    (messages), by default the one of the setting `model`, else `openai`. The answer is a list, ready to be
    the `tools` of a request. Its `names` lead from what the model calls a tool back to the server's name, its
    `remarks` say what had to be changed for the API.

    Raises: CallError when the server cannot be asked; DeskUserError for an unknown API, mode or folder.
    """
    place = server_or_client.target if isinstance(server_or_client, Client) else server_or_client
    rules = model_api(api or configured_api(place))
    async with _open(server_or_client, mode, token, DEFAULT_TIMEOUT_S) as client:
        return ToolSchemas(await client.list_tools(), rules)


async def call_tool(
    target: Target | Client,
    name: str,
    arguments: Mapping[str, Any] | None = None,
    token: str | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    *,
    mode: str = "",
) -> dict[str, Any]:
    """Call a tool once, by the server's name for it, and return its result as the protocol has it.

    `target` is a folder, a URL, a `Server` or an open `Client`; `token` a bearer token, which redirects do
    not carry elsewhere. A tool that failed is a result with `isError`; `format_result` makes a text of any.

    Raises: HttpError when HTTP said no or nothing; InvalidAnswer for an answer that is none; RpcError for a
    JSON-RPC error; CallTimeout when `timeout_s` seconds were over.
    """
    async with _open(target, mode, token, timeout_s) as client:
        return await client.call_tool(name, arguments, timeout_s=timeout_s)


@asynccontextmanager
async def _open(
    target: Target | Client, mode: str, token: str | None, timeout_s: float
) -> AsyncIterator[Client]:
    """The client itself, or one for as long as the block runs. Raises: ValueError for two opinions."""
    if not isinstance(target, Client):
        async with Client(target, mode=mode, token=token, timeout_s=timeout_s) as client:
            yield client
        return
    if mode not in ("", target.mode) or token is not None:
        raise ValueError("a client has its own mode and token: give them to Client()")
    yield target
