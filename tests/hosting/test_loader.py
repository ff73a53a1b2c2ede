"""Loading of whole server folders: items, omissions with reasons, and items kept by a second load."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcpdesk.errors import HandlerError
from mcpdesk.hosting.folder.file_items import name_of
from mcpdesk.hosting.folder.loader import LoadedFolder, load_folder
from mcpdesk.server.offer.registry import Unavailable
from mcpdesk.server.offer.server import RequestView
from tests.support.folders import write
from tests.support.module import found_in

Load = Callable[..., LoadedFolder]
REQUEST = RequestView("tools/call", "memory", "test")


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Writes files into one folder and loads it, each time on top of the time before."""
    loads: list[LoadedFolder] = []

    def again(files: dict[str, str], environment: dict[str, str] | None = None) -> LoadedFolder:
        write(tmp_path, files)
        loads.append(load_folder(tmp_path, loads[-1] if loads else None, environment or {}))
        return loads[-1]

    yield again
    if loads:
        loads[-1].close()


async def call(loaded: LoadedFolder, name: str, context: Any = None, **arguments: Any) -> Any:
    tool = next(tool for tool in loaded.tools if tool.name == name)
    return await tool.handler(arguments, context or SimpleNamespace(context=None))


def names(items: list[Any]) -> list[str]:
    return [item.name for item in items]


def out(loaded: LoadedFolder) -> dict[str, Unavailable]:
    return {each.name: each for _, each in loaded.unavailable}


ONE_OF_EACH = {
    "mcp.json": '{"name": "shop"}',
    "tools/add_up.py": "import helper\nasync def add_up(a: int, b: int = 1): return a + b + helper.N",
    "helper.py": "N = 100",
    "resources/read-me.md": "---\ntitle: Read me\n---\n# Hi",
    "resources/clock.py": """
        from mcpdesk import resource
        @resource("clock://now")
        async def now(): return "noon"
        @resource("clock://{zone}")
        async def zone(zone: str): return zone
        """,
    "prompts/ask.md": "Tell me about {{topic}}",
    "context.py": "async def create_context(request): return request.peer",
}


@pytest.mark.parametrize("base", ["", "src/"])
async def test_everything_is_found_in_the_folder_and_under_src(load: Load, base: str) -> None:
    loaded = load({name if name == "mcp.json" else base + name: text for name, text in ONE_OF_EACH.items()})
    assert loaded.manifest.name == "shop"
    assert (names(loaded.tools), names(loaded.prompts)) == (["add-up"], ["ask"])
    assert [item.uri for item in loaded.resources] == ["clock://now", "resource://read-me"]
    assert [item.uri_template for item in loaded.templates] == ["clock://{zone}"]
    assert loaded.resources[1].path == f"{base}resources/read-me.md"
    assert (loaded.unavailable, loaded.problems) == ([], ())
    assert await call(loaded, "add-up", a=1) == 102
    assert loaded.create_context is not None
    assert await loaded.create_context(REQUEST) == "test"


@pytest.mark.parametrize(
    ("text", "reason", "source"),
    [
        ("def broken(:", "SyntaxError: invalid syntax", "tools/bad.py:1"),
        ("\nimport nowhere_to_be_found", "ModuleNotFoundError: No module named", "tools/bad.py:2"),
        ("import helper\nhelper.crash()", "ZeroDivisionError: division by zero", "helper.py:2"),
        ("import sys\nsys.exit(3)", "SystemExit: 3", "tools/bad.py:2"),
        ("import asyncio\nraise asyncio.CancelledError", "CancelledError", "tools/bad.py:2"),
        (
            "class Mute(Exception):\n    def __str__(self): raise ValueError\nraise Mute",
            "Mute: (its text is not available",
            "tools/bad.py:3",
        ),
        ("raise RuntimeError('no luck')", "RuntimeError: no luck", "tools/bad.py:1"),
    ],
)
def test_file_that_does_not_import_is_reported_and_the_rest_serves(
    load: Load, text: str, reason: str, source: str
) -> None:
    loaded = load(
        {
            "tools/bad.py": text,
            "tools/good.py": "async def good(): ...",
            "helper.py": "def crash():\n    1 / 0",
        }
    )
    assert names(loaded.tools) == ["good"]
    bad = out(loaded)["bad"]
    assert bad.reason.startswith(reason)
    assert (bad.source, bad.is_serving) == (source, False)


