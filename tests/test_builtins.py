"""The built-in tools: their published definitions, the cost of loading them, and their run in a real core."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest

from mcpdesk.hosting.hosted_folder import built_in
from mcpdesk.inbox.question import Answer
from mcpdesk.link.link import LinkCall
from mcpdesk.link.values import CallOutcome
from mcpdesk.tools import BUILTINS
from tests.support.desk import RunningDesk, running_desk
from tests.support.features import has_feature
from tests.support.patience import in_time, until

PUBLISHED: dict[str, list[tuple[str, str, str, str]]] = {
    "Bash": [
        ("command", "string", "required", "The bash command to execute"),
        ("timeout", "integer", "optional", "Timeout in milliseconds (default: 30000)"),
    ],
    "AskUserQuestion": [
        ("questions_json", "string", "required", "JSON string with questions and options"),
    ],
    "BackgroundBash": [
        ("command", "string", "required", "The bash command to execute"),
    ],
    "KillBgTask": [
        ("task_id", "integer", "required", "The task ID to kill"),
    ],
    "ListBgTasks": [],
    "ReadBgOutput": [
        ("task_id", "integer", "required", "The task ID returned by BackgroundBash"),
    ],
    "InvokeSkill": [
        ("skill_name", "string", "required", "The skill name to invoke"),
        ("arguments", "string", "optional", "Arguments to pass to the skill"),
    ],
    "PlanMode": [
        ("action", "string", "required", "Action: enter, exit, status, json, reset"),
        ("goal", "string", "optional", "Goal/description"),
        ("plan_file", "string", "optional", "Path to markdown plan file"),
    ],
    "ReadDocs": [
        ("url", "string", "required", "The URL to fetch"),
        ("format", "string", "optional", "Output format: text, html, or markdown"),
        ("wait_ms", "integer", "optional", "Wait time for page load in ms"),
    ],
    "ReadImage": [
        ("file_path", "string", "required", "The absolute path to the image file"),
    ],
    "SetCallback": [
        ("action", "string", "required", "Action: set, list, cancel"),
        ("message", "string", "optional", "Callback message"),
        ("delay_seconds", "integer", "optional", "Seconds to wait (1-3600)"),
        ("repeat_count", "integer", "optional", "Times to fire before cancel"),
        ("callback_id", "integer", "optional", "Callback slot ID"),
    ],
    "TaskManager": [
        ("action", "string", "required", "Action: create, add, complete, list, pending, switch"),
        ("query", "string", "required", "The search query"),
        ("task_id", "integer", "optional", "Task ID"),
        ("step_id", "integer", "optional", "Step ID"),
        ("text", "string", "optional", "Task name or step text"),
    ],
    "WebSearch": [
        ("query", "string", "required", "The search query"),
    ],
}
"""Name, type, status and description of every parameter, as the table of these tools has them."""
if not has_feature("web_tools"):
    del PUBLISHED["ReadDocs"], PUBLISHED["WebSearch"]

HEAVY = {"psutil", "sqlite3", "PIL", "bs4", "markdownify", "ddgs", "aiohttp"}
"""Modules that only a call may load, so a folder that lists the tool starts quickly."""


def parameters(schema: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    required = schema.get("required", ())
    return [
        (name, field["type"], "required" if name in required else "optional", field["description"])
        for name, field in schema.get("properties", {}).items()
    ]


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_parameters_are_those_published(name: str) -> None:
    tool = built_in(name)
    assert tool.name == name
    assert parameters(tool.input_schema) == PUBLISHED[name]
    assert tool.source == "built-in" and tool.title and tool.description
    assert {"readOnlyHint", "destructiveHint", "openWorldHint"} <= tool.annotations.keys()


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_schemas_are_valid(name: str) -> None:
    tool = built_in(name)
    jsonschema.Draft202012Validator.check_schema(tool.input_schema)
    assert tool.output_schema is not None
    jsonschema.Draft202012Validator.check_schema(tool.output_schema)


@pytest.mark.process
def test_making_tools_loads_nothing_heavy() -> None:
    script = (
        "import sys; from mcpdesk.hosting.hosted_folder import built_in; from mcpdesk.tools import BUILTINS\n"
        f"print(len([built_in(name) for name in BUILTINS]), sorted({HEAVY!r} & sys.modules.keys()))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.split(maxsplit=1) == [str(len(BUILTINS)), "[]\n"]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    """A core that offers the tools, with a tool time limit of 200 ms."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "mcp.json").write_text('{"name": "shop", "builtins": ["Bash", "AskUserQuestion"]}')
    async with running_desk(folder, tool_timeout_ms=200, state_dir=str(tmp_path / "state")) as link:
        yield link


def call(link: RunningDesk, name: str, **arguments: Any) -> LinkCall:
    return link.request("shop", "tools/call", {"name": name, "arguments": arguments})


async def outcome(call: LinkCall) -> CallOutcome:
    return await in_time(asyncio.wrap_future(call.outcome))


@pytest.mark.process
async def test_a_person_may_take_longer_than_a_tool(desk: RunningDesk) -> None:
    questions = '[{"question": "Tea or coffee?", "options": ["tea", "coffee"]}]'
    asking = call(desk, "AskUserQuestion", questions_json=questions)
    await until(lambda: bool(desk.questions()))
    await outcome(call(desk, "Bash", command="sleep 0.5"))
    desk.answer(desk.questions()[0].id, [Answer(("tea",))])
    result = (await outcome(asking)).result
    assert result is not None and not result["isError"]
    assert result["structuredContent"]["answers"][0]["selected"] == ["tea"]


@pytest.mark.process
async def test_a_cancelled_call_leaves_nothing_running(desk: RunningDesk, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    running = call(desk, "Bash", command=f"echo $$ > {pid_file}; sleep 100")
    await until(lambda: pid_file.exists() and pid_file.read_text().strip() != "")
    shell = psutil.Process(int(pid_file.read_text()))
    running.cancel()
    assert (await outcome(running)).cancelled
    await until(lambda: not shell.is_running())
