"""WebSearch: the tool, its search engines, and the merging of their results.

Responses of engines with an API are parsed here. Result pages of the other engines are parsed by the ddgs
library of the extra `search`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import orjson
from msgspec import Struct

from mcpdesk.errors import HandlerError
from mcpdesk.protocol import content
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.authoring import tool
from mcpdesk.server.offer.tool import ToolResult
from mcpdesk.tools import stripped_text
from mcpdesk.version import __version__

QUERY_LIMIT = 1_000
"""Maximum length of a query in characters."""
MAX_PAGES = 20
"""Maximum number of pages in a result."""
TITLE_LENGTH, SNIPPET_LENGTH = 200, 500
"""Maximum length of a page's title and of its snippet, in characters."""

Status = Literal["ok", "empty", "timeout", "failed"]


class FoundPage(Struct, frozen=True):
    """A page in the results.

    Attributes:
        engines: Engines that found it
    """

    title: str
    url: str
    snippet: str
    engines: tuple[str, ...]


class Asked(Struct, frozen=True):
    """Outcome of the query to one engine.

    Attributes:
        reason: Reason for missing results
    """

    engine: str
    status: Status
    hits: int
    duration_ms: int
    reason: str = ""


class Results(Struct, frozen=True):
    """Pages, best first, and the outcome of each engine."""

    query: str
    pages: tuple[FoundPage, ...]
    engines: tuple[Asked, ...]


@tool(
    name="WebSearch",
    title="Search the web",
    read_only=True,
    destructive=False,
    idempotent=True,
    open_world=True,
)
async def web_search(query: str, ctx: Context) -> ToolResult[Results]:
    """Search the web using 11 engines concurrently. Their results are merged; pages found by several engines
    come first. It is normal that some engines fail; the result lists them.

    Args:
        query: The search query
    """
    search_text = stripped_text("query", query, QUERY_LIMIT)
    settings = ctx.hosted.options.settings
    urls = dict(each.split("=", 1) for each in settings.get("search_urls", ()))
    timeout_s = settings.get("search_timeout_ms", 8000) / 1000
    engines = _engines(settings.get("search_engines") or (*DEFAULT_ENGINES, *urls))
    answers = await asyncio.gather(
        *(_ask(name, search_text, urls.get(name, ""), timeout_s) for name in engines)
    )
    outcomes = [outcome for outcome, _ in answers]
    return _result(search_text, outcomes, {outcome.engine: hits for outcome, hits in answers if hits})


def _engines(names: Sequence[str]) -> Iterable[str]:
    """Return the distinct names of engines. Raises: HandlerError for an unknown engine."""
    unknown = [name for name in names if name not in ENGINES]
    if unknown:
        raise HandlerError(f"search_engines: unknown engine {unknown[0]!r}; known: {', '.join(ENGINES)}")
    return dict.fromkeys(names)


async def _ask(engine: str, query: str, url: str, timeout_s: float) -> tuple[Asked, list[Hit]]:
    """Query one engine. An error of the engine is not raised, but returned as its status and reason."""
    start = time.monotonic()
    status: Status = "failed"
    hits: list[Hit] = []
    reason = ""
    try:
        async with asyncio.timeout(timeout_s):
            hits = await ENGINES[engine](query, url, timeout_s)
        status = "ok" if hits else "empty"
    except TimeoutError:
        status, reason = "timeout", f"no answer within {timeout_s:g} s"
    except Exception as error:
        # Parsers of untrusted pages fail in many ways, and none may affect the other engines.
        reason = str(error)[:300] or type(error).__name__
    duration_ms = round(1000 * (time.monotonic() - start))
    return Asked(engine, status, len(hits), duration_ms, reason), hits


