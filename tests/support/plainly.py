"""One HTTP request by a minimal client: it adds only the content length."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Mapping
from urllib.parse import urlsplit

from tests.support.curl import JSON, FetchResult
from tests.support.patience import WITHIN_S


async def plainly(
    url: str, data: str | bytes | None = None, headers: Mapping[str, str] = JSON, method: str = ""
) -> FetchResult:
    """GET, or POST `data`."""
    body = data.encode() if isinstance(data, str) else data
    return await asyncio.to_thread(
        _ask, url, body, dict(headers), method or ("GET" if body is None else "POST")
    )


def _ask(url: str, body: bytes | None, headers: dict[str, str], method: str) -> FetchResult:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=WITHIN_S)
    try:
        path = parts.path + ("?" + parts.query if parts.query else "")
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        return FetchResult(answer.status, named, answer.read().decode())
    finally:
        connection.close()
