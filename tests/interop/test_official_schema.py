"""Every message of a server matches the published schema of its revision, in all five revisions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mcpdesk.hosting.host import Host
from mcpdesk.hosting.host_plan import plan_for
from mcpdesk.protocol.methods import METHODS
from mcpdesk.protocol.revisions import BY_NAME, LATEST, REVISIONS, Revision
from mcpdesk.protocol.stateless import CAPABILITIES_KEY, SUBSCRIPTION_KEY
from tests.support.gallery import gallery
from tests.support.official_schema import SCHEMAS, knows, problems, strangers
from tests.support.schema_client import ANSWERS, CAPABLE, NOTIFICATIONS, RESULTS, Client, check_error
from tests.support.site import serving

LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
ITEMS = {
    "tools": "Tool",
    "resources": "Resource",
    "resourceTemplates": "ResourceTemplate",
    "prompts": "Prompt",
}
BLOCKS = {
    "text": "TextContent",
    "image": "ImageContent",
    "audio": "AudioContent",
    "resource": "EmbeddedResource",
    "resource_link": "ResourceLink",
}
"""Name of an object's definition in the schemas, by its list or its type."""
CALLS = ("blocks", "numbers", "table", "nothing", "explicit", "refused")
READS = ("data://facts", "data://bytes", "item://7", "resource://notes", "resource://dot")
COMPLETED = (
    ({"type": "ref/prompt", "name": "plain"}, "a"),
    ({"type": "ref/prompt", "name": "talk"}, "tone"),
    ({"type": "ref/resource", "uri": "item://{number}"}, "number"),
)
MISTAKES: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("tools/dance", {}, -32601),
    ("tools/call", {"name": "unheard-of"}, -32602),
    ("tools/call", {}, -32602),
    ("tools/call", {"name": "table", "arguments": [1]}, -32602),
    ("tools/list", {"cursor": "made up"}, -32602),
    ("prompts/get", {"name": "talk"}, -32602),
    ("prompts/get", {"name": "unheard-of"}, -32602),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "?"}, "argument": {}}, -32602),
    ("resources/read", {"uri": "broken://it"}, -32603),
)
ASKING = {"form": "R3", "choices": "R4", "link": "R4", "sampled": "R1", "tooled": "R4", "rooted": "R1"}
"""Tools that ask, and since which revision they may."""


PUBLISHED = {name: method for name, method in METHODS.items() if method.capability != "skills"}
"""Methods that the schemas describe: skills are an extension that they lack."""


@asynccontextmanager
async def hosting(folder: Path) -> AsyncIterator[Host]:
    plan = plan_for((folder,), {}, {}, http=False)
    host = Host(msgspec.structs.replace(plan, accepts_pumps=False, watch=False, capture=None))
    await host.start()
    try:
        yield host
    finally:
        await host.stop()


def test_every_method_has_a_name_for_its_result() -> None:
    assert RESULTS.keys() == PUBLISHED.keys()


@pytest.mark.requirement("1.5", "1.10", "2.9", "3.5", "10.1")
@pytest.mark.parametrize("revision", [revision.name for revision in REVISIONS])
async def test_everything_sent_is_valid(tmp_path: Path, revision: str) -> None:
    spoken = BY_NAME[revision]
    folder = gallery(tmp_path / "gallery")
    async with hosting(folder) as host:
        client = Client(host, revision)
        await (discovers(client) if client.is_stateless else shakes_hands(client))
        listing = await lists(client)
        assert len(listing["tools"]) == 17 and len(listing["prompts"]) == 2
        await calls_and_reads(client)
        await is_asked(client)
        await runs_tasks(client)
        await makes_mistakes(client)
        await hears_changes(client, host, folder)
    assert client.answered == {each.name for each in PUBLISHED.values() if spoken.name in each.revisions}
    told = {message["method"] for message in client.received if "method" in message}
    assert told == expected_of(spoken)
    assert list(client.complaints()) == []
    results = [message["result"] for message in client.received if "result" in message]
    assert [each for result in results for each in newer(revision, result)] == []


def expected_of(spoken: Revision) -> set[str]:
    """Every request and notification a revision has for its clients."""
    told = {name for name in NOTIFICATIONS if "tasks" not in name and "subscriptions" not in name}
    if spoken.is_stateless:
        return told | {"notifications/subscriptions/acknowledged", "notifications/tasks"}
    told -= {"notifications/cancelled"}
    told |= {"sampling/createMessage", "roots/list"}
    told |= {"elicitation/create"} if spoken.has_elicitation else set()
    return told | ({"notifications/tasks/status"} if spoken.has_core_tasks else set())


