"""The gateway as it was promised: every request its pages print, in a shell and by a plain client."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import re
import shlex
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from tests.cli.conftest import Service
from tests.support.curl import CURL, FetchResult
from tests.support.features import needs_feature
from tests.support.folders import write
from tests.support.patience import WITHIN_S, until, within
from tests.support.plainly import plainly

pytestmark = needs_feature("program_tools")

KEY = "devkey"
PRINTED = "http://127.0.0.1:8000"
HEATMAP = "visualize-heatmap"
DECODE = "process-decode-grib2"

DISCOVER = 'curl -sS -H "X-API-Key: $ZYRA_API_KEY" http://127.0.0.1:8000/v1/mcp | jq .'
DISCOVER_BY_OPTIONS = 'curl -sS -X OPTIONS -H "X-API-Key: $ZYRA_API_KEY" http://127.0.0.1:8000/v1/mcp | jq .'
STATUS = r"""
curl -sS -H 'Content-Type: application/json' -H "X-API-Key: $ZYRA_API_KEY" \
  -d '{"jsonrpc":"2.0","method":"statusReport","id":1}' \
  http://127.0.0.1:8000/v1/mcp | jq .
"""
INITIALIZE = r"""
curl -sS -H 'Content-Type: application/json' -H "X-API-Key: $ZYRA_API_KEY" \
  -d '{"jsonrpc":"2.0","method":"initialize","id":2}' \
  http://127.0.0.1:8000/v1/mcp | jq .
"""
LIST = r"""
curl -sS -H 'Content-Type: application/json' -H "X-API-Key: $ZYRA_API_KEY" \
  -d '{"jsonrpc":"2.0","method":"tools/list","id":3}' \
  http://127.0.0.1:8000/v1/mcp | jq .
"""
CALL = r"""
curl -sS -H 'Content-Type: application/json' -H "X-API-Key: $ZYRA_API_KEY" \
  -d '{"jsonrpc":"2.0","method":"tools/call","params":{"name":"visualize-heatmap","arguments":{"input":"samples/demo.npy","output":"/tmp/heatmap.png"},"mode":"sync"},"id":4}' \
  http://127.0.0.1:8000/v1/mcp | jq .
"""  # noqa: E501
OLD_STATUS = r"""
curl -sS -H 'Content-Type: application/json' -H 'X-API-Key: $ZYRA_API_KEY' \
  -d '{"jsonrpc":"2.0","method":"statusReport","id":1}' \
  http://127.0.0.1:8000/v1/mcp
"""
OLD_INITIALIZE = r"""
curl -sS -H 'Content-Type: application/json' -H 'X-API-Key: $ZYRA_API_KEY' \
  -d '{"jsonrpc":"2.0","method":"initialize","id":2}' \
  http://127.0.0.1:8000/v1/mcp
"""
OLD_LIST = r"""
curl -sS -H 'Content-Type: application/json' -H 'X-API-Key: $ZYRA_API_KEY' \
  -d '{"jsonrpc":"2.0","method":"tools/list","id":3}' \
  http://127.0.0.1:8000/v1/mcp
"""
OLD_CALL = r"""
curl -sS -H 'Content-Type: application/json' -H 'X-API-Key: $ZYRA_API_KEY' \
  -d '{"jsonrpc":"2.0","method":"callTool","params":{"stage":"visualize","command":"heatmap","args":{"input":"samples/demo.npy","output":"/tmp/heatmap.png"},"mode":"sync"},"id":3}' \
http://127.0.0.1:8000/v1/mcp
"""  # noqa: E501
OBSERVE = r"""
curl -N -H "X-API-Key: $ZYRA_API_KEY" \
  "http://127.0.0.1:8000/v1/mcp/progress/$JOB_ID?interval_ms=200"
