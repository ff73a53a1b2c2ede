"""Cells of a line of the traffic: the text and style of each column."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from mcpdesk.byte_size import size_text
from mcpdesk.link.state_looks import EXCHANGES
from mcpdesk.recorder.exchange_summary import Summary
from mcpdesk.recorder.index.exchange import Exchange, ExchangeKind, Status
from mcpdesk.recorder.index.traffic_index import parts_in_words
from mcpdesk.recorder.masking import mask_text
from mcpdesk.recorder.record import ConnectionInfo, Direction, Frame
from mcpdesk.tui.render.amounts import clock, duration
from mcpdesk.tui.render.safe_text import clean, one_line, shortened
from mcpdesk.tui.render.tones import TRAFFIC_STYLES

Cell = tuple[str, str]
"""Text, and the component class that styles it, or "" for the style of the line."""

LARGE_SIZE_BYTES = 1 << 20
"""A size of at least this many bytes is marked as large."""
_MAX_PREVIEW_BYTES = 400
"""Number of bytes of a raw frame that its line may show."""


class Fold(Enum):
    """Visibility of the further lines of an exchange: its notifications and parts.

    The value is the glyph before the number of further lines.
    """

    CLOSED = "▸"
    OPEN = "▾"
    BELOW = ""
    """The line is itself a further line, below the line of its exchange."""


class ExchangeLine(NamedTuple):
    """Data for drawing the line of an exchange."""

    exchange: Exchange
    now: float
    """Unix time in seconds, for the clock of a pending exchange."""
    is_marked: bool
    texts: Summary
    """Arguments and result as texts."""
    fold: Fold
    time_origin: float | None
    """Unix time in seconds to which times are relative, or None to show the time of day."""
    ended_cores: Collection[str]
    """Cores that have ended."""
    is_held: bool
    """True if a message of the exchange is held at the desk."""


class FrameLine(NamedTuple):
    """Data for drawing the line of a raw frame."""

    frame: Frame
    connection: ConnectionInfo | None
    revision: str
    """Revision of the frame's exchange."""
    is_marked: bool
    time_origin: float | None
    """Unix time in seconds to which times are relative, or None to show the time of day."""
    ended_cores: Collection[str]
    """Cores that have ended."""

    @property
    def core(self) -> str:
        """Core that serves the connection, or "" if the connection is unknown."""
        return self.connection.core if self.connection else ""

    @property
    def peer(self) -> str:
        """Peer of the connection, or "" if the connection is unknown."""
        return self.connection.peer if self.connection else ""

    @property
    def server(self) -> str:
        """Server of the connection, or "" if the connection is unknown."""
        return self.connection.server if self.connection else ""


def cut_cells(cells: list[Cell], width: int) -> tuple[list[Cell], int]:
    """Cut cells to a width. Return the cut cells, and the part of the width that remains."""
    fitting_cells: list[Cell] = []
    remaining_width = width
    for text, style in cells:
        text = one_line(text)
        text_width = cell_len(text)
        if text_width > remaining_width:
            if remaining_width > 1:
                text = set_cell_size(text, remaining_width - 1) + "…"
            else:
                text = text[:remaining_width]
            text_width = remaining_width
        fitting_cells.append((text, style))
        remaining_width -= text_width
        if not remaining_width:
            break
    return fitting_cells, remaining_width


def muted_cells(text: str) -> list[Cell]:
    """Return a text in the muted style."""
    return [(text, "traffic--muted")]


def mark_cells(line: ExchangeLine | FrameLine) -> list[Cell]:
    """Return the sign of a marked line."""
    return [("●", "traffic--mark")] if line.is_marked else []


def time_cell(moment: float, time_origin: float | None) -> Cell:
    """Return the time of day, or the difference from `time_origin`: `+1.2 s`, `-3.1 ms`."""
    if time_origin is None:
        return (clock(moment), "traffic--muted")
    sign = "-" if moment < time_origin else "+"
    return (f"{sign}{duration(abs(moment - time_origin))}", "traffic--clock")


_MAX_CORE_WIDTH = 9
"""Maximum width in cells of the name of a core before the peer."""


def core_cell(core: str, ended_cores: Collection[str], max_width: int | None = None) -> Cell:
    """Return the name of a core, marked if the core has ended. The name is cut to `max_width` cells."""
    name = core if max_width is None else short_core(core, max_width)
    return (f"✕ {name}", "traffic--bad") if core in ended_cores else (name, "traffic--muted")


def short_core(core: str, width: int) -> str:
    """Return the name of a core, cut to `width` cells. The mark of an ended core is kept.

    A long name is cut at the beginning, because names usually differ at the end.
    """
    mark = "✕ " if core.startswith("✕ ") else ""
    name, name_width = core.removeprefix(mark), width - len(mark)
    if len(name) > name_width:
        name = f"…{name[len(name) - name_width + 1 :]}"
    return mark + name


