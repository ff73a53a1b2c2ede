"""WebSearch: the tool."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from mcpdesk.errors import HandlerError
from mcpdesk.protocol import content
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.authoring import tool
from mcpdesk.server.offer.tool import ToolResult
from mcpdesk.tools.texts import given
from mcpdesk.tools.web.search_engines import Hit

if TYPE_CHECKING:
    from mcpdesk.tools.web.search_engines import Engine, Hit

QUERY_LIMIT = 1_000
SHOWN = 20
"""Pages that are given."""
TITLE_LENGTH, SNIPPET_LENGTH = 200, 500

Status = Literal["ok", "empty", "timeout", "failed"]


@dataclass(frozen=True, slots=True)
class Page:
    """A page that was found.

    Attributes:
        engines: Which engines named it
    """

    title: str
    url: str
    snippet: str
    engines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of asking one engine.

    Attributes:
        reason: Why it gave nothing
    """

    engine: str
    status: Status
    hits: int
    duration_ms: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Results:
    """Pages, best first, and what each engine did."""

    query: str
    pages: tuple[Page, ...]
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
    """Search the web using 11 engines concurrently. Their answers are joined, what several engines name comes
    first. Some of them failing is normal, and is told.

    Args:
        query: The search query
    """
    wanted = given("query", query, QUERY_LIMIT)
    engines = _engines(ctx)
    options = ctx.hosted.options
    asked = await asyncio.gather(
        *(
            _ask(engine, wanted, options.search_urls.get(engine.name, ""), options.search_timeout_s)
            for engine in engines
        )
    )
    return _result(wanted, [status for status, _ in asked], {s.engine: hits for s, hits in asked if hits})


def _engines(ctx: Context) -> list[Engine]:
    from mcpdesk.tools.web.search_engines import ENGINES, USUAL

    options = ctx.hosted.options
    names = options.search_engines or (*USUAL, *options.search_urls)
    unknown = [name for name in names if name not in ENGINES]
    if unknown:
        raise HandlerError(f"search_engines: there is no engine {unknown[0]!r}; known: {', '.join(ENGINES)}")
    return [ENGINES[name] for name in dict.fromkeys(names)]


async def _ask(engine: Engine, query: str, url: str, timeout_s: float) -> tuple[Asked, list[Hit]]:
    """Never raises: what an engine does wrong is its status."""
    began = time.monotonic()
    status: Status = "failed"
    hits: list[Hit] = []
    reason = ""
    try:
        async with asyncio.timeout(timeout_s):
            hits = await engine.search(query, url, timeout_s)
        status = "ok" if hits else "empty"
    except TimeoutError:
        status, reason = "timeout", f"no answer within {timeout_s:g} s"
    except Exception as error:
        # Parsers of a stranger's pages fail in many ways, and none may take the other engines along.
        reason = str(error)[:300] or type(error).__name__
    took_ms = round(1000 * (time.monotonic() - began))
    return Asked(engine.name, status, len(hits), took_ms, reason), hits


def _result(query: str, asked: list[Asked], lists: dict[str, list[Hit]]) -> ToolResult[Results]:
    from mcpdesk.tools.web.search import merge

    pages = tuple(
        Page(each.title[:TITLE_LENGTH], each.url, each.snippet[:SNIPPET_LENGTH], each.engines)
        for each in merge(lists)[:SHOWN]
    )
    body = Results(query, pages, tuple(asked))
    has_failed = all(each.status in ("timeout", "failed") for each in asked)
    lines = [_lines(number, page) for number, page in enumerate(pages, 1)]
    if not pages:
        lines = ["Every engine failed:" if has_failed else f"Nothing was found for {query!r}."]
    troubled = [each for each in asked if each.reason]
    if troubled:
        lines += ["", "Engines without an answer:", *(f"- {each.engine}: {each.reason}" for each in troubled)]
    return ToolResult((content.text("\n".join(lines)),), body, is_error=has_failed)


def _lines(number: int, page: Page) -> str:
    named = ", ".join(page.engines)
    snippet = f"\n   {page.snippet}" if page.snippet else ""
    return f"{number}. {page.title}\n   {page.url}  ({named}){snippet}"


SMOOTHING = 60
"""How little the first ranks differ; the usual constant of the method."""
TRACKERS = frozenset({"gclid", "fbclid", "msclkid", "ref", "ref_src", "igshid", "mc_cid", "mc_eid"})
"""Query parameters that say where a visitor came from, besides all `utm_` ones."""


@dataclass(frozen=True, slots=True)
class Found:
    """A page, and which engines named it."""

    title: str
    url: str
    snippet: str
    engines: tuple[str, ...]
    score: float


def merge(lists: Mapping[str, Sequence[Hit]]) -> list[Found]:
    """All pages, best first. Title and snippet are the longest that any engine gave."""
    scores: dict[str, float] = {}
    hits: dict[str, list[tuple[str, Hit]]] = {}
    for engine, ranked in lists.items():
        for rank, hit in enumerate(ranked, 1):
            key = canonical(hit.url)
            if not key or engine in (name for name, _ in hits.get(key, ())):
                continue
            scores[key] = scores.get(key, 0.0) + 1 / (SMOOTHING + rank)
            hits.setdefault(key, []).append((engine, hit))
    return [_found(hits[key], scores[key]) for key in sorted(scores, key=lambda key: -scores[key])]


def canonical(url: str) -> str:
    """What is left of a URL when nothing but the page counts; empty for one that is no web page."""
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").removeprefix("www."), parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not host:
        return ""
    query = [(key, value) for key, value in parse_qsl(parts.query, keep_blank_values=True) if _counts(key)]
    place = host if port in (None, 80, 443) else f"{host}:{port}"
    return urlunsplit(("https", place, parts.path.rstrip("/"), urlencode(sorted(query)), ""))


def _counts(key: str) -> bool:
    return key not in TRACKERS and not key.startswith("utm_")


def _found(hits: list[tuple[str, Hit]], score: float) -> Found:
    _, first = hits[0]
    return Found(
        title=max((hit.title for _, hit in hits), key=len) or first.url,
        url=first.url,
        snippet=max((hit.snippet for _, hit in hits), key=len),
        engines=tuple(engine for engine, _ in hits),
        score=score,
    )
