"""The dashboard in a browser: everything on it is used, with the mouse, with keys alone, and on a phone."""

from __future__ import annotations

import asyncio
import io
import json
import re
import zipfile
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.features.dashboard.browsers import SignInLink, SignOutBrowsers
from tests.support.dashboard import DRAW, KEY, OPERATOR_KEY, Dashboard, dashboard
from tests.support.folders import write
from tests.web.browsing import CONTRAST, NAMELESS, Surfer, needs_browser, surfing

pytestmark = [needs_browser, pytest.mark.browser]

HOSTILE = "<img src=x onerror=alert(1)>\"'><script>alert(2)</script>\u202egnp.\x1b[31m"
CHECKS = {"question": "Which checks?", "options": ["lint", "types", "tests"], "multiSelect": True}
STORAGE = {
    "question": "Which database?",
    "header": "Storage",
    "options": [{"label": "PostgreSQL", "description": "relational"}, "SQLite"],
}


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[Dashboard]:
    async with dashboard(tmp_path) as running:
        yield running


async def ask(shown: Dashboard, *questions: dict[str, Any]) -> Any:
    """Ask a person; returns the call that waits."""
    call = shown.call("AskUserQuestion", questions_json=json.dumps(questions))
    await shown.question()
    return call


async def answers_of(call: Any) -> dict[str, Any]:
    outcome = await asyncio.wrap_future(call.outcome)
    return dict(outcome.result["structuredContent"])


async def test_who_has_the_key_signs_in_stays_in_and_signs_out(shown: Dashboard) -> None:
    async with surfing(shown, is_in=False) as surfer:
        page = surfer.page
        await page.locator("#entry").wait_for()
        assert not await page.locator("main").is_visible()
        assert await page.evaluate("document.activeElement.id") == "secret"
        await page.keyboard.type(KEY)  # of callers
        await page.keyboard.press("Enter")
        await page.get_by_text("That is not the operator's key.").wait_for()
        await surfer.sign_in()
        assert OPERATOR_KEY not in await page.content()
        await page.reload()
        await surfer.is_live()
        assert not await page.locator("#entry").is_visible()
        assert "mcpdesk-dashboard" not in await page.evaluate("document.cookie")
        await page.get_by_role("button", name="Sign out").click()
        await page.locator("#entry").wait_for()


async def test_a_link_signs_in_once_and_is_out_of_sight(tmp_path: Path) -> None:
    async with dashboard(tmp_path, key="") as shown, surfing(shown, is_in=False) as surfer:
        page = surfer.page
        await page.locator("#entry").wait_for()
        link = await asyncio.wrap_future(shown.desk.do(SignInLink()))
        await page.goto(link)  # only what follows # differs: the page is not loaded again
        await surfer.is_live()
        assert page.url == f"{shown.url}/"
        assert link.rpartition("=")[2] not in await page.content()
        assert "OPEN" in await surfer.text("#protection")
        call = await ask(shown, STORAGE)
        form = await surfer.question()
        await form.get_by_label("SQLite").check()
        await form.get_by_role("button", name="Answer", exact=True).click()
        assert (await answers_of(call))["answers"][0]["selected"] == ["SQLite"]
        another = await page.context.new_page()
        await another.goto(link)
        await another.get_by_text("That link was used or has expired.").wait_for()
        assert not await another.locator("main").is_visible()


async def test_browsers_that_are_signed_out_at_the_desk_show_nothing_more(shown: Dashboard) -> None:
    async with surfing(shown) as surfer:
        assert await asyncio.wrap_future(shown.desk.do(SignOutBrowsers())) == 1
        await surfer.page.locator("#entry").wait_for()
        assert not await surfer.page.locator("main").is_visible()