async def test_a_header_that_disagrees_is_a_valid_error() -> None:
    async with serving() as served:
        answer = await served.modern("tools/list", Mcp_Method="tools/call")
        assert check_error(LATEST.name, await answer.json()) == []


def newer(revision: str, result: dict[str, Any]) -> Iterator[str]:
    """Members and kinds of content that are newer than a revision."""
    for key, definition in ITEMS.items():
        for item in result.get(key, ()):
            yield from strangers(revision, definition, item)
            if definition != "Tool":
                yield from newer_annotations(revision, item)
    for argument in [each for prompt in result.get("prompts", ()) for each in prompt.get("arguments", ())]:
        yield from strangers(revision, "PromptArgument", argument)
    blocks = [*result.get("content", ()), *[each["content"] for each in result.get("messages", ())]]
    for block in blocks:
        if not knows(revision, BLOCKS[block["type"]]) and SCHEMAS.is_dir():
            yield f"{block['type']} is not of {revision}"
        else:
            yield from strangers(revision, BLOCKS[block["type"]], block)
        yield from newer_annotations(revision, block)
    if "serverInfo" in result:
        yield from strangers(revision, "Implementation", result["serverInfo"])


def newer_annotations(revision: str, item: dict[str, Any]) -> list[str]:
    """The first revision has them without a name of their own, and with the same members as the second."""
    first = not knows(revision, "Annotations")
    return strangers("2025-03-26" if first else revision, "Annotations", item.get("annotations", {}))


@pytest.mark.parametrize("revision", [revision.name for revision in REVISIONS])
def test_the_schemas_find_fault_where_there_is_one(revision: str) -> None:
    if not SCHEMAS.is_dir():
        return
    assert problems(revision, "ListToolsResult", {"tools": [{"name": "x", "inputSchema": {"type": "array"}}]})
    assert problems(revision, "CallToolResult", {"content": [{"type": "text"}]})
    assert strangers(revision, "Tool", {"name": "x", "inputSchema": {}, "colour": "red"})


async def shakes_hands(client: Client) -> None:
    identity = {"name": "tester", "version": "1"}
    params = {"protocolVersion": client.revision, "capabilities": CAPABLE, "clientInfo": identity}
    assert (await client.ask("initialize", params))["result"]["protocolVersion"] == client.revision
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    await client.ask("ping")
    await client.ask("logging/setLevel", {"level": "debug"})


