"""Every action of the screen, once: keys, footer, palette, menus and the help screen all read this table.

A pane or widget sets `BINDINGS = bindings_for("traffic")` and implements `action_<name>` for each row of its
scope. Knows no widget.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from textual.actions import parse
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a person can do. `name` may carry arguments: `show_screen('traffic')`."""

    name: str
    keys: str
    """Textual key names separated by commas, `ctrl+p` or `question_mark,f1`; the first is shown."""
    title: str
    """Two or three words, imperative: footer and palette."""
    group: str
    """Heading in the palette and on the help screen."""
    scope: str
    help: str = ""
    """One sentence for the help screen, where the title does not say it all."""
    footer: bool = True
    """Whether the footer may show it; it is in the palette and the help in any case."""
    priority: bool = False
    """Taken before the focused widget sees the key. Only for keys nobody types."""

    @property
    def id(self) -> str:
        """Unique name, `traffic.copy`; also the id of its bindings."""
        return f"{self.scope}.{self.name}"

    @property
    def method(self) -> str:
        """Name of the method the scope's widget implements."""
        return "action_" + self.name.partition("(")[0]


APP: tuple[Action, ...] = (
    Action("palette", "ctrl+p", "palette", "Desk", "app", "Find any action by name.", priority=True),
    Action("show_help", "question_mark,f1", "help", "Desk", "app", "The keys of the focused pane."),
    Action("pick_theme", "t", "theme", "Desk", "app",
        "Choose a theme; the screen shows each as you pass.", footer=False),
    Action("ask_quit", "ctrl+q", "quit", "Desk", "app",
        "Asks first when something would be lost.", priority=True),
    Action("interrupt", "ctrl+c", "copy or quit", "Desk", "app",
        "Copies selected text; else, twice within two seconds, quits at once.", footer=False, priority=True),
)  # fmt: skip

MAIN: tuple[Action, ...] = (
    Action("jump", "ctrl+o", "jump", "Desk", "main", "Show a letter over every pane; press it to go there."),
    Action("show_screen('workbench')", "1", "Workbench", "Screens", "main", "Call tools.", footer=False),
    Action("show_screen('traffic')", "2", "Traffic", "Screens", "main", "Watch every message.", footer=False),
    Action("show_screen('activity')", "3", "Activity", "Screens", "main",
        "Questions, jobs, callbacks, tasks.", footer=False),
    Action("show_screen('clients')", "4", "Clients", "Screens", "main", "Who is connected.", footer=False),
    Action("show_screen('logs')", "5", "Logs", "Screens", "main",
        "What servers and tools say.", footer=False),
    Action("open_question", "a,f2", "answer", "Desk", "main",
        "Open the question of the banner, or the one that has waited longest; F2 works while typing.",
        footer=False),
    Action("standing_approvals", "A", "standing approvals", "Desk", "main",
        "Which clients may call which tools without being approved; enter ends one.", footer=False),
    Action("zoom", "z", "maximise", "Desk", "main",
        "Give the focused pane the whole screen, and back.", footer=False),
    Action("copy_url", "u", "copy URL", "Server", "main",
        "Copy where the server can be reached.", footer=False),
    Action("client_config", "U", "client configuration", "Server", "main",
        "Copy what Claude Desktop, Cursor, VS Code or Claude Code needs to connect.", footer=False),
    Action("pick_server", "S", "pick server", "Server", "main",
        "Switch to another hosted server.", footer=False),
    Action("give_token", "T,f6", "token", "Server", "main",
        "Call the server as whoever a token is of, until it ends; F6 works while typing.", footer=False),
    Action("reload", "f5", "reload", "Server", "main",
        "Look at the server's folder again now.", footer=False),
)  # fmt: skip

