"""Every built-in tool through an official client, over HTTP and over stdio with no desk: good and bad."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.session import ClientSession

from mcpdesk.protocol.revisions import LATEST, LATEST_HANDSHAKE
from mcpdesk.tools import BUILTINS
from tests.support.features import has_feature, needs_feature
from tests.support.patience import within
from tests.support.toolbox import Toolbox, toolbox
from tests.test_builtins import PUBLISHED, parameters

WITHIN_S = 30.0
MIB = "x" * (1 << 20)
ODD = ("", " ", "\0", "\x1b[2J\x07", "\u202etxt.exe", "../../../../etc/passwd", "/dev/zero", "~root", MIB)
"""Texts a tool may take or refuse, as long as it answers."""
WRONG: dict[str, tuple[Any, ...]] = {
    "string": (5, True, None, [], {}, ["x"]),
    "integer": ("five", 1.5, True, None, [], {}),
}
FULL_KIB = 200
"""Size of every file on a full disk."""
FAR = (-1, 0, 2**31, 2**63, 10**30)
GOOD: dict[str, tuple[dict[str, Any], str]] = {
    "Bash": ({"command": "echo out"}, "out"),
    "BackgroundBash": ({"command": "echo in the back"}, "runs"),
    "ReadBgOutput": ({"task_id": 1}, "bytes]"),
    "ListBgTasks": ({}, "echo first"),
    "KillBgTask": ({"task_id": 1}, "Task 1"),
    "ReadImage": ({"file_path": "{folder}/dot.png"}, "1 x 1"),
    "ReadDocs": ({"url": "{site}/page"}, "The moon pulls the sea."),
    "WebSearch": ({"query": "tides"}, "https://tides.example/"),
    "TaskManager": ({"action": "create", "query": "sail"}, "Created task"),
    "PlanMode": ({"action": "status"}, "off"),
    "InvokeSkill": ({"skill_name": "greet", "arguments": "Ada"}, "Greet Ada politely."),
    "SetCallback": ({"action": "set", "message": "tea", "delay_seconds": 3600}, "due"),
}
"""Arguments of each tool, and words of its result. AskUserQuestion needs a person."""
ASKED = '[{"question": "Tea?", "options": ["yes", "no"]}]'
BAD: dict[str, list[tuple[dict[str, Any], tuple[str, ...]]]] = {
    "Bash": [
        ({"command": ""}, ("command", "empty")),
        ({"command": "a\0b"}, ("command", "NUL")),
        ({"command": MIB}, ("command", "100000 bytes")),
        ({"command": "true", "timeout": 0}, ("timeout", "at least 1")),
        ({"command": "true", "timeout": 600_001}, ("timeout", "at most 600000")),
        ({"command": "sleep 60", "timeout": 50}, ("timed out after 50 ms",)),
        ({"command": "no-such-program"}, ("not found", "exit code 127")),
    ],
    "BackgroundBash": [
        ({"command": " \n"}, ("command", "empty")),
        ({"command": "a\0b"}, ("command", "NUL")),
        ({"command": MIB}, ("command", "100000 bytes")),
    ],
    "ReadBgOutput": [
        ({"task_id": 77}, ("task_id", "no background task 77", "Known: 1")),
        ({"task_id": 10**30}, ("- task_id", "whole number of 64 bits")),
    ],
    "ListBgTasks": [({"all": True}, ("all", "none are allowed"))],
    "KillBgTask": [({"task_id": 77}, ("task_id", "no background task 77", "Known: 1"))],
    "ReadImage": [
        ({"file_path": "dot.png"}, ("file_path", "absolute")),
        ({"file_path": "{folder}/none.png"}, ("file_path", "No such file")),
        ({"file_path": "{folder}"}, ("file_path", "is not a file")),
        ({"file_path": "/dev/zero"}, ("file_path", "is not a file")),
        ({"file_path": "{folder}/mcp.json"}, ("file_path", "not a readable image", "PNG")),
        ({"file_path": "/a\0b"}, ("file_path",)),
        ({"file_path": "/" + MIB}, ("file_path", "too long")),
    ],
    "ReadDocs": [
        ({"url": "file:///etc/passwd"}, ("url", "http")),
        ({"url": "http://169.254.169.254/latest"}, ("url", "private")),
        ({"url": "http://[::"}, ("url",)),
        ({"url": "http://127.0.0.1:1/"}, ("127.0.0.1:1",)),
        ({"url": "{site}/page", "format": "pdf"}, ("format", "markdown")),
        ({"url": "{site}/page", "wait_ms": 30_001}, ("wait_ms", "30000")),
    ],
    "WebSearch": [({"query": " "}, ("query", "1 to")), ({"query": MIB}, ("query", "at most"))],
    "TaskManager": [
        ({"action": "erase", "query": ""}, ("action", "complete")),
        ({"action": "create", "query": ""}, ("query", "1 to 500")),
        ({"action": "add", "query": "", "text": MIB}, ("text", "at most")),
        ({"action": "add", "query": "x", "task_id": 77}, ("task_id", "no task 77", "list")),
        ({"action": "complete", "query": "", "task_id": 2**63}, ("task_id", "no task")),
        ({"action": "switch", "query": "nobody's"}, ("query", "no task")),
    ],
    "PlanMode": [
        ({"action": "enter"}, ("goal", "missing")),
        ({"action": "enter", "goal": "g", "plan_file": "../../up.md"}, ("plan_file", "outside")),
        ({"action": "enter", "goal": "g", "plan_file": "/etc/passwd"}, ("plan_file", "outside")),
        ({"action": "enter", "goal": "g", "plan_file": "a\0.md"}, ("plan_file",)),
        ({"action": "enter", "goal": "g", "plan_file": "mcp.json"}, ("plan_file", ".md")),
        ({"action": "exit"}, ("off", "enter")),
    ],
    "InvokeSkill": [
        ({"skill_name": "../greet"}, ("skill_name", "Available: greet")),
        ({"skill_name": "greet", "arguments": MIB}, ("arguments", "100000")),
    ],
    "SetCallback": [
        ({"action": "set", "delay_seconds": 5}, ("message", "missing")),
        ({"action": "set", "message": "m"}, ("delay_seconds", "1 to 3600")),
        ({"action": "set", "message": "m", "delay_seconds": 0}, ("delay_seconds", "at least 1")),
        ({"action": "set", "message": "m", "delay_seconds": 3601}, ("delay_seconds", "at most 3600")),
        (
            {"action": "set", "message": "m", "delay_seconds": 5, "repeat_count": 0},
            ("repeat_count", "at least 1"),
        ),
        ({"action": "set", "message": MIB, "delay_seconds": 5}, ("message", "at most")),
        ({"action": "cancel"}, ("callback_id", "list")),
        ({"action": "cancel", "callback_id": 77}, ("callback_id", "no callback 77", "list")),
        ({"action": "cancel", "callback_id": 2**63}, ("callback_id", "no callback")),
    ],
    "AskUserQuestion": [
        ({"questions_json": ASKED}, ("No person can answer",)),
        ({"questions_json": "[" * 100_000}, ("questions_json",)),
        ({"questions_json": "[]"}, ("questions_json",)),
        ({"questions_json": '[{"question": "Tea?", "options": ["yes"]}]'}, ("options", "2")),
    ],
}  # fmt: skip
"""Other arguments each tool refuses, and words of its answer."""
for table in (GOOD, BAD) if not has_feature("web_tools") else ():
    del table["ReadDocs"], table["WebSearch"]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolbox]:
    with toolbox(tmp_path_factory.mktemp("tools")) as made:
        yield made


@pytest.fixture(scope="module")
def url(box: Toolbox) -> Iterator[str]:
    with box.served() as served:
        yield served


@pytest.fixture(params=["http", "stdio"])
def client(request: pytest.FixtureRequest, box: Toolbox) -> AbstractAsyncContextManager[ClientSession]:
    """A client that is not connected yet."""
    if request.param == "stdio":
        return box.over_stdio(LATEST_HANDSHAKE.name)
    return box.over_http(request.getfixturevalue("url"), LATEST.name)


def said(result: types.CallToolResult) -> str:
    return "\n".join(each.text for each in result.content if isinstance(each, types.TextContent))


def filled(box: Toolbox, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with the places of this run."""

    def place(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return value.replace("{folder}", str(box.folder)).replace("{site}", box.site)

    return {name: place(value) for name, value in arguments.items()}


async def call(client: ClientSession, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
    """Call a tool; it must answer in time, with a text that is not an unexpected exception."""
    async with within():
        result = await client.call_tool(name, arguments)
    told = said(result)
    assert told and "Traceback" not in told and f"{name} failed:" not in told, (arguments, told)
    return result


def mistakes(tool: types.Tool, good: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calls that violate the tool's schema, by the invalid parameter."""
    for name, field in tool.input_schema.get("properties", {}).items():
        if name in tool.input_schema.get("required", ()):
            yield name, {key: value for key, value in good.items() if key != name}
        for value in WRONG[field["type"]]:
            yield name, good | {name: value}
        if field["type"] == "integer":
            yield name, good | {name: 10**30}
    yield "nonsense", good | {"nonsense": 1}


def link_warnings(tool: types.Tool, good: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Calls the schema does not know to be wrong."""
    for name, field in tool.input_schema.get("properties", {}).items():
        for value in ODD if field["type"] == "string" else FAR:
            yield good | {name: value}


@pytest.mark.process
async def test_clients_are_told_of_the_parameters_that_are_published(
    client: AbstractAsyncContextManager[ClientSession],
) -> None:
    async with client as connected:
        tools = (await connected.list_tools()).tools
    assert {tool.name: parameters(tool.input_schema) for tool in tools} == PUBLISHED


@pytest.mark.process
@pytest.mark.parametrize("name", sorted(BUILTINS))
async def test_good_calls_are_done_and_bad_ones_are_refused_in_words(
    box: Toolbox, client: AbstractAsyncContextManager[ClientSession], name: str
) -> None:
    good, words = GOOD.get(name, ({"questions_json": ASKED}, ""))
    good = filled(box, good)
    async with client as connected:
        [tool] = [each for each in (await connected.list_tools()).tools if each.name == name]
        await call(connected, "BackgroundBash", {"command": "echo first"})
        if words:
            result = await call(connected, name, good)
            assert not result.is_error and words in said(result), said(result)
        for wrong, arguments in mistakes(tool, good):
            result = await call(connected, name, arguments)
            assert result.is_error and wrong in said(result), (arguments, said(result))
        for arguments in link_warnings(tool, good):
            await call(connected, name, arguments)
        for arguments, needed in BAD[name]:
            result = await call(connected, name, filled(box, arguments))
            missing = [word for word in needed if word not in said(result)]
            assert result.is_error and not missing, (str(arguments)[:200], said(result)[:500])
        assert said(await call(connected, "Bash", {"command": "echo still here"})) == "still here"


@pytest.mark.slow
async def test_two_clients_at_once_do_not_get_in_each_others_way(box: Toolbox, url: str) -> None:
    async with box.over_http(url, LATEST.name) as one, box.over_http(url, LATEST_HANDSHAKE.name) as two:
        both = (one, two)
        begun = await call(one, "BackgroundBash", {"command": "seq 1 1000; sleep 60"})
        assert begun.structured_content is not None
        task = {"task_id": begun.structured_content["task_id"]}
        whole = "".join(f"{number}\n" for number in range(1, 1001))
        assert await asyncio.gather(*(_read(client, task, len(whole)) for client in both)) == [whole] * 2
        killed = await asyncio.gather(*(call(client, "KillBgTask", task) for client in both))
        assert [result.is_error for result in killed] == [False, False]
        assert "had ended before: killed" in said(await call(two, "KillBgTask", task))
        assert "[killed" in said(await call(one, "ReadBgOutput", task))
        made = await call(one, "TaskManager", {"action": "create", "query": "shared"})
        assert made.structured_content is not None
        shared = {"action": "add", "query": "", "task_id": made.structured_content["tasks"][0]["task_id"]}
        steps = [
            call(client, "TaskManager", shared | {"text": f"{who} {number}"})
            for who, client in enumerate(both)
            for number in range(25)
        ]
        last = max(await asyncio.gather(*steps), key=lambda result: len(said(result)))
        done = said(last)
        assert all(f" {number}. " in done for number in range(1, 51))
        assert all(f"{who} {number}" in done for who in (0, 1) for number in range(25))
        entered = [
            await call(client, "PlanMode", {"action": "enter", "goal": f"goal of {who}"})
            for who, client in enumerate(both)
        ]
        # A plan belongs to a session, and `one` has none.
        assert [result.is_error for result in entered] == [True, False] and "session" in said(entered[0])
        ran = [await call(client, "Bash", {"command": "true"}) for client in both]
        assert [result.is_error for result in ran] == [False, True]
        assert not (await call(two, "PlanMode", {"action": "exit"})).is_error
        assert not (await call(two, "Bash", {"command": "true"})).is_error


async def _read(client: ClientSession, task: dict[str, int], size: int) -> str:
    """Read `size` characters of a task's output, in any number of pieces."""
    output = ""
    async with within():
        while len(output) < size:
            result = await call(client, "ReadBgOutput", task)
            assert result.structured_content is not None
            output += result.structured_content["output"]
    return output


async def _said_at_the_end(client: ClientSession, task: dict[str, int]) -> str:
    """Final description of a task's output, after its end."""
    async with within():
        while True:
            told = said(await call(client, "ReadBgOutput", task))
            if "[running" not in told:
                return told


@pytest.mark.process
async def test_without_bash_the_tools_that_need_it_say_so(box: Toolbox) -> None:
    async with box.over_stdio(LATEST_HANDSHAKE.name, PATH="/nowhere") as client:
        for name in ("Bash", "BackgroundBash"):
            result = await call(client, name, {"command": "true"})
            assert result.is_error and said(result) == "bash is not installed, or not in PATH"
        assert not (await call(client, "ListBgTasks", {})).is_error


@needs_feature("web_tools")
@pytest.mark.process
async def test_without_a_network_the_tools_that_need_it_say_so(box: Toolbox) -> None:
    nobody = "http://127.0.0.1:1"
    environ: dict[str, Any] = {
        "MCPDESK_SEARCH_ENGINES": "searxng,wikipedia",
        "MCPDESK_SEARCH_URLS": f"searxng={nobody},wikipedia={nobody}",
    }
    async with box.over_stdio(LATEST_HANDSHAKE.name, **environ) as client:
        found = await call(client, "WebSearch", {"query": "tides"})
        assert found.is_error and all(name in said(found) for name in ("searxng", "wikipedia"))
        for address in (nobody, "http://nobody.invalid/"):
            read = await call(client, "ReadDocs", {"url": address})
            assert read.is_error and address.split("/")[2].split(":")[0] in said(read)


@pytest.mark.slow
async def test_on_a_full_disk_what_cannot_be_kept_is_refused_and_the_rest_goes_on(
    box: Toolbox, tmp_path: Path
) -> None:
    state: dict[str, Any] = {"MCPDESK_STATE_DIR": str(tmp_path)}
    async with box.over_stdio(LATEST_HANDSHAKE.name, **state) as client:
        await call(client, "TaskManager", {"action": "create", "query": "kept"})
    async with box.over_stdio(LATEST_HANDSHAKE.name, limit_kib=FULL_KIB, **state) as client:
        flood = {"command": f"head -c {4 * FULL_KIB}K /dev/zero"}
        large = await call(client, "Bash", {"command": "yes | head -c 3M; echo end"})
        assert "not all output could be written" in said(large) and "end" in said(large)[-500:]
        begun = await call(client, "BackgroundBash", flood)
        assert begun.structured_content is not None
        task = {"task_id": begun.structured_content["task_id"]}
        assert "not all output could be written" in await _said_at_the_end(client, task)
        long = {"action": "add", "query": "", "task_id": 1, "text": "x" * 10_000}
        while not (result := await call(client, "TaskManager", long)).is_error:
            assert len(said(result)) < 4 * 1024 * FULL_KIB
        assert "state.sqlite" in said(result)
        refused = await call(
            client, "SetCallback", {"action": "set", "message": "x" * 9_000, "delay_seconds": 9}
        )
        assert refused.is_error
        assert said(await call(client, "Bash", {"command": "echo still here"})) == "still here"
    async with box.over_stdio(LATEST_HANDSHAKE.name, **state) as client:
        kept = await call(client, "TaskManager", {"action": "list", "query": "kept"})
        assert "kept" in said(kept) and not kept.is_error
        assert not (await call(client, "TaskManager", long)).is_error
