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

_CAPTURE = MenuLine("capture", "opens again: mcpdesk open", "o")
MAX_SEARCHED_EXCHANGES = 2_000
"""Number of newest exchanges whose servers are named in the menu."""
_CASES = "cases"
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
    case_formats = [] if recorder is None else [(_CASES, recorder.menu)]
    return [("capture", _CAPTURE), *exporter_formats, *case_formats]


def copy_menu(link: Link, number: int, frame: int | None = None) -> Menu:
    """Return a menu of texts to copy.

    Its value is a pair: a function that creates the chosen text of the exchange, and the name of this text.
    If a raw frame is selected, `frame` is its number, and it is the first choice.
    """
    index = link.traffic
    text = (partial(as_text, index, number, logs_of(link)), "text")
    choices = [Choice("text", text, "messages with a heading, and its log", "t")]
    if frame is not None:
        raw = (partial(frame_text, index, frame), "its frame")
        choices.insert(0, Choice("frame", raw, "as it passed, secrets masked", "f"))
    is_request = index.exchange(number).kind is ExchangeKind.REQUEST
    for copy in (
        exchange_copy
        for feature in features_with("exchange_copies")
        for exchange_copy in feature.exchange_copies()
    ):
        if is_request or not copy.is_command:
            title, use, key = copy.menu
            choices.append(Choice(title, (partial(_copy_text, link, number, copy), title), use, key))
    if command := _command(link, number):
        choices.append(Choice("mcpdesk", (lambda: command, "mcpdesk command"), "the same from a shell", "m"))
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
    says how many marked exchanges the filter hides. `case_folders` are the folders of test cases.
    """
    formats = _formats()
    marked_group = [(marked_numbers, "marked")] if marked_numbers else []
    case_help = f"Writes into {case_folders}" if case_folders else ""
    choices = [
        Choice(
            f"{len(numbers):,} {group_name}, {line.title}",
            (numbers, name),
            line.use,
            line.key * (not group_index),
            case_help if name == _CASES else "The next prompt asks for the path of the file.",
        )
        for group_index, (numbers, group_name) in enumerate([*marked_group, (shown_numbers, "shown")])
        for name, line in formats
    ]
    if selected_number is not None:
        for name, line in ((exporter.name, exporter.menu_of_one) for exporter in _exporters()):
            if line is not None:
                choices.append(
                    Choice(f"this one, {line.title}", ([selected_number], name), line.use, line.key)
                )
        if (recorder := _case_recorder()) is not None:
            title, use, key = recorder.menu_of_one
            choices.append(Choice(f"this one, {title}", ([selected_number], _CASES), use, key, case_help))
    return Menu(f"Export, secrets masked{f' · {hidden_note}' * bool(hidden_note)}", choices)


def case_folders(link: Link, numbers: Sequence[int]) -> str:
    """Return the folders in which test cases of the servers of some exchanges are written."""
    if (recorder := _case_recorder()) is None:
        return ""
    folder_by_server = {one.name: one.folder for one in link.view().servers}
    calls = recorder.recordable(link.traffic, numbers[-MAX_SEARCHED_EXCHANGES:])
    servers = {link.traffic.exchange(number).server for number in calls}
    return ", ".join(str(recorder.folder(name, folder_by_server.get(name, ""))) for name in sorted(servers))


async def choose_export(app: App[None], menu: Menu) -> tuple[Sequence[int], str, Path] | None:
    """Ask what to export, and for the path of the file. Must run in a worker.

    Return the numbers of the exchanges, the name of the format, and the path, or None if the person cancels.
    The path is not asked for if the format is test cases, because these are written into the folder of their
    server.
    """
    if (choice := await app.push_screen_wait(menu)) is None:
        return None
    numbers, format_name = choice
    path = export_path(format_name)
    if format_name != _CASES:
        count = counted(len(numbers), "exchange")
        path = await app.push_screen_wait(PathPrompt(f"Write {count} to a new file, secrets masked", path))
    return None if path is None else (numbers, format_name, path)


def export_path(format_name: str) -> Path:
    """Return the proposed path of an export, in the working folder."""
    exporter = _exporter_of(format_name)
    ending = exporter.ending if exporter else ".jsonl"
    return in_working_folder(Path(f"mcpdesk-{strftime('%Y%m%d-%H%M%S')}{ending}"))


def write(link: Link, numbers: Sequence[int], format_name: str, path: Path | None = None) -> str:
    """Write exchanges with their parts to a new private file. Return a message.

    The default path is in the working folder. Test cases are written to one file per server, and ignore the
    path. Raises: OSError.
    """
    index = link.traffic
    chosen_exchanges = with_parts(index, numbers)
    if format_name == _CASES and (recorder := _case_recorder()) is not None:
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
        left_out_note = (
            f"; {len(chosen_exchanges) - request_count:,} did not use HTTP"
            if request_count < len(chosen_exchanges)
            else ""
        )
        return f"{counted(request_count, 'request')} written to {path}{left_out_note}"
    parts_note = (
        f" ({len(chosen_exchanges):,} with their parts)" if len(chosen_exchanges) > len(numbers) else ""
    )
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
    """Return the log of a call. If it is empty, return the stderr output of the server's program during the
    call.
    """
    key, lines = (exchange.connection, exchange.id), link.logs()
    call_lines = logs_by_call(line for line in lines if line.call == key)(exchange)
    return call_lines or [_with_location(line) for line in lines if _is_during_call(line, exchange)]


def _is_during_call(line: LogLine, exchange: Exchange) -> bool:
    latest_time = inf if exchange.ended is None else exchange.ended + MAX_CLOCK_DIFFERENCE_S
    is_of_server = line.source == "stderr" and line.server == exchange.server and line.call is None
    return is_of_server and exchange.started <= line.time <= latest_time


def _with_location(line: LogLine) -> LogLine:
    """Set the location of a line from the traceback in it."""
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
        sides = (("request", exchange, exchange.request), ("response", last, last.response))
        messages.append(
            {side: message(index, of, frame).value for side, of, frame in sides if frame is not None}
        )
    return CompareScreen((heading(exchanges[0]), heading(exchanges[1])), *messages)


def repeatable_request(link: Link, number: int) -> tuple[str, Request]:
    """Return the server of an exchange, and its request as the desk may send it again.

    Raises: ValueError with the reason why it cannot be sent again.
    """
    exchange = link.traffic.exchange(number)
    if (
        exchange.kind is not ExchangeKind.REQUEST
        or exchange.request is None
        or exchange.direction is Direction.OUT
    ):
        raise ValueError("only requests of a client can be sent again")
    if exchange.server not in {server.name for server in link.view().servers}:
        raise ValueError(f"no server called {exchange.server!r} is hosted here")
    return exchange.server, repeated_request(unmasked(link.traffic, exchange, exchange.request))


def _copy_text(link: Link, number: int, copy: ExchangeCopy) -> str:
    view = link.view()
    server = link.traffic.exchange(number).server
    url = next((hosted_server.url for hosted_server in view.servers if hosted_server.name == server), "")
    headers = {view.api_key_header: MASK} if view.api_key else {}
    return copy.make(link.traffic, number, ExchangeFacts(logs_of(link), url, headers))


def _command(link: Link, number: int) -> str:
    """Return the `mcpdesk` command for the same request, or "" if the folder is unknown, or no command sends
    such a request.
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
            self._filters = [line for line in lines if line.strip() and len(line) <= _MAX_FILTER_LENGTH][
                :MAX_FILTERS
            ]
        return list(self._filters)

    def add(self, query: str) -> None:
        """Save a filter as the newest."""
        query = " ".join(query.split())
        self._write(
            [query, *(saved_query for saved_query in self.all() if saved_query != query)][:MAX_FILTERS]
        )

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
