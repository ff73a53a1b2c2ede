"""WebSearch: eleven engines at once; failures of some do not affect the others."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.errors import DeskUserError, HandlerError
from mcpdesk.features.web_tools.search import DEFAULT_ENGINES, ENGINES, PAGE_ENGINES
from mcpdesk.server.offer.tool import ToolResult
from mcpdesk.server.state.server_state import ServerState, ToolOptions
from mcpdesk.settings import resolve
from tests.features.web_tools.search_fixtures import (
    CAPTCHA,
    EMPTY,
    SHAPES,
    TEXT,
    TITLE,
    URL,
    Engines,
    engines,
    text,
)
from tests.tools.support import ToolContext, fields, use

# The quick tests do without the extra `search`, which reads the pages of some engines.
EACH_ENGINE = [pytest.param(name, marks=[pytest.mark.slow] * (name in PAGE_ENGINES)) for name in ENGINES]


@pytest.fixture
async def served() -> AsyncIterator[Engines]:
    async with engines() as running:
        yield running


async def search(
    served: Engines, *names: str, query: str = "tides", timeout_s: float = 5.0
) -> ToolResult[Any]:
    urls = {name: url for name, url in served.urls.items() if name in (names or DEFAULT_ENGINES)}
    return await search_at(urls, *names, query=query, timeout_s=timeout_s)


async def search_at(
    urls: dict[str, str], *names: str, query: str = "tides", timeout_s: float = 5.0
) -> ToolResult[Any]:
    settings = {"search_engines": names, "search_urls": [f"{name}={url}" for name, url in urls.items()]}
    options = ToolOptions(settings={**settings, "search_timeout_ms": timeout_s * 1000})
    home = ServerState(Path("/nowhere"), Path("/nowhere"), (), options)
    return await use("WebSearch", ToolContext(home=home), query=query)


def status(result: ToolResult[Any]) -> dict[str, str]:
    return {each["engine"]: each["status"] for each in fields(result)["engines"]}


def reasons(result: ToolResult[Any]) -> dict[str, str]:
    return {each["engine"]: each["reason"] for each in fields(result)["engines"] if each["reason"]}


@pytest.mark.slow
async def test_eleven_engines_are_asked_and_their_answers_joined(served: Engines) -> None:
    result = await search(served)
    assert len(DEFAULT_ENGINES) == 11
    assert status(result) == dict.fromkeys(DEFAULT_ENGINES, "ok"), reasons(result)
    best = fields(result)["pages"][0]
    assert (best["title"], best["url"]) == (TITLE, URL)
    assert set(best["engines"]) == set(DEFAULT_ENGINES) - {"grokipedia"}
    assert "sea" in best["snippet"]
    assert result.content[0]["text"].startswith(f"1. {TITLE}\n   {URL}  (")


@pytest.mark.parametrize("name", EACH_ENGINE)
async def test_each_engine_is_asked_with_the_words_and_read(served: Engines, name: str) -> None:
    result = await search(served, name, query="high tide & moon")
    assert status(result) == {name: "ok"}, reasons(result)
    (page,) = fields(result)["pages"]
    assert page["title"] == ("moon/tides" if name == "github" else TITLE)
    assert page["url"] == ("https://grokipedia.com/page/Tides" if name == "grokipedia" else URL)
    if name not in ("stackexchange", "hackernews"):
        assert page["snippet"] == TEXT
    assert any("tide" in asked and "moon" in asked for asked in served.asked[name]), served.asked


@pytest.mark.parametrize("name", EACH_ENGINE)
async def test_an_engine_that_finds_nothing_is_no_trouble(served: Engines, name: str) -> None:
    served.answers[name] = text(EMPTY[name])
    result = await search(served, name)
    assert (status(result), result.is_error) == ({name: "empty"}, False)
    assert result.content[0]["text"] == "Nothing was found for 'tides'."


@pytest.mark.parametrize("name", EACH_ENGINE)
async def test_a_page_that_asks_for_a_captcha_is_known_as_one(served: Engines, name: str) -> None:
    served.answers[name] = text(CAPTCHA)
    result = await search(served, name)
    if name in ("wikipedia", "grokipedia"):
        assert status(result) == {name: "failed"}
    else:
        assert reasons(result) == {name: "it asks for a captcha"}


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (429, "it limits the rate (HTTP 429)"),
        (403, "it refuses (HTTP 403)"),
        (202, "it asks for a captcha"),
        (500, "it answered with HTTP 500"),
    ],
)
@pytest.mark.parametrize("name", [pytest.param("mojeek", marks=pytest.mark.slow), "github"])
async def test_refusals_say_what_they_are(served: Engines, name: str, code: int, reason: str) -> None:
    served.answers[name] = text(SHAPES[name], code)
    assert reasons(await search(served, name)) == {name: reason}


@pytest.mark.slow
async def test_slow_and_broken_engines_do_not_take_the_others_along(served: Engines) -> None:
    served.answers |= {
        "brave": served.never,
        "github": served.never,
        "mojeek": text("<<<"),
        "arxiv": text("{}", 500),
    }
    served.answers |= {"stackexchange": text("not json"), "hackernews": text('{"hits": 5}')}
    await search(served, timeout_s=0.1)  # what the engines import is there from now on
    began = time.monotonic()
    result = await search(served, timeout_s=4.0)
    took_s = time.monotonic() - began
    told = status(result)
    assert not result.is_error and fields(result)["pages"]
    assert {name for name, each in told.items() if each == "timeout"} == {"brave", "github"}
    assert {name for name, each in told.items() if each == "failed"} == {
        "arxiv",
        "stackexchange",
        "hackernews",
    }
    assert took_s < 2 * 4.0, "engines are asked side by side"
    assert "- github: no answer within 4 s" in result.content[0]["text"]


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("github", '{"items": [{"full_name": null, "html_url": 5}]}'),
        ("stackexchange", '{"items": [{"title": "Tides", "link": null}]}'),
        ("hackernews", '{"hits": [{"title": "Tides", "url": ["x"], "objectID": 1}]}'),
        ("searxng", '{"results": [{"title": 7, "url": null}]}'),
    ],
)
async def test_a_hit_without_an_address_does_not_take_the_others_along(
    served: Engines, name: str, body: str
) -> None:
    served.answers[name] = text(body)
    result = await search(served, name, "arxiv")
    assert not result.is_error and URL in [page["url"] for page in fields(result)["pages"]]


@pytest.mark.slow
async def test_all_engines_failing_is_an_error_with_every_reason(served: Engines) -> None:
    for name in DEFAULT_ENGINES:
        served.answers[name] = text("down", 503)
    result = await search(served)
    assert result.is_error
    lines = result.content[0]["text"].splitlines()
    assert lines[0] == "Every engine failed:"
    assert len([line for line in lines if "overloaded" in line]) == 11


@pytest.mark.slow
async def test_an_engine_nobody_can_reach_says_so(served: Engines) -> None:
    served.base = "http://127.0.0.1:1"
    told = reasons(await search(served, "mojeek", "github"))
    assert all(reason.startswith("it cannot be reached") for reason in told.values()) and len(told) == 2


async def test_an_endless_answer_is_cut_off(served: Engines) -> None:
    served.answers["github"] = text("x" * (5 << 20))
    assert reasons(await search(served, "github")) == {"github": "its answer is larger than 4 MiB"}


async def test_a_feed_with_entities_is_not_unfolded(served: Engines) -> None:
    served.answers["arxiv"] = text('<!DOCTYPE x [<!ENTITY a "aaaa">]><feed>&a;</feed>')
    assert reasons(await search(served, "arxiv")) == {"arxiv": "its answer cannot be read: ValueError"}


@pytest.mark.parametrize("query", ["", "  ", "\x1b[2J", "x" * 1001])
async def test_a_query_that_is_none_names_the_parameter(served: Engines, query: str) -> None:
    with pytest.raises(HandlerError, match=r"^query: "):
        await search(served, query=query)
    assert served.asked == {}


async def test_an_engine_with_a_url_of_its_own_is_asked_besides_the_usual_ones(served: Engines) -> None:
    assert "searxng" in served.urls
    assert set(status(await search_at(served.urls))) == {*DEFAULT_ENGINES, "searxng"}
    named = await search_at(served.urls, "mojeek")
    assert set(status(named)) == {"mojeek"}, "engines that were named are asked alone"


def test_settings_know_the_engines_there_are() -> None:
    for name in ENGINES:
        given = resolve({}, {"MCPDESK_SEARCH_ENGINES": name, "MCPDESK_SEARCH_URLS": f"{name}=http://x"})
        assert given.settings.search_engines == (name,)
    for variable, value in (("SEARCH_ENGINES", "searx"), ("SEARCH_URLS", "searx=http://x")):
        with pytest.raises(DeskUserError) as told:
            resolve({}, {f"MCPDESK_{variable}": value})
        said = f"{told.value.message} {told.value.hint}"
        for part in (variable.lower(), repr(value), f"environment MCPDESK_{variable}", *ENGINES):
            assert part in said


async def test_an_engine_nobody_knows_is_told_which_there_are(served: Engines) -> None:
    with pytest.raises(HandlerError, match="unknown engine 'altavista'; known: brave, "):
        await search(served, "altavista")


async def test_without_the_extra_the_other_engines_answer_and_it_is_named(
    served: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ddgs.exceptions", None)
    result = await search(served)
    assert sorted(name for name, state in status(result).items() if state == "ok") == [
        "arxiv", "github", "hackernews", "stackexchange",
    ]  # fmt: skip
    assert set(reasons(result).values()) == {"it needs an extra: pip install 'mcpdesk[search]'"}