WORKBENCH: tuple[Action, ...] = (
    Action("call", "ctrl+r", "call", "Workbench", "workbench",
        "Call the tool, read the resource, get the prompt; a destructive tool asks once more."),
    Action("again", "R", "same again", "Workbench", "workbench",
        "Put the arguments of the last call into the form, and call with them.", footer=False),
    Action("cancel", "ctrl+x", "cancel", "Workbench", "workbench", "Cancel the running call.", priority=True),
    Action("toggle_json", "ctrl+e", "form or JSON", "Workbench", "workbench",
        "Edit the same arguments the other way.", priority=True),
    Action("history", "ctrl+h,H,f3", "history", "Workbench", "workbench",
        "Earlier calls of this item; enter takes their arguments."),
    Action("saved", "ctrl+s,b", "saved calls", "Workbench", "workbench",
        "Take arguments kept under a name, or keep what is entered under one.", footer=False),
    Action("clear_form", "ctrl+l", "reset", "Workbench", "workbench",
        "Put the defaults back into the form.", footer=False),
    Action("filter", "slash", "filter", "Workbench", "workbench", "Filter the catalogue."),
    Action("copy", "y", "copy result", "Workbench", "workbench",
        "Copy the result, its arguments, or a curl command.", footer=False),
    Action("save", "x", "save result", "Workbench", "workbench",
        "Write a part of the result, or all of it, to a file in the working folder.", footer=False),
    Action("watch", "w", "watch resource", "Workbench", "workbench",
        "Read the resource again whenever the server says that it changed, or stop.", footer=False),
    Action("back", "escape", "back to the catalogue", "Workbench", "workbench",
        "Out of the arguments or the result, so that letters and digits are keys again.", footer=False),
)  # fmt: skip

CATALOGUE: tuple[Action, ...] = (
    Action("fold", "left,h", "fold group", "Catalogue", "catalogue", footer=False),
    Action("unfold", "right,l", "unfold group", "Catalogue", "catalogue", footer=False),
    Action("cycle_policy", "p", "policy", "Catalogue", "catalogue",
        "Clients may call the tool, may once you approve, or may not: allow, ask, deny.", footer=False),
    Action("pick_mode", "m", "mode", "Catalogue", "catalogue",
        "Show the tools of one mode, as clients see them with ?mode=NAME.", footer=False),
)  # fmt: skip

FORM: tuple[Action, ...] = (
    Action("add_item", "ctrl+n", "add item", "Form", "form", "Add an item to the list around the cursor."),
    Action("remove_item", "alt+x", "remove item", "Form", "form", footer=False),
    Action("move_item(-1)", "alt+up", "item up", "Form", "form", footer=False),
    Action("move_item(1)", "alt+down", "item down", "Form", "form", footer=False),
)  # fmt: skip

FIELDS: tuple[Action, ...] = (
    Action("suggest", "f4", "suggestions", "Form", "form_fields",
        "Choose among what the server suggests for the field; right takes the one behind the cursor.",
        footer=False),
)  # fmt: skip

RESULT: tuple[Action, ...] = (
    Action("show_tab(-1)", "left_square_bracket", "previous tab", "Result", "result", footer=False),
    Action("show_tab(1)", "right_square_bracket", "next tab", "Result", "result",
        "Content, Structured, Raw."),
)  # fmt: skip

JSON: tuple[Action, ...] = (
    Action("unfold", "right,l", "unfold", "JSON", "json", footer=False),
    Action("fold", "left,h", "fold", "JSON", "json", "Fold, or go to the enclosing value.", footer=False),
    Action("unfold_all", "asterisk", "unfold all", "JSON", "json",
        "Everything below the cursor.", footer=False),
    Action("fold_all", "minus", "fold all", "JSON", "json", footer=False),
    Action("search", "slash", "search", "JSON", "json", "Find keys and values; n and N go through them."),
    Action("next_hit", "n", "next hit", "JSON", "json", footer=False),
    Action("next_hit(-1)", "N", "previous hit", "JSON", "json", footer=False),
    Action("copy_value", "y", "copy value", "JSON", "json"),
    Action("copy_path", "Y", "copy path", "JSON", "json", footer=False),
)  # fmt: skip

TRAFFIC: tuple[Action, ...] = (
    Action("follow", "f", "follow", "Traffic", "traffic_list", "Stay at the newest line, or stop."),
    Action("pause", "p", "pause", "Traffic", "traffic_list", "Take in no more lines; nothing is lost."),
    Action("mark", "m", "mark", "Traffic", "traffic_list", "Mark the line and go on to the next."),
    Action("next_mark(1)", "apostrophe", "next mark", "Traffic", "traffic_list", footer=False),
    Action("next_mark(-1)", "quotation_mark", "previous mark", "Traffic", "traffic_list", footer=False),
    Action("raw", "w", "raw frames", "Traffic", "traffic_list", "Every frame for itself, or exchanges."),
    Action("filter", "slash", "filter", "Traffic", "traffic",
        "Words search everything; tool:Bash status:error peer:claude >200ms since:5m; not, or, ( )."),
    Action("copy", "y", "copy", "Traffic", "traffic",
        "Copy the exchange as text, JSON, curl or mcpdesk command; secrets masked."),
    Action("filters", "F", "filters", "Traffic", "traffic",
        "Use a kept filter, keep this one.", footer=False),
    Action("replay", "r", "send again", "Traffic", "traffic", "Send the request again, as the desk."),
    Action("edit", "e", "edit", "Traffic", "traffic",
        "Take the request into the form of the workbench.", footer=False),
    Action("compare", "d", "compare", "Traffic", "traffic",
        "Show in what two marked exchanges differ.", footer=False),
    Action("export", "x", "export", "Traffic", "traffic",
        "Write the shown or marked exchanges to a file; secrets masked.", footer=False),
    Action("back", "escape", "back", "Traffic", "traffic",
        "Close the details, then drop the filter.", footer=False),
    Action("show_tab(-1)", "left_square_bracket", "previous tab", "Traffic", "traffic_detail", footer=False),
    Action("show_tab(1)", "right_square_bracket", "next tab", "Traffic", "traffic_detail",
        "Messages, steps of an operation, HTTP, events."),
)  # fmt: skip

