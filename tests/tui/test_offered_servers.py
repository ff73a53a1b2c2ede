"""A desk without servers offers those of the folder and of client configurations; enter opens one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from mcpdesk.cli.desk_targets import typed_targets, untrusted_file
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.forms.trust_prompt import TrustPrompt
from mcpdesk.tui.widgets.menu import Menu
from mcpdesk.tui.workbench.offered_servers import OfferedServers
from tests.support.desk import RunningDesk, running_desk
from tests.support.driven import driven
from tests.support.features import needs_feature
from tests.support.made_up_home import SECRET, make_home
from tests.support.patience import screen_lines, until

pytestmark = pytest.mark.slow
Shown = tuple[DeskApp, Pilot[None], RunningDesk]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    _, folder, environment = make_home(tmp_path)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME", "MCPDESK_TRUST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)
    return folder


def text(app: DeskApp) -> str:
    return "\n".join(screen_lines(app))


@asynccontextmanager
async def empty_desk(*folders: Path, state: Path) -> AsyncIterator[Shown]:
    async with running_desk(*folders, state_dir=state) as link:
        link.host.read_targets, link.host.read_untrusted = typed_targets, untrusted_file
        app = DeskApp(link)
        async with driven(app, size=(120, 40)) as pilot:
            yield app, pilot, link


async def offered(app: DeskApp, pilot: Pilot[None], *words: str) -> OfferedServers:
    await until(lambda: isinstance(app.focused, OfferedServers), pilot)
    await until(lambda: all(word in text(app) for word in words), pilot)
    assert isinstance(app.focused, OfferedServers)
    return app.focused


def row(listed: OfferedServers, title: str) -> int:
    rows = ["".join(span[0] for span in listed.spans(at, 110)) for at in range(listed.row_count)]
    return next(at for at, each in enumerate(rows) if each[3:].startswith(title))


async def test_servers_of_clients_are_listed_and_one_opens_after_its_file_is_trusted(
    project: Path, tmp_path: Path
) -> None:
    (tmp_path / "home" / ".codex" / "config.toml").write_text("[mcp_servers\n")
    async with empty_desk(state=tmp_path / "state") as (app, pilot, link):
        listed = await offered(app, pilot, "cursor:github", "mcp.example.com/mcp", "the sample of mcpdesk")
        assert "✕ cursor:both" in text(app) and "config.toml" in text(app) and SECRET not in text(app)
        listed.cursor = row(listed, "cursor:files")
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, TrustPrompt), pilot)
        assert link.view().servers == ()
        await pilot.press("n")
        await until(lambda: "not trusted: no program was started" in text(app), pilot)
        assert link.view().servers == ()
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, TrustPrompt), pilot)
        await pilot.press("t")
        await until(lambda: [each.name for each in link.view().servers] == ["files"], pilot)
        await until(
            lambda: "cursor:github" not in text(app) and not isinstance(app.focused, OfferedServers), pilot
        )


@needs_feature("doctor")
async def test_an_empty_desk_names_the_check_up_of_all_clients(project: Path, tmp_path: Path) -> None:
    async with empty_desk(state=tmp_path / "state") as (app, pilot, _):
        await offered(app, pilot, "g s, then v h, checks the servers of all your clients.")
        assert "not reachable" not in text(app)


async def test_code_of_the_folder_runs_only_after_a_question(project: Path, tmp_path: Path) -> None:
    (project / "tools").mkdir()
    mark = tmp_path / "imported"
    (project / "tools" / "mark.py").write_text(
        f'open({str(mark)!r}, "w").close()\ndef hello() -> str:\n    """Say hello."""\n    return "hi"\n'
    )
    async with empty_desk(state=tmp_path / "state") as (app, pilot, link):
        listed = await offered(app, pilot, "shop/", "server folder with tools")
        assert row(listed, "shop/") == 0
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, Menu), pilot)
        await pilot.press("escape")
        await until(lambda: not isinstance(app.screen, Menu), pilot)
        assert not mark.exists() and link.view().servers == ()
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, Menu), pilot)
        await pilot.press("y")
        await until(lambda: "hello" in text(app) and mark.exists(), pilot)


async def test_the_offers_come_back_when_the_last_server_was_removed(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    (folder / "tools").mkdir(parents=True)
    (folder / "tools" / "a.py").write_text('def alone() -> str:\n    """Be alone."""\n    return ""\n')
    async with empty_desk(folder, state=tmp_path / "state") as (app, pilot, link):
        await until(lambda: "alone" in text(app), pilot)
        link.remove_server("one")
        await offered(app, pilot, "cursor:github")
