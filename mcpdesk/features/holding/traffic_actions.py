"""Actions of the traffic screen: hold messages, mock a call, and inject faults."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from textual import work

from mcpdesk.feature import ScreenAction
from mcpdesk.features.holding.held_message import CannedCall, Mock, SetHold, hold_view
from mcpdesk.link.values import CoreView
from mcpdesk.tui.action import Action

if TYPE_CHECKING:
    from mcpdesk.features.holding.hold_dialog import DraftKey
    from mcpdesk.tui.screens.workbench import WorkbenchPane
    from mcpdesk.tui.traffic.traffic_pane import TrafficPane

_drafts: WeakKeyDictionary[TrafficPane, dict[DraftKey, str]] = WeakKeyDictionary()
"""Unsent edits of held messages, by pane."""


def open_holds(pane: TrafficPane, *, edits: bool = False) -> None:
    """Open the dialog of held messages. If `edits`, the focus is in the text of the selected message."""
    from mcpdesk.features.holding.hold_dialog import HoldDialog
    from mcpdesk.recorder.index.query import quoted
    from mcpdesk.recorder.index.traffic_index import last_round

    def on_closed(opens_question: bool | None) -> None:
        if opens_question:
            pane.app.main.action_open_question()

    suggested_filter = pane.filter_field.entered_text
    number = pane.selected_exchange()
    index = pane.link.traffic
    latest_round = None if number is None else last_round(index, index.exchange(number))
    selected_message = None if latest_round is None else (latest_round.connection, latest_round.id)
    if not suggested_filter and number is not None and not pane.listing.following:
        exchange = index.exchange(number)
        is_identifier = exchange.name.replace("-", "_").isidentifier()
        name = exchange.name if is_identifier else quoted(exchange.name)
        suggested_filter = f"tool:{name}" if exchange.method == "tools/call" and exchange.name else ""
    drafts = _drafts.setdefault(pane, {})
    dialog = HoldDialog(pane.link, suggested_filter, drafts, selected_message, edits=edits)
    pane.app.push_screen(dialog, on_closed)


@work
async def hold_next(pane: WorkbenchPane) -> None:
    """Hold the next call of the tool on the workbench, from any client. Later calls pass."""
    from mcpdesk.recorder.index.query import quoted
    from mcpdesk.tui.render.safe_text import one_line

    item, link = pane.item, pane.link
    if item is None:
        return
    previous_rule = hold_view(link).rule
    rule = f"server:{quoted(pane.server)} tool:{quoted(item.name)}"
    try:
        await asyncio.wrap_future(link.do(SetHold(rule, "requests", is_once=True)))
    except ValueError as error:
        pane.notify(one_line(f"not held: {error}"), severity="warning", markup=False)
        return
    replacement_note = (
        f" This replaces the filter {one_line(previous_rule, 60)}."
        if previous_rule and previous_rule != rule
        else ""
    )
    title = one_line(item.name, 40)
    pane.notify(f"The next call of {title} is held; later ones pass.{replacement_note}", markup=False)


def open_faults(pane: TrafficPane) -> None:
    """Open the dialog of fault rules."""
    from mcpdesk.features.holding.fault_dialog import FaultDialog

    pane.app.push_screen(FaultDialog(pane.link, pane.filter_field.entered_text))


@work
async def mock(pane: TrafficPane) -> None:
    """Start or end a mock. While it is active, all requests with the method and name of the selected exchange
    receive its recorded answer.
    """
    from mcpdesk.features.holding.hold_dialog import canned_answer
    from mcpdesk.tui.render.safe_text import one_line
    from mcpdesk.tui.widgets.menu import Choice, is_confirmed

    number = pane.selected_exchange()
    if number is None:
        return
    index = pane.link.traffic
    exchange = index.exchange(number)
    mocked_call = CannedCall(exchange.server, exchange.method, exchange.name)
    answer = ""
    try:
        if mocked_call not in hold_view(pane.link).canned:
            await pane.fetch(number)
            answer = canned_answer(index, exchange)
            question = f"Answer every {exchange.method} {one_line(exchange.name, 30)} with this answer?"
            help = "For every client and all arguments, until you choose mock again."
            if not await is_confirmed(pane.app, question, Choice("mock", True, help=help), "no"):
                return
        await asyncio.wrap_future(pane.link.do(Mock(mocked_call, answer)))
    except ValueError as error:
        pane.notify(one_line(f"no mock: {error}"), severity="warning", markup=False)
        return
    outcome = (
        "answered as in the capture, until you choose mock again"
        if answer
        else "answered by the server again"
    )
    pane.notify(one_line(f"{exchange.method} {exchange.name}: {outcome}"), markup=False)


def _is_available(view: CoreView) -> bool:
    """Return True if the core of this view can hold messages."""
    return bool(view.servers) or view.can_intercept


def _selects_tool(pane: WorkbenchPane) -> bool:
    return pane.item is not None and pane.item.kind == "tool"


# fmt: off
ACTIONS = (
    ScreenAction(
        Action("hold", "", "hold messages",
            "Hold messages that match a filter, to read, change, drop, delay or answer them.",
            footer=False, wide=True, former_keys="H", scope="traffic", group="Traffic"),
        "traffic.back", "Hold messages that match a filter",
        "breakpoint intercept pause stop change modify edit drop delay block debug",
        open_holds, _is_available, is_offered_everywhere=True,
    ),
    ScreenAction(
        Action("hold_next", "", "hold the next call",
            "Hold the next call of the tool, from any client, to read, change, drop or answer it.",
            footer=False, scope="workbench", group="Workbench"),
        "workbench.back", "Hold the next call of this tool",
        "breakpoint intercept pause stop once change modify debug",
        hold_next, _is_available, _selects_tool,
    ),
    ScreenAction(
        Action("mock", "", "mock",
            "Give this response to each request with this method and name. Choose it again to stop.",
            footer=False, wide=True, former_keys="M", scope="traffic", group="Traffic"),
        "traffic.back", "Answer each request like this one with this response",
        "mock stub fake canned reply simulate",
        mock, _is_available,
    ),
    ScreenAction(
        Action("faults", "", "inject faults",
            "Inject faults into some of the messages: delay, loss, cut or error.",
            footer=False, wide=True, former_keys="B", scope="traffic", group="Traffic"),
        "traffic.back", "Inject faults into messages by rule",
        "chaos failure inject latency delay error simulate lost",
        open_faults, _is_available, is_offered_everywhere=True,
    ),
)
# fmt: on