"""
FRAMES = (
    '{ "jsonrpc":"2.0", "id": 1, "method": "initialize", "params": {} }',
    '{ "jsonrpc":"2.0", "id": 2, "method": "tools/list", "params": {} }',
    '{ "jsonrpc":"2.0", "id": 3, "method": "tools/call", "params": { "name": "process-decode-grib2", '
    '"arguments": {"file_or_url": "s3://..."}, "mode": "async" } }',
)

MANIFEST = {
    "name": "zyra",
    "version": "0.9.1",
    "description": "Zyra MCP server for domain-specific data visualization",
    "commands": [
        {
            "stage": "visualize",
            "command": "heatmap",
            "description": "Draw a heatmap.",
            "run": ["{python}", "programs/heatmap.py", "--input", "{input}", "--output", "{output}"],
            "parameters": {
                "type": "object",
                "properties": {"input": {"type": "string"}, "output": {"type": "string"}},
                "required": ["input", "output"],
            },
            "produces": ["{output}"],
        },
        {
            "stage": "process",
            "command": "decode-grib2",
            "description": "Decode a GRIB2 file.",
            "run": ["{python}", "programs/decode.py", "{file_or_url}"],
            "parameters": {
                "type": "object",
                "properties": {"file_or_url": {"type": "string"}},
                "required": ["file_or_url"],
            },
            "progress": "json-lines",
        },
    ],
}
HEATMAP_PROGRAM = '''
    """Copies what it is given behind the first bytes of a picture."""

    import argparse
    import pathlib
    import sys

    given = argparse.ArgumentParser()
    given.add_argument("--input", required=True)
    given.add_argument("--output", required=True)
    asked = given.parse_args()
    try:
        data = pathlib.Path(asked.input).read_bytes()
    except OSError as error:
        print(f"cannot read {asked.input}: {error.strerror}", file=sys.stderr)
        sys.exit(3)
    pathlib.Path(asked.output).write_bytes(b"\\x89PNG\\r\\n\\x1a\\n" + data)
    print("drawn")
    '''
DECODE_PROGRAM = '''
    """Takes three steps; what begins with `wait:` is a file it waits for, and `bad` fails."""

    import json
    import pathlib
    import sys
    import time

    source = sys.argv[1]
    for step in range(3):
        print(json.dumps({"progress": step, "total": 3, "message": f"message {step}"}), flush=True)
        print(f"decoding {source}", flush=True)
    while source.startswith("wait:") and not pathlib.Path(source[5:]).exists():
        time.sleep(0.01)
    if source == "bad":
        print("no GRIB2", file=sys.stderr)
        sys.exit(4)
    print("decoded")
    '''


class Zyra(NamedTuple):
    """A running service."""

    url: str
    home: Path


def make_folder(home: Path) -> Path:
    """A folder with both programs, whose work has predictable results."""
    return write(
        home / "zyra",
        {
            "mcp.json": json.dumps(MANIFEST),
            "programs/heatmap.py": HEATMAP_PROGRAM,
            "programs/decode.py": DECODE_PROGRAM,
            "samples/demo.npy": "1,2,3\n",
        },
    )


def started(home: Path, *options: str, **environ: str) -> Iterator[Zyra]:
    """Serve a folder with both programs until the fixture ends."""
    yield from served(make_folder(home), home, *options, **environ)


def served(folder: Path, home: Path, *options: str, **environ: str) -> Iterator[Zyra]:
    """Serve a folder in a separate process until the fixture ends."""
    with pytest.MonkeyPatch.context() as patch:
        settings = {"MCPDESK_STATE_DIR": str(home / "state"), "MCPDESK_CONFIG_DIR": str(home / "config")}
        settings["MCPDESK_OUTPUT_DIRS"] = str(home.parent)
        for name, value in (settings | environ).items():
            patch.setenv(name, value)
        service = Service(str(folder), "--port", "0", *options)
    try:
        url = service.says(f"serving {folder.name} at").rpartition(" ")[2].rpartition("/mcp/")[0]
        yield Zyra(url, home)
        assert service.end() == 0
    finally:
        service.process.kill()
        service.process.wait()
        assert service.process.stderr is not None
        service.process.stderr.close()


@pytest.fixture(scope="module")
def zyra(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zyra]:
    """With a key, under the name its users know."""
    yield from started(tmp_path_factory.mktemp("keyed"), ZYRA_API_KEY=KEY)


@pytest.fixture(scope="module")
def unkeyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zyra]:
    """Without a key."""
    yield from started(tmp_path_factory.mktemp("open"), "--no-auth")


@pytest.fixture(scope="module")
def dataviz(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zyra]:
    """The sample that shows it, with a key."""
    folder = Path(__file__).parents[3] / "sample_servers" / "dataviz"
    yield from served(folder, tmp_path_factory.mktemp("sample"), ZYRA_API_KEY=KEY)


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """A client that knows the key."""
    async with aiohttp.ClientSession(headers={"X-API-Key": KEY}) as session:
        yield session


async def in_shell(command: str, url: str, **variables: str) -> str:
    """Output of a printed command, its address replaced."""
    ask = command.replace(PRINTED, url)
    shown = "command -v jq > /dev/null || jq() { cat; }\nset -o pipefail\n"
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", shown + ask,
        env={"PATH": os.environ["PATH"], "ZYRA_API_KEY": KEY, **variables},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with within():
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


async def by_hand(command: str, url: str, **variables: str) -> FetchResult:
    """The same request by a client that reads the command's options."""
    known = {"ZYRA_API_KEY": KEY} | variables
    # A shell does not change text in single quotes.
    pieces = re.split(r"('[^']*')", command.replace(PRINTED, url).replace("\\\n", " "))
    text = "".join(
        piece if piece.startswith("'") else re.sub(r"\$(\w+)", lambda found: known[found[1]], piece)
        for piece in pieces
    )
    words = shlex.split(text.partition(" | jq")[0])[1:]
    headers, data, method, target = {}, None, "", ""
    while words:
        word = words.pop(0)
        match word:
            case "-H":
                name, _, value = words.pop(0).partition(": ")
                headers[name] = value
            case "-d":
                data = words.pop(0)
            case "-X":
                method = words.pop(0)
            case "-sS" | "-N":
                continue
            case _:
                target = word
    return await plainly(target, data, headers, method)


