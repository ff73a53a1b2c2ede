"""The search engines: how each is asked and how its answer is read.

Some have an interface for programs, whose answer is read here. The result pages of the others are read by the
ddgs library, which the extra `search` brings.
"""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any
from urllib.parse import urlsplit

import orjson

from mcpdesk.version import __version__

SIGNS_OF_A_CAPTCHA = (
    "captcha",
    "unusual traffic",
    "anomaly-modal",
    "are you a robot",
    "not a robot",
    "verify you are human",
    "challenge-platform",
    "automated queries",
)
"""Words on a page that has no results because the engine takes us for a machine."""
REFUSALS = {
    202: "it asks for a captcha",
    401: "it wants a key",
    403: "it refuses (HTTP 403)",
    429: "it limits the rate (HTTP 429)",
    503: "it is overloaded or limits the rate (HTTP 503)",
}
"""HTTP statuses that say more than that something failed."""


class EngineError(Exception):
    """An engine gave no answer; the text says why."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of one engine."""

    title: str
    url: str
    snippet: str


Search = Callable[[str, str, float], Awaitable[list[Hit]]]
"""Query, base of a mirror (empty: the engine itself) and seconds in; hits in their order out.

Raises: EngineError; TimeoutError; what a parser makes of an answer that is not what it was.
"""


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine."""

    name: str
    search: Search
    home: str
    """What it is, for a person: `mojeek.com`."""


def at(base: str, url: str) -> str:
    """The URL at a mirror: its path and query below `base`; as it is without one."""
    if not base:
        return url
    parts = urlsplit(url)
    return f"{base.rstrip('/')}{parts.path}{'?' if parts.query else ''}{parts.query}"


def check_status(status: int) -> None:
    """Raises: EngineError for an HTTP status that is no success."""
    if status in REFUSALS:
        raise EngineError(REFUSALS[status])
    if not 200 <= status < 300:
        raise EngineError(f"it answered with HTTP {status}")


def check_page(page: str, hits: list[Hit]) -> None:
    """Raises: EngineError for a page without results that asks whether we are human."""
    if not hits and any(sign in page.lower() for sign in SIGNS_OF_A_CAPTCHA):
        raise EngineError("it asks for a captcha")


MOST_BYTES = 4 << 20
MOST_HITS = 20
AGENT = f"mcpdesk/{__version__}"
TAG = re.compile(r"<[^>]+>")
ATOM = "{http://www.w3.org/2005/Atom}"

Parameters = Callable[[str], dict[str, str]]
Parse = Callable[[bytes], list[Hit]]


def interface_engine(name: str, home: str, usual: str, parameters: Parameters, parse: Parse) -> Engine:
    """An engine at a URL: what it is asked with, and how its answer is read."""

    async def search(query: str, base: str, timeout_s: float) -> list[Hit]:
        body = await _get(at(base, usual), parameters(query), timeout_s)
        try:
            hits = parse(body)[:MOST_HITS]
        except (ValueError, TypeError, KeyError, AttributeError, SyntaxError) as error:
            check_page(body.decode(errors="replace"), [])
            raise EngineError(f"its answer cannot be read: {type(error).__name__}") from error
        return hits

    return Engine(name, search, home)


async def _get(url: str, parameters: dict[str, str], timeout_s: float) -> bytes:
    import aiohttp

    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(timeout_s), trust_env=True) as session,
            session.get(url, params=parameters, headers={"User-Agent": AGENT}) as answer,
        ):
            check_status(answer.status)
            pieces, size = [], 0
            async for piece in answer.content.iter_chunked(65_536):
                pieces.append(piece)
                size += len(piece)
                if size > MOST_BYTES:
                    raise EngineError(f"its answer is larger than {MOST_BYTES >> 20} MiB")
            return b"".join(pieces)
    except TimeoutError:
        raise TimeoutError from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise EngineError(f"it cannot be reached: {str(error)[:200] or type(error).__name__}") from error


def plain(text: Any) -> str:
    """A text without tags and entities, on one line."""
    return " ".join(html.unescape(TAG.sub("", str(text or ""))).split())


def address(value: Any) -> str:
    """A URL as an engine gives it; empty for what is no text, which no page has."""
    return value if isinstance(value, str) else ""


def stack_exchange(body: bytes) -> list[Hit]:
    """Questions, of its search interface."""
    return [
        Hit(plain(each["title"]), address(each["link"]), ", ".join(each.get("tags", ())))
        for each in orjson.loads(body)["items"]
    ]


def hacker_news(body: bytes) -> list[Hit]:
    """Stories, of Algolia's interface; one without a link is its own page."""
    return [
        Hit(
            plain(each["title"]),
            address(each.get("url")) or f"https://news.ycombinator.com/item?id={each['objectID']}",
            f"{each.get('points') or 0} points, {each.get('num_comments') or 0} comments",
        )
        for each in orjson.loads(body)["hits"]
        if each.get("title")
    ]


