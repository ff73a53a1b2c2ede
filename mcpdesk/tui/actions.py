"""Table of all actions of the screen. Key bindings, footer, palette, menus and help read this table.

A pane or widget sets `BINDINGS = bindings_for("traffic")`. It implements a method `action_<name>` for each
action of its scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from textual.actions import parse
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.keys import format_key
from textual.screen import Screen
from textual.widget import Widget

from mcpdesk.features import features_with
from mcpdesk.tui.action import Action
from mcpdesk.tui.dialog_actions import DIALOG_ACTIONS, DIALOG_OUTER_SCOPES

if TYPE_CHECKING:
    from mcpdesk.feature import ScreenAction

# fmt: off
_workbench = partial(Action, scope="workbench", group="Workbench")
_catalogue = partial(Action, scope="catalogue", group="Catalogue")
_form = partial(Action, scope="form", group="Form")
_form_fields = partial(Action, scope="form_fields", group="Form")
_result_text = partial(Action, scope="result_text", group="Result")
_long_text = partial(Action, scope="long_text", group="Text")
_table = partial(Action, scope="table", group="Table")
_json = partial(Action, scope="json", group="JSON")
_traffic_list = partial(Action, scope="traffic_list", group="Traffic")
_traffic = partial(Action, scope="traffic", group="Traffic")
_activity = partial(Action, scope="activity", group="Activity")
_inbox = partial(Action, scope="inbox", group="Inbox")
_jobs = partial(Action, scope="jobs", group="Jobs")
_callbacks = partial(Action, scope="callbacks", group="Callbacks")
_todo = partial(Action, scope="todo", group="Tasks")
_plan = partial(Action, scope="plan", group="Plan")
_question = partial(Action, scope="question", group="Question")
_clients = partial(Action, scope="clients", group="Clients")
_logs = partial(Action, scope="logs", group="Logs")
_section_list = partial(Action, scope="section_list", group="List")
_servers = partial(Action, scope="servers", group="Servers")
_statistics = partial(Action, scope="statistics", group="Statistics")
_main_desk = partial(Action, scope="main", group="Desk")
_main_screens = partial(Action, scope="main", group="Screens")
_main_server = partial(Action, scope="main", group="Server")
_app = partial(Action, scope="app", group="Desk")
OWN_ACTIONS: tuple[Action, ...] = (
    _workbench("call", "ctrl+r", "call",
        "Call the tool, read the resource or get the prompt. For a destructive tool, the desk asks first."),
    _workbench("again", "r", "repeat",
        "Call again with the arguments of the last call.", footer=False, wide=True, former_keys="full_stop"),
    _workbench("cancel", "x,ctrl+x", "cancel", "Cancel the running call.", priority=True, weight=50),
    _workbench("toggle_json", "ctrl+e", "form or JSON",
        "Edit the arguments as a form or as JSON.", priority=True),
    _workbench("history", "g h,f3,ctrl+h", "history",
        "List the item's earlier calls. Enter uses the arguments of the chosen one. F3 works while typing.",
        former_keys="H"),
    _workbench("saved", "ctrl+s", "saved calls",
        "Use saved arguments, or save the current ones under a name.",
        footer=False, wide=True, former_keys="b"),
    _workbench("edit_source", "g c", "edit the code",
        "Open the item, the line where the call failed, or the focused result in $EDITOR.",
        footer=False, wide=True, former_keys="E"),
    _workbench("to_result", "g r,f8", "to the result",
        "Move to the result. F8 works while typing.", footer=False, former_keys="o"),
    _workbench("edit_arguments", "e,f7", "arguments in the editor",
        "Edit the arguments as JSON in $EDITOR.", footer=False),
    _workbench("page_result", "o", "result in the pager",
        "Show the text of the open tab in $PAGER.", footer=False, former_keys="v"),
    _workbench("clear_form", "ctrl+l", "reset", "Fill the form with the defaults again.", footer=False),
    _workbench("filter", "slash", "filter", "Show only items of the catalogue that contain all words."),
    _workbench("copy", "y", "copy result",
        "Copy the result, its arguments, or the call as a curl command.", footer=False, wide=True),
    _workbench("save", "w", "save result",
        "Write the result, or a part of it, to a file. The desk asks for the path.",
        footer=False, wide=True, former_keys="x"),
    _workbench("compare", "d", "compare results",
        "Compare the last result with the result of another call of the item.",
        footer=False, wide=True),
    _workbench("watch", "f", "watch resource",
        "Read the resource again whenever the server reports a change. Press again to stop.", footer=False,
        former_keys="w"),
    _workbench("show_tab(-1)", "shift+left,ctrl+pageup", "previous tab", footer=False,
        former_keys="left_square_bracket"),
    _workbench("show_tab(1)", "shift+right,ctrl+pagedown", "next tab",
        "Show the next tab of the result: Content, Structured, Raw and Table.", footer=False,
        former_keys="right_square_bracket"),
    _workbench("widen_result(1)", "less_than_sign", "widen the result",
        "Give the result more room, and the arguments less. The share is saved.", footer=False),
    _workbench("widen_result(-1)", "greater_than_sign", "widen the arguments",
        "Give the arguments more room, and the result less.", footer=False),
    _workbench("back", "escape", "to the catalogue",
        "Go back to the catalogue, where letters and digits are keys again.", weight=10),

    _catalogue("choose_policy", "", "policy",
        "Choose whether clients may call the tool: allow, ask (you approve each call) or deny.",
        footer=False, wide=True, former_keys="p"),
    _catalogue("pick_mode", "", "mode",
        "Show only the tools of one mode. Clients choose a mode with ?mode=NAME in the URL.",
        footer=False, wide=True, former_keys="m"),
    _catalogue("open", "enter", "open",
        "Move to the arguments of the item. A resource without arguments is read. A group is folded.",
        footer=False),
    _catalogue("fold", "left,h", "fold group", footer=False),
    _catalogue("unfold", "right,l", "unfold group", footer=False),

    _form("add_item", "ctrl+n", "add item", "Add an item to the list at the cursor."),
    _form("remove_item", "alt+x", "remove item", footer=False),
    _form("move_item(-1)", "alt+up", "item up", footer=False),
    _form("move_item(1)", "alt+down", "item down", footer=False),

    _form_fields("suggest", "f4", "suggestions",
        "Choose a value that the server suggests. The right arrow accepts the value at the cursor.",
        footer=False),
    _form_fields("find_field", "slash", "find a field",
        "Choose a field of the form by its name. A text field types the character instead.", footer=False),

    _result_text("search", "slash", "search",
        "Find words in the text. n and N go to the next and previous hit."),
    _result_text("next_hit", "n", "next hit", footer=False),
    _result_text("next_hit(-1)", "N", "previous hit", footer=False),
    _result_text("go_to", "g n", "go to",
        "Go to a line number, or to a percentage such as 50%.", footer=False),

    _long_text("wrap", "v b", "wrap lines",
        "Wrap long lines, or show each line as one row. Left and right then scroll sideways.", footer=False),
    _long_text("sideways(-1)", "left,h", "to the left", footer=False),
    _long_text("sideways(1)", "right,l", "to the right",
        "Scroll by half of the width, if lines are not wrapped.", footer=False),

    _table("choose", "enter", "the object", "Show the row as JSON."),
    _table("sort", "s", "sort",
        "Sort by the chosen column. Press again to reverse. You can also click a header."),
    _table("filter", "slash", "filter", "Show only rows that contain all words."),
    _table("copy", "y", "copy",
        "Copy the cell, the row, or all shown rows as CSV, Markdown or JSON."),
    _table("column(-1)", "left,h", "column to the left", footer=False),
    _table("column(1)", "right,l", "column to the right", "Choose the column to sort by.", footer=False),

    _json("unfold", "right,l", "unfold", footer=False),
    _json("fold", "left,h", "fold", "Fold the value, or go to the value around it.", footer=False),
    _json("unfold_all", "v a,asterisk", "unfold all", "Unfold everything in the value at the cursor.",
        footer=False, wide=True),
    _json("fold_all", "v o", "fold all", footer=False, former_keys="minus"),
    _json("search", "slash", "search", "Find keys and values. n and N go to the next and previous hit."),
    _json("next_hit", "n", "next hit", footer=False),
    _json("next_hit(-1)", "N", "previous hit", footer=False),
    _json("copy_value", "y", "copy value"),
    _json("copy_path", "", "copy path", footer=False, wide=True, former_keys="Y"),

    _traffic_list("open", "enter", "details",
        "Show the messages of the exchange. Esc closes them.", weight=18),
    _traffic_list("follow", "f", "follow", "Stay at the newest line. Press again to stop.", weight=6),
    _traffic_list("pause", "p", "pause",
        "Stop adding lines. Recording continues. Press again to resume.", footer=False, wide=True),
    _traffic_list("mark", "m", "mark", "Mark the line, and move to the next line.",
        footer=False, wide=True),
    _traffic_list("clear_marks", "", "unmark all", "Unmark all lines, also those that the filter hides.",
        footer=False),
    _traffic_list("sort", "s", "sort",
        "Choose the column to sort by. Choose it again to reverse the order. You can also click a title.",
        footer=False, wide=True, former_keys="greater_than_sign,less_than_sign"),
    _traffic_list("unfold", "right,l", "unfold", "Show the notifications of a call below it.",
        footer=False),
    _traffic_list("fold", "left,h", "fold", "Hide the notifications of a call.", footer=False),
    _traffic_list("waterfall", "v w", "waterfall",
        "Show on a time axis how long each exchange took: its handler, waiting and writing.",
        footer=False, wide=True),
    _traffic_list("zoom_axis(1)", "plus,equals_sign", "zoom in",
        "Show a shorter time on the axis of the waterfall.", footer=False),
    _traffic_list("zoom_axis(-1)", "minus", "zoom out",
        "Show a longer time on the axis of the waterfall.", footer=False),
    _traffic_list("raw", "v r", "raw frames",
        "Show single frames instead of exchanges. Enter shows a complete frame.",
        footer=False, former_keys="b"),
    _traffic_list("zero", "v z", "count from here",
        "Show times relative to this exchange. Press again to show the clock.",
        footer=False),

    _traffic("cancel", "x", "cancel the call",
        "End the running call. Its client receives an error. For a client, the desk asks first.",
        weight=40),
    _traffic("edit_source", "g c", "edit the code", "Open $EDITOR where the call failed.",
        weight=30, former_keys="E"),
    _traffic("replay", "r", "repeat", "Send the request again. The desk is then the client.", weight=19),
    _traffic("filter", "slash", "filter",
        "Type words to find, or terms such as tool:Bash status:error >200ms since:5m, with not, or, ( ).",
        weight=20),
    _traffic("take", "tab", "complete", "Accept the highlighted completion of the filter.", weight=30),
    _traffic("choose(1)", "down", "next completion", footer=False),
    _traffic("choose(-1)", "up", "previous completion", footer=False),
    _traffic("copy", "y", "copy",
        "Copy the exchange as text, JSON, curl or mcpdesk command. Secrets are masked.",
        footer=False, wide=True),
    _traffic("edit", "e", "edit", "Open the request in the form of the workbench, to change it.",
        footer=False, wide=True, former_keys="i"),
    _traffic("compare", "d", "compare",
        "Compare two marked exchanges, or the selected one with the marked one. Without a mark, compare with "
        "the previous one of its kind.", footer=False, wide=True),
    _traffic("next_like('error', 1)", "right_square_bracket e", "next error",
        "Go to the next line that failed. [ e goes back.", footer=False, wide=True),
    _traffic("next_like('error', -1)", "left_square_bracket e", "previous error", footer=False,
        former_keys="E"),
    _traffic("next_like('slow', 1)", "right_square_bracket s", "next slow call",
        "Go to the next call that took over twice the 90th percentile of calls of its kind. [ s goes back.",
        footer=False, wide=True),
    _traffic("next_like('slow', -1)", "left_square_bracket s", "previous slow call", footer=False,
        former_keys="S"),
    _traffic("next_like('same', 1)", "right_square_bracket k", "next of its kind",
        "Go to the next line with the same method and name. [ k goes back.", footer=False),
    _traffic("next_like('same', -1)", "left_square_bracket k", "previous of its kind", footer=False,
        former_keys="O"),
    _traffic("next_like('line', 1)", "right_square_bracket l", "next line",
        "Go to the next line, also from the details. [ l goes back.", footer=False),
    _traffic("next_like('line', -1)", "left_square_bracket l", "previous line", footer=False),
    _traffic("next_mark(1)", "right_square_bracket m", "next mark", footer=False, former_keys="apostrophe"),
    _traffic("next_mark(-1)", "left_square_bracket m", "previous mark", footer=False,
        former_keys="quotation_mark"),
    _traffic("logs", "g l", "log lines", "Show the log lines of the call. There, g t leads back.",
        footer=False, wide=True, former_keys="c"),
    _traffic("go_to", "g n", "go to a time",
        "Go to a time such as 12:03. 5m means five minutes ago.", footer=False),
    _traffic("pager", "o", "in the pager",
        "Show the exchange or the raw frame in $PAGER.", footer=False),
    _traffic("export", "w", "export",
        "Write exchanges to a file, also as test cases of the server. Secrets are masked.",
        footer=False, wide=True),
    _traffic("only_new", "v n", "only new lines",
        "Hide the messages so far, and show those that arrive from now. Esc shows all again.", footer=False,
        wide=True),
    _traffic("filters", "v f", "saved filters",
        "Use a saved filter, or save the current one.", footer=False, wide=True, former_keys="F"),
    _traffic("columns", "v c", "columns",
        "Hide columns, or show them again. The choice is saved. A letter or enter toggles a column.",
        footer=False),
    _traffic("show_tab(-1)", "shift+left,ctrl+pageup", "previous tab", footer=False),
    _traffic("show_tab(1)", "shift+right,ctrl+pagedown", "next tab",
        "Show the next tab of the details: messages, steps of an operation, HTTP and events.", footer=False),
    _traffic("back", "escape", "back", "Close the details. Press again to clear the filter.", footer=False),

    _activity("show_tab(-1)", "shift+left,ctrl+pageup", "previous part", footer=False,
        former_keys="left_square_bracket"),
    _activity("show_tab(1)", "shift+right,ctrl+pagedown", "next part",
        "The parts are inbox, jobs, callbacks, tasks and plan.", former_keys="right_square_bracket"),
    _activity("filter", "slash", "filter", "Show only lines that contain all words."),
    _activity("back", "escape", "back", "Return to the list. Press again to clear the filter.", footer=False),

    _inbox("open", "enter", "open", "Answer the question. If it has ended, show the answer."),
    _inbox("decline", "x", "decline", "Decline the selected question.", former_keys="d"),
    _inbox("copy", "y", "copy", "Copy the question and its answer."),

    _jobs("open", "enter", "output", "Go to the output of the selected job."),
    _jobs("kill", "x", "kill", "End the selected job and all programs that it started. Asks first."),
    _jobs("follow", "f", "follow", "Stay at the end of the output. Press again to stop."),
    _jobs("copy", "y", "copy", "Copy the command, the output, or the path of the output."),

    _callbacks("open", "enter", "message", "Show the full message."),
    _callbacks("fire", "r", "fire now", "Send the callback now."),
    _callbacks("cancel", "x", "cancel", "Delete the callback. Asks first."),
    _callbacks("copy", "y", "copy", "Copy the message, or all details."),

    _todo("fold", "enter", "fold", "Hide the steps of the task. Press again to show them."),
    _todo("copy", "y", "copy", "Copy the task with its steps, or the line."),

    _plan("end", "x", "end", "End plan mode for its client. Asks first."),
    _plan("copy", "y", "copy", "Copy the plan, its file or its goal."),

    _question("choose", "space,1,2,3,4,5,6,7,8,9,0", "choose",
        "A digit chooses the option with this number. Space chooses the option at the cursor."),
    _question("next_page", "enter", "next",
        "Choose the option. Press again to go to the next page. On the last page, it sends the answers."),
    _question("previous_page", "backspace", "back"),
    _question("decline", "x", "decline", "Decline the question. You can give a reason.", former_keys="d"),
    _question("cancel", "c", "cancel",
        "Close a form or a link without an answer.", footer=False),
    _question("open_link", "o", "open link",
        "Open the link in the browser.", footer=False),
    _question("copy_link", "y", "copy link", footer=False),
    _question("next_question", "g q", "next question",
        "Postpone this question, and show the next one.", footer=False, former_keys="n"),
    _question("later", "escape", "later", "Postpone the question. Your choices are kept."),
    _question("move(-1)", "up,k", "up", footer=False),
    _question("move(1)", "down,j,tab", "down", footer=False),
    _question("scroll(-1)", "pageup", "page up", footer=False),
    _question("scroll(1)", "pagedown", "page down", footer=False),

    _section_list("details", "enter", "details",
        "Show the details in the place of the list. Esc leads back to the list.", weight=18),

    _clients("filter", "slash", "filter", "Show only lines that contain all words."),
    _clients("copy", "y", "copy", "Copy the name, the line, or all details."),
    _clients("open", "enter,g t", "its traffic", "Show the messages of the client on the traffic screen.",
        weight=15),
    _clients("sort", "s", "sort",
        "Choose the column to sort by. Choose it again to reverse the order."),
    _clients("columns", "v c", "columns",
        "Hide columns, or show them again. The choice is saved. A letter or enter toggles a column.",
        footer=False),
    _clients("disconnect", "x", "disconnect", "End the session or connection of the client. Asks first.",
        former_keys="d"),
    _clients("back", "escape", "back", "Return to the list. Press again to clear the filter.", footer=False),

    _servers("open", "enter", "use this server",
        "Make the server the current one, and return to the screen before. In a capture, show its messages."),
    _servers("filter", "slash", "filter", "Show only lines that contain all words."),
    _servers("restart", "r", "start again",
        "Connect to the server again, start its program again, or read its folder again."),
    _servers("give_token", "f6", "log in", "Log in to the server, or give it a token.",
        footer=False, wide=True),
    _servers("remove", "x", "remove", "Remove the server. Asks first, and lists what would be lost."),
    _servers("add", "ctrl+n", "add a server",
        "Type or paste a server: a folder, a URL, a file, or -- and a command.", weight=20),
    _servers("sort", "s", "sort",
        "Choose the column to sort by. Choose it again to reverse the order. You can also click a title.",
        footer=False, wide=True),
    _servers("columns", "v c", "columns",
        "Hide columns, or show them again. The choice is saved. A letter or enter toggles a column.",
        footer=False),
    _servers("copy", "y", "copy", "Copy the name, the location, the reason or the page.",
        footer=False, wide=True),
    _servers("back", "escape", "back",
        "Return to the list. Press again to clear the filter, and again to leave the screen.", footer=False),

    _statistics("filter", "slash", "filter", "Show only lines that contain all words."),
    _statistics("sort", "s", "sort",
        "Choose the column to sort by. Choose it again to reverse the order. You can also click a title."),
    _statistics("columns", "v c", "columns",
        "Hide columns, or show them again. The choice is saved. A letter or enter toggles a column.",
        footer=False),
    _statistics("open", "enter,g t", "show the calls",
        "Show the messages of the row on the traffic screen."),
    _statistics("export", "w", "export", "Write the table to a file, as CSV or JSON.", former_keys="x"),
    _statistics("copy", "y", "copy", "Copy the line, or the table as CSV or JSON.", footer=False, wide=True),
    _statistics("show_tab(-1)", "shift+left,ctrl+pageup", "previous table", footer=False,
        former_keys="left_square_bracket"),
    _statistics("show_tab(1)", "shift+right,ctrl+pagedown", "next table",
        "The tables are tools, clients and methods. Times do not include waiting for people and clients.",
        former_keys="right_square_bracket"),
    _statistics("back", "escape", "back",
        "Return to the list. Press again to clear the filter.", footer=False),

    _logs("filter", "slash", "filter",
        "Show only lines that contain all words in their text, source or position."),
    _logs("level", "v l", "level", "Choose the lowest level of the lines that are shown."),
    _logs("source", "v s", "source", "Show only one source: server, stderr, print or a logger.",
        former_keys="o"),
    _logs("only_new", "v n", "only new lines",
        "Hide the lines so far, and show those that arrive from now. Esc shows all again.", footer=False,
        wide=True),
    _logs("follow", "f", "follow", "Stay at the newest line. Press again to stop."),
    _logs("next_bad(1)", "right_square_bracket e", "next error", "Go to the next error. [ e goes back.",
        footer=False, wide=True, former_keys="e"),
    _logs("next_bad(-1)", "left_square_bracket e", "previous error", footer=False, former_keys="E"),
    _logs("next_hit(1)", "n", "next hit",
        "Go to the next line with the words of the last filter. N goes back.", footer=False),
    _logs("next_hit(-1)", "N", "previous hit", footer=False),
    _logs("go_to", "g n", "go to a time",
        "Go to a time such as 12:03. 5m means five minutes ago.",
        footer=False, wide=True),
    _logs("show_call", "g t", "show the call", "Show the call that wrote the line, on the traffic screen.",
        former_keys="c"),
    _logs("unfold", "right,l", "unfold", "Show the lines below an entry, such as a traceback.",
        footer=False, wide=True),
    _logs("fold", "left,h", "fold", "Hide the lines below an entry.", footer=False),
    _logs("copy", "y", "copy", "Copy the text, the position, the complete line or all shown lines."),
    _logs("export", "w", "export", "Write the shown lines to a file. Secrets are masked.", footer=False,
        wide=True),
    _logs("pager", "o", "in the pager", "Show the shown lines in $PAGER.", footer=False),
    _logs("details", "enter", "full text", "Show all lines of an entry. Press again to hide them."),
    _logs("reset", "escape", "show all", "Clear the filter, the level and the source.", footer=False),

    _main_desk("jump", "ctrl+o", "jump", "Show a letter over every pane. Press the letter to go there."),

    _main_screens("show_screen('workbench')", "1", "Workbench", "Call tools.", footer=False),
    _main_screens("show_screen('traffic')", "2", "Traffic", "Watch every message.", footer=False),
    _main_screens("show_screen('activity')", "3", "Activity",
        "Questions, jobs, callbacks and tasks.", footer=False),
    _main_screens("show_screen('clients')", "4", "Clients", "Connected clients.", footer=False),
    _main_screens("show_screen('logs')", "5", "Logs", "Log lines of servers and tools.", footer=False),

    _main_screens("show_screen('statistics')", "6", "Statistics",
        "Calls, errors, times, bytes and tokens, by tool and by client.", footer=False),

    _main_screens("show_part('inbox')", "g q", "questions", "Show the questions, also answered ones.",
        footer=False),
    _main_screens("show_part('plan')", "g p", "plan", "Show the plans that clients wrote in plan mode.",
        footer=False),

    _main_desk("open_question", "a,f2", "answer",
        "Open the question in the banner, or the oldest one. F2 works while typing.",
        footer=False, weight=60),
    _main_desk("action_menu", "space", "actions",
        "Show all actions of the selected item and the focused pane. Type to search.", weight=30),
    _main_desk("standing_approvals", "", "standing approvals",
        "List the tools that clients may call without approval. Enter revokes one.",
        footer=False, former_keys="A"),
    _main_desk("zoom", "z", "maximise",
        "Show only the focused pane. Press again to show all panes.", footer=False),

    _main_server("copy_url", "", "copy URL", "Copy the URL of the server.", footer=False, former_keys="u"),
    _main_server("client_config", "", "client configuration",
        "Copy the configuration for Claude Desktop, Cursor, VS Code or Claude Code.",
        footer=False, wide=True, former_keys="U"),
    _main_server("servers", "g s", "servers",
        "Show all servers: state, reason if one is down, and output. Enter switches to one.",
        footer=False, wide=True, former_keys="S"),
    _main_server("add_server", "", "add a server",
        "Type or paste a server: a folder, a URL, a file, or -- and a command.",
        footer=False, wide=True, former_keys="N"),
    _main_server("remove_server", "", "remove this server",
        "Remove the server. Asks first, and lists what would be lost.", footer=False, former_keys="X"),
    _main_server("log_level", "", "log level",
        "Choose the lowest level of the log messages that the server sends to the desk.",
        footer=False, former_keys="L"),
    _main_server("edit_roots", "", "roots",
        "Edit the folders that a server receives when it asks for roots.", footer=False, former_keys="D"),
    _main_server("about_server", "", "about the server",
        "Show the address, revision, capabilities and instructions of the server.",
        footer=False, wide=True, former_keys="I"),
    _main_server("speak_revision", "", "revision",
        "Use another protocol revision with this server, such as 2025-11-25.", footer=False, former_keys="V"),
    _main_server("give_token", "f6", "token",
        "Use a token for this server, or log in to a remote server.", footer=False, former_keys="T"),
    _main_server("show_save", "v d", "what the save changed",
        "Show what the last saved file changes for clients. There, r repeats the recorded calls.",
        footer=False, former_keys="R"),
    _main_server("reload", "f5", "reload",
        "Read the server folder again, or reconnect to the server.", footer=False),

    _app("palette", "ctrl+p,colon", "palette", "Find any action by name.", priority=True, weight=60),
    _app("show_help", "question_mark,f1", "help", "Show the keys of the focused pane.", weight=61),
    _app("first_steps", "", "in five minutes", "Learn the keys with three exercises on the sample.",
        footer=False),
    _app("show_news", "exclamation_mark", "messages",
        "Show the latest notifications in full, and the text that you copied last.",
        footer=False, wide=True),
    _app("pick_theme", "", "theme", "Choose a theme. The screen previews each one.",
        footer=False, former_keys="t"),
    _app("ask_quit", "ctrl+q", "quit", "Quit. Asks first if something would be lost.", priority=True),
    _app("interrupt", "ctrl+c", "copy or quit",
        "Copy the selected text. If nothing is selected, press twice within 2 s to quit.",
        footer=False, priority=True),
)
# fmt: on
FEATURE_ACTIONS: dict[str, ScreenAction] = {
    screen_action.action.id: screen_action
    for feature in features_with("screen_actions")
    for screen_action in feature.screen_actions()
}
"""Actions of features, by id."""


def _desk_and_feature_actions(desk_actions: Iterable[Action]) -> Iterator[Action]:
    """Yield the actions of the desk, and each action of a feature before the action that it names."""
    for desk_action in desk_actions:
        for feature_action in FEATURE_ACTIONS.values():
            if feature_action.before == desk_action.id:
                yield feature_action.action
        yield desk_action


ACTIONS: tuple[Action, ...] = tuple(_desk_and_feature_actions((*OWN_ACTIONS, *DIALOG_ACTIONS)))
BY_ID = {action.id: action for action in ACTIONS}
SCREENS = {action.name.split("'")[1]: action for action in ACTIONS if action.name.startswith("show_screen(")}
"""Action that shows each screen, by name of the screen, in the order of the tabs."""
NO_KEY = "no_key"
"""Key name that no terminal sends. Textual's keymap cannot remove a key, only replace it."""
OUTER_SCOPES: dict[str, tuple[str, ...]] = {
    "catalogue": ("workbench",),
    "form": ("workbench",),
    "form_fields": ("form",),
    "result": ("workbench",),
    "result_text": ("result",),
    "long_text": ("result_text", "traffic_detail", "jobs"),
    "table": ("result", "traffic_detail"),
    "json": ("result", "traffic_detail"),
    "workbench": ("main",),
    "traffic_list": ("traffic",),
    "traffic_detail": ("traffic",),
    "traffic": ("main",),
    "inbox": ("activity",),
    "jobs": ("activity",),
    "callbacks": ("activity",),
    "todo": ("activity",),
    "plan": ("activity",),
    "activity": ("main",),
    "clients": ("main",),
    "section_list": ("clients", "servers"),
    "servers": ("main",),
    "statistics": ("main",),
    "logs": ("main",),
    "main": ("app",),
    "question": ("dialog",),
    **DIALOG_OUTER_SCOPES,
    "dialog": ("app",),
    "app": (),
}
"""Scope of a widget -> scopes of the widgets that may contain it. Actions of these scopes are active too."""


