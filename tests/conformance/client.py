"""The client that the official suite starts: `python -m tests.conformance.client URL`.

The suite names the scenario in `MCP_CONFORMANCE_SCENARIO` and gives what it needs in
`MCP_CONFORMANCE_CONTEXT`. It uses `mcpdesk.client` like a person: open a connection, list the items, call
them, and answer questions.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import aiohttp
from msgspec.structs import replace

from mcpdesk.client.connection import Questions, ServerConnection
from mcpdesk.client.http_transports import StreamableHttp
from mcpdesk.client.oauth.authorizer import Authorizer
from mcpdesk.client.oauth.login_options import LoginOptions, Secret
from mcpdesk.errors import CallError, DeskError
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.revisions import BY_NAME
from tests.support.grants import GrantsInMemory

DEADLINE_S = 25.0
"""A client that hangs would hold up the whole suite."""
REDIRECT = "http://127.0.0.1:33418/callback"
METADATA_URL = "https://conformance-test.local/client-metadata.json"
"""The suite's own: it never fetches it."""
IDENTITY = {"name": "mcpdesk", "version": "1"}
SAMPLES = {"string": "text", "number": 5, "integer": 5, "boolean": True, "array": [], "object": {}}


def main() -> int:
    """Run the scenario; 0 when everything was answered."""
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
    try:
        asyncio.run(asyncio.wait_for(_run(sys.argv[-1], scenario, revision, context), DEADLINE_S))
    except (DeskError, TimeoutError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


async def _run(url: str, scenario: str, revision: str, context: dict[str, Any]) -> None:
    spoken = BY_NAME[revision] if revision else None
    is_pinned = spoken is not None and not spoken.is_stateless
    options = _options(context)
    assert not options.problem(), options.problem()
    setup = options if options.is_machine else options.setup(REDIRECT)
    authorizer = Authorizer(url, setup, GrantsInMemory(), _visit)
    connection = ServerConnection(
        StreamableHttp(url, {}, authorizer=authorizer),
        IDENTITY,
        questions=lambda: QUESTIONS,
        revision=spoken if is_pinned else None,
    )
    try:
        await _use(connection, scenario, context)
    finally:
        await connection.close()


def _options(context: dict[str, Any]) -> LoginOptions:
    """Options of the login, from the scenario's context."""
    options = LoginOptions(client_metadata_url=METADATA_URL, client_issuer=context.get("issuer", ""))
    match context:
        case {"idp_token_endpoint": provider, "idp_client_id": identifier, "idp_id_token": token}:
            return replace(
                options,
                provider_url=provider,
                provider_client_id=identifier,
                id_token=Secret(token),
                client_id=context["client_id"],
                client_secret=Secret(context["client_secret"]),
            )
        case {"valid_jwt": token}:
            return replace(options, assertion=Secret(token))
        case {"private_key_pem": key, "client_id": identifier}:
            return replace(options, client_id=identifier, client_key=Secret(key), uses_credentials=True)
        case {"client_id": identifier, "client_secret": secret}:
            is_machine = context.get("name") == "auth/client-credentials-basic"
            given = Secret(secret)
            return replace(options, client_id=identifier, client_secret=given, uses_credentials=is_machine)
    return options


async def _visit(url: str) -> str:
    """Log in as the suite's person: its server sends the browser back at once."""
    async with aiohttp.ClientSession() as browser, browser.get(url, allow_redirects=False) as answer:
        return answer.headers["Location"]


async def _use(connection: ServerConnection, scenario: str, context: dict[str, Any]) -> None:
    """List everything and use it once."""
    await connection.open()
    await connection.open_listening_stream()  # some servers ask on a separate stream
    if scenario.startswith("sep-2640"):
        await _use_skills(connection, scenario)
        return
    tools = await _listed(connection, "tools/list", "tools")
    if scenario == "json-schema-2020-12-preservation":
        await _echo_schema(connection, tools)
        return
    for name, arguments in _calls(tools, context):
        try:
            await connection.result("tools/call", {"name": name, "arguments": arguments})
        except CallError as error:
            if scenario.startswith("auth/"):
                raise
            print(f"{name}: {error}", file=sys.stderr)
    for resource in await _listed(connection, "resources/list", "resources"):
        await connection.request("resources/read", {"uri": resource["uri"]})
    for prompt in await _listed(connection, "prompts/list", "prompts"):
        await connection.request("prompts/get", {"name": prompt["name"]})


async def _listed(connection: ServerConnection, method: str, key: str) -> list[JSONObject]:
    """Items of a list, or [] if the server does not offer it."""
    try:
        return await connection.list_all(method, key)
    except CallError as error:
        if method == "tools/list":
            raise
        print(f"{method}: {error}", file=sys.stderr)
        return []


def _calls(tools: list[JSONObject], context: dict[str, Any]) -> list[tuple[str, JSONObject]]:
    """Calls the scenario names, or one of each tool with generated arguments."""
    if "toolCalls" in context:
        return [(each["name"], each["arguments"]) for each in context["toolCalls"]]
    return [(tool["name"], _arguments(tool["inputSchema"])) for tool in tools]


def _arguments(schema: JSONObject) -> JSONObject:
    properties = schema.get("properties", {})
    return {
        name: properties[name].get("default", SAMPLES.get(properties[name].get("type", "string"), "text"))
        for name in schema.get("required", ())
        if name in properties
    }


async def _echo_schema(connection: ServerConnection, tools: list[JSONObject]) -> None:
    schema = tools[0]["inputSchema"]
    await connection.result("tools/call", {"name": "json_schema_echo", "arguments": {"schema": schema}})


async def _use_skills(connection: ServerConnection, scenario: str) -> None:
    """List the skills; load each and read its other files, unless the scenario is only about the list."""
    for entry in await connection.skills.listed():
        for file in () if scenario.endswith("no-prefetch") else entry["resources"]:
            await connection.result("resources/read", {"uri": file["uri"]})


async def _elicited(params: JSONObject, subject: str) -> JSONObject:
    """Accept a form with its defaults, and what has none with a sample."""
    properties = params.get("requestedSchema", {}).get("properties", {})
    content = {
        name: each["default"] if "default" in each else SAMPLES.get(each.get("type", "string"), "text")
        for name, each in properties.items()
    }
    return {"action": "accept", "content": content}


async def _sampled(params: JSONObject, subject: str) -> JSONObject:
    return {"role": "assistant", "model": "none", "content": {"type": "text", "text": "fine"}}


async def _roots(params: JSONObject, subject: str) -> JSONObject:
    return {"roots": []}


QUESTIONS: Questions = {
    "elicitation/create": _elicited,
    "sampling/createMessage": _sampled,
    "roots/list": _roots,
}

if __name__ == "__main__":
    sys.exit(main())