ACTIVITY: tuple[Action, ...] = (
    Action("show_tab(-1)", "left_square_bracket", "previous part", "Activity", "activity", footer=False),
    Action("show_tab(1)", "right_square_bracket", "next part", "Activity", "activity",
        "Inbox, jobs, callbacks, tasks, plan."),
    Action("filter", "slash", "filter", "Activity", "activity", "Words that must occur."),
    Action("back", "escape", "back", "Activity", "activity",
        "To the list, then drop the filter.", footer=False),
)  # fmt: skip

INBOX: tuple[Action, ...] = (
    Action("open", "enter", "open", "Inbox", "inbox", "Answer the question, or read how it ended."),
    Action("decline", "d", "decline", "Inbox", "inbox", "Decline the selected question."),
    Action("copy", "y", "copy", "Inbox", "inbox", "Copy the question and its answer."),
)  # fmt: skip

JOBS: tuple[Action, ...] = (
    Action("open", "enter", "output", "Jobs", "jobs", "Go to the output of the selected job."),
    Action("kill", "x", "kill", "Jobs", "jobs", "End the selected job with all it started; asks once more."),
    Action("follow", "f", "follow", "Jobs", "jobs", "Stay at the end of the output, or stop."),
    Action("copy", "y", "copy", "Jobs", "jobs", "Copy the command, the output, or where it is."),
)  # fmt: skip

CALLBACKS: tuple[Action, ...] = (
    Action("open", "enter", "message", "Callbacks", "callbacks", "Go to the whole message."),
    Action("fire", "r", "fire now", "Callbacks", "callbacks", "Let the callback fire before its time."),
    Action("cancel", "x", "cancel", "Callbacks", "callbacks", "It does not fire again; asks once more."),
    Action("copy", "y", "copy", "Callbacks", "callbacks", "Copy the message, or all that is known."),
)  # fmt: skip

TODO: tuple[Action, ...] = (
    Action("fold", "enter,space", "fold", "Tasks", "todo", "Hide the steps of the task, or show them."),
    Action("copy", "y", "copy", "Tasks", "todo", "Copy the task with its steps, or the line."),
)  # fmt: skip

PLAN: tuple[Action, ...] = (
    Action("copy", "y", "copy", "Plan", "plan", "Copy the plan, its file or its goal."),
)  # fmt: skip

QUESTION: tuple[Action, ...] = (
    Action("choose", "space,1,2,3,4,5,6,7,8,9,0", "choose", "Question", "question",
        "A digit chooses its option, space the one under the cursor."),
    Action("next_page", "enter", "next", "Question", "question", "Go on; on the last page, answer."),
    Action("previous_page", "backspace", "back", "Question", "question"),
    Action("decline", "d", "decline", "Question", "question", "Asks for a reason, which may be empty."),
    Action("cancel", "c", "cancel", "Question", "question",
        "Close a form or a link without saying yes or no.", footer=False),
    Action("open_link", "o", "open link", "Question", "question",
        "Open the link in the browser; nothing is opened by itself.", footer=False),
    Action("copy_link", "y", "copy link", "Question", "question", footer=False),
    Action("next_question", "n", "next question", "Question", "question",
        "Put this one off and go to the next that waits.", footer=False),
    Action("later", "escape", "later", "Question", "question", "Leave it waiting; what was chosen is kept."),
    Action("move(-1)", "up,k", "up", "Question", "question", footer=False),
    Action("move(1)", "down,j,tab", "down", "Question", "question", footer=False),
    Action("scroll(-1)", "pageup", "page up", "Question", "question", footer=False),
    Action("scroll(1)", "pagedown", "page down", "Question", "question", footer=False),
)  # fmt: skip

