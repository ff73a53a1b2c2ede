"""A real core with its dashboard on 127.0.0.1, and a reader of its events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from mcpdesk.runtime.core_process import offer_link
from tests.support.desk import RunningDesk, running_desk
from tests.support.folders import write
from tests.support.http_client import http_client
from tests.support.patience import until, within

KEY = "a-key-nobody-guesses-7Q"
OPERATOR_KEY = "the-operators-own-4Z"
AS_OPERATOR = {"X_Operator_Key": OPERATOR_KEY}
"""Headers of the operator's program."""
CODE = '''
from typing import Annotated

from mcpdesk import Context, Meta, tool


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool
async def order(ctx: Context, size: str = "") -> str:
    """Ask in a form."""
    fields = {"size": {"type": "integer", "minimum": 1, "maximum": 9}, "note": {"type": "string"}}
    schema = {"type": "object", "properties": fields, "required": ["size"]}
    answer = await ctx.elicit("How many cups?", schema)
    return f"{answer.action} {answer.content}"


@tool
async def login(ctx: Context) -> str:
    """Ask for a link to be opened."""
    answer = await ctx.elicit_url("Sign in at the shop.", "https://user@shop.example.org/in")
    return answer.action


@tool
async def hush(word: Annotated[str, Meta(extra_json_schema={"writeOnly": True})]) -> str:
    """Take something nobody should read."""
    return "taken"
'''
DRAW = '''
from mcpdesk import Context, tool


@tool
async def draw(ctx: Context, names: list[str]) -> str:
    """Make files; each holds its name."""
    for name in names:
        (ctx.folder / name).write_text(name)
        ctx.produced(name)
    return "drawn"
'''
MANIFEST = {
    "name": "shop",
    "title": "A shop",
    "builtins": ["AskUserQuestion", "BackgroundBash", "SetCallback", "Bash"],
    "approvals": {"Bash": "ask"},
}


def shop(folder: Path) -> Path:
    """A server folder with data for every part of the dashboard."""
    return write(folder, {"mcp.json": orjson.dumps(MANIFEST).decode(), "tools/shop.py": CODE})


class Dashboard:
    """The core, its URL, and an HTTP client without default headers."""

    def __init__(self, desk: RunningDesk, client: aiohttp.ClientSession) -> None:
        self.desk = desk
        self.client = client
        assert desk.host.http is not None
        self.url = desk.host.http.address

    async def get(self, path: str, **headers: str) -> aiohttp.ClientResponse:
        """GET with headers; underscores become dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.get(self.url + path, headers=named, allow_redirects=False)

    async def post(self, name: str, given: Any = None, **headers: str) -> aiohttp.ClientResponse:
        """POST to `/dashboard/<name>` with the page's headers and those in `headers`; "" removes a header."""
        named = {"Origin": self.url, "Content-Type": "application/json"}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        body = given if isinstance(given, bytes) else orjson.dumps({} if given is None else given)
        kept_headers = {name: value for name, value in named.items() if value}
        return await self.client.post(f"{self.url}/dashboard/{name}", data=body, headers=kept_headers)

    async def told(self, name: str, given: Any = None, **headers: str) -> tuple[int, dict[str, Any]]:
        """Status and JSON of a POST."""
        answer = await self.post(name, given, **headers)
        return answer.status, await answer.json()

    async def sign_in(self, word: str = OPERATOR_KEY) -> dict[str, str]:
        """Sign in as a browser does; returns the headers that its page sends from then on."""
        answer = await self.post("sign-in", {"word": word})
        assert answer.status == 200, await answer.text()
        cookie = str(answer.headers["Set-Cookie"]).partition(";")[0]
        return {"Cookie": cookie, "X_Mcpdesk_Page": str((await answer.json())["page_key"])}

    def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool from the desk; return the running call."""
        return self.desk.request("shop", "tools/call", {"name": tool, "arguments": arguments})

    async def called(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The result of a call."""
        return await self.desk.call("shop", tool, **arguments)

    async def job(self, tool: str, **arguments: Any) -> str:
        """Run a tool as a job and return its id after its end."""
        params = {"name": tool, "arguments": arguments, "mode": "async"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        async with self.client.post(f"{self.url}/v1/mcp", json=body, headers={"X-API-Key": KEY}) as answer:
            job = str((await answer.json())["result"]["job_id"])
        await until(lambda: any(each.id == job and each.state.is_final for each in self.desk.jobs()))
        return job

    async def question(self) -> int:
        """Number of the open question."""
        await until(lambda: any(each.state == "waiting" for each in self.desk.questions()))
        return next(each.id for each in self.desk.questions() if each.state == "waiting")

    @asynccontextmanager
    async def events(self, **headers: str) -> AsyncIterator[Events]:
        """An open page."""
        answer = await self.get("/dashboard/events", **headers)
        assert answer.status == 200, await answer.text()
        events = Events(answer)
        try:
            await events.event("hello")
            yield events
        finally:
            answer.close()


class Events:
    """The events of one open page, as they come."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer
        self.seen: list[tuple[str, Any]] = []

    @property
    def page(self) -> str:
        """Name of the page."""
        return str(self.last("hello")["page"])

    def last(self, name: str) -> Any:
        """The newest event of a name."""
        return next(data for seen, data in reversed(self.seen) if seen == name)

    async def next(self) -> tuple[str, Any] | None:
        """Next event, or None at the end of the stream."""
        name = ""
        while line := await self.answer.content.readline():
            if line.startswith(b"event: "):
                name = line[7:].decode().strip()
            elif line.startswith(b"data: "):
                self.seen.append((name, orjson.loads(line[6:])))
                return self.seen[-1]
        return None

    async def event(self, name: str, holds: Callable[[Any], object] = lambda _: True) -> Any:
        """First event of this name from now on for which `holds` is true."""
        async with within():
            while (event := await self.next()) is not None:
                if event[0] == name and holds(event[1]):
                    return event[1]
        raise AssertionError(f"the stream ended without {name}")


@asynccontextmanager
async def dashboard(folder: Path, *, key: str = KEY, **flags: Any) -> AsyncIterator[Dashboard]:
    """A core with the shop and its dashboard, without a desk; callers need `key` unless it is empty."""
    asked: dict[str, Any] = {"api_key": key} if key else {"no_auth": True}
    asked["operator_key"] = OPERATOR_KEY
    async with (
        running_desk(shop(folder), http=True, **asked, **flags) as desk,
        http_client(cookie_jar=aiohttp.DummyCookieJar()) as client,
    ):
        offer_link(desk.host)
        desk.attend(-1)
        yield Dashboard(desk, client)
