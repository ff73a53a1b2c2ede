"""What the workbench keeps of each item, and the resources it watches."""

from __future__ import annotations

from textual.app import App

from mcpdesk.link.values import CatalogueItem, ItemKind
from mcpdesk.tui.workbench.drafts import Draft, Drafts, Watches, WatchEvent
from mcpdesk.tui.workbench.past_calls import History
from tests.support.fake_link import FakeLink
from tests.support.frame import toasts
from tests.support.workbench import bench

SECRET: dict[str, object] = {
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
    assert drafts.finish_calls() == [draft]
    assert drafts.finish_calls() == []
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
    drafts.finish_calls()
    assert drafts.past("profiles", draft.item)[0].status == "cancelled"


def test_templates_and_prompts_miss_their_required_strings() -> None:
    drafts = Drafts(FakeLink(), History())
    draft = drafts.of("profiles", CatalogueItem(ItemKind.TEMPLATE, "x://{a}{?b}", "x"))
    assert [failure.message for failure in drafts.failures("profiles", draft, {})] == [
        '"a" is a required property'
    ]
    assert drafts.failures("profiles", draft, {"a": "1"}) == []


CONFIG = "file:///config.json"


def drafted(link: FakeLink) -> Draft:
    items = link.catalogue("profiles").items
    item = next(one for one in items if one.name == CONFIG)
    draft = Drafts(link, History()).of("profiles", item)
    draft.uri = CONFIG
    return draft


def test_changes_are_told_once() -> None:
    link = FakeLink()
    watches, draft = Watches(link), drafted(link)
    assert watches.update("profiles", draft) is WatchEvent.NONE
    watches.toggle(App(), "profiles", draft)
    assert watches.update("profiles", draft) is WatchEvent.NONE
    link.watching[CONFIG] = 2
    assert watches.update("profiles", draft) is WatchEvent.CHANGED and draft.changes == 2
    assert watches.update("profiles", draft) is WatchEvent.NONE
    watches.toggle(App(), "profiles", draft)
    assert link.watching == {}


def test_what_the_server_does_not_watch_ends() -> None:
    link = FakeLink()
    watches, draft = Watches(link), drafted(link)
    watches.toggle(App(), "profiles", draft)
    taken = link.watching.pop(CONFIG)
    assert watches.update("profiles", draft) is WatchEvent.NONE
    link.watching[CONFIG] = taken
    watches.update("profiles", draft)
    link.watching.clear()
    assert watches.update("profiles", draft) is WatchEvent.ENDED and draft.changes is None


async def test_a_watched_resource_is_read_again_and_says_so() -> None:
    link = FakeLink()
    async with bench(link) as it:
        await it.open(CONFIG)
        await it.until(lambda: "ok" in it.title)
        await it.pilot.press("w")
        await it.until(lambda: "◉ watched" in it.title)
        link.watching[CONFIG] = 1
        await it.until(lambda: "◉ watched, 1 change" in it.title)
        read = ("resources/read", {"uri": CONFIG})
        await it.until(lambda: it.sent == [read, read])
        await it.until(lambda: it.pane.draft is not None and it.pane.draft.call is None)
        assert it.pane.item is not None
        assert len(it.pane._drafts.past("profiles", it.pane.item)) == 1
        await it.pilot.press("w")
        await it.until(lambda: "watched" not in it.title)


async def test_only_what_was_read_can_be_watched() -> None:
    async with bench() as it:
        await it.open("user-profile")
        it.pane.action_watch()
        await it.until(lambda: toasts(it.app) == ["read a resource first, then watch it"])
