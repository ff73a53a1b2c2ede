"""`commands` of mcp.json as tools: an error leaves out one tool, and saving the file swaps them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mcpdesk.features import VARIABLE
from mcpdesk.features.program_tools.command_tools import Command, _Reporter, read_commands
from mcpdesk.hosting.folder.manifest import Manifest
from mcpdesk.hosting.hosted_folder import HostedFolder
from mcpdesk.hosting.journal import Journal
from mcpdesk.jobs.feed import CallFeed, ProgressReport
from mcpdesk.jobs.process_table import row
from mcpdesk.server.calls.running_call import Call
from mcpdesk.server.offer.registry import Unavailable
from mcpdesk.settings import resolve
from tests.support.desk import running_desk
from tests.support.patience import until
from tests.support.served import Peer


def command(name: str, *run: str, **more: Any) -> dict[str, Any]:
    return {"stage": "go", "command": name, "run": list(run) or ["true"], "description": f"Do {name}."} | more


def write(folder: Path, *commands: Any, **more: Any) -> None:
    folder.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(each) for each in commands)
    rest = "".join(f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in more.items())
    (folder / "mcp.json").write_text(f'{{"name": "go",\n{rest}"commands": [\n{lines}\n]}}')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "go"


def host(folder: Path) -> tuple[HostedFolder, Journal]:
    journal = Journal()
    return HostedFolder(
        folder, resolve({"state_dir": folder.parent / "state"}, {}).settings, journal
    ), journal


def names(hosted: HostedFolder) -> list[str]:
    return [tool.name for tool in hosted.server.tools]


def left_out(hosted: HostedFolder) -> dict[str, Unavailable]:
    return {each.name: each for each in hosted.server.tools.unavailable}


def test_without_the_feature_commands_are_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, command("a"))
    monkeypatch.setenv(VARIABLE, "program_tools")
    hosted, _ = host(folder)
    assert names(hosted) == [] and left_out(hosted) == {}
    problem = "mcp.json:2: commands are not offered, because program_tools is disabled"
    assert hosted.server.problems == (problem,)


def test_variables_of_entries_are_listed_even_if_an_entry_has_an_error(folder: Path) -> None:
    write(folder, command("a", requires_env=["A_KEY"], stages=1), command("b", requires_env=5))
    hosted, _ = host(folder)
    assert hosted.variables == {"A_KEY": "mcp.json"} and len(left_out(hosted)) == 2


def test_each_command_is_a_tool_that_runs_programs(folder: Path) -> None:
    given = {"properties": {"a": {"type": "string", "description": "A."}}, "required": ["a"]}
    write(folder, command("one", "echo", "{a}", parameters=given, timeout_ms=1500, title="One"))
    hosted, journal = host(folder)
    (tool,) = hosted.server.tools
    assert (tool.name, tool.title, tool.description, tool.source) == (
        "go-one",
        "One",
        "Do one.",
        "mcp.json:3",
    )
    assert tool.input_schema == {"type": "object", "additionalProperties": False} | given
    assert tool.output_schema is not None and "exit_code" in tool.output_schema["required"]
    assert (tool.timeout_s, tool.runs_programs, hosted.server.runs_programs) == (1.5, True, True)
    assert journal.lines() == []


def test_mistakes_leave_out_one_each_and_are_told_with_their_lines(folder: Path) -> None:
    write(
        folder,
        command("good"),
        command("typo", "echo", "{x}"),
        5,
        command("good"),
        command("absent", "no-such-program-here"),
        command("unused", "true", parameters={"properties": {"x": {}}}),
    )
    hosted, journal = host(folder)
    assert names(hosted) == ["go-good", "go-unused"]
    told = {(line.where, line.text) for line in journal.lines()}
    assert told == {
        ("mcp.json:4", "go-typo: run[1]: '{x}': no parameter 'x'; parameters: none"),
        ("mcp.json:5", "commands[2]: must be an object, not 5"),
        (
            "mcp.json:6",
            "go-good: the tool 'go-good' is defined twice: in mcp.json:3 (serving) and in mcp.json:6",
        ),
        (
            "mcp.json:7",
            "go-absent: needs the program no-such-program-here, which is not installed or not in PATH",
        ),
        ("", "mcp.json:8: go-unused: no placeholder uses the parameter 'x'"),
    }
    assert left_out(hosted)["go-absent"].is_fit and not left_out(hosted)["go-typo"].is_fit


@pytest.mark.process
async def test_saving_the_manifest_swaps_commands_in_open_sessions(folder: Path) -> None:
    write(folder, command("one", "echo", "first"), command("two"))
    hosted, journal = host(folder)
    peer = Peer(hosted.server)
    await peer.shake_hands()

    async def says(number: int) -> Any:
        peer.request(number, "tools/call", {"name": "go-one", "arguments": {}})
        return (await peer.response(number))["result"]["structuredContent"]["stdout"]

    assert await says(1) == "first\n"
    write(folder, command("one", "echo", "second"), command("three"))
    changes = await hosted.reload()
    assert (changes.added, changes.changed, changes.removed) == (("go-three",), ("go-one",), ("go-two",))
    assert await says(2) == "second\n"
    assert any(each.get("method") == "notifications/tools/list_changed" for each in peer.received)
    assert not await hosted.reload()
    # A broken command keeps its last version; a repaired one is announced.
    write(folder, command("one", "echo", "{x}"), command("three"))
    assert (await hosted.reload()).broken == ("go-one",)
    assert left_out(hosted)["go-one"].is_serving
    assert await says(3) == "second\n"
    write(folder, command("one", "echo", "second"), command("three"))
    assert (await hosted.reload()).repaired == ("go-one",)
    assert "1 broken: go-one" in " ".join(notice.text for notice in journal.notices())


async def test_program_that_appears_brings_its_tool_and_one_that_leaves_takes_it(folder: Path) -> None:
    write(folder, command("own", "./own.sh"))
    hosted, _ = host(folder)
    assert names(hosted) == []
    own = folder / "own.sh"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    assert (await hosted.reload()).added == ("go-own",)
    own.unlink()
    changes = await hosted.reload()
    assert (names(hosted), changes.broken) == ([], ())
    assert left_out(hosted)["go-own"].reason == "needs the program ./own.sh, which does not exist"


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(list(Command.__struct_fields__))
ENTRIES = st.one_of(
    JSON, st.builds(lambda more: command("x", "true", "{a}") | more, st.dictionaries(KEYS, JSON))
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(ENTRIES, max_size=4))
def test_nothing_in_an_entry_keeps_the_good_one_from_serving(entries: list[Any]) -> None:
    given = [command("good"), *entries]
    text = json.dumps({"commands": given})
    manifest = Manifest(folder=Path(__file__).parent, name="x", commands=given, text=text)
    found = read_commands(manifest, {"PATH": "/usr/bin:/bin"})
    assert found.items[0].name == "go-good"
    assert len(found.items) + len(found.broken) == len(given)
    assert all(each.reason and each.source == "mcp.json:1" for _, each in found.broken)


@pytest.mark.process
async def test_gateway_tells_failures_and_bad_arguments_as_errors(folder: Path) -> None:
    given = {"properties": {"out": {"type": "string"}}, "required": ["out"]}
    write(
        folder,
        command("fail", "sh", "-c", "echo said; echo why >&2; exit 4"),
        command("make", "touch", "--", "{out}", parameters=given, produces=["{out}"]),
    )
    async with running_desk(folder, http=True, no_auth=True) as desk, aiohttp.ClientSession() as client:
        url = desk.view().servers[0].url.partition("/mcp/")[0] + "/v1/mcp"

        async def answer(name: str, **args: Any) -> Any:
            params = {"stage": "go", "command": name, "args": args}
            body = {"jsonrpc": "2.0", "id": 1, "method": "callTool", "params": params}
            async with client.post(url, json=body) as response:
                return await response.json()

        assert (await answer("fail"))["error"] == {
            "code": -32000,
            "message": "go-fail failed with exit code 4",
            "data": {"exit_code": 4, "stage": "go", "command": "fail", "stderr": "why\n", "stdout": "said\n"},
        }
        error = (await answer("make", out="/etc/made"))["error"]
        assert error["code"] == -32602 and "- out: no file may be written at '/etc/made'" in error["message"]
        result = (await answer("make", out="made.txt"))["result"]
        assert (result["status"], result["exit_code"]) == ("ok", 0)
        assert [Path(each).name for each in result["structuredContent"]["output_files"]] == ["made.txt"]


async def test_command_makes_a_key_due(folder: Path) -> None:
    write(folder, command("one"))
    async with running_desk(folder, http=True) as desk:
        assert desk.view().protection == "key"
        write(folder)
        desk.reload("go")
        await until(lambda: desk.view().protection == "loopback")


ECHO = "import json, os, sys; print(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]))"
PROGRAM: dict[str, dict[str, Any]] = {
    "echo": {"run": ["{python}", "-c", ECHO, "--name={name}", "--loud", "{loud}", "{rest}"],
             "parameters": {"properties": {"name": {"type": "string", "default": "nobody"},
                                           "loud": {"type": "boolean"},
                                           "rest": {"type": "array", "items": {"type": "string"}}}}},
    "fail": {"run": ["sh", "-c", "echo out; echo err >&2; exit 3"]},
    "draw": {"run": ["{python}", "draw.py", "{output}"], "produces": ["{output}"],
             "parameters": {"properties": {"output": {"type": "string"}}, "required": ["output"]}},
    "steps": {"run": ["{python}", "steps.py"], "progress": "json-lines"},
    "slow": {"run": ["sh", "-c", "echo begun; sleep 60 & echo $! > pid; trap '' TERM; wait"],
             "timeout_ms": 2000, "folder": "work"},
    "hold": {"run": ["sh", "-c", "echo $$ > pid; sleep 60"], "folder": "work"},
    "gone": {"run": ["./gone.sh"]},
    "quiet": {"run": ["true"], "produces": ["left.txt"]},
}  # fmt: skip
DRAW = (
    "import base64, sys\n"
    "data = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGD4DwABBAEAX+XDSw'\n"
    "open(sys.argv[1], 'wb').write(base64.b64decode(data + 'AAAABJRU5ErkJggg=='))\n"
    "print('drew', sys.argv[1])\n"
)
STEPS = (
    "import json, sys, time\n"
    "for step in range(1, 4):\n"
    "    print(json.dumps({'progress': step, 'total': 3, 'message': f'step {step}'}))\n"
    "    print('line', step, file=sys.stderr if step == 2 else sys.stdout)\n"
)


class Bench:
    """A folder with programs, and a peer of its server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "work").mkdir(parents=True)
        (folder / "draw.py").write_text(DRAW)
        (folder / "steps.py").write_text(STEPS)
        (folder / "gone.sh").write_text("#!/bin/sh\n")
        (folder / "gone.sh").chmod(0o755)
        commands = [{"stage": "try", "command": name} | entry for name, entry in PROGRAM.items()]
        (folder / "mcp.json").write_text(json.dumps({"name": "bench", "commands": commands}))
        self.journal = Journal()
        state = folder.parent / "state"
        self.hosted = HostedFolder(folder, resolve({"state_dir": state}, {}).settings, self.journal)
        server = self.hosted.server
        server.limits = replace(server.limits, output_dirs=(folder.parent / "shared",))
        self.peer = Peer(self.hosted.server)
        self._numbers = count(1)

    async def result(self, name: str, **arguments: Any) -> dict[str, Any]:
        number = next(self._numbers)
        if number == 1:
            await self.peer.shake_hands()
        self.peer.request(number, "tools/call", {"name": f"try-{name}", "arguments": arguments})
        answer = await self.peer.response(number)
        found: dict[str, Any] = answer["result"]
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    yield Bench(tmp_path / "bench")


