"""Workbench: the catalogue, the arguments and the result of an item, and its traffic.

The traffic is a strip of all messages below the item. On a wide screen it is a third column, with the
requests for the item only. On a small screen, the catalogue and the item take turns.

The catalogue is drawn first. The other parts, which take longer to import and lay out, are added later.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.getters import query_one
from textual.timer import Timer

from mcpdesk.link.link import Link
from mcpdesk.link.values import CatalogueItem, CoreView, ItemKind, ModeView, ServerView
from mcpdesk.plain_text import json_escaped
from mcpdesk.tui.actions import FEATURE_ACTIONS, bindings_for, with_feature_actions
from mcpdesk.tui.editor import edit
from mcpdesk.tui.feature_signs import signs_of
from mcpdesk.tui.following import TICK_S
from mcpdesk.tui.forms.schema_fields import UNSET
from mcpdesk.tui.pager import edit_text, page
from mcpdesk.tui.render.amounts import counted
from mcpdesk.tui.render.json_text import compact, json_problem, pretty
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.beside import ListWithDetails, has_room_beside
from mcpdesk.tui.widgets.pane import Pane
from mcpdesk.tui.workbench.catalogue_list import CatalogueList, CataloguePane
from mcpdesk.tui.workbench.drafts import Draft, Drafts, is_same_item
from mcpdesk.tui.workbench.traffic_box import TrafficBox

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp
    from mcpdesk.tui.forms.argument_editor import Arguments
    from mcpdesk.tui.results.json_tree import JsonTree
    from mcpdesk.tui.results.older_revision import OlderRevision
    from mcpdesk.tui.results.result_view import ResultView
    from mcpdesk.tui.traffic.traffic_list import TrafficList
    from mcpdesk.tui.workbench.item_pane import ItemPane

_MIN_NORMAL_WIDTH = 110
"""Minimum width in cells of a pane with a catalogue of normal width."""
_MAX_CATALOGUE_WAIT_S = 0.5
"""Maximum seconds to wait for the items of the catalogue before the other parts are added."""
_CURSOR_PAUSE_S = 0.2
"""Seconds that the cursor must rest after quick moves before the form of an item is built."""
_KINDS_READ_AT_ONCE = (ItemKind.RESOURCE, ItemKind.TEMPLATE, ItemKind.SKILL)
"""Kinds of items that Enter reads immediately, because reading changes nothing."""
_ACTIONS_ON_SHOWN_ITEM = frozenset({"toggle_json", "clear_form", "show_tab", "widen_result"})
"""Actions whose effect is only visible while the item is shown."""


class _Opening(Struct, frozen=True):
    """Item that is about to be shown, and the actions that follow."""

    item: CatalogueItem
    must_focus: bool = False
    """True if the focus moves to the arguments of the item."""
    arguments: Any = UNSET
    """Arguments to put into the item's form."""
    must_call: bool = False
    """True if the item is called after it is shown."""


