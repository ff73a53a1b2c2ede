"""A server's tools as functions for a model: schemas to send, functions to run, answers to send back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from mcpdesk.bridge.client import DEFAULT_TIMEOUT_S, Client, Target
from mcpdesk.bridge.model_schemas import ApiName, ToolSchema, ToolSchemas, configured_api, model_api
from mcpdesk.bridge.result_text import format_result
from mcpdesk.errors import CallTimeout, RpcError

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class ClientTool:
    """One tool as an async function: `await tool(name="Ada")` is the text of its result.

    `schema` goes to the model, `name` is what the model calls it, `original` what the server does.
    """

    def __init__(self, client: Client, tool: ToolSchema) -> None:
        self.name = self.__name__ = tool.name
        self.original = tool.original
        self.description = self.__doc__ = tool.description
        self.schema = tool.schema
        self._client = client
        self._tool_schema = tool

    async def __call__(self, **arguments: Any) -> str:
        """Call it. Raises: CallError when there is no result; a failure of the tool is a text."""
        return format_result(await self.call(arguments))

    async def call(
        self, arguments: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """The whole result. Raises: CallError."""
        given = self._tool_schema.for_server(arguments or {})
        return await self._client.call_tool(self.original, given, timeout_s=timeout_s)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"


class ClientTools(Sequence[ClientTool]):
    """All tools of a client, for one model API. `schemas` is what a request's `tools` should be."""

    def __init__(self, client: Client, schemas: ToolSchemas) -> None:
        self.schemas = schemas
        self._tools = [ClientTool(client, each) for each in schemas.tools]
        self._by_name = {tool.name: tool for tool in self._tools}

    def __len__(self) -> int:
        return len(self._tools)

    def __getitem__(self, key: Any) -> Any:
        """The tool at a position, or of a name the model uses."""
        return self._by_name[key] if isinstance(key, str) else self._tools[key]

    def __iter__(self) -> Iterator[ClientTool]:
        return iter(self._tools)

    def get(self, name: str) -> ClientTool | None:
        """The tool the model calls so, or None."""
        return self._by_name.get(name)

    async def answer(self, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Run what a model asked for and return the messages to add to the conversation after its own.

        `message` is the assistant's: of chat completions, with `tool_calls`; of messages, with `content`
        blocks of type `tool_use`. No message comes back when it asks for nothing. What the model can mend,
        such as wrong arguments or an unknown name, becomes an answer to it.

        Raises: HttpError, InvalidAnswer: what the model cannot mend.
        """
        if self.schemas.api.name == "openai":
            return [
                {
                    "role": "tool",
                    "tool_call_id": call.get("id", ""),
                    "content": format_result(await self._run(call)),
                }
                for call in message.get("tool_calls") or ()
            ]
        blocks = message.get("content")
        asked = (
            [each for each in blocks if each.get("type") == "tool_use"] if isinstance(blocks, list) else []
        )
        answers = [
            _tool_result(each["id"], await self._use(each["name"], each.get("input"))) for each in asked
        ]
        return [{"role": "user", "content": answers}] if answers else []

    async def _run(self, call: Mapping[str, Any]) -> dict[str, Any]:
        function = call.get("function") or {}
        try:
            arguments = json.loads(function.get("arguments") or "{}")
        except (ValueError, RecursionError) as error:
            return _failure(f"the arguments are not JSON: {error}")
        return await self._use(str(function.get("name", "")), arguments)

    async def _use(self, name: str, arguments: Any) -> dict[str, Any]:
        tool = self.get(name)
        if tool is None:
            return _failure(f"there is no tool {name!r}; there are: {', '.join(self._by_name) or 'none'}")
        if not isinstance(arguments, Mapping | None):
            return _failure("the arguments have to be an object")
        try:
            return await tool.call(arguments)
        except (RpcError, CallTimeout) as error:
            return _failure(error.message)


async def client_tools(client: Client, api: ApiName | None = None) -> ClientTools:
    """The tools of an open client, each an async function with the schema a model API wants.

    Without `api` it is the one of the setting `model`, else `openai`.

    >>> async with Client("sample_servers/hello") as client:
    ...     tools = await client_tools(client, "anthropic")
    ...     print(tools.schemas)
    ...     print(await tools["greet"](name="Ada"))

    Raises: CallError when the server cannot be asked; DeskUserError for an unknown API.
    """
    return ClientTools(
        client, ToolSchemas(await client.list_tools(), model_api(api or configured_api(client.target)))
    )


def _failure(reason: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": reason}], "isError": True}


def _tool_result(identifier: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """A result for the messages API, pictures included."""
    content: list[dict[str, Any]] = [{"type": "text", "text": format_result(result)}]
    for block in result["content"]:
        if block["type"] == "image" and block["mimeType"] in PICTURES:
            source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
            content.append({"type": "image", "source": source})
    answer = {"type": "tool_result", "tool_use_id": identifier, "content": content}
    return answer | {"is_error": True} if result.get("isError") else answer


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
