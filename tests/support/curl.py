"""One HTTP request from outside: with curl if it is installed, else with aiohttp."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from email.parser import Parser
from typing import Any

import aiohttp

from tests.support.patience import within

CURL = shutil.which("curl")
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class FetchResult:
    """An answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


async def fetch(
    url: str, data: str | bytes | None = None, headers: Mapping[str, str] = JSON, method: str = ""
) -> FetchResult:
    """GET, or POST `data`."""
    body = data.encode() if isinstance(data, str) else data
    ask = _by_curl if CURL else _by_aiohttp
    async with within():
        return await ask(url, body, headers, method or ("GET" if body is None else "POST"))


async def _by_curl(url: str, body: bytes | None, headers: Mapping[str, str], method: str) -> FetchResult:
    assert CURL
    given = [part for name, value in headers.items() for part in ("-H", f"{name}: {value}")]
    sent = [] if body is None else ["--data-binary", "@-"]
    process = await asyncio.create_subprocess_exec(
        CURL, "-sS", "-i", "-H", "Expect:", "-X", method, *given, *sent, url,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate(body or b"")
    assert process.returncode == 0, err.decode()
    head, _, text = out.decode().partition("\r\n\r\n")
    line, _, rest = head.partition("\r\n")
    named = {name.lower(): value for name, value in Parser().parsestr(rest).items()}
    return FetchResult(int(line.split()[1]), named, text)


async def _by_aiohttp(url: str, body: bytes | None, headers: Mapping[str, str], method: str) -> FetchResult:
    async with (
        aiohttp.ClientSession() as client,
        client.request(method, url, data=body, headers=headers) as answer,
    ):
        named = {name.lower(): value for name, value in answer.headers.items()}
        return FetchResult(answer.status, named, await answer.text())
