"""Table of the actions of dialogs. The box of a dialog shows its most useful keys, and F1 lists all keys."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from mcpdesk.tui.action import Action

# fmt: off
_dialog = partial(Action, scope="dialog", group="Dialogs", footer=False)
_page = partial(Action, scope="page", group="Pages", footer=False)
_help_page = partial(Action, scope="help_page", group="Help", footer=False)
_server_page = partial(Action, scope="server_page", group="Page of a server", footer=False)
_save_page = partial(Action, scope="save_page", group="Page of a save", footer=False)
_compare = partial(Action, scope="compare", group="Comparison", footer=False)
_menu = partial(Action, scope="menu", group="Menus", footer=False)
_jump = partial(Action, scope="jump", group="Jump letters", footer=False)
_line_prompt = partial(Action, scope="line_prompt", group="Prompt for a line", footer=False)
_path_prompt = partial(Action, scope="path_prompt", group="Prompt for a file", footer=False)
_add_prompt = partial(Action, scope="add_prompt", group="Prompt for a server", footer=False)
_token_prompt = partial(Action, scope="token_prompt", group="Prompt for a token", footer=False)
_roots_prompt = partial(Action, scope="roots_prompt", group="Prompt for roots", footer=False)
_trust_prompt = partial(Action, scope="trust_prompt", group="Trust in a file", footer=False)
DIALOG_ACTIONS: Final[tuple[Action, ...]] = (
    _dialog("help", "f1", "help", "Show the keys of the dialog."),

    _page("dismiss(None)", "escape,q", "close"),
    _page("scroll(1)", "j", "down"),
    _page("scroll(-1)", "k", "up"),
    _page("help", "question_mark", "help", "Show the keys of the page."),

    _help_page("dismiss(None)", "question_mark,f1", "close"),

    _server_page("action_menu", "space", "actions", "Choose another revision or log level."),
    _server_page("speak_revision", "", "revision",
        "Use another protocol revision with this server, such as 2025-11-25."),
    _server_page("log_level", "", "log level",
        "Choose the lowest level of the log messages that the server sends to the desk."),

    _save_page("dismiss(None)", "escape,q", "close"),
    _save_page("start", "r", "repeat", "Repeat the recorded calls with the current code."),
    _save_page("stop", "x", "stop", "Make no further calls."),
    _save_page("toggle_always", "f", "at every save",
        "Repeat the calls after each save. Press again to stop."),
    _save_page("step(-1)", "left,h", "earlier save"),
    _save_page("step(1)", "right,l", "later save"),

    _compare("dismiss(None)", "escape,q", "close"),

    _menu("dismiss(None)", "escape", "close"),
    _menu("move(1)", "down", "down"),
    _menu("move(-1)", "up", "up"),
    _menu("page(1)", "pagedown", "page down"),
    _menu("page(-1)", "pageup", "page up"),

    _jump("dismiss(None)", "escape,ctrl+o", "close", "A letter jumps to its pane, a digit shows its screen."),

    _line_prompt("dismiss('')", "escape", "close"),
    _path_prompt("dismiss(None)", "escape", "close"),
    _add_prompt("dismiss(())", "escape", "close"),
    _token_prompt("dismiss(None)", "escape", "close"),
    _roots_prompt("dismiss(None)", "escape", "close", priority=True),
    _roots_prompt("keep", "ctrl+s", "save", "Use these roots.", priority=True),

    _trust_prompt("dismiss(True)", "t", "trust", "Trust this content of the file, and add it."),
    _trust_prompt("dismiss(False)", "n,escape", "close"),
)
# fmt: on
DIALOG_OUTER_SCOPES: Final[Mapping[str, tuple[str, ...]]] = {
    **{action.scope: ("dialog",) for action in DIALOG_ACTIONS if action.scope != "dialog"},
    "help_page": ("page",),
    "server_page": ("page",),
}
"""Scope of a dialog -> scopes around it, as in `OUTER_SCOPES`."""