def bindings_for(scope: str) -> list[BindingType]:
    """Return the bindings of one scope, in table order. Each binding has the id of its action."""
    return [
        Binding(
            keys,
            action.name,
            action.title,
            show=action.footer,
            priority=action.priority and not _types_text(keys),
            tooltip=action.help,
            id=action.id,
        )
        for action in ACTIONS
        if action.scope == scope
        for keys in _keys_by_priority(action)
    ]


def _keys_by_priority(action: Action) -> list[str]:
    """Return the keys of an action, separated by commas, as one text for each binding.

    A key that types a character never has priority. If an action with priority has such keys and other keys,
    each kind needs its own binding.
    """
    keys = action.keys.split(",")
    character_keys = [key for key in keys if _types_text(key)]
    if not action.priority or len(character_keys) in (0, len(keys)):
        return [action.keys or NO_KEY]
    other_keys = [key for key in keys if key not in character_keys]
    key_groups = [",".join(character_keys), ",".join(other_keys)]
    return key_groups if keys[0] in character_keys else key_groups[::-1]


def _types_text(keys: str) -> bool:
    """Return True if the first of the keys types a character: `x`, `colon` or `space`."""
    name = format_key(keys.partition(",")[0])
    return name == "space" or (len(name) == 1 and name.isascii())


