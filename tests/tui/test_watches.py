"""A watched resource is read again when its server says that it changed."""

from __future__ import annotations

from mcpdesk.tui.workbench.drafts import Draft, Drafts, Turn, Watches
from mcpdesk.tui.workbench.past_calls import History
from tests.support.fake_link import FakeLink
from tests.support.frame import toasts
from tests.support.workbench import bench

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
    assert watches.look("profiles", draft) is Turn.SAME
    assert watches.toggle("profiles", draft)
    assert watches.look("profiles", draft) is Turn.SAME
    link.watching[CONFIG] = 2
    assert watches.look("profiles", draft) is Turn.CHANGED and draft.changes == 2
    assert watches.look("profiles", draft) is Turn.SAME
    assert not watches.toggle("profiles", draft) and link.watching == {}


def test_what_the_server_does_not_watch_ends() -> None:
    link = FakeLink()
    watches, draft = Watches(link), drafted(link)
    watches.toggle("profiles", draft)
    taken = link.watching.pop(CONFIG)
    assert watches.look("profiles", draft) is Turn.SAME
    link.watching[CONFIG] = taken
    watches.look("profiles", draft)
    link.watching.clear()
    assert watches.look("profiles", draft) is Turn.ENDED and draft.changes is None


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
        assert len(it.pane._drafts.past("profiles", it.pane.item)) == 1
        await it.pilot.press("w")
        await it.until(lambda: "watched" not in it.title)


async def test_only_what_was_read_can_be_watched() -> None:
    async with bench() as it:
        await it.open("user-profile")
        it.pane.action_watch()
        await it.until(lambda: toasts(it.app) == ["read a resource first, then watch it"])
