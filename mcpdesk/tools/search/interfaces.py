"""Engines that answer programs: one request, one document, no key."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import orjson

from mcpdesk.tools.search.engine import Engine, EngineError, Hit, at, check_page, check_status
from mcpdesk.version import __version__

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