def test_log_shows_the_authors_lines_only(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    load({"tools/bad.py": "import helper\nhelper.crash()", "helper.py": "def crash():\n    1 / 0"})
    assert "tools/bad.py cannot be read" in caplog.text
    assert "helper.crash()" in caplog.text
    assert "ZeroDivisionError: division by zero" in caplog.text
    assert "importlib" not in caplog.text


def test_same_name_twice_names_both_places(load: Load) -> None:
    loaded = load({"tools/a.py": "async def same(): ...", "tools/b.py": "\nasync def same(): ..."})
    assert names(loaded.tools) == ["same"]
    assert "tools/a.py:1 (serving) and in tools/b.py:2" in out(loaded)["same"].reason
    assert out(loaded)["same"].source == "tools/b.py:2"


@pytest.mark.requirement("12.12")
def test_link_out_of_the_folder_is_refused(load: Load, tmp_path: Path) -> None:
    outside = tmp_path.parent / "secret.md"
    outside.write_text("secret", "utf-8")
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "leak.md").symlink_to(outside)
    loaded = load({})
    assert loaded.resources == []
    assert out(loaded)["leak"].reason == "is a link that leaves the server folder"


@pytest.mark.parametrize("place", ["tools/pipe.py", "resources/pipe.txt", "prompts/pipe.md"])
def test_pipe_is_not_waited_for(load: Load, tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir()
    os.mkfifo(tmp_path / place)
    assert out(load({}))["pipe"].reason == "is not a file, or does not exist"


def test_hidden_files_and_helpers_are_no_items(load: Load) -> None:
    loaded = load(
        {
            "tools/_private.py": "1 / 0",
            "tools/.hidden.py": "1 / 0",
            "tools/deeper/helper.py": "1 / 0",
            "tools/notes.md": "no tool",
            "resources/.DS_Store": "x",
            "resources/old.md~": "x",
            "prompts/notes.txt": "no prompt",
        }
    )
    assert (loaded.tools, loaded.resources, loaded.prompts, loaded.unavailable) == ([], [], [], [])


def test_imported_file_of_plain_functions_is_a_helper(load: Load) -> None:
    files = {"tools/shared.py": "def double(n): return 2 * n", "tools/a.py": "async def a(): ..."}
    assert names(load(files).tools) == ["a", "double"]
    helped = load({"tools/a.py": "from shared import double\nasync def a(): return double(2)"})
    assert (names(helped.tools), helped.unavailable, helped.problems) == (["a"], [], ())
    assert helped.helpers == (
        "tools/shared.py:1: double is not offered: tools/a.py imports the file, "
        "so its plain functions are helpers; decorate one with @tool to offer it",
    )


def test_missing_environment_variable_leaves_the_tool_out(load: Load) -> None:
    text = "from mcpdesk import tool\n@tool(requires_env=['MAIL_TOKEN'])\nasync def send_mail(): ..."
    loaded = load({"tools/mail.py": text})
    assert out(loaded)["send-mail"].reason == "needs MAIL_TOKEN, an environment variable that is not set"
    assert out(loaded)["send-mail"].source == "tools/mail.py:3"
    assert names(load({"tools/mail.py": text + "\n"}, {"MAIL_TOKEN": "x"}).tools) == ["send-mail"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "\ndef create_context(request): yield 1",
            "context.py:2: create_context yields; return one value, and report progress with ctx",
        ),
        (
            "x = 1",
            "context.py: defines no hook; write at least one of: "
            "`def create_context(request)`, `async def lifespan(server)`, "
            "`async def around_call(call, call_next)`",
        ),
        ("async def lifespan(server): ...", "context.py:1: lifespan must be an `async def` with one `yield`"),
        ("def lifespan(server): yield", "context.py:1: lifespan must be an `async def` with one `yield`"),
        ("def around_call(call, call_next): ...", "context.py:1: around_call must be an `async def`"),
        (
            "around_call = 3",
            "context.py: around_call must be a function: write `async def around_call(call, call_next)`",
        ),
        ("1 / 0", "context.py:1: ZeroDivisionError: division by zero"),
    ],
)
async def test_unusable_context_fails_calls_and_not_the_folder(load: Load, text: str, problem: str) -> None:
    loaded = load({"context.py": text, "tools/a.py": "async def a(): ..."})
    assert loaded.problems == (problem,)
    assert names(loaded.tools) == ["a"]
    assert loaded.create_context is not None
    with pytest.raises(HandlerError, match=r"context\.py"):
        await loaded.create_context(REQUEST)


