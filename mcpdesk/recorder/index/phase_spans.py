"""Phases of an exchange in chronological order. Their durations add up to that of the exchange."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from math import inf

from msgspec import Struct

from mcpdesk.recorder.index.exchange import Exchange, ExchangeKind
from mcpdesk.recorder.index.traffic_index import Index, is_round
from mcpdesk.recorder.record import Direction, Frame


class PhaseKind(StrEnum):
    """Kind of a phase. The value is the text that is shown."""

    QUEUE = "parse and queue"
    HANDLER = "handler"
    CLIENT = "waiting for the client"
    PERSON = "waiting for a person"
    SHAPING = "shaping"
    WRITE = "write"
    HELD = "at the desk"
    """Time for which a message was held at the desk.

    If the desk answered instead of the server, the whole time.
    """
    SERVER = "in the server"
    """Time in the server, used if no phases were measured: all time except holds and waiting for the client.
    """


class PhaseSpan(Struct, gc=False, frozen=True):
    """One phase and its duration in seconds."""

    kind: PhaseKind
    seconds: float


def phase_spans(index: Index, exchange: Exchange, now: float) -> list[PhaseSpan]:
    """Return the phases of a request with all its rounds. Empty for other exchanges.

    A pending request ends at `now`.
    """
    if exchange.kind is not ExchangeKind.REQUEST or exchange.started == 0:
        return []
    spans, round_end = list[PhaseSpan](), exchange.started
    end = exchange.started + max(0.0, exchange.elapsed(now))
    if exchange.rounds == 1:
        answer, held_times = _response(index, exchange), _held(index, exchange)
        return list(_split(answer, round_end, end, exchange.waiting(now), held_times))
    rounds = [exchange, *map(index.exchange, exchange.parts)]
    for round_exchange in [round_exchange for round_exchange in rounds if is_round(round_exchange, exchange)]:
        if round_exchange.started > round_end:
            spans.append(PhaseSpan(PhaseKind.CLIENT, round_exchange.started - round_end))
        answer = _response(index, round_exchange)
        round_end = end if answer is None else min(end, answer.time)
        spans += _split(answer, round_exchange.started, round_end, 0.0, _held(index, round_exchange))
    return spans


def _held(index: Index, exchange: Exchange) -> tuple[float, float]:
    """Return the seconds for which a request was held, and those for which its answer was held.

    Infinity if the request ended at the desk.
    """
    marks = index.marks_of(exchange)
    if exchange.direction is Direction.IN and any(mark.is_end for mark in marks):
        return inf, 0.0
    request_held_s = sum(mark.held for mark in marks if mark.direction is Direction.IN)
    return request_held_s, sum(mark.held for mark in marks) - request_held_s


def _response(index: Index, exchange: Exchange) -> Frame | None:
    return None if exchange.response is None else index.frame(exchange.response)


def _split(
    answer: Frame | None, started: float, ended: float, waited: float, held_times: tuple[float, float]
) -> Iterator[PhaseSpan]:
    """Yield the phases between two times. If no phases were measured, only waiting times are known."""
    duration_s = max(0.0, ended - started)
    phases = None if answer is None else answer.phases
    if phases is None:
        waited = min(waited, duration_s)
        request_held_s = min(held_times[0], duration_s - waited)
        phase_times = [
            (PhaseKind.HELD, request_held_s),
            (PhaseKind.SERVER, duration_s - waited - request_held_s),
            (PhaseKind.CLIENT, waited),
        ]
    else:
        write = max(0.0, min(duration_s, ended - phases.ready))
        measured = [
            (PhaseKind.HANDLER, phases.handler / 1e6),
            (PhaseKind.CLIENT, phases.client / 1e6),
            (PhaseKind.PERSON, phases.person / 1e6),
            (PhaseKind.SHAPING, phases.shaping / 1e6),
        ]
        # The two clocks differ, and one may be adjusted during a call. The sum must not exceed the total.
        remaining_s = duration_s - write
        total = sum(seconds for _, seconds in measured)
        factor = min(1.0, remaining_s / total) if total else 1.0
        measured = [(kind, seconds * factor) for kind, seconds in measured]
        queue = max(0.0, remaining_s - total)
        request_held_s, answer_held_s = min(held_times[0], queue), min(held_times[1], write)
        phase_times = [
            (PhaseKind.HELD, request_held_s),
            (PhaseKind.QUEUE, queue - request_held_s),
            *measured,
            (PhaseKind.HELD, answer_held_s),
            (PhaseKind.WRITE, write - answer_held_s),
        ]
    return (PhaseSpan(kind, seconds) for kind, seconds in phase_times if seconds > 0)
