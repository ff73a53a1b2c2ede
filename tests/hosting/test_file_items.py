"""The yield of files, put together."""

from __future__ import annotations

from mcpdesk.errors import RegistrationError
from mcpdesk.hosting.folder.file_items import (
    FileItems,
    kind_of,
    name_of,
    unreadable_file,
    without_duplicates,
)
from mcpdesk.server.offer.prompts import Prompt
from mcpdesk.server.offer.registry import Unavailable
from mcpdesk.server.offer.resources import Resource, ResourceTemplate
from mcpdesk.server.offer.tool import Tool


async def _nothing(*_given: object) -> None: ...


def tool(name: str, source: str = "a.py:1") -> Tool:
    return Tool(name, _nothing, {"type": "object"}, source=source)


RESOURCE = Resource("x://a", "a", _nothing)
TEMPLATE = ResourceTemplate("x://{a}", "a", _nothing)
PROMPT = Prompt("a", _nothing)


def test_items_know_their_kind_and_name() -> None:
    items = (tool("a"), RESOURCE, TEMPLATE, PROMPT)
    assert [kind_of(item) for item in items] == ["tool", "resource", "template", "prompt"]
    assert [name_of(item) for item in items] == ["a", "x://a", "x://{a}", "a"]


def test_same_name_of_another_kind_is_no_duplicate() -> None:
    whole = without_duplicates([FileItems([tool("a")]), FileItems([PROMPT], remarks=["hm"])])
    assert (len(whole.items), whole.broken, whole.remarks) == (2, [], ["hm"])


def test_later_duplicate_is_left_out_and_tells_both_places() -> None:
    whole = without_duplicates([FileItems([tool("a", "a.py:1")]), FileItems([tool("a", "b.py:2")])])
    assert [item.source for item in whole.items] == ["a.py:1"]
    ((kind, unavailable),) = whole.broken
    assert kind == "tool"
    assert unavailable.reason == "the tool 'a' is defined twice: in a.py:1 (serving) and in b.py:2"


def test_broken_item_is_replaced_by_its_previous_version() -> None:
    found = FileItems([tool("b")])
    found.refuse("tool", "a", RegistrationError("bad", "a.py:3"))
    found.refuse("tool", "new", RegistrationError("bad", "a.py:9"))
    kept = found.or_previous(FileItems([tool("a"), tool("b")]))
    assert [name_of(item) for item in kept.items] == ["b", "a"]
    assert [each.serving for _, each in kept.broken] == [True, False]
    assert [each.serving for _, each in found.or_previous(None).broken] == [False, False]


def test_unreadable_file_keeps_what_it_yielded() -> None:
    before = FileItems([tool("a")])
    before.refuse("tool", "b", RegistrationError("needs X", "a.py:5"))
    now = unreadable_file(before, "tool", "file", "SyntaxError", "a.py:1")
    assert now.items == before.items
    assert [each for _, each in now.broken] == [
        Unavailable("a", "SyntaxError", "a.py:1", serving=True),
        Unavailable("b", "needs X", "a.py:5"),
    ]


def test_unreadable_file_that_never_yielded_is_one_broken_item() -> None:
    now = unreadable_file(FileItems(), "prompt", "file", "why", "file.md:1")
    assert now.broken == [("prompt", Unavailable("file", "why", "file.md:1"))]
