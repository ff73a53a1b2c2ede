"""Answers of search engines in their real form, and a server for them on this machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import quote_plus

from aiohttp import web
from aiohttp.test_utils import TestServer

TITLE, TEXT = "Tides explained", "How the moon pulls the sea."
URL = "https://tides.example/moon"


def page(body: str) -> str:
    return f"<!doctype html><html><head><title>results</title></head><body>{body}</body></html>"


WIKI_LIST = json.dumps(["tides", [TITLE], [""], [URL]])
WIKI_TEXT = json.dumps({"query": {"pages": {"1": {"title": TITLE, "extract": TEXT}}}})
ATOM = f"""<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom"><title>ArXiv Query</title>
<entry><id>{URL}</id><title>Tides
  explained</title><summary> {TEXT}
</summary></entry></feed>"""
SHAPES = {
    "brave": page(
        f'<div data-type="web"><a href="{URL}"><div class="title">{TITLE}</div></a>'
        f'<div class="snippet"><div class="content">{TEXT}</div></div></div>'
    ),
    "duckduckgo": page(f'<div class="links_main body"><h2>{TITLE}</h2><a href="{URL}">{TEXT}</a></div>'),
    "grokipedia": json.dumps({"results": [{"title": TITLE, "slug": "Tides", "snippet": f"head\n\n{TEXT}"}]}),
    "mojeek": page(
        f'<ul class="results-standard"><li><h2><a href="{URL}">{TITLE}</a></h2>'
        f'<p class="s">{TEXT}</p></li></ul>'
    ),
    "startpage": page(f'<div class="result css-1"><a href="{URL}"><h2>{TITLE}</h2></a><p>{TEXT}</p></div>'),
    "wikipedia": WIKI_LIST,
    "yahoo": page(
        '<div class="dd relsrch"><div class="compTitle"><h3>'
        f'<a href="https://r.search.example/RU={quote_plus(URL)}/RK=2/RS=x">{TITLE}</a>'
        f'</h3></div><div class="compText">{TEXT}</div></div>'
    ),
    "stackexchange": json.dumps({"items": [{"title": TITLE, "link": URL, "tags": ["moon", "sea"]}]}),
    "hackernews": json.dumps({"hits": [{"title": TITLE, "url": URL, "points": 3, "objectID": "1"}]}),
    "github": json.dumps({"items": [{"full_name": "moon/tides", "html_url": URL, "description": TEXT}]}),
    "arxiv": ATOM,
    "searxng": json.dumps({"results": [{"title": TITLE, "url": URL, "content": TEXT}]}),
}
EMPTY = {
    **dict.fromkeys(SHAPES, page("<p>No results.</p>")),
    "grokipedia": '{"results": []}',
    "wikipedia": '["tides", [], [], []]',
    "stackexchange": '{"items": []}',
    "hackernews": '{"hits": []}',
    "github": '{"items": []}',
    "arxiv": '<feed xmlns="http://www.w3.org/2005/Atom"></feed>',
    "searxng": '{"results": []}',
}
CAPTCHA = page("<form><h1>Unusual traffic</h1>Please solve this captcha to go on.</form>")

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def text(body: str, status: int = 200) -> Answer:
    """Always the same answer."""

    async def answer(request: web.Request) -> web.Response:
        body_now = WIKI_TEXT if body == WIKI_LIST and "extracts" in request.query_string else body
        return web.Response(text=body_now, status=status, content_type="text/html")

    return answer


class Engines:
    """The engines on this machine. `answers` may be changed by name; `asked` records the requests."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {name: text(shape) for name, shape in SHAPES.items()}
        self.asked: dict[str, list[str]] = {}
        self.base = ""
        self.has_hung, self.is_over = asyncio.Event(), asyncio.Event()

    @property
    def urls(self) -> dict[str, str]:
        """Mirrors, by engine."""
        return {name: f"{self.base}/{name}" for name in SHAPES}

    async def never(self, request: web.Request) -> web.StreamResponse:
        """Do not answer before the end of the test."""
        self.has_hung.set()
        await self.is_over.wait()
        return web.Response()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer like the engine in the path."""
        name = request.path.split("/")[1]
        body = (await request.read()).decode()
        self.asked.setdefault(name, []).append(f"{request.path_qs} {body}".strip())
        return await self.answers[name](request)


@asynccontextmanager
async def engines() -> AsyncIterator[Engines]:
    """Serve until the block ends."""
    served = Engines()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", served.answer)
    server = TestServer(app)
    await server.start_server()
    served.base = str(server.make_url("")).rstrip("/")
    try:
        yield served
    finally:
        served.is_over.set()
        await server.close()
