"""Requests through a tap are held by an attached screen: real processes between real pipes."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from mcpdesk.cli.desk import capture_link
from mcpdesk.errors import DeskUserError
from mcpdesk.features.holding.held_message import (
    CannedCall,
    Delay,
    HeldMessage,
    HoldView,
    Mock,
    Release,
    SetFaults,
    SetHold,
    Verdict,
)
from mcpdesk.features.tap import tap_link
from mcpdesk.features.tap.tap_link import TapLink
from mcpdesk.features.tap.taps import RunningTap, running_taps, tap_of
from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.readable_message import held_messages
from mcpdesk.transports import rendezvous
from tests.support.patience import WITHIN_S, result_of, wait_until
from tests.support.terminal import Desk

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]
TAP = [sys.executable, "-m", "mcpdesk", "stdio", "--"]
ECHO = [
    sys.executable,
    "-S",
    "-c",
    "import os\nwhile d := os.read(0, 999):\n while d: d = d[os.write(1, d):]",
]
SERVER = [
    sys.executable,
    "-S",
    "-c",
    """
import json, sys

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    got = json.loads(line)
    if got.get("method") == "tools/call":
        token = got["params"].get("_meta", {}).get("progressToken")
        if token is not None:
            say(method="notifications/progress", params={"progressToken": token, "progress": 1})
            say(method="notifications/progress", params={"progressToken": token, "progress": 2})
        if got["params"]["name"] == "ask":
            say(id="q", method="elicitation/create", params={"message": "Sure?", "requestedSchema": {}})
            got["reply"] = json.loads(sys.stdin.readline())
        say(id=got["id"], result={"got": got})
    else:
        say(method="notifications/message", params={"level": "info", "data": got})
""",
]


class Client:
    """A process that starts a server behind a tap."""

    def __init__(self, process: subprocess.Popen[bytes], tap: RunningTap) -> None:
        self.process, self.tap = process, tap

    def call(self, id: int, name: str = "run", **more: Any) -> None:
        """Call a tool."""
        params = {"name": name, "arguments": {"command": "rm -rf /"}, **more}
        self.send({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})

    def send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    def can_hear(self) -> bool:
        """Whether a message is there."""
        out = self.process.stdout
        assert out is not None
        return bool(select.select([out], [], [], 0)[0])

    def hears(self, within_s: float = WITHIN_S) -> Any:
        """Next message, or None on timeout."""
        out = self.process.stdout
        assert out is not None
        return json.loads(out.readline()) if select.select([out], [], [], within_s)[0] else None


@contextmanager
def tapped(command: list[str] = SERVER) -> Iterator[Client]:
    """A client whose server is behind a tap."""
    with subprocess.Popen([*TAP, *command], cwd=ROOT, stdin=-1, stdout=-1, bufsize=0) as process:
        try:
            state = Path(os.environ["MCPDESK_STATE_DIR"])
            [tap] = wait_until(lambda: [one for one in running_taps(state) if one.pid == process.pid])
            yield Client(process, tap)
        finally:
            process.kill()


def archive_of(tap: RunningTap) -> Archive:
    """Return the capture as soon as it exists."""

    def opened() -> Archive | None:
        try:
            return Archive(Path(tap.capture))
        except DeskUserError:
            return None

    found: Archive = wait_until(opened)
    return found


@contextmanager
def looking(client: Client) -> Iterator[TapLink]:
    """A screen attached to the tap."""
    link = capture_link(archive_of(client.tap))
    assert isinstance(link, TapLink)
    try:
        yield link
    finally:
        link.close()


def held(link: TapLink) -> HeldMessage:
    """Wait for a held message and return it."""
    found: HeldMessage = wait_until(lambda: link.feature_part(HoldView).messages)[0]
    return found


def release(link: TapLink, how: Verdict, text: str = "") -> None:
    one = held(link)
    assert result_of(link.do(Release(one.number, how, text or one.text)))
    wait_until(lambda: one not in link.feature_part(HoldView).messages)


def test_a_call_through_a_tap_is_held_and_changed_while_others_pass(own_folders: Path) -> None:
    with tapped() as client, looking(client) as link:
        assert link.view().can_intercept and link.view().capture_grows
        client.call(1)
        assert client.hears()["id"] == 1
        assert result_of(link.do(SetHold("tool:run", "requests")))
        client.call(2)
        client.call(3, "other")
        assert client.hears()["id"] == 3
        one = held(link)
        assert (one.method, one.name, one.id, one.is_answer) == ("tools/call", "run", 2, False)
        [told] = [notice.text for notice in link.notices() if notice.text.startswith("held")]
        assert "tools/call run" in told
        release(link, Verdict.CHANGE, one.text.replace("rm -rf /", "ls"))
        assert client.hears()["result"]["got"]["params"]["arguments"] == {"command": "ls"}
        link.traffic.catch_up(1)
        wait_until(lambda: link.traffic.marks or link.traffic.catch_up(1))
        wait_until(lambda: len(link.traffic.exchanges) >= 3 or link.traffic.catch_up(1))
        [changed] = [each for each in link.traffic.exchanges if each.id == 2]
        [mark] = held_messages(link.traffic, changed)
        assert (mark.side, mark.how) == ("request", "changed")
        assert mark.was["params"]["arguments"] != mark.now["params"]["arguments"] == {"command": "ls"}


def test_a_tap_that_is_stopped_holds_nobody_up_and_answers_later(
    own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tap_link, "MAX_UNSENT_BYTES", 4 << 20)
    with tapped() as client, looking(client) as link:
        client.call(1)
        assert client.hears()["id"] == 1
        tap = psutil.Process(client.process.pid)
        processes = [tap, *tap.children(recursive=True)]
        for each in processes:
            each.suspend()
        try:
            asked = [link.do(SetFaults("#" * (1 << 20))) for _ in range(8)]
        finally:
            for each in processes:
                each.resume()
        with pytest.raises(ValueError, match="does not answer"):
            asked[-1].result(0)
        taken = [each for each in asked if not each.done() or each.exception() is None]
        assert asked[0] in taken
        assert all(result_of(each) for each in taken)


READER = [
    sys.executable,
    "-S",
    "-c",
    """