async def test_servers_are_shown_with_what_to_copy(shown: Dashboard) -> None:
    async with surfing(shown, permissions=["clipboard-read", "clipboard-write"]) as surfer:
        page = surfer.page
        card = page.get_by_role("article", name="Server shop")
        assert "8 tools" in await card.inner_text() and "A shop" in await card.inner_text()
        for key, words in (
            ("url", f"{shown.url}/mcp/shop"),
            ("curl", "YOUR-KEY"),
            ("claude-code", "claude mcp add"),
            ("claude-desktop", '"mcpServers"'),
            ("cursor", '"shop"'),
            ("vscode", '"servers"'),
        ):
            await card.locator(f'[data-copy="{key}"]').click()
            await surfer.until(partial(copied, surfer, words))
            assert KEY not in await page.evaluate("navigator.clipboard.readText()")
        await surfer.toasts("Copied the configuration for VS Code")
        await card.get_by_text("What it offers").click()
        assert await card.get_by_text("Say it again.").is_visible()
        await card.get_by_text("Endpoints").click()
        await card.get_by_role("button", name="Copy the address of gateway dialect").click()
        await surfer.toasts("Copied the address of gateway dialect")
        assert await page.evaluate("navigator.clipboard.readText()") == f"{shown.url}/v1/mcp"


async def copied(surfer: Surfer, words: str) -> bool:
    return words in await surfer.page.evaluate("navigator.clipboard.readText()")


async def test_what_cannot_be_copied_is_selected_to_be_copied_by_hand(shown: Dashboard) -> None:
    async with surfing(shown) as surfer:
        await surfer.page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject('no') }")
        await surfer.page.locator('[data-copy="url"]').first.click()
        area = surfer.page.get_by_label("Text to copy")
        assert await area.input_value() == f"{shown.url}/mcp/shop"
        await surfer.page.keyboard.press("Escape")
        assert not await area.is_visible()


async def test_traffic_comes_by_itself_and_passes_a_filter(shown: Dashboard) -> None:
    async with surfing(shown) as surfer:
        page, rows = surfer.page, surfer.page.locator("#traffic-list button")
        await page.get_by_text("No messages yet.").wait_for()
        assert "-H 'X-API-Key: YOUR-KEY'" in await surfer.text("#no-traffic")
        await shown.called("echo", text="one")
        await rows.filter(has_text="echo").filter(has_text="✓ ok").wait_for()
        await shown.called("hush", word="two")
        await rows.filter(has_text="hush").wait_for()
        field = page.get_by_label("Filter the traffic")
        await field.fill("tool:hush")
        await surfer.until(lambda: _is(rows, 1))
        assert "1 of 2 exchanges" in await surfer.text("#traffic-counts")
        await field.fill("status:what")
        await page.get_by_text("'what' is not allowed; use pending, ").wait_for()
        assert await field.get_attribute("aria-invalid") == "true"
        await field.fill("nothing-has-this")
        await page.get_by_role("button", name="Clear the filter").click()
        await surfer.until(lambda: _is(rows, 2))


async def _is(rows: Any, count: int) -> bool:
    return bool(await rows.count() == count)


async def test_paused_traffic_waits_and_is_there_afterwards(shown: Dashboard) -> None:
    async with surfing(shown) as surfer:
        page, rows = surfer.page, surfer.page.locator("#traffic-list button")
        await shown.called("echo", text="one")
        await surfer.until(lambda: _is(rows, 1))
        await page.get_by_role("button", name="Pause").click()
        await shown.called("echo", text="two")
        await surfer.until(lambda: _says(surfer, "#traffic-mode", "paused, 1 waiting"))
        assert await rows.count() == 1
        await page.get_by_role("button", name="Resume").click()
        await surfer.until(lambda: _is(rows, 2))


async def _says(surfer: Surfer, selector: str, words: str) -> bool:
    return words in await surfer.text(selector)


async def test_whoever_scrolled_down_keeps_their_place_and_gets_older_ones(shown: Dashboard) -> None:
    for number in range(260):
        await shown.called("echo", text=str(number))
    async with surfing(shown) as surfer:
        page, rows = surfer.page, surfer.page.locator("#traffic-list button")
        await surfer.until(lambda: _is(rows, 200))
        assert "the newest 200 in sight" in await surfer.text("#traffic-counts")
        await page.evaluate("document.querySelector('#traffic-scroll').scrollTop = 900")
        first = await rows.first.get_attribute("data-n")
        await surfer.until(lambda: _says(surfer, "#traffic-mode", "holding"))
        await shown.called("echo", text="new")
        await page.get_by_role("button", name="1 newer").wait_for()
        assert await rows.first.get_attribute("data-n") == first
        await page.get_by_role("button", name="Show older ones").click()
        await surfer.until(lambda: _is(rows, 260))
        assert await page.evaluate("document.activeElement.dataset.n") == "59"
        await page.get_by_role("button", name="1 newer").click()
        await surfer.until(lambda: _is(rows, 200))
        assert await rows.first.get_attribute("data-n") == "260"


