"""The workbench: catalogue, arguments, result, a strip of traffic. Talks to the core through the link."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.timer import Timer

from mcpdesk.link.link import Link
from mcpdesk.link.values import CatalogueItem, CoreView, Failure, ItemKind, ServerView
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.copies import copies
from mcpdesk.tui.drafts import Draft, Drafts
from mcpdesk.tui.history import History, PastCall
from mcpdesk.tui.render.json_text import compact, preview
from mcpdesk.tui.render.output_check import marks
from mcpdesk.tui.render.text import one_line
from mcpdesk.tui.widgets.arguments import Arguments
from mcpdesk.tui.widgets.catalogue import CatalogueList, CataloguePane
from mcpdesk.tui.widgets.item_header import ItemHeader
from mcpdesk.tui.widgets.json_tree import JsonTree
from mcpdesk.tui.widgets.lesson import Lesson
from mcpdesk.tui.widgets.menu import Choice, Menu
from mcpdesk.tui.widgets.result_view import ResultView, duration, verdict

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp
    from mcpdesk.tui.widgets.traffic_list import TrafficList

_STACKED_BELOW = 110
"""Cells across below which form and result stand above each other."""
_STRIP_FROM = 32
"""Rows from which the traffic strip is shown."""
_QUIET = "  No message has passed yet. ctrl+r calls; U copies what a client needs to connect."
_SETTLE_S = 0.06
"""How long the cursor rests on an item before its form is built."""


class WorkbenchPane(Vertical):
    """Catalogue left, the chosen item right. `server` is the server it is about."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("workbench")
    DEFAULT_CSS = """
    WorkbenchPane { height: 1fr; }
    WorkbenchPane #upper { height: 1fr; }
    WorkbenchPane CataloguePane { width: 32; border-right: vkey $foreground 15%; }
    WorkbenchPane #item { width: 1fr; }
    WorkbenchPane #work { height: 1fr; layout: horizontal; }
    WorkbenchPane .box {
        border: round $foreground 20%; border-title-color: $text-muted; width: 1fr; height: 1fr;
        border-title-style: bold;
    }
    WorkbenchPane .box:focus-within { border: round $primary; border-title-color: $text-primary; }
    WorkbenchPane #strip {
        display: none; height: 9; border-top: solid $foreground 20%; border-title-color: $text-muted;
        border-title-style: bold;
    }
    WorkbenchPane #strip:focus-within { border-top: solid $primary; border-title-color: $text-primary; }
    WorkbenchPane #lesson { display: none; padding: 1 2; color: $text-muted; height: 1fr; }
    WorkbenchPane.-empty #lesson { display: block; }
    WorkbenchPane.-empty #work { display: none; }
    WorkbenchPane.-stacked #work { layout: vertical; }
    WorkbenchPane.-stacked CataloguePane { width: 26; }
    WorkbenchPane.-stacked .box { border: none; border-top: solid $foreground 20%; }
    WorkbenchPane.-stacked .box:focus-within { border-top: solid $primary; }
    WorkbenchPane.-broad CataloguePane { width: 42; }
    WorkbenchPane.-high #strip { display: block; }
    """

    server: reactive[str] = reactive("")

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link
        self._drafts = Drafts(link, History())
        self._draft: Draft | None = None
        self._catalogue_version = -1
        self._pending: Timer | None = None
        self._aimed: CatalogueItem | None = None
        self._title = ""

    def compose(self) -> ComposeResult:
        """Everything but the traffic strip, which is imported when there is room for it."""
        with Horizontal(id="upper"):
            yield CataloguePane()
            with Vertical(id="item"):
                yield ItemHeader()
                yield Lesson(id="lesson")
                with Container(id="work"):
                    arguments = Arguments(self._check, id="arguments")
                    arguments.border_title = "Arguments"
                    yield arguments.add_class("box")
                    result = ResultView(id="result")
                    result.border_title = "Result"
                    yield result.add_class("box")
        yield Vertical(id="strip")

    def on_mount(self) -> None:
        """Earlier calls are kept where the application says."""
        self._drafts.history = History(getattr(self.app, "history_path", None))

    def open_item(self, kind: ItemKind, name: str) -> None:
        """Open an item and go to its arguments."""
        items = self._link.catalogue(self.server).items
        wanted = next((one for one in items if (one.kind, one.name) == (kind, name)), None)
        if wanted is not None:
            self._open(wanted, enter=True)
            self.catalogue.reveal(wanted)

    def on_resize(self, event: events.Resize) -> None:
        """Stack or set side by side; show the strip where there is room."""
        self.set_class(event.size.width < _STACKED_BELOW, "-stacked")
        self.set_class(event.size.width >= 160, "-broad")
        is_high = event.size.height >= _STRIP_FROM - 3
        self.set_class(is_high, "-high")
        strip = self.query_one("#strip", Vertical)
        if is_high and not strip.children:
            self._fill_strip(strip)

    def look(self, view: CoreView) -> None:
        """Follow the server shown in the header, its catalogue, and the calls under way."""
        self._follow(view)
        for draft in self._drafts.settle():
            if draft is self._draft:
                self._show_result()
        self.catalogue.rows.show_running(self._drafts.running(self.server))
        self._show_title()
        strip = self.query_one("#strip", Vertical)
        for child in strip.children if self.has_class("-high") else ():
            look = getattr(child, "look", None)
            if look is not None:
                look()

    @property
    def catalogue(self) -> CataloguePane:
        """Left."""
        return self.query_one(CataloguePane)

    @property
    def arguments(self) -> Arguments:
        """Middle."""
        return self.query_one(Arguments)

    @property
    def result(self) -> ResultView:
        """Right."""
        return self.query_one(ResultView)

    @property
    def item(self) -> CatalogueItem | None:
        """What is open."""
        return self._draft.item if self._draft else None

    @on(CatalogueList.Highlighted)
    def rest(self, event: CatalogueList.Highlighted) -> None:
        """Open the item once the cursor rests on it."""
        event.stop()
        if self._pending is not None:
            self._pending.stop()
        if event.item is not self._aimed:
            self._pending = self.set_timer(_SETTLE_S, lambda: self._open(event.item))

    @on(CatalogueList.Chosen)
    def enter(self, event: CatalogueList.Chosen) -> None:
        """Open the item and go to its arguments; read at once what takes none."""
        event.stop()
        self._open(event.item, enter=True)

    def _open(self, item: CatalogueItem, enter: bool = False) -> None:
        if self._pending is not None:
            self._pending.stop()
        self._aimed = item
        self._load(item, enter)

    @work(exclusive=True, group="open")
    async def _load(self, item: CatalogueItem, enter: bool) -> None:
        draft = self._drafts.of(self.server, item)
        if draft is not self._draft or draft.node is not self.arguments.form.node:
            self._draft = draft
            self.query_one(ItemHeader).show(item)
            await self.arguments.load(draft)
            await self._draw_result()
        if enter and not self.arguments.focus_first():
            self.action_call()

    @on(ResultView.Followed)
    def follow(self, event: ResultView.Followed) -> None:
        """Read the resource a link points to, in the catalogue where it is listed."""
        event.stop()
        items = self._link.catalogue(self.server).items
        listed = [one for one in items if one.kind is ItemKind.RESOURCE and one.name == event.uri]
        if listed:
            self.catalogue.reveal(listed[0])
        self._open(
            listed[0] if listed else CatalogueItem(ItemKind.RESOURCE, event.uri, event.uri), enter=True
        )

    def action_call(self) -> None:
        """Call with what is entered; the second time even if it does not fit."""
        draft = self._draft
        if draft is None or not self._may_call(draft):
            return
        try:
            arguments = self.arguments.value()
        except ValueError as error:
            self.arguments.revalidate()
            self.app.notify(f"not sent: {one_line(str(error))}", severity="error", markup=False)
            return
        failures = self._check(draft, arguments)
        if failures and draft.insisted != compact(arguments):
            draft.insisted = compact(arguments)
            self.arguments.complain(failures)
            count = f"{len(failures)} problem{'s' if len(failures) > 1 else ''}"
            self.app.notify(f"{count}; ctrl+r again sends it anyway", severity="warning", markup=False)
            return
        self._start(draft, arguments)

    def action_again(self) -> None:
        """The last call once more, whatever the form says by now."""
        draft = self._draft
        if draft is None or not self._may_call(draft):
            return
        past = self._drafts.past(self.server, draft.item)
        if draft.arguments is None and not past:
            self.app.notify("nothing was called here yet", markup=False)
            return
        self._start(draft, draft.arguments if draft.arguments is not None else past[0].arguments)

    @on(Arguments.Submitted)
    def submit(self, event: Arguments.Submitted) -> None:
        """Enter in the last field calls, unless that could destroy something."""
        event.stop()
        said = self.item.definition.get("annotations") or {} if self.item else {}
        if said.get("destructiveHint") is True:
            self.app.notify("this tool is destructive: ctrl+r calls it", severity="warning", markup=False)
        else:
            self.action_call()

    def action_cancel(self) -> None:
        """Cancel the running call of this item."""
        if self._draft is not None and self._draft.call is not None:
            self._draft.call.cancel()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Cancelling needs something to cancel, so that its key is free otherwise."""
        if action == "cancel":
            return self._draft is not None and self._draft.call is not None
        return True

    async def action_toggle_json(self) -> None:
        """Swap form and JSON."""
        await self.arguments.toggle()

    async def action_clear_form(self) -> None:
        """Back to the defaults."""
        if self._draft is not None:
            self._draft.node.clear()
            self._draft.text = None
            await self.arguments.load(self._draft)

    @work(exclusive=True, group="menu")
    async def action_history(self) -> None:
        """Pick an earlier call and take its arguments."""
        draft = self._draft
        past = self._drafts.past(self.server, draft.item) if draft else []
        if draft is None or not past:
            self.app.notify("nothing was called here yet", markup=False)
            return
        choices = [
            Choice(one_line(preview(call.arguments, 60)), at, _told(call)) for at, call in enumerate(past)
        ]
        chosen = await self.app.push_screen_wait(
            Menu(f"History of {draft.item.title}", choices, filtered=True)
        )
        if chosen is not None and draft is self._draft:
            await self.arguments.put(past[chosen].arguments)
            self.arguments.focus_first()

    @work(exclusive=True, group="menu")
    async def action_copy(self) -> None:
        """Copy the result or what led to it."""
        draft = self._draft
        if draft is None:
            return
        curl = self._link.client_config(self.server, "curl")
        view = self._link.view()
        folder = next((one.folder for one in view.servers if one.name == self.server), ".")
        choices = [Choice(what, (text, what), key=key) for key, what, text in copies(draft, curl, folder)]
        chosen = await self.app.push_screen_wait(Menu("Copy", choices))
        if chosen is not None:
            cast("DeskApp", self.app).copy(*chosen)

    @on(JsonTree.CopyAsked)
    def copy_asked(self, event: JsonTree.CopyAsked) -> None:
        """A tree wants something on the clipboard."""
        event.stop()
        cast("DeskApp", self.app).copy(event.text, event.what)

    def action_filter(self) -> None:
        """Go to the catalogue's filter."""
        self.catalogue.filter.focus()

    def _follow(self, view: CoreView) -> None:
        names = [server.name for server in view.servers]
        wanted = getattr(self.app, "server", "") or (names[0] if names else "")
        if wanted != self.server:
            self.server, self._catalogue_version = wanted, -1
            self._draft = self._aimed = None
        version = next((one.catalogue_version for one in view.servers if one.name == self.server), -1)
        if self.server in names and version != self._catalogue_version:
            self._catalogue_version = version
            self._load_catalogue(next(one for one in view.servers if one.name == self.server))

    def _load_catalogue(self, server: ServerView) -> None:
        catalogue = self._link.catalogue(self.server)
        self.set_class(not catalogue.items, "-empty")
        self.query_one(Lesson).teach(server)
        self.catalogue.rows.load(catalogue.items)
        if not catalogue.items:
            self._draft = None
            self.query_one(ItemHeader).show(None)
        open_item = self.item
        fresh = [
            one
            for one in catalogue.items
            if open_item and (one.kind, one.name) == (open_item.kind, open_item.name)
        ]
        if fresh and fresh[0] != open_item:
            self._open(fresh[0])
            self.query_one(ItemHeader).show(fresh[0])

    def _check(self, draft: Draft, arguments: Any) -> list[Failure]:
        return self._drafts.failures(self.server, draft, arguments)

    def _may_call(self, draft: Draft) -> bool:
        if draft.item.problem and not draft.item.stale:
            self.app.notify(f"unavailable: {one_line(draft.item.problem)}", severity="error", markup=False)
            return False
        if draft.call is not None:
            self.app.notify("still running; ctrl+x cancels it", severity="warning", markup=False)
            return False
        return True

    def _start(self, draft: Draft, arguments: Any) -> None:
        try:
            self._drafts.start(self.server, draft, arguments)
        except ValueError as error:
            self.app.notify(f"not sent: {one_line(str(error))}", severity="error", markup=False)
            return
        draft.insisted = None
        self._show_result()
        self.refresh_bindings()

    @work(exclusive=True, group="result")
    async def _show_result(self) -> None:
        await self._draw_result()

    async def _draw_result(self) -> None:
        draft = self._draft
        if draft is None or (draft.call is None and draft.outcome is None):
            await self.result.say(*_hints(draft))
        elif draft.call is not None:
            await self.result.attend(draft.call)
        elif draft.outcome is not None:
            structured = (draft.outcome.result or {}).get("structuredContent")
            schema = draft.item.definition.get("outputSchema")
            await self.result.show(draft.outcome, marks(schema, structured))
        self._show_title()
        self.refresh_bindings()

    def _show_title(self) -> None:
        title, style = "Result", ""
        draft = self._draft
        if draft is not None and draft.call is not None:
            title, style = f"Result ─ … running {duration(time.time() - draft.call.started)}", "$text-warning"
        elif draft is not None and draft.outcome is not None:
            told, style = verdict(draft.outcome)
            title = f"Result ─ {told}"
        if title != self._title:
            self._title = title
            self.result.border_title = Content.styled(title, style)

    def _fill_strip(self, strip: Vertical) -> None:
        from mcpdesk.tui.widgets.traffic_list import TrafficList

        strip.border_title = "Traffic"
        listing = TrafficList(self._link.traffic, compact=True)
        listing.lesson = [(_QUIET, "traffic--muted")]
        strip.mount(listing)

    def on_traffic_list_opened(self, event: TrafficList.Opened) -> None:
        """Details of traffic are shown where there is room for them."""
        event.stop()
        self.call_later(self.screen.run_action, "show_screen('traffic')")


def _hints(draft: Draft | None) -> list[Content]:
    if draft is None or (draft.item.problem and not draft.item.stale):
        return [Content("")]
    verbs = {ItemKind.TOOL: "calls the tool", ItemKind.PROMPT: "gets the prompt"}
    verb = verbs.get(draft.item.kind, "reads the resource")
    return [Content.styled(f"ctrl+r {verb}.", "$text-muted")]


def _told(call: PastCall) -> str:
    when = time.strftime("%d %b %H:%M", time.localtime(call.time))
    return f"{call.status} {duration(call.elapsed_s)} · {when}"
