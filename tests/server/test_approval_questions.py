"""Calls of clients wait for approval: the question at the desk, and the result of each answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mcpdesk.auth.principal import Principal
from mcpdesk.inbox.question import Answer, Approval
from mcpdesk.protocol.client_questions import Terms
from mcpdesk.protocol.outlet import NULL_OUTLET
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import CAPABILITIES_KEY
from mcpdesk.recorder.masking import mask_declared
from mcpdesk.server.asks.approval_policies import Policy
from mcpdesk.server.asks.approval_questions import (
    MAX_TEXT_LENGTH,
    MAX_VALUE_LENGTH,
    approval_peer,
    argument_text,
    shortened,
)
from mcpdesk.server.calls.running_call import Call
from mcpdesk.server.offer.tool import Tool
from mcpdesk.server.state.server_state import Plan, ServerState
from tests.support.patience import within
from tests.support.policies import next_policy
from tests.support.served import Peer
from tests.support.task_server import EXTENDED
from tests.support.watched_inbox import WatchedInbox

ANYTHING = {"type": "object"}
ONCE, ALWAYS, DENY = ([Answer((each,))] for each in Approval)


class Guarded(Peer):
    """A client of a server that asks before some of its tools run."""

    def __init__(self, home: ServerState) -> None:
        super().__init__()
        self.ran: list[dict[str, Any]] = []
        self.inbox.audience = 1
        home.approvals.configure(("mcp.json", {"run": Policy.ASK, "slow": Policy.ASK, "no": Policy.DENY}))
        self.server.hosted = self.hosted = home
        tools = [Tool(name, self._run, ANYTHING, timeout_s=0.2) for name in ("run", "slow", "no", "free")]
        self.server.tools.replace([*tools, Tool("strict", self._run, {**ANYTHING, "required": ["a"]})])
        self.sees = WatchedInbox(self.inbox).sees

    async def _run(self, arguments: dict[str, Any], context: Any) -> str:
        self.ran.append(arguments)
        return "done"

    def call(self, identifier: Any, name: str = "run", **arguments: Any) -> None:
        params = {"name": name, "arguments": arguments}
        self.modern(identifier, "tools/call", params, progressToken=f"p{identifier}")

    async def said(self, identifier: Any) -> tuple[bool, str]:
        """Whether it failed, and its text."""
        result = (await self.response(identifier))["result"]
        return result["isError"], result["content"][0]["text"]


@pytest.fixture
async def peer(tmp_path: Path) -> AsyncIterator[Guarded]:
    home = ServerState(tmp_path / "shop", tmp_path / "state")
    yield Guarded(home)
    await home.close()


async def test_allowed_once_it_runs_and_the_next_is_asked_about_again(peer: Guarded) -> None:
    for identifier in (1, 2):
        peer.call(identifier, command="ls")
        question = await peer.sees()
        assert not peer.ran[identifier - 1 :]
        assert peer.inbox.answer(question.id, ONCE)
        assert await peer.said(identifier) == (False, "done")
    assert peer.hosted.approvals.grants == ()


async def test_only_what_the_tool_calls_secret_is_masked_so_that_nothing_hides_what_runs(
    peer: Guarded,
) -> None:
    peer.services.mask = mask_declared
    properties = {"pass": {"format": "password"}, "env": {"properties": {"WORD": {"writeOnly": True}}}}
    peer.server.tools.replace([Tool("run", peer._run, {**ANYTHING, "properties": properties})])
    command = 'curl -H "Authorization: Bearer $(./evil.sh)" x; token=rm; $token y'
    peer.call(1, command=command, env={"API_TOKEN": "`./evil.sh`", "WORD": "w"}, **{"pass": "hunter2"})
    detail = (await peer.sees()).pages[0].detail
    assert command in detail and '"API_TOKEN": "`./evil.sh`"' in detail
    assert "pass: ••••" in detail and '"WORD": "••••"' in detail and "hunter2" not in detail


async def test_approved_for_good_a_peer_is_not_asked_about_again(peer: Guarded) -> None:
    peer.call(1)
    peer.inbox.answer((await peer.sees()).id, ALWAYS)
    assert await peer.said(1) == (False, "done")
    peer.call(2)
    assert await peer.said(2) == (False, "done")
    assert len(peer.inbox.questions()) == 1
    peer.call(3, "slow")
    assert (await peer.sees()).tool == "slow"


async def test_what_was_approved_for_good_can_be_revoked(peer: Guarded) -> None:
    await peer.hosted.approvals.grant("run", "client:tester")
    await peer.hosted.approvals.revoke("run", "client:tester")
    peer.call(1)
    assert (await peer.sees()).tool == "run"


async def test_one_approval_for_good_lets_all_pass_that_wait_alike(peer: Guarded) -> None:
    for identifier, name in ((1, "run"), (2, "run"), (3, "slow")):
        peer.call(identifier, name)
    questions = [await peer.sees() for _ in range(3)]
    first, second = (each.id for each in questions if each.tool == "run")
    peer.inbox.answer(first, ALWAYS)
    assert await peer.said(1) == await peer.said(2) == (False, "done")
    by = {each.id: each.answered_by for each in peer.inbox.questions()}
    assert by[second] == "the approval for this peer"
    peer.inbox.decline(next(each.id for each in questions if each.tool == "slow"))
    assert (await peer.said(3))[0]


async def test_denied_without_a_reason_is_an_error_too(peer: Guarded) -> None:
    peer.call(1)
    peer.inbox.answer((await peer.sees()).id, DENY)
    assert await peer.said(1) == (True, "The person at the desk denied this call of run.")
    assert peer.inbox.questions()[0].word == "denied" and not peer.ran


async def test_a_standing_approval_needs_nobody_at_a_desk(peer: Guarded) -> None:
    await peer.hosted.approvals.grant("run", "client:tester")
    peer.inbox.audience = 0
    peer.call(1)
    assert await peer.said(1) == (False, "done")


async def test_what_another_desk_was_told_counts_before_anybody_is_asked(peer: Guarded) -> None:
    peer.inbox.audience = 0
    other = ServerState(peer.hosted.folder, peer.hosted.state)
    other.approvals.configure(("mcp.json", {"run": Policy.ASK}))
    await next_policy(other.approvals, "run")
    peer.call(1)
    assert await peer.said(1) == (True, "run must not be called: its policy is deny (chosen at the desk).")
    await next_policy(other.approvals, "run")
    await next_policy(other.approvals, "run")
    await other.approvals.grant("run", "client:tester")
    peer.hosted.approvals.configure(("mcp.json", {"run": Policy.ASK, "slow": Policy.ASK}))
    await peer.hosted.approvals.load()
    peer.call(2)
    assert await peer.said(2) == (False, "done")
    await other.close()


async def test_the_desk_itself_is_not_asked_about_but_denied(peer: Guarded) -> None:
    peer.channel = peer.endpoint.channel("memory", "desk", peer._take)
    peer.call(1)
    assert await peer.said(1) == (False, "done")
    peer.call(2, "no")
    assert (await peer.said(2))[0]


async def test_a_client_that_calls_itself_desk_is_none(peer: Guarded) -> None:
    peer.channel = peer.endpoint.channel("http", "desk", peer._take)
    peer.call(1)
    assert (await peer.sees()).tool == "run"


async def test_what_cannot_be_kept_holds_for_the_calls_that_wait(peer: Guarded) -> None:
    peer.hosted.state.write_text("in the way")
    for identifier in (1, 2):
        peer.call(identifier)
    first, _ = [(await peer.sees()).id for _ in range(2)]
    peer.inbox.answer(first, ALWAYS)
    assert await peer.said(1) == await peer.said(2) == (False, "done")
    assert peer.hosted.approvals.grants == ()
    ((level, source, text),) = peer.logged
    assert (level, source) == ("error", "run") and text.startswith(
        "permanent approvals cannot be read or stored: "
    )


async def test_approvals_that_cannot_be_read_are_asked_for(peer: Guarded) -> None:
    (peer.hosted.state / "state.sqlite").mkdir(parents=True)
    peer.call(1)
    peer.inbox.answer((await peer.sees()).id, ONCE)
    assert await peer.said(1) == (False, "done")
    assert [text for _, _, text in peer.logged if "cannot be used" in text]


async def test_nobody_in_time_is_an_error_of_its_own(peer: Guarded) -> None:
    peer.server.limits = replace(peer.server.limits, question_timeout_s=0.05)
    peer.call(1)
    assert await peer.said(1) == (True, "run needs approval at the desk, but no person answered within 0 s.")


async def test_nobody_is_asked_about_arguments_that_do_not_fit(peer: Guarded) -> None:
    peer.hosted.approvals.configure(("mcp.json", {"*": Policy.ASK}))
    peer.call(1, "strict")
    failed, text = await peer.said(1)
    assert failed and "Invalid arguments" in text and not peer.inbox.questions()


async def test_every_tool_can_be_asked_about(peer: Guarded) -> None:
    peer.hosted.approvals.configure(("mcp.json", {"*": Policy.ASK}))
    peer.call(1, "free")
    assert (await peer.sees()).tool == "free"


async def test_a_plan_that_began_meanwhile_holds_for_what_was_approved(peer: Guarded) -> None:
    peer.call(1)
    question = await peer.sees()
    (call,) = peer.channel.dialogue.conversation.running
    plan = Plan("Move house", "/tmp/p.md", "2026-01-01", is_active=True)
    peer.hosted.set_plans({call.session: plan}, plan)
    peer.inbox.answer(question.id, ONCE)
    failed, text = await peer.said(1)
    assert failed and "plan mode is on" in text


async def test_rules_that_change_between_two_calls_count_for_the_second(peer: Guarded) -> None:
    numbers = count(1)

    async def fails(name: str) -> bool:
        number = next(numbers)
        peer.modern(number, "tools/call", {"name": name, "arguments": {}})
        return bool((await peer.response(number))["result"]["isError"])

    peer.hosted.approvals.configure()
    assert not await fails("free") and not await fails("run")
    await next_policy(peer.hosted.approvals, "free")
    await next_policy(peer.hosted.approvals, "free")
    assert await fails("free")  # denied now
    plan = Plan("Move", "/tmp/p.md", "2026-01-01", is_active=True)
    session = peer.channel.dialogue.conversation.requests.owner
    peer.hosted.join(session)
    peer.hosted.set_plans({session: plan}, plan)
    assert await fails("run")
    peer.hosted.set_plans({session: replace(plan, is_active=False)}, plan)
    assert not await fails("run")


async def test_a_task_waits_for_approval_as_a_task(peer: Guarded) -> None:
    async def work(arguments: dict[str, Any], context: Any) -> str:
        return "worked"

    peer.server.tools.replace([Tool("run", work, ANYTHING, task="required")])
    meta = {CAPABILITIES_KEY: EXTENDED}
    peer.modern(1, "tools/call", {"name": "run", "arguments": {}}, **meta)
    task = (await peer.response(1))["result"]
    question = await peer.sees()
    peer.modern(2, "tasks/get", {"taskId": task["taskId"]}, **meta)
    found = (await peer.response(2))["result"]
    assert found["status"] == "working"
    assert found["statusMessage"] == "waiting for approval on the desk"
    peer.inbox.decline(question.id, "not today")
    async with within():
        for identifier in count(3):
            peer.modern(identifier, "tasks/get", {"taskId": task["taskId"]}, **meta)
            found = (await peer.response(identifier))["result"]
            if found["status"] != "working":
                break
    assert found["result"]["isError"] and "not today" in found["result"]["content"][0]["text"]


def known(claims: dict[str, Any] | None) -> str:
    call = Call(1, "tools/call", {}, Terms(V2026_07_28), NULL_OUTLET, peer="token:ada of x")
    call.principal = Principal("token", claims=claims)
    return approval_peer(call)


def test_a_name_is_never_taken_for_a_token() -> None:
    assert known(None) == known({}) == "client:token:ada of x"
    assert known({"sub": "ada", "iss": "x"}) == "token:ada of x"
    assert known({"sub": 5}) == "client:token:ada of x"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "without arguments"),
        ({"command": "ls -la"}, "command: ls -la"),
        ({"n": 5, "on": True, "none": None}, "n: 5\non: true\nnone: null"),
        ({"odd name\n": "x"}, '"odd name\\n": x'),
        ({"tags": ["a", "ü"]}, 'tags:\n    [\n      "a",\n      "ü"\n    ]'),
    ],
)
def test_a_line_an_argument(arguments: dict[str, Any], text: str) -> None:
    assert argument_text(arguments) == text


def test_a_text_of_several_lines_cannot_pass_for_another_argument() -> None:
    text = argument_text({"command": "echo a\ntimeout: 5", "timeout": 9000})
    assert text == "command:\n    echo a\n    timeout: 5\ntimeout: 9000"


def test_a_long_text_keeps_both_ends_and_says_what_is_missing() -> None:
    text = argument_text({"command": "echo " + "x" * 100_000 + "; rm -rf /"})
    assert text.startswith("command:\n    echo xxx") and text.endswith("; rm -rf /")
    assert f"{100_015 - MAX_VALUE_LENGTH:,} characters are not shown" in text
    assert len(text) < MAX_VALUE_LENGTH + 200


def test_a_long_script_is_seen_whole() -> None:
    script = "".join(f"step {number}\n" for number in range(1_500))
    assert "characters are not shown" not in argument_text(shortened({"command": script}))


def test_what_is_missing_of_a_text_is_counted_once() -> None:
    text = argument_text(shortened({"command": "x" * 100_000}))
    assert f"{100_000 - MAX_VALUE_LENGTH:,} characters are not shown" in text


def test_many_arguments_are_bounded_as_a_whole() -> None:
    text = argument_text({f"a{number}": "y" * MAX_VALUE_LENGTH for number in range(100)})
    assert len(text) < MAX_TEXT_LENGTH + 100 and "characters are not shown" in text


def test_what_is_enormous_is_shortened_before_anybody_looks_through_it() -> None:
    value: Any = "x"
    for _ in range(900):
        value = [value]
    short = shortened(
        {
            "deep": value,
            "wide": list(range(100_000)),
            "text": "z" * 10_000_000,
            **{f"k{n}": n for n in range(500)},
        }
    )
    text = argument_text(short)
    assert "1 more inside" in text and "99,800 more" in text and "303 more" in text
    assert len(short["text"]) < MAX_VALUE_LENGTH + 100
