"""Routes of the dashboard: permissions, refusals, and the events of a page. Without a browser."""

from __future__ import annotations

import asyncio
import io
import re
import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson
import pytest

from mcpdesk.features.dashboard.browsers import SignOutBrowsers
from mcpdesk.features.dashboard.dashboard_data import PATH
from mcpdesk.features.dashboard.dashboard_routes import MEDIA_TYPES
from mcpdesk.features.dashboard.entry import DashboardEntry
from mcpdesk.features.dashboard.page_updates import MAX_PAGES
from tests.support.callers import checking, good_headers
from tests.support.dashboard import AS_OPERATOR, DRAW, KEY, OPERATOR_KEY, Dashboard, Events, dashboard
from tests.support.folders import write
from tests.support.patience import until, within
from tests.support.site import serving

CONFIG = "/dashboard/config?server=shop&client=curl"
PRIVATE = ("events", "exchange?number=0", "older?before=0", "config?server=shop&client=curl")
ACTS = ("answer", "decline", "dismiss", "cancel-job", "fire-callback", "cancel-callback", "disconnect")
TWO_QUESTIONS = (
    '[{"question": "Which?", "options": ["a", "b"]}, {"question": "More?", "options": ["c", "d"]}]'
)

MARKUP = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[Dashboard]:
    async with dashboard(tmp_path) as running:
        yield running


@pytest.fixture
async def drawing(tmp_path: Path) -> AsyncIterator[Dashboard]:
    """One with a tool that makes files."""
    write(tmp_path, {"tools/draw.py": DRAW})
    async with dashboard(tmp_path) as running:
        yield running


async def watch(shown: Dashboard, page: Events, filter: str = "", job: str = "") -> tuple[int, Any]:
    """Status and JSON of a page's request to watch other data."""
    return await shown.told("watch", {"page": page.page, "filter": filter, "job": job}, **AS_OPERATOR)


def has_row(name: str) -> Callable[[Any], bool]:
    """Whether news of the traffic have a line of this name."""
    return lambda told: any(row["name"] == name for row in told["rows"])