@pytest.mark.process
async def test_values_arrive_as_arguments_in_the_folder(bench: Bench) -> None:
    values = ["a b", "$(touch pwned)", "; ls", "'\"", "ü\n"]
    result = await bench.result("echo", rest=values, loud=True)
    assert result["isError"] is False
    structured = result["structuredContent"]
    argv, folder, _ = json.loads(structured["stdout"])
    assert argv == ["--name=nobody", "--loud", *values]
    assert Path(folder) == bench.folder
    assert not (bench.folder / "pwned").exists()
    assert {key: structured[key] for key in ("status", "exit_code", "stage", "command", "output_files")} == {
        "status": "ok", "exit_code": 0, "stage": "try", "command": "echo", "output_files": [],
    }  # fmt: skip


@pytest.mark.process
async def test_environment_is_what_is_allowed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = json.loads((bench.folder / "mcp.json").read_text())
    manifest["commands"][0]["environment"] = ["BENCH_ALLOWED"]
    (bench.folder / "mcp.json").write_text(json.dumps(manifest))
    await bench.hosted.reload()
    for name in ("BENCH_ALLOWED", "BENCH_SECRET", "LC_TIME"):
        monkeypatch.setenv(name, "set")
    result = await bench.result("echo")
    environment = json.loads(result["structuredContent"]["stdout"])[2]
    assert environment["BENCH_ALLOWED"] == environment["LC_TIME"] == "set"
    assert environment["PATH"] == os.environ["PATH"]
    assert "BENCH_SECRET" not in environment


