"""Tools of a server as functions for a model: schemas to send, functions to run, replies to send back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from mcpdesk.bridge.client import DEFAULT_TIMEOUT_S, Client, Target
from mcpdesk.bridge.model_schemas import ApiName, ToolSchema, ToolSchemas, configured_api, model_api
from mcpdesk.bridge.result_text import format_result
from mcpdesk.errors import CallTimeout, RpcError

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Media types of images that the Messages API accepts in the result of a tool."""


class ClientTool:
    """One tool as an async function: `await tool(name="Ada")` returns the text of its result.

    `schema` is the definition for the model. `name` is the name that the model uses for the tool, and
    `original` is the name at the server.
    """

    def __init__(self, client: Client, tool: ToolSchema) -> None:
        self.name = self.__name__ = tool.name
        self.original = tool.original
        self.description = self.__doc__ = tool.description
        self.schema = tool.schema
        self._client = client
        self._tool_schema = tool

    async def __call__(self, **arguments: Any) -> str:
        """Call the tool. A failure of the tool is returned as text. Raises: CallError."""
        return format_result(await self.call(arguments))

    async def call(
        self, arguments: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Call the tool and return the full result. Raises: CallError."""
        server_arguments = self._tool_schema.for_server(arguments or {})
        return await self._client.call_tool(self.original, server_arguments, timeout_s=timeout_s)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"


class ClientTools(Sequence[ClientTool]):
    """All tools of a client, for one model API. `schemas` is the value of `tools` in a request to the API."""

    def __init__(self, client: Client, schemas: ToolSchemas) -> None:
        self.schemas = schemas
        self._tools = [ClientTool(client, each) for each in schemas.tools]
        self._by_name = {tool.name: tool for tool in self._tools}

    def __len__(self) -> int:
        return len(self._tools)

    def __getitem__(self, key: Any) -> Any:
        """Return the tool at a position, or with the name that the model uses."""
        return self._by_name[key] if isinstance(key, str) else self._tools[key]

    def __iter__(self) -> Iterator[ClientTool]:
        return iter(self._tools)

    def get(self, name: str) -> ClientTool | None:
        """Return the tool with the name that the model uses, or None."""
        return self._by_name.get(name)

    async def answer(self, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Run the tool calls of a model, and return the messages to append to the conversation.

        `message` is the assistant's message. In the Chat Completions API (`openai`), it has `tool_calls`. In
        the Messages API (`anthropic`), it has `content` blocks of type `tool_use`. The returned list is empty
        if `message` contains no tool call. Errors that the model can correct, such as invalid arguments or an
        unknown name, are returned to the model.

        Raises: HttpError, InvalidAnswer: errors that the model cannot correct.
        """
        if self.schemas.api.name == "openai":
            return [
                {
                    "role": "tool",
                    "tool_call_id": call.get("id", ""),
                    "content": format_result(await self._run_tool_call(call)),
                }
                for call in message.get("tool_calls") or ()
            ]
        blocks = message.get("content")
        tool_uses = (
            [each for each in blocks if each.get("type") == "tool_use"] if isinstance(blocks, list) else []
        )
        answers = [
            _tool_result(each["id"], await self._call_tool(each["name"], each.get("input")))
            for each in tool_uses
        ]
        return [{"role": "user", "content": answers}] if answers else []

    async def _run_tool_call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """Run one of the `tool_calls` of the Chat Completions API."""
        function = call.get("function") or {}
        try:
            arguments = json.loads(function.get("arguments") or "{}")
        except (ValueError, RecursionError) as error:
            return _failure(f"the arguments are not JSON: {error}")
        return await self._call_tool(str(function.get("name", "")), arguments)

    async def _call_tool(self, name: str, arguments: Any) -> dict[str, Any]:
        """Call a tool. Errors that the model can correct are returned as failed results."""
        tool = self.get(name)
        if tool is None:
            return _failure(f"no tool {name!r}; tools: {', '.join(self._by_name) or 'none'}")
        if not isinstance(arguments, Mapping | None):
            return _failure("the arguments must be an object")
        try:
            return await tool.call(arguments)
        except (RpcError, CallTimeout) as error:
            return _failure(error.message)


async def client_tools(client: Client, api: ApiName | None = None) -> ClientTools:
    """Return the tools of an open client, each an async function with its schema for a model API.

    Without `api`, the API is `anthropic` if the setting `model` names a Claude model, and `openai` if not.

    >>> async with Client("sample_servers/hello") as client:
    ...     tools = await client_tools(client, "anthropic")
    ...     print(tools.schemas)
    ...     print(await tools["greet"](name="Ada"))

    Raises: CallError if the server cannot be reached; DeskUserError for an unknown API.
    """
    return ClientTools(
        client, ToolSchemas(await client.list_tools(), model_api(api or configured_api(client.target)))
    )


def _failure(reason: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": reason}], "isError": True}


def _tool_result(identifier: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result as a block of the Messages API, including images."""
    content: list[dict[str, Any]] = [{"type": "text", "text": format_result(result)}]
    for block in result.get("content", ()):
        if block["type"] == "image" and block["mimeType"] in IMAGE_TYPES:
            source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
            content.append({"type": "image", "source": source})
    answer = {"type": "tool_result", "tool_use_id": identifier, "content": content}
    return answer | {"is_error": True} if result.get("isError") else answer


async def tool_schemas(
    server_or_client: Target | Client, mode: str = "", api: ApiName | None = None, *, token: str | None = None
) -> ToolSchemas:
    """Return the tools of a server in the form of a model API.

    `server_or_client` is a folder, a URL, a `Server` or an open `Client`. `mode` is one of the server's
    modes. An open client already has its mode and token, so do not pass `mode` or `token` with it. `api` is
    `openai` (Chat Completions API) or `anthropic` (Messages API). If it is None, the API is `anthropic` if
    the setting `model` names a Claude model, and `openai` if not. The returned list can be used as `tools` in
    a request to the API. Its `names` map the name that the model uses for a tool to the name at the server.
    Its `remarks` list changes made for the API.

    Raises: CallError if the server cannot be reached; DeskUserError for an unknown API, mode or folder;
    ValueError for a token or another mode with an open client.
    """
    target = server_or_client.target if isinstance(server_or_client, Client) else server_or_client
    api_rules = model_api(api or configured_api(target))
    async with _open(server_or_client, mode, token, DEFAULT_TIMEOUT_S) as client:
        return ToolSchemas(await client.list_tools(), api_rules)


async def call_tool(
    target: Target | Client,
    name: str,
    arguments: Mapping[str, Any] | None = None,
    token: str | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    *,
    mode: str = "",
) -> dict[str, Any]:
    """Call a tool once, by its name at the server, and return its result in protocol form.

    `target` is a folder, a URL, a `Server` or an open `Client`. `token` is a bearer token, which is not sent
    to another origin on redirects. A tool that failed returns a result with `isError`; `format_result`
    converts any result to text.

    Raises: HttpError for an HTTP error or no connection; InvalidAnswer for an invalid response; RpcError for
    a JSON-RPC error; CallTimeout if it takes more than `timeout_s` seconds.
    """
    async with _open(target, mode, token, timeout_s) as client:
        return await client.call_tool(name, arguments, timeout_s=timeout_s)


@asynccontextmanager
async def _open(
    target: Target | Client, mode: str, token: str | None, timeout_s: float
) -> AsyncIterator[Client]:
    """Yield `target` if it is a client, or else a new client, which is closed at the end of the block.

    Raises: ValueError if `target` is a client, and a token or another mode is passed, too.
    """
    if not isinstance(target, Client):
        async with Client(target, mode=mode, token=token, timeout_s=timeout_s) as client:
            yield client
        return
    if mode not in ("", target.mode) or token is not None:
        raise ValueError("mode and token of an open client cannot be changed; pass them to Client()")
    yield target
