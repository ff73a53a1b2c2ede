"""Draws the pictures of the documentation from the running program: `python -m tests.support.picture NAME`.

With `gallery`, the pictures of `docs/gallery.md`: a real core hosts the bundled sample, a client calls a
tool over HTTP, a person calls another on the desk. With `readme`, the picture of the README: a Node server
that npx downloads.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import urllib.request
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input

from mcpdesk.cli.desk_targets import typed_targets, untrusted_file
from mcpdesk.client.targets import CommandTarget, UrlTarget
from mcpdesk.paths import sample_servers
from mcpdesk.tui.app import DeskApp
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support.desk import RunningDesk, running_desk
from tests.support.driven import driven
from tests.support.features import having
from tests.support.patience import WITHIN_S, until

DOCS = Path(__file__).parents[2] / "docs"
STATE = "/tmp/mcpdesk"
"""State folder of the drawn desks. Pictures show paths in it, so it must not be a personal folder."""
ANY_SERVER = DOCS / "any-server.svg"
GALLERY = DOCS / "gallery"
SHOTS = (
    ("traffic", ("escape", "escape", "2"), "tools/call", "night"),
    ("exchange", ("up", "enter"), "plan-trip", "night"),
    ("statistics", ("escape", "6"), "withdraw-cash", "night"),
    ("help", ("1", "question_mark"), "Edit the arguments as a form", "night"),
    ("light", ("escape", "2"), "tools/call", "paper"),
)
"""Pictures of the gallery: name, keys that lead to it from the one before, words it shows, theme."""
CONFIG = Path(STATE) / "clone" / ".mcp.json"
"""A configuration file with servers that are not trusted yet."""
CONFIGURED = {"mcpServers": {"weather": {"command": "npx", "args": ["-y", "weather-server"]}}}
QUESTION = '[{"question": "Tea or coffee?", "options": ["tea", "coffee"]}]'


def _typed(title: str) -> tuple[str, ...]:
    """Keys that choose an action in the action menu."""
    return ("space", *("space" if letter == " " else letter for letter in title), "enter")


EVERY_SCREEN = (
    ("workbench", ("escape", "escape", "1", "enter"), ("plan-trip", "3 days in Lisbon", "form or JSON")),
    ("error", ("escape", "slash", *"crash", "enter", "slash", "escape", "ctrl+r"), ("ZeroDivisionError",)),
    ("traffic", ("escape", "escape", "2"), ("tools/call", "withdraw-cash", "details")),
    ("exchange", ("up", "enter"), ("request", "handler", "repeat")),
    ("waterfall", ("escape", "escape", "v", "w"), ("shaping", "handler")),
    (
        "hold",
        ("v", "w", "space", *"hold", "space", *"messages", "enter"),
        ("Held messages", "start holding"),
    ),
    ("jobs", ("escape", "escape", "3"), ("watching the sea", "kill")),
    ("activity", ("shift+left",), ("No questions yet", "next part")),
    ("clients", ("4",), ("last seen", "notebook 2.1")),
    ("logs", ("5",), ("crash-on", "level debug+")),
    ("statistics", ("6",), ("all calls", "p95", "calls a second")),
    ("help", ("question_mark",), ("Keys", "esc close")),
    ("palette", ("escape", "ctrl+p"), ("Palette", "type to search")),
    ("servers", ("escape", "g", "s"), ("Servers", "served", "add a server")),
    *having("doctor", ("doctor", ("v", "h"), ("Servers of all clients", "esc close"))),
    *having("doctor", ("login", ("escape", "end", "v", "t"), ("Login at far", "esc close"))),
    ("add", ("escape", *_typed("add a server")), ("Add a server", "enter add", "a folder")),
    ("trust", (*str(CONFIG), "enter"), ("Trust this file?", str(CONFIG), "weather: starts npx", "t trust")),
    ("themes", ("n", "escape", *_typed("theme")), ("Theme", "type to search", "night")),
    ("news", ("escape", "exclamation_mark"), ("Messages",)),
    ("asking", ("escape", "1", "slash", *"AskUser", "enter", "enter"), ("AskUserQuestion", "questions_json")),
    ("question", (*QUESTION, "ctrl+r"), ("Tea or coffee?", "decline")),
)
"""Screens and dialogs: name, keys that lead to it from the one before, words it shows at every size."""
JOB = "echo watching the sea; exec sleep 600"
EVERYTHING = UpstreamPlan(
    "server-everything", CommandTarget(("npx", "-y", "@modelcontextprotocol/server-everything"))
)
FAR = UpstreamPlan("far", UrlTarget("http://127.0.0.1:9/mcp"))
"""A server over HTTP that does not answer."""
SIZE = (120, 36)


async def draw_any() -> str:
    """The screen as SVG with an upstream server, after a person has called one of its tools."""
    async with running_desk(upstreams=[EVERYTHING], http=True, state_dir=STATE) as link:
        app = DeskApp(link, theme="night")
        async with driven(app, size=SIZE) as pilot:
            await until(lambda: shows(pilot, "connected") and shows(pilot, "get-sum"), pilot)
            await press(pilot, "slash")
            await until(lambda: isinstance(pilot.app.focused, Input), pilot)
            await press(pilot, *"get-sum", "enter")
            await press(pilot, "slash", "escape")
            await press(pilot, "enter")
            await until(lambda: isinstance(pilot.app.focused, Input), pilot)
            await press(pilot, *"17", "tab", *"25", "ctrl+r")
            await until(lambda: shows(pilot, "is 42"), pilot)
            await pilot.pause(0.5)
            return re.sub(r"terminal-\d+", "terminal", app.export_screenshot(title="mcpdesk"))


async def draw_gallery() -> AsyncIterator[tuple[str, str]]:
    """Names and pictures of the gallery: the desk after a client and a person have used it."""
    async with running_desk(sample_servers() / "desk", http=True, state_dir=STATE) as link:
        app = DeskApp(link, theme="night")
        async with driven(app, size=SIZE) as pilot:
            await asyncio.to_thread(be_a_client, link)
            await be_a_person(pilot, link)
            for name, keys, words, theme in SHOTS:
                app.theme = theme
                await press(pilot, *keys)
                await until(partial(shows, pilot, words), pilot)
                await pilot.pause(0.5)
                picture = app.export_screenshot(title="mcpdesk")
                yield name, re.sub(r"terminal-\d+", "terminal", picture)


async def keep_gallery() -> None:
    """Write the pictures of the gallery."""
    GALLERY.mkdir(exist_ok=True)
    async for name, picture in draw_gallery():
        (GALLERY / f"{name}.svg").write_text(picture)


async def visit_screens(size: tuple[int, int]) -> AsyncIterator[tuple[str, Pilot[None]]]:
    """Open all screens at one size, one after the other; yield the name of each and the pilot."""
    CONFIG.parent.mkdir(parents=True, exist_ok=True)
    CONFIG.write_text(json.dumps(CONFIGURED))
    async with running_desk(sample_servers() / "desk", http=True, upstreams=[FAR], state_dir=STATE) as link:
        link.host.read_targets, link.host.read_untrusted = typed_targets, untrusted_file
        app = DeskApp(link, theme="night")
        async with driven(app, size=size) as pilot:
            headers = await asyncio.to_thread(be_a_client, link)
            await be_a_person(pilot, link, ("3 days in Lisbon",))
            await asyncio.to_thread(be_busy, link, headers)
            for name, keys, words in EVERY_SCREEN:
                await press(pilot, *keys)
                for each in words:
                    try:
                        await until(partial(shows, pilot, each), pilot)
                    except AssertionError as error:
                        raise AssertionError(f"{name} does not show {each!r}") from error
                yield name, pilot


WIDE = ("3 days in Lisbon", "notebook", "withdraw-cash")
"""Words on a wide workbench after the calls of a client and a person."""


async def be_a_person(pilot: Pilot[None], link: RunningDesk, seen: tuple[str, ...] = WIDE) -> None:
    """Find a tool, fill its form in and call it, until the words of `seen` are on the screen."""
    await until(lambda: shows(pilot, "brew-coffee"), pilot)
    await press(pilot, "slash")
    await until(lambda: isinstance(pilot.app.focused, Input), pilot)
    await press(pilot, *"trip", "enter")
    await until(lambda: shows(pilot, "Plan a trip."), pilot)
    await press(pilot, "slash", "escape")
    await press(pilot, "enter")
    await until(lambda: isinstance(pilot.app.focused, Input), pilot)
    await press(pilot, *"Lisbon", "ctrl+r")
    await until(lambda: finished_calls(link) == 3, pilot)
    for words in seen:
        await until(partial(shows, pilot, words), pilot)
    await pilot.pause(0.5)


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys and let the screen settle."""
    await pilot.press(*keys)
    await pilot.pause(0.2)


