"""Which functions of a module are offered."""

from __future__ import annotations

from pathlib import Path

from mcpdesk.hosting.folder.file_items import name_of
from tests.support.module import found_in


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
        "tools/my_file.py:13: plain is a tool as well as those with a decorator; "
        "name it _plain if it is a helper"
    ]


def test_handler_module_is_one_tool(tmp_path: Path) -> None:
    found = found_in(tmp_path, "async def handler(args): ...\ndef helper(): ...")
    assert [name_of(item) for item in found.items] == ["my-file"]


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


def test_missing_environment_variable_is_named(tmp_path: Path) -> None:
    text = "from mcpdesk import tool\n@tool(requires_env=['SET', 'UNSET'])\nasync def a(): ..."
    ((kind, unavailable),) = found_in(tmp_path, text).broken
    assert (kind, unavailable.name) == ("tool", "a")
    assert unavailable.reason == "needs UNSET, an environment variable that is not set"


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
        ("prompt", "icons: src begins with https:// or data:, not 'javascript:alert(1)'"),
        ("resource", "_meta: 'not a name' is no name; write one like 'example.org/colour'"),
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
        ("tool", "annotations: readOnlyHint is true or false, not 'yes'"),
        ("resource", "annotations: audience is a list of user and assistant, not 'user'"),
        ("template", "annotations: priority is a number from 0 to 1, not 5"),
        ("prompt", "icons: sizes is a list like [\"48x48\"], not '48x48'"),
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
    assert (left_out.is_fit, found.items, found.asked) == (True, [], {"UNSET": 0})
    assert [name_of(item) for item in found_in(tmp_path, code.format("()")).items] == ["my-file"]
    ((_, wrong),) = found_in(tmp_path, code.format("5")).broken
    assert wrong.reason == "REQUIRES_ENV must be a name or a list of names, not 5"
    assert (wrong.source, wrong.is_fit) == ("tools/my_file.py:1", False)


def test_resources_need_the_decorator_each(tmp_path: Path) -> None:
    text = "from mcpdesk import resource\n@resource('x://y')\nasync def a(): ...\nasync def b(): ..."
    found = found_in(tmp_path, text, "resources/a.py", "resource")
    assert [name_of(item) for item in found.items] == ["x://y"]
    assert found.remarks == ["resources/a.py:4: b is not offered: others here are decorated, it is not"]
