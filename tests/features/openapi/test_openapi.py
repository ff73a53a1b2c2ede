"""`mcpdesk new --from-openapi`: folders whose tools call a service, tried against one that listens."""

from __future__ import annotations

import ast
import asyncio
import base64
import contextlib
import copy
import json
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from msgspec.structs import replace

from mcpdesk.cli.authoring.new import new_command
from mcpdesk.cli.main import COMMANDS
from mcpdesk.errors import DeskUserError
from mcpdesk.features.openapi import api_document, api_folder
from mcpdesk.features.openapi.api_document import read_document
from mcpdesk.features.openapi.api_folder import ApiFolder, make_api_folder
from mcpdesk.testing import CallAnswer, ServerUnderTest, find_cases
from tests.support.folders import write

SHOP = Path(__file__).parent / "tea_shop.yaml"
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Service:
    """A small service that records its requests and sends the answers set by a test."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.over = asyncio.Event()
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(
            {
                "line": f"{request.method} {request.raw_path}",
                "headers": dict(request.headers),
                "body": (await request.read()).decode(),
            }
        )
        path = request.path.removeprefix("/api")
        if path == "/teas/none":
            return web.json_response({"message": "no such tea"}, status=404)
        if path == "/teas/broken":
            return web.Response(text="{", content_type="application/json")
        if path == "/teas/picture":
            return web.Response(body=PICTURE, content_type="image/png")
        if path == "/teas/moved":
            raise web.HTTPFound("http://elsewhere.example/")
        if path == "/teas/huge":
            return web.Response(body=b"x" * 5_000_000)
        if path == "/teas/slow":
            await self.over.wait()
        if request.method == "DELETE":
            return web.Response(status=204)
        return web.json_response({"teas": ["Assam"]})


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    """The service, listening."""
    kept = Service()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", kept.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    kept.url = f"http://127.0.0.1:{port}/api"
    yield kept
    kept.over.set()
    await runner.cleanup()


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The folder of the tea shop."""
    return made(tmp_path, read(SHOP))


def read(file: Path, **chosen: Any) -> ApiFolder:
    return make_api_folder(read_document(file, **chosen), "shop")


def made(tmp_path: Path, folder: ApiFolder) -> Path:
    place = tmp_path / "shop"
    for path, text in folder.files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    return place


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, service: Service) -> None:
    """Variables with the address of the service and its keys."""
    monkeypatch.setenv("SHOP_URL", service.url)
    monkeypatch.setenv("SHOP_KEY", "k-1")
    monkeypatch.setenv("SHOP_TOKEN", "t-2")
    monkeypatch.setenv("SHOP_USER_AND_PASSWORD", "ada:secret")


async def call(shop: Path, tool: str, **arguments: Any) -> CallAnswer:
    def calling() -> CallAnswer:
        with ServerUnderTest(shop) as server:
            return server.call(tool, arguments)

    return await asyncio.to_thread(calling)


async def refused(shop: Path, tool: str, **arguments: Any) -> str:
    """The error a call ends with."""
    error = (await call(shop, tool, **arguments)).error
    assert error is not None
    return error