def peer_cells(line: ExchangeLine | FrameLine, *, with_core: bool) -> list[Cell]:
    """Return the peer. With `with_core`, the name of its core precedes the peer."""
    source = line.exchange if isinstance(line, ExchangeLine) else line
    peer_cell = (source.peer, "traffic--peer")
    if not (with_core and source.core):
        return [peer_cell]
    core_text, core_style = core_cell(source.core, line.ended_cores, _MAX_CORE_WIDTH)
    return [(f"{core_text} ", core_style), peer_cell]


_HELD_CELL: Cell = ("‖ held", "traffic--warn")


def status_cells(line: ExchangeLine, width: int) -> list[Cell]:
    """Return the status in words or as a glyph. If a message of the exchange is held, return `held`."""
    exchange = line.exchange
    if line.is_held:
        return [_HELD_CELL if width > 2 else ("‖", _HELD_CELL[1])]
    if exchange.kind is ExchangeKind.MALFORMED and exchange.name:
        return []
    look = EXCHANGES[exchange.status]
    return [(look.fitted(width), TRAFFIC_STYLES[look.tone])]


def id_cells(line: ExchangeLine) -> list[Cell]:
    """Return the JSON-RPC id."""
    return [] if line.exchange.id is None else muted_cells(f"#{line.exchange.id}")


def direction_cells(line: ExchangeLine | FrameLine) -> list[Cell]:
    """Return the direction as an arrow."""
    message = line.exchange if isinstance(line, ExchangeLine) else line.frame
    is_notification = isinstance(message, Exchange) and message.kind is ExchangeKind.NOTIFICATION
    arrows = "⇢⇠" if is_notification else "→←"
    return [(arrows[message.direction], _DIRECTION_STYLES[message.direction])]


def preview(data: bytes) -> str:
    """Return the beginning of some bytes as one line without control characters."""
    return clean(data[:_MAX_PREVIEW_BYTES].decode("utf-8", "replace"), newlines=False)


def operation_words(exchange: Exchange, now: float) -> str:
    """Return the parts of an operation and the time it waited for the client: `3 rounds · client 8.1 s`."""
    client_wait_s = exchange.waiting(now)
    words = (parts_in_words(exchange), f"client {duration(client_wait_s)}" if client_wait_s > 0 else "")
    return " · ".join(filter(None, words))


def short_peer(peer: str, width: int) -> str:
    """Return a peer. If it does not fit into `width` cells, leave out its version."""
    return peer if cell_len(peer) <= width else peer.rpartition(" ")[0] or peer


def short_revision(revision: str, width: int) -> str:
    """Return a revision. If it does not fit, return its date, or year and month such as `26-07`."""
    if len(revision) <= width:
        return revision
    date = revision.partition(" ")[0]
    return date if len(date) <= width else date[2:7]


_DIRECTION_STYLES = {Direction.IN: "traffic--in", Direction.OUT: "traffic--out"}


def message_cells(line: ExchangeLine, width: int) -> list[Cell]:
    """Return method, name and operation such as `3 rounds`. Arguments and result follow if there is space.

    If space is short, the name is cut rather than the operation.
    """
    exchange, texts, fold = line.exchange, line.texts, line.fold
    cells = _method_cells(exchange)
    if fold is Fold.BELOW:
        cells.insert(0, ("└ ", "traffic--muted"))
    elif further_count := _further_line_count(line):
        cells.append((f" {fold.value} {further_count}", "traffic--clock"))
    full_words = operation_words(exchange, line.now)
    remaining_width = width - sum(cell_len(text) for text, _ in cells)
    if full_words:
        words_without_time = full_words.partition(" · client")[0]
        for words in (full_words, words_without_time, _operation_glyphs(exchange)):
            if remaining_width > cell_len(words):
                break
        else:
            cells, _ = cut_cells(cells, max(1, width - cell_len(words) - 1))
        cells = [*cells, (f" {words}", "traffic--clock")]
        remaining_width -= cell_len(words) + 1
    are_values_short = not texts.result and cell_len(texts.values) < remaining_width
    if remaining_width > _MIN_SUMMARY_WIDTH or are_values_short:
        cells += _summary_cells(texts, remaining_width - 1)
    return cells


def _further_line_count(line: ExchangeLine) -> int:
    """Return the number of further lines of an exchange.

    Parts are only counted while they are shown, because `operation_words` describes them as well.
    """
    part_count = len(line.exchange.parts) if line.fold is Fold.OPEN else 0
    return len(line.exchange.notifications) + part_count


