"""Parts of a result become new files; nothing is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.tui.results.result_content import Savable
from mcpdesk.tui.workbench.call_menus import save
from tests.support.frame import toasts
from tests.support.workbench import bench


def test_a_file_that_is_there_already_stays(tmp_path: Path) -> None:
    part = Savable("logo.png", "image/png", b"new")
    (tmp_path / "logo.png").write_bytes(b"old")
    assert save(part, tmp_path) == tmp_path / "logo-2.png"
    assert save(part, tmp_path) == tmp_path / "logo-3.png"
    assert (tmp_path / "logo.png").read_bytes() == b"old"


async def test_a_blob_is_saved_by_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with bench() as it:
        await it.open("file:///logo.png")
        await it.until(lambda: "ok" in it.title)
        await it.pilot.press("x", "enter")
        await it.until(lambda: bool(toasts(it.app)))
        assert toasts(it.app) == [f"saved as {tmp_path / 'logo.png'}"]
        assert (tmp_path / "logo.png").read_bytes().startswith(b"\x89PNG")


async def test_what_cannot_be_saved_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench() as it:
        await it.open("user-profile")
        it.pane.action_save()
        await it.until(lambda: toasts(it.app) == ["there is no result to save yet"])
        await it.open("file:///logo.png")
        await it.until(lambda: "ok" in it.title)
        gone = tmp_path / "gone"
        monkeypatch.setattr(Path, "cwd", lambda: gone)
        await it.pilot.press("x", "enter")
        await it.until(lambda: toasts(it.app)[-1] == "not saved: No such file or directory")