def be_a_client(link: RunningDesk) -> dict[str, str]:
    """Shake hands, list the tools and call two, over HTTP; returns the headers of the session."""
    rules = link.host.rules
    headers = {rules.api_key_header: rules.api_key, "User-Agent": "curl/8.5.0"}
    client = {"name": "notebook", "version": "2.1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    session = ask(link, headers, 1, "initialize", hello)
    headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    ask(link, headers, 2, "tools/list", {})
    ask(link, headers, 3, "tools/call", {"name": "swatch", "arguments": {}})
    ask(link, headers, 4, "tools/call", {"name": "withdraw-cash", "arguments": {"amount": 5000}})
    return headers


def be_busy(link: RunningDesk, headers: dict[str, str]) -> None:
    """Call a tool that reports progress, and start a job that keeps running."""
    coffee = {"name": "brew-coffee", "arguments": {"seconds": 0}, "_meta": {"progressToken": 5}}
    ask(link, headers, 5, "tools/call", coffee)
    job = {"name": "BackgroundBash", "arguments": {"command": JOB}}
    ask(link, headers, 6, "tools/call", job)


def ask(link: RunningDesk, headers: dict[str, str], id: int, method: str, params: dict[str, Any]) -> str:
    """Send one request over HTTP; return its session id."""
    body = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()
    all_headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **headers,
    }
    request = urllib.request.Request(link.host.url("desk"), body, all_headers)
    with urllib.request.urlopen(request, timeout=WITHIN_S) as answer:
        answer.read()
        return str(answer.headers["Mcp-Session-Id"])


def shows(pilot: Pilot[None], text: str) -> bool:
    """True if the screen shows a text."""
    return text in pilot.app.export_screenshot().replace("&#160;", " ")


def finished_calls(link: RunningDesk) -> int:
    """Number of finished tool calls in the recorder."""
    link.traffic.catch_up(1.0)
    return sum(1 for each in link.traffic.exchanges if each.method == "tools/call" and each.ended)


if __name__ == "__main__":
    if sys.argv[1:] == ["gallery"]:
        asyncio.run(keep_gallery())
    elif sys.argv[1:] == ["readme"]:
        ANY_SERVER.write_text(asyncio.run(draw_any()))
    else:
        raise SystemExit("usage: python -m tests.support.picture gallery|readme")