async def test_changed_helper_changes_the_tools_that_use_it(load: Load) -> None:
    first = load(ONE_OF_EACH)
    second = load({"helper.py": "N = 1000"})
    assert await call(second, "add-up", a=1) == 1002
    assert await call(first, "add-up", a=1) == 102, "a call under way keeps its code"
    assert first.tools != second.tools
    assert first.templates == second.templates


async def test_file_that_breaks_keeps_its_previous_version_until_repaired(load: Load) -> None:
    load(ONE_OF_EACH)
    broken = load({"helper.py": "N ="})
    assert await call(broken, "add-up", a=1) == 102
    assert out(broken)["add-up"] == Unavailable(
        "add-up", "SyntaxError: invalid syntax", "helper.py:1", is_serving=True, is_logged=True
    )
    repaired = load({"helper.py": "N = 5"})
    assert await call(repaired, "add-up", a=1) == 7
    assert repaired.unavailable == []


async def test_item_that_breaks_keeps_its_previous_version(load: Load) -> None:
    load({"tools/a.py": "async def one(): return 1\nasync def two(): return 2"})
    loaded = load({"tools/a.py": "def one(): yield 10\nasync def two(): return 20"})
    assert await call(loaded, "one") == 1
    assert await call(loaded, "two") == 20
    assert out(loaded)["one"].is_serving
    assert names(load({"tools/a.py": "async def two(): return 2"}).tools) == ["two"]


async def test_a_plain_create_context_runs_in_a_thread(load: Load) -> None:
    text = "import threading\ndef create_context(request): return threading.current_thread().name"
    loaded = load({"context.py": text})
    assert loaded.create_context is not None
    assert await loaded.create_context(REQUEST) == "worker"


async def test_context_that_breaks_keeps_its_previous_version(load: Load) -> None:
    load(ONE_OF_EACH)
    loaded = load({"context.py": "1 / 0"})
    assert loaded.create_context is not None
    assert await loaded.create_context(REQUEST) == "test"
    assert "the previous version is served" in loaded.problems[0]


def test_state_of_untouched_modules_survives(load: Load) -> None:
    files = {
        "tools/count.py": "SEEN = []\nasync def count():\n    SEEN.append(1)\n    return len(SEEN)",
        "tools/other.py": "async def other(): ...",
    }
    assert asyncio.run(call(load(files), "count")) == 1
    loaded = load({"tools/other.py": "async def other(): return 1"})
    assert asyncio.run(call(loaded, "count")) == 2


def test_comments_and_moved_lines_are_no_change(load: Load) -> None:
    first = load({"tools/a.py": "async def one(): return 1\nasync def two(): return 2"})
    moved = load({"tools/a.py": "# why\n\nasync def one():\n    return 1\nasync def two(): return 2"})
    assert first.tools == moved.tools
    assert [tool.source for tool in moved.tools] == ["tools/a.py:3", "tools/a.py:5"]
    changed = load({"tools/a.py": "async def one(): return 1\nasync def two(): return 22"})
    assert [old == new for old, new in zip(moved.tools, changed.tools, strict=True)] == [True, False]


