"""Traffic screen: the list of messages, its filter, and the details of the selected exchange."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.cells import cell_len
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.content import Content
from textual.widgets import Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, ItemKind
from mcpdesk.paths import config_folder
from mcpdesk.plain_text import from_field, to_field
from mcpdesk.recorder.exchange_text import as_text
from mcpdesk.recorder.index.exchange import Exchange
from mcpdesk.recorder.index.query import QueryError, parse
from mcpdesk.recorder.index.traffic_index import last_round
from mcpdesk.recorder.masking import mask_text
from mcpdesk.tui.actions import FEATURE_ACTIONS, bindings_for, with_feature_actions
from mcpdesk.tui.core_answers import ClientConfigs, fetch_exchanges
from mcpdesk.tui.editor import edit
from mcpdesk.tui.feature_signs import signs_of
from mcpdesk.tui.following import TICK_S
from mcpdesk.tui.forms.question_text import DESK
from mcpdesk.tui.pager import page
from mcpdesk.tui.render.safe_text import clean, one_line
from mcpdesk.tui.results.json_tree import JsonTree
from mcpdesk.tui.traffic.colour_rules import CHECK_INTERVAL_S as RULES_CHECK_S
from mcpdesk.tui.traffic.colour_rules import FILE_NAME as COLOURS_FILE
from mcpdesk.tui.traffic.colour_rules import ColourRules
from mcpdesk.tui.traffic.exchange_details import frame_text
from mcpdesk.tui.traffic.exchange_menus import (
    FILE_NAME,
    SavedFilters,
    call_log,
    case_folders,
    choose_export,
    comparison_dialog,
    copy_menu,
    export_menu,
    filters_menu,
    logs_of,
    repeatable_request,
    write,
)
from mcpdesk.tui.traffic.filter_completion import CompletionLine
from mcpdesk.tui.traffic.line_cells import Cell
from mcpdesk.tui.traffic.line_jumps import comparison_pair, next_mark, next_of_kind, only_new
from mcpdesk.tui.traffic.marked_lines import hidden_marks, shown_marks
from mcpdesk.tui.traffic.pane_texts import connect_instructions, counts_text, mode_text, pointed_message
from mcpdesk.tui.traffic.possible_actions import ExchangeActions, PossibleActions
from mcpdesk.tui.traffic.traffic_columns import WithTrafficColumns
from mcpdesk.tui.traffic.traffic_detail import TrafficDetail
from mcpdesk.tui.traffic.traffic_list import TrafficList
from mcpdesk.tui.traffic.waterfall import legend
from mcpdesk.tui.widgets.beside import DetailState, has_room_beside
from mcpdesk.tui.widgets.menu import Choice, ask_moment, is_confirmed
from mcpdesk.tui.widgets.pane import Pane
from mcpdesk.tui.widgets.section import FilterPane
from mcpdesk.tui.workbench.drafts import waiting_location
from mcpdesk.tui.workbench.item_requests import Request, item_of

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp
    from mcpdesk.tui.screens.workbench import WorkbenchPane

_DETAILS_UPDATE_S = 0.5
"""Minimum seconds between two exchanges in the details while the list follows the newest line."""
_EXCHANGE_ACTIONS = frozenset(
    {"cancel", "edit_source", "copy", "pager", "replay", "edit", "logs", "compare", "next_like"}
)
"""Actions on the selected exchange."""
_FILTER_HINT = (
    "filter: words · method: tool: peer: status:error is:held kind: id: >200ms >10kb since:5m · not or ( )"
)


class TrafficPane(FilterPane, WithTrafficColumns, Pane):
    """Filter at the top, list and details, counts at the bottom."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("traffic")
    DEFAULT_CSS = """
    TrafficPane {
        & > .wrong { display: none; height: auto; max-height: 3; color: $text-error; }
        &.-wrong > .wrong { display: block; }
        & > .panes { height: 1fr; layout: vertical; }
        & .panes > TrafficList { height: 1fr; padding: 0; }
        & .panes > TrafficDetail { display: none; height: 1fr; border-top: solid $border-blurred;
            border-title-color: $foreground; }
        & .panes > TrafficDetail:focus-within { border-top: solid $border; }
        &.-detail .panes > TrafficDetail { display: block; }
        &.-detail .panes > TrafficList { height: 30%; min-height: 5; }
        &.-beside .panes { layout: horizontal; }
        &.-beside .panes > TrafficList { width: 3fr; height: 1fr; }
        &.-beside .panes > TrafficDetail {
            width: 2fr; height: 1fr; border-top: none; border-left: solid $border-blurred;
        }
        &.-beside .panes > TrafficDetail:focus-within { border-top: none; border-left: solid $border; }
        & > .legend { display: none; height: 1; padding: 0 1; text-wrap: nowrap; }
        & > .status { height: 1; color: $text-muted; background: $surface; padding: 0 1; text-wrap: nowrap; }
    }
    """
    back_action = "traffic.back"
    app: DeskApp

    def __init__(self, link: Link) -> None:
        super().__init__(_FILTER_HINT)
        self.filter_field.select_on_focus = False
        self.link = link
        self._filters: SavedFilters | None = None
        self._configs = ClientConfigs(link)
        self._rules = ColourRules(config_folder() / COLOURS_FILE, link.traffic)
        self._details = DetailState()
        self._details_key: tuple[int | None, int | None] = (None, None)
        """Exchange and raw frame in the details."""
        self._details_update_time = -math.inf
        """Monotonic time when the details last showed another exchange or frame."""
        self._status: tuple[object, ...] = ()
        """Contents of the status line, and its width in cells."""
        self._possible_actions = PossibleActions(link)
        self._footer_state = (False, ExchangeActions(), False)
        """State that the footer shows: True if an exchange is selected, its possible actions, and True if one
        of its messages is held."""

    def compose(self) -> ComposeResult:
        """Compose filter, filter error, list, details and status."""
        yield from super().compose()
        yield CompletionLine(self.link.traffic)
        yield Static(classes="wrong", markup=False)
        with Container(classes="panes"):
            listing = TrafficList(self.link.traffic, state_changed=self._show_state)
            yield listing.add_class("list-part")
            detail = TrafficDetail(
                self.link.traffic,
                self._definition_of,
                self._waiting_line_of,
                partial(call_log, self.link),
                self._rules,
            )
            yield detail.add_class("detail-part")
        yield Static(Content.assemble(*legend()), classes="legend")
        yield Static(classes="status", markup=False)

    @property
    def listing(self) -> TrafficList:
        """List of the traffic."""
        return self.query_one(TrafficList)

    @property
    def detail(self) -> TrafficDetail:
        """Details of the selected exchange."""
        return self.query_one(TrafficDetail)

    @property
    def completion(self) -> CompletionLine:
        """Completions of the filter."""
        return self.query_one(CompletionLine)

    @property
    def likely_actions(self) -> Sequence[str]:
        """Actions on a held message, a running call or a failed call.

        If the details hide the list, the action that returns to the list follows.
        """
        _, possible, is_held = self._footer_state
        return_actions = super().likely_actions
        if is_held:
            return ("traffic.edit", *return_actions)
        if possible.can_cancel:
            return ("traffic.cancel", *return_actions)
        if possible.has_failed:
            return ("traffic.edit_source", "traffic.replay", *return_actions)
        return return_actions

    @property
    def action_titles(self) -> Mapping[str, str]:
        """Titles of keys that do something else while the details are open."""
        into_details = {"traffic_list.open": "into the details"} if self.has_class("-detail") else {}
        return {**into_details, **super().action_titles}

    def show_view(self, view: CoreView) -> None:
        """Show new frames. This costs little without new frames."""
        listing = self.listing
        if self._rules.update():
            self._show_rules()
        if not listing.view.lines:
            self._show_empty_text(view)
        listing.update_lines()
        self._arrange_details()
        if self.detail.display:
            self.detail.update_exchange()
        self._show_status()
        self._update_footer()

    def tick_s(self) -> float | None:
        """Return the seconds until the details, a running clock or the colour rules must be updated."""
        if self.has_class("-detail") and self._details_key != (self.listing.selected, self.listing.frame):
            return _DETAILS_UPDATE_S
        is_ageing = self.listing.is_ageing or (self.detail.display and self.detail.is_ageing)
        return TICK_S if is_ageing else RULES_CHECK_S

    def position(self) -> tuple[str, int | None]:
        """Return the filter, and the selected exchange or None while the list follows new lines."""
        return self.filter_field.entered_text, None if self.listing.following else self.listing.selected

    def return_to(self, position: tuple[str, int | None]) -> None:
        """Restore filter and selection."""
        query, selected = position
        self.set_filter(query)
        if selected is not None:
            self.listing.select(selected)

    def set_filter(self, query: str) -> None:
        """Set the filter, as if it had been typed."""
        self.filter_field.entered_text = query
        self.set_class(bool(query), "-filtering")

    def show_only(self, query: str) -> None:
        """Show only matching exchanges, with details only if there is space beside the list."""
        self._details.reset()
        self._arrange_details()
        self.listing.focus()  # the details, which may have had the focus, are hidden
        self.set_filter(query)

    def open_exchange(self, number: int) -> None:
        """Select an exchange and show its details, as if it had been opened in the list."""
        self.listing.select(number)
        self.listing.action_open()

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable sending only with a server, and completion only while the filter is typed.

        The keys to cancel and to edit the code are enabled only for exchanges for which they have an effect.
        """
        if action in ("take", "choose"):
            return self.filter_field.has_focus and self.completion.display
        if action in _EXCHANGE_ACTIONS and not self._has_selection:
            return False
        if action in ("cancel", "edit_source"):
            possible = self._possible_actions.actions_of(self.selected_exchange())
            return possible.can_cancel if action == "cancel" else possible.source is not None
        view = self.link.view()
        if (feature_action := FEATURE_ACTIONS.get(f"traffic.{action}")) is not None:
            return feature_action.is_possible(self, view)
        if action == "edit" and self._is_held():
            return True
        return action not in ("replay", "edit", "logs") or bool(view.servers)

    def action_choose(self, by: int) -> None:
        """Select another completion of the filter."""
        self.completion.move(by)

    def action_take(self) -> None:
        """Complete the filter."""
        field = self.filter_field
        before_cursor = field.value[: field.cursor_position]
        after_cursor = field.value[field.cursor_position :]
        completed_part = to_field(self.completion.completed_text(before_cursor))
        field.value = completed_part + after_cursor.lstrip()
        field.cursor_position = len(completed_part)
        self.completion.show_for(completed_part)

    def action_back(self) -> None:
        """Go back one step: end the maximized view, leave or close the details, or close the filter."""
        is_filter_first = self.filter_field.has_focus or (self._details.is_beside and self.filter_field.value)
        if self.detail.is_maximized:
            self.screen.minimize()
        elif self.detail.has_focus_within and not self.has_class("-turns"):
            self.listing.focus()
        elif self.has_class("-detail") and not is_filter_first:
            self._details.close()
            self._arrange_details()
            self.call_after_refresh(self.listing.focus)  # the list may be hidden until then
        else:
            self.close_filter()
            self.listing.focus()

    def action_show_tab(self, by: int) -> None:
        """Show another tab of the details."""
        if self.detail.display:
            self.detail.action_show_tab(by)
        else:
            self.notify("Enter opens the details, which have tabs.", markup=False)

    @work
    async def action_filters(self) -> None:
        """Use a saved filter, save the current one, or delete it."""
        if self._filters is None:
            history = self.app.history_path
            self._filters = SavedFilters(history.with_name(FILE_NAME) if history else None)
        saved = self._filters
        menu = filters_menu(saved, self.filter_field.entered_text)
        action, query = await self.app.push_screen_wait(menu) or ("", "")
        if action == "use":
            self.set_filter(query)
        elif action == "keep":
            saved.add(query)
        elif action == "drop":
            saved.remove(query)

    def action_only_new(self) -> None:
        """Hide the exchanges so far, and follow those that start from now."""
        self.set_filter(only_new(self.filter_field.entered_text, self.link.traffic, time()))
        if not self.listing.following:
            self.listing.action_follow()
        elif self.listing.paused:
            self.listing.action_pause()

    @work
    async def action_copy(self) -> None:
        """Copy the exchange as text, JSON, curl or mcpdesk command, or the raw frame."""
        if (selected := self.selected_exchange()) is None:
            return
        menu = copy_menu(self.link, selected, self.listing.frame)
        if choice := await self.app.push_screen_wait(menu):
            create_text, text_name = choice
            await self.fetch(selected)
            exchange = self.link.traffic.exchange(selected)
            title = one_line(f"{exchange.method} {mask_text(exchange.name)}".strip() or "message")
            id_text = f" #{exchange.id}" if exchange.id is not None else ""
            self.app.copy(create_text(), f"{title}{id_text} as {text_name}")

    @work
    async def action_pager(self) -> None:
        """Show the raw frame, or the messages of the exchange, in the user's pager."""
        if (selected := self.selected_exchange()) is None:
            return
        frame = self.listing.frame
        await self.fetch(selected)
        if frame is not None:
            page(self.app, frame_text(self.link.traffic, frame), f"frame-{frame}.txt")
        else:
            text = as_text(self.link.traffic, selected, logs_of(self.link))
            page(self.app, text, f"exchange-{selected}.txt")

    @work
    async def action_export(self) -> None:
        """Write the shown or marked exchanges to a file."""
        shown_numbers, marked_numbers = self._matching_exchanges(), shown_marks(self.listing)
        hidden_note, folders = hidden_marks(self.listing), case_folders(self.link, shown_numbers)
        menu = export_menu(shown_numbers, marked_numbers, self.selected_exchange(), hidden_note, folders)
        if (choice := await choose_export(self.app, menu)) is not None:
            self._write(*choice)

    @work(thread=True, exclusive=True, group="traffic-export")
    def _write(self, numbers: Sequence[int], format_name: str, path: Path) -> None:
        """Write exchanges to a file, on another thread, and notify the person of the result."""
        try:
            message, severity = write(self.link, numbers, format_name, path), "information"
        except OSError as error:
            message, severity = f"Not exported: {error.strerror} ({error.filename})", "error"
        self.app.call_from_thread(self.notify, message, severity=severity, markup=False)

    @work
    async def action_go_to(self) -> None:
        """Ask for a time and go to its line."""
        if (moment := await ask_moment(self.app)) is not None:
            self.listing.select_moment(moment)

    async def action_logs(self) -> None:
        """Show the log lines of the selected call."""
        if (selected := self.selected_exchange()) is not None:
            from mcpdesk.tui.screens.log_list import lines_of
            from mcpdesk.tui.screens.logs import LogsPane  # imported at the first visit of Logs

            exchange = self.link.traffic.exchange(selected)
            if not lines_of(self.link.logs(), exchange):
                self.notify("Nothing was logged while this call ran.", markup=False)
                return
            await self.app.main.show_screen("logs")
            if isinstance(pane := self.app.main.pane, LogsPane):
                pane.show_lines_of(exchange)

    def action_next_mark(self, by: int) -> None:
        """Go to the next or previous marked exchange."""
        next_mark(self.listing, by)

    def action_next_like(self, kind: str, by: int) -> None:
        """Go to the next or previous line of a kind: `error`, `slow`, `same` or `line`."""
        next_of_kind(self.listing, kind, by)

    @work
    async def action_cancel(self) -> None:
        """Cancel the selected running call. Ask first if a client waits for it."""
        selected = self.selected_exchange()
        if selected is None or (started := self._possible_actions.actions_of(selected).running_since) is None:
            return
        exchange = last_round(self.link.traffic, self.link.traffic.exchange(selected))
        if exchange.id is None or isinstance(exchange.id, float):
            return
        title = one_line(f"{exchange.method} {mask_text(exchange.name)}".strip(), 60)
        if exchange.peer != DESK:
            question = f"Cancel {title} of {one_line(exchange.peer, 30)}?"
            cancel = Choice("cancel", True, help="The client receives an error.")
            if not await is_confirmed(self.app, question, cancel, "let it run"):
                return
        is_cancelled = False
        if self.link.traffic.exchange(selected).ended is None:
            answer = self.link.cancel_call(exchange.connection, exchange.id, started)
            is_cancelled = await asyncio.wrap_future(answer)
        self.notify(f"{title}: {'cancelled' if is_cancelled else 'it has already ended'}", markup=False)

    def action_edit_source(self) -> None:
        """Open the user's editor where the selected call failed."""
        if (source := self._possible_actions.actions_of(self.selected_exchange()).source) is not None:
            edit(self.app, *source)

    @work
    async def action_compare(self) -> None:
        """Compare two marked exchanges, or the selected exchange with the marked one.

        Without a mark, compare the selected exchange with the previous one of its kind.
        """
        pair = comparison_pair(self.listing, self.selected_exchange())
        if isinstance(pair, str):
            self.notify(pair, severity="warning", markup=False)
            return
        await self.fetch(*pair)
        self.app.push_screen(comparison_dialog(self.link.traffic, *pair))

    @work
    async def action_replay(self) -> None:
        """Send the request again, as the desk."""
        if (call := await self._repeatable_request()) is not None:
            server, (method, params) = call
            if await self._is_confirmed(server, method, params):
                self.link.request(server, method, params)
                name = params.get("name") or params.get("uri") or ""
                self.notify(one_line(f"sent again as desk: {method} {name}"), markup=False)

    @work
    async def action_edit(self) -> None:
        """Put the arguments of the request into the form of the workbench.

        If a message of the exchange is held, edit this message.
        """
        if self._is_held():
            FEATURE_ACTIONS["traffic.hold"].run(self, edits=True)
            return
        if (call := await self._repeatable_request()) is None:
            return
        server, (method, params) = call
        try:
            kind, name, arguments = item_of(method, params)
        except ValueError as error:
            self.notify(one_line(str(error)), severity="warning", markup=False)
            return
        self.app.main.server = server
        await self.app.main.show_screen("workbench")
        cast("WorkbenchPane", self.app.main.pane).edit_call(kind, name, arguments)

    # Messages of child widgets

    def apply_filter(self) -> None:
        """Apply the filter during typing. If it is invalid, the last valid filter remains active."""
        text = self.filter_field.value
        if self.filter_field.has_focus:
            self.completion.show_for(text[: self.filter_field.cursor_position])
        try:
            node = parse(from_field(text), time())
        except QueryError as error:
            if self.completion.display:  # an incomplete filter that can be completed is not an error
                self.remove_class("-wrong")
                return
            column = cell_len(text[: error.position])
            message = pointed_message(column, clean(error.message, newlines=False), self.size.width)
            self.query_one(".wrong", Static).update(Content(message))
            self.add_class("-wrong")
            return
        self.remove_class("-wrong")
        if node != self.listing.node:
            self.listing.filter(node, is_typed=self.filter_field.has_focus)

    def on_descendant_focus(self) -> None:
        """Stop following if the details get the focus, because they would change while the person reads."""
        if self.listing.following and self.detail.has_focus_within:
            self.listing.action_cursor(0)

    def on_descendant_blur(self) -> None:
        """Hide completions when the filter loses the focus."""
        if not self.filter_field.has_focus:
            self.completion.display = False

    @on(TrafficList.Picked)
    def picked(self, event: TrafficList.Picked) -> None:
        """If the details are open, show the details of the selected line."""
        if self.has_class("-detail"):
            self._show_details(event.exchange, self.listing.frame)
        self._update_footer()

    @on(TrafficList.Opened)
    def opened(self, event: TrafficList.Opened) -> None:
        """Open the details. If they were already open, focus them."""
        if not self.listing.lines:
            return
        shown, frame = self.detail.shown_exchange, self.listing.frame
        is_same_line = shown is not None and (shown.number, self.detail.frame) == (event.exchange, frame)
        was_open = self.has_class("-detail") and is_same_line
        self._details.open()
        self.add_class("-detail")
        self.refresh_bindings()
        self._show_details(event.exchange, frame)
        if was_open or self.has_class("-turns"):
            self.call_after_refresh(self.detail.focus_first)
        self.call_after_refresh(self.listing.on_resize)

    def _show_state(self) -> None:
        """Show changes of following, pausing or the waterfall immediately."""
        if self.detail.frame is not None and not self.listing.view.raw:
            self._show_details(self.listing.selected, None)
        # This hides only the legend. A class of the pane would recompute all styles in it.
        self.query_one(".legend").display = self.listing.waterfall.is_on and not self.listing.view.raw
        self._show_status()

    @on(JsonTree.CopyRequested)
    def copy_requested(self, event: JsonTree.CopyRequested) -> None:
        """Copy a value of a message."""
        event.stop()
        self.app.copy(event.text, event.what)

    def on_resize(self, event: events.Resize) -> None:
        """Put the details beside the list if there is space."""
        is_beside = has_room_beside(self)
        are_in_use = self.detail.has_focus_within or not self.listing.following
        self._details.move(is_beside=is_beside, are_in_use=are_in_use)
        self.set_class(is_beside, "-beside")
        self.set_class(self.must_take_turns, "-turns")
        self.detail.set_class(not is_beside, "-below")
        self._arrange_details()
        if self.hides_list and self.listing.has_focus:
            self.call_after_refresh(self.detail.focus_first)
        if self.has_class("-wrong"):
            self.call_after_refresh(self.apply_filter)  # wrap the error message for the new width

    def open_details(self, is_open: bool) -> None:
        """Show the details in the place of the list, or the list again."""
        if is_open:
            self._details.open()
        else:
            self._details.close()
        super().open_details(is_open and self.listing.view.total > 0)
        self._arrange_details()

    # Helpers

    def _arrange_details(self) -> None:
        """Show or hide the details. Show the selected line in them, at most every `_DETAILS_UPDATE_S` seconds
        while the list follows the newest line.
        """
        listing = self.listing
        is_open = self._details.is_open and listing.view.total > 0
        if is_open != self.has_class("-detail"):
            self.set_class(is_open, "-detail")
            self.refresh_bindings()
            self.call_after_refresh(listing.on_resize)
        new_key = (listing.selected, listing.frame)
        is_due = monotonic() - self._details_update_time >= _DETAILS_UPDATE_S
        if is_open and new_key != self._details_key and (is_due or not listing.following):
            self._show_details(*new_key)

    def _show_details(self, exchange: int | None, frame: int | None) -> None:
        self._details_key, self._details_update_time = (exchange, frame), monotonic()
        self.detail.show(exchange, frame)

    def _update_footer(self) -> None:
        """Draw the footer again if other actions have an effect on the selected exchange."""
        possible_actions = self._possible_actions.actions_of(self.selected_exchange())
        footer_state = (self._has_selection, possible_actions, self._is_held())
        if footer_state != self._footer_state:
            self._footer_state = footer_state
            self.refresh_bindings()

    @property
    def _has_selection(self) -> bool:
        """True if an exchange is selected."""
        return self.is_mounted and self.selected_exchange() is not None

    def _is_held(self) -> bool:
        """Return True if a message of the selected exchange is held at the desk."""
        held_calls, selected = signs_of(self.link).stopped, self.selected_exchange()
        if not held_calls or selected is None:
            return False
        exchange = last_round(self.link.traffic, self.link.traffic.exchange(selected))
        return (exchange.connection, exchange.id) in held_calls

    def selected_exchange(self) -> int | None:
        """Return the number of the exchange in the focused details, or else of the selected line."""
        if self.detail.has_focus_within and self.detail.shown_exchange is not None:
            return self.detail.shown_exchange.number
        return self.listing.selected if self.listing.lines else None

    def _matching_exchanges(self) -> list[int]:
        """Return the exchanges that match the filter, in ascending order."""
        view = self.listing.view
        if not view.raw:
            return list(view.lines)
        return sorted({row for line in view.lines for row in self.link.traffic.rows_of(line)})

    async def fetch(self, *numbers: int) -> None:
        """Wait until all bytes of some exchanges are available."""
        await fetch_exchanges(self.app, self.link.traffic, numbers)

    async def _repeatable_request(self) -> tuple[str, Request] | None:
        """Return server and request of the selected exchange.

        Notify the person and return None if it cannot be sent again.
        """
        selected = self.selected_exchange()
        if selected is None:
            return None
        await self.fetch(selected)
        try:
            return repeatable_request(self.link, selected)
        except ValueError as error:
            self.notify(one_line(f"not sent: {error}"), severity="warning", markup=False)
            return None

    async def _is_confirmed(self, server: str, method: str, params: Mapping[str, Any]) -> bool:
        """Return True if the request may be sent again. For a destructive tool, ask the person."""
        items = self.link.catalogue(server).items if method == "tools/call" else ()
        tools = (item for item in items if item.kind is ItemKind.TOOL and item.name == params.get("name"))
        if (tool := next(tools, None)) is None:
            return True
        guard = self.app.destructive_calls
        return await guard.may_call(self.app, server, tool, params.get("arguments"))

    def _definition_of(self, exchange: Exchange) -> Mapping[str, Any] | None:
        """Return the definition of a called tool, if its server is on this desk."""
        if exchange.method != "tools/call":
            return None
        if exchange.server not in {server.name for server in self.link.view().servers}:
            return None
        items = self.link.catalogue(exchange.server).items
        tools = (item for item in items if item.kind is ItemKind.TOOL and item.name == exchange.name)
        return next((item.definition for item in tools), None)

    def _waiting_line_of(self, exchange: Exchange) -> str:
        """Return the code line at which a pending exchange is waiting."""
        latest = last_round(self.link.traffic, exchange)
        return waiting_location(self.link, latest.connection, latest.id)

    def _show_rules(self) -> None:
        """Apply the colour rules, and show their errors."""
        self.listing.set_rules(self._rules)
        for problem in self._rules.problems:
            self.notify(one_line(problem), severity="warning", markup=False)

    def _show_empty_text(self, view: CoreView) -> None:
        """Show instructions in an empty list."""
        if self.listing.view.total:
            text: list[Cell] = [("", ""), ("  Nothing matches the filter. Esc clears it.", "traffic--muted")]
        else:
            text = connect_instructions(self._configs, view, self.listing.size.width)
        if text != self.listing.empty_text:
            self.listing.empty_text = text
            self.listing.refresh()

    def _show_status(self) -> None:
        """Update the status line: counts on the left, active modes on the right."""
        listing, width = self.listing, self.size.width - 2
        left_text, signs = counts_text(listing), signs_of(self.link)
        right_text = " · ".join((*signs.modes, mode_text(listing)))
        listing.show_held(signs.stopped)
        if (left_text, right_text, width) == self._status:
            return
        self._status = (left_text, right_text, width)
        gap = max(2, width - cell_len(left_text) - cell_len(right_text))
        style = "$text-warning" if listing.paused or signs.modes else "$text-primary"
        text = Content.assemble(left_text, " " * gap, (right_text, style))
        self.query_one(".status", Static).update(text, layout=False)


with_feature_actions(TrafficPane, "traffic")