@pytest.mark.sampled(4)
@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("tool", "arguments", "line", "headers", "body"),
    [
        ("list-teas", {}, "GET /api/teas?limit=20&all=false", {}, ""),
        (
            "list-teas",
            {
                "limit": 3,
                "kind": ["green", "black"],
                "max_price": 2.5,
                "all": True,
                "filter": {"a b": "c&d"},
                "ids": [1, 2],
            },
            "GET /api/teas?limit=3&kind=green&kind=black&maxPrice=2.5&all=true&filter%5Ba+b%5D=c%26d&ids=1,2",
            {},
            "",
        ),
        ("get-tea", {"tea_id": "a/b é"}, "GET /api/teas/a%2Fb%20%C3%A9", {"X-Shop-Key": "k-1"}, ""),
        (
            "create-tea",
            {"name": "Assam", "kind": "black", "origin": {"country": "India", "inside": {}}},
            "POST /api/teas",
            {"X-Shop-Key": "k-1", "Content-Type": "application/json"},
            '{"name": "Assam", "kind": "black", "origin": {"country": "India", "inside": {}}}',
        ),
        (
            "change-teas-by-tea-id",
            {"tea_id": "1", "x_reason": "dear", "session": "a;b", "body": {"price": None}},
            "PATCH /api/teas/1",
            {
                "X-Reason": "dear",
                "Cookie": "session=a%3Bb",
                "Content-Type": "application/merge-patch+json",
            },
            '{"price": null}',
        ),
        ("delete-tea", {"tea_id": "1"}, "DELETE /api/teas/1", {"Authorization": "Bearer t-2"}, ""),
        (
            "search",
            {"page": {"from": 2}, "where": {"x": [1]}},
            "GET /api/search?from=2&where=%7B%22x%22:+%5B1%5D%7D",
            {"Authorization": "Basic " + base64.b64encode(b"ada:secret").decode()},
            "",
        ),
        ("search-by-form", {"words": "a b", "exact": True}, "POST /api/search", {}, "words=a+b&exact=true"),
        ("say", {"body": "Hello, tea"}, "PUT /api/search", {}, "Hello, tea"),
        (
            "order",
            {"lines": [{"tea": "Assam", "grams": 50, "gift": True}]},
            "POST /api/orders",
            {},
            '{"lines": [{"tea": "Assam", "grams": 50, "gift": true}]}',
        ),
    ],
)
async def test_a_call_is_what_the_document_says(
    shop: Path,
    service: Service,
    tool: str,
    arguments: dict[str, Any],
    line: str,
    headers: dict[str, str],
    body: str,
) -> None:
    answer = await call(shop, tool, **arguments)
    assert answer.error is None, answer
    [asked] = service.asked
    assert (asked["line"], asked["body"]) == (line, body)
    assert headers.items() <= asked["headers"].items()
    assert answer.text == "204 No Content" if tool == "delete-tea" else answer.structured["teas"] == ["Assam"]


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("tea", "told"),
    [
        ("none", 'GET /teas/{teaId} answered 404 Not Found: {"message": "no such tea"}'),
        ("broken", "answered with JSON that cannot be read: {"),
        ("moved", "GET /teas/{teaId} answered 302 Found: 302: Found"),
        ("huge", "more than 4,194,304 bytes"),
        ("..", "teaId cannot be '..'"),
        ("", "teaId cannot be ''"),
    ],
)
async def test_what_the_service_refuses_is_an_error_of_the_tool(shop: Path, tea: str, told: str) -> None:
    said = await refused(shop, "get-tea", tea_id=tea)
    assert told in said and "k-1" not in said


