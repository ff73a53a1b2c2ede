"""Copying on the desk: no control and no bidirectional character reaches the clipboard of the system."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest

from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.tui.actions import ACTIONS
from mcpdesk.tui.traffic.exchange_menus import copy_menu
from tests.support.fake_link import FakeLink
from tests.support.features import having, needs_feature
from tests.support.frame import running_frame
from tests.support.hostile import hostile
from tests.support.traffic import IN, OUT, call, connection, settle
from tests.support.traffic import text as result

PACKAGE = Path(__file__).parents[2] / "mcpdesk"
EVIL = "a\x1b]52;c;UFdORQ==\x07\x9b31m\u202eb\r\n\tc"
COPY_ACTIONS = (
    "app.interrupt", "app.show_news", "callbacks.copy", "clients.copy", "inbox.copy", "jobs.copy",
    "json.copy_path", "json.copy_value", "logs.copy", "main.client_config", "main.copy_url",
    "plan.copy", "question.copy_link", "servers.copy", "statistics.copy", "table.copy", "todo.copy",
    "traffic.copy", "workbench.copy", *having("dashboard", "main.dashboard"),
)  # fmt: skip
"""Every action that copies, or shows the copied text, according to its words."""


def test_every_action_that_copies_passes_the_one_method_that_cleans() -> None:
    found = {
        each.id for each in ACTIONS if re.search("cop(y|ie)", f"{each.name} {each.title} {each.help}".lower())
    }
    assert found == set(COPY_ACTIONS)
    sources = {path: path.read_text() for path in (PACKAGE / "tui").rglob("*.py")}
    callers = {path.name for path, source in sources.items() if "copy_to_clipboard(" in source}
    assert callers == {"app.py"}
    assert not any("]52" in source or "pyperclip" in source for source in sources.values())


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "copied"),
    [
        (EVIL, "a␛]52;c;UFdORQ==␇‹9b›31m‹202e›b\n\tc"),
        (json.dumps({"a": EVIL}, ensure_ascii=False), json.dumps({"a": EVIL})),
        ("plain\n\ttext", "plain\n\ttext"),
    ],
)
async def test_no_command_for_a_terminal_is_copied(
    text: str, copied: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_frame() as (app, pilot):
        written: list[str] = []
        with monkeypatch.context() as patch:
            patch.setattr(app._driver, "write", written.append)
            app.copy(text, "it")
        (command,) = written
        data = command.removeprefix("\x1b]52;c;").removesuffix("\x07")
        assert base64.b64decode(data).decode() == copied
        assert app.clipboard == text  # a field of the desk gets what was meant
        await pilot.pause()


@pytest.mark.slow
@needs_feature("exports")
async def test_no_choice_for_an_exchange_copies_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording(None)
    recording.connect(connection(1, hostile("peer")))
    recording.frame(1, IN, call(1, hostile("tool"), {"a": hostile("value")}))
    recording.frame(1, OUT, result(1, hostile("result")))
    settle(recording)
    link = FakeLink()
    link.traffic = recording.index
    choices = copy_menu(link, 0, 0).choices
    async with running_frame() as (app, pilot):
        written: list[str] = []
        with monkeypatch.context() as patch:
            patch.setattr(app._driver, "write", written.append)
            for choice in choices:
                app.copy(choice.value[0](), choice.label)
        await pilot.pause()
    assert len(written) == len(choices) >= 5
    for command in written:
        copied = base64.b64decode(command.removeprefix("\x1b]52;c;").removesuffix("\x07")).decode()
        assert "value" in copied
        assert all(each in "\n\t" or (each.isprintable() and each != "\u202e") for each in copied)