async def both(command: str, zyra: Zyra, **variables: str) -> Any:
    """Answer to a printed command, by hand and, if curl is there, in the shell: both are equal."""
    plain = await by_hand(command, zyra.url, **variables)
    assert plain.status == 200 and plain.headers["content-type"] == "application/json"
    if CURL:
        assert without_times(json.loads(await in_shell(command, zyra.url, **variables))) == without_times(
            plain.json
        )
    return plain.json


def without_times(answer: Any) -> Any:
    """An answer without how long its program took."""
    structured = answer.get("result", {}).get("structuredContent")
    if structured is not None:
        structured.pop("duration_ms", None)
    return answer


@pytest.mark.process
@pytest.mark.parametrize("command", [DISCOVER, DISCOVER_BY_OPTIONS], ids=["GET", "OPTIONS"])
async def test_discovery_has_the_printed_shape(command: str, zyra: Zyra) -> None:
    found = await both(command, zyra)
    assert (found["mcp_version"], found["name"]) == ("0.1", "zyra")
    assert found["description"] == "Zyra MCP server for domain-specific data visualization"
    commands = {each["name"]: each for each in found["capabilities"]["commands"]}
    assert commands.keys() == {HEATMAP, DECODE}
    for each in commands.values():
        assert (
            each["description"]
            and each["parameters"]["type"] == "object"
            and each["parameters"]["properties"]
        )