def _result(query: str, outcomes: list[Asked], hits_by_engine: dict[str, list[Hit]]) -> ToolResult[Results]:
    pages = tuple(merge(hits_by_engine)[:MAX_PAGES])
    body = Results(query, pages, tuple(outcomes))
    has_failed = all(each.status in ("timeout", "failed") for each in outcomes)
    lines = [_page_lines(number, page) for number, page in enumerate(pages, 1)]
    if not pages:
        lines = ["Every engine failed:" if has_failed else f"Nothing was found for {query!r}."]
    failed = [each for each in outcomes if each.reason]
    if failed:
        lines += ["", "Engines without an answer:", *(f"- {each.engine}: {each.reason}" for each in failed)]
    return ToolResult((content.text("\n".join(lines)),), body, is_error=has_failed)


def _page_lines(number: int, page: FoundPage) -> str:
    engine_names = ", ".join(page.engines)
    snippet = f"\n   {page.snippet}" if page.snippet else ""
    return f"{number}. {page.title}\n   {page.url}  ({engine_names}){snippet}"


SMOOTHING = 60
"""Constant of reciprocal rank fusion, with its usual value.

A larger value makes the first ranks more equal.
"""
TRACKERS = frozenset({"gclid", "fbclid", "msclkid", "ref", "ref_src", "igshid", "mc_cid", "mc_eid"})
"""Query parameters that are used for tracking, in addition to those that begin with `utm_`."""


def merge(hits_by_engine: Mapping[str, Sequence[Hit]]) -> list[FoundPage]:
    """Return all pages, best first. For title and snippet, the longest text of any engine is used."""
    scores: dict[str, float] = {}
    hits_by_url: dict[str, list[tuple[str, Hit]]] = {}
    for engine, hits in hits_by_engine.items():
        for rank, hit in enumerate(hits, 1):
            url = canonical(hit.url)
            if not url or engine in (name for name, _ in hits_by_url.get(url, ())):
                continue
            scores[url] = scores.get(url, 0.0) + 1 / (SMOOTHING + rank)
            hits_by_url.setdefault(url, []).append((engine, hit))
    return [_page(hits_by_url[url]) for url in sorted(scores, key=lambda url: -scores[url])]


def canonical(url: str) -> str:
    """Return a normalized URL that identifies the page, or "" if `url` is not the URL of a web page."""
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").removeprefix("www."), parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not host:
        return ""
    query = [
        (key, value) for key, value in parse_qsl(parts.query, keep_blank_values=True) if _is_significant(key)
    ]
    authority = host if port in (None, 80, 443) else f"{host}:{port}"
    return urlunsplit(("https", authority, parts.path.rstrip("/"), urlencode(sorted(query)), ""))


def _is_significant(key: str) -> bool:
    return key not in TRACKERS and not key.startswith("utm_")


def _page(hits: list[tuple[str, Hit]]) -> FoundPage:
    _, first_hit = hits[0]
    title = max((hit.title for _, hit in hits), key=len) or first_hit.url
    snippet = max((hit.snippet for _, hit in hits), key=len)
    engines = tuple(engine for engine, _ in hits)
    return FoundPage(title[:TITLE_LENGTH], first_hit.url, snippet[:SNIPPET_LENGTH], engines)


CAPTCHA_TEXTS = (
    "captcha",
    "unusual traffic",
    "anomaly-modal",
    "are you a robot",
    "not a robot",
    "verify you are human",
    "challenge-platform",
    "automated queries",
)
"""Texts that a page without results contains if the engine considers the client a bot."""
REFUSALS = {
    202: "it asks for a captcha",
    401: "it requires a key",
    403: "it refuses (HTTP 403)",
    429: "it limits the rate (HTTP 429)",
    503: "it is overloaded or limits the rate (HTTP 503)",
}
"""Reasons for missing results, by HTTP status."""


class EngineError(Exception):
    """An engine returned no results. The text contains the reason."""


class Hit(Struct, frozen=True):
    """One result of one engine."""

    title: str
    url: str
    snippet: str


Search = Callable[[str, str, float], Awaitable[list[Hit]]]
"""Function that queries an engine and returns ranked hits.

It takes the query, the base URL of a mirror (empty for the engine itself) and a time limit in seconds.
Raises: EngineError; TimeoutError; any exception of a parser for an unexpected response.
"""
Parse = Callable[[bytes], list[Hit]]
"""Function that returns the hits in the body of a response."""


