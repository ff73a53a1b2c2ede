"""The board shows a core as JSON, sends only changes, and hides secrets."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from mcpdesk.errors import DeskError, DeskUserError
from mcpdesk.features.dashboard import link_board
from mcpdesk.features.dashboard.link_board import (
    MAX_DETAIL_LENGTH,
    MAX_ENDED_QUESTIONS,
    MAX_FILES,
    MAX_ITEMS,
    MAX_LOG_LINE_LENGTH,
    PAGE_LINES,
    DashboardActions,
    LatestExchanges,
    LinkBoard,
    callbacks_json,
    core_json,
    exchange_json,
    jobs_json,
    logs_json,
    questions_json,
    row_json,
)
from mcpdesk.inbox.question import Answer, Approval, Option, Page, Question, QuestionKind, QuestionState
from mcpdesk.link.values import (
    CallbackView,
    CallFile,
    Catalogue,
    CatalogueItem,
    ItemKind,
    JobKind,
    JobState,
    JobView,
    LogLine,
)
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index.traffic_index import parts_in_words
from mcpdesk.recorder.record import ConnectionInfo, Direction
from tests.support.dashboard import KEY, shop
from tests.support.desk import RunningDesk, running_desk
from tests.support.fake_link import FakeLink
from tests.support.patience import WITHIN_S

PAGE = Page("Which?", "Storage", (Option("a", "the first"), Option("b")))
ASKED = Question(1, "shop", "claude 2", "AskUserQuestion", (PAGE,), 10.0, 70.0)


@pytest.fixture(autouse=True)
def patient_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """One look pairs all frames, on a busy machine too."""
    monkeypatch.setattr(link_board, "MAX_CHANGES_S", WITHIN_S)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    async with running_desk(shop(tmp_path), http=True, api_key=KEY) as running:
        yield running


def board_over(desk: RunningDesk) -> LinkBoard:
    return LinkBoard(desk, desk.attend)


def recorded(*frames: tuple[Direction, dict[str, Any]]) -> Recording:
    recording = Recording(None)
    recording.connect(ConnectionInfo(1, "shop", "http", "claude 2", "2025-11-25", 5.0))
    for direction, message in frames:
        recording.frame(1, direction, orjson.dumps(message), is_json=True)
    return recording


def call(number: int, name: str = "echo", **arguments: Any) -> tuple[Direction, dict[str, Any]]:
    params = {"name": name, "arguments": arguments}
    return Direction.IN, {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def reply(number: int, **result: Any) -> tuple[Direction, dict[str, Any]]:
    return Direction.OUT, {"jsonrpc": "2.0", "id": number, "result": result or {"content": []}}


async def test_what_did_not_change_is_the_same_object(desk: RunningDesk) -> None:
    board = board_over(desk)
    before = board.sections()
    after = board.sections()
    assert {name for name in before if before[name] is not after[name]} <= {"rate"}
    assert before["core"]["servers"][0]["name"] == "shop"
    assert orjson.dumps(before) and KEY.encode() not in orjson.dumps(before)


async def test_no_program_that_will_be_deleted_is_in_a_configuration(
    desk: RunningDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "bin" / "mcpdesk"
    own.parent.mkdir()
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    monkeypatch.delenv("MCPDESK_PROGRAM")
    monkeypatch.setenv("PATH", str(own.parent))
    monkeypatch.setattr(sys, "argv", [str(own)])
    error = desk.client_config("shop", "cursor", over="stdio").exception(0)
    assert isinstance(error, ValueError) and "temporary environment" in str(error)
    with pytest.raises(DeskUserError, match="temporary environment"):
        await asyncio.to_thread(board_over(desk).config, "shop", "claude-desktop")


async def test_what_is_pasted_has_a_word_in_place_of_the_key(desk: RunningDesk) -> None:
    board = board_over(desk)
    assert "X-API-Key: YOUR-KEY" in await asyncio.to_thread(board.config, "shop", "curl")
    assert KEY in desk.client_config("shop", "curl").result(0)
    for server, client in (("none", "curl"), ("shop", "none")):
        with pytest.raises(DeskError):
            await asyncio.to_thread(board.config, server, client)


def test_lines_give_everything_once_and_then_what_changed() -> None:
    recording = recorded(call(1, text="one"), reply(1), call(2, text="two"))
    lines = LatestExchanges(recording.index, "")
    first = lines.changes()
    assert first is not None and [row["n"] for row in first["rows"]] == first["lines"] == [1, 0]
    assert (first["shown"], first["total"], first["done"], first["behind"]) == (2, 2, 1.0, 0)
    assert lines.changes() is None
    recording.frame(1, Direction.OUT, orjson.dumps(reply(2)[1]), is_json=True)
    second = lines.changes()
    assert second is not None and [row["n"] for row in second["rows"]] == [1]
    assert second["rows"][0]["status"] == "ok"
    assert [row["n"] for row in lines.everything()["rows"]] == [1, 0]


def test_lines_are_bounded_and_older_ones_are_given_when_asked() -> None:
    recording = recorded(*[call(number) for number in range(PAGE_LINES + 30)])
    lines = LatestExchanges(recording.index, "")
    told = lines.changes()
    assert told is not None and len(told["lines"]) == PAGE_LINES and told["shown"] == PAGE_LINES + 30
    assert told["lines"][0] == PAGE_LINES + 29
    older = lines.before(told["lines"][-1], 20)["rows"]
    assert [row["n"] for row in older] == list(range(29, 9, -1))
    assert lines.before(0, 20) == {"rows": []}


def test_lines_pass_a_filter_or_it_is_refused() -> None:
    recording = recorded(call(1, "echo"), reply(1), call(2, "other"))
    lines = LatestExchanges(recording.index, "tool:other")
    told = lines.changes()
    assert told is not None and told["lines"] == [1] and told["total"] == 2
    with pytest.raises(DeskError, match="'what' is not allowed; use pending"):
        LatestExchanges(recording.index, "status:what")


def test_a_line_names_what_a_person_wants_to_know_and_no_key_in_an_address() -> None:
    read = {"jsonrpc": "2.0", "id": "x", "method": "resources/read"}
    read["params"] = {"uri": "https://h/?api_key=sesame&page=2"}  # type: ignore[assignment]
    index = recorded((Direction.IN, read)).index
    index.catch_up()
    row = row_json(index, 0)
    assert "sesame" not in row["name"] and "page=2" in row["name"]
    assert (row["method"], row["id"], row["status"], row["out"]) == ("resources/read", "x", "pending", False)
    assert row["revision"] == "2025-11-25 handshake"
    assert parts_in_words(index.exchange(0)) == ""


def test_an_exchange_is_masked_by_name_and_by_schema() -> None:
    index = recorded(call(1, "login", password="hunter2", word="sesame", plain="seen"), reply(1)).index
    index.catch_up()
    schema = {"properties": {"word": {"type": "string", "writeOnly": True}}}
    text = orjson.dumps(exchange_json(index, 0, schema)).decode()
    assert "hunter2" not in text and "sesame" not in text and "seen" in text
    with pytest.raises(IndexError):
        exchange_json(index, 5)


def test_a_long_message_is_cut_and_says_so() -> None:
    index = recorded(call(1, text="x" * (MAX_DETAIL_LENGTH + 500)), reply(1)).index
    index.catch_up()
    side = exchange_json(index, 0)["request"]
    assert len(side["text"]) == MAX_DETAIL_LENGTH and "more characters are not shown" in side["problem"]


def test_an_exchange_without_an_answer_says_why_and_what_came_along_is_there() -> None:
    progress = {"progressToken": 9, "progress": 1}
    asked = call(1)
    asked[1]["params"]["_meta"] = {"progressToken": 9}
    note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}
    index = recorded(asked, (Direction.OUT, note)).index
    index.catch_up()
    told = exchange_json(index, 0)
    assert told["response"] == {"missing": "no response yet"}
    assert told["events_count"] == 1 and told["events"][0]["method"] == "notifications/progress"


async def test_exchanges_there_are_not_are_none(desk: RunningDesk) -> None:
    board = board_over(desk)
    assert board.exchange(0) is None and board.exchange(-1) is None
    assert board.output("shop:1", -1) is None


def test_questions_are_told_with_what_it_takes_to_answer_them() -> None:
    link = Page("Sign in", "link", own_words=False, is_required=False, link="http://user@xn--e.example/in")
    approval = replace(ASKED, id=2, kind=QuestionKind.APPROVAL, pages=(link,), peer="desk", may_cancel=True)
    told = questions_json((ASKED, approval))
    first, second = told["waiting"]
    assert first["asker"] == "claude 2" and first["pages"][0]["options"][0]["description"] == "the first"
    assert second["asker"] == "AskUserQuestion of shop" and second["kind"] == "approval"
    assert len(second["pages"][0]["oddities"]) == 3
    assert told["ended"] == []


def test_only_the_latest_questions_that_are_over_are_told() -> None:
    over = replace(
        ASKED, state=QuestionState.ANSWERED, answers=(Answer(("b",)),), answered_by="desk", ended=20.0
    )
    denied = replace(over, kind=QuestionKind.APPROVAL, answers=(Answer((Approval.DENY,)),))
    told = questions_json((denied, *[replace(over, id=number) for number in range(50)]))
    assert len(told["ended"]) == MAX_ENDED_QUESTIONS
    assert told["ended"][0]["word"] == "denied" and told["ended"][1]["answers"][0]["selected"] == ("b",)


def test_jobs_and_callbacks_are_told_with_what_matters_first() -> None:
    job = JobView(
        "shop:1", JobKind.PROGRAM, "shop", "run --token=abc?token=sesame", "claude", JobState.RUNNING, "", 1.0
    )
    over = replace(job, id="shop:2", state=JobState.FAILED, ended=2.0)
    told = jobs_json((job, over))
    assert (told["count"], told["running"]) == (2, 1)
    assert [each["id"] for each in told["jobs"]] == ["shop:2", "shop:1"]
    assert "sesame" not in told["jobs"][1]["name"]
    late = CallbackView("shop", 1, "late", 60, 1, 0, 200.0, "claude", 1.0, None)
    calls = callbacks_json((late, replace(late, id=2, due=100.0), replace(late, id=3, due=None, fired=1)))
    assert [each["id"] for each in calls["callbacks"]] == [2, 1, 3] and calls["count"] == 2


def test_lines_of_the_log_come_newest_first_masked_and_cut() -> None:
    first = LogLine(1, 1.0, "warning", "print", "token=sesame-open-0123456789", server="shop", core="web-1")
    told = logs_json([first, replace(first, number=2, text="x" * 2_000)])["lines"]
    assert [each["number"] for each in told] == [2, 1]
    assert len(told[0]["text"]) == MAX_LOG_LINE_LENGTH + 1 and "sesame" not in told[1]["text"]
    assert (told[1]["replica"], told[1]["level"], told[1]["server"]) == ("web-1", "warning", "shop")


def test_files_of_a_job_are_told_with_their_sizes_and_too_many_are_counted() -> None:
    made = tuple(CallFile(f"{number}.txt", 10) for number in range(MAX_FILES + 3))
    job = JobView(
        "x", JobKind.CALL, "shop", "draw", "claude", JobState.SUCCEEDED, "", 1.0, 2.0, produced_files=made
    )
    (told,) = jobs_json((job,))["jobs"]
    assert told["made"][0] == {"name": "0.txt", "size": 10} and len(told["made"]) == MAX_FILES
    assert (told["made_count"], told["made_bytes"]) == (MAX_FILES + 3, 10 * (MAX_FILES + 3))


def test_a_server_is_told_with_what_is_broken_and_what_is_too_much_is_counted() -> None:
    view = FakeLink().view()
    server = view.servers[0]
    broken = CatalogueItem(ItemKind.TOOL, "send", "send", problem="needs MAIL_TOKEN")
    many = [
        CatalogueItem(ItemKind.PROMPT, f"p{number}", "P", "First.\nSecond.")
        for number in range(MAX_ITEMS + 5)
    ]
    alone = replace(view, servers=(server,))
    (told,) = core_json(alone, [Catalogue(server.name, 1, (broken, *many))])["servers"]
    assert told["counts"] == {
        "tool": 0,
        "resource": 0,
        "template": 0,
        "prompt": MAX_ITEMS + 5,
        "skill": 0,
    }
    assert told["items"][0]["problem"] == "needs MAIL_TOKEN" and told["more_items"] == 6
    assert told["left_out"] == 1
    assert told["items"][1]["description"] == "First."


async def test_an_act_nobody_knows_is_named() -> None:
    status, told = await DashboardActions(FakeLink()).act("explode", {}, "dashboard")
    assert status == 404 and "answer" in told["error"]
