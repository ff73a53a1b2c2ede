"""A desk on sample data with the workbench up, driven by keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from textual.pilot import Pilot

from mcpdesk.link.link import Link
from mcpdesk.link.values import Catalogue, CatalogueItem, ItemKind
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.results.result_view import ResultView
from mcpdesk.tui.screens.workbench import WorkbenchPane
from tests.support.driven import OnScreen, driven
from tests.support.fake_link import FakeLink


class Bench(OnScreen):
    """A desk on sample data, and what a test wants to know of it."""

    def __init__(self, app: DeskApp, pilot: Pilot[None], link: Any) -> None:
        super().__init__(app, pilot)
        self.link = link

    @property
    def pane(self) -> WorkbenchPane:
        return self.app.screen.query_one(WorkbenchPane)

    @property
    def title(self) -> str:
        return str(self.pane.query_one(ResultView).border_title)

    @property
    def sent(self) -> list[tuple[str, dict[str, Any]]]:
        """Requests by the person, without completion requests."""
        calls = [call for call in self.link.calls if call.method != "completion/complete"]
        return [(call.method, call.params) for call in calls]

    def has_opened(self) -> bool:
        """Whether no item is being opened. One that is given up for another is finished, too."""
        return all(each.is_finished for each in self.app.workers if each.group == "open")

    async def open(self, name: str) -> None:
        """Open an item by its name, the focus in its first field."""
        items = self.link.catalogue(self.app.server).items
        item = next(one for one in items if one.name == name)
        self.pane.open_item(item.kind, item.name)
        # One that is given up for another is finished, too.
        await self.until(lambda: all(worker.is_finished for worker in self.app.workers))
        await self.pilot.pause()


@asynccontextmanager
async def bench(
    link: FakeLink | None = None, size: tuple[int, int] = (120, 40), history: Path | None = None
) -> AsyncIterator[Bench]:
    link = link or FakeLink()
    link.asked = []
    app = DeskApp(cast(Link, link), history=history)
    async with driven(app, size=size) as pilot:
        made = Bench(app, pilot, link)
        await made.until(
            lambda: bool(app.screen.query("WorkbenchPane ItemPane")) and made.pane.item is not None
        )
        await made.until(made.has_opened)  # the item is known before its form is whole
        await pilot.pause()
        yield made
        await made.until(made.has_opened)  # before the screen is taken down


def tool(name: str, schema: dict[str, Any], **more: Any) -> CatalogueItem:
    definition = {"name": name, "inputSchema": schema, **more}
    return CatalogueItem(ItemKind.TOOL, name, name, definition=definition)


def link_with(*items: CatalogueItem) -> FakeLink:
    link = FakeLink()
    link.catalogues["profiles"] = Catalogue("profiles", 1, items)
    return link