def at_mirror(base: str, url: str) -> str:
    """Return `url` at a mirror, with its path and query below `base`.

    If `base` is empty, return it unchanged.
    """
    if not base:
        return url
    parts = urlsplit(url)
    return f"{base.rstrip('/')}{parts.path}{'?' if parts.query else ''}{parts.query}"


def check_status(status: int) -> None:
    """Raises: EngineError if an HTTP status is not a success."""
    if status in REFUSALS:
        raise EngineError(REFUSALS[status])
    if not 200 <= status < 300:
        raise EngineError(f"it answered with HTTP {status}")


def check_page(page: str, hits: list[Hit]) -> None:
    """Raises: EngineError for a page without results that shows a captcha."""
    if not hits and any(sign in page.lower() for sign in CAPTCHA_TEXTS):
        raise EngineError("it asks for a captcha")


MAX_BYTES = 4 << 20
"""Maximum size of a response in bytes."""
MAX_RESULTS = 20
"""Maximum number of hits that are used of one engine."""
AGENT = f"mcpdesk/{__version__}"
HTML_TAG = re.compile(r"<[^>]+>")
ATOM_NAMESPACE = "{http://www.w3.org/2005/Atom}"


def api_engine(url: str, parameters: Mapping[str, str], parse: Parse) -> Search:
    """Return the search function of an engine with an API.

    `QUERY` in `parameters` is replaced by the query.
    """

    async def search(query: str, base: str, timeout_s: float) -> list[Hit]:
        query_parameters = {name: value.replace(QUERY, query) for name, value in parameters.items()}
        body = await _get(at_mirror(base, url), query_parameters, timeout_s)
        try:
            return parse(body)[:MAX_RESULTS]
        except (ValueError, TypeError, KeyError, AttributeError, SyntaxError) as error:
            check_page(body.decode(errors="replace"), [])
            raise EngineError(f"its answer cannot be read: {type(error).__name__}") from error

    return search


async def _get(url: str, parameters: dict[str, str], timeout_s: float) -> bytes:
    """Return the body of a response. Raises: EngineError, TimeoutError."""
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
                if size > MAX_BYTES:
                    raise EngineError(f"its answer is larger than {MAX_BYTES >> 20} MiB")
            return b"".join(pieces)
    except TimeoutError:
        raise TimeoutError from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise EngineError(f"it cannot be reached: {str(error)[:200] or type(error).__name__}") from error


def plain_text(text: Any) -> str:
    """Return a text without tags and entities, on one line."""
    import html  # its table of characters takes a millisecond to load

    return " ".join(html.unescape(HTML_TAG.sub("", str(text or ""))).split())


def string_or_empty(value: Any) -> str:
    """Return the URL that an engine sent, or "" if it is not a string."""
    return value if isinstance(value, str) else ""


def json_hits(
    items: str, title: str, url: str, snippet: Callable[[Any], Any]
) -> Callable[[bytes], list[Hit]]:
    """Return a parser that reads hits from JSON. The arguments are the names of JSON members."""

    def parse(body: bytes) -> list[Hit]:
        return [
            Hit(plain_text(each[title]), string_or_empty(each[url]), plain_text(snippet(each)))
            for each in orjson.loads(body)[items]
        ]

    return parse


def hacker_news(body: bytes) -> list[Hit]:
    """Parse stories from Algolia's API. If a story has no link, its page on Hacker News is used."""
    return [
        Hit(
            plain_text(each["title"]),
            string_or_empty(each.get("url")) or f"https://news.ycombinator.com/item?id={each['objectID']}",
            f"{each.get('points') or 0} points, {each.get('num_comments') or 0} comments",
        )
        for each in orjson.loads(body)["hits"]
        if each.get("title")
    ]


