"""An HTTP client for tests that read the head of an answer and ignore the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import aiohttp


@asynccontextmanager
async def http_client(**options: Any) -> AsyncIterator[aiohttp.ClientSession]:
    """A session that closes its answers at the end, because aiohttp warns about unread ones."""
    answers = list[aiohttp.ClientResponse]()

    async def keep(
        session: aiohttp.ClientSession, context: SimpleNamespace, ended: aiohttp.TraceRequestEndParams
    ) -> None:
        answers.append(ended.response)

    trace = aiohttp.TraceConfig()
    trace.on_request_end.append(keep)
    async with aiohttp.ClientSession(trace_configs=[trace], **options) as session:
        try:
            yield session
        finally:
            for answer in answers:
                answer.close()