def item_cells(line: ExchangeLine, width: int) -> list[Cell]:
    """Return arguments and result, without method and name, for a list of requests for one item."""
    if line.fold is Fold.BELOW:
        return message_cells(line, width)
    exchange, cells = line.exchange, []
    if further_count := _further_line_count(line):
        cells.append((f"{line.fold.value} {further_count} ", "traffic--clock"))
    if glyphs := _operation_glyphs(exchange):
        cells.append((f"{glyphs} ", "traffic--clock"))
    remaining_width = width - sum(cell_len(text) for text, _ in cells)
    summary = _summary_cells(line.texts, remaining_width + 1)  # one more, because a leading space is removed
    for position, (text, style) in enumerate(summary):
        cells.append((text.lstrip() if position == 0 else text, style))
    return cells


_MIN_SUMMARY_WIDTH = 8
"""Number of cells that arguments and result must exceed. Otherwise they are left out."""
_ARROW = " → "
_MIN_WIDTH_FOR_BOTH = 20
"""Minimum number of cells for showing long arguments with the result."""


def _summary_cells(texts: Summary, width: int) -> list[Cell]:
    """Return `arguments → result`. If both are long, the arguments get at most half of the space.

    With a failure, they get at most a quarter. If space is short, the names of the arguments are left out,
    and long texts are cut. The text of a failure begins with the reason, so its end is cut.
    """
    arguments, result, values = one_line(texts.arguments), one_line(texts.result), one_line(texts.values)
    if not result:
        arguments = values if values and cell_len(arguments) > width else arguments
        return [(f" {shortened(arguments, width)}", "traffic--muted")] if arguments else []
    style = "traffic--bad" if texts.has_failed else "traffic--good"
    shared_width = width - len(_ARROW)
    width_without_result = shared_width - cell_len(result)
    if values and cell_len(arguments) > max(shared_width // 3, width_without_result):
        arguments = values
    is_short = cell_len(arguments) <= max(shared_width // 2, width_without_result)
    if not arguments or (width < _MIN_WIDTH_FOR_BOTH and not is_short):
        return [(_ARROW, "traffic--muted"), (_cut_result(texts, result, width - 2), style)]
    if not is_short:
        max_arguments_width = shared_width // (4 if texts.has_failed else 2)
        arguments = shortened(arguments, max(max_arguments_width, width_without_result))
    cut_result = _cut_result(texts, result, shared_width - cell_len(arguments))
    return [(f" {arguments}{_ARROW}", "traffic--muted"), (cut_result, style)]


def _cut_result(texts: Summary, result: str, width: int) -> str:
    if not texts.has_failed or cell_len(result) <= width:
        return shortened(result, width)
    return f"{set_cell_size(result, max(0, width - 1)).rstrip()}…"


def _operation_glyphs(exchange: Exchange) -> str:
    """Return the operation in a few cells: `×3` rounds, `?2` questions, `↻4` polls of the task."""
    round_count = exchange.rounds if exchange.rounds != 1 else 0
    counts = (("×", round_count), ("?", exchange.questions), ("↻", exchange.polls))
    # The client was asked in the response of a round, so there is no exchange for the question.
    pending_glyph = "?" if exchange.asked_at is not None and not exchange.questions else ""
    return "".join(f"{glyph}{count}" for glyph, count in counts if count) + pending_glyph


def _method_cells(exchange: Exchange) -> list[Cell]:
    if exchange.kind is ExchangeKind.MALFORMED and exchange.name:
        return [(mask_text(exchange.name), "traffic--method")]
    if exchange.kind is ExchangeKind.MALFORMED:
        return [("not a JSON-RPC message", "traffic--bad")]
    if exchange.kind is ExchangeKind.RESPONSE:
        return [("response to no request", "traffic--warn")]
    if exchange.name:
        return [(f"{exchange.method} ", "traffic--method"), (mask_text(exchange.name), "traffic--name")]
    if exchange.status is Status.NEGOTIATION:
        return [(f"{exchange.method} ", "traffic--method"), (exchange.status.value, "traffic--muted")]
    return [(exchange.method, "traffic--method")]


def duration_cells(line: ExchangeLine) -> list[Cell]:
    """Return the duration, which grows while the exchange is pending. A long duration is marked."""
    exchange = line.exchange
    if exchange.kind is not ExchangeKind.REQUEST:
        return []
    text = duration(max(0.0, exchange.elapsed(line.now)))
    if exchange.is_slow:
        return [(f"▲{text}", "traffic--warn")]
    return [(text, "traffic--clock" if exchange.ended is None else "")]


def size_cell(size: int) -> Cell:
    """Return a size in bytes. A large size is marked."""
    if size >= LARGE_SIZE_BYTES:
        return (f"▲{size_text(size)}", "traffic--warn")
    return (size_text(size), "traffic--muted")
