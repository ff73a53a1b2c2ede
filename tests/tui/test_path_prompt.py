"""Paths that a person enters for a new file."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.app import App
from textual.widgets import Input, Static

from mcpdesk.plain_text import to_field
from mcpdesk.tui.widgets.path_prompt import PathPrompt, in_working_folder
from tests.support.driven import driven
from tests.support.patience import until


async def test_a_path_that_the_system_refuses_is_reported_and_can_be_corrected(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    (tmp_path / "file").touch()
    results: list[Path | None] = []
    app: App[None] = App()
    async with driven(app, size=(120, 24)) as pilot:
        app.push_screen(PathPrompt("Write", tmp_path / "proposed.txt"), results.append)
        await until(lambda: isinstance(app.screen, PathPrompt) and app.screen.is_mounted, pilot)
        field, problem = app.screen.query_one(Input), app.screen.query_one(".problem", Static)
        for name, reason in (
            ("x" * 300, "This path is not possible: File name too long"),
            (to_field("a\0b"), "This path is not possible: embedded null byte"),
            ("link", "link already exists. Enter another name."),
            ("file/name", f"The folder {tmp_path / 'file'} does not exist."),
        ):
            field.value = str(tmp_path / name)
            await pilot.press("enter")
            await until(lambda reason=reason: str(problem.content) == reason, pilot)  # type: ignore[misc]
        field.value = str(tmp_path)
        await pilot.press("enter")
        await until(lambda: results == [tmp_path / "proposed.txt"], pilot)


def test_a_deleted_working_folder_leaves_the_path_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    assert in_working_folder(Path("a.txt")) == gone / "a.txt"
    gone.rmdir()
    assert in_working_folder(Path("a.txt")) == Path("a.txt")
