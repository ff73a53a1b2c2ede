"""Entries of the palette: available actions, items, servers, settings and themes, in groups.

The palette shows an action without its pane, so it needs a name that is clear without context.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, cast

from mcpdesk.link.values import ItemKind, SettingView
from mcpdesk.tui.action import Action
from mcpdesk.tui.actions import BY_ID, FEATURE_ACTIONS, SCREENS, Reachable, key_name, reachable
from mcpdesk.tui.screens.palette_dialog import Palette, SettingScreen
from mcpdesk.tui.screens.palette_index import PaletteEntry
from mcpdesk.tui.screens.server_page import server_choice

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp
    from mcpdesk.tui.screens.workbench import WorkbenchPane

ACTION_NAMES = {
    "workbench.call": "Call the tool, read the resource, get the prompt",
    "workbench.again": "Call with the same arguments again",
    "main.show_save": "Show what the last save changed",
    "workbench.cancel": "Cancel the running call",
    "workbench.toggle_json": "Edit the arguments as JSON, or as a form",
    "workbench.history": "Show earlier calls of this item",
    "workbench.saved": "Use or save arguments",
    "workbench.clear_form": "Reset the form to its defaults",
    "workbench.filter": "Filter the catalogue",
    "workbench.copy": "Copy the result",
    "workbench.save": "Save the result to a file",
    "workbench.compare": "Compare the last result with that of another call",
    "workbench.watch": "Watch this resource, or stop",
    "workbench.back": "Go back to the catalogue",
    "catalogue.fold": "Fold this group of the catalogue",
    "catalogue.unfold": "Unfold this group of the catalogue",
    "catalogue.choose_policy": "Change who may call this tool",
    "catalogue.pick_mode": "Show the tools of one mode",
    "form.add_item": "Add an item to this list of the form",
    "form.remove_item": "Remove this item of the form",
    "form.move_item(-1)": "Move this item of the form up",
    "form.move_item(1)": "Move this item of the form down",
    "form_fields.suggest": "Show what the server suggests for this field",
    "workbench.show_tab(-1)": "Show the previous tab of the result",
    "workbench.show_tab(1)": "Show the next tab of the result",
    "json.unfold": "Unfold this value",
    "json.fold": "Fold this value",
    "json.unfold_all": "Unfold all values",
    "json.fold_all": "Fold all values",
    "json.search": "Search keys and values",
    "json.next_hit": "Go to the next hit",
    "json.next_hit(-1)": "Go to the previous hit",
    "json.copy_value": "Copy this value",
    "json.copy_path": "Copy the path of this value",
    "long_text.wrap": "Wrap long lines, or show each as one row",
    "long_text.sideways(-1)": "Scroll the text to the left",
    "long_text.sideways(1)": "Scroll the text to the right",
    "traffic_list.open": "Show the messages of this exchange",
    "traffic_list.follow": "Follow the newest traffic, or stop",
    "traffic_list.pause": "Pause the traffic, or resume",
    "traffic_list.mark": "Mark this exchange",
    "traffic_list.clear_marks": "Unmark all exchanges",
    "traffic.next_like('line', 1)": "Go to the next exchange",
    "traffic.next_like('line', -1)": "Go to the previous exchange",
    "traffic.only_new": "Show only new traffic",
    "traffic.next_mark(1)": "Go to the next marked exchange",
    "traffic.next_mark(-1)": "Go to the previous marked exchange",
    "traffic_list.waterfall": "Show where the time went, as a waterfall",
    "traffic_list.zoom_axis(1)": "Zoom into the waterfall",
    "traffic_list.zoom_axis(-1)": "Zoom out of the waterfall",
    "traffic_list.sort": "Sort the traffic by a column",
    "traffic.columns": "Hide or show columns of the traffic",
    "traffic_list.raw": "Show raw frames, or exchanges",
    "traffic.filter": "Filter the traffic",
    "traffic.cancel": "Cancel this running call",
    "traffic.edit_source": "Edit the code where this call failed",
    "traffic.copy": "Copy this exchange",
    "traffic.pager": "Show this exchange or frame in the pager",
    "traffic.filters": "Use or save a filter of the traffic",
    "traffic.replay": "Send this request again",
    "traffic.edit": "Edit this request in the workbench",
    "traffic.go_to": "Go to a time of the traffic",
    "traffic.logs": "Show the log lines of this call",
    "traffic.compare": "Compare exchanges",
    "traffic.export": "Export traffic to a file",
    "traffic.back": "Close the details of the exchange",
    "traffic.show_tab(-1)": "Show the previous tab of the exchange",
    "traffic.show_tab(1)": "Show the next tab of the exchange",
    "activity.show_tab(-1)": "Show the previous part of Activity",
    "activity.show_tab(1)": "Show the next part of Activity",
    "activity.filter": "Filter this part of Activity",
    "activity.back": "Clear the filter of Activity",
    "inbox.open": "Open this question",
    "inbox.decline": "Decline this question",
    "inbox.copy": "Copy this question",
    "jobs.open": "Show this job's output",
    "jobs.kill": "Kill this job",
    "jobs.follow": "Follow this job's output, or stop",
    "jobs.copy": "Copy this job's command or output",
    "callbacks.open": "Show the full message of this callback",
    "callbacks.fire": "Fire this callback now",
    "callbacks.cancel": "Cancel this callback",
    "callbacks.copy": "Copy this callback",
    "todo.fold": "Fold the steps of this task, or show them",
    "todo.copy": "Copy this task",
    "plan.copy": "Copy this plan",
    "clients.filter": "Filter the clients",
    "clients.copy": "Copy the details of this client",
    "clients.open": "Show this client's traffic",
    "clients.sort": "Sort the clients by a column",
    "clients.columns": "Hide or show columns of the clients",
    "clients.disconnect": "Disconnect this client",
    "clients.back": "Clear the filter of the clients",
    "servers.open": "Use this server",
    "servers.filter": "Filter the servers",
    "servers.restart": "Start this server again",
    "servers.give_token": "Log in to this server",
    "servers.remove": "Remove this server",
    "servers.add": "Add a server",
    "servers.sort": "Sort the servers by a column",
    "servers.columns": "Hide or show columns of the servers",
    "servers.copy": "Copy a text about this server",
    "servers.back": "Leave the list of servers",
    "statistics.filter": "Filter the statistics",
    "statistics.sort": "Sort the statistics by a column",
    "statistics.columns": "Hide or show columns of the statistics",
    "statistics.open": "Show the calls behind this row",
    "statistics.export": "Export the statistics as CSV or JSON",
    "statistics.copy": "Copy the statistics or this row",
    "statistics.show_tab(-1)": "Show the previous table of the statistics",
    "statistics.show_tab(1)": "Show the next table of the statistics",
    "statistics.back": "Clear the filter of the statistics",
    "logs.filter": "Filter the log",
    "logs.level": "Hide log lines below a level",
    "logs.source": "Show one source of the log",
    "logs.only_new": "Show only new log lines",
    "logs.export": "Export the shown log lines",
    "logs.pager": "Show the log in the pager",
    "logs.follow": "Follow the log, or stop",
    "logs.next_bad(1)": "Go to the next error of the log",
    "logs.next_bad(-1)": "Go to the previous error of the log",
    "logs.next_hit(1)": "Go to the next hit in the log",
    "logs.next_hit(-1)": "Go to the previous hit in the log",
    "logs.go_to": "Go to a time of the log",
    "logs.show_call": "Show the call that wrote this line",
    "logs.unfold": "Show the lines below this log entry",
    "logs.fold": "Hide the lines below this log entry",
    "logs.copy": "Copy this log line",
    "logs.details": "Show the full text of this log entry",
    "logs.reset": "Show the whole log",
    "main.jump": "Jump to a pane by a letter",
    "main.show_screen('workbench')": "Go to the workbench",
    "main.show_screen('traffic')": "Go to the traffic",
    "main.show_screen('activity')": "Go to the activity",
    "main.show_screen('clients')": "Go to the clients",
    "main.show_screen('logs')": "Go to the log",
    "main.show_screen('statistics')": "Go to the statistics",
    "main.show_part('inbox')": "Show all questions",
    "main.show_part('plan')": "Show the plans of clients",
    "main.open_question": "Answer the waiting question",
    "main.action_menu": "Show the actions of the selected item",
    "main.standing_approvals": "Review standing approvals",
    "main.zoom": "Maximise this pane, or restore it",
    "main.copy_url": "Copy the server's URL",
    "main.client_config": "Copy the configuration for a client",
    "main.servers": "Show all servers, or pick another one",
    "main.add_server": "Add a server to the desk",
    "main.remove_server": "Remove this server from the desk",
    "main.log_level": "Choose the log level of the server",
    "main.edit_roots": "Choose the roots of the desk",
    "main.about_server": "Show details of the server",
    "main.speak_revision": "Use another revision with this server",
    "main.give_token": "Set a token for the server, or log in",
    "main.reload": "Reload the server, or reconnect",
    "app.show_help": "Show the keys of this pane",
    "app.first_steps": "Learn mcpdesk in five minutes",
    "app.show_news": "Show the latest messages",
    "app.pick_theme": "Choose a theme",
    "app.ask_quit": "Quit mcpdesk",
    "app.interrupt": "Copy the selected text, or quit",
}
"""Id of an action -> its name in the palette, which is clear without context."""
SEARCH_WORDS = {
    "workbench.call": "run execute invoke send try test",
    "workbench.again": "repeat retry rerun redo last",
    "main.show_save": "saved diff difference changes reload regression breaking compare replay",
    "workbench.cancel": "stop abort kill interrupt",
    "workbench.toggle_json": "raw text input parameters",
    "workbench.history": "past previous recent calls",
    "workbench.saved": "favourites favorites bookmarks presets named store",
    "workbench.edit_source": "open editor source file line traceback exception code",
    "workbench.edit_arguments": "open editor parameters input json",
    "workbench.page_result": "less pager long text open view",
    "workbench.clear_form": "empty clear undo default",
    "workbench.filter": "search find tools resources prompts",
    "workbench.copy": "clipboard curl yank",
    "workbench.save": "export download write store file",
    "workbench.compare": "diff difference changed changes previous two",
    "workbench.watch": "subscribe live updates",
    "workbench.widen_result(1)": "resize split bigger larger border",
    "catalogue.choose_policy": "permission approval approve allow deny ask security",
    "long_text.wrap": "break fold nowrap horizontal columns width",
    "traffic_list.follow": "tail live newest scroll auto",
    "traffic_list.pause": "stop freeze wait",
    "traffic.next_like('error', 1)": "failure failed exception problem bug",
    "traffic.next_like('slow', 1)": "latency performance time",
    "traffic_list.waterfall": "timing latency phases performance trace duration profile slow",
    "traffic_list.zero": "time elapsed since relative",
    "traffic_list.sort": "order by column ascending descending",
    "traffic_list.raw": "bytes json wire frames",
    "traffic.filter": "search find query grep",
    "traffic.copy": "clipboard curl yank json",
    "traffic.pager": "less whole long text raw bytes",
    "traffic.only_new": "clear empty reset since",
    "traffic_list.clear_marks": "deselect remove",
    "traffic.filters": "saved search presets favourites",
    "traffic.cancel": "stop abort kill end",
    "traffic.replay": "resend repeat retry again",
    "traffic.edit": "change modify resend form",
    "traffic.logs": "stderr print output",
    "traffic.compare": "diff difference changed changes two",
    "traffic.export": "save share capture har markdown report jsonl file send download",
    "inbox.open": "answer reply approve",
    "jobs.kill": "stop end cancel terminate",
    "clients.sort": "order by column",
    "statistics.sort": "order by column",
    "clients.disconnect": "kick drop end session close",
    "clients.open": "messages requests filter",
    "statistics.export": "save csv json file share",
    "logs.filter": "search find grep",
    "logs.level": "severity debug info warning error",
    "logs.only_new": "clear empty reset",
    "logs.export": "save share file json text",
    "logs.pager": "less whole all",
    "main.jump": "focus go letters",
    "main.show_screen('workbench')": "tools resources prompts call catalogue catalog home",
    "main.show_screen('traffic')": "messages requests responses network frames wire json rpc",
    "main.show_screen('activity')": "jobs background questions inbox callbacks tasks plan todo",
    "main.show_screen('clients')": "sessions connections connected peers who",
    "main.show_screen('logs')": "stderr print console output traceback",
    "main.show_screen('statistics')": "latency slow p50 p95 p99 percentile tokens "
    "cost errors metrics rate per second throughput duration",
    "main.show_part('inbox')": "inbox answers approvals history",
    "main.show_part('plan')": "plan mode goal file",
    "main.open_question": "ask inbox approve elicitation sampling reply",
    "main.standing_approvals": "permission allow grants always revoke security",
    "main.zoom": "maximize fullscreen bigger large",
    "main.copy_url": "address link endpoint http port",
    "main.client_config": "api key secret token password bearer authorization connect install claude cursor "
    "vscode setup json",
    "main.servers": "switch change select pick overview down failed reason stderr list",
    "main.add_server": "open connect new folder url",
    "main.remove_server": "close delete disconnect",
    "main.log_level": "severity debug verbose",
    "main.edit_roots": "folders directories paths",
    "main.about_server": "info version capabilities instructions state",
    "main.speak_revision": "protocol version era older 2024 2025 2026 handshake stateless negotiate "
    "desk_revision back-channel",
    "main.give_token": "api key secret login log oauth jwt bearer authorization auth password sign",
    "main.reload": "refresh restart reconnect changed",
    "app.first_steps": "tutorial exercises help lesson beginner start",
    "app.show_help": "shortcuts bindings keyboard manual docs",
    "app.show_news": "notifications toasts messages clipboard",
    "app.pick_theme": "color colour dark light appearance settings look",
    "app.ask_quit": "exit close leave end",
}
"""Id of an action -> additional search words."""
ACTIONS_OF_OTHER_SCREENS = {
    "traffic": ("traffic.export", "traffic.filter", "traffic_list.sort", "traffic_list.waterfall"),
    "clients": ("clients.sort",),
    "logs": ("logs.filter", "logs.level", "logs.export"),
    "statistics": ("statistics.sort", "statistics.export"),
}
"""Screen -> ids of actions of this screen that are also offered on other screens. Such an action first shows
its screen."""
ITEM_GROUPS = {
    ItemKind.TOOL: ("Tools", "call run"),
    ItemKind.RESOURCE: ("Resources", "read"),
    ItemKind.TEMPLATE: ("Resources", "read template"),
    ItemKind.PROMPT: ("Prompts", "render get"),
    ItemKind.SKILL: ("Skills", "read"),
}
"""Kind of an item -> its group in the palette, and additional search words."""


def name_of(action: Action) -> str:
    """Return the name of an action in the palette."""
    if (feature_action := FEATURE_ACTIONS.get(action.id)) is not None:
        return feature_action.name
    return ACTION_NAMES.get(action.id, f"{action.group}: {action.title}")


def _search_words(action: Action) -> str:
    """Return additional search words for an action."""
    feature_action = FEATURE_ACTIONS.get(action.id)
    return SEARCH_WORDS.get(action.id, "") if feature_action is None else feature_action.words


def _actions_for_other_screens(screen: str) -> Iterator[Action]:
    """Yield the actions of a screen that are also offered on other screens, actions of features first."""
    for feature_action in FEATURE_ACTIONS.values():
        if feature_action.is_offered_everywhere and feature_action.action.scope == screen:
            yield feature_action.action
    yield from (BY_ID[action_id] for action_id in ACTIONS_OF_OTHER_SCREENS[screen])


Command = Callable[[], Awaitable[object]]
"""Function that runs an entry of the palette."""


async def open_palette(app: DeskApp) -> None:
    """Let the person choose a command and run it."""
    entries = chain(
        action_choices(app), other_choices(app), server_choices(app), theme_choices(app), item_choices(app)
    )
    palette = Palette(entries, app.link.settings(), partial(setting_entry, app))
    command: Command | None = await app.push_screen_wait(palette)
    if command is not None:
        await command()


def action_choices(app: DeskApp) -> Iterator[PaletteEntry]:
    """Yield one entry per available action. The actions of the focused widget are first."""
    for entry in reachable(app.main, app.main.pane):
        if entry.action.name != "palette":
            keys = key_name(entry.action.keys.partition(",")[0])
            yield _action_entry(entry.action, keys, partial(_run_action, app, entry))


def other_choices(app: DeskApp) -> Iterator[PaletteEntry]:
    """Yield actions of other screens that need no selected row."""
    view = app.link.view()
    if not (view.servers or view.can_intercept):
        return
    for screen in ACTIONS_OF_OTHER_SCREENS:
        if screen not in app.main.panes or screen == app.main.shown:
            continue
        for action in _actions_for_other_screens(screen):
            keys = f"{SCREENS[screen].keys} {key_name(action.keys)}" if action.keys else ""
            yield _action_entry(action, keys, partial(_run_on_screen, app, screen, action))


def _action_entry(action: Action, keys: str, run: Command) -> PaletteEntry:
    description = action.help or action.title
    return PaletteEntry(
        name_of(action),
        run,
        hint=action.help or action.group,
        key=keys,
        help=f"{action.group} · {description}",
        words=_search_words(action),
        group=action.group,
        second_name=action.title,
    )


def item_choices(app: DeskApp) -> Iterator[PaletteEntry]:
    """Yield one entry per item that works, in the order of the servers. The current server is first.

    Items of other servers have the name of their server.
    """
    if app.server:
        other_servers = [one.name for one in app.link.view().servers if one.name != app.server]
        for server in (app.server, *other_servers):
            yield from _item_entries(app, server, "" if server == app.server else server)


def _item_entries(app: DeskApp, server: str, server_label: str) -> Iterator[PaletteEntry]:
    for item in app.link.catalogue(server).items:
        if not item.problem or item.stale:
            group, words = ITEM_GROUPS[item.kind]
            title = item.title if item.title != item.name else ""
            description = item.description or title or item.kind.value
            yield PaletteEntry(
                item.name,
                partial(_open_item, app, server, item.kind, item.name),
                hint=description,
                key=server_label,
                help=f"{item.name} · {description}",
                words=words,
                group=group,
                second_name=title,
            )


def server_choices(app: DeskApp) -> Iterator[PaletteEntry]:
    """Yield one entry per server, with its location, or the reason why it is down."""
    for server in app.link.view().servers:
        choice = server_choice(server)
        is_current = server.name == app.server
        yield PaletteEntry(
            choice.label,
            partial(_use_server, app, server.name),
            hint=choice.hint,
            key="on the screen" if is_current else "",
            help=choice.help or f"Show the server {server.name}: {server.shown_location}",
            words="server switch show",
            group="Servers",
            second_name=server.title if server.title != server.name else "",
        )


def setting_entry(app: DeskApp, setting: SettingView) -> PaletteEntry:
    """Return the entry of a setting, with its value."""
    origin = "" if setting.origin == "default" else f" · {setting.origin}"
    return PaletteEntry(
        setting.name,
        partial(_show_setting, app, setting),
        hint=f"{setting.value}{origin}",
        help=setting.help,
        words="setting option",
        group="Settings",
    )


def theme_choices(app: DeskApp) -> Iterator[PaletteEntry]:
    """Yield one entry per theme."""
    for name in sorted(app.available_themes):
        yield PaletteEntry(
            f"Theme {name}",
            partial(_use_theme, app, name),
            hint="Draw the screen in this theme",
            group="Themes",
            second_name=name,
        )


async def _run_action(app: DeskApp, entry: Reachable) -> None:
    await app.run_action(entry.action.name, default_namespace=entry.owner)


async def _run_on_screen(app: DeskApp, screen: str, action: Action) -> None:
    await app.main.show_screen(screen)
    for entry in reachable(app.main, app.main.pane):
        if entry.action == action:
            await _run_action(app, entry)


async def _open_item(app: DeskApp, server: str, kind: ItemKind, name: str) -> None:
    app.main.server = server
    await app.main.show_screen("workbench")
    cast("WorkbenchPane", app.main.pane).open_item(kind, name)


async def _use_server(app: DeskApp, server: str) -> None:
    app.main.server = server


async def _show_setting(app: DeskApp, setting: SettingView) -> None:
    await app.push_screen(SettingScreen(setting))


async def _use_theme(app: DeskApp, name: str) -> None:
    app.themes.use(app, name)