def arxiv(body: bytes) -> list[Hit]:
    """Parse papers of the Atom feed. Document types are rejected, because they may contain an entity bomb."""
    from xml.etree import ElementTree

    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        raise ValueError("the feed contains a document type")
    return [
        Hit(
            plain_text(each.findtext(f"{ATOM_NAMESPACE}title")),
            plain_text(each.findtext(f"{ATOM_NAMESPACE}id")),
            plain_text(each.findtext(f"{ATOM_NAMESPACE}summary"))[:500],
        )
        for each in ElementTree.fromstring(body).iter(f"{ATOM_NAMESPACE}entry")
    ]


THREADS = 44
"""Number of threads for engines of the library, enough for four searches at once.

The default pool of the event loop has too few.
"""


def page_engine(name: str) -> Search:
    """Return the search function of an engine of the library."""

    async def search(query: str, base: str, timeout_s: float) -> list[Hit]:
        work = partial(_search, name, query, base, timeout_s)
        return await asyncio.get_running_loop().run_in_executor(_threads(), work)

    return search


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="search")


def _search(name: str, query: str, base: str, timeout_s: float) -> list[Hit]:
    """Query an engine of the library. Called on a worker thread. Raises: EngineError, TimeoutError."""
    try:
        from ddgs.exceptions import DDGSException, TimeoutException
    except ImportError:
        raise EngineError("it needs an extra: pip install 'mcpdesk[search]'") from None

    engine = _engine_class(name)(timeout=max(1, round(timeout_s)))
    engine.base = base
    try:
        raw_hits = engine.search(query) or []
    except TimeoutException:
        raise TimeoutError from None
    except DDGSException as error:
        raise EngineError(f"it cannot be reached: {str(error)[:200]}") from error
    hits = [Hit(each.title, each.href, each.body) for each in raw_hits if each.href]
    check_page(engine.page, hits)
    return hits


@cache
def _engine_class(name: str) -> Any:
    """Return the library's class of an engine, extended to check each status, to store the page, and to use a
    mirror.
    """
    from ddgs.engines import ENGINES

    library_class: Any = ENGINES["text"][name]

    class CheckedEngine(library_class):  # type: ignore[misc]
        base = ""
        page = ""

        def request(self, method: str, url: str, **options: Any) -> str:
            answer = self.http_client.request(method, at_mirror(self.base, url), **options)
            check_status(answer.status_code)
            self.page = answer.text
            return self.page

        def get_sc(self) -> str:
            # The library fetches its token without `request`, and therefore not from a mirror.
            return "" if self.base else str(super().get_sc())

    return CheckedEngine


PAGE_ENGINES = ("brave", "duckduckgo", "grokipedia", "mojeek", "startpage", "wikipedia", "yahoo")
QUERY = "{query}"
"""Placeholder for the query in the parameters of an engine."""
ENGINES: dict[str, Search] = {name: page_engine(name) for name in PAGE_ENGINES} | {
    "stackexchange": api_engine(
        "https://api.stackexchange.com/2.3/search/advanced",
        {"q": QUERY, "site": "stackoverflow", "order": "desc", "sort": "relevance"},
        json_hits("items", "title", "link", lambda each: ", ".join(each.get("tags", ()))),
    ),
    "hackernews": api_engine(
        "https://hn.algolia.com/api/v1/search", {"query": QUERY, "tags": "story"}, hacker_news
    ),
    "github": api_engine(
        "https://api.github.com/search/repositories",
        {"q": QUERY},
        json_hits("items", "full_name", "html_url", lambda each: each.get("description")),
    ),
    "arxiv": api_engine(
        "https://export.arxiv.org/api/query",
        {"search_query": f"all:{QUERY}", "max_results": "10"},
        arxiv,
    ),
    # The instance must have the format `json` enabled.
    "searxng": api_engine(
        "http://127.0.0.1:8080/search",
        {"q": QUERY, "format": "json"},
        json_hits("results", "title", "url", lambda each: each.get("content")),
    ),
}
"""Engines by name. `searxng`, a private instance, is used only if it is enabled."""
DEFAULT_ENGINES = tuple(name for name in ENGINES if name != "searxng")
"""The eleven engines that are used by default."""