@pytest.mark.process
@pytest.mark.parametrize("command", [STATUS, OLD_STATUS], ids=["quickstart", "examples"])
async def test_printed_status_report(command: str, zyra: Zyra, unkeyed: Zyra) -> None:
    answer = await both(command, unkeyed if command == OLD_STATUS else zyra)
    assert answer == {
        "jsonrpc": "2.0", "id": 1, "result": {"status": "ok", "name": "zyra", "version": "0.9.1"},
    }  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize("command", [INITIALIZE, OLD_INITIALIZE], ids=["quickstart", "examples"])
async def test_printed_handshake(command: str, zyra: Zyra, unkeyed: Zyra) -> None:
    result = (await both(command, unkeyed if command == OLD_INITIALIZE else zyra))["result"]
    assert result["protocolVersion"] == "2025-06-18"
    assert result["serverInfo"] == {"name": "zyra", "version": "0.9.1"}
    assert result["capabilities"]["tools"]


@pytest.mark.process
@pytest.mark.parametrize("command", [LIST, OLD_LIST], ids=["quickstart", "examples"])
async def test_printed_list(command: str, zyra: Zyra, unkeyed: Zyra) -> None:
    place = unkeyed if command == OLD_LIST else zyra
    tools = (await both(command, place))["result"]["tools"]
    assert {tool["name"] for tool in tools} == {HEATMAP, DECODE}
    assert all(tool["description"] and tool["inputSchema"]["type"] == "object" for tool in tools)
    assert (await both(command.replace("tools/list", "listTools"), place))["result"]["tools"] == tools


@pytest.mark.process
@pytest.mark.parametrize("command", [CALL, OLD_CALL], ids=["quickstart", "examples"])
async def test_printed_call_makes_the_printed_file(
    command: str, zyra: Zyra, unkeyed: Zyra, tmp_path: Path
) -> None:
    target = tmp_path / "heatmap.png"
    mine = command.replace("/tmp/heatmap.png", str(target))
    result = (await both(mine, unkeyed if command == OLD_CALL else zyra))["result"]
    assert (result["status"], result["stdout"], result["stderr"], result["exit_code"]) == (
        "ok",
        "drawn\n",
        "",
        0,
    )
    assert result["isError"] is False and result["content"]
    assert result["structuredContent"]["output_files"] == [str(target.resolve())]
    assert target.read_bytes().startswith(b"\x89PNG")


@pytest.mark.process
@pytest.mark.parametrize("command", [DISCOVER, DISCOVER_BY_OPTIONS], ids=["GET", "OPTIONS"])
async def test_the_sample_offers_what_the_pages_call(command: str, dataviz: Zyra) -> None:
    found = await both(command, dataviz)
    commands = {each["name"]: each["parameters"]["properties"] for each in found["capabilities"]["commands"]}
    assert {"input", "output"} <= commands[HEATMAP].keys() and "file_or_url" in commands[DECODE]


@pytest.mark.process
@pytest.mark.parametrize("command", [CALL, OLD_CALL], ids=["quickstart", "examples"])
async def test_the_sample_draws_what_the_pages_ask_for(command: str, dataviz: Zyra, tmp_path: Path) -> None:
    asked = command.replace("/tmp/heatmap.png", str(tmp_path / "heatmap.png")).replace("'X-", '"X-')
    result = (await both(asked.replace("_KEY'", '_KEY"'), dataviz))["result"]
    assert (result["status"], result["exit_code"], result["isError"]) == ("ok", 0, False)
    picture = (tmp_path / "heatmap.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n") and len(picture) > 5_000
    assert result["content"][-1]["type"] == "image"


