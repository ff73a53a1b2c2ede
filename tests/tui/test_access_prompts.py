"""Asking for tokens, and ending standing approvals."""

from __future__ import annotations

import runpy
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from textual import events
from textual.widgets import Input, Static

from mcpdesk.link.values import CatalogueItem, GrantView, ItemKind, ServerView, TokenView, UpstreamView
from mcpdesk.paths import sample_servers
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.forms.access_prompts import (
    NO_GRANTS_TEXT,
    TokenInput,
    TokenPrompt,
    grant_choice,
    scope_words,
    scopes_for,
    token_line,
)
from mcpdesk.tui.screens.clients import ClientsPane
from mcpdesk.tui.screens.workbench import WorkbenchPane
from mcpdesk.tui.widgets.menu import Menu
from tests.support.action_menu import choose_action
from tests.support.desk import RunningDesk, running_desk
from tests.support.driven import driven
from tests.support.frame import quiet_link, running_frame, toasts
from tests.support.tokens import SECRET
from tests.support.workbench import Bench

WALLET = sample_servers() / "wallet"
MAKE: Callable[..., str] = runpy.run_path(str(WALLET / "issue_token.py"))["issue"]
LASTS_S = 2 * 86_400 + 1800


def issue(*scopes: str, secret: str = SECRET, lasts_s: int = LASTS_S) -> str:
    """A token of ada's."""
    return MAKE(secret, "ada", *scopes, lasts_s=lasts_s)


class Counter(Bench):
    """The desk on the guarded sample."""

    link: RunningDesk

    async def ask(self) -> TokenPrompt:
        """Open the form with its key, wherever the focus is."""
        await self.pilot.press("f6")
        await self.until(lambda: isinstance(self.app.screen, TokenPrompt))
        prompt = self.app.screen
        assert isinstance(prompt, TokenPrompt)
        await self.pilot.pause()
        return prompt

    async def paste(self, text: str) -> None:
        """Paste as a terminal does."""
        entry = self.app.screen.query_one(TokenInput)
        entry.post_message(events.Paste(text))
        await self.until(lambda: bool(entry.value))
        await self.pilot.press("enter")

    async def give(self, text: str) -> None:
        """Give a token that counts."""
        await self.ask()
        await self.paste(text)
        await self.until(lambda: self.app.screen is self.app.main)

    async def call(self, *told: str) -> None:
        """Call the open item, and wait for these texts."""
        await self.pilot.press("ctrl+r")
        await self.until(lambda: all(each in self.shown() for each in told))


@asynccontextmanager
async def counter(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int] = (120, 40), **flags: Any
) -> AsyncIterator[Counter]:
    monkeypatch.setenv("WALLET_SECRET", SECRET)
    async with running_desk(WALLET, **flags) as link:
        app = DeskApp(link)
        async with driven(app, size=size, notifications=True) as pilot:
            found = Counter(app, pilot, link)
            await found.until(lambda: bool(app.screen.query(WorkbenchPane)) and found.pane.item is not None)
            yield found


