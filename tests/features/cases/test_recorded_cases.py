"""Recorded calls become cases that pass: from a capture in the shell, and from a key on the desk."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.features.cases.recorded_cases import case_file, cases
from mcpdesk.testing import ServerUnderTest
from mcpdesk.tui.screens.main_screen import KEY_PAUSE_S
from tests.support.folders import write
from tests.support.terminal import Desk
from tests.support.traffic import asking_recording

HELLO = Path(__file__).parents[3] / "sample_servers" / "hello"
ANSWERS: list[dict[str, Any]] = [
    {"question": "Which tea", "answer": "Assam"},
    {"question": "What goes", "answer": ["Milk"]},
]
ENTER, CTRL_R = "\r", "\x12"


def mcpdesk(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcpdesk", *arguments],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.process
def test_a_capture_becomes_cases_that_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPDESK_STATE_DIR", str(tmp_path / "state"))
    program = [sys.executable, "-m", "mcpdesk", "stdio", str(HELLO), "--alone"]
    with ServerUnderTest(f"-- {shlex.join(program)}") as client:
        for _ in range(2):
            client.call("greet", name="Ada")
        client.call("greet")
        client.call("order-tea", answers=ANSWERS)
        client.read("resource://about")
    [capture] = (tmp_path / "state").rglob("*.jsonl")
    file = tmp_path / "cases.json"
    exported = mcpdesk("export", str(capture), "--as", "cases", "--output", str(file))
    assert exported.returncode == 0, exported.stderr
    names = [case["name"] for case in json.loads(file.read_text())]
    assert names == ["tool greet", "tool greet", "tool order-tea", "resource resource://about"]
    finished = mcpdesk("test", str(HELLO), "--cases", str(file))
    assert finished.returncode == 0, finished.stdout
    assert "4 cases: 4 passed" in finished.stdout


def test_answers_are_kept_in_both_eras() -> None:
    index = asking_recording().index
    rounds, asking = json.loads(b"".join(case_file(cases(index, [0, 3, 7]))))
    assert rounds == {
        "name": "tool book-flight",
        "tool": "book-flight",
        "arguments": {"to": "Lisbon"},
        "answers": [
            {"elicitation": {"seat": "7A"}},
            {"elicitation": {"meal": "vegan"}},
            {"elicitation": {"bags": 1}},
        ],
        "expect": {"text": "Booked."},
    }
    assert asking["answers"] == [{"elicitation": {"place": "garden"}}]
    assert asking["expect"] == {"text": "A party for 12 in the garden."}


VARYING = {
    "mcp.json": '{"name": "varying"}',
    "tools/varying.py": '''
        import os, time, uuid
        from pathlib import Path


        async def facts(name: str, api_key: str = "") -> dict:
            """Facts that are others each time."""
            here = str(Path(__file__).resolve())
            facts = {"name": name, "pid": os.getpid(), "at": time.time(), "path": here}
            return {**facts, "secret": api_key}


        async def told(name: str) -> str:
            """The same as a text."""
            return f"{name}: {uuid.uuid4()} in {time.perf_counter():.3f} ms by process {os.getpid()}"


        async def broken() -> str:
            """Fails."""
            raise ValueError(f"no tea since {time.strftime('%H:%M:%S')}")
        ''',
}


@pytest.mark.process
def test_what_is_another_each_time_is_expected_by_its_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPDESK_STATE_DIR", str(tmp_path / "state"))
    folder = write(tmp_path / "varying", VARYING)
    program = [sys.executable, "-m", "mcpdesk", "stdio", str(folder), "--alone"]
    with ServerUnderTest(f"-- {shlex.join(program)}") as client:
        client.call("facts", name="Ada", api_key="hunter2-hunter2")
        client.call("told", name="Ada")
        client.call("broken")
    [capture] = (tmp_path / "state").rglob("*.jsonl")
    file = folder / "cases" / "recorded.json"
    file.parent.mkdir()
    assert mcpdesk("export", str(capture), "--as", "cases", "--output", str(file)).returncode == 0
    facts, told, broken = json.loads(file.read_text())
    assert facts["arguments"] == {"name": "Ada", "api_key": "${API_KEY}"} and "••••" not in file.read_text()
    assert facts["expect"]["structured_like"] == {
        "name": "Ada",
        "pid": "{{number}}",
        "at": "{{number}}",
        "path": "{{path}}",
        "secret": "{{any}}",
    }
    assert told["expect"] == {"like": "Ada: {{uuid}} in {{duration}} by process {{number}}"}
    assert "no tea since" in broken["expect"]["error"]
    lacking = mcpdesk("test", str(folder))
    assert lacking.returncode == 1 and "needs the environment variable API_KEY" in lacking.stdout
    monkeypatch.setenv("API_KEY", "hunter2-hunter2")
    finished = mcpdesk("test", str(folder))
    assert finished.returncode == 0, finished.stdout


@pytest.mark.slow
def test_a_call_of_the_desk_becomes_a_case_with_what_the_person_answered(tmp_path: Path) -> None:
    folder = tmp_path / "hello"
    (folder / "tools").mkdir(parents=True)
    (folder / "tools" / "order_tea.py").write_text((HELLO / "tools" / "order_tea.py").read_text())
    with Desk([str(folder), "--port", "0"], columns=120, rows=40) as desk:
        desk.see("order-tea")
        desk.press(CTRL_R)
        desk.see(r"(?s)waiting ([2-9]|\d\d) s.*Which tea")  # keys count by then
        desk.press(f"1{ENTER}")
        desk.see("What goes into it")
        desk.press(f"1{ENTER}")
        desk.see("One Assam with Milk")
        time.sleep(2 * KEY_PAUSE_S)  # the screen takes keys again, and does not tell
        desk.press("2")
        desk.see("tools/call order-tea")
        desk.press("w")
        desk.see("this one, test case")
        desk.press("t")
        desk.see("1 test case of 1 call written to")
    [file] = (folder / "cases").iterdir()
    [case] = json.loads(file.read_text())
    assert [answer["answer"] for answer in case["answers"]] == ["Assam", ["Milk"]]
    finished = mcpdesk("test", str(folder))
    assert finished.returncode == 0, finished.stdout