CLIENTS: tuple[Action, ...] = (
    Action("copy", "y", "copy", "Clients", "clients", "Copy the name, the line, or everything known."),
    Action("open_traffic", "enter", "its traffic", "Clients", "clients",
        "Show only the messages of that client."),
    Action("sort", "s", "sort", "Clients", "clients", "Sort by the next column."),
    Action("disconnect", "d", "disconnect", "Clients", "clients",
        "End the session or connection of the client; asks once more."),
)  # fmt: skip

LOGS: tuple[Action, ...] = (
    Action("filter", "slash", "filter", "Logs", "logs", "Words that must occur in text, source or place."),
    Action("level", "l", "level", "Logs", "logs", "Hide everything below a level; each press raises it."),
    Action("source", "o", "source", "Logs", "logs", "Show one source only: server, stderr, print, a logger."),
    Action("follow", "f", "follow", "Logs", "logs", "Stay at the newest line, or stop."),
    Action("copy", "y", "copy", "Logs", "logs", "Copy the text, the place or the whole line."),
    Action("details", "enter", "whole text", "Logs", "logs", "Show all lines of an entry, and hide them."),
    Action("reset", "escape", "show all", "Logs", "logs", "Drop filter, level and source.", footer=False),
)  # fmt: skip

ACTIONS: tuple[Action, ...] = (
    *WORKBENCH,
    *CATALOGUE,
    *FORM,
    *FIELDS,
    *RESULT,
    *JSON,
    *TRAFFIC,
    *ACTIVITY,
    *INBOX,
    *JOBS,
    *CALLBACKS,
    *TODO,
    *PLAN,
    *QUESTION,
    *CLIENTS,
    *LOGS,
    *MAIN,
    *APP,
)


BY_ID = {action.id: action for action in ACTIONS}


def bindings_for(scope: str) -> list[BindingType]:
    """The bindings of one scope, in table order; each carries the action's id."""
    return [
        Binding(
            action.keys,
            action.name,
            action.title,
            show=action.footer,
            priority=action.priority,
            tooltip=action.help,
            id=action.id,
        )
        for action in ACTIONS
        if action.scope == scope
    ]


@dataclass(frozen=True, slots=True)
class Reachable:
    """An action and the widget that has it."""

    action: Action
    owner: DOMNode
    focused: bool
    """Whether the owner holds the focus, or something in it does."""


def reachable(screen: Screen[Any], root: Widget | None = None) -> list[Reachable]:
    """What can be done: by the focused widget, outwards, then by the rest of what `root` shows."""
    chain: list[DOMNode] = list((screen.focused or screen).ancestors_with_self)
    if screen.app not in chain:
        chain.append(screen.app)
    own = [node for node in chain if node is not screen and node is not screen.app]
    shown = (root or screen).walk_children(Widget, with_self=True)
    aside = [node for node in shown if node.display and node not in chain]
    found: dict[str, Reachable] = {}
    for node in (*own, *aside, *(node for node in chain if node not in own)):
        for action in _actions_of(type(node)):
            if action.id not in found and _enabled(node, action):
                found[action.id] = Reachable(action, node, node in chain)
    return list(found.values())


@cache
def _actions_of(kind: type[DOMNode]) -> tuple[Action, ...]:
    return tuple(_declared(kind))


def _declared(kind: type[DOMNode]) -> Iterator[Action]:
    for base in kind.__mro__:
        for binding in base.__dict__.get("BINDINGS", ()):
            action = BY_ID.get(binding.id or "") if isinstance(binding, Binding) else None
            if action is not None and hasattr(kind, action.method):
                yield action


def _enabled(node: DOMNode, action: Action) -> bool:
    _, name, parameters = parse(action.name)
    return bool(node.check_action(name, parameters))


_NAMES = {
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "space": "space",
    "enter": "⏎",
    "escape": "esc",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "full_stop": ".",
    "comma": ",",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "asterisk": "*",
    "exclamation_mark": "!",
    "apostrophe": "'",
    "quotation_mark": '"',
    "delete": "del",
}


def key_name(key: str) -> str:
    """`ctrl+p` as `^p`, `question_mark` as `?`, `shift+up` as `⇧↑`."""
    *modifiers, last = key.strip().split("+")
    short = {"ctrl": "^", "shift": "⇧", "alt": "⌥"}
    return "".join(short.get(word, word + "+") for word in modifiers) + _NAMES.get(last, last)


def key_names(keys: str) -> str:
    """All keys of an action, `? f1`."""
    return " ".join(key_name(key) for key in keys.split(","))
