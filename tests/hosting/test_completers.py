"""What authors may give for suggestions."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcpdesk import fail
from mcpdesk.errors import RegistrationError, RemoteProtocolError
from mcpdesk.hosting.folder.module_items import completers, listed
from mcpdesk.hosting.folder.text_items import read_prompt_file
from mcpdesk.server.prompt import Prompt
from mcpdesk.server.resource import ResourceTemplate
from tests.support.module import found_in

CONTEXT: Any = SimpleNamespace(context=None)


def of_module(folder: Path, text: str, kind: str = "prompt") -> Any:
    return found_in(folder, f"from mcpdesk import prompt, resource\n{text}", f"{kind}s/it.py", kind)


async def values(source: Any, typed: str = "", **given: str) -> list[str]:
    made = completers({"x": source}, ["x"], "f.py:1")
    return list(await made["x"](typed, given, CONTEXT))


async def test_choices_that_start_so_come_before_those_that_contain_it() -> None:
    assert list(await listed(["blue", "Ebony", "beige", "blue"])("B", {}, CONTEXT)) == [
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


async def test_a_refusal_is_told_to_the_caller() -> None:
    with pytest.raises(RemoteProtocolError, match="too short"):
        await values(lambda value: fail("too short"))


@pytest.mark.parametrize("source", [5, "text", [], [1], lambda: (), dict, lambda a, b, c, d: []])
def test_what_suggests_nothing_is_refused(source: Any) -> None:
    with pytest.raises(RegistrationError, match="a list of texts"):
        completers({"x": source}, ["x"], "f.py:1")


@pytest.mark.parametrize(("names", "said"), [(["a", "b"], "there are a, b"), ([], "there is none")])
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
    assert found.items == [] and "no argument" in found.broken[0][1].reason


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
