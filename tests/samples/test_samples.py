"""The sample folders load without warnings, and behave as they describe."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcpdesk.errors import HandlerError
from mcpdesk.hosting.folder.loader import LoadedFolder, load_folder
from mcpdesk.inbox.question import Answer, QuestionState
from mcpdesk.paths import sample_servers
from mcpdesk.server.offer.server import RequestView
from mcpdesk.server.schemas.validation import compile_schema
from mcpdesk.server.state.server_state import ServerState
from mcpdesk.tools import BUILTINS
from tests.support.features import having, needs_feature
from tests.support.patience import within
from tests.tools.support import ToolContext, use

SAMPLES = [
    *("hello", "profiles", "conformance", "chat", "wallet"),
    *having("web_tools", "desk"),
    *having("program_tools", "dataviz"),
]


@pytest.fixture(params=[*SAMPLES])
def sample(request: pytest.FixtureRequest) -> Iterator[LoadedFolder]:
    yield from opened(request.param)


@pytest.fixture
def hello() -> Iterator[LoadedFolder]:
    yield from opened("hello")


@pytest.fixture
def profiles() -> Iterator[LoadedFolder]:
    yield from opened("profiles")


@pytest.fixture
def desk() -> Iterator[LoadedFolder]:
    yield from opened("desk")


def opened(name: str) -> Iterator[LoadedFolder]:
    loaded = load_folder(sample_servers() / name, environment={})
    yield loaded
    loaded.close()


class Caller:
    """Replaces the context: stores reports and answers questions."""

    claims: Any = None

    def __init__(self, context: Any = None, answers: tuple[Answer, ...] = ()) -> None:
        self.context = context
        self.reports: list[tuple[float, float | None, str]] = []
        self._answers = answers

    async def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        self.reports.append((progress, total, message))

    async def info(self, _data: Any) -> None: ...
    async def debug(self, _data: Any) -> None: ...

    async def ask(self, _pages: Any) -> Any:
        state = QuestionState.ANSWERED if self._answers else QuestionState.DECLINED
        return SimpleNamespace(state=state, answers=self._answers, reason="")


async def call(loaded: LoadedFolder, name: str, caller: Caller | None = None, /, **arguments: Any) -> Any:
    tool = next(tool for tool in loaded.tools if tool.name == name)
    accepts = compile_schema(tool.input_schema)
    assert accepts.failures(arguments) == []
    async with within():
        return await tool.handler(arguments, caller or Caller())


def test_samples_are_without_fault(sample: LoadedFolder) -> None:
    assert sample.problems == ()
    assert [name for name in sample.manifest.builtins if name not in BUILTINS] == []
    items: list[Any] = [*sample.tools, *sample.prompts, *sample.templates]
    for item in items:
        assert item.title or item.description, item
    for tool in sample.tools:
        compile_schema(tool.input_schema)
        described = tool.input_schema.get("properties", {}).values()
        assert all(each.get("description") for each in described) or tool.name == "greet", tool.name


def test_only_the_tool_without_its_variable_is_unavailable(sample: LoadedFolder) -> None:
    expected = {"profiles": ["send-mail"], "wallet": ["mint"]}.get(sample.manifest.name, [])
    assert [each.name for _, each in sample.unavailable] == expected


async def test_hello_greets_and_counts(hello: LoadedFolder) -> None:
    assert await call(hello, "greet", name="Ann", language="german", loudly=True) == "HALLO, ANN!"
    count = await call(hello, "word-count", text="one three")
    assert (count.words, count.characters, count.longest) == (2, 9, "three")


async def test_hello_asks_a_person(hello: LoadedFolder) -> None:
    answers = (Answer(("Assam",)), Answer(("Milk",), "honey"))
    assert (
        await call(hello, "order-tea", Caller(answers=answers)) == "One Assam with Milk and honey, coming up."
    )
    with pytest.raises(HandlerError, match="declined"):
        await call(hello, "order-tea", Caller())


async def test_profiles_injects_who_asks(profiles: LoadedFolder) -> None:
    assert profiles.create_context is not None
    headers = {"x-request-id": "r-1", "x-user-id": "124"}
    made = await profiles.create_context(RequestView("tools/call", "http", "curl", headers=headers))
    answer = await call(profiles, "user-profile", Caller(made), userId="123")
    assert answer == {
        "userId": "123",
        "name": "Ada Lovelace",
        "email": "ada@example.org",
        "role": "analyst",
        "requestedBy": "124",
        "requestId": "r-1",
    }
    tool = profiles.tools[0]
    assert tool.output_schema is not None
    assert compile_schema(tool.output_schema).accepts(answer)
    piped = await profiles.create_context(
        RequestView("tools/call", "stdio", "x", environment={"USER": "125"})
    )
    assert (await call(profiles, "user-profile", Caller(piped)))["name"] == "Alan Turing"


async def test_desk_plans_a_trip(desk: LoadedFolder) -> None:
    plan = await call(
        desk,
        "plan-trip",
        destination="Lisbon",
        days=2,
        start="2026-06-01",
        travellers=[{"name": "A"}, {"name": "B"}],
    )
    assert plan.headline == "2 days in Lisbon for 2"
    assert plan.days[0].startswith("Mon 01 Jun: food")
    assert plan.cost_per_person == 750


async def test_desk_asks_for_tea(desk: LoadedFolder) -> None:
    with pytest.raises(HandlerError, match="No tea"):
        await call(desk, "choose-tea")


async def test_desk_brews_and_fails_and_draws(desk: LoadedFolder) -> None:
    caller = Caller()
    assert await call(desk, "brew-coffee", caller, seconds=0) == "2 cups of coffee, still hot."
    assert [report[0] for report in caller.reports] == [0, 1, 2, 3, 4, 5]
    with pytest.raises(HandlerError, match="400 are missing"):
        await call(desk, "withdraw-cash", amount=500)
    with pytest.raises(ZeroDivisionError):
        await call(desk, "crash-on-purpose")
    assert await call(desk, "freeze", seconds=0) == "The server was blocked for 0.0 seconds."
    drawn = await call(desk, "swatch", colour="#ff0000")
    assert [block["type"] for block in drawn] == ["text", "image"]


async def test_desk_has_a_picture_and_clocks(desk: LoadedFolder) -> None:
    picture = next(item for item in desk.resources if item.name == "picture")
    assert picture.mime_type == "image/png"
    context: Any = Caller()
    assert (await picture.reader(picture.uri, {}, context)).startswith(b"\x89PNG")
    (clock,) = desk.templates
    told = await clock.reader("clock://zones/UTC/x", {"area": "Europe", "city": "Berlin"}, context)
    assert told["zone"] == "Europe/Berlin"


@needs_feature("web_tools")
async def test_desk_has_every_built_in_tool_and_a_skill_that_is_filled_in(tmp_path: Path) -> None:
    manifest = json.loads((sample_servers() / "desk" / "mcp.json").read_text())
    assert sorted(manifest["builtins"]) == sorted(BUILTINS)
    home = ServerState(tmp_path, tmp_path / "state", [sample_servers() / "desk" / "skills"])
    skill = await use("InvokeSkill", ToolContext(home=home), skill_name="try-a-server", arguments="the shop")
    assert skill.structured is not None and "Try a server out: the shop" in skill.structured["instructions"]
    assert [file["path"] for file in skill.structured["files"]] == ["report.md"]
