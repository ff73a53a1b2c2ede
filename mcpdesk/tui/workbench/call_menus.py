"""Menus of a call: copy, earlier calls, saved arguments, saving a result, confirming a call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import App

from mcpdesk.byte_size import size_text
from mcpdesk.link.values import CatalogueItem, ItemKind, Policy
from mcpdesk.tui.core_answers import answer_of, fetch_exchanges
from mcpdesk.tui.forms.question_text import DESK
from mcpdesk.tui.render.amounts import clock, duration
from mcpdesk.tui.render.json_text import pretty, preview, same
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.results.result_content import plain_text, savable_parts
from mcpdesk.tui.widgets.menu import Choice, LinePrompt, Menu
from mcpdesk.tui.widgets.path_prompt import PathPrompt, in_working_folder
from mcpdesk.tui.workbench.drafts import Draft, Drafts
from mcpdesk.tui.workbench.item_requests import request_for, shell_command
from mcpdesk.tui.workbench.past_calls import PastCall

if TYPE_CHECKING:
    from mcpdesk.recorder.index.exchange import Exchange
    from mcpdesk.recorder.index.traffic_index import Index

MAX_SEARCHED_EXCHANGES = 2_000
"""Number of newest exchanges that are searched for calls to compare."""
MAX_OFFERED_CALLS = 200
"""Maximum number of calls offered for comparison."""


class DestructiveCalls:
    """Asks for confirmation before a destructive tool is called from the screen.

    The program has one such object, which remembers the tools that the person allowed for the session.
    """

    def __init__(self) -> None:
        self._allowed: set[tuple[str, str]] = set()
        """Server and tool of each permission."""

    async def may_call(self, app: App[None], server: str, item: CatalogueItem, arguments: Any) -> bool:
        """Ask whether a destructive item may be called. Must run in a worker.

        Other items may be called without a question.
        """
        annotations = item.definition.get("annotations") or {}
        if annotations.get("destructiveHint") is not True or (server, item.name) in self._allowed:
            return True
        arguments_text = f"arguments: {preview(arguments, 200)}"
        choices = [
            Choice("Do not call", "no", key="n", help=arguments_text),
            Choice("Call", "once", "asks again the next time", "y", arguments_text),
            # It must not be possible to give a permanent permission with a single key press.
            Choice(
                "Call, and do not ask again", "always", "for this tool, in this session", help=arguments_text
            ),
        ]
        title = f"Call {one_line(item.name, 40)}? It is destructive."
        decision = await app.push_screen_wait(Menu(title, choices, is_careful=True))
        if decision == "always":
            self._allowed.add((server, item.name))
        return decision in ("once", "always")


def copyable_parts(draft: Draft, folder: str) -> Iterator[tuple[str, str, str | None]]:
    """Yield letter, name and text of each part that can be copied. Results are included only after a call.

    If the text is None, it must be requested from the core. `folder` is the server folder.
    """
    outcome = draft.outcome
    if outcome is not None and outcome.result is not None:
        yield "t", "result as text", plain_text(outcome.result)
        structured = outcome.result.get("structuredContent")
        if structured is not None:
            yield "s", "structured result", pretty(structured)
    if outcome is not None and outcome.raw:
        yield "r", "raw message", outcome.raw.decode(errors="replace")
    arguments = draft.arguments_without_secrets
    if arguments is None:
        arguments = draft.node.value()
    yield "a", "arguments as JSON", pretty(arguments)
    if draft.item.kind is ItemKind.TOOL:
        params = {"name": draft.item.name, "arguments": arguments}
        yield "m", "mcpdesk command", shell_command("tools/call", params, folder)
    yield "c", "curl command", None
    yield "n", "name", draft.item.name


async def choose_copy(app: App[None], draft: Draft) -> tuple[str, str] | None:
    """Let the person choose a part of a call. Return its text and its name, or None if there is no text."""
    link = draft.link
    folder = next((server.folder for server in link.view().servers if server.name == draft.server), ".")
    choices = [Choice(name, (text, name), key=letter) for letter, name, text in copyable_parts(draft, folder)]
    chosen_part: tuple[str | None, str] | None = await app.push_screen_wait(Menu("Copy", choices))
    if chosen_part is None:
        return None
    text, name = chosen_part
    if text is None:
        text = await answer_of(app, link.client_config(draft.server, "curl"), name)
    return None if text is None else (text, name)


def history_menu(title: str, past_calls: Sequence[PastCall]) -> Menu:
    """Return a menu of earlier calls. The value of a choice is an index in `past_calls`."""
    choices = []
    for index, call in enumerate(past_calls):
        time_text = time.strftime("%d %b %H:%M", time.localtime(call.time))
        hint = f"{call.status} {duration(call.elapsed_s)} · {time_text}"
        choices.append(Choice(one_line(preview(call.arguments, 60)), index, hint))
    return Menu(f"History of {title}", choices, filtered=True)


async def choose_saved(
    app: App[None], drafts: Drafts, draft: Draft, read_arguments: Callable[[], Any]
) -> Any:
    """Let the person use, save or delete saved arguments.

    Return the arguments to use, or None.
    """
    try:
        present_arguments = read_arguments()
    except ValueError as error:
        app.notify(f"cannot be saved yet: {one_line(str(error))}", severity="warning", markup=False)
        return None
    saved_arguments = drafts.saved_calls.of(*draft.key)
    choices = [
        Choice(one_line(name, 40), ("use", name), one_line(preview(arguments, 60)))
        for name, arguments in reversed(saved_arguments.items())
    ]
    present_text = one_line(preview(present_arguments, 60))
    choices.append(Choice("save the present arguments …", ("save", ""), present_text, "K"))
    for name, arguments in saved_arguments.items():
        if same(arguments, present_arguments):
            label = f"delete {one_line(name, 40)}"
            choices.append(Choice(label, ("delete", name), "equals the present arguments", "D"))
            break
    menu = Menu(f"Saved calls of {one_line(draft.item.title, 40)}", choices)
    action, name = await app.push_screen_wait(menu) or ("", "")
    if action == "use":
        return saved_arguments[name]
    if action == "save" and (name := await app.push_screen_wait(LinePrompt("Save the present arguments as"))):
        drafts.saved_calls.add(*draft.key, name, draft.without_secrets(present_arguments))
        app.notify(f"saved as {one_line(name, 40)}", markup=False)
    elif action == "delete":
        drafts.saved_calls.remove(*draft.key, name)
        app.notify(f"{one_line(name, 40)} was deleted", markup=False)
    return None


async def compare_result(app: App[None], draft: Draft) -> None:
    """Let the person choose another call of the item, made by any client, and show the differences."""
    from mcpdesk.tui.traffic.exchange_menus import comparison_dialog  # not needed for the first paint

    traffic = draft.link.traffic
    calls = answered_calls(draft)
    latest_call = next((call for call in calls if call.peer == DESK), None)
    other_calls = [call for call in calls if call is not latest_call]
    other_calls.sort(key=lambda call: call.peer != DESK)  # the desk's own calls first
    if latest_call is None or not other_calls:
        app.notify("Comparing needs two answered calls of this item.", markup=False)
        return
    choices = [Choice(_call_line(traffic, call), call.number) for call in other_calls[:MAX_OFFERED_CALLS]]
    number = await app.push_screen_wait(Menu("Compare the last result with", choices, filtered=True))
    if number is not None:
        await fetch_exchanges(app, traffic, (number, latest_call.number))
        await app.push_screen(comparison_dialog(traffic, number, latest_call.number))


def _call_line(traffic: Index, call: Exchange) -> str:
    """Format a call: `16:18:07  cursor 1.9.2  article="lamp" → 19.90 EUR`, without the desk's own name."""
    from mcpdesk.recorder.exchange_summary import summary

    texts = summary(traffic, call)
    peer = "" if call.peer == DESK else f"{one_line(call.peer, 20)}  "
    arguments = f"{one_line(texts.arguments, 40)} " if texts.arguments else ""
    result = f"{'✗ ' * texts.has_failed}{one_line(texts.result, 80)}"
    return f"{clock(call.started)[:8]}  {peer}{arguments}→ {result}"