@pytest.mark.slow
async def test_a_guarded_tool_says_what_it_needs_and_is_called_with_a_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with counter(monkeypatch) as it:
        await it.open("balance")
        await it.until(lambda: "needs a token with scope wallet:read · F6 sets one" in it.shown())
        await it.call("Unauthorized: missing JWT", "F6 sets a token for this server.")
        prompt = await it.ask()
        assert "The desk calls wallet without a token." in it.shown()
        assert "balance needs one with scope wallet:read." in it.shown()
        text = issue("wallet")
        await it.paste(text)
        await it.until(lambda: it.app.screen is not prompt)
        await it.until(lambda: "called as ada, 2 d 0 h left" in it.shown())
        await it.call("ada has 100.00 EUR.")
        await it.pilot.press("escape", "4")
        await it.until(lambda: bool(it.app.screen.query(ClientsPane)))
        await it.until(lambda: "token of ada" in it.shown())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (lambda: issue(lasts_s=-60), "✗ The token was rejected: it has expired."),
        (lambda: issue(secret=SECRET + "!"), "✗ The token was rejected: its signature matches no key."),
        (lambda: "no token", "✗ The token was rejected: it does not have the form of a token."),
    ],
    ids=["expired", "signature", "form"],
)
async def test_what_is_wrong_with_a_token_is_told_in_the_form(
    text: Callable[[], str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with counter(monkeypatch, (80, 24)) as it:
        prompt = await it.ask()
        await it.paste(text())
        await it.until(lambda: told in it.shown())
        await it.pilot.press("x")
        await it.until(lambda: told not in it.shown())
        await it.pilot.press("escape")
        await it.until(lambda: it.app.screen is not prompt)
        assert it.link.view().servers[0].token is None


@pytest.mark.slow
async def test_a_scope_that_is_missing_is_told_and_may_be_insisted_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with counter(monkeypatch) as it:
        await it.open("send")
        prompt = await it.ask()
        await it.paste(issue("wallet:read"))
        told = "✗ The token is valid, but lacks scope wallet:send. Enter uses it anyway."
        await it.until(lambda: str(prompt.query_one("#trouble", Static).content) == told)
        assert it.link.view().servers[0].token is None
        await it.pilot.press("enter")
        await it.until(lambda: it.app.screen is not prompt)
        await it.until(lambda: "✕ called as ada, 2 d 0 h left, without scope wallet:send" in it.shown())


@pytest.mark.slow
async def test_nothing_entered_makes_the_desk_anybody_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with counter(monkeypatch) as it:
        await it.open("whoami")
        prompt = await it.ask()
        await it.pilot.press("enter")
        await it.until(lambda: it.app.screen is not prompt)
        assert toasts(it.app) == []
        await it.give(issue("wallet:read"))
        prompt = await it.ask()
        assert "The desk calls wallet as ada, 2 d 0 h left." in it.shown()
        assert "Scopes: wallet:read. Enter without a token removes it." in it.shown()
        await it.pilot.press("enter")
        await it.until(lambda: it.app.screen is not prompt)
        await it.until(lambda: it.link.view().servers[0].token is None)
        await it.until(lambda: "needs a token · F6 sets one" in it.shown())
        await it.call("missing JWT")


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", "Bearer ", "authorization:  bearer ", "\n\n"])
async def test_a_token_is_taken_however_it_was_copied(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with counter(monkeypatch) as it:
        text = issue()
        await it.give(f"{before}{text[:60]}\n  {text[60:]}\n")
        token = it.link.view().servers[0].token
        assert token is not None and token.name == "ada"


@pytest.mark.slow
async def test_a_token_that_was_entered_is_neither_shown_nor_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    async with counter(monkeypatch) as it:
        prompt = await it.ask()
        await it.pilot.press(*"secret")
        assert "secret" not in it.shown() and "••••••" in it.shown()
        entered = prompt.query_one(Input)
        for key in ("ctrl+c", "ctrl+x"):
            entered.action_select_all()
            await it.pilot.press(key)
            assert it.app.clipboard == ""
        assert entered.value == ""


@pytest.mark.slow
async def test_no_token_is_on_disk_in_the_record_or_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = issue("wallet")
    async with counter(monkeypatch, state_dir=tmp_path) as it:
        await it.open("balance")
        await it.give(text)
        await it.call("ada has")
        said = [line.text for line in it.link.logs()]
        capture = Path(it.link.view().capture_path)
        shown = it.shown()
    assert capture.is_file() and '"balance"' in capture.read_text()
    kept = [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    for part in (text, text.rpartition(".")[2]):
        assert not any(part in each for each in (*kept, *said, shown))


async def test_a_server_that_looks_at_no_tokens_says_so() -> None:
    async with running_frame(quiet_link()) as (app, pilot):
        await pilot.press("f6")
        await pilot.pause()
        assert app.screen is app.main
        assert toasts(app) == ["profiles: this server accepts no tokens: mcp.json has no auth.jwt"]


NOW = 1_700_000_000.0
SERVER = ServerView("wallet", "Wallet", "1", "/srv/wallet", "", 1, checks_tokens=True)
OPEN_TOOL = CatalogueItem(ItemKind.TOOL, "convert", "convert")
WHOAMI = replace(OPEN_TOOL, name="whoami", needs_token=True)
SEND = replace(WHOAMI, name="send", scopes=("wallet:send",))
ADA = TokenView("ada", frozenset({"wallet:read"}), NOW + 3599)


@pytest.mark.parametrize(
    ("item", "server", "line"),
    [
        (OPEN_TOOL, {}, ""),
        (WHOAMI, {}, "● needs a token · F6 sets one"),
        (SEND, {}, "● needs a token with scope wallet:send · F6 sets one"),
        (OPEN_TOOL, {"token": ADA}, "called as ada, 59 min left"),
        (OPEN_TOOL, {"token": TokenView("ada", frozenset(), NOW, "it has expired")}, ""),
        (WHOAMI, {"token": ADA}, "✓ called as ada, 59 min left"),
        (
            SEND,
            {"token": ADA},
            "✕ called as ada, 59 min left, without scope wallet:send · F6 sets another token",
        ),
        (
            WHOAMI,
            {"token": TokenView("ada", frozenset(), NOW, "it has expired")},
            "● needs a token · the token of ada ended: it has expired · F6 sets one",
        ),
        (
            OPEN_TOOL,
            {"wants_token": True, "token_scopes": ("a", "b")},
            "● needs a token with scopes a, b · F6 sets one",
        ),
        (
            SEND,
            {"token": TokenView("ada", frozenset({"wallet:send"}))},
            "✓ called as ada, with scope wallet:send",
        ),
        (
            WHOAMI,
            {"checks_tokens": False},
            "✕ needs a token, and this server accepts no tokens: mcp.json has no auth.jwt",
        ),
        (WHOAMI, {"token": TokenView("a\x1b[31m", frozenset())}, "✓ called as a␛[31m"),
    ],
)
def test_an_item_says_what_it_needs_and_who_calls_it(
    item: CatalogueItem, server: dict[str, Any], line: str
) -> None:
    assert token_line(item, replace(SERVER, **server), NOW)[0] == line


def test_what_the_server_needs_comes_before_what_the_item_needs() -> None:
    strict = replace(SERVER, wants_token=True, token_scopes=("all", "wallet:send"))
    assert scopes_for(SEND, strict) == ("all", "wallet:send")
    assert scopes_for(OPEN_TOOL, SERVER) is None and scopes_for(WHOAMI, SERVER) == ()
    assert scope_words(()) == ""


LONG_SCOPE = "wallet:" + "x" * 80
FAR = UpstreamView("https://example.org/mcp", "ready")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("server", "item", "lines"),
    [
        ({}, None, ["The desk calls wallet without a token."]),
        (
            {"upstream": FAR},
            None,
            ["wallet has no login. The desk sends this token to it, also with calls of clients."],
        ),
        (
            {"token": TokenView("ada", frozenset(), NOW, "it has expired")},
            None,
            ["The token of ada is no longer accepted: it has expired."],
        ),
        (
            {"token": TokenView("ada", frozenset())},
            WHOAMI,
            [
                "The desk calls wallet as ada.",
                "Scopes: none. Enter without a token removes it.",
                "convert needs one.",
            ],
        ),
        (
            {"token": TokenView("a" * 50, frozenset({"b\x1b", "a", LONG_SCOPE}))},
            SEND,
            [
                f"The desk calls wallet as {'a' * 39}….",
                f"Scopes: a b␛ {LONG_SCOPE[:59]}…. Enter without a token removes it.",
                "convert needs one with scope wallet:send.",
            ],
        ),
        ({"token": TokenView("ada", frozenset({"a"}))}, OPEN_TOOL, ["The desk calls wallet as ada."]),
    ],
    ids=["none", "upstream", "ended", "no scopes", "long", "not needed"],
)
async def test_the_form_shows_the_current_token_and_the_needed_one(
    server: dict[str, Any], item: CatalogueItem | None, lines: list[str]
) -> None:
    link = quiet_link()
    async with running_frame(link) as (app, pilot):
        await app.push_screen(TokenPrompt(link, replace(SERVER, **server), item))
        await pilot.pause()
        text = str(app.screen.query(Static).first().content)
    assert text.splitlines()[: len(lines)] == lines
    assert ("needs one" in text) == (item is not None and item.needs_token)


CURSOR = GrantView("profiles", "Bash", "client:cursor 1.4", time.time() - 500)
ADAS_GRANT = GrantView("hello", "greet", "token:ada of https://id.example.org", time.time() - 5)


@pytest.mark.slow
async def test_enter_ends_the_chosen_one() -> None:
    link = quiet_link()
    link.granted = (ADAS_GRANT, CURSOR)
    async with running_frame(link) as (app, pilot):
        await choose_action(pilot, "standing approvals")
        await pilot.pause()
        assert isinstance(app.screen, Menu)
        assert [choice.label for choice in app.screen.choices] == [
            "greet for ada of https://id.example.org",
            "Bash for cursor 1.4",
        ]
        await pilot.press("j", "enter")
        await pilot.pause()
        assert list(link.granted) == [ADAS_GRANT] and app.main.is_current


@pytest.mark.slow
async def test_without_any_it_says_where_they_come_from() -> None:
    async with running_frame() as (app, pilot):
        await choose_action(pilot, "standing approvals")
        await pilot.pause()
        assert toasts(app) == [NO_GRANTS_TEXT] and app.screen is app.main


def test_a_name_of_a_client_and_the_holder_of_a_token_are_told_apart() -> None:
    told = [grant_choice(each, NOW).help for each in (CURSOR, ADAS_GRANT)]
    assert told == [
        "Clients called cursor 1.4 may call Bash of profiles.",
        "Clients with the token of ada of https://id.example.org may call greet of hello.",
    ]
    assert grant_choice(GrantView("s", "t", "client:\x1b[31mx", 0.0), NOW).label == "t for ␛[31mx"