async def test_one_exchange_is_read_in_full_with_its_secrets_masked(shown: Dashboard) -> None:
    await shown.called("echo", text="before")
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}
    body["params"] = {"name": "hush", "arguments": {"word": "open-sesame"}}
    async with shown.client.post(f"{shown.url}/mcp/shop", json=body, headers={"X-API-Key": KEY}):
        pass
    async with surfing(shown, permissions=["clipboard-read", "clipboard-write"]) as surfer:
        page = surfer.page
        await page.locator("#traffic-list button").filter(has_text="hush").click()
        drawer = page.get_by_role("dialog")
        await drawer.get_by_role("heading", name="Response").wait_for()
        await drawer.locator("summary").first.click()
        told = await drawer.inner_text()
        assert "tools/call hush" in told and "taken" in told and "POST /mcp/shop" in told
        assert re.search("parse and queue .+ · handler .+ · shaping ", told)
        widths = "[...document.querySelectorAll('.phase')].map(part => part.offsetWidth)"
        assert len(found := await page.evaluate(widths)) >= 3 and min(found) >= 2
        assert "open-sesame" not in await page.content() and KEY not in await page.content()
        await drawer.get_by_role("button", name="Copy as curl").click()
        await surfer.until(lambda: copied(surfer, "curl -X POST"))
        assert KEY not in await page.evaluate("navigator.clipboard.readText()")
        await drawer.get_by_role("button", name="Older message").click()
        await drawer.get_by_role("heading", name="tools/call echo").wait_for()
        await page.keyboard.press("Escape")
        await surfer.until(lambda: page.evaluate("document.activeElement.textContent.includes('echo')"))
        assert not await drawer.is_visible()


async def test_a_question_is_answered_with_the_mouse(shown: Dashboard) -> None:
    async with surfing(shown) as surfer:
        page = surfer.page
        call = await ask(shown, STORAGE, CHECKS)
        form = await surfer.question()
        await surfer.until(lambda: _titled(surfer, "(1) mcpdesk"))
        assert "AskUserQuestion of shop asks" in await form.inner_text()
        await form.get_by_role("button", name="Answer", exact=True).click()
        problems = form.locator(".problem", has_text="Choose at least one option")
        await problems.first.wait_for()
        assert await problems.count() == 2
        await form.get_by_label("PostgreSQL").check()
        await form.get_by_label("lint").check()
        await form.get_by_label("tests", exact=True).check()
        await form.get_by_label("something else").last.fill("the whole suite")
        await form.get_by_role("button", name="Answer", exact=True).click()
        answered = await answers_of(call)
        assert [each["selected"] for each in answered["answers"]] == [["PostgreSQL"], ["lint", "tests"]]
        assert answered["answers"][1]["other"] == "the whole suite"
        await surfer.toasts("Answered.")
        await surfer.until(lambda: _titled(surfer, "mcpdesk"))
        await page.get_by_text("Recent answers").click()
        assert "by dashboard" in await surfer.text("#ended")


async def _titled(surfer: Surfer, title: str) -> bool:
    return await surfer.page.title() == title


async def test_a_question_is_answered_with_keys_alone(shown: Dashboard) -> None:
    async with surfing(shown, is_in=False) as surfer:
        page = surfer.page
        await page.locator("#entry").wait_for()
        await page.keyboard.type(OPERATOR_KEY)
        await page.keyboard.press("Enter")
        await surfer.is_live()
        call = await ask(shown, STORAGE, CHECKS)
        await surfer.question()
        await page.keyboard.press("Tab")
        for _ in range(40):
            if await page.evaluate("document.activeElement.closest('form.question') !== null"):
                break
            await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.type") == "radio"
        await page.keyboard.press("Space")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Tab")  # the line for own words
        await page.keyboard.press("Tab")
        await page.keyboard.press("Space")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Space")
        await page.keyboard.press("Enter")
        answered = await answers_of(call)
        assert [each["selected"] for each in answered["answers"]] == [["SQLite"], ["lint", "types"]]


