"""Menu of actions: first those of the focused pane and its selected item, then those of the desk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mcpdesk.tui.actions import Reachable, key_name, reachable
from mcpdesk.tui.render.safe_text import whole_sentences
from mcpdesk.tui.widgets.menu import Choice, ChoiceList, Menu
from mcpdesk.tui.widgets.pane import Pane

if TYPE_CHECKING:
    from mcpdesk.tui.screens.main_screen import MainScreen

OMITTED_ACTIONS = frozenset({"main.action_menu", "app.palette"})
"""Ids of actions that only open another list of the same actions."""


class ActionList(ChoiceList):
    """Actions with the sentences about them that fit beside the title."""

    def hint_text(self, choice: Choice, width: int) -> str:
        """Return the sentences that fit, or the words that fit of a long first sentence.

        The help below the list has the complete text.
        """
        return whole_sentences(choice.hint, width)


class ActionMenu(Menu):
    """Menu that is wide enough for a sentence beside each title."""

    DEFAULT_CSS = """
    ActionMenu > .box { width: 96; margin: 2 0 0 0; }
    ActionMenu .help { height: 2; text-wrap: wrap; }
    """
    no_match_advice = "Ctrl+p finds actions of other screens."

    def new_listing(self) -> ChoiceList:
        """Create the list of the actions."""
        return ActionList(self.choices)


async def choose_action(main: MainScreen) -> None:
    """Let the person choose an action and run it. Must run in a worker."""
    choices = list(action_choices(main))
    title = choices[0].value.action.group if choices else "Actions"
    chosen: Reachable | None = await main.app.push_screen_wait(
        ActionMenu(f"{title}: actions", choices, filtered=True, help_rows=2)
    )
    if chosen is not None:
        await main.app.run_action(chosen.action.name, default_namespace=chosen.owner)


def action_choices(main: MainScreen) -> Iterator[Choice]:
    """Yield the actions of the focused widget and its ancestors, and then the actions of the desk.

    In both parts, the most used actions are first: the likely actions of the pane, and then the actions that
    a narrow footer shows.
    """
    ancestors = (main.focused or main).ancestors_with_self
    entries = [
        entry
        for entry in reachable(main, main.pane)
        if (entry.owner in ancestors or entry.owner is main.app) and entry.action.id not in OMITTED_ACTIONS
    ]
    for entry in sorted(entries, key=lambda one: _sort_key(main, one)):
        action = entry.action
        key = key_name(action.keys.partition(",")[0])
        words = action.group.lower()
        yield Choice(action.title, entry, hint=action.help, key=key, help=action.help, words=words)


def _sort_key(main: MainScreen, entry: Reachable) -> tuple[bool, int, int, int]:
    """Return the sort key of an action. Actions with equal keys stay in the order of the table."""
    action = entry.action
    is_of_desk = entry.owner is main or entry.owner is main.app
    likely = main.pane.likely_actions if isinstance(main.pane, Pane) else ()
    position = likely.index(action.id) if action.id in likely else len(likely)
    footer_rank = 2
    if action.footer or action.wide:
        footer_rank = 0 if action.footer else 1
    return is_of_desk, position, footer_rank, -action.weight