def answered_calls(draft: Draft) -> list[Exchange]:
    """Return the answered calls of an item among the newest exchanges, the newest first."""
    try:
        method, params = request_for(draft.item, draft.arguments)
    except ValueError:
        return []
    name = str(params.get("name") or params.get("uri") or "")
    traffic = draft.link.traffic
    numbers = range(max(0, len(traffic.exchanges) - MAX_SEARCHED_EXCHANGES), len(traffic.exchanges))
    exchanges = (traffic.exchange(number) for number in reversed(numbers))
    return [
        exchange
        for exchange in exchanges
        if (exchange.server, exchange.method, exchange.name) == (draft.server, method, name)
        and exchange.part_of is None
        and exchange.response is not None
    ]


async def save_result(app: App[None], draft: Draft) -> None:
    """Let the person choose a part of a result, and write it to the working folder."""
    if draft.outcome is None or draft.outcome.result is None:
        app.notify("no result to save yet", severity="warning", markup=False)
        return
    choices = [
        Choice(one_line(part.name, 50), part, f"{one_line(part.kind, 30)}, {size_text(len(part.data))}")
        for part in savable_parts(draft.outcome.result, draft.item.title)
    ]
    chosen_part = await app.push_screen_wait(Menu("Save a part of the result", choices, filtered=True))
    if chosen_part is None:
        return
    proposed_path = unused_path(in_working_folder(Path(chosen_part.name)))
    prompt = PathPrompt(f"Write {size_text(len(chosen_part.data))} to a new file", proposed_path)
    if (path := await app.push_screen_wait(prompt)) is None:
        return
    try:
        with path.open("xb") as file:
            file.write(chosen_part.data)
    except OSError as error:
        app.notify(f"not saved: {error.strerror}", severity="error", markup=False)
    else:
        app.notify(f"saved as {path}", markup=False)


def unused_path(preferred: Path) -> Path:
    """Return a path at which no file exists: the preferred path, or one with a number added to its name."""
    numbered_paths = (
        preferred.with_name(f"{preferred.stem}-{number}{preferred.suffix}") for number in count(2)
    )
    return next(path for path in chain([preferred], numbered_paths) if not path.exists())


_POLICY_TEXTS: dict[Policy, str] = {
    Policy.ALLOW: "clients may call it",
    Policy.ASK: "calls of clients wait here for approval",
    Policy.DENY: "neither clients nor this desk may call it",
}


def policy_menu(item: CatalogueItem) -> Menu:
    """Return a menu of policies for a tool, with the cursor on the current one."""
    choices = [
        Choice(policy, policy, description, str(number))
        for number, (policy, description) in enumerate(_POLICY_TEXTS.items(), 1)
    ]
    title = f"Who may call {one_line(item.name, 40)}?"
    return Menu(title, choices, cursor=list(_POLICY_TEXTS).index(item.policy))