import json, sys

text = ""
for line in sys.stdin:
    text += line
    try:
        got = json.loads(text)
    except ValueError:
        continue
    answer = {"jsonrpc": "2.0", "id": got["id"], "result": {"got": got, "text": text}}
    print(json.dumps(answer, indent=2), flush=True)
    text = ""
""",
]


def test_a_message_over_several_lines_is_held_as_one(own_folders: Path) -> None:
    with tapped(READER) as client, looking(client) as link:
        params = {"name": "run", "arguments": {"command": "rm -rf /"}}
        call = {"jsonrpc": "2.0", "method": "tools/call", "params": params}
        pretty = [json.dumps({**call, "id": number}, indent=2) + "\n" for number in range(4)]

        def write(text: str) -> None:
            assert client.process.stdin is not None
            client.process.stdin.write(text.encode())

        def answer() -> Any:
            """The next answer, which is over several lines."""
            out, text = client.process.stdout, b""
            assert out is not None
            while select.select([out], [], [], WITHIN_S)[0]:
                text += out.readline()
                if text.endswith(b"\n}\n"):
                    break
            assert text.count(b"\n") > 3
            return json.loads(text)

        assert result_of(link.do(SetHold("tool:run", "requests")))
        write(pretty[0])
        assert (held(link).name, held(link).id) == ("run", 0)
        release(link, Verdict.PASS)
        assert answer()["result"]["text"] == pretty[0], "the very bytes pass"
        write(pretty[1])
        release(link, Verdict.CHANGE, held(link).text.replace("rm -rf /", "ls"))
        changed = answer()["result"]
        assert changed["got"]["params"]["arguments"] == {"command": "ls"} and changed["text"].count("\n") == 1
        write(pretty[2])
        release(link, Verdict.DROP)
        assert result_of(link.do(SetHold("tool:run", "answers")))
        write(pretty[3])
        one = held(link)
        assert (one.id, one.is_answer) == (3, True) and not client.can_hear()
        release(link, Verdict.PASS)
        assert answer()["id"] == 3, "of the dropped one nothing came"
        write(pretty[0].partition("}")[0])
        assert result_of(link.do(SetHold("", "answers")))
        write("}" + pretty[0].partition("}")[2])
        assert answer()["result"]["text"] == pretty[0], "a begun answer is completed when holding ends"


def test_a_filter_that_is_none_is_refused_with_the_reason(own_folders: Path) -> None:
    with tapped() as client, looking(client) as link:
        with pytest.raises(ValueError, match="never closed"):
            result_of(link.do(SetHold("(tool:run", "both")))
        assert link.feature_part(HoldView).rule == ""


def test_a_person_answers_in_the_servers_stead_and_drops_an_answer(own_folders: Path) -> None:
    with tapped() as client, looking(client) as link:
        result_of(link.do(SetHold("tool:run", "both")))
        client.call(1)
        release(link, Verdict.ANSWER, '{"content": []}')
        assert client.hears() == {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}
        client.call(2)
        release(link, Verdict.PASS)
        assert held(link).is_answer and client.hears(0.1) is None
        release(link, Verdict.DROP)
        client.call(3)
        release(link, Verdict.PASS)
        one = held(link)
        assert result_of(link.do(Delay(one.number, 0.05)))
        assert client.hears()["id"] == 3
        client.process.stdin.close()  # type: ignore[union-attr]
        assert client.process.wait(WITHIN_S) == 0
    frames = [json.loads(one.data) for one in archive_of(client.tap).frames(0, 9) if one is not None]
    told = [(one["id"], "method" in one) for one in frames]
    assert told == [(1, True), (1, False), (2, True), (3, True), (3, False)]


def test_what_a_server_tells_and_asks_is_held_in_order(own_folders: Path) -> None:
    with tapped() as client, looking(client) as link:
        result_of(link.do(SetHold("method:notifications/progress", "both")))
        client.call(1, _meta={"progressToken": "p"})
        first = held(link)
        assert client.hears(0.1) is None, "the answer waits behind the notifications of its request"
        release(link, Verdict.CHANGE, first.text.replace('"progress": 1', '"progress": 0.5'))
        assert client.hears()["params"]["progress"] == 0.5
        release(link, Verdict.DROP)
        assert client.hears()["id"] == 1
        result_of(link.do(SetHold("method:elicitation/create", "both")))
        client.call(2, "ask")
        release(link, Verdict.ANSWER, '{"action": "decline"}')
        assert client.hears()["result"]["got"]["reply"]["result"] == {"action": "decline"}
        client.call(3, "ask")
        release(link, Verdict.PASS)
        assert client.hears()["id"] == "q"
        client.send({"jsonrpc": "2.0", "id": "q", "result": {"action": "accept"}})
        one = held(link)
        release(link, Verdict.CHANGE, one.text.replace("accept", "cancel"))
        assert client.hears()["result"]["got"]["reply"]["result"] == {"action": "cancel"}
        result_of(link.do(SetHold("kind:notification", "both")))
        client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        release(link, Verdict.PASS)
        release(link, Verdict.PASS)
        assert client.hears()["params"]["data"]["method"] == "notifications/initialized"


def test_a_canned_answer_and_faults_reach_the_client_of_a_tap(own_folders: Path) -> None:
    with tapped() as client, looking(client) as link:
        server = link.traffic.connections[1].server
        assert result_of(
            link.do(Mock(CannedCall(server, "tools/call", "run"), '{"result": {"content": []}}'))
        )
        client.call(1)
        assert client.hears()["result"] == {"content": []}
        result_of(link.do(Mock(CannedCall(server, "tools/call", "run"), "")))
        result_of(link.do(SetFaults('error -32000 "by rule" for tool:run')))
        client.call(2)
        assert client.hears()["error"] == {"code": -32000, "message": "by rule"}
        result_of(link.do(SetFaults("cut for tool:run")))
        client.call(3)
        out = client.process.stdout
        assert out is not None
        rest = out.read()
        assert rest.startswith(b'{"jsonrpc": "2.0", "id": 3') and b"\n" not in rest
        assert client.process.wait(WITHIN_S) != 0


def test_when_the_last_screen_leaves_what_is_held_goes_on(own_folders: Path) -> None:
    with tapped() as client, looking(client) as other:
        with looking(client) as link:
            result_of(link.do(SetHold("tool:run", "requests")))
            client.call(1)
            held(link)
        assert client.hears(0.2) is None and held(other).id == 1, "another one is there"
        other.close()
        assert client.hears()["id"] == 1
        client.call(2)
        assert client.hears()["id"] == 2
        with looking(client) as link:
            assert not rendezvous.is_stale(client.tap.door), "a check for a core must not count as a visit"
            wait_until(lambda: link.feature_part(HoldView).directions == "requests")
            result_of(link.do(SetHold("tool:run", "requests")))
            assert not rendezvous.is_stale(client.tap.door)
            client.call(3)
            assert held(link).id == 3


def test_when_the_recorder_is_killed_what_is_held_goes_on(own_folders: Path) -> None:
    with tapped() as client, looking(client) as link:
        result_of(link.do(SetHold("tool:run", "requests")))
        client.call(1)
        held(link)
        [recorder] = [
            each for each in psutil.Process(client.process.pid).children() if "mcpdesk" in each.cmdline()
        ]
        recorder.kill()
        assert client.hears()["id"] == 1
        client.call(2)
        assert client.hears()["id"] == 2
        wait_until(lambda: not link.view().can_intercept)
        assert (
            link.feature_part(HoldView).rule == ""
            and result_of(link.do(SetHold("tool:run", "both"))) is False
        )


def test_a_client_that_ends_its_input_still_gets_what_was_held(own_folders: Path) -> None:
    with tapped() as client, looking(client) as link:
        result_of(link.do(SetHold("tool:run", "both")))
        client.call(1)
        held(link)
        client.process.stdin.close()  # type: ignore[union-attr]
        release(link, Verdict.PASS)
        assert held(link).is_answer
        release(link, Verdict.PASS)
        assert client.hears()["id"] == 1
        assert client.process.wait(WITHIN_S) == 0


def test_a_client_that_is_gone_is_not_waited_for(own_folders: Path) -> None:
    with tapped() as client, looking(client) as link:
        result_of(link.do(SetHold("tool:run", "both")))
        client.call(1)
        held(link)
        client.process.stdin.close()  # type: ignore[union-attr]
        client.process.stdout.close()  # type: ignore[union-attr]
        assert client.process.wait(2 * WITHIN_S) is not None


def test_not_a_byte_changes_while_holding_begins_and_ends_at_any_place(own_folders: Path) -> None:
    dice = random.Random(7)
    lines = [b"x" * dice.randrange(0, 4000) for _ in range(300)]
    lines += [
        json.dumps({"jsonrpc": "2.0", "id": n, "method": "m", "n": "é" * n}).encode() for n in range(300)
    ]
    dice.shuffle(lines)
    whole = b"\n".join([*lines, b"y" * (3 << 20), b"no newline at the end"])
    with tapped(ECHO) as client, looking(client) as link:
        stdin, stdout = client.process.stdin, client.process.stdout
        assert stdin is not None and stdout is not None
        sizes = random.Random(8)

        def write() -> None:
            sent = 0
            while sent < len(whole):
                sent += os.write(stdin.fileno(), whole[sent : sent + sizes.randrange(1, 9000)])
            stdin.close()

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        came = bytearray()
        while more := os.read(stdout.fileno(), 1 << 14):
            came += more
            if not dice.randrange(20):
                result_of(link.do(SetHold(dice.choice(["", "tool:nothing"]), "both")))
        writer.join(WITHIN_S)
        assert bytes(came) == whole
        assert client.process.wait(WITHIN_S) == 0


def test_the_next_call_of_a_tool_is_held_and_changed_on_the_screen(own_folders: Path) -> None:
    with tapped() as client:
        client.call(1, "first")
        client.hears()
        archive_of(client.tap)
        with Desk(["open"], columns=120, rows=40) as desk:
            desk.see("live, messages can be held")
            desk.see("call first")
            desk.press(" ")
            desk.see("type to search")
            desk.press("hold messages\r")
            desk.see("Held messages")
            desk.press("tool:run\r")
            desk.see("none held")
            client.call(2)
            desk.see('"command": "rm -rf')
            desk.press("\x12")
            desk.wait(client.can_hear, "the answer")  # its output has to be read
            assert client.hears()["id"] == 2
            desk.press("\x1b")
            desk.see("holding requests: 0 held")
            client.call(3)
            desk.see("1 held")
            desk.process.kill(signal.SIGKILL)
        assert client.hears()["id"] == 3


def test_only_a_tap_that_runs_can_be_asked(own_folders: Path) -> None:
    with tapped() as client:
        assert (found := tap_of(Path(client.tap.capture))) is not None and found.door.endswith(".tap")
        assert Path(found.door).is_socket()
    wait_until(lambda: tap_of(Path(client.tap.capture)) is None)
    link = capture_link(archive_of(client.tap))
    assert not isinstance(link, TapLink) and not link.view().can_intercept
    link.close()