@pytest.mark.process
async def test_a_job_of_the_sample_is_watched_and_its_files_are_fetched(
    client: aiohttp.ClientSession, dataviz: Zyra
) -> None:
    job = await begin(client, dataviz, DECODE, file_or_url="samples/demo.grib2", output="field.npy")
    async with client.ws_connect(dataviz.url + job["ws"]) as ws:
        told = [json.loads(message.data) async for message in ws]
    assert told[-1]["status"] == "succeeded"
    shares = [each["progress"] for each in told if "progress" in each]
    assert shares == sorted(shares) and shares[-1] == 1.0 and len(shares) > 2
    async with client.get(dataviz.url + job["manifest"]) as answer:
        listed = (await answer.json())["files"]
    assert [each["name"] for each in listed] == ["field.npy", "field.npy.json"]
    async with client.get(dataviz.url + job["download"]) as answer:
        assert answer.content_type == "application/zip"
        with zipfile.ZipFile(io.BytesIO(await answer.read())) as archive:
            for each in listed:
                assert hashlib.sha256(archive.read(each["name"])).hexdigest() == each["sha256"]


@pytest.mark.process
@pytest.mark.parametrize("command", [OLD_STATUS, OLD_INITIALIZE, OLD_LIST, OLD_CALL])
async def test_a_key_in_single_quotes_is_a_wrong_one(command: str, zyra: Zyra) -> None:
    answer = await by_hand(command, zyra.url)
    assert answer.status == 401 and "error" in answer.json
    if CURL:
        assert json.loads(await in_shell(command, zyra.url)) == answer.json


@pytest.mark.process
async def test_execution_failures_are_mapped_as_printed(zyra: Zyra, tmp_path: Path) -> None:
    missing = CALL.replace("samples/demo.npy", "samples/none.npy").replace("/tmp/heat", f"{tmp_path}/heat")
    for command in (
        missing,
        OLD_CALL.replace("samples/demo.npy", "samples/none.npy")
        .replace("/tmp/heat", f"{tmp_path}/heat")
        .replace("'X-", '"X-')
        .replace("_KEY'", '_KEY"'),
    ):
        error = (await both(command, zyra))["error"]
        assert error["code"] == -32000
        assert error["data"]["exit_code"] == 3 and "cannot read samples/none.npy" in error["data"]["stderr"]
        assert (error["data"]["stage"], error["data"]["command"]) == ("visualize", "heatmap")
    standard = missing.replace("/v1/mcp", "/mcp/zyra")
    result = (await both(standard, zyra))["result"]
    assert result["isError"] is True and result["structuredContent"]["exit_code"] == 3


@pytest.mark.process
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"input":"samples/demo.npy"', '"input":5', "input"),
        ('"input":"samples/demo.npy",', "", "input"),
        ('"visualize-heatmap"', '"visualize-nothing"', "visualize-nothing"),
        ('"output":"/tmp/heatmap.png"', f'"output":"{"x" * 300}"', "output: it makes a path that is too"),
        ('"mode":"sync"', '"mode":"soon"', "soon"),
        ('"arguments":{', '"arguments":[],"more":{', "arguments"),
        ('"name":"visualize-heatmap",', "", "name"),
    ],
)
async def test_validation_errors_are_mapped_as_printed(old: str, new: str, said: str, zyra: Zyra) -> None:
    error = (await both(CALL.replace(old, new), zyra))["error"]
    assert error["code"] == -32602 and said in error["message"]


async def begin(client: aiohttp.ClientSession, zyra: Zyra, name: str, **arguments: str) -> dict[str, Any]:
    """Begin a job, and see that it was accepted as printed."""
    params = {"name": name, "arguments": arguments, "mode": "async"}
    message = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params}
    async with client.post(f"{zyra.url}/v1/mcp", json=message) as answer:
        result: dict[str, Any] = (await answer.json())["result"]
    name = result["job_id"]
    assert result.items() >= {
        "status": "accepted", "poll": f"/jobs/{name}", "ws": f"/ws/jobs/{name}",
        "download": f"/jobs/{name}/download", "manifest": f"/jobs/{name}/manifest",
    }.items()  # fmt: skip
    return result


