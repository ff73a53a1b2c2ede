"""Drafts the workbench keeps of each item, and the resources it watches."""

from __future__ import annotations

import pytest

from mcpdesk.link.values import CatalogueItem, ItemKind
from mcpdesk.tui.workbench.drafts import Draft, Drafts
from tests.support.fake_link import FakeLink
from tests.support.frame import toasts
from tests.support.workbench import bench, tool

SECRET: dict[str, object] = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "key": {"type": "string", "writeOnly": True}},
}
CONFIG = "file:///config.json"


def test_an_item_keeps_its_draft_and_a_new_schema_keeps_what_fits() -> None:
    drafts = Drafts(FakeLink())
    draft = drafts.of("profiles", tool("t", {"properties": {"a": {"type": "string"}}}))
    draft.node.put({"a": "x"})
    assert drafts.of("profiles", draft.item) is draft
    again = drafts.of("profiles", tool("t", {"properties": {"a": {"type": "string"}, "b": {"default": 1}}}))
    assert again is draft
    assert again.node.value()["a"] == "x"


def limits(**properties: object) -> CatalogueItem:
    return tool("t", {"properties": properties, "required": ["q"]})


def test_an_untouched_form_follows_a_new_schema_and_what_was_entered_stays() -> None:
    drafts = Drafts(FakeLink())
    old = limits(q={"type": "string"}, limit={"type": "integer", "default": 5}, sort={"default": "up"})
    new = limits(q={"type": "string"}, most={"type": "integer", "default": 9}, sort={"default": "down"})
    draft = drafts.of("profiles", old)
    assert drafts.of("profiles", new).node.value() == {"most": 9, "sort": "down"} and draft.notice == ""
    drafts.of("profiles", old).node.put({"q": "x", "limit": 6, "sort": "up"})
    assert drafts.of("profiles", new).node.value() == {"q": "x", "most": 9, "sort": "down", "limit": 6}
    told = "the schema changed; what you entered is kept: q, limit; no longer a parameter: limit"
    assert draft.notice == told


def test_what_was_emptied_stays_empty_and_untouched_json_follows_too() -> None:
    drafts = Drafts(FakeLink())
    old = limits(q={"type": "string"}, limit={"type": "integer", "default": 5})
    draft = drafts.of("profiles", old)
    draft.node.put({})
    again = limits(q={"type": "string"}, limit={"type": "integer", "default": 7})
    assert drafts.of("profiles", again).node.value() == {}
    draft = drafts.of("profiles", tool("json", {"properties": {"limit": {"default": 5}}}))
    draft.text = '{"limit": 5}'
    drafts.of("profiles", tool("json", {"properties": {"limit": {"default": 6}}}))
    assert draft.text == '{\n  "limit": 6\n}'


def test_outcomes_are_remembered_once_and_without_secrets() -> None:
    link = FakeLink()
    drafts = Drafts(link)
    draft = drafts.of("profiles", tool("user-profile", SECRET))
    draft.start({"a": "x", "key": "s"})
    assert link.calls[0].params["arguments"] == {"a": "x", "key": "s"}
    link.traffic.catch_up(float("inf"))
    assert drafts.finish_calls() == [draft]
    assert drafts.finish_calls() == []
    (past,) = drafts.history.of(*draft.key)
    assert (past.arguments, past.status) == ({"a": "x"}, "ok")
    recorded = link.traffic.exchange(len(link.traffic.exchanges) - 1)
    assert past.elapsed_s == recorded.elapsed(0.0), "as the traffic screen has it"


def test_secrets_are_left_out_even_where_the_form_cannot_show_the_value() -> None:
    draft = Drafts(FakeLink()).of("profiles", tool("user-profile", SECRET))
    draft.start({"a": 5, "key": "s", "more": 1})
    assert draft.arguments_without_secrets == {"a": 5, "more": 1}


def test_running_calls_are_known_by_item() -> None:
    link = FakeLink()
    drafts = Drafts(link)
    draft = drafts.of("profiles", tool("slow-report", {}))
    draft.start({})
    assert drafts.running_items("profiles") == {(ItemKind.TOOL, "slow-report")}
    assert drafts.running_items("hello") == frozenset()
    link.calls[0].cancel()
    drafts.finish_calls()
    assert drafts.history.of(*draft.key)[0].status == "stopped waiting"


def test_templates_and_prompts_miss_their_required_strings() -> None:
    draft = Drafts(FakeLink()).of("profiles", CatalogueItem(ItemKind.TEMPLATE, "x://{a}{?b}", "x"))
    assert [failure.message for failure in draft.failures({})] == ['"a" is a required property']
    assert draft.failures({"a": "1"}) == []


def reading(link: FakeLink) -> Draft:
    """The draft of a resource that was read."""
    item = next(one for one in link.catalogue("profiles").items if one.name == CONFIG)
    draft = Drafts(link).of("profiles", item)
    draft.uri = CONFIG
    return draft


def test_what_the_server_does_not_watch_ends() -> None:
    link = FakeLink()
    draft = reading(link)
    draft.watch()
    count = link.watching.pop(CONFIG)
    assert not draft.update_watch()
    link.watching[CONFIG] = count
    assert not draft.update_watch()
    link.watching.clear()
    assert draft.update_watch() and draft.change_count is None


@pytest.mark.slow
async def test_a_watched_resource_is_read_again_and_says_so() -> None:
    link = FakeLink()
    async with bench(link) as it:
        await it.open(CONFIG)
        await it.until(lambda: "ok" in it.title)
        await it.pilot.press("f")
        await it.until(lambda: "◉ watched" in it.title)
        link.watching[CONFIG] = 1
        await it.until(lambda: "◉ watched, 1 change" in it.title)
        read = ("resources/read", {"uri": CONFIG})
        await it.until(lambda: it.sent == [read, read])
        await it.until(lambda: it.pane.draft is not None and it.pane.draft.call is None)
        assert it.pane.draft is not None
        assert len(it.pane._drafts.history.of(*it.pane.draft.key)) == 1
        await it.pilot.press("f")
        await it.until(lambda: "watched" not in it.title)


@pytest.mark.slow
async def test_only_what_was_read_can_be_watched() -> None:
    async with bench() as it:
        await it.open("user-profile")
        it.pane.action_watch()
        await it.until(lambda: toasts(it.app) == ["read a resource first, then watch it"])