@pytest.mark.slow
async def test_browsers_get_the_page_and_programs_text(shown: Dashboard) -> None:
    page = await shown.get("/", Accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert page.status == 200 and page.content_type == "text/html"
    assert "<main" in await page.text()
    for accept in ("*/*", "text/plain", ""):
        text = await shown.get("/", Accept=accept)
        assert text.content_type == "text/plain" and "/mcp/shop" in await text.text()
    assert (await shown.get("/dashboard", Accept="*/*")).content_type == "text/html"


async def test_the_page_may_load_nothing_from_elsewhere_and_nothing_inline(shown: Dashboard) -> None:
    page = await shown.get("/", Accept="text/html")
    policy = dict(part.split(" ", 1) for part in page.headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert "unsafe" not in page.headers["Content-Security-Policy"]
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert page.headers["X-Frame-Options"] == "DENY"


async def test_every_file_of_the_page_is_served_and_known_again(shown: Dashboard) -> None:
    for place in files("mcpdesk.features.dashboard").joinpath("page").iterdir():
        answer = await shown.get(f"/dashboard/{place.name}")
        assert answer.headers["Content-Type"] == MEDIA_TYPES[place.name.rpartition(".")[2]]
        assert await answer.read() == place.read_bytes()
        again = await shown.get(f"/dashboard/{place.name}", If_None_Match=answer.headers["ETag"])
        assert again.status == 304 and await again.read() == b""


async def test_the_page_has_the_words_of_states_of_the_terminal(shown: Dashboard) -> None:
    answer = await shown.get("/dashboard/states.js")
    assert answer.headers["Content-Type"] == MEDIA_TYPES["js"]
    start, equals, looks = (await answer.text()).partition(" = ")
    assert (start, equals) == ("export const LOOKS", " = ")
    assert orjson.loads(looks.rstrip(";\n"))["exchanges"]["tool-error"] == ["✗", "bad", "tool error"]


@pytest.mark.parametrize(
    "name", ["../base.py", "..%2f..%2fversion.py", "nothing.js", "web/app.js", "app.js/"]
)
async def test_nothing_but_the_pages_files_is_served(shown: Dashboard, name: str) -> None:
    assert (await shown.get(f"/dashboard/{name}")).status == 404
    assert (await shown.get("/dashboardapp.js", **AS_OPERATOR)).status == 404


def test_the_pages_files_name_no_other_place_and_make_no_markup_of_text() -> None:
    for place in files("mcpdesk.features.dashboard").joinpath("page").iterdir():
        text = place.read_text()
        urls = set(re.findall(r"(?:https?:)?//[a-z0-9][a-z0-9.-]+\.[a-z]+[^\s\"')]*", text))
        assert urls <= {"http://www.w3.org/2000/svg"}, place.name
        assert not re.search(MARKUP, text), place.name
        if place.name.endswith(".html"):
            assert not re.search(r"\sstyle=|\son\w+=|<style|<script(?![^>]*\ssrc=)", text)


@pytest.mark.parametrize("key", [KEY, ""])
async def test_everything_but_the_page_needs_the_operator_with_and_without_a_callers_key(
    tmp_path: Path, key: str
) -> None:
    async with dashboard(tmp_path, key=key) as shown:
        for carried in ({}, {"X_API_Key": KEY}, {"X_Operator_Key": KEY}, {"X_Operator_Key": ""}):
            for path in (*PRIVATE, "jobs/x/download"):
                answer = await shown.get(f"/dashboard/{path}", **carried)
                assert answer.status == 401 and "operator" in await answer.text(), path
            for name in (*ACTS, "watch", "download"):
                assert (await shown.post(name, **carried)).status == 401
            session = await (await shown.get("/dashboard/session", **carried)).json()
            assert session == {"signed_in": False}
        assert shown.desk.host.inbox.audience == 0
        for place in files("mcpdesk.features.dashboard").joinpath("page").iterdir():
            text = await (await shown.get(f"/dashboard/{place.name}")).text()
            assert KEY not in text and OPERATOR_KEY not in text


async def test_a_callers_token_does_not_open_it(tmp_path: Path) -> None:
    async with dashboard(tmp_path, key="") as shown:
        (endpoint,) = shown.desk.host.by_name.values()
        endpoint.server.access = checking()
        header, text = next(iter(good_headers().items()))
        assert (await shown.get(CONFIG, **{header: text})).status == 401
        assert (await shown.get(CONFIG, **AS_OPERATOR)).status == 200


async def test_a_call_that_needs_approval_is_refused_until_the_operator_is_there(tmp_path: Path) -> None:
    async with dashboard(tmp_path, key="") as shown:

        async def bash() -> str:
            params = {"name": "Bash", "arguments": {"command": "echo ran"}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            headers = {"Accept": "application/json"}
            async with shown.client.post(f"{shown.url}/mcp/shop", json=body, headers=headers) as answer:
                return await answer.text()

        stream = await shown.get("/dashboard/events", Origin=shown.url)  # as a caller that looks
        assert stream.status == 401
        refused = await bash()
        assert '"isError":true' in refused and "ran" not in refused
        page = await shown.sign_in()
        async with shown.events(**page) as events:
            call = asyncio.create_task(bash())
            (asked,) = (await events.event("questions", lambda told: told["waiting"]))["waiting"]
            given = {
                "question": asked["id"],
                "answers": [{"selected": [asked["pages"][0]["options"][0]["label"]]}],
            }
            assert (await shown.post("answer", given)).status == 401
            assert (await shown.post("answer", given, Cookie=page["Cookie"])).status == 401
            assert (await shown.post("answer", given, X_Mcpdesk_Page=page["X_Mcpdesk_Page"])).status == 401
            assert not call.done()
            assert await shown.told("answer", given, **page) == (200, {"done": True})
            assert "ran" in await call
        await until(lambda: not shown.desk.host.inbox.audience)
        assert '"isError":true' in await bash()


async def test_a_sign_in_is_a_cookie_and_a_page_key_and_neither_counts_alone(shown: Dashboard) -> None:
    answer = await shown.post("sign-in", {"word": OPERATOR_KEY})
    said, key = answer.headers["Set-Cookie"], (await answer.json())["page_key"]
    assert "HttpOnly" in said and "SameSite=Strict" in said and f"Path={PATH};" in f"{said};"
    assert OPERATOR_KEY not in said and key not in said and "Secure" not in said and "Max-Age=86" in said
    encrypted = await shown.post(
        "sign-in", {"word": OPERATOR_KEY}, Origin=shown.url.replace("http:", "https:")
    )
    assert "Secure" in encrypted.headers["Set-Cookie"]
    cookie = said.partition(";")[0]
    assert cookie.startswith(f"mcpdesk-dashboard-{shown.url.rpartition(':')[2]}=")
    assert (await shown.get(CONFIG, Cookie=cookie, X_Mcpdesk_Page=key)).status == 200
    session = await (await shown.get("/dashboard/session", Cookie=cookie, X_Mcpdesk_Page=key)).json()
    assert session == {"signed_in": True}
    other = await shown.sign_in()
    name = cookie.partition("=")[0]
    for carried in (
        {"Cookie": cookie},
        {"X_Mcpdesk_Page": key},
        {"Cookie": cookie, "X_Mcpdesk_Page": other["X_Mcpdesk_Page"]},
        {"Cookie": f"{name}={OPERATOR_KEY}", "X_Mcpdesk_Page": OPERATOR_KEY},
        {"Cookie": f"{name}=", "X_Mcpdesk_Page": key},
        {"Cookie": f"mcpdesk-dashboard={cookie.partition('=')[2]}", "X_Mcpdesk_Page": key},
    ):
        assert (await shown.get(CONFIG, **carried)).status == 401, carried
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with shown.client.post(f"{shown.url}/mcp/shop", json=ping, headers={"Cookie": cookie}) as mcp:
        assert mcp.status == 403


async def test_only_the_operators_key_and_a_fresh_link_sign_in(shown: Dashboard) -> None:
    for word in ("", "wrong", KEY, 7, None, [OPERATOR_KEY], OPERATOR_KEY + "x"):
        answer = await shown.post("sign-in", {"word": word})
        assert answer.status == 401 and "Set-Cookie" not in answer.headers
    for body in (b"[]", b"7"):
        assert (await shown.post("sign-in", body)).status == 401
    assert (await shown.post("sign-in", {"word": OPERATOR_KEY}, Content_Type="text/plain")).status == 415
    assert (await shown.post("sign-in", {"word": "x" * 20_000})).status == 413
    word = shown.desk.host.operator.new_link_code()
    page = await shown.sign_in(word)
    assert (await shown.get(CONFIG, **page)).status == 200
    assert (await shown.post("sign-in", {"word": word})).status == 401


async def _ended(events: Events) -> None:
    async with within():
        while await events.next() is not None:
            pass


async def test_signing_out_ends_a_session_and_its_open_pages(shown: Dashboard) -> None:
    page, other = await shown.sign_in(), await shown.sign_in()
    async with shown.events(**page) as events:
        assert (await shown.post("sign-out", Cookie=page["Cookie"])).status == 204  # without the page key
        assert (await shown.get(CONFIG, **page)).status == 200
        answer = await shown.post("sign-out", **page)
        assert answer.status == 204 and "Max-Age=0" in answer.headers["Set-Cookie"]
        await _ended(events)
    assert (await shown.get(CONFIG, **page)).status == 401
    assert (await shown.get(CONFIG, **other)).status == 200


async def test_sessions_revoked_at_the_desk_end_with_their_pages(shown: Dashboard) -> None:
    page = await shown.sign_in()
    link = shown.desk.host.operator.new_link_code()
    async with shown.events(**page) as events:
        assert await asyncio.wrap_future(shown.desk.do(SignOutBrowsers())) == 1
        await _ended(events)
    assert (await shown.get(CONFIG, **page)).status == 401
    assert (await shown.post("sign-in", {"word": link})).status == 401


ORIGINS = ["", "null", "http://evil.example", "http://localhost:1", "http://127.0.0.1:1", "https://127.0.0.1"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("origin", ORIGINS)
async def test_only_the_pages_own_origin_changes_anything(shown: Dashboard, origin: str) -> None:
    page = await shown.sign_in()
    for name in (*ACTS, "watch", "download", "sign-in", "sign-out"):
        for carried in (page, AS_OPERATOR):
            assert (await shown.post(name, Origin=origin, **carried)).status == 403, name


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_other_pages_are_shown_nothing(shown: Dashboard, site: str) -> None:
    page = await shown.sign_in()
    for path in PRIVATE:
        assert (await shown.get(f"/dashboard/{path}", Sec_Fetch_Site=site, **page)).status == 403


async def test_methods_and_places_there_are_not_are_told(shown: Dashboard) -> None:
    assert (await shown.get("/dashboard/answer", **AS_OPERATOR)).status == 404
    assert (await shown.post("nothing", **AS_OPERATOR)).status == 404
    async with shown.client.put(f"{shown.url}/dashboard/events") as answer:
        assert answer.status == 405 and answer.headers["Allow"] == "GET"
    async with shown.client.head(f"{shown.url}/", headers={"Accept": "text/html"}) as answer:
        assert answer.status == 200 and answer.content_type == "text/html"


def _is_of(job: str, told: Any) -> bool:
    return bool(told["job"] == job)


async def test_bad_bodies_are_refused_by_name(shown: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpdesk.features.dashboard.dashboard_routes.MAX_BODY_BYTES", 1000)
    plain = await shown.post("answer", Content_Type="text/plain", **AS_OPERATOR)
    assert plain.status == 415
    assert (await shown.post("answer", b"{", **AS_OPERATOR)).status == 400
    assert (await shown.post("answer", b" " * 1001, **AS_OPERATOR)).status == 413
    wrong: list[Any] = [[], {}, {"question": "1", "answers": []}, {"question": 1}]
    for given in (*wrong, {"question": 1, "answers": 3}):
        status, told = await shown.told("answer", given, **AS_OPERATOR)
        assert status == 400 and told["error"].startswith("answer: "), given
    wrong = [[], {"page": 1}, {"page": "x", "filter": {}}]
    for given in wrong:
        assert (await shown.told("watch", given, **AS_OPERATOR))[0] == 400
    assert (await shown.told("watch", {"page": "x", "filter": "", "job": ""}, **AS_OPERATOR))[0] == 404
    for number in ("", "-1", "x", "9" * 30):
        assert (await shown.get(f"/dashboard/exchange?number={number}", **AS_OPERATOR)).status == 400
    assert (await shown.get("/dashboard/exchange?number=999", **AS_OPERATOR)).status == 404
    assert (await shown.get("/dashboard/config?server=none&client=curl", **AS_OPERATOR)).status == 404
    assert (await shown.get("/dashboard/config?server=shop&client=none", **AS_OPERATOR)).status == 404


async def test_a_page_is_told_everything_once_and_then_what_changes(shown: Dashboard) -> None:
    async with shown.events(**AS_OPERATOR) as events:
        traffic = await events.event("traffic")
        assert traffic["all"] and traffic["filter"] == ""
        assert {name for name, _ in events.seen} == {
            "hello", "core", "clients", "questions", "jobs", "callbacks", "logs", "statistics", "rate",
            "traffic",
        }  # fmt: skip
        (server,) = events.last("core")["servers"]
        assert server["name"] == "shop" and server["counts"]["tool"] == 8
        await shown.called("echo", text="hello")
        news = await events.event("traffic", has_row("echo"))
        assert "all" not in news
        row = next(row for row in news["rows"] if row["name"] == "echo")
        assert row["n"] in news["lines"] and row["peer"] == "desk"
        before = len(events.seen)
        await events.event("rate")
        assert {name for name, _ in events.seen[before:]} <= {"rate", "traffic", "clients"}


async def test_each_page_sees_the_traffic_through_its_own_filter(shown: Dashboard) -> None:
    for text in ("apple", "pear", "apple"):
        await shown.called("echo", text=text)
    async with shown.events(**AS_OPERATOR) as first, shown.events(**AS_OPERATOR) as second:
        for wrong, words in (("status:what", "what"), ("a" * 2001, "2000 characters")):
            status, told = await watch(shown, first, wrong)
            assert status == 422 and words in told["error"]
        assert (await watch(shown, first, "apple"))[0] == 200
        seen = await first.event("traffic", lambda told: told["filter"] == "apple" and told["done"] == 1)
        assert seen["all"] and seen["shown"] == len(seen["lines"]) == 2 < seen["total"]
        everything = await second.event("traffic", lambda told: told["shown"] == told["total"] > 2)
        assert everything["filter"] == ""
        older = await shown.get(f"/dashboard/older?filter=apple&before={seen['lines'][0]}", **AS_OPERATOR)
        assert [row["n"] for row in (await older.json())["rows"]] == [seen["lines"][1]]
        assert (await shown.get("/dashboard/older?filter=other&before=1", **AS_OPERATOR)).status == 404


async def test_open_pages_are_an_audience_and_closed_ones_are_not(shown: Dashboard) -> None:
    inbox = shown.desk.host.inbox
    assert (await shown.called("AskUserQuestion", questions_json=TWO_QUESTIONS))["isError"]
    async with shown.events(**AS_OPERATOR), shown.events(**AS_OPERATOR):
        await until(lambda: inbox.audience == 2)
    await until(lambda: inbox.audience == 0)


async def test_a_question_is_answered_and_the_first_answer_wins(shown: Dashboard) -> None:
    async with shown.events(**AS_OPERATOR) as events:
        call = shown.call("AskUserQuestion", questions_json=TWO_QUESTIONS)
        asked = (await events.event("questions", lambda told: told["waiting"]))["waiting"][0]
        assert [page["question"] for page in asked["pages"]] == ["Which?", "More?"]
        number, good = asked["id"], [{"selected": ["b"]}, {"selected": [], "other": "neither"}]
        status, told = await shown.told("answer", {"question": number, "answers": good[:1]}, **AS_OPERATOR)
        assert status == 422 and "2 answers" in told["error"]
        bad = [{"selected": ["z"]}, {}]
        status, told = await shown.told("answer", {"question": number, "answers": bad}, **AS_OPERATOR)
        assert status == 422
        assert "is not an option" in told["problems"][0] and "at least one" in told["problems"][1]
        status, told = await shown.told("dismiss", {"question": number}, **AS_OPERATOR)
        assert status == 409
        assert await shown.told("answer", {"question": number, "answers": good}, **AS_OPERATOR) == (
            200,
            {"done": True},
        )
        outcome = await asyncio.wrap_future(call.outcome)
        assert outcome.result["structuredContent"]["answers"][1]["other"] == "neither"
        for late, given in (("answer", {"answers": good}), ("decline", {})):
            status, told = await shown.told(late, {"question": number, **given}, **AS_OPERATOR)
            assert status == 409 and "already answered by dashboard" in told["error"]
        ended = await events.event("questions", lambda told: told["ended"])
        assert ended["ended"][0]["by"] == "dashboard" and ended["waiting"] == []
        assert (await shown.told("decline", {"question": 999}, **AS_OPERATOR))[0] == 404


async def test_a_question_answered_at_the_desk_is_over_here(shown: Dashboard) -> None:
    async with shown.events(**AS_OPERATOR) as events:
        shown.call("AskUserQuestion", questions_json=TWO_QUESTIONS)
        number = await shown.question()
        await asyncio.wrap_future(shown.desk.decline(number, "not now"))
        ended = await events.event("questions", lambda told: told["ended"])
        assert ended["ended"][0]["word"] == "declined" and ended["ended"][0]["reason"] == "not now"
        status, told = await shown.told("answer", {"question": number, "answers": [{}, {}]}, **AS_OPERATOR)
        assert (status, told["error"]) == (409, "the question was already declined by desk")


async def test_a_form_of_a_tool_is_dismissed(shown: Dashboard) -> None:
    async with shown.events(**AS_OPERATOR) as events:
        call = shown.call("order")
        asked = (await events.event("questions", lambda told: told["waiting"]))["waiting"][0]
        assert asked["may_cancel"] and asked["pages"][0]["rules"]["maximum"] == 9
        assert (await shown.told("dismiss", {"question": asked["id"]}, **AS_OPERATOR))[0] == 200
        outcome = await asyncio.wrap_future(call.outcome)
        assert "cancel" in outcome.result["content"][0]["text"]


async def test_jobs_are_followed_and_cancelled(shown: Dashboard) -> None:
    async with shown.events(**AS_OPERATOR) as events:
        await shown.called("BackgroundBash", command="echo begun; sleep 60")
        job = (await events.event("jobs", lambda told: told["running"]))["jobs"][0]
        await watch(shown, events, job=job["id"])
        output = await events.event("output", lambda told: "begun" in told["text"])
        assert output["job"] == job["id"] and not output["last"]
        assert (await shown.told("cancel-job", {"job": job["id"]}, **AS_OPERATOR))[0] == 200
        ended = await events.event("jobs", lambda told: told["jobs"][0]["over"])
        assert ended["running"] == 0 and ended["jobs"][0]["state"] in ("killed", "failed")
        assert (await shown.told("cancel-job", {"job": job["id"]}, **AS_OPERATOR))[0] == 409
        assert (await shown.told("cancel-job", {"job": "shop:99"}, **AS_OPERATOR))[0] == 404
        for nothing in ("shop:99", "shop:\u00b2", "shop:" + "9" * 5000):
            await watch(shown, events, job=nothing)
            assert (await events.event("output", partial(_is_of, nothing)))["none"]


async def test_calls_that_became_jobs_are_there_with_what_they_are_at(shown: Dashboard) -> None:
    async with shown.events(**AS_OPERATOR) as events:
        job = await shown.job("echo", text="x")
        told = await events.event("jobs", lambda told: told["jobs"] and told["jobs"][0]["over"])
        assert (told["jobs"][0]["id"], told["jobs"][0]["kind"]) == (job, "call")
        assert told["jobs"][0]["state"] == "succeeded" and told["jobs"][0]["has_output"]
        await watch(shown, events, job=job)
        assert (await events.event("output"))["last"]


async def ticket(shown: Dashboard, job: str) -> tuple[str, dict[str, str]]:
    """URL of a job's files as the page makes it, and the headers of a browser that opens it."""
    page = await shown.sign_in()
    told = await shown.told("download", {"job": job}, **page)
    return f"/dashboard/jobs/{job}/download?ticket={told[1]['ticket']}", {"Cookie": page["Cookie"]}


async def test_what_a_job_made_is_downloaded_by_a_link_of_the_page(drawing: Dashboard) -> None:
    job = await drawing.job("draw", names=["map.png", "log.txt"])
    place, signed_in = await ticket(drawing, job)
    async with drawing.events(**AS_OPERATOR) as events:
        told = (await events.event("jobs", lambda told: told["jobs"]))["jobs"][0]
    assert told["made"] == [{"name": "map.png", "size": 7}, {"name": "log.txt", "size": 7}]
    answer = await drawing.get(f"{place}&file=log.txt", **signed_in)
    assert (answer.status, await answer.text()) == (200, "log.txt")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="log.txt"'
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    part = await drawing.get(f"{place}&file=log.txt", Range="bytes=4-6", **signed_in)
    assert (part.status, await part.text()) == (206, "txt")
    with zipfile.ZipFile(io.BytesIO(await (await drawing.get(place, **signed_in)).read())) as archive:
        assert archive.namelist() == ["map.png", "log.txt"] and archive.read("map.png") == b"map.png"
    head = await drawing.client.head(drawing.url + place + "&file=map.png", headers=signed_in)
    assert (head.status, head.content_length) == (200, 7)
    (Path(drawing.desk.view().servers[0].folder) / "log.txt").write_text("changed since")
    assert (await drawing.get(f"{place}&file=log.txt", **signed_in)).status == 410
    missing = await drawing.get(f"{place}&file=mcp.json", **signed_in)
    assert missing.status == 404 and missing.headers["Cache-Control"] == "no-store"


async def test_what_a_job_made_is_for_the_operator(drawing: Dashboard) -> None:
    job, another = await drawing.job("draw", names=["map.png"]), await drawing.job("draw", names=["b"])
    (linked, cookie), plain = await ticket(drawing, job), f"/dashboard/jobs/{job}/download"
    assert (await drawing.get(plain)).status == 401
    assert (await drawing.get(plain, X_API_Key=KEY)).status == 401
    assert (await drawing.get(plain, **cookie)).status == 401
    assert (await drawing.get(linked)).status == 401
    assert (await drawing.get(linked.replace(job, another), **cookie)).status == 401
    assert (await drawing.get(linked, Cookie=(await drawing.sign_in())["Cookie"])).status == 401
    for site in ("cross-site", "same-site"):
        assert (await drawing.get(linked, Sec_Fetch_Site=site, **cookie)).status == 403
    assert (await drawing.get(linked, Origin="https://evil.example", **cookie)).status == 403
    assert (await drawing.get(linked, Sec_Fetch_Site="same-origin", **cookie)).status == 200
    assert (await drawing.get(plain, **AS_OPERATOR)).status == 200
    assert (await drawing.client.delete(drawing.url + plain, headers=cookie)).status == 405
    for other in ("x", "shop:1", "..", "x" * 64, "x" * 65):
        assert (await drawing.get(f"/dashboard/jobs/{other}/download", **AS_OPERATOR)).status == 404
    assert (await drawing.get(plain.replace("/download", "/manifest"), **AS_OPERATOR)).status == 404
    assert (await drawing.told("download", {"job": 7}, **AS_OPERATOR))[0] == 400


async def test_callbacks_fire_and_are_cancelled(shown: Dashboard) -> None:
    async with shown.events(**AS_OPERATOR) as events:
        await shown.called("SetCallback", action="set", message="Look", delay_seconds=900, repeat_count=2)
        callback = (await events.event("callbacks", lambda told: told["callbacks"]))["callbacks"][0]
        named = {"server": "shop", "callback": callback["id"]}
        assert (await shown.told("fire-callback", named, **AS_OPERATOR))[0] == 200
        await events.event("callbacks", lambda told: told["callbacks"][0]["fired"] == 1)
        assert (await shown.told("cancel-callback", named, **AS_OPERATOR))[0] == 200
        await events.event("callbacks", lambda told: told["callbacks"][0]["cancelled"])
        assert (await shown.told("cancel-callback", named, **AS_OPERATOR))[0] == 409
        gone = {"server": "none", "callback": 1}
        assert (await shown.told("cancel-callback", gone, **AS_OPERATOR))[0] == 404


def names(told: dict[str, Any]) -> set[str]:
    """Names of all connected clients."""
    return {one["name"] for one in told["clients"]}


async def test_a_client_is_disconnected(shown: Dashboard) -> None:
    params: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}}
    params["clientInfo"] = {"name": "visitor", "version": "3"}
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    async with shown.events(**AS_OPERATOR) as events:
        headers = {"X-API-Key": KEY, "Accept": "application/json, text/event-stream"}
        await shown.client.post(f"{shown.url}/mcp/shop", json=hello, headers=headers)
        seen = await events.event(
            "clients", lambda told: any(one["name"] == "visitor 3" for one in told["clients"])
        )
        number = next(one["connection"] for one in seen["clients"] if one["name"] == "visitor 3")
        assert (await shown.told("disconnect", {"connection": number}, **AS_OPERATOR))[0] == 200
        told = await events.event("clients", lambda told: any(one["left"] for one in told["clients"]))
        assert [one["name"] for one in told["clients"] if one["left"]] == ["visitor 3"]
        assert [one["connections"] for one in told["clients"] if one["left"]] == [1]
        assert told["count"] == 0
        assert (await shown.told("disconnect", {"connection": number}, **AS_OPERATOR))[0] == 404


async def test_what_is_copied_for_a_client_holds_no_key(shown: Dashboard) -> None:
    for client in ("curl", "claude-code", "claude-desktop", "cursor", "vscode"):
        answer = await shown.get(f"/dashboard/config?server=shop&client={client}", **AS_OPERATOR)
        text = (await answer.json())["text"]
        assert "shop" in text and KEY not in text
        assert answer.headers["Cache-Control"] == "no-store"


async def test_an_exchange_is_shown_with_its_secrets_masked(shown: Dashboard) -> None:
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}
    body["params"] = {"name": "hush", "arguments": {"word": "open-sesame"}}
    async with shown.client.post(f"{shown.url}/mcp/shop", json=body, headers={"X-API-Key": KEY}) as mcp:
        assert mcp.status == 200
    async with shown.events(**AS_OPERATOR) as events:
        told = await events.event("traffic", has_row("hush"))
        number = next(row["n"] for row in told["rows"] if row["name"] == "hush")
        text = await (await shown.get(f"/dashboard/exchange?number={number}", **AS_OPERATOR)).text()
        assert "open-sesame" not in text and KEY not in text
        assert "tools/call" in text and "X-API-Key" in text and "taken" in text


ODD = [
    b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % (b"9" * 40),
    b'{"jsonrpc":"2.0","id":12345678901234567890,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\\udfffx"}}',
    b'{"jsonrpc":"2.0","id":2,"method":"ping","params":{"x":%b}}' % (b"1" * 400),
    b"\xff\xfe{",
]


async def test_what_no_json_can_say_keeps_nothing_from_being_shown(shown: Dashboard) -> None:
    place = shown.url.removeprefix("http://")
    odd = b"User-Agent: x\xff\xed\xa0\x80\r\nX-Odd: \xf0\xff\r\n"
    head = b"POST /mcp/shop HTTP/1.1\r\nHost: %b\r\nX-API-Key: %b\r\n" + odd
    host, _, port = place.partition(":")
    async with shown.events(**AS_OPERATOR) as events:
        for body in ODD:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(head % (place.encode(), KEY.encode()))
            writer.write(b"Connection: close\r\nContent-Type: application/json\r\n")
            writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            assert (await reader.read()).startswith(b"HTTP/1.1 ")
            writer.close()
            await writer.wait_closed()
        count = shown.desk.host.recording.index.frame_count
        assert count >= len(ODD)
        told = await events.event("traffic", lambda told: told["total"] >= len(ODD) and not told["behind"])
        for number in told["lines"]:
            answer = await shown.get(f"/dashboard/exchange?number={number}", **AS_OPERATOR)
            assert answer.status == 200, await answer.text()
        await shown.called("echo", text="still")
        await events.event("traffic", has_row("echo"))


async def test_a_page_too_many_closes_the_oldest(shown: Dashboard) -> None:
    async with AsyncExitStack() as stack:
        opened = stack.enter_async_context
        pages = [await opened(shown.events(**AS_OPERATOR)) for _ in range(MAX_PAGES + 1)]
        closed = await pages[0].event("closed")
        assert closed == {"pages": MAX_PAGES} and await pages[0].next() is None
        await shown.called("echo", text="still seen")
        for events in (pages[1], pages[-1]):
            await events.event("traffic", has_row("echo"))


async def test_a_page_that_reads_nothing_is_told_nothing_and_then_everything(
    shown: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shown.events(**AS_OPERATOR) as events:
        await events.event("traffic")
        monkeypatch.setattr("mcpdesk.features.dashboard.page_updates.MAX_UNREAD_BYTES", -1)
        await shown.called("echo", text="unseen")
        (entry,) = shown.desk.host.http._extra_routes  # type: ignore[union-attr]
        assert isinstance(entry, DashboardEntry)
        routes = entry._routes
        assert routes is not None and routes._updates is not None
        (page,) = routes._updates.pages.values()
        await until(lambda: not page.has_core and not page.has_lines)
        monkeypatch.undo()
        has_core = has_lines = False
        async with within():
            while not (
                has_core and has_lines
            ):  # in either order: it may keep up again in the middle of a beat
                event = await events.next()
                assert event is not None
                name, told = event
                has_core |= name == "core" and bool(told["servers"])
                rows = told["rows"] if name == "traffic" and told.get("all") else []
                has_lines |= any(row["name"] == "echo" for row in rows)


async def test_a_stopping_core_ends_its_pages(tmp_path: Path) -> None:
    async with dashboard(tmp_path) as shown:
        answer = await shown.get("/dashboard/events", **AS_OPERATOR)
        reading = asyncio.create_task(answer.read())
        host = shown.desk.host
        assert host.http is not None
        stopped = asyncio.run_coroutine_threadsafe(host.http.close(), host._loop)  # type: ignore[arg-type]
        await asyncio.wrap_future(stopped)
        async with within():
            assert b"event: hello" in await reading


async def test_a_core_without_a_dashboard_answers_with_text() -> None:
    async with serving() as served:
        async with served.client.get(f"{served.url}/", headers={"Accept": "text/html"}) as answer:
            assert answer.content_type == "text/plain"
        async with served.client.get(f"{served.url}/dashboard/app.js") as answer:
            assert answer.status == 404