async def discovers(client: Client) -> None:
    result = (await client.ask("server/discover"))["result"]
    assert result["supportedVersions"][0] == client.revision
    outdated: dict[str, Any] = {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    assert (await client.ask("tools/list", **outdated))["error"]["code"] == -32022
    incapable: dict[str, Any] = {CAPABILITIES_KEY: {}}
    assert (await client.ask("tools/call", {"name": "form"}, **incapable))["error"]["code"] == -32021


async def lists(client: Client) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for method, key in LISTS.items():
        result = (await client.ask(method))["result"]
        found[key] = result[key]
        while "nextCursor" in result:
            result = (await client.ask(method, {"cursor": result["nextCursor"]}))["result"]
            found[key] += result[key]
    return found


async def calls_and_reads(client: Client) -> None:
    for name in CALLS:
        assert "result" in await client.ask("tools/call", {"name": name, "arguments": {}})
    for token in ("p", 7):
        await client.ask("tools/call", {"name": "steps"}, progressToken=token)
    for uri in READS:
        assert "result" in await client.ask("resources/read", {"uri": uri})
    assert "result" in await client.ask("prompts/get", {"name": "talk", "arguments": {"topic": "tea"}})
    assert "result" in await client.ask("prompts/get", {"name": "plain", "arguments": {"a": "b"}})
    for ref, name in COMPLETED:
        params = {"ref": ref, "argument": {"name": name, "value": ""}}
        assert "result" in await client.ask("completion/complete", params)


async def is_asked(client: Client) -> None:
    order = [f"R{number}" for number in range(1, 6)]
    spoken = order[[each.name for each in REVISIONS].index(client.revision)]
    for name, since in ASKING.items():
        result = (await client.ask("tools/call", {"name": name}))["result"]
        if client.is_stateless:
            result = await answers_rounds(client, name, result)
        may_ask = order.index(spoken) >= order.index(since)
        assert result["isError"] is not may_ask, (name, result)


async def answers_rounds(client: Client, name: str, result: dict[str, Any]) -> dict[str, Any]:
    """Come back with answers until the tool is done."""
    while result["resultType"] == "input_required":
        answers = {key: ANSWERS[each["method"]] for key, each in result["inputRequests"].items()}
        more = {"inputResponses": answers, "requestState": result["requestState"]}
        result = dict((await client.ask("tools/call", {"name": name} | more))["result"])
    return result


async def runs_tasks(client: Client) -> None:
    """A task that asks and ends, and one that is cancelled."""
    spoken = BY_NAME[client.revision]
    if spoken.is_stateless:
        await runs_tasks_of_the_extension(client)
    elif spoken.has_core_tasks:
        await runs_core_tasks(client)


async def runs_core_tasks(client: Client) -> None:
    call = {"name": "errand", "task": {"ttl": 60_000}}
    tasks = [{"taskId": (await client.ask("tools/call", call))["result"]["task"]["taskId"]} for _ in "ab"]
    assert "result" in await client.ask("tasks/get", tasks[0])
    assert "result" in await client.ask("tasks/list")
    assert "result" in await client.ask("tasks/cancel", tasks[1])
    assert "result" in await client.ask("tasks/result", tasks[0])
    assert (await client.ask("tasks/get", {"taskId": "unheard-of"}))["error"]["code"] == -32602


async def runs_tasks_of_the_extension(client: Client) -> None:
    one, other = [(await client.ask("tools/call", {"name": "errand"}))["result"]["taskId"] for _ in "ab"]
    listening = client.begin("subscriptions/listen", {"notifications": {"taskIds": [one]}})
    await stands(client, one, "input_required")
    asked = (await client.ask("tasks/get", {"taskId": one}))["result"]["inputRequests"]
    answers = {key: ANSWERS[each["method"]] for key, each in asked.items()}
    assert "result" in await client.ask("tasks/update", {"taskId": one, "inputResponses": answers})
    await stands(client, one, "completed")
    assert "result" in (await client.ask("tasks/get", {"taskId": one}))["result"]
    assert "result" in await client.ask("tasks/cancel", {"taskId": other})
    assert (await client.ask("tasks/get", {"taskId": "unheard-of"}))["error"]["code"] == -32602
    params = {"requestId": listening}
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})


async def stands(client: Client, task: str, status: str) -> None:
    """Wait for a notification that the task has this status."""
    told = {"taskId": task, "status": status}
    await client.message(lambda each: told.items() <= each.get("params", {}).items())


async def makes_mistakes(client: Client) -> None:
    client.send([])
    await client.message(lambda each: each.get("error", {}).get("code") == -32600)
    client.send_bytes(b"{")
    await client.message(lambda each: each.get("error", {}).get("code") == -32700)
    wrong = await client.ask("tools/call", {"name": "table", "arguments": {"rows": "many", "legs": 4}})
    assert wrong["result"]["isError"]
    for method, params, code in MISTAKES:
        assert (await client.ask(method, params))["error"]["code"] == code, (method, params)
    missing = (await client.ask("resources/read", {"uri": "data://missing"}))["error"]
    assert missing["code"] == BY_NAME[client.revision].resource_not_found


async def hears_changes(client: Client, host: Host, folder: Path) -> None:
    kinds = ("tools", "prompts", "resources")
    if client.is_stateless:
        wanted = {f"{kind}ListChanged": True for kind in kinds} | {
            "resourceSubscriptions": ["resource://notes"]
        }
        listening = client.begin("subscriptions/listen", {"notifications": wanted | {"unheardOf": ["t"]}})
        told = await client.message(
            lambda each: each.get("params", {}).get("_meta") == {SUBSCRIPTION_KEY: listening}
        )
        assert told["params"]["notifications"] == wanted
    else:
        await client.ask("resources/subscribe", {"uri": "resource://notes"})
    (folder / "tools" / "more.py").write_text("async def more() -> str:\n    return 'more'\n")
    (folder / "prompts" / "more.md").write_text("More.")
    (folder / "resources" / "more.txt").write_text("more")
    (folder / "resources" / "notes.md").write_text("# Other notes\n")
    host.reload("gallery")
    for kind in kinds:
        await client.notified(f"notifications/{kind}/list_changed")
    updated = await client.notified("notifications/resources/updated")
    assert updated["params"]["uri"] == "resource://notes"
    if client.is_stateless:
        host.services.subscriptions.close()
        assert "result" in await client.response(listening)
        await client.notified("notifications/cancelled")
    else:
        await client.ask("resources/unsubscribe", {"uri": "resource://notes"})
