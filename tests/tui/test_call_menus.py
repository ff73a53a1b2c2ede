"""The menus of a call: copy, save."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mcpdesk.link.values import CatalogueItem, ItemKind
from mcpdesk.tui.widgets.menu import Menu
from mcpdesk.tui.widgets.path_prompt import PathPrompt
from mcpdesk.tui.workbench.call_menus import copyable_parts, history_menu, unused_path
from mcpdesk.tui.workbench.drafts import Drafts
from mcpdesk.tui.workbench.item_requests import shell_command
from mcpdesk.tui.workbench.past_calls import PastCall
from tests.support.fake_link import FakeLink
from tests.support.frame import toasts
from tests.support.workbench import bench


def test_what_can_be_copied_of_a_call() -> None:
    drafts = Drafts(FakeLink())
    draft = drafts.of("profiles", CatalogueItem(ItemKind.TOOL, "user-profile", "x"))
    before = {key for key, _, _ in copyable_parts(draft, "/f")}
    assert before == {"a", "m", "c", "n"}
    draft.start({"userId": "a b", "n": 3})
    drafts.finish_calls()
    texts = {key: text or "" for key, _, text in copyable_parts(draft, "/f")}
    assert texts["m"] == "mcpdesk call /f user-profile 'userId=a b' n:=3"
    assert texts["s"].startswith('{\n  "name": "Ada"')
    assert '"jsonrpc"' in texts["r"]


def test_history_shows_arguments_status_and_time() -> None:
    menu = history_menu("t", [PastCall(0.0, "s", "tool t", {"a": "x"}, "tool error", 0.25)])
    assert menu.choices[0].label == '{a: "x"}'
    assert menu.choices[0].hint.startswith("tool error 250 ms · ")


def test_a_request_has_a_command_where_the_program_has_one() -> None:
    assert (
        shell_command("prompts/get", {"name": "p", "arguments": {"a": "x y"}}, "/f")
        == "mcpdesk prompt /f p 'a=x y'"
    )
    assert shell_command("resources/read", {"uri": "file:///a b"}, "/f") == "mcpdesk read /f 'file:///a b'"
    assert shell_command("tools/list", {}, "/f") == "mcpdesk list /f"
    assert shell_command("ping", {}, "/f") == ""


def test_the_proposed_path_is_that_of_no_existing_file(tmp_path: Path) -> None:
    wanted = tmp_path / "logo.png"
    assert unused_path(wanted) == wanted
    wanted.write_bytes(b"old")
    (tmp_path / "logo-2.png").write_bytes(b"old")
    assert unused_path(wanted) == tmp_path / "logo-3.png"


@pytest.mark.slow
async def test_calls_to_compare_with_say_what_was_asked_and_answered_the_desk_s_own_first() -> None:
    async with bench() as it:
        await it.pilot.press("enter", "7", "ctrl+r")
        await it.until(lambda: "ok" in it.title)
        await it.pilot.press("8", "ctrl+r")
        await it.until(lambda: len(it.sent) == 2 and "ok" in it.title)
        await it.pilot.press("escape", "d")
        await it.until(lambda: isinstance(it.app.screen, Menu))
        assert isinstance(it.app.screen, Menu)
        own, *others = [choice.label for choice in it.app.screen.choices]
        assert re.match(r"\d\d:\d\d:\d\d  userId=\"7\", verbose=false → ", own), own
        assert others and all("claude-code" in each for each in others), others


@pytest.mark.slow
async def test_a_blob_is_saved_by_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with bench() as it:
        await it.open("file:///logo.png")
        await it.until(lambda: "ok" in it.title)
        await it.pilot.press("w", "enter")
        await it.until(lambda: isinstance(it.app.screen, PathPrompt) and it.app.screen.is_mounted)
        assert str(tmp_path / "logo.png") in it.shown() and not list(tmp_path.iterdir())
        await it.pilot.press("enter")
        await it.until(lambda: bool(toasts(it.app)))
        assert toasts(it.app) == [f"saved as {tmp_path / 'logo.png'}"]
        assert (tmp_path / "logo.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
async def test_what_cannot_be_saved_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench() as it:
        await it.open("user-profile")
        it.pane.action_save()
        await it.until(lambda: toasts(it.app) == ["no result to save yet"])
        await it.open("file:///logo.png")
        await it.until(lambda: "ok" in it.title)
        gone = tmp_path / "gone"
        monkeypatch.setattr(Path, "cwd", lambda: gone)
        await it.pilot.press("w", "enter")
        await it.until(lambda: isinstance(it.app.screen, PathPrompt) and it.app.screen.is_mounted)
        await it.pilot.press("enter")
        reason = re.compile(r"The folder .*does.*not.*exist\.", re.DOTALL)  # a long path is wrapped
        await it.until(lambda: reason.search(it.shown()))