async def test_own_words_count_as_soon_as_there_are_any(shown: Dashboard) -> None:
    async with surfing(shown) as surfer:
        call = await ask(shown, STORAGE)
        form = await surfer.question()
        await form.get_by_label("SQLite").check()
        await form.get_by_label("something else").last.fill("DuckDB")
        assert not await form.get_by_label("SQLite").is_checked()
        await surfer.page.keyboard.press("Enter")
        (answer,) = (await answers_of(call))["answers"]
        assert (answer["selected"], answer["other"]) == ([], "DuckDB")


async def test_a_question_is_declined_with_a_reason(shown: Dashboard) -> None:
    async with surfing(shown) as surfer:
        call = await ask(shown, STORAGE)
        form = await surfer.question()
        await form.get_by_role("button", name="Decline…").click()
        await surfer.page.keyboard.type("ask me tomorrow")
        await surfer.page.keyboard.press("Enter")
        answered = await answers_of(call)
        assert (answered["status"], answered["reason"]) == ("declined", "ask me tomorrow")


async def test_a_question_answered_at_the_desk_goes_and_says_so(shown: Dashboard) -> None:
    async with surfing(shown) as surfer:
        await ask(shown, STORAGE)
        form = await surfer.question()
        await form.get_by_label("PostgreSQL").focus()
        await asyncio.wrap_future(shown.desk.decline(await shown.question(), "no need"))
        await surfer.toasts("was declined by desk: no need")
        assert await surfer.page.locator("form.question").count() == 0
        assert await surfer.page.evaluate("document.activeElement.id") == "questions-title"


async def test_what_was_filled_in_stays_while_other_questions_come(shown: Dashboard) -> None:
    async with surfing(shown) as surfer:
        await ask(shown, STORAGE)
        form = await surfer.question()
        await form.get_by_label("something else").last.fill("half a th")
        shown.call("AskUserQuestion", questions_json=json.dumps([CHECKS]))
        await surfer.until(lambda: _is(surfer.page.locator("form.question"), 2))
        await surfer.page.keyboard.type("ought")
        assert await form.get_by_label("something else").last.input_value() == "half a thought"