@pytest.mark.usefixtures("environment")
async def test_a_service_that_is_slow_or_away_is_told(
    shop: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (shop / "service.py").read_text()
    (shop / "service.py").write_text(text.replace("TIMEOUT_S = 20.0", "TIMEOUT_S = 0.2"))
    assert "did not answer within 0.2 s" in await refused(shop, "get-tea", tea_id="slow")
    monkeypatch.setenv("SHOP_URL", "http://127.0.0.1:9")
    assert "The service cannot be called: ClientConnectorError" in await refused(shop, "list-teas")
    header = await refused(shop, "change-teas-by-tea-id", tea_id="1", x_reason="a\r\nX-Shop-Key: b")
    assert "X-Reason must be one line of text" in header


@pytest.mark.usefixtures("environment")
async def test_a_picture_comes_as_one(shop: Path) -> None:
    def calling() -> dict[str, Any]:
        with ServerUnderTest(shop) as server:
            return server.request("tools/call", {"name": "get-tea", "arguments": {"tea_id": "picture"}})

    [block] = (await asyncio.to_thread(calling))["content"]
    assert (block["type"], base64.b64decode(block["data"])) == ("image", PICTURE)


def test_tools_whose_key_is_not_set_are_not_offered(shop: Path) -> None:
    with ServerUnderTest(shop) as server:
        assert {tool["name"] for tool in server.request("tools/list")["tools"]} == {
            "list-teas",
            "search-by-form",
            "say",
        }


@pytest.mark.usefixtures("environment")
def test_what_hints_say_is_what_clients_are_told(shop: Path) -> None:
    with ServerUnderTest(shop) as server:
        tools = {tool["name"]: tool for tool in server.request("tools/list")["tools"]}
    assert set(tools) == {
        "list-teas", "create-tea", "get-tea", "delete-tea", "change-teas-by-tea-id", "order", "search",
        "search-by-form", "say",
    }  # fmt: skip
    listing = tools["list-teas"]
    assert (listing["title"], listing["annotations"]) == ("List teas", {"readOnlyHint": True})
    assert listing["description"].startswith("List what is sold, the cheapest first.")
    assert listing["inputSchema"]["properties"]["limit"] == {
        "type": "integer",
        "description": "The most teas.",
        "minimum": 1,
        "maximum": 100,
        "default": 20,
    }
    created = tools["create-tea"]["inputSchema"]
    assert created["required"] == ["name", "kind"] and "id" not in created["properties"]
    assert created["properties"]["price"]["exclusiveMinimum"] == 0
    assert created["properties"]["kind"]["enum"] == ["green", "black", "oolong"]
    assert created["$defs"]["Place"]["properties"]["inside"]["$ref"] == "#/$defs/Place"
    line = tools["order"]["inputSchema"]["$defs"]["Line"]
    assert set(line["required"]) == {"tea", "grams"}
    assert tools["delete-tea"]["annotations"] == {"destructiveHint": True, "idempotentHint": True}


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_the_folder_passes_the_checks_of_authors(shop: Path) -> None:
    """`check --strict`, its own cases, ruff and mypy, as its maintainer would run them."""
    assert [case.name for case in find_cases(shop / "cases")] == [
        "read about the service",
        "search-by-form needs words",
        "say needs body",
    ]
    for command in (
        (*DESK, "check", ".", "--strict"),
        (*DESK, "test", "."),
        (sys.executable, "-m", "ruff", "check", "--isolated", "--line-length", "100", "."),
        (sys.executable, "-m", "ruff", "format", "--isolated", "--check", "--line-length", "100", "."),
        (sys.executable, "-m", "mypy", "--strict", "."),
    ):
        done = subprocess.run(command, cwd=shop, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


DESK = (sys.executable, "-m", "mcpdesk")


def document(**members: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "paths": {}, **members}


def operation(**members: Any) -> dict[str, Any]:
    return {"responses": {}, **members}


def file(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "api.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def functions(folder: ApiFolder) -> dict[str, str]:
    """The signature of each tool, without its context."""
    found = {}
    for path, text in folder.files.items():
        if path.startswith("tools/"):
            for node in ast.parse(text).body:
                if isinstance(node, ast.AsyncFunctionDef):
                    found[node.name] = ast.unparse(node.args).removeprefix("ctx: Context").removeprefix(", ")
    return found


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        ({"type": ["string", "null"]}, "str | None"),
        ({"type": "string", "enum": ["a", None]}, "Literal['a'] | None"),
        ({"const": 3}, "Literal[3]"),
        ({"type": "number", "enum": [1.5]}, "float"),
        ({"type": "integer", "exclusiveMinimum": 0, "maximum": 9}, "Annotated[int, Meta(gt=0, le=9)]"),
        (
            {"type": "string", "pattern": "^a", "maxLength": 3},
            "Annotated[str, Meta(max_length=3, pattern='^a')]",
        ),
        ({"type": "string", "pattern": "(?<bad"}, "str"),
        ({"type": "array", "items": {"type": "array", "items": {}}}, "list[list[Any]]"),
        ({"type": "array"}, "list[Any]"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "str | int"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "str | None"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "float"),
        ({"oneOf": [{"type": "object"}, {"type": "object", "properties": {"a": {}}}]}, "dict[str, Any]"),
        ({"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 2}]}, "Any"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": True}, "dict[str, Any]"),
        ({"allOf": [{"type": "string"}]}, "str"),
        ({}, "Any"),
        (True, "Any"),
    ],
)
def test_schemas_become_hints(tmp_path: Path, schema: Any, hint: str) -> None:
    parameter = {"name": "p", "in": "query", "required": True, "schema": schema}
    paths = {"/x": {"get": operation(operationId="x", parameters=[parameter])}}
    assert functions(read(file(tmp_path, document(paths=paths)))) == {"x": f"p: {hint}"}


@pytest.mark.slow
def test_a_document_of_fastapi_becomes_what_its_author_wrote(tmp_path: Path) -> None:
    """Ids end with path and method, what may be left out may be null, and a class refers to itself."""
    text, null = {"type": "string"}, {"type": "null"}
    item = {
        "type": "object",
        "required": ["title"],
        "properties": {
            "title": text,
            "due": {"anyOf": [{**text, "format": "date-time"}, null]},
            "parent": {"anyOf": [{"$ref": "#/components/schemas/Item"}, null]},
        },
    }
    body = {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Item"}}},
    }
    identity = {"name": "item_id", "in": "path", "required": True, "schema": {"type": "integer"}}
    paths = {
        "/items": {"post": operation(operationId="add_item_items_post", requestBody=body)},
        "/items/{item_id}": {
            "put": operation(
                operationId="change_item_items__item_id__put", parameters=[identity], requestBody=body
            )
        },
    }
    folder = read(file(tmp_path, document(paths=paths, components={"schemas": {"Item": item}})))
    assert functions(folder) == {
        "add_item": "title: str, due: str | None=None, parent: Item | None=None",
        "change_item": "item_id: int, body: Item",
    }
    place = made(tmp_path, folder)
    ruff = (
        sys.executable,
        "-m",
        "ruff",
        "format",
        "--isolated",
        "--check",
        "--line-length",
        "100",
        str(place),
    )
    for command in ((*DESK, "check", str(place)), ruff):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


def test_names_are_valid_and_unique(tmp_path: Path) -> None:
    names = ["class", "class_", "2nd", "ctx", "über", "💥", "aB", "a_b", "a-b", "self"]
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names]
    paths = {
        "/a": {"get": operation(operationId="do it!"), "put": operation(operationId="do-it")},
        "/b/{c}": {"get": operation(parameters=[{"name": "c", "in": "path"}, {"name": "c", "in": "query"}])},
        "/" + "long/" * 30: {"get": operation()},
        "/c": {"get": operation(operationId="import", parameters=parameters)},
    }
    found = functions(read(file(tmp_path, document(paths=paths))))
    assert list(found)[:3] == ["do_it", "do_it_2", "get_b_by_c"]
    assert found["get_b_by_c"].startswith("c: Any, c_in_query: Any")
    given = [part.partition(":")[0] for part in found["import_"].split(", ")]
    assert len(set(given)) == len(names) and all(each.isidentifier() for each in given)
    assert all(len(f"mcp__shop__{name}") <= 64 for name in found)