def github(body: bytes) -> list[Hit]:
    """Repositories."""
    return [
        Hit(plain(each["full_name"]), address(each["html_url"]), plain(each.get("description")))
        for each in orjson.loads(body)["items"]
    ]


def arxiv(body: bytes) -> list[Hit]:
    """Papers, of its Atom feed. A document type could hold a bomb, and the feed has none."""
    from xml.etree import ElementTree

    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        raise ValueError("a document type")
    return [
        Hit(
            plain(each.findtext(f"{ATOM}title")),
            plain(each.findtext(f"{ATOM}id")),
            plain(each.findtext(f"{ATOM}summary"))[:500],
        )
        for each in ElementTree.fromstring(body).iter(f"{ATOM}entry")
    ]


def searxng(body: bytes) -> list[Hit]:
    """Whatever an instance of SearXNG found; its `json` format has to be switched on there."""
    return [
        Hit(plain(each["title"]), address(each["url"]), plain(each.get("content")))
        for each in orjson.loads(body)["results"]
    ]


THREADS = 44
"""Four searches at once. The loop's own pool has too few, and would ask the engines one after the other."""


def page_engine(name: str, home: str) -> Engine:
    """An engine of the library."""

    async def search(query: str, base: str, timeout_s: float) -> list[Hit]:
        work = partial(_search, name, query, base, timeout_s)
        return await asyncio.get_running_loop().run_in_executor(_threads(), work)

    return Engine(name, search, home)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="search")


def _search(name: str, query: str, base: str, timeout_s: float) -> list[Hit]:
    try:
        from ddgs.exceptions import DDGSException, TimeoutException
    except ImportError:
        raise EngineError("it needs an extra: pip install 'mcpdesk[search]'") from None

    engine = _class(name)(timeout=max(1, round(timeout_s)))
    engine.base = base
    try:
        found = engine.search(query) or []
    except TimeoutException:
        raise TimeoutError from None
    except DDGSException as error:
        raise EngineError(f"it cannot be reached: {str(error)[:200]}") from error
    hits = [Hit(each.title, each.href, each.body) for each in found if each.href]
    check_page(engine.page, hits)
    return hits


@cache
def _class(name: str) -> Any:
    """The library's class, made to tell us of every status and page, and to ask where it is told to."""
    from ddgs.engines import ENGINES

    usual: Any = ENGINES["text"][name]

    class Watched(usual):  # type: ignore[misc]
        base = ""
        page = ""

        def request(self, method: str, url: str, **options: Any) -> str:
            answer = self.http_client.request(method, at(self.base, url), **options)
            check_status(answer.status_code)
            self.page = answer.text
            return self.page

        def get_sc(self) -> str:
            # The library fetches its token past `request`, and so past a mirror.
            return "" if self.base else str(super().get_sc())

    return Watched


_ALL = (
    page_engine("brave", "search.brave.com"),
    page_engine("duckduckgo", "duckduckgo.com"),
    page_engine("grokipedia", "grokipedia.com"),
    page_engine("mojeek", "mojeek.com"),
    page_engine("startpage", "startpage.com"),
    page_engine("wikipedia", "wikipedia.org"),
    page_engine("yahoo", "search.yahoo.com"),
    interface_engine(
        "stackexchange",
        "stackoverflow.com",
        "https://api.stackexchange.com/2.3/search/advanced",
        lambda query: {"q": query, "site": "stackoverflow", "order": "desc", "sort": "relevance"},
        stack_exchange,
    ),
    interface_engine(
        "hackernews",
        "news.ycombinator.com",
        "https://hn.algolia.com/api/v1/search",
        lambda query: {"query": query, "tags": "story"},
        hacker_news,
    ),
    interface_engine(
        "github",
        "github.com",
        "https://api.github.com/search/repositories",
        lambda query: {"q": query},
        github,
    ),
    interface_engine(
        "arxiv",
        "arxiv.org",
        "https://export.arxiv.org/api/query",
        lambda query: {"search_query": f"all:{query}", "max_results": "10"},
        arxiv,
    ),
    interface_engine(
        "searxng",
        "an instance of your own",
        "http://127.0.0.1:8080/search",
        lambda query: {"q": query, "format": "json"},
        searxng,
    ),
)
ENGINES: dict[str, Engine] = {engine.name: engine for engine in _ALL}
"""By name. `searxng` is the one more that nobody has unless it is switched on."""
USUAL = tuple(name for name in ENGINES if name != "searxng")
"""The eleven that are asked where nothing else is set."""
