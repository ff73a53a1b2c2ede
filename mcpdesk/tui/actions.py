"""Every action of the screen, once: keys, footer, palette, menus and the help screen all read this table.

A pane or widget sets `BINDINGS = bindings_for("traffic")` and implements `action_<name>` for each row of its
scope. Knows no widget.
"""

from __future__ import annotations

from dataclasses import dataclass

from textual.binding import Binding, BindingType


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
    Action("command_palette", "ctrl+p", "palette", "Desk", "app", "Find any action by name.", priority=True),
    Action("show_help", "question_mark,f1", "help", "Desk", "app", "Keys of the focused pane."),
    Action("jump", "ctrl+o", "jump", "Desk", "app", "Show a letter over every pane; press it to go there."),
    Action("show_screen('workbench')", "1", "Workbench", "Screens", "app", footer=False),
    Action("show_screen('traffic')", "2", "Traffic", "Screens", "app", footer=False),
    Action("show_screen('activity')", "3", "Activity", "Screens", "app", footer=False),
    Action("show_screen('clients')", "4", "Clients", "Screens", "app", footer=False),
    Action("show_screen('logs')", "5", "Logs", "Screens", "app", footer=False),
    Action(
        "open_question",
        "a",
        "answer",
        "Desk",
        "app",
        "Open the question that has waited longest.",
        footer=False,
    ),
    Action(
        "copy_url", "u", "copy URL", "Server", "app", "Copy where the server can be reached.", footer=False
    ),
    Action(
        "client_config",
        "U",
        "client configuration",
        "Server",
        "app",
        "Copy what Claude Desktop, Cursor, VS Code or Claude Code needs to connect.",
        footer=False,
    ),
    Action(
        "pick_server", "S", "pick server", "Server", "app", "Switch to another hosted server.", footer=False
    ),
    Action("reload", "f5", "reload", "Server", "app", "Look at the server's folder again now.", footer=False),
    Action(
        "pick_theme",
        "t",
        "theme",
        "Desk",
        "app",
        "Choose a theme; the screen shows it while you look.",
        footer=False,
    ),
    Action(
        "zoom",
        "z",
        "maximise",
        "Desk",
        "app",
        "Give the focused pane the whole screen, and back.",
        footer=False,
    ),
    Action(
        "ask_quit", "ctrl+q", "quit", "Desk", "app", "Asks first when something would be lost.", priority=True
    ),
)

WORKBENCH: tuple[Action, ...] = (
    Action(
        "call",
        "ctrl+r,r",
        "call",
        "Workbench",
        "workbench",
        "Call the tool, read the resource, get the prompt.",
    ),
    Action(
        "again",
        "R",
        "same again",
        "Workbench",
        "workbench",
        "Repeat the last call with its arguments.",
        footer=False,
    ),
    Action("cancel", "ctrl+x", "cancel", "Workbench", "workbench", "Cancel the running call."),
    Action(
        "toggle_json",
        "ctrl+e",
        "form or JSON",
        "Workbench",
        "workbench",
        "Edit the same arguments the other way.",
    ),
    Action(
        "history",
        "ctrl+h,H,f3",
        "history",
        "Workbench",
        "workbench",
        "Earlier calls of this item; enter takes their arguments.",
    ),
    Action(
        "clear_form",
        "ctrl+l",
        "reset",
        "Workbench",
        "workbench",
        "Put the defaults back into the form.",
        footer=False,
    ),
    Action("filter", "slash", "filter", "Workbench", "workbench", "Filter the catalogue."),
    Action(
        "copy",
        "y",
        "copy result",
        "Workbench",
        "workbench",
        "Copy the result, its arguments, or a curl command.",
        footer=False,
    ),
)

CATALOGUE: tuple[Action, ...] = (
    Action("fold", "left,h", "fold group", "Catalogue", "catalogue", footer=False),
    Action("unfold", "right,l", "unfold group", "Catalogue", "catalogue", footer=False),
)

FORM: tuple[Action, ...] = ()

RESULT: tuple[Action, ...] = (
    Action("show_tab(-1)", "left_square_bracket", "previous tab", "Result", "result", footer=False),
    Action(
        "show_tab(1)", "right_square_bracket", "next tab", "Result", "result", "Content, Structured, Raw."
    ),
)

JSON: tuple[Action, ...] = (
    Action("unfold", "right,l", "unfold", "JSON", "json", footer=False),
    Action("fold", "left,h", "fold", "JSON", "json", "Fold, or go to the enclosing value.", footer=False),
    Action(
        "unfold_all", "asterisk", "unfold all", "JSON", "json", "Everything below the cursor.", footer=False
    ),
    Action("fold_all", "minus", "fold all", "JSON", "json", footer=False),
    Action("search", "slash", "search", "JSON", "json", "Find keys and values; n and N go through them."),
    Action("next_hit", "n", "next hit", "JSON", "json", footer=False),
    Action("next_hit(-1)", "N", "previous hit", "JSON", "json", footer=False),
    Action("copy_value", "y", "copy value", "JSON", "json"),
    Action("copy_path", "Y", "copy path", "JSON", "json", footer=False),
)

TRAFFIC: tuple[Action, ...] = ()

ACTIVITY: tuple[Action, ...] = ()

QUESTION: tuple[Action, ...] = ()

CLIENTS: tuple[Action, ...] = ()

LOGS: tuple[Action, ...] = ()

ACTIONS: tuple[Action, ...] = (
    *WORKBENCH,
    *CATALOGUE,
    *FORM,
    *RESULT,
    *JSON,
    *TRAFFIC,
    *ACTIVITY,
    *QUESTION,
    *CLIENTS,
    *LOGS,
    *APP,
)


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