def test_two_folders_may_have_modules_of_the_same_name(tmp_path: Path) -> None:
    for name in ("one", "two"):
        files = {"tools/a.py": "import helper\nasync def a(): return helper.N", "helper.py": f"N = {name!r}"}
        loaded = load_folder(write(tmp_path / name, files))
        assert asyncio.run(call(loaded, "a")) == name
        loaded.close()


def test_without_decorators_public_functions_are_tools(tmp_path: Path) -> None:
    found = found_in(
        tmp_path,
        """
        from asyncio import sleep
        from dataclasses import dataclass

        @dataclass
        class Thing: ...

        async def do_it(): ...
        async def _helper(): ...
        also = lambda: 1
        """,
    )
    assert [name_of(item) for item in found.items] == ["do-it"]
    assert (found.broken, found.remarks) == ([], [])


def test_a_decorator_on_one_function_leaves_the_others_offered(tmp_path: Path) -> None:
    found = found_in(
        tmp_path,
        """
        from mcpdesk import prompt, resource, tool

        @tool
        async def a(): ...

        @resource("x://y")
        async def b(): ...

        @prompt(name="see")
        async def c(): ...

        async def _helper(): ...
        async def plain(): ...
        """,
    )
    assert [name_of(item) for item in found.items] == ["a", "x://y", "see", "plain"]
    assert found.remarks == [
        "tools/my_file.py:13: plain is a tool without a decorator, while others in the file have one; "
        "write @tool above it, or name it _plain if it is a helper"
    ]


def test_a_plain_function_that_looks_like_a_helper_is_a_tool_and_that_is_said(tmp_path: Path) -> None:
    code = """
        async def search(): return parse()

        def parse(): ...
        def clean(): ...
        def told():
            'What it does.'
        """
    found = found_in(tmp_path, code)
    assert [name_of(item) for item in found.items] == ["search", "parse", "clean", "told"]
    plain = "is served as a tool, but is a plain function without docstring or decorator"
    assert found.remarks == [
        f"tools/my_file.py:3: parse {plain} that search calls; "
        "rename it to _parse if it is a helper, or else add a docstring",
        f"tools/my_file.py:4: clean {plain}; rename it to _clean if it is a helper, or else add a docstring",
    ]
    assert found_in(tmp_path, "def one(): ...\ndef two(): ...", "tools/plain.py").remarks == []


def test_one_bad_function_leaves_the_others(tmp_path: Path) -> None:
    found = found_in(tmp_path, "async def a(): ...\ndef b(): yield\nasync def c(x: complex): ...")
    assert [name_of(item) for item in found.items] == ["a"]
    assert [(each.name, each.source) for _, each in found.broken] == [
        ("b", "tools/my_file.py:2"),
        ("c", "tools/my_file.py:3"),
    ]


def test_file_that_offers_nothing_is_remarked(tmp_path: Path) -> None:
    assert found_in(tmp_path, "X = 1").remarks == ["tools/my_file.py: offers nothing; write a function"]
    found = found_in(tmp_path, "async def a(): ...", "resources/a.py", "resource")
    assert found.items == []
    assert "with @resource" in found.remarks[0]


def test_undecorated_functions_in_prompts_are_prompts(tmp_path: Path) -> None:
    found = found_in(tmp_path, "async def ask_me(): ...", "prompts/a.py", "prompt")
    assert [name_of(item) for item in found.items] == ["ask-me"]