def events(text: str) -> list[dict[str, Any]]:
    """Events of a stream that contains only `data: {...}`."""
    pieces = text.split("\n\n")
    assert pieces.pop() == "" and all(piece.startswith("data: {") for piece in pieces)
    return [json.loads(piece.removeprefix("data: ")) for piece in pieces]


@pytest.mark.process
async def test_printed_observation_ends_with_the_job(
    client: aiohttp.ClientSession, zyra: Zyra, tmp_path: Path
) -> None:
    go_on = tmp_path / "continue"
    job = await begin(client, zyra, DECODE, file_or_url=f"wait:{go_on}")
    watching: list[asyncio.Task[Any]] = [
        asyncio.create_task(by_hand(OBSERVE, zyra.url, JOB_ID=job["job_id"]))
    ]
    watching += [asyncio.create_task(in_shell(OBSERVE, zyra.url, JOB_ID=job["job_id"]))] if CURL else []
    async with client.ws_connect(zyra.url + job["ws"]) as ws:
        while "message 2" not in (await ws.receive_str(timeout=WITHIN_S)):
            continue
    go_on.touch()
    for answer in await asyncio.gather(*watching):
        told = events(answer if isinstance(answer, str) else answer.text)
        assert (told[-1]["status"], told[-1]["exit_code"], told[-1]["progress"]) == ("succeeded", 0, 1.0)
        assert all(each["status"] in ("queued", "running") for each in told[:-1])
        assert "".join(each.get("stdout", "") for each in told).endswith("decoded\n")


@pytest.mark.process
async def test_observation_ends_after_max_ms(
    client: aiohttp.ClientSession, zyra: Zyra, tmp_path: Path
) -> None:
    job = await begin(client, zyra, DECODE, file_or_url=f"wait:{tmp_path / 'continue'}")
    url = f"{zyra.url}/v1/mcp/progress/{job['job_id']}?interval_ms=20&max_ms=100"
    async with client.get(url) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        told = events((await answer.read()).decode())
    assert 1 <= len(told) <= 7 and told[-1]["status"] in ("queued", "running")
    async with client.delete(zyra.url + job["poll"]) as answer:
        assert (await answer.json())["status"] == "canceled"
    async with client.get(url) as answer:
        assert events((await answer.read()).decode())[-1]["status"] == "canceled"