@pytest.mark.slow
def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    hostile = '"""\nimport os; os.system("touch /tmp/hostile")\n"""\\'
    paths = {
        '/x"); boom("{id}': {
            "get": operation(
                operationId=hostile,
                tags=["../../etc/" + hostile],
                summary=hostile,
                description=hostile,
                parameters=[
                    {"name": "id", "in": "path", "description": hostile, "schema": {"default": hostile}},
                    {"name": 'q"]=1};boom({"', "in": "query", "schema": {"enum": [hostile, "\x1b]0;x\x07"]}},
                    {"name": "deep{x}", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
                ],
            ),
            "post": operation(
                operationId="p",
                requestBody={
                    "content": {
                        "application/json": {
                            "schema": {
                                "title": hostile,
                                "description": hostile,
                                "properties": {hostile: {"description": hostile}, "__dunder": {}, "b": None},
                            }
                        }
                    }
                },
            ),
            "put": operation(parameters=[{"name": "X-A\r\nB", "in": "header"}, {"name": "id", "in": "path"}]),
        }
    }
    schemes = {hostile: {"type": "apiKey", "in": "query", "name": hostile}}
    content = document(
        info={"title": hostile, "version": hostile, "description": hostile},
        servers=[{"url": "https://a.example/" + hostile}],
        paths=paths,
        components={"securitySchemes": schemes},
        security=[{hostile: []}],
    )
    folder = read(file(tmp_path, content))
    for path, text in folder.files.items():
        assert ".." not in path and path.count("/") <= 1
        assert "\x1b" not in text
        if path.endswith(".py"):
            calls = {
                ast.unparse(node.func) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)
            }
            assert not calls & {"os.system", "boom"}
        elif path.endswith(".yaml"):
            assert len(yaml.safe_load(text)) >= 1
    assert [each.partition(" has")[0] for each in folder.left_out if "header" in each]
    place = made(tmp_path, folder)
    done = subprocess.run(
        [*DESK, "check", str(place)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("environment")
async def test_values_are_sent_in_the_style_of_their_parameters(tmp_path: Path, service: Service) -> None:
    texts, pairs = {"type": "array", "items": {"type": "string"}}, {"type": "object"}

    def parameter(name: str, place: str, schema: Any, **more: Any) -> dict[str, Any]:
        return {"name": name, "in": place, "schema": schema, "required": True, **more}

    path = "/{l}/{le}/{m}/{me}/{t}/{s}"
    given = [
        parameter("l", "path", texts, style="label"),
        parameter("le", "path", texts, style="label", explode=True),
        parameter("m", "path", texts, style="matrix"),
        parameter("me", "path", texts, style="matrix", explode=True),
        parameter("t", "path", {"type": "string"}, style="matrix"),
        parameter("s", "path", pairs),
        parameter("q", "query", pairs, explode=False),
        parameter("X-H", "header", pairs, explode=True),
    ]
    fields = {"type": "object", "properties": {"n": {"type": "array", "items": {"type": "integer"}}}}
    body = {"content": {"application/x-www-form-urlencoded": {"schema": fields}}}
    made_of = document(
        paths={path: {"post": operation(operationId="send", parameters=given, requestBody=body)}}
    )
    place = made(tmp_path, read(file(tmp_path, made_of)))
    arguments: dict[str, Any] = {name: ["a", "b"] for name in ("l", "le", "m", "me")}
    answer = await call(place, "send", **arguments, t="c", s={"x": 1}, q={"y": 2}, x_h={"z": 3}, n=[1, 2])
    assert answer.error is None, answer
    [asked] = service.asked
    line = asked["line"].replace("%3B", ";").replace("%3D", "=").replace("%2C", ",")
    assert line == "POST /api/.a,b/.a.b/;m=a,b/;me=a;me=b/;t=c/x,1?q=y,2"
    assert asked["headers"]["X-H"] == "z=3" and asked["body"] == "n=1&n=2"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "invalid JSON"),
        ("a: [", "invalid YAML"),
        ("", "it is empty"),
        ("<!doctype html><title>Swagger UI</title>", "it is a web page"),
        ("// notes" + chr(10) + "{}", "invalid JSON"),
        ("[]", "it has no member openapi"),
        ({"swagger": "2.0"}, "it is Swagger 2.0"),
        ({"openapi": "4.0.0"}, "openapi is '4.0.0'"),
        (document(), "has no operation that can be a tool"),
        ("[" * 100_000, "invalid YAML"),
    ],
)
def test_what_is_no_document_is_told(tmp_path: Path, content: Any, told: str) -> None:
    with pytest.raises(DeskUserError, match=r"api\.json") as refused:
        read(file(tmp_path, content))
    assert told in str(refused.value)


