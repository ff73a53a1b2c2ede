from __future__ import annotations

from mcpdesk.link.values import CatalogueItem, ItemKind
from mcpdesk.tui.workbench.drafts import Drafts
from mcpdesk.tui.workbench.past_calls import History
from tests.support.fake_link import FakeLink

SECRET = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "key": {"type": "string", "writeOnly": True}},
}


def tool(name: str, schema: dict[str, object]) -> CatalogueItem:
    return CatalogueItem(ItemKind.TOOL, name, name, definition={"inputSchema": schema})


def test_an_item_keeps_its_draft_and_a_new_schema_keeps_what_fits() -> None:
    drafts = Drafts(FakeLink(), History())
    draft = drafts.of("profiles", tool("t", {"properties": {"a": {"type": "string"}}}))
    draft.node.put({"a": "x"})
    assert drafts.of("profiles", draft.item) is draft
    again = drafts.of("profiles", tool("t", {"properties": {"a": {"type": "string"}, "b": {"default": 1}}}))
    assert again is draft
    assert again.node.value()["a"] == "x"


def test_outcomes_are_settled_once_and_remembered_without_secrets() -> None:
    link = FakeLink()
    drafts = Drafts(link, History())
    draft = drafts.of("profiles", tool("user-profile", SECRET))
    drafts.start("profiles", draft, {"a": "x", "key": "s"})
    assert link.calls[0].params["arguments"] == {"a": "x", "key": "s"}
    assert drafts.settle() == [draft]
    assert drafts.settle() == []
    (past,) = drafts.past("profiles", draft.item)
    assert (past.arguments, past.status) == ({"a": "x"}, "ok")


def test_secrets_are_left_out_even_where_the_form_cannot_show_the_value() -> None:
    drafts = Drafts(FakeLink(), History())
    draft = drafts.of("profiles", tool("user-profile", SECRET))
    drafts.start("profiles", draft, {"a": 5, "key": "s", "more": 1})
    assert draft.shareable == {"a": 5, "more": 1}


def test_running_calls_are_known_by_item() -> None:
    link = FakeLink()
    drafts = Drafts(link, History())
    draft = drafts.of("profiles", tool("slow-report", {}))
    drafts.start("profiles", draft, {})
    assert drafts.running("profiles") == {(ItemKind.TOOL, "slow-report")}
    assert drafts.running("hello") == frozenset()
    link.calls[0].cancel()
    drafts.settle()
    assert drafts.past("profiles", draft.item)[0].status == "cancelled"


def test_templates_and_prompts_miss_their_required_strings() -> None:
    drafts = Drafts(FakeLink(), History())
    draft = drafts.of("profiles", CatalogueItem(ItemKind.TEMPLATE, "x://{a}{?b}", "x"))
    assert [failure.message for failure in drafts.failures("profiles", draft, {})] == [
        '"a" is a required property'
    ]
    assert drafts.failures("profiles", draft, {"a": "1"}) == []
