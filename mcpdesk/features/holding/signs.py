"""Signs that messages are held, answered by a mock, or changed by fault rules."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content

from mcpdesk.feature import ScreenSigns
from mcpdesk.features.holding.held_message import HoldView
from mcpdesk.tui.render.amounts import counted
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.part_line import LinePart

_WHERE = "The action menu of Traffic (space) has it."


def signs_of(held: HoldView) -> ScreenSigns:
    """Return the signs of this state."""
    stopped = frozenset((one.connection, one.id) for one in held.messages)
    return ScreenSigns(tuple(_header(held)), tuple(_modes(held)), stopped)


def _header(held: HoldView) -> Iterator[LinePart]:
    if held.rule or held.messages:
        count = len(held.messages)
        status, short = (f"‖ {count} held", f"‖{count}") if count else ("‖ holding", "‖")
        tip = f"Messages that match a filter are held for you. {_WHERE}\n{one_line(held.rule, 200)}"
        yield _part(status, tip, short, 78)
    if count := len(held.canned):
        which = "\n".join(one_line(f"{one.method} {one.name} of {one.server}", 80) for one in held.canned)
        tip = f"Answered with a recorded response, whatever the arguments. {_WHERE}\n{which}"
        yield _part(f"M {count} mocked", tip, f"M{count}", 77)
    if held.faults:
        status, short = (
            (f"↯ {counted(held.struck, 'fault')}", f"↯{held.struck}") if held.struck else ("↯ faults", "↯")
        )
        tip = f"Faults are injected by rule. {_WHERE}\n{one_line(held.faults, 200)}"
        yield _part(status, tip, short, 76)


def _part(text: str, tip: str, short: str, rank: int) -> LinePart:
    style = "bold $text-warning"
    long = Content.styled(f"  {text} ", style)
    action = "screen.show_screen('traffic')"
    return LinePart(long, action, tip, Content.styled(f" {short} ", style), rank, right=True)


def _modes(held: HoldView) -> Iterator[str]:
    if held.rule or held.messages:
        holding = f"holding {'the next of ' * held.is_once}{held.directions}: " if held.rule else ""
        hint = " · e on one edits it" if held.messages else ""
        yield f"{holding}{len(held.messages)} held{hint}"
    if held.faults:
        yield f"faults: {held.struck} so far"
    if held.canned:
        yield f"{len(held.canned)} mocked"
