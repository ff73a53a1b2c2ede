"""Menus of the traffic: copy, export, compare and resend exchanges, and save filters."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from pathlib import Path
from time import strftime

from msgspec import structs
from textual.app import App

from mcpdesk.feature import CaseRecorder, ExchangeCopy, ExchangeFacts, Exporter, MenuLine
from mcpdesk.features import features_with
from mcpdesk.link.link import Link
from mcpdesk.link.values import LogLine
from mcpdesk.paths import state_folder
from mcpdesk.recorder.exchange_text import as_text, heading
from mcpdesk.recorder.index.call_lookup import MAX_CLOCK_DIFFERENCE_S, logs_by_call
from mcpdesk.recorder.index.exchange import Exchange, ExchangeKind
from mcpdesk.recorder.index.traffic_index import Index, last_round, with_parts
from mcpdesk.recorder.masking import MASK
from mcpdesk.recorder.readable_message import message, unmasked
from mcpdesk.recorder.record import CallLog, Direction
from mcpdesk.recorder.redaction import Redactor, environment_secrets, redacted
from mcpdesk.tui.editor import traceback_location
from mcpdesk.tui.render.amounts import counted
from mcpdesk.tui.screens.compare import CompareScreen
from mcpdesk.tui.traffic.exchange_details import frame_text
from mcpdesk.tui.widgets.menu import Choice, Menu
from mcpdesk.tui.widgets.path_prompt import PathPrompt, in_working_folder
from mcpdesk.tui.workbench.item_requests import Request, repeated_request, shell_command
from mcpdesk.tui.workbench.past_calls import DeskFile

_CAPTURE_LINE = MenuLine("capture", "opens again: mcpdesk open", "o")
"""Line of the export menu for the format of a capture."""
MAX_SEARCHED_EXCHANGES = 2_000
"""Number of newest exchanges whose servers are named in the menu."""
_CASE_FORMAT = "cases"
"""Name of the format of test cases."""


def _exporters() -> list[Exporter]:
    return [exporter for feature in features_with("exporters") for exporter in feature.exporters()]


def _exporter_of(format_name: str) -> Exporter | None:
    return next((exporter for exporter in _exporters() if exporter.name == format_name), None)


def _case_recorder() -> CaseRecorder | None:
    return next((feature.case_recorder() for feature in features_with("case_recorder")), None)


def _formats() -> list[tuple[str, MenuLine]]:
    """Return the names of the formats, with their lines in the menu."""
    exporter_formats = [(exporter.name, exporter.menu) for exporter in _exporters()]
    recorder = _case_recorder()
    case_formats = [] if recorder is None else [(_CASE_FORMAT, recorder.menu)]
    return [("capture", _CAPTURE_LINE), *exporter_formats, *case_formats]


def copy_menu(link: Link, number: int, frame: int | None = None) -> Menu:
    """Return a menu of texts to copy.

    Its value is a pair: a function that creates the chosen text of the exchange, and the name of this text.
    If a raw frame is selected, `frame` is its number, and it is the first choice.
    """
    index = link.traffic
    text_value = (partial(as_text, index, number, logs_of(link)), "text")
    choices = [Choice("text", text_value, "messages with a heading, and its log", "t")]
    if frame is not None:
        frame_value = (partial(frame_text, index, frame), "its frame")
        choices.insert(0, Choice("frame", frame_value, "as it passed, secrets masked", "f"))
    is_request = index.exchange(number).kind is ExchangeKind.REQUEST
    for feature in features_with("exchange_copies"):
        for copy in feature.exchange_copies():
            if is_request or not copy.is_command:
                title, hint, key = copy.menu
                choices.append(Choice(title, (partial(_copy_text, link, number, copy), title), hint, key))
    if command := _command(link, number):
        choices.append(Choice("mcpdesk", (lambda: command, "mcpdesk command"), "a command for a shell", "m"))
    return Menu("Copy exchange", choices)


def export_menu(
    shown_numbers: Sequence[int],
    marked_numbers: Sequence[int],
    selected_number: int | None = None,
    hidden_note: str = "",
    case_folders: str = "",
) -> Menu:
    """Return a menu whose value is a pair: the numbers of exchanges, and the name of a format.

    If exchanges are marked, they are offered first, and the keys of the formats choose them. `hidden_note`
    is the text about marked exchanges that the filter hides, or "". `case_folders` are the folders of test
    cases.
    """
    case_help = f"Writes into {case_folders}" if case_folders else ""
    groups = [(marked_numbers, "marked"), (shown_numbers, "shown")]
    if not marked_numbers:
        groups = groups[1:]
    choices = []
    for group_index, (numbers, group_name) in enumerate(groups):
        for format_name, line in _formats():
            key = line.key if group_index == 0 else ""
            help_text = "The next prompt asks for the path of the file."
            if format_name == _CASE_FORMAT:
                help_text = case_help
            title = f"{len(numbers):,} {group_name}, {line.title}"
            choices.append(Choice(title, (numbers, format_name), line.use, key, help_text))
    if selected_number is not None:
        for exporter in _exporters():
            if (line_of_one := exporter.menu_of_one) is not None:
                value = ([selected_number], exporter.name)
                title = f"this one, {line_of_one.title}"
                choices.append(Choice(title, value, line_of_one.use, line_of_one.key))
        if (recorder := _case_recorder()) is not None:
            line_title, hint, key = recorder.menu_of_one
            value = ([selected_number], _CASE_FORMAT)
            choices.append(Choice(f"this one, {line_title}", value, hint, key, case_help))
    menu_title = "Export, secrets masked"
    return Menu(f"{menu_title} · {hidden_note}" if hidden_note else menu_title, choices)


def case_folders(link: Link, numbers: Sequence[int]) -> str:
    """Return the folders into which test cases for some exchanges would be written, separated by commas."""
    if (recorder := _case_recorder()) is None:
        return ""
    folder_by_server = {server.name: server.folder for server in link.view().servers}
    calls = recorder.recordable(link.traffic, numbers[-MAX_SEARCHED_EXCHANGES:])
    servers = {link.traffic.exchange(number).server for number in calls}
    return ", ".join(str(recorder.folder(name, folder_by_server.get(name, ""))) for name in sorted(servers))


async def choose_export(app: App[None], menu: Menu) -> tuple[Sequence[int], str, Path] | None:
    """Ask what to export, and for the path of the file. Must run in a worker.

    Return the numbers of the exchanges, the name of the format, and the path. Return None if the person
    cancels. Test cases are written into the folder of their server, so the person is not asked for a path.
    """
    if (choice := await app.push_screen_wait(menu)) is None:
        return None
    numbers, format_name = choice
    path = export_path(format_name)
    if format_name != _CASE_FORMAT:
        count = counted(len(numbers), "exchange")
        path = await app.push_screen_wait(PathPrompt(f"Write {count} to a new file, secrets masked", path))
    return None if path is None else (numbers, format_name, path)


def export_path(format_name: str) -> Path:
    """Return the proposed path of an export, in the working folder."""
    exporter = _exporter_of(format_name)
    ending = exporter.ending if exporter else ".jsonl"
    return in_working_folder(Path(f"mcpdesk-{strftime('%Y%m%d-%H%M%S')}{ending}"))


def write(link: Link, numbers: Sequence[int], format_name: str, path: Path | None = None) -> str:
    """Write exchanges with their parts to a new private file. Return a message about the result.

    The default path is in the working folder. Test cases are written to one file per server instead, and
    `path` is ignored. Raises: OSError.
    """
    index = link.traffic
    chosen_exchanges = with_parts(index, numbers)
    if format_name == _CASE_FORMAT and (recorder := _case_recorder()) is not None:
        folders = {server.name: server.folder for server in link.view().servers if server.folder}
        return recorder.save(index, chosen_exchanges, folders, link.questions())
    exporter = _exporter_of(format_name)
    path = path or export_path(format_name)
    with open(path, "xb", opener=partial(os.open, mode=0o600)) as file:
        if exporter is not None:
            file.writelines(exporter.write(index, chosen_exchanges, logs_of(link)))
        else:
            file.writelines(redacted(index, _call_logs(link), _redactor(link), chosen_exchanges))
    if exporter is not None and exporter.requests is not None:
        request_count = len(exporter.requests(index, chosen_exchanges))
        omitted_count = len(chosen_exchanges) - request_count
        omitted_note = f"; {omitted_count:,} did not use HTTP" if omitted_count > 0 else ""
        return f"{counted(request_count, 'request')} written to {path}{omitted_note}"
    parts_note = ""
    if len(chosen_exchanges) > len(numbers):
        parts_note = f" ({len(chosen_exchanges):,} with their parts)"
    location_note = f" to {path}" if exporter is not None else f" · mcpdesk open {shlex.quote(str(path))}"
    return f"{counted(len(numbers), 'exchange')}{parts_note} written{location_note}"


def _redactor(link: Link) -> Redactor:
    """Return a redactor that knows the keys of this desk, and the secrets in its environment."""
    view = link.view()
    return Redactor(
        [*environment_secrets(os.environ, state_folder()), view.api_key],
        [*link.traffic.secret_headers, view.api_key_header],
    )


def _call_logs(link: Link) -> list[CallLog]:
    """Return the log lines of calls in the format of a capture."""
    return [
        CallLog(*line.call, line.time, line.level, line.source, line.text, line.where)
        for line in link.logs()
        if line.call is not None and not isinstance(line.call[1], float)
    ]


def logs_of(link: Link) -> Callable[[Exchange], Sequence[LogLine]]:
    """Return a function that finds the log of a call among the current log lines."""
    return logs_by_call(link.logs())


def call_log(link: Link, exchange: Exchange) -> Sequence[LogLine]:
    """Return the log lines of a call.

    If there are none, return the lines that the server's program wrote to stderr during the call.
    """
    key, lines = (exchange.connection, exchange.id), link.logs()
    call_lines = logs_by_call(line for line in lines if line.call == key)(exchange)
    return call_lines or [_with_location(line) for line in lines if _is_stderr_during_call(line, exchange)]


def _is_stderr_during_call(line: LogLine, exchange: Exchange) -> bool:
    latest_time = inf if exchange.ended is None else exchange.ended + MAX_CLOCK_DIFFERENCE_S
    is_of_server = line.source == "stderr" and line.server == exchange.server and line.call is None
    return is_of_server and exchange.started <= line.time <= latest_time


def _with_location(line: LogLine) -> LogLine:
    """Return a line with the location from the traceback in its text, if it has no location yet."""
    location = "" if line.where or "\n" not in line.text else traceback_location(line.text)
    return structs.replace(line, where=location) if location else line


def comparison_dialog(index: Index, first: int, second: int) -> CompareScreen:
    """Return a dialog that compares two exchanges.

    If an exchange has several rounds, its first request and its last response are compared.
    """
    exchanges = (index.exchange(first), index.exchange(second))
    messages = []
    for exchange in exchanges:
        last = last_round(index, exchange)
        messages_by_side = {}
        if exchange.request is not None:
            messages_by_side["request"] = message(index, exchange, exchange.request).value
        if last.response is not None:
            messages_by_side["response"] = message(index, last, last.response).value
        messages.append(messages_by_side)
    return CompareScreen((heading(exchanges[0]), heading(exchanges[1])), *messages)


def repeatable_request(link: Link, number: int) -> tuple[str, Request]:
    """Return the server of an exchange, and its request as the desk may send it again.

    Raises: ValueError with the reason why it cannot be sent again.
    """
    exchange = link.traffic.exchange(number)
    is_client_request = exchange.kind is ExchangeKind.REQUEST and exchange.direction is Direction.IN
    if not is_client_request or exchange.request is None:
        raise ValueError("only requests of a client can be sent again")
    if exchange.server not in {server.name for server in link.view().servers}:
        raise ValueError(f"no server called {exchange.server!r} is hosted here")
    return exchange.server, repeated_request(unmasked(link.traffic, exchange, exchange.request))


def _copy_text(link: Link, number: int, copy: ExchangeCopy) -> str:
    view = link.view()
    server = link.traffic.exchange(number).server
    url = next((server_view.url for server_view in view.servers if server_view.name == server), "")
    headers = {view.api_key_header: MASK} if view.api_key else {}
    return copy.make(link.traffic, number, ExchangeFacts(logs_of(link), url, headers))


def _command(link: Link, number: int) -> str:
    """Return the `mcpdesk` command that sends the same request.

    Return "" if the folder of the server is unknown, or if no command sends such a request.
    """
    exchange = link.traffic.exchange(number)
    folder = next((server.folder for server in link.view().servers if server.name == exchange.server), "")
    if not folder or exchange.request is None:
        return ""
    request = message(link.traffic, exchange, exchange.request).value
    params = request.get("params", {}) if isinstance(request, dict) else {}
    return shell_command(exchange.method, params, folder) if isinstance(params, dict) else ""


FILE_NAME = "filters.txt"
MAX_FILTERS = 50
"""Maximum number of saved filters. The oldest filters are deleted first."""
_MAX_FILTER_LENGTH = 1_000


class SavedFilters:
    """Filters that the person saved, newest first, in a file or, without a `path`, in memory only."""

    def __init__(self, path: Path | None = None) -> None:
        self._file = DeskFile(path)
        self._filters: list[str] = []

    def all(self) -> list[str]:
        """Return the saved filters.

        They are read from the file each time, because another desk may have added some.
        """
        if (data := self._file.read()) is not None:
            lines = data.decode("utf-8", "replace").splitlines()
            valid_lines = [line for line in lines if line.strip() and len(line) <= _MAX_FILTER_LENGTH]
            self._filters = valid_lines[:MAX_FILTERS]
        return list(self._filters)

    def add(self, query: str) -> None:
        """Save a filter as the newest."""
        query = " ".join(query.split())
        other_filters = [saved_query for saved_query in self.all() if saved_query != query]
        self._write([query, *other_filters][:MAX_FILTERS])

    def remove(self, query: str) -> None:
        """Delete a saved filter."""
        self._write([saved_query for saved_query in self.all() if saved_query != query])

    def _write(self, filters: list[str]) -> None:
        self._filters = filters
        self._file.write("".join(f"{query}\n" for query in filters).encode())


def filters_menu(saved: SavedFilters, current: str) -> Menu:
    """Return a menu whose value is a pair: an action and the filter to which it applies.

    The action is `use`, `keep` (save the filter) or `drop` (delete it).
    """
    current = " ".join(current.split())
    filters = saved.all()
    choices = [Choice(query, ("use", query), "in use" if query == current else "") for query in filters]
    if current and current not in filters:
        choices.insert(0, Choice(f"save {current}", ("keep", current), "for later", "w"))
    elif current:
        choices.append(Choice(f"delete {current}", ("drop", current), "from this list", "x"))
    if not choices:
        choices = [Choice("no saved filters", ("use", ""), "type a filter with /, then come back", "")]
    return Menu("Filters", choices)
