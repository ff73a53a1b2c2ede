"""Resources, templates and prompts out of functions."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.hosting.folder.module_items import check_arguments
from mcpdesk.server.prompt import Prompt, PromptArgument
from mcpdesk.server.resource import Resource, ResourceTemplate
from tests.support.module import found_in

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


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "Prompt p lacks the required argument a"),
        ({"a": "x", "c": "y"}, "Prompt p does not know the argument c; allowed: a, b"),
        ({"a": 5}, "Prompt p: the argument a has to be a string"),
    ],
)
def test_arguments_of_a_prompt_are_checked(given: dict[str, Any], complaint: str) -> None:
    arguments = (PromptArgument("a", required=True), PromptArgument("b"))
    check_arguments("p", arguments, {"a": "x"})
    with pytest.raises(RemoteProtocolError, match=complaint):
        check_arguments("p", arguments, given)
