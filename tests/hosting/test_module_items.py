"""Tools out of functions."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcpdesk.errors import RegistrationError, RemoteProtocolError
from mcpdesk.hosting.folder.module_items import (
    choice_completer,
    completers,
)
from mcpdesk.hosting.folder.text_items import read_prompt_file
from mcpdesk.server.offer.prompts import Prompt, PromptArgument
from mcpdesk.server.offer.resources import Resource, ResourceTemplate
from mcpdesk.server.offer.tool import Tool
from tests.support.module import found_in


def tool_in(folder: Path, text: str) -> Tool:
    found = found_in(folder, text)
    assert found.broken == []
    (tool,) = found.items
    assert isinstance(tool, Tool)
    return tool


async def call(tool: Tool, arguments: dict[str, Any], made: Any = None, claims: Any = None) -> Any:
    given = SimpleNamespace(context=made, claims=claims)
    return await tool.handler(arguments, given)


async def test_a_handler_of_all_arguments_finds_the_claims_among_them(tmp_path: Path) -> None:
    tool = tool_in(
        tmp_path,
        """
        INPUT_SCHEMA = {"type": "object", "additionalProperties": False}
        REQUIRES_JWT = True
        SCOPES = "wallet:send"

        async def handler(args):
            return args
        """,
    )
    assert (tool.requires_jwt, tool.scopes) == (True, ("wallet:send",))
    arguments: dict[str, Any] = {}
    assert await call(tool, arguments, claims={"sub": "ada"}) == {"__jwt": {"sub": "ada"}}
    assert await call(tool, arguments) == {} == arguments


async def test_scopes_that_are_no_texts_are_refused(tmp_path: Path) -> None:
    found = found_in(tmp_path, "SCOPES = 5\nasync def handler(args):\n    return args\n")
    assert "SCOPES must be a text or a list of texts" in found.broken[0][1].reason


async def test_decorator_says_what_hints_cannot(tmp_path: Path) -> None:
    tool = tool_in(
        tmp_path,
        """
        from mcpdesk import tool

        @tool(name="Sum.Up", title="Sum", timeout=0.5, requires_jwt=True, runs_programs=True, read_only=True,
              annotations={"custom": 1}, icons=["data:,"], meta={"a/b": 1})
        async def add(a: int, b: int = 2) -> int:
            \"\"\"Add two numbers.\"\"\"
            return a + b
        """,
    )
    assert (tool.name, tool.title, tool.description) == ("Sum.Up", "Sum", "Add two numbers.")
    assert tool.annotations == {"readOnlyHint": True, "custom": 1}
    assert (tool.timeout_s, tool.requires_jwt, tool.runs_programs) == (0.5, True, True)
    assert tool.icons == ({"src": "data:,"},)
    assert tool.meta == {"a/b": 1}
    assert tool.source == "tools/my_file.py:5"
    assert tool.output_schema == {"type": "integer"}
    assert await call(tool, {"a": 1}) == 3


async def test_handler_module_brings_its_own_schemas(tmp_path: Path) -> None:
    tool = tool_in(
        tmp_path,
        """
        NAME = "look"
        TITLE = "Look"
        DESCRIPTION = "Look it up."
        INPUT_SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}}
        OUTPUT_SCHEMA = {"type": "object"}
        ANNOTATIONS = {"readOnlyHint": True}
        async def handler(args, context):
            return {"id": args["id"], "by": context}
        """,
    )
    assert (tool.name, tool.title, tool.description) == ("look", "Look", "Look it up.")
    assert tool.input_schema["properties"] == {"id": {"type": "string"}}
    assert tool.output_schema == {"type": "object"}
    assert tool.annotations == {"readOnlyHint": True}
    assert await call(tool, {"id": "7"}, "ann") == {"id": "7", "by": "ann"}


async def test_handler_is_named_after_its_file_and_may_ask_for_more_or_less(tmp_path: Path) -> None:
    alone = tool_in(tmp_path / "a", 'async def handler(args):\n    """Doc."""\n    return args')
    assert (alone.name, alone.description) == ("my-file", "Doc.")
    assert await call(alone, {"x": 1}) == {"x": 1}
    full = tool_in(tmp_path / "b", "async def handler(args, made, ctx): return made, ctx.context")
    assert await call(full, {}, "made") == ("made", "made")


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("\ndef handler(args, context): yield 1", "handler yields", 2),
        ("async def handler(): ...", "handler must take (args)", 1),
        ("NAME = 'no spaces'\nasync def handler(args): ...", "is not a tool name", 2),
        ("\nINPUT_SCHEMA = {'type': 'strin'}\nasync def handler(args): ...", '"type": "object"', 2),
        ("INPUT_SCHEMA = []\nasync def handler(args): ...", "must be a dict, not list", 1),
        (
            "INPUT_SCHEMA = {'type': 'object', 'required': 'everything'}\nasync def handler(args): ...",
            "INPUT_SCHEMA cannot be used: not a valid JSON Schema",
            1,
        ),
        (
            "async def handler(args): ...\nOUTPUT_SCHEMA = {'$ref': 'http://example.org'}",
            "OUTPUT_SCHEMA cannot be used: $ref",
            2,
        ),
        (
            "from mcpdesk import tool\n@tool(timeout=0)\nasync def a(): ...",
            "timeout must be more than 0",
            3,
        ),
        (
            "from mcpdesk import tool\n@tool(task='sometimes')\nasync def a(): ...",
            "task must be 'forbidden', 'optional' or 'required', not 'sometimes'",
            3,
        ),
        (
            "from mcpdesk import tool\n@tool(asks_first=True)\nasync def a(): ...",
            "asks_first needs a tool that can be a task",
            3,
        ),
        (
            "from typing import Annotated\nfrom mcpdesk import Meta\n"
            "async def a(x: Annotated[str, Meta(pattern='(?P<n>a)(?P=n)')]): ...",
            "the schema cannot be used",
            3,
        ),
    ],
)
def test_unusable_tool_is_refused_with_its_line(tmp_path: Path, text: str, reason: str, line: int) -> None:
    ((kind, unavailable),) = found_in(tmp_path, text).broken
    assert kind == "tool"
    assert reason in unavailable.reason
    assert unavailable.source == f"tools/my_file.py:{line}"


@pytest.mark.parametrize("hint", ["str | int", "float", "list[str]"])
def test_an_argument_no_header_can_repeat_leaves_the_tool_out(tmp_path: Path, hint: str) -> None:
    found = found_in(
        tmp_path,
        f"""
        from typing import Annotated
        from mcpdesk import Meta

        async def f(a: Annotated[{hint}, Meta(extra_json_schema={{"x-mcp-header": "A"}})] = None): ...
        """,
    )
    assert found.items == []
    assert "x-mcp-header" in found.broken[0][1].reason


def test_a_schema_with_a_wrong_annotation_leaves_the_tool_out(tmp_path: Path) -> None:
    found = found_in(
        tmp_path,
        """
        INPUT_SCHEMA = {"type": "object", "properties": {"id": {"type": "integer", "x-mcp-header": "I d"}}}
        async def handler(args): ...
        """,
    )
    assert found.items == [] and "not a header name" in found.broken[0][1].reason
    assert found.broken[0][1].source.endswith(":1")


async def test_a_parameter_can_be_repeated_in_a_header(tmp_path: Path) -> None:
    tool = tool_in(
        tmp_path,
        """
        from typing import Annotated
        from mcpdesk import header

        async def look(region: Annotated[str, header("Region"), "Where."]): ...
        """,
    )
    assert tool.input_schema["properties"]["region"] == {
        "type": "string",
        "description": "Where.",
        "x-mcp-header": "Region",
    }
    assert len(tool.mirrored) == 1


CONTEXT: Any = SimpleNamespace(context=None)


def only(folder: Path, text: str) -> Any:
    found = found_in(
        folder, f"from mcpdesk import fail, prompt, resource\n{text}", "resources/it.py", "resource"
    )
    assert found.broken == []
    (item,) = found.items
    return item


async def test_resource_is_read_by_its_function(tmp_path: Path) -> None:
    item = only(
        tmp_path,
        "@resource('clock://now', title='T', mime_type='text/plain', annotations={'priority': 1})\n"
        'async def the_time():\n    """Now."""\n    return "noon"',
    )
    assert isinstance(item, Resource)
    assert (item.uri, item.name, item.title, item.description) == ("clock://now", "the-time", "T", "Now.")
    assert (item.mime_type, item.annotations, item.source) == (
        "text/plain",
        {"priority": 1},
        "resources/it.py:3",
    )
    assert await item.reader("clock://now", {}, CONTEXT) == "noon"


async def test_template_variables_arrive_converted(tmp_path: Path) -> None:
    item = only(
        tmp_path,
        "@resource('x://{a}/{b}{?c}')\nasync def f(a: int, b, uri, ctx, c=None): return a, b, c, uri, ctx",
    )
    assert isinstance(item, ResourceTemplate)
    got = await item.reader("x://1/2", {"a": "1", "b": "2"}, CONTEXT)
    assert got == (1, "2", None, "x://1/2", CONTEXT)


@pytest.mark.parametrize("values", [{"a": "many"}, {"a": "0"}])
async def test_wrong_variable_and_failure_are_the_callers_mistake(
    tmp_path: Path, values: dict[str, str]
) -> None:
    item = only(tmp_path, "@resource('x://{a}')\nasync def f(a: int): fail('no such thing', a=a)")
    with pytest.raises(RemoteProtocolError) as caught:
        await item.reader("x://a", values, CONTEXT)
    assert caught.value.code == -32602


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("@resource('x://{a}')\nasync def f(): ...", "no parameter takes the template's variable a"),
        ("@resource('x://{a}')\nasync def f(a, b): ...", "has no variable for the parameter b"),
        ("@resource('x://{a*}')\nasync def f(a): ...", "only levels 1 to 3"),
        ("@resource('just-text')\nasync def f(): ...", "is not a URI"),
        ("@resource('x://a')\ndef f(): yield 1", "f yields"),
    ],
)
def test_unusable_resource_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    found = found_in(tmp_path, f"from mcpdesk import resource\n{text}", "resources/it.py", "resource")
    ((_, unavailable),) = found.broken
    assert reason in unavailable.reason
    assert unavailable.source == "resources/it.py:3"


async def test_prompt_takes_its_parameters_as_arguments(tmp_path: Path) -> None:
    item = only(
        tmp_path,
        "from typing import Literal\n"
        "@prompt(title='T')\n"
        "async def ask_me(topic: str, times: int = 1, tone: Literal['dry', 'warm'] = 'dry'):\n"
        '    """Ask.\n\n    Args:\n        topic: about what\n    """\n'
        "    return topic * times",
    )
    assert isinstance(item, Prompt)
    assert (item.name, item.title, item.description) == ("ask-me", "T", "Ask.")
    assert item.arguments == (
        PromptArgument("topic", "about what", required=True),
        PromptArgument("times"),
        PromptArgument("tone"),
    )
    assert await item.renderer({"topic": "tea ", "times": "2"}, CONTEXT) == "tea tea "
    for given in (
        {},
        {"topic": "x", "times": "many"},
        {"topic": "x", "tone": "loud"},
        {"topic": "x", "y": "z"},
    ):
        with pytest.raises(RemoteProtocolError) as caught:
            await item.renderer(given, CONTEXT)
        assert caught.value.code == -32602


def of_module(folder: Path, text: str, kind: str = "prompt") -> Any:
    return found_in(folder, f"from mcpdesk import prompt, resource\n{text}", f"{kind}s/it.py", kind)


async def values(source: Any, typed: str = "", **given: str) -> list[str]:
    made = completers({"x": source}, ["x"], "f.py:1")
    return list(await made["x"](typed, given, CONTEXT))


async def test_choices_that_start_so_come_before_those_that_contain_it() -> None:
    assert list(await choice_completer(["blue", "Ebony", "beige", "blue"])("B", {}, CONTEXT)) == [
        "blue",
        "beige",
        "Ebony",
    ]


async def test_functions_take_what_they_need_and_may_be_async() -> None:
    async def slow(value: str, arguments: dict[str, str]) -> list[str]:
        return [value, *arguments.values()]

    assert await values(slow, "a", y="b") == ["a", "b"]
    assert await values(lambda value: value * 2, "a") == ["aa"]
    assert await values(lambda value: None) == []


@pytest.mark.parametrize("source", [5, "text", [], [1], lambda: (), dict, lambda a, b, c, d: []])
def test_what_suggests_nothing_is_refused(source: Any) -> None:
    with pytest.raises(RegistrationError, match="a list of texts"):
        completers({"x": source}, ["x"], "f.py:1")


@pytest.mark.parametrize(
    ("names", "said"), [(["a", "b"], "its arguments: a, b"), ([], "it has no arguments")]
)
def test_unknown_names_are_refused(names: list[str], said: str) -> None:
    with pytest.raises(RegistrationError, match=said):
        completers({"x": ["1"]}, names, "f.py:1")


async def test_a_decorated_prompt_completes_its_arguments(tmp_path: Path) -> None:
    found = of_module(
        tmp_path,
        "from typing import Literal\n"
        "@prompt(complete={'city': ['Bonn', 'Pau']})\n"
        "async def travel(city: str, mode: Literal['train', 'car'] = 'train'): return city",
    )
    assert found.broken == []
    (item,) = found.items
    assert isinstance(item, Prompt)
    assert list(await item.completers["city"]("", {}, CONTEXT)) == ["Bonn", "Pau"]
    assert list(await item.completers["mode"]("t", {}, CONTEXT)) == ["train"]


@pytest.mark.parametrize("complete", ["['1', '2']", "lambda value: ['1', '2']", "{'id': ['1', '2']}"])
async def test_the_only_variable_of_a_template_needs_no_name(tmp_path: Path, complete: str) -> None:
    text = f"@resource('x://{{id}}', complete={complete})\nasync def x(id): return id"
    (item,) = of_module(tmp_path, text, "resource").items
    assert isinstance(item, ResourceTemplate)
    assert list(await item.completers["id"]("", {}, CONTEXT)) == ["1", "2"]


@pytest.mark.parametrize("uri", ["x://{a}/{b}", "x://fixed"])
def test_several_variables_need_names_and_a_plain_resource_has_none(tmp_path: Path, uri: str) -> None:
    parameters = "a, b" if "{" in uri else ""
    text = f"@resource('{uri}', complete=['1'])\nasync def x({parameters}): return 1"
    found = of_module(tmp_path, text, "resource")
    assert found.items == [] and "not an argument" in found.broken[0][1].reason


async def test_front_matter_lists_choices(tmp_path: Path) -> None:
    path = tmp_path / "prompts" / "ask.md"
    path.parent.mkdir()
    path.write_text("---\narguments:\n- {name: tone, choices: [kind, dry]}\n- topic\n---\n{{tone}} {{topic}}")
    (item,) = read_prompt_file(path, tmp_path, "ask").items
    assert isinstance(item, Prompt)
    assert list(await item.completers["tone"]("d", {}, CONTEXT)) == ["dry", "kind"]
    assert "topic" not in item.completers


@pytest.mark.parametrize("choices", ["kind", "[1, 2]"])
def test_choices_have_to_be_texts(tmp_path: Path, choices: str) -> None:
    path = tmp_path / "prompts" / "ask.md"
    path.parent.mkdir()
    path.write_text(f"---\narguments: [{{name: tone, choices: {choices}}}]\n---\n{{{{tone}}}}")
    found = read_prompt_file(path, tmp_path, "ask")
    assert found.items == [] and "list of texts" in found.broken[0][1].reason
