"""A living server follows its folder; what breaks keeps serving."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpdesk.errors import OtherEnvironmentError
from mcpdesk.hosting.host_plan import rules_of
from mcpdesk.hosting.hosted_folder import HostedFolder
from mcpdesk.hosting.journal import Journal, Severity, logging_to
from mcpdesk.server.asks.approval_policies import Policy
from mcpdesk.server.offer.server import Limits
from mcpdesk.server.state.server_state import ToolOptions
from mcpdesk.settings import resolve
from mcpdesk.transports.base import Rules
from tests.support.features import having


def make(folder: Path) -> tuple[HostedFolder, Journal]:
    journal = Journal()
    return HostedFolder(folder, resolve({}, {}).settings, journal), journal


def waiting(folder: Path, *late: str) -> tuple[HostedFolder, Journal]:
    """A folder whose manifest may be invalid; `late` are settings that would come too late."""
    journal = Journal()
    return HostedFolder(folder, resolve({}, {}).settings, journal, lambda _: list(late)), journal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "mcp.json").write_text(
        '{"name": "own", "builtins": ["AskUserQuestion", "Nope"]}', encoding="utf-8"
    )
    (tmp_path / "tools/a.py").write_text(
        'async def hello() -> str:\n    """Hi."""\n    return "hi"\n', encoding="utf-8"
    )
    return tmp_path


def test_builtins_join_the_folders_tools_and_unknown_ones_are_reported(folder: Path) -> None:
    hosted, journal = make(folder)
    assert {tool.name for tool in hosted.server.tools} == {"hello", "AskUserQuestion"}
    (refused,) = hosted.server.tools.unavailable
    assert refused.name == "Nope"
    assert "AskUserQuestion" in refused.reason
    assert any("Nope" in line.text for line in journal.lines())


def test_settings_reach_the_server_and_a_server_made_in_code_has_the_same_defaults(folder: Path) -> None:
    hosted, _ = make(folder)
    assert hosted.server.limits == Limits() and hosted.server.hosted is not None
    usual = {"search_engines": (), "search_urls": (), "search_timeout_ms": 8000, "read_private_urls": False}
    assert hosted.server.hosted.options == ToolOptions(settings=dict(having("web_tools", *usual.items())))
    assert rules_of(resolve({}, {}).settings, "") == Rules()
    numbers = {"tool_timeout_ms": 1_000, "question_timeout_ms": 2_000, "job_timeout_ms": 3_000}
    numbers |= {"page_size": 4, "max_in_flight": 5, "max_bodies_bytes": 6_000, "max_subscriptions": 7}
    numbers |= {"max_tasks": 8, "task_ttl_s": 0, "job_ttl_s": 9, "jobs_at_once": 10, "output_chars": 2_001}
    numbers |= {"search_timeout_ms": 11_000, "outputs_keep_bytes": 1 << 20}
    words = {"ask_order": "both", "model": "m", "search_urls": "arxiv=http://x/y=z"}
    words |= {"output_dirs": "/a,~/b", "search_engines": "arxiv"}
    flags: dict[str, object] = {**numbers, **words, "read_private_urls": True}
    server = HostedFolder(folder, resolve(flags, {}).settings, Journal()).server
    assert server.hosted is not None
    assert server.limits == Limits(
        tool_timeout_s=1.0,
        question_timeout_s=2.0,
        job_timeout_s=3.0,
        page_size=4,
        in_flight=5,
        large_bytes=6_000,
        subscriptions=7,
        max_tasks=8,
        task_ttl_s=None,
        job_ttl_s=9,
        jobs_at_once=10,
        output_dirs=(Path("/a"), Path.home() / "b"),
    )
    changed: dict[str, object] = {"search_engines": ("arxiv",), "search_urls": ("arxiv=http://x/y=z",)}
    changed |= {"search_timeout_ms": 11_000, "read_private_urls": True}
    assert server.hosted.options == ToolOptions(
        output_chars=2_001,
        outputs_keep_bytes=1 << 20,
        ask_order="both",
        model="m",
        settings=dict(having("web_tools", *changed.items())),
    )


async def test_a_saved_change_is_served_and_said(folder: Path) -> None:
    hosted, journal = make(folder)
    (folder / "tools/b.py").write_text(
        'async def more() -> str:\n    """More."""\n    return ""\n', encoding="utf-8"
    )
    assert (await hosted.reload()).added == ("more",)
    assert "1 added: more" in journal.notices()[-1].text
    assert not await hosted.reload()
    assert len(journal.notices()) == 1


async def test_a_broken_file_leaves_the_previous_version_serving(folder: Path) -> None:
    hosted, journal = make(folder)
    (folder / "tools/a.py").write_text("async def hello(:\n", encoding="utf-8")
    with logging_to(journal, lambda: [folder]):
        await hosted.reload()
    assert hosted.server.tools.get("hello") is not None
    assert journal.notices()[-1].severity is Severity.ERROR
    told = [(line.level, line.where) for line in journal.lines() if "SyntaxError" in line.text]
    assert told == [("error", "tools/a.py:1")], "the reason is logged once"


async def test_a_broken_manifest_leaves_everything_serving(folder: Path) -> None:
    hosted, journal = make(folder)
    (folder / "mcp.json").write_text('{"name": "own",', encoding="utf-8")
    assert not await hosted.reload()
    assert len(hosted.server.tools) == 2
    assert "mcp.json:1" in journal.notices()[-1].text


@pytest.mark.parametrize(
    ("text", "place", "told"),
    [
        ('{"name": "own",\n', "mcp.json:2:1", "not JSON"),
        ('{"name": "own",\n "modes": []}', "mcp.json:2:2", "modes: must be an object"),
        ('{"name": "own",\n "aproval": {}}', "mcp.json:2:2", "aproval: unknown key"),
    ],
)
async def test_a_folder_with_a_mistake_in_its_manifest_is_withheld_until_it_is_mended(
    folder: Path, text: str, place: str, told: str
) -> None:
    (folder / "mcp.json").write_text(text)
    hosted, journal = waiting(folder)
    server = hosted.server
    assert server.name == "own" and not len(server.tools)
    assert place in server.withheld and told in server.withheld
    (shown,) = server.tools.unavailable
    assert (shown.name, shown.source) == ("mcp.json", "mcp.json:2") and told in shown.reason
    (notice,) = journal.notices()
    assert notice.severity is Severity.ERROR and place in notice.text and told in notice.text

    await hosted.reload()
    assert len(journal.notices()) == 1, "the same mistake is told once"
    (folder / "mcp.json").write_text('{"name": "own", "version": 2}')
    await hosted.reload()
    assert "mcp.json:1:17" in server.withheld and not len(server.tools)

    rules = {"jwt": {"algorithms": ["HS256"], "secret_env": "S"}, "tools": {"hello": {"requires_jwt": True}}}
    (folder / "mcp.json").write_text(
        json.dumps(
            {"name": "own", "auth": rules, "approvals": {"hello": "deny"}, "modes": {"m": {"tools": []}}}
        )
    )
    await hosted.reload()
    assert not server.withheld and not server.tools.unavailable
    tool, home = server.tools.get("hello"), server.hosted
    assert tool is not None and tool.requires_jwt and server.access.verifier is not None
    assert home is not None and not home.approvals.allows("hello") and server.modes == ("m",)
    assert "own: mcp.json is fixed, own is served" in [each.text for each in journal.notices()]


async def test_a_mended_folder_that_asks_for_what_a_new_start_alone_can_give_stays_withheld(
    folder: Path,
) -> None:
    (folder / "mcp.json").write_text('{"name": "own",')
    hosted, _ = waiting(folder, "settings.api_key")
    (folder / "mcp.json").write_text('{"name": "other"}')
    await hosted.reload()
    told = "the name 'other', settings.api_key take effect at the next start"
    assert told in hosted.server.withheld
    assert not len(hosted.server.tools)


async def test_policies_of_the_manifest_are_in_force_and_follow_it(folder: Path) -> None:
    (folder / "mcp.json").write_text('{"name": "own", "approvals": {"hello": "ask", "*": "deny"}}')
    hosted, _ = make(folder)
    assert hosted.server.hosted is not None
    approvals = hosted.server.hosted.approvals
    assert (approvals.effective_policy("hello").policy, approvals.effective_policy("else").policy) == (
        "ask",
        "deny",
    )
    (folder / "mcp.json").write_text('{"name": "own"}')
    await hosted.reload()
    assert approvals.allows("hello")


async def test_a_policy_for_a_tool_that_is_not_there_is_a_warning_once(folder: Path) -> None:
    (folder / "mcp.json").write_text('{"name": "own", "approvals": {"helo": "ask", "*": "allow"}}')
    hosted, journal = make(folder)
    said = "approvals.helo: no tool 'helo'; did you mean hello?"
    assert [line.text for line in journal.lines() if line.level == "warning"] == [said]
    (folder / "mcp.json").write_text('{"name": "own", "approvals": {"helo": "deny", "nope": "ask"}}')
    await hosted.reload()
    told = [notice for notice in journal.notices() if notice.severity is Severity.WARNING]
    assert [notice.text for notice in told] == ["own: mcp.json:1: approvals.nope: no tool 'nope'"]


async def test_the_desk_changes_a_policy_and_says_what_it_means(folder: Path, tmp_path: Path) -> None:
    journal = Journal()
    settings = resolve({"state_dir": tmp_path / "state"}, {}).settings
    hosted = HostedFolder(folder, settings, journal)
    await hosted.choose_policy("hello", Policy.ASK)
    await hosted.choose_policy("hello", Policy.DENY)
    assert [notice.text for notice in journal.notices()] == [
        "hello: ask (chosen at the desk), calls of clients wait here for approval",
        "hello: deny (chosen at the desk), neither clients nor this desk may call it",
    ]
    assert hosted.server.hosted is not None
    await hosted.server.hosted.approvals.grant("hello", "client:cursor 1")
    await hosted.revoke("hello", "client:cursor 1")
    assert journal.notices()[-1].text == "cursor 1 can no longer call hello without approval"
    assert hosted.server.hosted.approvals.grants == ()
    await hosted.close()


async def test_a_client_shares_the_core_only_if_variables_that_the_code_reads_are_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENANT", "ada")
    (folder / "tools/b.py").write_text('import os\n\nTENANT = os.environ["TENANT"]\n', encoding="utf-8")
    hosted, _ = make(folder)
    await hosted.find_code_variables()
    same = {"TENANT": "ada", "OTHER": "1"}
    assert hosted.environment_for("claude", same, ()) == same
    assert hosted.environment_for("claude", {"TENANT": "bob"}, {"TENANT"}) == {}
    for other in ({"TENANT": "bob"}, {}):
        with pytest.raises(OtherEnvironmentError, match="code of own reads TENANT"):
            hosted.environment_for("claude", other, ())
