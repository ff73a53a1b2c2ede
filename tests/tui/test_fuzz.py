"""Random input on the real desk causes no findings; a long run is `python -m tests.tui.fuzz --minutes 30`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.tui.fuzz import Fuzz, report

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def test_no_random_action_ends_the_screen(tmp_path: Path) -> None:
    fuzz = Fuzz(12, tmp_path)
    fuzz.run(25)
    assert not fuzz.findings, report(fuzz)
    assert fuzz.done > 100 and list((tmp_path / "state" / "captures").glob("*.jsonl"))


def test_no_random_action_ends_the_screen_of_a_capture(tmp_path: Path) -> None:
    capture = tmp_path / "some.jsonl"
    desk = Fuzz(3, tmp_path / "first")
    desk.run(8)
    capture.write_bytes(max((tmp_path / "first/state/captures").glob("*.jsonl"), key=_size).read_bytes())
    fuzz = Fuzz(4, tmp_path / "second", capture)
    fuzz.run(20)
    assert not fuzz.findings, report(fuzz)


def test_what_goes_wrong_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = (
        "from mcpdesk.tui.screens.main_screen import MainScreen\nMainScreen.key_f9 = lambda self: 1 / 0\n"
    )
    monkeypatch.setattr(
        sys.modules[Fuzz.__module__], "PROGRAM", broken + sys.modules[Fuzz.__module__].PROGRAM
    )
    monkeypatch.setattr(sys.modules[Fuzz.__module__], "BOUND", ["f9"])
    fuzz = Fuzz(1, tmp_path)
    fuzz.run(30)
    assert "ZeroDivisionError" in fuzz.findings[0].what and "key f9" in json.dumps(fuzz.findings[0].actions)


def _size(path: Path) -> int:
    return path.stat().st_size