def test_a_document_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_document, "MAX_BYTES", 10)
    with pytest.raises(DeskUserError, match="may have 10"):
        read(file(tmp_path, document()))


@pytest.mark.parametrize("place", ["parameter", "items", "body"])
def test_references_that_lead_nowhere_leave_their_operation_out(place: str, tmp_path: Path) -> None:
    def asking(reference: str) -> dict[str, Any]:
        schema: dict[str, Any] = {"$ref": reference}
        if place == "body":
            body = {"content": {"application/json": {"schema": schema}}}
            return {"post": operation(operationId=reference, requestBody=body)}
        if place == "items":
            schema = {"type": "array", "items": schema}
        return {
            "get": operation(
                operationId=reference, parameters=[{"name": "p", "in": "query", "schema": schema}]
            )
        }

    schemas = {"a": {"$ref": "#/components/schemas/b"}, "b": {"$ref": "#/components/schemas/a"}}
    paths = {
        "/1": asking("other.yaml#/x"),
        "/2": asking("#/components/schemas/none"),
        "/3": asking("#/components/schemas/a"),
        "/4": {"get": operation(operationId="good")},
    }
    folder = read(file(tmp_path, document(paths=paths, components={"schemas": schemas})))
    assert folder.tools == ("good",)
    assert [each.split(" ", 1)[1] for each in folder.left_out] == [
        "refers to another file: other.yaml#/x",
        "refers to a missing definition: #/components/schemas/none",
        "refers in a circle: #/components/schemas/b",
    ]