async def test_a_call_is_approved_for_good_and_another_denied(shown: Dashboard) -> None:
    async with surfing(shown) as surfer:
        headers = {"X-API-Key": KEY, "Accept": "application/json, text/event-stream"}

        async def bash(command: str) -> str:
            params = {"name": "Bash", "arguments": {"command": command}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            async with shown.client.post(f"{shown.url}/mcp/shop", json=body, headers=headers) as answer:
                return await answer.text()

        denied = asyncio.create_task(bash("echo denied-$((1 + 1))"))
        form = await surfer.question()
        assert "May " in await form.inner_text() and "echo denied" in await form.inner_text()
        await form.get_by_role("button", name="Deny…").click()
        await form.get_by_label("Deny, because (may stay empty)").fill("not today")
        await form.get_by_role("button", name="Deny it").click()
        assert "not today" in await denied
        await surfer.answered()
        allowed = asyncio.create_task(bash("echo allowed-$((1 + 1))"))
        form = await surfer.question()
        await form.get_by_role("button", name="Allow once").click()
        assert "allowed-2" in await allowed
        await surfer.answered()
        always = asyncio.create_task(bash("echo always-$((1 + 1))"))
        form = await surfer.question()
        await form.get_by_role("button", name="Always for this peer").click()
        assert "always-2" in await always
        assert "always-3" in await bash("echo always-$((1 + 2))")


async def test_a_form_of_a_tool_is_filled_in_within_its_bounds(shown: Dashboard) -> None:
    async with surfing(shown) as surfer:
        call = shown.call("order")
        form = await surfer.question()
        size, note = form.get_by_label("your answer").nth(0), form.get_by_label("your answer").nth(1)
        await size.fill("12")
        await note.fill("no sugar")
        await form.get_by_role("button", name="Answer", exact=True).click()
        await form.get_by_text("At most 9").wait_for()
        assert await size.get_attribute("aria-invalid") == "true"
        await size.fill("3")
        await surfer.page.keyboard.press("Enter")
        outcome = await asyncio.wrap_future(call.outcome)
        assert "'size': 3, 'note': 'no sugar'" in outcome.result["content"][0]["text"]


async def test_a_form_is_closed_without_an_answer_and_a_link_is_agreed_to(shown: Dashboard) -> None:
    async with surfing(shown) as surfer:
        call = shown.call("order")
        form = await surfer.question()
        await form.get_by_role("button", name="Close without an answer").click()
        outcome = await asyncio.wrap_future(call.outcome)
        assert "cancel" in outcome.result["content"][0]["text"]
        call = shown.call("login")
        form = await surfer.question()
        link = form.get_by_role("link")
        assert await link.get_attribute("href") == "https://user@shop.example.org/in"
        assert await link.get_attribute("rel") == "noopener noreferrer"
        assert await link.locator("b").inner_text() == "shop.example.org"
        assert "the part before the @ is not the host" in await form.inner_text()
        await form.get_by_role("button", name="I agree").click()
        outcome = await asyncio.wrap_future(call.outcome)
        assert "accept" in outcome.result["content"][0]["text"]


async def test_the_output_of_a_job_is_followed_and_the_job_cancelled(shown: Dashboard) -> None:
    async with surfing(shown) as surfer:
        page = surfer.page
        await page.get_by_text("No jobs.").wait_for()
        gate = Path(shown.desk.view().servers[0].folder) / "gate"
        wait = f"while [ ! -e {gate} ]; do sleep 0.05; done"
        command = f"echo first; {wait}; printf '\\033[32msecond\\n'; sleep 60"
        await shown.called("BackgroundBash", command=command)
        line = page.locator("#job-list li")
        assert "running" in await line.inner_text()
        await line.locator(".show").click()
        await line.locator("pre", has_text="first").wait_for()
        gate.touch()
        await line.locator("pre", has_text="second").wait_for()
        assert await line.locator("pre").inner_text() == "first\nsecond\n"
        await line.locator(".stop").click()
        await page.get_by_role("button", name="No, leave it").click()
        assert not shown.desk.jobs()[0].state.is_final
        await line.locator(".stop").click()
        await page.get_by_role("button", name="Cancel the job").click()
        await surfer.toasts("The job is being ended.")
        await line.locator(".state.warn", has_text="killed").wait_for()
        assert shown.desk.jobs()[0].state.is_final
        assert not await line.locator(".stop").is_visible()


async def test_what_a_job_made_is_listed_with_its_size_and_downloaded(tmp_path: Path) -> None:
    odd = "a b?c&d#\u202egnp.txt"
    write(tmp_path, {"tools/draw.py": DRAW})
    async with dashboard(tmp_path) as shown, surfing(shown) as surfer:
        await shown.job("draw", names=["map.png", odd])
        await shown.job("draw", names=["alone.txt"])
        files = surfer.page.locator("#job-list .files")
        for number in (0, 1):
            await files.nth(number).locator("a").first.wait_for()
        lines = await files.nth(1).locator("li").all_inner_texts()
        assert lines == ["all 2 in one archive 25 B", "map.png 7 B", "a b?c&d#‹202e›gnp.txt 18 B"]
        assert await files.nth(0).locator("li").all_inner_texts() == ["alone.txt 9 B"]
        for number, content in enumerate([b"map.png", odd.encode()], 1):
            assert await downloaded(surfer, files.nth(1).locator("a").nth(number)) == content
        packed = await downloaded(surfer, files.nth(1).locator("a").first)
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            assert archive.namelist() == ["map.png", odd]


async def downloaded(surfer: Surfer, link: Any) -> bytes:
    async with surfer.page.expect_download() as begun:
        await link.click()
    return Path(await (await begun.value).path()).read_bytes()


async def test_a_callback_is_fired_before_its_time_and_cancelled(shown: Dashboard) -> None:
    async with surfing(shown) as surfer:
        await shown.called(
            "SetCallback", action="set", message="Look again", delay_seconds=900, repeat_count=3
        )
        line = surfer.page.locator("#callback-list li")
        await line.filter(has_text="Look again").wait_for()
        assert "in 14:" in await line.inner_text() or "in 15:" in await line.inner_text()
        await line.get_by_role("button", name="Fire now").click()
        await line.get_by_text("1 of 3 fired").wait_for()
        await line.get_by_role("button", name="Cancel").click()
        await line.get_by_text("cancelled").wait_for()


async def test_clients_are_shown_and_disconnected(shown: Dashboard) -> None:
    params: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}}
    params["clientInfo"] = {"name": "visitor", "version": "3"}
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    headers = {"X-API-Key": KEY, "Accept": "application/json, text/event-stream"}
    async with surfing(shown) as surfer:
        await shown.client.post(f"{shown.url}/mcp/shop", json=hello, headers=headers)
        line = surfer.page.locator("#client-list li", has_text="visitor 3")
        await line.wait_for()
        assert "2025-11-25 handshake" in await line.inner_text()
        await line.get_by_text("● seen").wait_for()
        await line.get_by_role("button", name="Disconnect").click()
        await surfer.page.get_by_role("dialog").get_by_role("button", name="Disconnect").click()
        await line.get_by_text("✕ left").wait_for()
        await line.get_by_role("button").wait_for(state="hidden")
        await shown.client.post(f"{shown.url}/mcp/shop", json=hello, headers=headers)
        await line.get_by_text("● seen").wait_for()
        await line.get_by_text("0 calls, 0 errors, 2 connections").wait_for()
        assert await line.count() == 1