@pytest.mark.process
async def test_exit_code_is_an_error_with_everything_it_wrote(bench: Bench) -> None:
    result = await bench.result("fail")
    assert result["isError"]
    structured = result["structuredContent"]
    assert {key: structured[key] for key in ("status", "exit_code", "stdout", "stderr", "timed_out")} == {
        "status": "error", "exit_code": 3, "stdout": "out\n", "stderr": "err\n", "timed_out": False,
    }  # fmt: skip
    assert "[exit code 3]" in result["content"][0]["text"]


@pytest.mark.process
async def test_program_or_folder_that_vanished_is_told(bench: Bench) -> None:
    (bench.folder / "gone.sh").unlink()
    told = f"could not be started in {bench.folder}: No such file"
    result = await bench.result("gone")
    assert result["isError"] and f"gone.sh {told}" in result["content"][0]["text"]
    bench.folder.rename(bench.folder.with_name("other_processes"))
    result = await bench.result("fail")
    assert result["isError"] and told in result["content"][0]["text"]


@pytest.mark.process
async def test_files_are_made_in_the_folder_of_the_call_and_pictures_are_seen(bench: Bench) -> None:
    result = await bench.result("draw", output="deep/map.png")
    (path,) = map(Path, result["structuredContent"]["output_files"])
    assert path.is_relative_to(bench.folder.parent / "state") and path.parts[-2:] == ("deep", "map.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    text, picture = result["content"]
    assert f"[wrote {path}]" in text["text"]
    assert (picture["type"], picture["mimeType"]) == ("image", "image/png")


@pytest.mark.process
async def test_file_may_be_made_where_the_setting_allows_it_and_nowhere_else(bench: Bench) -> None:
    wanted = bench.folder.parent / "shared" / "map.png"
    result = await bench.result("draw", output=str(wanted))
    assert result["structuredContent"]["output_files"] == [str(wanted)]
    for path in (bench.folder / "mcp.json", bench.folder / "tools" / "evil.py", Path("/etc/x")):
        before = path.read_bytes() if path.exists() else None
        result = await bench.result("draw", output=str(path))
        assert result["isError"] and "no file may be written at" in result["content"][0]["text"]
        assert (path.read_bytes() if path.exists() else None) == before


@pytest.mark.process
async def test_what_somebody_else_put_there_is_not_written_over(bench: Bench) -> None:
    shared = bench.folder.parent / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    server = bench.hosted.server
    server.limits = replace(server.limits, output_dirs=(shared, bench.folder.parent))
    for _ in range(2):
        result = await bench.result("draw", output=str(shared / "map.png"))
        assert result["structuredContent"]["output_files"] == [str(shared / "map.png")]
    (shared / "theirs").mkdir()
    (shared / "precious").write_text("precious")
    (shared / "link").symlink_to(shared / "nothing")
    for name in ("precious", "link", "theirs", "theirs/new.py", "../bench/tools/evil.py", "../shared"):
        result = await bench.result("draw", output=str(shared / name))
        assert result["isError"] and "output" in result["content"][0]["text"], name
    assert (shared / "precious").read_text() == "precious"
    assert sorted(path.name for path in shared.rglob("*")) == ["link", "map.png", "precious", "theirs"]
    assert not (bench.folder / "tools").exists()


@pytest.mark.process
async def test_what_should_have_been_written_and_was_not_is_noted(bench: Bench) -> None:
    result = await bench.result("quiet")
    assert not result["isError"]
    assert result["content"][0]["text"] == f"(no output)\n[{bench.folder}/left.txt was not written]"


@pytest.mark.process
async def test_progress_is_told_and_is_no_output(bench: Bench) -> None:
    await bench.peer.shake_hands()
    params = {"name": "try-steps", "arguments": {}, "_meta": {"progressToken": "t"}}
    bench.peer.request(70, "tools/call", params)
    answer = await bench.peer.response(70)
    assert answer["result"]["structuredContent"]["stdout"] == "line 1\nline 3\n"
    assert answer["result"]["structuredContent"]["stderr"] == "line 2\n"
    told = [each["params"] for each in bench.peer.received if each.get("method") == "notifications/progress"]
    assert [(each["progress"], each["total"], each["message"]) for each in told] == [
        (1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3"),
    ]  # fmt: skip
    place = bench.peer.received.index(answer)
    assert all(bench.peer.received.index(each) < place for each in bench.peer.received if "method" in each)


async def test_progress_just_before_the_end_is_reported_before_the_answer() -> None:
    reported: list[tuple[float, float | None, str]] = []

    async def progress(*report: Any) -> None:
        reported.append(report)

    context: Any = SimpleNamespace(feed=None, progress=progress)
    reporter = _Reporter(context)
    async with reporter:
        reporter.progress(ProgressReport(2, 3, "nearly"))
        reporter.progress(ProgressReport(3, 3, "done"))
    assert reported == [(2, 3, "nearly"), (3, 3, "done")]


@pytest.mark.process
async def test_feed_hears_what_runs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = CallFeed()
    monkeypatch.setattr(Call, "feed", feed)
    await bench.result("steps")
    result = await bench.result("draw", output="map.png")
    news = feed.since()
    assert (news.stdout.splitlines()[:2], news.stderr) == (["line 1", "line 3"], "line 2\n")
    assert news.progress == (3, 3, "step 3")
    assert [str(path) for path in news.files] == result["structuredContent"]["output_files"]


@pytest.mark.slow
async def test_time_that_is_up_ends_the_whole_family(bench: Bench) -> None:
    result = await bench.result("slow")
    assert result["isError"]
    structured = result["structuredContent"]
    assert (structured["timed_out"], structured["stdout"]) == (True, "begun\n")
    assert "[timed out after 2000 ms and was ended]" in result["content"][0]["text"]
    found = row(int((bench.folder / "work" / "pid").read_text()))
    assert found is None or found.is_zombie


@pytest.mark.process
async def test_cancelled_call_ends_the_program(bench: Bench) -> None:
    await bench.peer.shake_hands()
    bench.peer.request(8, "tools/call", {"name": "try-hold", "arguments": {}})
    pid_file = bench.folder / "work" / "pid"
    await until(lambda: pid_file.exists() and pid_file.read_text())
    pid = int(pid_file.read_text())
    assert psutil.pid_exists(pid)
    bench.peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 8}})
    await until(lambda: bench.peer.channel.dialogue.is_idle)
    assert not psutil.pid_exists(pid)