def rebind(keys: Mapping[str, str]) -> None:
    """Set the keys that the footer, the menus and the help show for some actions.

    `keys` maps the id of an action to its keys, separated by commas. All other actions show their default
    keys again. The bindings do not change: Textual's keymap does that.
    """
    for action in ACTIONS:
        chosen_keys = keys.get(action.id)
        BY_ID[action.id] = action if chosen_keys is None else replace(action, keys=chosen_keys)
    for name, action in SCREENS.items():
        SCREENS[name] = BY_ID[action.id]
    _actions_of.cache_clear()


def with_feature_actions(widget_type: type[DOMNode], scope: str) -> None:
    """Add the methods for the actions of features to the widget that implements a scope."""
    for feature_action in FEATURE_ACTIONS.values():
        if feature_action.action.scope == scope:
            setattr(widget_type, feature_action.action.method, feature_action.run)


@dataclass(frozen=True, slots=True)
class Reachable:
    """Action that is available at present, and the widget that implements it."""

    action: Action
    owner: DOMNode


def former_bindings() -> list[BindingType]:
    """Return bindings of the application for the keys that actions had in the previous release."""
    former_keys = {key for action in ACTIONS for key in action.former_keys.split(",") if key}
    return [Binding(key, f"show_former({key!r})", show=False) for key in sorted(former_keys)]


