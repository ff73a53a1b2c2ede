"""Several ranked lists as one: reciprocal rank fusion, with pages that differ only in dress joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from mcpdesk.tools.search.engine import Hit

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
