"""Every engine there is."""

from __future__ import annotations

from mcpdesk.tools.search import interfaces
from mcpdesk.tools.search.engine import Engine
from mcpdesk.tools.search.interfaces import interface_engine
from mcpdesk.tools.search.pages import page_engine

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
        interfaces.stack_exchange,
    ),
    interface_engine(
        "hackernews",
        "news.ycombinator.com",
        "https://hn.algolia.com/api/v1/search",
        lambda query: {"query": query, "tags": "story"},
        interfaces.hacker_news,
    ),
    interface_engine(
        "github",
        "github.com",
        "https://api.github.com/search/repositories",
        lambda query: {"q": query},
        interfaces.github,
    ),
    interface_engine(
        "arxiv",
        "arxiv.org",
        "https://export.arxiv.org/api/query",
        lambda query: {"search_query": f"all:{query}", "max_results": "10"},
        interfaces.arxiv,
    ),
    interface_engine(
        "searxng",
        "an instance of your own",
        "http://127.0.0.1:8080/search",
        lambda query: {"q": query, "format": "json"},
        interfaces.searxng,
    ),
)
ENGINES: dict[str, Engine] = {engine.name: engine for engine in _ALL}
"""By name. `searxng` is the one more that nobody has unless it is switched on."""
USUAL = tuple(name for name in ENGINES if name != "searxng")
"""The eleven that are asked where nothing else is set."""