def former_notice(screen: Screen[Any], key: str) -> str:
    """Return a text with the present key of the action that had `key` in the previous release.

    Only the actions of the focused widget and its ancestors are searched. If none of them had the key, return
    an empty text.
    """
    ancestors = (screen.focused or screen).ancestors_with_self
    for entry in reachable(screen):
        action = entry.action
        if key in action.former_keys.split(",") and (entry.owner in ancestors or entry.owner is screen.app):
            if action.keys:
                return f"{key_name(key)} is now {key_name(action.keys.partition(',')[0])}: {action.title}"
            return f"{key_name(key)} ({action.title}) is now in the action menu (space)"
    return ""


def reachable(screen: Screen[Any], root: Widget | None = None) -> list[Reachable]:
    """Return the available actions, each with the widget that implements it.

    The order is: the actions of the focused widget, of its ancestors, of the other visible widgets in `root`,
    of the screen and of the application.
    """
    ancestors: list[DOMNode] = list((screen.focused or screen).ancestors_with_self)
    if screen.app not in ancestors:
        ancestors.append(screen.app)
    own_nodes = [node for node in ancestors if node is not screen and node is not screen.app]
    visible_widgets = (root or screen).walk_children(Widget, with_self=True)
    other_widgets = [node for node in visible_widgets if node.display and node not in ancestors]
    screen_and_app = [node for node in ancestors if node not in own_nodes]
    entries: dict[str, Reachable] = {}
    for node in (*own_nodes, *other_widgets, *screen_and_app):
        for action in _actions_of(type(node)):
            if action.id not in entries and _is_enabled(node, action):
                entries[action.id] = Reachable(action, node)
    return list(entries.values())


