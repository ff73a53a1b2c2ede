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

    If the desk answered instead of the server, this is the whole time.
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
    end = exchange.started + max(0.0, exchange.elapsed(now))
    if exchange.rounds == 1:
        answer, held_times = _response_frame(index, exchange), _held_times(index, exchange)
        return list(_round_spans(answer, exchange.started, end, exchange.waiting(now), held_times))
    spans: list[PhaseSpan] = []
    round_end = exchange.started
    for round_exchange in [exchange, *map(index.exchange, exchange.parts)]:
        if not is_round(round_exchange, exchange):
            continue
        if round_exchange.started > round_end:
            spans.append(PhaseSpan(PhaseKind.CLIENT, round_exchange.started - round_end))
        answer = _response_frame(index, round_exchange)
        round_end = end if answer is None else min(end, answer.time)
        held_times = _held_times(index, round_exchange)
        spans += _round_spans(answer, round_exchange.started, round_end, 0.0, held_times)
    return spans


def _held_times(index: Index, exchange: Exchange) -> tuple[float, float]:
    """Return the seconds for which a request was held, and those for which its answer was held.

    Infinity if the request ended at the desk.
    """
    marks = index.marks_of(exchange)
    if exchange.direction is Direction.IN and any(mark.is_end for mark in marks):
        return inf, 0.0
    request_held_s = sum(mark.held for mark in marks if mark.direction is Direction.IN)
    return request_held_s, sum(mark.held for mark in marks) - request_held_s


def _response_frame(index: Index, exchange: Exchange) -> Frame | None:
    return None if exchange.response is None else index.frame(exchange.response)


def _round_spans(
    answer: Frame | None, started: float, ended: float, waited_s: float, held_times: tuple[float, float]
) -> Iterator[PhaseSpan]:
    """Yield the phases of one round. If no phases were measured, only waiting times are known."""
    duration_s = max(0.0, ended - started)
    phases = None if answer is None else answer.phases
    if phases is None:
        waited_s = min(waited_s, duration_s)
        request_held_s = min(held_times[0], duration_s - waited_s)
        phase_times = [
            (PhaseKind.HELD, request_held_s),
            (PhaseKind.SERVER, duration_s - waited_s - request_held_s),
            (PhaseKind.CLIENT, waited_s),
        ]
    else:
        write_s = max(0.0, min(duration_s, ended - phases.ready))
        measured_times = [
            (PhaseKind.HANDLER, phases.handler / 1e6),
            (PhaseKind.CLIENT, phases.client / 1e6),
            (PhaseKind.PERSON, phases.person / 1e6),
            (PhaseKind.SHAPING, phases.shaping / 1e6),
        ]
        # The two clocks differ, and one may be adjusted during a call. The sum must not exceed the total.
        remaining_s = duration_s - write_s
        measured_s = sum(seconds for _, seconds in measured_times)
        factor = min(1.0, remaining_s / measured_s) if measured_s else 1.0
        queue_s = max(0.0, remaining_s - measured_s)
        request_held_s, answer_held_s = min(held_times[0], queue_s), min(held_times[1], write_s)
        phase_times = [
            (PhaseKind.HELD, request_held_s),
            (PhaseKind.QUEUE, queue_s - request_held_s),
            *((kind, seconds * factor) for kind, seconds in measured_times),
            (PhaseKind.HELD, answer_held_s),
            (PhaseKind.WRITE, write_s - answer_held_s),
        ]
    return (PhaseSpan(kind, seconds) for kind, seconds in phase_times if seconds > 0)