async def test_calls_are_counted_by_tool_and_by_client_and_sorted_by_a_head(shown: Dashboard) -> None:
    async with surfing(shown) as surfer:
        for _ in range(3):
            await shown.called("echo", text="one")
        await shown.called("hush", word="two")
        place = surfer.page.locator("#statistics")
        rows = place.locator("tbody tr")
        await rows.filter(has_text="hush").get_by_text("1", exact=True).first.wait_for()
        assert (await rows.nth(0).inner_text()).startswith("all calls")
        assert (await rows.nth(1).inner_text()).split()[:4] == ["echo", "shop", "3", "0"]
        await place.get_by_role("button", name="name").click()
        names = [row.split()[0] for row in (await rows.all_inner_texts())[1:]]
        assert names == sorted(names, key=str.lower)
        await place.get_by_role("button", name="Clients").click()
        assert "echo" not in await place.inner_text()


async def busy(shown: Dashboard) -> None:
    """Something in every part of the page."""
    await shown.called("echo", text="one")
    await shown.called("BackgroundBash", command="echo begun; sleep 60; " + "x" * 90)
    await shown.called("SetCallback", action="set", message="Look " * 30, delay_seconds=900)
    await ask(shown, STORAGE, CHECKS, {"question": "W" * 90, "options": ["o" * 80, "p"]})


IS_WHOLE = "cell => cell.scrollWidth <= cell.clientWidth || getComputedStyle(cell).textOverflow == 'clip'"
"""Expression: no character of a time is replaced by dots; text after the seconds may be cut off."""


COLUMNS = """selector => [...document.querySelector(selector).children].filter(cell => cell.offsetParent)
    .map(cell => [cell.classList[0], Math.round(cell.getBoundingClientRect().x)])"""
"""Expression: names of the shown cells of a row, and their positions."""


async def test_heads_stand_over_their_columns_and_narrow_layouts_have_fewer(shown: Dashboard) -> None:
    await shown.called("echo", text="one")
    async with surfing(shown, width=1900) as surfer:
        page = surfer.page
        await page.locator("#traffic-list button").wait_for()
        shown_columns = {}
        for width in (1900, 1600, 1420, 870):
            await page.set_viewport_size({"width": width, "height": 740})
            heads = await page.evaluate(COLUMNS, "#traffic-heads")
            assert heads == await page.evaluate(COLUMNS, "#traffic-list .row")
            shown_columns[width] = " ".join(name for name, _ in heads)
        assert shown_columns == {
            1900: "time peer way what id status took size revision",
            1600: "time peer way what id status took size revision",
            1420: "time peer way what id status took size",
            870: "time peer way what status took",
        }
        await page.set_viewport_size({"width": 360, "height": 740})
        assert await page.evaluate(COLUMNS, "#traffic-heads") == []
        phone = {name for name, _ in await page.evaluate(COLUMNS, "#traffic-list .row")}
        assert phone == {"time", "peer", "way", "what", "status", "took", "size"}


async def test_a_large_size_has_the_colour_of_a_warning(shown: Dashboard) -> None:
    await shown.called("echo", text="x" * (2 << 20))
    await shown.called("echo", text="small")
    async with surfing(shown, width=1900) as surfer:
        large = surfer.page.locator("#traffic-list .size", has_text="▲")
        await large.wait_for()
        small = surfer.page.locator("#traffic-list .size").filter(has_not_text="▲").first
        colours = [await each.evaluate("cell => getComputedStyle(cell).color") for each in (large, small)]
        assert colours[0] != colours[1]