@cache
def _actions_of(widget_type: type[DOMNode]) -> tuple[Action, ...]:
    return tuple(_declared_actions(widget_type))


def _declared_actions(widget_type: type[DOMNode]) -> Iterator[Action]:
    for base in widget_type.__mro__:
        for binding in base.__dict__.get("BINDINGS", ()):
            action = BY_ID.get(binding.id or "") if isinstance(binding, Binding) else None
            if action is not None and hasattr(widget_type, action.method):
                yield action


def _is_enabled(node: DOMNode, action: Action) -> bool:
    _, name, parameters = parse(action.name)
    return bool(node.check_action(name, parameters))


def key_name(key: str) -> str:
    """Return a key in short form: `^p` for `ctrl+p`, `?` for `question_mark`, `⇧↑` for `shift+up`.

    A sequence of keys is shown with a space: `] e`. If `key` is empty, return an empty text.
    """
    return " ".join(map(_single_key_name, key.split()))


def _single_key_name(key: str) -> str:
    *modifiers, last = key.split("+")
    short_names = {"ctrl": "^", "shift": "⇧", "alt": "⌥"}
    return "".join(short_names.get(modifier, modifier + "+") for modifier in modifiers) + format_key(last)


def key_names(keys: str) -> str:
    """Return all keys of an action: `? f1`. Commas separate them if one is a sequence: `g r, f8`."""
    separator = ", " if " " in keys else " "
    return separator.join(key_name(key) for key in keys.split(","))


def key_or_palette(action_id: str) -> str:
    """Return the first key of an action. Without a key, return how to find it: `^p, then "revision"`."""
    return _key_or_search(action_id, "app.palette")


def check_up_hint(text: str) -> str:
    """Replace `{key}` in a text by the key of the action that checks the servers of all clients.

    Return an empty text if the feature with this action is missing.
    """
    action_id = "servers.doctor"
    return text.format(key=key_or_palette(action_id)) if action_id in FEATURE_ACTIONS else ""


def key_or_menu(action_id: str) -> str:
    """Return the first key of an action. Without a key, return how to find it: `space, then "revision"`."""
    return _key_or_search(action_id, "main.action_menu")


def _key_or_search(action_id: str, menu_id: str) -> str:
    """Return the first key of an action. Without a key, return the key of a menu and the title to type."""
    action = BY_ID[action_id]
    if action.keys and action.keys != NO_KEY:
        return key_name(action.keys.split(",")[0])
    return f'{key_name(BY_ID[menu_id].keys.split(",")[0])}, then "{action.title}"'
