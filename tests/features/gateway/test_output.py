"""Long output of programs on a real process: bounded on every endpoint, and complete as a download."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import started_services
from tests.seeds.test_runtime import address, rpc
from tests.support.curl import JSON, fetch
from tests.support.features import having
from tests.support.folders import write

COUNT: dict[str, Any] = {
    "stage": "say",
    "command": "numbers",
    "description": "Count.",
    "run": ["seq", "{most}"],
}
COUNT["parameters"] = {"type": "object", "properties": {"most": {"type": "integer"}}, "required": ["most"]}
NUMBERS = "".join(f"{number}\n" for number in range(1, 100_001))


@pytest.mark.process
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        *having("program_tools", ("say-numbers", {"most": 100_000})),
        ("Bash", {"command": "seq 1 100000"}),
    ],
)
async def test_output_is_bounded_everywhere_and_the_whole_can_be_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, arguments: dict[str, object]
) -> None:
    monkeypatch.setenv("MCPDESK_STATE_DIR", str(tmp_path / "state"))
    manifest = {"name": "say", "commands": [COUNT], "builtins": ["Bash"]}
    folder = write(tmp_path / "say", {"mcp.json": json.dumps(manifest)})
    with started_services() as start:
        url = address(start(str(folder), "--port", "0", "--no-auth"), "say")
        call = rpc("tools/call", {"name": tool, "arguments": arguments})
        model = (await fetch(f"{url}/mcp/say", call, JSON)).json["result"]
        program = (await fetch(f"{url}/v1/mcp", call, JSON)).json["result"]
        whole = await fetch(f"{url}{program['download']}")
        listed = (await fetch(f"{url}{program['download'].replace('/download', '/manifest')}")).json["files"]
        kept = await fetch(f"{url}{program['download'].removesuffix('/download')}")
        later = rpc("tools/call", {"name": tool, "arguments": arguments, "mode": "async"})
        job = (await fetch(f"{url}/v1/mcp", later, JSON)).json["result"]
        await fetch(f"{url}/v1/mcp/progress/{job['job_id']}?interval_ms=20")
        facts = await fetch(f"{url}{job['poll']}")
        whole_of_job = await fetch(f"{url}{job['download']}")
        failing = rpc("tools/call", {"name": "Bash", "arguments": {"command": "seq 1 100000; exit 3"}})
        error = (await fetch(f"{url}/v1/mcp", failing, JSON)).json["error"]
        whole_of_error = await fetch(f"{url}{error['data']['download']}")
    said, told = model["content"][0]["text"], model["structuredContent"]
    for text in (said, told["stdout"]):
        assert (
            29_000 < len(text) <= 30_000 and text.startswith("1\n2\n") and text.rstrip().endswith("\n100000")
        )
        assert f"left out; the full output is in {told['output_file']}" in text
    assert told["truncated"] and Path(told["output_file"]).read_text() == NUMBERS
    assert program["truncated"] and len(program["stdout"]) <= 30_000
    assert program["stdout"] == program["structuredContent"]["stdout"]
    assert len(program["content"][0]["text"]) <= 30_000
    assert whole.text == whole_of_job.text == whole_of_error.text == NUMBERS
    assert [(each["size"], each["is_output"]) for each in listed] == [(len(NUMBERS), True)]
    assert kept.json["stdout"] == program["stdout"] and kept.json["stderr"] == ""
    assert len(facts.text) < 200_000 and len(facts.json["stdout"]) <= 30_000
    assert facts.json["stdout"].startswith("[... earlier output left out ...]\n")
    assert facts.json["stdout"].endswith("\n100000\n")
    assert error["code"] == -32000 and error["data"]["exit_code"] == 3
    assert len(error["data"]["stdout"]) <= 30_000