class WorkbenchPane(ListWithDetails, Vertical, Pane):
    """Catalogue on the left, selected item on the right. `server` is the name of the selected server."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("workbench")
    DEFAULT_CSS = """
    WorkbenchPane { height: 1fr; }
    WorkbenchPane #upper { height: 1fr; }
    WorkbenchPane CataloguePane { width: 32; border-right: vkey $foreground 15%; }
    WorkbenchPane.-slim CataloguePane { width: 26; }
    WorkbenchPane.-turns CataloguePane { width: 1fr; border-right: none; }
    WorkbenchPane.-broad { layout: horizontal; }
    WorkbenchPane.-broad #upper { width: 1fr; }
    WorkbenchPane.-broad CataloguePane { width: 28%; min-width: 34; max-width: 50; }
    """

    back_action = "workbench.back"
    back_title = "to the catalogue"
    app: DeskApp
    catalogue = query_one(CataloguePane)
    traffic_box = query_one(TrafficBox)

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.server = ""
        self.link = link
        self._drafts = Drafts(link)
        self._item_pane: ItemPane | None = None
        self._has_all_parts = False
        """True if all parts exist or are being added."""
        self._loaded_version: tuple[int, tuple[ModeView, ...]] | None = None
        """Catalogue version and modes of the server when the catalogue was filled, or None to fill it."""
        self._load_timer: Timer | None = None
        """Timer that loads the item under the cursor when the cursor rests."""
        self._opening: _Opening | None = None
        """Item that is about to be shown, with the actions that follow, or None."""
        self._cursor_move_time = 0.0
        """Monotonic time in seconds of the last cursor move to another item."""
        self._load_lock = asyncio.Lock()

    def compose(self) -> ComposeResult:
        """Compose the part that is drawn first."""
        with Horizontal(id="upper"):
            yield CataloguePane(classes="list-part")
        yield TrafficBox(self.link.traffic)

    def on_mount(self) -> None:
        self._drafts.store_at(self.app.history_path)
        self.set_timer(_MAX_CATALOGUE_WAIT_S, self._add_other_parts)

    def _add_other_parts(self) -> None:
        """Add the parts other than the catalogue, if they are missing."""
        if not self._has_all_parts:
            self._has_all_parts = True
            self._add_item_pane()

    @work(group="open")
    async def _add_item_pane(self) -> None:
        """Add the item pane beside the catalogue, and the traffic strip if there is space."""
        from mcpdesk.tui.workbench.item_pane import ItemPane

        pane = ItemPane().add_class("detail-part")
        await self.query_one("#upper").mount(pane)
        self._item_pane, self._loaded_version = pane, None
        self.traffic_box.add_list()
        self.refresh_bindings()
        self.show_view(self.link.view())
        if self._opening is not None:
            self._open(self._opening.item)

    @property
    def item_pane(self) -> ItemPane:
        """Pane of the selected item. Keys wait until it exists."""
        assert self._item_pane is not None
        return self._item_pane

    def position(self) -> tuple[Drafts, CatalogueItem | None]:
        """Return the drafts of all items, and the open item. A new screen restores them after a crash."""
        return self._drafts, self.item

    def return_to(self, position: tuple[Drafts, CatalogueItem | None]) -> None:
        """Restore the state that `position` returned."""
        self._drafts, item = position
        if item is not None:
            self._open(self._select_item(item.kind, item.name))

    def open_item(self, kind: ItemKind, name: str) -> None:
        """Open an item of the selected server and focus its arguments."""
        self._update_server(self.link.view())
        if any((one.kind, one.name) == (kind, name) for one in self.link.catalogue(self.server).items):
            self._open(self._select_item(kind, name), must_focus=True)

    def edit_call(self, kind: ItemKind, name: str, arguments: Any) -> None:
        """Open an item with the arguments of a recorded call, which can be edited and sent."""
        self._update_server(self.link.view())
        self._open(self._select_item(kind, name), arguments=arguments)

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < _MIN_NORMAL_WIDTH, "-slim")
        self.set_class(has_room_beside(self), "-broad")
        self.update_turns()
        self.traffic_box.lay_out(event.size, is_column=self.has_class("-broad"))

    @property
    def must_take_turns(self) -> bool:
        """True if the pane is too small for the catalogue beside an item.

        If the server has no items, its instructions are shown beside the empty catalogue at any width.
        """
        is_narrow = self.outer_size.width < _MIN_NORMAL_WIDTH
        has_item = self._item_pane is None or not self._item_pane.has_class("-empty")
        return is_narrow and has_item and super().must_take_turns

    @property
    def likely_actions(self) -> Sequence[str]:
        """The action that shows the item, while it is hidden, or the one that leads back to the catalogue."""
        return ("catalogue.open",) if self.hides_details else super().likely_actions

    def show_view(self, view: CoreView) -> None:
        """Update the catalogue and the running calls of the selected server."""
        self._update_server(view)
        if self._item_pane is None:
            if self._loaded_version is not None:
                self.call_after_refresh(self._add_other_parts)
            return
        for draft in self._drafts.finish_calls():
            if draft is self.draft:
                self._show_result()
        if self.draft is not None:
            self.draft.update_duration()
            if self.draft.update_watch():
                self.notify("the server does not watch this resource", severity="warning", markup=False)
        self.catalogue.rows.show_running(self._drafts.running_items(self.server))
        self.item_pane.update(view, self.server)
        self.update_turns()
        self._show_traffic()

    def tick_s(self) -> float | None:
        """Return one second while a call runs, otherwise None."""
        return TICK_S if self.draft is not None and self.draft.call is not None else None

    @property
    def draft(self) -> Draft | None:
        """Draft of the open item, or None while another item is about to be shown."""
        draft = None if self._item_pane is None else self._item_pane.draft
        opening = self._opening
        if draft is None or (opening is not None and not is_same_item(draft.item, opening.item)):
            return None
        return draft

    @property
    def holds_keys(self) -> bool:
        """True if typed keys are meant for an item that is about to be shown and focused."""
        opening = self._opening
        if self._item_pane is None:
            return True
        if opening is None:
            return False
        return opening.must_focus or opening.must_call or opening.arguments is not UNSET

    @property
    def item(self) -> CatalogueItem | None:
        """Open item, or None while another item is about to be shown."""
        return self.draft.item if self.draft else None

    @property
    def _target_item(self) -> CatalogueItem | None:
        """Item that is about to be shown, or else the open item."""
        return self.item if self._opening is None else self._opening.item

    @property
    def arguments(self) -> Arguments:
        """Editor of the arguments."""
        return self.item_pane.arguments

    @on(CatalogueList.Highlighted)
    def show_highlighted(self, event: CatalogueList.Highlighted) -> None:
        """Show the item under the cursor: immediately, or after quick moves when the cursor rests."""
        event.stop()
        if event.item == self._target_item:
            return
        now = time.monotonic()
        is_quick_move = now - self._cursor_move_time < _CURSOR_PAUSE_S
        self._cursor_move_time = now
        self._open(event.item, is_delayed=is_quick_move)

    @on(CatalogueList.Chosen)
    def _item_chosen(self, event: CatalogueList.Chosen) -> None:
        """Open the item and focus its arguments. A resource without arguments is read immediately."""
        event.stop()
        self._open(event.item, must_focus=True)

    def _open(
        self,
        item: CatalogueItem,
        *,
        must_focus: bool = False,
        arguments: Any = UNSET,
        must_call: bool = False,
        is_delayed: bool = False,
    ) -> None:
        """Show an item. If it is already about to be shown, the options of both requests are combined."""
        previous = self._opening
        if previous is not None and is_same_item(previous.item, item):
            must_focus = must_focus or previous.must_focus
            must_call = must_call or previous.must_call
            arguments = previous.arguments if arguments is UNSET else arguments
        self._opening = _Opening(item, must_focus, arguments, must_call)
        if self._item_pane is None:
            return
        self.item_pane.expect(item)
        self._show_traffic()
        if self._load_timer is not None:
            self._load_timer.stop()
        if is_delayed:
            self._load_timer = self.set_timer(_CURSOR_PAUSE_S, self._load)
        else:
            self._load()

    @work(group="open")
    async def _load(self) -> None:
        """Show the requested item.

        Only one item is loaded at a time, because an incomplete form does not react to keys.
        """
        async with self._load_lock:
            opening = self._opening
            if opening is None:
                return
            draft = self._drafts.of(self.server, opening.item)
            await self.item_pane.load(draft)
            if draft.notice:
                self.app.notify(one_line(f"{opening.item.name}: {draft.notice}"), markup=False)
                draft.notice = ""
            if opening.arguments is not UNSET and self._opening is opening:
                await self.arguments.put(opening.arguments)
            if self._opening is not opening:
                return  # another item was requested in the meantime, or more options for this one
            self._opening = None
            self.refresh_bindings()
            self._finish_opening(opening)

    def _finish_opening(self, opening: _Opening) -> None:
        """Move the focus and make the call, as requested."""
        must_call = opening.must_call
        has_arguments_to_edit = opening.arguments is not UNSET and not must_call
        if opening.must_focus or has_arguments_to_edit:
            has_fields = self.arguments.focus_first()
            if opening.must_focus and not has_fields:
                must_call = must_call or opening.item.kind in _KINDS_READ_AT_ONCE
                self.item_pane.result.focus_contents()
        if must_call:
            self.action_call()

    def on_result_view_followed(self, event: ResultView.Followed) -> None:
        """Read the resource that a link points to, and select it in the catalogue if it is listed."""
        event.stop()
        self._open(self._select_item(ItemKind.RESOURCE, event.uri), must_focus=True)

    def action_call(self) -> None:
        """Call with the entered arguments. If they are invalid, only the second attempt sends them.

        If another item is about to be shown, call that item as soon as it is shown.
        """
        if self._opening is not None:
            self._open(self._opening.item, must_call=True)
            return
        draft = self.draft
        if draft is None or not self._may_call(draft):
            return
        if self.hides_details:
            self.item_pane.result.focus_contents()
        try:
            arguments = self.arguments.value()
        except ValueError as error:
            self.arguments.revalidate()
            self._report_not_sent(error)
            return
        failures = draft.failures(arguments)
        if failures and draft.warned_arguments != compact(arguments):
            draft.warned_arguments = compact(arguments)
            self.arguments.complain(failures)
            count = counted(len(failures), "problem")
            self.arguments.warn(f"{count}; ctrl+r again sends it anyway")
            return
        self._start_call(draft, arguments)

    def action_again(self) -> None:
        """Repeat the last call: put its arguments into the form and send them."""
        draft = self.draft
        if draft is None or not self._may_call(draft):
            return
        past_calls = self._drafts.history.of(*draft.key)
        if draft.arguments is None and not past_calls:
            self.app.notify("no calls yet", markup=False)
            return
        arguments = draft.arguments if draft.arguments is not None else past_calls[0].arguments
        draft.warned_arguments = compact(arguments)
        self._open(draft.item, arguments=arguments, must_call=True)

    def action_edit_source(self) -> None:
        """Open the user's editor where the last call failed, or else at the item.

        If the result has the focus and no failure has a location, open the text of the result.
        """
        draft, result = self.draft, self.item_pane.result
        has_location = draft is not None and any(line.where for line in draft.log_lines)
        if result.has_focus_within and not has_location and (shown_text := result.current_text()) is not None:
            edit_text(self.app, *shown_text)
            return
        location = None if draft is None else draft.location
        if location is None:
            self.app.notify("This item has no file here.", markup=False)
            return
        edit(self.app, *location)

    def action_to_result(self) -> None:
        """Focus the result."""
        self.item_pane.result.focus_contents()

    def action_page_result(self) -> None:
        """Show the result in the user's pager."""
        if (shown_text := self.item_pane.result.current_text()) is None:
            self.app.notify("No result yet; ctrl+r calls.", markup=False)
        else:
            page(self.app, *shown_text)

    async def action_edit_arguments(self) -> None:
        """Edit the arguments in the user's editor.

        A text that is not valid JSON is kept, so that it can be corrected.
        """
        draft = self.draft
        if draft is None:
            return
        old_text = json_escaped(pretty(draft.node.value()) if draft.text is None else draft.text)
        new_text = edit_text(self.app, old_text, "arguments.json")
        if new_text.strip() == old_text.strip():
            return
        draft.text = new_text
        if not json_problem(new_text) and draft.fill_form(json.loads(new_text)):
            draft.text = None
        await self.arguments.load(draft)
        self.arguments.focus_first()

    def on_arguments_submitted(self, event: Arguments.Submitted) -> None:
        """Focus the Call button after Enter in the last field, or read a resource immediately."""
        event.stop()
        if self.item is not None and self.item.kind in _KINDS_READ_AT_ONCE:
            self.action_call()
        else:
            self.item_pane.result.call_button.focus()

    def on_result_view_call_requested(self, event: ResultView.CallRequested) -> None:
        """Call, as the key does."""
        event.stop()
        self.action_call()

    @work(exclusive=True, group="older")
    async def on_older_revision_call_again(self, event: OlderRevision.CallAgain) -> None:
        """Reconnect to the server in an older revision, and repeat the call if its item is still shown."""
        from mcpdesk.tui.results.older_revision import OLDER_REVISION, reconnect_in_older_revision

        event.stop()
        server, item = self.server, self.item
        self.app.notify(one_line(f"Reconnecting to {server} with {OLDER_REVISION}."), markup=False)
        if not await reconnect_in_older_revision(self.link, server):
            message = f"{server} is not ready with {OLDER_REVISION}: the call was not made"
            self.app.notify(one_line(message), severity="warning", markup=False)
        elif item is not None and self._is_shown(server, item):
            self.action_again()
        else:
            message = f"{server} now uses {OLDER_REVISION}; call again with ctrl+r"
            self.app.notify(one_line(message), markup=False)

    def _is_shown(self, server: str, item: CatalogueItem) -> bool:
        """Return True if an item of a server is open."""
        return server == self.server and self.item is not None and is_same_item(item, self.item)

    def action_cancel(self) -> None:
        """Cancel the running call of this item."""
        if (draft := self.draft) is not None and draft.call is not None:
            draft.call.cancel()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable the action cancel only while a call runs, so that its key is free at other times.

        All actions are disabled before the item pane exists. Actions on an item are disabled if no item is
        open or about to be shown, and some if the item is hidden. Back is disabled if the catalogue has the
        focus.
        """
        if self._item_pane is None:
            return None
        if action == "cancel":
            return self.draft is not None and self.draft.call is not None
        if action == "back":
            return not self.catalogue.rows.has_focus
        if action in _ACTIONS_ON_SHOWN_ITEM and self.hides_details:
            return False
        if action == "filter":
            return bool(self.server)
        if (feature_action := FEATURE_ACTIONS.get(f"workbench.{action}")) is not None:
            return feature_action.is_possible(self, self.link.view())
        return self.draft is not None or self._opening is not None

    async def action_toggle_json(self) -> None:
        """Toggle between form and JSON."""
        await self.arguments.toggle()

    async def action_clear_form(self) -> None:
        """Reset the arguments to the defaults."""
        if self.draft is not None:
            self.draft.node.reset()
            self.draft.text = None
            await self.arguments.load(self.draft)

    @work(exclusive=True, group="menu")
    async def action_history(self) -> None:
        """Choose an earlier call and use its arguments."""
        from mcpdesk.tui.workbench.call_menus import history_menu

        draft = self.draft
        past_calls = self._drafts.history.of(*draft.key) if draft else []
        if draft is None or not past_calls:
            self.app.notify("no calls yet", markup=False)
            return
        chosen = await self.app.push_screen_wait(history_menu(draft.item.title, past_calls))
        if chosen is not None:
            await self._put_arguments(draft, past_calls[chosen].arguments)

    @work(exclusive=True, group="menu")
    async def action_saved(self) -> None:
        """Use saved arguments, or save the entered arguments under a name."""
        from mcpdesk.tui.workbench.call_menus import choose_saved

        if (draft := self.draft) is not None:
            chosen = await choose_saved(self.app, self._drafts, draft, self.arguments.value)
            await self._put_arguments(draft, chosen)

    async def _put_arguments(self, draft: Draft, arguments: Any) -> None:
        """Put arguments into the form. Do nothing for None, or if another item was opened in the meantime."""
        if arguments is not None and draft is self.draft:
            await self.arguments.put(arguments)
            self.arguments.focus_first()

    @work(exclusive=True, group="menu")
    async def action_copy(self) -> None:
        """Copy the result or the request."""
        from mcpdesk.tui.workbench.call_menus import choose_copy

        if self.draft is not None and (chosen := await choose_copy(self.app, self.draft)) is not None:
            self.app.copy(*chosen)

    def on_json_tree_copy_requested(self, event: JsonTree.CopyRequested) -> None:
        """Copy a value of the result."""
        event.stop()
        self.app.copy(event.text, event.what)

    @on(CatalogueList.PolicyAsked)
    def _policy_asked(self, event: CatalogueList.PolicyAsked) -> None:
        event.stop()
        self._choose_policy(self.server, event.item)

    @work(exclusive=True, group="menu")
    async def _choose_policy(self, server: str, item: CatalogueItem) -> None:
        """Ask for the policy of a tool, and set it. The core sends a notice that explains it."""
        from mcpdesk.tui.workbench.call_menus import policy_menu

        chosen = await self.app.push_screen_wait(policy_menu(item))
        if chosen is not None and chosen is not item.policy:
            self.link.choose_policy(server, item.name, chosen)

    def action_filter(self) -> None:
        """Focus the filter of the catalogue."""
        self.catalogue.filter.focus()

    def action_back(self) -> None:
        """Move the focus from the arguments or the result to the catalogue."""
        self.catalogue.rows.focus()

    def action_show_tab(self, by: int) -> None:
        """Show another tab of the result."""
        self.item_pane.result.action_show_tab(by)

    def action_widen_result(self, by: int) -> None:
        """Move the border between arguments and result."""
        self.item_pane.widen_result(by)

    def action_watch(self) -> None:
        """Watch the resource that was read, or stop watching it."""
        draft = self.draft
        if draft is None or not draft.uri:
            self.app.notify("read a resource first, then watch it", severity="warning", markup=False)
        elif draft.change_count is None:
            draft.watch()
            self.app.notify("watched: it is read again when the server reports a change", markup=False)
        else:
            draft.unwatch()
            self.app.notify("no longer watched", markup=False)

    @work(exclusive=True, group="menu")
    async def action_save(self) -> None:
        """Save a part of the result to a file."""
        from mcpdesk.tui.workbench.call_menus import save_result

        if self.draft is not None:
            await save_result(self.app, self.draft)

    @work(exclusive=True, group="menu")
    async def action_compare(self) -> None:
        """Show the differences between the result and the result of another call."""
        from mcpdesk.tui.workbench.call_menus import compare_result

        if self.draft is not None:
            await compare_result(self.app, self.draft)

    def _update_server(self, view: CoreView) -> None:
        if self.app.server != self.server:
            self.server, self._loaded_version = self.app.server, None
            self._opening = None
            if self.hides_list and self.has_focus_within:
                self.catalogue.rows.focus()
            self.catalogue.filter.value = ""  # the filter was meant for another server
            if not self.server:
                self.catalogue.rows.load((), ())
            self._close_item()
        server_view = next((one for one in view.servers if one.name == self.server), None)
        if server_view is None:
            return
        version = (server_view.catalogue_version, server_view.modes)
        if version != self._loaded_version:
            self._loaded_version = version
            self._load_catalogue(server_view)

    def _close_item(self) -> None:
        """Remove the open item, because another server was selected."""
        if self._item_pane is not None:
            self._item_pane.draft = None
            if not self.server:
                self._item_pane.show_instructions(None)
            self.refresh_bindings()

    def _select_item(self, kind: ItemKind, name: str) -> CatalogueItem:
        """Select an item in the catalogue, and return it. If it is not listed, return a new item."""
        for item in self.link.catalogue(self.server).items:
            if (item.kind, item.name) == (kind, name):
                self.catalogue.reveal(item)
                return item
        return CatalogueItem(kind, name, name)

    def _load_catalogue(self, server: ServerView) -> None:
        catalogue = self.link.catalogue(self.server)
        self.catalogue.rows.load(catalogue.items, server.modes)
        if self._item_pane is None:
            return
        if not catalogue.items:
            self.item_pane.show_instructions(server)
            self.refresh_bindings()
        target = self._target_item
        for new_item in catalogue.items:
            if target is not None and is_same_item(new_item, target) and new_item != target:
                self._open(new_item)  # the definition of the item has changed

    def _may_call(self, draft: Draft) -> bool:
        """Return True if the item can be called now. Otherwise, notify the person of the reason."""
        if draft.item.problem and not draft.item.stale:
            self.app.notify(f"unavailable: {one_line(draft.item.problem)}", severity="error", markup=False)
            return False
        if draft.call is not None:
            self.app.notify("still running; x or ctrl+x cancels it", severity="warning", markup=False)
            return False
        return True

    @work(exclusive=True, group="menu", description="a call")  # by default it contains the arguments
    async def _start_call(self, draft: Draft, arguments: Any) -> None:
        """Make the call, after a confirmation if the tool is destructive."""
        guard = self.app.destructive_calls
        if not await guard.may_call(self.app, draft.server, draft.item, arguments):
            return
        try:
            draft.start(arguments)
        except ValueError as error:
            self._report_not_sent(error)
            return
        self.app.main.last_call = time.monotonic()
        draft.warned_arguments = None
        self.arguments.warn("")
        self._show_result()
        self.refresh_bindings()

    def _report_not_sent(self, error: ValueError) -> None:
        self.app.notify(f"not sent: {one_line(str(error))}", severity="error", markup=False)

    @work(group="result")  # one at a time: Textual closes the screen if a removal is cancelled
    async def _show_result(self) -> None:
        await self.item_pane.draw_result()
        self.refresh_bindings()

    def _show_traffic(self) -> None:
        self.traffic_box.show_item(self.server, self._target_item)
        self.traffic_box.update_lines(signs_of(self.link).stopped)

    def on_traffic_list_opened(self, event: TrafficList.Opened) -> None:
        """Open an exchange on the traffic screen, which has space for its details."""
        event.stop()
        self.call_later(self._open_in_traffic, event.exchange)

    async def _open_in_traffic(self, exchange: int | None) -> None:
        from mcpdesk.tui.traffic.traffic_pane import TrafficPane

        await self.app.main.show_screen("traffic")
        if exchange is not None:
            self.screen.query_one(TrafficPane).open_exchange(exchange)


with_feature_actions(WorkbenchPane, "workbench")
