"""A thread that sends what is over to a collector, in batches, and counts what it cannot send.

A call waits for none of it: what the loop does is to append to a bounded queue. A collector that is away,
slow or refuses costs what it does not take, which is counted, and one line of the log.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from time import monotonic, thread_time
from typing import TYPE_CHECKING

from mcpdesk.errors import DeskUserError
from mcpdesk.transports.figure import Figure

if TYPE_CHECKING:
    from mcpdesk.hosting.journal import Journal
    from mcpdesk.hosting.telemetry.otlp_values import Collector
    from mcpdesk.hosting.telemetry.span_records import Delivery, SpanRecord

MOST_WAITING = 16_384
"""Records that wait to be sent; further ones are lost."""
BATCH = 256
SEND_S = 1.0
"""How often what waits is sent."""
SHARE = 4
"""At most one part in so many of a processor is spent on it: calls come first."""
FLUSH_S = 2.0
"""How long the end may take for what is left."""
SOURCE = "otel"
GRPC_PORT = ":4317"
INSTALL = "pip install 'mcpdesk[otel]'"


class OtlpSender:
    """Sends to one collector. `put`, `measure` and the counts are for the loop, the rest for its thread."""

    def __init__(self, endpoint: str, headers: str, journal: Journal) -> None:
        self.sent = 0
        """Spans the collector took."""
        self._failed = self._overflow = 0
        self._endpoint, self._headers, self._journal = endpoint, headers, journal
        self._waiting: deque[SpanRecord] = deque()
        self._figures: Sequence[Figure] | None = None
        self._stirred = threading.Event()
        self._is_closing = self._is_off = False
        self._failing: set[str] = set()
        """The signals the collector does not take now."""
        self._collector: Collector | None = None
        # It loads the libraries first, which takes a quarter of a second.
        self._thread = threading.Thread(target=self._run, name="mcpdesk-otel", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """Spans the collector did not take, or that never came that far."""
        return self._failed + self._overflow

    def put(self, record: SpanRecord) -> None:
        """Keep something that is over until it is sent."""
        if len(self._waiting) < MOST_WAITING and not self._is_off:
            self._waiting.append(record)
        else:
            self._overflow += record.spans

    def measure(self, figures: Sequence[Figure]) -> None:
        """Send these figures next, in place of any that still wait."""
        self._figures = figures
        self._stirred.set()

    def close(self) -> None:
        """Send what is left, and wait for that, at most `FLUSH_S`. For another thread than the loop's."""
        self._is_closing = True
        self._stirred.set()
        if self._failing and self._collector is not None:
            self._collector.give_up()
        self._thread.join(FLUSH_S)
        left = sum(record.spans for record in self._waiting)
        self._failed += left
        if left and not self._failing:
            self._tell(f"{self._endpoint} took too long: {self.lost:,} spans were not sent before the end")

    def _run(self) -> None:
        try:
            from mcpdesk.hosting.telemetry.otlp_values import Collector
        except ImportError as error:
            return self._give_up(f"{_missing(error)} Nothing is sent to {self._endpoint} until then.")
        try:
            self._collector = collector = Collector(self._endpoint, self._headers)
        except DeskUserError as error:
            return self._give_up(str(error))
        ends = float("inf")
        while True:
            self._stirred.wait(SEND_S)
            self._stirred.clear()
            if self._is_closing:
                ends = min(ends, monotonic() + FLUSH_S)
            self._send(collector, ends)
            if self._is_closing and (not self._waiting or monotonic() >= ends or "traces" in self._failing):
                break
        collector.close()

    def _send(self, collector: Collector, ends: float) -> None:
        """Send all that waits, then the figures, which count what was sent."""
        while self._waiting and monotonic() < ends:
            began = thread_time()
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            self._note(collector.send_spans(batch))
            if "traces" in self._failing and self._is_closing:
                return
            if not self._is_closing:
                self._stirred.wait((SHARE - 1) * (thread_time() - began))
        figures, self._figures = self._figures, None
        if figures is not None:
            self._note(collector.send_figures(figures))

    def _note(self, delivery: Delivery) -> None:
        signal, is_new = delivery.signal, delivery.signal not in self._failing
        if not delivery.reason:
            self.sent += delivery.spans
            if not is_new:
                self._failing.remove(signal)
                self._tell(f"{self._endpoint} takes {signal} again; {self.lost:,} spans were lost", "info")
            return
        self._failed += delivery.spans
        if is_new:
            self._failing.add(signal)
            told = "what it does not take is left out, and counted in /metrics"
            if self._endpoint.rstrip("/").endswith(GRPC_PORT):
                told += f"; {GRPC_PORT[1:]} is for gRPC, OTLP over HTTP has 4318 as a rule"
            self._tell(f"{self._endpoint} does not take {signal} ({delivery.reason}): {told}")

    def _give_up(self, told: str) -> None:
        self._is_off = True
        self._failed += sum(record.spans for record in self._waiting)
        self._waiting.clear()
        self._tell(told)

    def _tell(self, told: str, level: str = "warning") -> None:
        self._journal.log(level, SOURCE, told)


def _missing(error: ImportError) -> str:
    name = (error.name or "opentelemetry").partition(".")[0]
    return f"otel_endpoint is set, but {name} is not installed. Install it: {INSTALL}."