@pytest.mark.slow
def test_schemas_that_multiply_are_bounded(tmp_path: Path) -> None:
    again = {"$ref": "#/components/schemas/X"}
    schemas = {
        "X": {"allOf": [again, again, {"properties": {"a": {"description": "\x00", "anyOf": [again] * 9}}}]},
        "Y": {"oneOf": [{"type": "array", "items": {"$ref": "#/components/schemas/Y"}}] * 9},
    }
    parameters = [
        {"name": name, "in": "query", "schema": {"$ref": f"#/components/schemas/{name}"}} for name in schemas
    ]
    paths = {"/x": {"get": operation(operationId="x", parameters=parameters)}}
    assert list(functions(read(file(tmp_path, document(paths=paths, components={"schemas": schemas}))))) == [
        "x"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_documents_with_anything_anywhere_are_told_or_become_code(tmp_path: Path, seed: int) -> None:
    rng, whole = random.Random(seed), yaml.safe_load(SHOP.read_text())
    places = list(inner(whole))
    for _ in range(25):
        damaged = copy.deepcopy(whole)
        for place in rng.sample(places, rng.randint(1, 6)):
            with contextlib.suppress(LookupError, TypeError):
                *way, last = place
                target: Any = damaged
                for step in way:
                    target = target[step]
                target[last] = copy.deepcopy(rng.choice(ANYTHING))
        path = tmp_path / "damaged.yaml"
        path.write_text(yaml.safe_dump(damaged))
        with contextlib.suppress(DeskUserError):
            folder = read(path)
            functions(folder)
            json.loads(folder.files["mcp.json"])
            assert yaml.safe_load(folder.files["cases/offline.yaml"])


ANYTHING: list[Any] = [
    None, True, 0, -1, 1.5, float("inf"), 10**30, "", "x", "\u202e\x00", [], {}, [1],
    {"$ref": "#/components/schemas/Tea"}, {"$ref": "#/nope"}, {"$ref": 5}, {"type": ["string", 3, None]},
    {"allOf": [{"$ref": "#/components/schemas/Order"}] * 3}, {"enum": [[], {}, None]},
    {"type": "object", "properties": {"a b": {}, "1": None}},
]  # fmt: skip


def inner(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything in a document."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*place, key)
        yield from inner(value[key], (*place, key))


def test_operations_are_chosen_by_tag_and_id(tmp_path: Path) -> None:
    assert read(SHOP, tags=["orders"]).tools == ("order",)
    assert read(SHOP, operations=["old", "getTea"]).tools == ("get-tea", "old")
    for chosen, told in (({"tags": ["x"]}, "no tag 'x'"), ({"operations": ["y"]}, "no operation 'y'")):
        with pytest.raises(DeskUserError, match=told):
            read(SHOP, **chosen)


@pytest.mark.slow
def test_new_makes_the_folder_and_says_what_is_missing(tmp_path: Path) -> None:
    def new(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*DESK, "new", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
        )

    done = new("shop", "--from-openapi", str(SHOP))
    assert done.returncode == 0, done.stderr
    assert "9 tools call Tea Shop." in done.stdout
    assert (
        "  upload takes a body of application/octet-stream, which is not supported\n  old is deprecated\n"
        in done.stdout
    )
    assert "  export SHOP_KEY=...\n  export SHOP_TOKEN=...\n" in done.stdout
    paths = {f"/{n}": {"get": operation(operationId=f"o{n}", tags=[f"t{n % 3}"])} for n in range(81)}
    large = file(tmp_path, document(paths=paths))
    refused = new("large", "--from-openapi", str(large))
    assert refused.returncode == 2 and "81 operations are more than the 80 tools" in refused.stderr
    assert "Tags: t0 27, t1 27, t2 27." in refused.stderr and not (tmp_path / "large").exists()
    assert new("large", "--from-openapi", str(large), "--tags", "t0,t2").returncode == 0
    assert "--with selects example files" in new("x", "--from-openapi", str(SHOP), "--with", "tools").stderr
    assert "--from-openapi FILE" in new("x", "--tags", "a").stderr


def test_a_service_without_an_address_asks_for_one(tmp_path: Path) -> None:
    paths = {"/x": {"get": operation(operationId="x")}}
    folder = read(file(tmp_path, document(paths=paths, servers=[{"url": "/v1"}])))
    assert folder.variables == ("SHOP_URL",)
    write(tmp_path / "s", dict(folder.files))
    with ServerUnderTest(tmp_path / "s") as server:
        assert server.request("tools/list")["tools"] == []


SHADOWS = """
openapi: 3.0.3
info: {title: Shadows, version: "1"}
servers: [{url: "http://127.0.0.1:9"}]
paths:
  /a:
    get: {operationId: list, responses: {}}
    put: {operationId: call, responses: {}}
    post: {operationId: tool, responses: {}}
    delete:
      operationId: dict
      parameters: &several
        - {name: str, in: header, schema: {type: array, items: {type: string}}}
        - {name: map, in: query, schema: {type: object, properties: {type: {type: string}}}}
        - {name: call, in: query, schema: {type: string}}
        - {name: tool, in: query, schema: {type: string}}
      responses: {}
    patch: {operationId: dumps, parameters: *several, responses: {}}
    head: {operationId: isinstance, parameters: *several, responses: {}}
"""


def test_no_function_shadows_a_name_its_module_uses(tmp_path: Path) -> None:
    file = tmp_path / "shadows.yaml"
    file.write_text(SHADOWS)
    place = made(tmp_path, read(file))
    with ServerUnderTest(place) as server:
        names = [tool["name"] for tool in server.request("tools/list")["tools"]]
        assert sorted(names) == ["call", "dict", "dumps", "isinstance", "list", "tool"]
        answers = [server.call(name, {}) for name in names]
        answers.append(server.call("dict", {"str": ["a", "b"], "tool": "x"}))
    assert all("The service cannot be called" in str(answer.error) for answer in answers)


NORWAY = """
openapi: 3.0.3
info: {title: Norway, version: 1.10}
servers: [{url: "http://127.0.0.1:9"}]
paths:
  /a:
    get:
      operationId: a
      parameters:
        - {name: country, in: query, schema: {type: string, enum: [NO, SE, y, Off]}}
        - {name: zip, in: query, schema: {type: string, enum: [01067, -007]}}
        - {name: day, in: query, schema: {type: string, default: 2024-01-31}}
        - {name: at, in: query, schema: {type: string, default: 12:30:00}}
        - {name: count, in: query, schema: {type: integer, default: 12}}
      requestBody:
        content:
          application/json:
            schema: {type: object, properties: {on: {type: boolean}, null: {type: string}, 1: {type: string}}}
      responses: {200: {}}
"""


def test_yaml_is_read_as_version_1_2(tmp_path: Path) -> None:
    file = tmp_path / "norway.yaml"
    file.write_text(NORWAY)
    text = read(file).files["tools/operations.py"]
    assert 'Literal["NO", "SE", "y", "Off"]' in text and 'Literal["01067", "-007"]' in text
    assert '"2024-01-31"' in text and '"12:30:00"' in text and "count: int = 12" in text
    assert all(key in text for key in ('"on": ', '"null": ', '"1": '))


def test_a_path_in_another_file_is_left_out_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "parts.json"
    paths = {"/a": {"$ref": "./a.yaml"}, "/b": {"get": {"operationId": "b", "responses": {}}}}
    file.write_text(json.dumps({"openapi": "3.0.0", "info": {}, "paths": paths}))
    assert read(file).left_out == ("/a refers to another file: ./a.yaml",)


@pytest.mark.parametrize(("missing", "finder"), [((), "`mcpdesk check "), (("check", "test"), "the desk ")])
def test_new_fails_when_the_check_of_the_new_folder_does(
    missing: tuple[str, ...],
    finder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def broken(document: Any, name: str) -> ApiFolder:
        folder = make_api_folder(document, name)
        tools = "from mcpdesk import tool\n\n\n@tool\nasync def oops(a: 1): ...\n"
        return replace(folder, files={**folder.files, "tools/operations.py": tools})

    monkeypatch.setattr(api_folder, "make_api_folder", broken)
    file = tmp_path / "norway.yaml"
    file.write_text(NORWAY)
    for command in missing:
        monkeypatch.delitem(COMMANDS, command, raising=False)
    arguments = [str(tmp_path / "norway"), "--from-openapi", str(file)]
    assert new_command.main(arguments, standalone_mode=False) == 1
    shown = capfd.readouterr()
    assert "tools/operations.py:" in shown.err and f"and {finder}" in shown.err
    assert ("mcpdesk test" in shown.out) is ("test" in COMMANDS)