@pytest.mark.parametrize("width", [360, 768, 1200, 1280])
async def test_the_page_is_never_wider_than_its_window(shown: Dashboard, width: int) -> None:
    async with surfing(shown, width=width, height=740, has_touch=width < 800) as surfer:
        await busy(shown)
        await surfer.question()
        page = surfer.page
        await page.locator("#traffic-list button").first.wait_for()
        await page.get_by_text("What it offers").click()
        await page.get_by_text("Endpoints").click()
        await page.locator("#job-list .show").click()
        await page.locator("pre", has_text="begun").wait_for()
        assert await surfer.overflow() <= 0
        assert await page.locator("#traffic-list .time").first.evaluate(IS_WHOLE)
        await page.locator("#traffic-list button", has_text="echo").first.click()
        await page.get_by_role("heading", name="Response").wait_for()
        assert await surfer.overflow() <= 0
        assert await page.evaluate("document.querySelector('#exchange').scrollWidth <= innerWidth")
        for button in await page.get_by_role("dialog").get_by_role("button").all():
            box = await button.bounding_box()
            assert box is not None and box["height"] >= 24 and box["width"] >= 24


async def test_a_picture_of_the_whole_page_has_the_lines_of_the_traffic(shown: Dashboard) -> None:
    for number in range(9):
        await shown.called("echo", text=str(number))
    async with surfing(shown, width=360, height=600) as surfer:
        page = surfer.page
        await page.locator("#traffic-list button").nth(8).wait_for()
        for row in range(3):
            box = await page.locator("#traffic-list button").nth(row).bounding_box()
            assert box is not None and box["y"] > 600 - box["height"]
            shot = await page.screenshot(full_page=True, clip=box)
            await page.locator("#traffic-list li").nth(row).evaluate("row => { row.style.opacity = 0 }")
            assert shot != await page.screenshot(full_page=True, clip=box)


@pytest.mark.parametrize("scheme", ["dark", "light"])
async def test_every_text_can_be_read_in_the_dark_and_in_the_light(shown: Dashboard, scheme: Any) -> None:
    async with surfing(shown, color_scheme=scheme) as surfer:
        await busy(shown)
        await surfer.question()
        await shown.called("hush", word="x")
        await surfer.page.locator("#traffic-list button").filter(has_text="hush").wait_for()
        await surfer.page.get_by_text("What it offers").click()
        await surfer.page.get_by_text("Endpoints").click()
        ground = await surfer.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (sum(map(int, ground[4:-1].split(","))) < 300) is (scheme == "dark")
        assert await surfer.page.evaluate(CONTRAST) == []
        await surfer.page.locator("#traffic-list button", has_text="echo").first.click()
        await surfer.page.get_by_role("heading", name="Response").wait_for()
        assert await surfer.page.evaluate(CONTRAST) == []


async def test_who_cannot_see_the_page_is_told_what_is_there(shown: Dashboard) -> None:
    async with surfing(shown) as surfer:
        page = surfer.page
        await busy(shown)
        await surfer.question()
        await page.locator("#traffic-list button").first.wait_for()
        for role in ("banner", "navigation", "main", "search"):
            assert await page.get_by_role(role).count() == 1, role
        for name in ("Questions", "Servers", "Clients", "Traffic", "Jobs", "Callbacks"):
            assert await page.get_by_role("region", name=name).count() == 1, name
        assert await page.locator("h1").count() == 1
        assert await page.evaluate(NAMELESS) == []
        assert await page.evaluate("[...document.querySelectorAll('*')].every(one => one.tabIndex <= 0)")
        assert "asks: Which database?" in await surfer.text("#said")
        assert await page.locator("#said").get_attribute("aria-live") == "polite"
        await page.reload()
        await surfer.is_live()
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.textContent") == "Skip to the content"
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.id") == "main"