@pytest.mark.process
async def test_printed_conversation_over_a_websocket(zyra: Zyra) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{zyra.url}/v1/ws/mcp?api_key={KEY}") as ws,
    ):

        async def said() -> Any:
            return json.loads(await ws.receive_str(timeout=WITHIN_S))

        await ws.send_str(FRAMES[0])
        result = await said()
        assert (result["id"], result["result"]["protocolVersion"]) == (1, "2025-06-18")
        assert result["result"]["serverInfo"] == {"name": "zyra", "version": "0.9.1"}
        assert result["result"]["capabilities"]["tools"] == {"listChanged": True}
        assert await said() == {"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}}
        await ws.send_str(FRAMES[1])
        assert {tool["name"] for tool in (await said())["result"]["tools"]} == {HEATMAP, DECODE}
        await ws.send_str(FRAMES[2])
        accepted = await said()
        assert accepted["id"] == 3 and accepted["result"]["status"] == "accepted"
        told: list[dict[str, Any]] = []
        while not told or "exit_code" not in told[-1]:
            message = await said()
            assert message["method"] == "notifications/progress"
            told.append(message["params"])
        assert all(each["job_id"] == accepted["result"]["job_id"] for each in told)
        assert told[0]["progress"] == 0.0
        assert "decoding s3://..." in "".join(each.get("stdout", "") for each in told)
        assert (told[-1]["status"], told[-1]["exit_code"]) == ("succeeded", 0)


@pytest.mark.process
async def test_a_job_that_made_a_file_says_where_it_is(client: aiohttp.ClientSession, zyra: Zyra) -> None:
    job = await begin(client, zyra, HEATMAP, input="samples/demo.npy", output="heatmap.png")
    async with client.ws_connect(zyra.url + job["ws"] + "?stream=stdout,stderr,progress") as ws:
        told = [json.loads(message.data) async for message in ws]
    assert told[-1]["status"] == "succeeded"
    assert told[-1]["output_file"] == f"/v1/jobs/{job['job_id']}/download"
    async with client.get(zyra.url + told[-1]["output_file"]) as answer:
        body = await answer.read()
        assert answer.content_type == "image/png" and body.startswith(b"\x89PNG")
        assert answer.headers["Content-Disposition"] == 'attachment; filename="heatmap.png"'
    async with client.get(zyra.url + job["manifest"]) as answer:
        (listed,) = (await answer.json())["files"]
        assert (listed["name"], listed["size"]) == ("heatmap.png", len(body)) and len(listed["sha256"]) == 64
    async with client.get(zyra.url + job["poll"]) as answer:
        facts = await answer.json()
        assert (facts["status"], facts["exit_code"], facts["stdout"]) == ("succeeded", 0, "drawn\n")


@pytest.mark.process
async def test_a_job_that_failed_says_why(client: aiohttp.ClientSession, zyra: Zyra) -> None:
    job = await begin(client, zyra, DECODE, file_or_url="bad")
    async with client.ws_connect(zyra.url + job["ws"] + "?stream=stderr") as ws:
        told = [json.loads(message.data) async for message in ws]
    assert (told[-1]["status"], told[-1]["exit_code"]) == ("failed", 4)
    assert "".join(each.get("stderr", "") for each in told) == "no GRIB2\n"
    assert not any("stdout" in each or "progress" in each for each in told)


@pytest.mark.process
async def test_cancelling_ends_the_program_and_what_it_started(
    client: aiohttp.ClientSession, zyra: Zyra, tmp_path: Path
) -> None:
    mark = f"wait:{tmp_path / 'never'}"
    job = await begin(client, zyra, DECODE, file_or_url=mark)
    async with client.ws_connect(zyra.url + job["ws"]) as ws:
        while "message 2" not in (await ws.receive_str(timeout=WITHIN_S)):
            continue
        assert running_with(mark)
        async with client.delete(zyra.url + job["poll"]) as answer:
            assert answer.status == 200
        rest = [json.loads(message.data) async for message in ws]
    assert rest[-1]["status"] == "canceled"
    await until(lambda: not (running_with(mark)))


def running_with(argument: str) -> list[str]:
    """Processes with this argument."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if argument.encode() in words:
            found.append(place.parent.name)
    return found


@pytest.mark.process
@pytest.mark.parametrize(
    "path", ["/v1/mcp", "/jobs/x", "/jobs/x/download", "/v1/mcp/progress/x", "/ws/jobs/x"]
)
async def test_a_key_is_needed_everywhere(path: str, zyra: Zyra) -> None:
    for headers in ({}, {"X-API-Key": "wrong"}):
        assert (await plainly(zyra.url + path, headers=headers)).status == 401


@pytest.mark.process
async def test_a_body_over_the_limit_is_a_json_rpc_error(tmp_path: Path) -> None:
    for small in started(tmp_path, "--no-auth", ZYRA_MCP_MAX_BODY_BYTES="2000"):
        answer = await plainly(f"{small.url}/v1/mcp", "x" * 3000)
        assert answer.status == 413 and answer.json["error"]["code"] == -32600


@pytest.mark.slow
async def test_switched_off_it_is_not_there(tmp_path: Path) -> None:
    for closed in started(tmp_path, "--no-auth", ZYRA_ENABLE_MCP="false"):
        for path in ("/v1/mcp", "/jobs/x", "/mcp/zyra"):
            assert (await plainly(closed.url + path)).status == 404
        assert (await plainly(f"{closed.url}/health")).status == 200