def test_names_in_metadata_and_icons_are_those_clients_take(tmp_path: Path) -> None:
    found = found_in(
        tmp_path,
        """
        from mcpdesk import prompt, resource, tool

        @tool(meta={"io.modelcontextprotocol/own": 1})
        async def a() -> None: ...
        @prompt(icons=["javascript:alert(1)"])
        async def b() -> str: ...
        @resource("test://c", meta={"not a name": 1})
        async def c() -> str: ...
        @tool(meta={"example.org/fine": 1}, icons=["https://example.org/i.png"])
        async def d() -> None: ...
        """,
    )
    assert [name_of(item) for item in found.items] == ["d"]
    assert [(kind, each.reason) for kind, each in found.broken] == [
        ("tool", "_meta: 'io.modelcontextprotocol/own' belongs to the protocol"),
        ("prompt", "icons: src must begin with https:// or data:, not 'javascript:alert(1)'"),
        ("resource", "_meta: 'not a name' is not a valid name; write one like 'example.org/colour'"),
    ]


def test_what_clients_would_refuse_a_whole_list_for_is_not_offered(tmp_path: Path) -> None:
    found = found_in(
        tmp_path,
        """
        from mcpdesk import prompt, resource, tool

        @tool(annotations={"readOnlyHint": "yes"})
        async def a() -> None: ...
        @resource("test://b", annotations={"audience": "user"})
        async def b() -> str: ...
        @resource("test://{c}", annotations={"priority": 5})
        async def c(c: str) -> str: ...
        @prompt(icons=[{"src": "data:,", "sizes": "48x48"}])
        async def d() -> str: ...
        @tool(meta={"example.org/odd": object})
        async def e() -> None: ...
        @tool(title=5)
        async def f() -> None: ...
        @tool(read_only=True, annotations={"title": "Fine"})
        async def g() -> None: ...
        """,
    )
    assert [name_of(item) for item in found.items] == ["g"]
    assert [(kind, each.reason) for kind, each in found.broken] == [
        ("tool", "annotations: readOnlyHint must be true or false, not 'yes'"),
        ("resource", "annotations: audience must be a list of user and assistant, not 'user'"),
        ("template", "annotations: priority must be a number from 0 to 1, not 5"),
        ("prompt", "icons: sizes must be a list like [\"48x48\"], not '48x48'"),
        (
            "tool",
            "_meta or annotations: Not expressible as JSON: Type is not JSON serializable: type",
        ),
        ("tool", "title must be a text"),
    ]


def test_every_kind_can_be_held_back(tmp_path: Path) -> None:
    found = found_in(
        tmp_path,
        """
        from mcpdesk import prompt, resource, tool

        @tool(offered=False)
        async def a() -> None: ...
        @prompt(offered=False)
        async def b() -> str: ...
        @resource("test://c", offered=False)
        async def c() -> str: ...
        @resource("test://{d}", offered=False)
        async def e(d: str) -> str: ...
        """,
    )
    assert [item.is_offered for item in found.items] == [False] * 4


def test_handler_module_may_need_variables_too(tmp_path: Path) -> None:
    code = "REQUIRES_ENV = {}\nasync def handler(args): ..."
    found = found_in(tmp_path, code.format("'UNSET'"))
    ((_, left_out),) = found.broken
    assert left_out.reason == "needs UNSET, an environment variable that is not set"
    assert (left_out.is_fit, found.items, found.required_variables) == (True, [], {"UNSET": 0})
    assert [name_of(item) for item in found_in(tmp_path, code.format("()")).items] == ["my-file"]
    ((_, wrong),) = found_in(tmp_path, code.format("5")).broken
    assert wrong.reason == "REQUIRES_ENV must be a name or a list of names, not 5"
    assert (wrong.source, wrong.is_fit) == ("tools/my_file.py:1", False)


def test_resources_need_the_decorator_each(tmp_path: Path) -> None:
    text = "from mcpdesk import resource\n@resource('x://y')\nasync def a(): ...\nasync def b(): ..."
    found = found_in(tmp_path, text, "resources/a.py", "resource")
    assert [name_of(item) for item in found.items] == ["x://y"]
    assert found.remarks == ["resources/a.py:4: b is not offered: others in the file have a decorator"]