async def test_messages_are_walked_with_keys(shown: Dashboard) -> None:
    for number in range(5):
        await shown.called("echo", text=str(number))
    async with surfing(shown) as surfer:
        page = surfer.page
        await surfer.until(lambda: _is(page.locator("#traffic-list button"), 5))
        assert await page.locator('#traffic-list button[tabindex="0"]').count() == 1
        await page.locator('#traffic-list button[tabindex="0"]').focus()
        seen = []
        for key in ("ArrowDown", "ArrowDown", "End", "ArrowUp", "Home"):
            await page.keyboard.press(key)
            seen.append(await page.evaluate("document.activeElement.dataset.n"))
        assert seen == ["3", "2", "0", "1", "4"]
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name="tools/call echo").wait_for()
        await page.keyboard.press("Escape")
        assert await page.evaluate("document.activeElement.dataset.n") == "4"


async def test_who_walks_along_the_messages_keeps_them_in_sight(shown: Dashboard) -> None:
    await shown.called("echo", text="one")
    async with surfing(shown) as surfer:
        page, rows = surfer.page, surfer.page.locator("#traffic-list button")
        await surfer.until(lambda: _is(rows, 1))
        await rows.first.focus()
        await shown.called("echo", text="two")
        await page.get_by_role("button", name="1 newer").wait_for()
        assert await rows.count() == 1
        await page.get_by_label("Filter the traffic").focus()
        await surfer.until(lambda: _is(rows, 2))


async def test_nothing_moves_for_who_wants_it_so(shown: Dashboard) -> None:
    async with surfing(shown, reduced_motion="reduce") as surfer:
        await shown.called("echo", text="one")
        await surfer.page.locator("#traffic-list button", has_text="echo").first.click()
        await surfer.page.get_by_role("heading", name="Response").wait_for()
        assert await surfer.page.evaluate("document.getAnimations().length") == 0
    async with surfing(shown) as surfer:
        assert await surfer.page.evaluate("document.getAnimations().length") > 0


async def test_strangers_text_is_shown_and_never_becomes_markup(shown: Dashboard) -> None:
    params: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}}
    params["clientInfo"] = {"name": HOSTILE, "version": "<b>1</b>"}
    hello = {"jsonrpc": "2.0", "id": HOSTILE, "method": "initialize", "params": params}
    headers = {"X-API-Key": KEY, "Accept": "application/json, text/event-stream"}
    async with surfing(shown) as surfer:
        page = surfer.page
        await shown.client.post(f"{shown.url}/mcp/shop", json=hello, headers=headers)
        bad = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": HOSTILE, "arguments": {}},
        }
        await shown.client.post(f"{shown.url}/mcp/shop", json=bad, headers=headers)
        command = f"printf '<b>bold</b>'; sleep 60; : {json.dumps(HOSTILE)}"
        await shown.called("BackgroundBash", command=command)
        await shown.called("SetCallback", action="set", message=HOSTILE, delay_seconds=900)
        option = {"label": HOSTILE[:60], "description": HOSTILE}
        await ask(shown, {"question": HOSTILE, "header": "<i>", "options": [option, "b"]})
        await surfer.question()
        await page.locator("#client-list li", has_text="onerror").wait_for()
        await page.locator("#job-list .show").click()
        await page.locator("pre", has_text="<b>bold</b>").wait_for()
        await page.locator("#traffic-list button", has_text="onerror").first.click()
        await page.get_by_role("heading", name="Response").wait_for()
        assert await page.locator("img, script:not([src]), i, u").count() == 0
        assert await page.locator("b", has_text="bold").count() == 0
        text = await page.evaluate("document.body.innerText")
        assert "‹202e›" in text and "␛" in text
        assert "\u202e" not in text and "\x1b" not in text


async def test_a_lost_core_is_said_and_found_again(shown: Dashboard) -> None:
    async with surfing(shown) as surfer:
        page = surfer.page
        await page.context.set_offline(True)
        await page.evaluate("dispatchEvent(new Event('pagehide'))")
        await page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
        await surfer.until(lambda: _says(surfer, "#live", "not connected"))
        await page.context.set_offline(False)
        await surfer.is_live()


async def test_the_page_stays_small_however_much_passes(shown: Dashboard) -> None:
    async with surfing(shown) as surfer:
        for number in range(700):
            await shown.called("echo", text=str(number))
        page, rows = surfer.page, surfer.page.locator("#traffic-list button")
        await surfer.until(lambda: _says(surfer, "#traffic-counts", "700 exchanges"))
        assert await rows.count() == 200
        assert await rows.first.get_attribute("data-n") == "699"
        assert await page.evaluate("document.querySelectorAll('*').length") < 3000
