"""Signs that messages are held, answered by a mock, or changed by fault rules."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content

from mcpdesk.feature import ScreenSigns
from mcpdesk.features.holding.held_message import HoldView
from mcpdesk.tui.render.amounts import counted
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.part_line import LinePart

_MENU_HINT = "The action menu of Traffic (space) has it."


def signs_of(view: HoldView) -> ScreenSigns:
    """Return the signs of this state."""
    held_exchanges = frozenset((message.connection, message.id) for message in view.messages)
    return ScreenSigns(tuple(_header_parts(view)), tuple(_modes(view)), held_exchanges)


def _header_parts(view: HoldView) -> Iterator[LinePart]:
    """Yield the signs for the header of the screen."""
    if view.rule or view.messages:
        count = len(view.messages)
        status, short = (f"‖ {count} held", f"‖{count}") if count else ("‖ holding", "‖")
        tip = f"Messages that match a filter are held for you. {_MENU_HINT}\n{one_line(view.rule, 200)}"
        yield _part(status, tip, short, 78)
    if count := len(view.canned):
        calls = "\n".join(one_line(f"{call.method} {call.name} of {call.server}", 80) for call in view.canned)
        tip = f"Answered with a recorded response, whatever the arguments. {_MENU_HINT}\n{calls}"
        yield _part(f"M {count} mocked", tip, f"M{count}", 77)
    if view.faults:
        status, short = "↯ faults", "↯"
        if view.struck:
            status, short = f"↯ {counted(view.struck, 'fault')}", f"↯{view.struck}"
        tip = f"Faults are injected by rule. {_MENU_HINT}\n{one_line(view.faults, 200)}"
        yield _part(status, tip, short, 76)


def _part(text: str, tip: str, short: str, rank: int) -> LinePart:
    """Return a sign. `short` replaces `text` if space is short. Signs of low `rank` are shortened first."""
    style = "bold $text-warning"
    long = Content.styled(f"  {text} ", style)
    action = "screen.show_screen('traffic')"
    return LinePart(long, action, tip, Content.styled(f" {short} ", style), rank, right=True)


def _modes(view: HoldView) -> Iterator[str]:
    """Yield the texts about active rules for the traffic screen."""
    if view.rule or view.messages:
        holding = f"holding {'the next of ' * view.is_once}{view.directions}: " if view.rule else ""
        hint = " · e on one edits it" if view.messages else ""
        yield f"{holding}{len(view.messages)} held{hint}"
    if view.faults:
        yield f"faults: {view.struck} so far"
    if view.canned:
        yield f"{len(view.canned)} mocked"
