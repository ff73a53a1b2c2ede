"""Engines whose result pages are read by the ddgs library, which the extra `search` brings.

The library blocks, so each engine runs in a thread of our own.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

from mcpdesk.tools.search.engine import Engine, EngineError, Hit, at, check_page, check_status

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
