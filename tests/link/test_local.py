"""The link shows the state of a core, and controls it like a client."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mcpdesk.inbox.question import Answer
from mcpdesk.link.local.local_link import LocalLink
from mcpdesk.link.values import CatalogueItem, ItemKind, Policy
from mcpdesk.protocol.revisions import SERVED_NAMES
from tests.support.desk import RunningDesk, running_desk
from tests.support.messages import said
from tests.support.patience import until, within

QUESTION = '[{"question": "Which?", "options": ["a", "b"]}]'
CODE = '''
from mcpdesk import Context


async def count(ctx: Context, to: int) -> str:
    """Count."""
    await ctx.info("counting")
    for number in range(1, to + 1):
        await ctx.progress(number, to, f"at {number}")
    return str(to)


async def wait() -> None:
    """Wait for ever."""
    import asyncio

    await asyncio.Event().wait()
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "mcp.json").write_text('{"name": "own", "builtins": ["AskUserQuestion"]}', encoding="utf-8")
    (tmp_path / "tools/count.py").write_text(CODE, encoding="utf-8")
    (tmp_path / "tools/broken.py").write_text("async def odd(*rest: int) -> None: ...\n", encoding="utf-8")
    return tmp_path


async def question_of(desk: RunningDesk) -> int:
    await until(desk.questions)
    return desk.questions()[0].id


async def test_the_catalogue_shows_items_and_what_is_broken(folder: Path) -> None:
    async with running_desk(folder) as desk:
        items = {item.name: item for item in desk.catalogue("own").items}
        assert items["count"].kind is ItemKind.TOOL
        assert items["count"].source.startswith("tools/count.py:")
        assert "rest" in items["odd"].problem
        assert desk.catalogue("own") is desk.catalogue("own")


async def test_a_call_can_be_cancelled(folder: Path) -> None:
    async with running_desk(folder) as desk:
        call = desk.request("own", "tools/call", {"name": "wait"})
        assert desk.busy() == ("1 running call",)
        call.cancel()
        outcome = await asyncio.wrap_future(call.outcome)
        assert outcome.cancelled
        assert desk.busy() == ()


@pytest.mark.parametrize("revision", SERVED_NAMES)
async def test_the_desk_calls_in_the_revision_that_is_set(folder: Path, revision: str) -> None:
    async with running_desk(folder, desk_revision=revision) as desk:
        call = desk.request("own", "tools/call", {"name": "count", "arguments": {"to": 2}})
        async with within():
            outcome = await asyncio.wrap_future(call.outcome)
        assert outcome.result is not None and said(outcome.result) == "2"
        assert call.progress is not None and call.progress.message == "at 2"
        assert call.logs == ("info: counting",)
        assert [one.revision for one in desk.view().clients] == [revision]
        while desk.traffic.catch_up():
            pass
        (exchange,) = [one for one in desk.traffic.exchanges if one.method == "tools/call"]
        assert (exchange.peer, exchange.name) == ("desk", "count")


async def test_watching_and_cancelling_go_through_the_link(folder: Path) -> None:
    (folder / "resources").mkdir()
    (folder / "resources/note.md").write_text("one", encoding="utf-8")
    async with running_desk(folder) as desk:
        uri = desk.catalogue("own").items[-1].name
        assert desk.watched("own") == {}
        desk.watch("own", uri)
        await until(lambda: len(desk.host.services.subscriptions) == 1)
        (folder / "resources/note.md").write_text("another", encoding="utf-8")
        desk.reload("own")
        await until(lambda: desk.watched("own") == {uri: 1})
        desk.unwatch("own", uri)
        await until(lambda: desk.watched("own") == {})
        desk.cancel_question(1)
        assert desk.busy() == ()


async def test_arguments_are_checked_by_the_servers_validator(folder: Path) -> None:
    async with running_desk(folder) as desk:
        assert desk.validate("own", "count", {"to": 1}) == []
        (failure,) = desk.validate("own", "count", {"to": "x"})
        assert failure.path == ("to",)
        assert desk.validate("own", "nope", {})


async def test_a_question_is_answered_from_the_link(folder: Path) -> None:
    async with running_desk(folder) as desk:
        call = desk.request(
            "own", "tools/call", {"name": "AskUserQuestion", "arguments": {"questions_json": QUESTION}}
        )
        desk.answer(await question_of(desk), [Answer(("b",))])
        outcome = await asyncio.wrap_future(call.outcome)
        assert outcome.result is not None
        assert outcome.result["structuredContent"]["answers"][0]["selected"] == ["b"]


async def test_a_question_is_declined_from_the_link(folder: Path) -> None:
    async with running_desk(folder) as desk:
        call = desk.request(
            "own", "tools/call", {"name": "AskUserQuestion", "arguments": {"questions_json": QUESTION}}
        )
        desk.decline(await question_of(desk), "not now")
        outcome = await asyncio.wrap_future(call.outcome)
        assert outcome.result is not None
        assert outcome.result["structuredContent"]["status"] == "declined"


async def test_an_intent_that_goes_wrong_keeps_nobody_waiting(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_desk(folder) as desk:

        def broken(*_: object) -> bool:
            raise RuntimeError("out of order")

        monkeypatch.setattr(desk.host.inbox, "decline", broken)
        async with within():
            with pytest.raises(RuntimeError, match="out of order"):
                await asyncio.wrap_future(desk.decline(1))
    assert "out of order" in caplog.text


async def test_the_first_answer_wins_and_says_whose_it_was(folder: Path) -> None:
    async with running_desk(folder) as desk:
        desk.request(
            "own", "tools/call", {"name": "AskUserQuestion", "arguments": {"questions_json": QUESTION}}
        )
        number = await question_of(desk)
        with pytest.raises(ValueError, match="is not an option"):
            await asyncio.wrap_future(desk.answer(number, [Answer(("c",))]))
        assert await asyncio.wrap_future(desk.answer(number, [Answer(("b",))], "dashboard"))
        assert not await asyncio.wrap_future(desk.answer(number, [Answer(("a",))]))
        assert not await asyncio.wrap_future(desk.decline(number))
        assert not await asyncio.wrap_future(desk.cancel_question(number))
        (question,) = desk.questions()
        assert (question.answered_by, question.answers[0].selected) == ("dashboard", ("b",))


async def test_a_link_nobody_looks_at_is_no_audience(folder: Path) -> None:
    async with running_desk(folder) as desk:
        other = LocalLink(desk.host, viewers=0)
        other.attend(2)
        await until(lambda: desk.host.inbox.audience == 3)
        other.close()
        await until(lambda: desk.host.inbox.audience == 1)


async def test_policies_and_standing_approvals_are_seen_and_changed(folder: Path) -> None:
    async with running_desk(folder) as desk:
        desk.choose_policy("own", "count", Policy.ASK)
        items = await until_items(desk, "count", Policy.ASK)
        assert items["wait"].policy is Policy.ALLOW
        home = desk.host.by_name["own"].server.hosted
        assert home is not None and desk.grants() == ()
        done = asyncio.run_coroutine_threadsafe(
            home.approvals.grant("count", "client:cursor 1"),
            desk.host._loop,  # type: ignore[arg-type]
        )
        await asyncio.wrap_future(done)
        (grant,) = desk.grants()
        assert (grant.server, grant.tool, grant.peer) == ("own", "count", "client:cursor 1")
        desk.revoke(grant)
        await until(lambda: desk.grants() == ())


async def until_items(desk: RunningDesk, name: str, policy: Policy) -> dict[str, CatalogueItem]:
    """The items, once one of them has a policy."""

    def items() -> dict[str, CatalogueItem]:
        return {item.name: item for item in desk.catalogue("own").items}

    await until(lambda: items()[name].policy is policy)
    return items()
