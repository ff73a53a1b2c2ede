"""Thread that sends finished records to a collector in batches, and counts records that it cannot send.

Calls never wait for the thread: the loop only appends to a bounded queue. If a collector is unreachable, is
slow or rejects records, the records are counted as lost, and one line is logged.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from time import monotonic, thread_time
from typing import TYPE_CHECKING

from mcpdesk.errors import DeskUserError
from mcpdesk.transports.metric import MetricFamily

if TYPE_CHECKING:
    from mcpdesk.features.telemetry.otlp_values import Collector
    from mcpdesk.features.telemetry.span_records import Delivery, SpanRecord
    from mcpdesk.hosting.journal import Journal

MAX_QUEUED_RECORDS = 16_384
"""Maximum number of records in the queue. Further records are lost."""
MAX_BATCH_RECORDS = 256
SEND_PERIOD_S = 1.0
"""Seconds between batches."""
PROCESSOR_DIVISOR = 4
"""Sending uses at most 1/PROCESSOR_DIVISOR of one processor, because calls have priority."""
FLUSH_TIMEOUT_S = 2.0
"""Maximum number of seconds for sending the remaining records at the end."""
SOURCE = "otel"
"""Source of the sender's lines in the journal."""
GRPC_PORT = ":4317"
"""End of an endpoint with the usual port of OTLP over gRPC, which this sender does not support."""
INSTALL = "pip install 'mcpdesk[otel]'"


class OtlpSender:
    """Sends to one collector, on a separate thread.

    `put` and `send_metrics` are called on the event loop, where the counts are read, too. `close` is called
    on a worker thread. Only the sender's own thread uses the other members.
    """

    def __init__(self, endpoint: str, headers: str, journal: Journal) -> None:
        self.sent = 0
        """Number of spans that the collector accepted."""
        self._failed_count = 0
        """Number of spans that the collector did not accept, or that were not sent before the end."""
        self._overflow_count = 0
        """Number of spans that did not fit in the queue."""
        self._endpoint, self._headers, self._journal = endpoint, headers, journal
        self._queue: deque[SpanRecord] = deque()
        self._figures: Sequence[MetricFamily] | None = None
        """Metrics to send next, or None."""
        self._wake_up = threading.Event()
        self._is_closing = self._is_disabled = False
        self._failing: set[str] = set()
        """Signals (`traces`, `metrics`) that the collector rejects now."""
        self._collector: Collector | None = None
        # The thread first loads the libraries, which takes a quarter of a second.
        self._thread = threading.Thread(target=self._run, name="mcpdesk-otel", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """Number of spans that the collector did not accept, or that were not sent."""
        return self._failed_count + self._overflow_count

    def put(self, record: SpanRecord) -> None:
        """Queue a finished record."""
        if len(self._queue) < MAX_QUEUED_RECORDS and not self._is_disabled:
            self._queue.append(record)
        else:
            self._overflow_count += record.span_count

    def send_metrics(self, figures: Sequence[MetricFamily]) -> None:
        """Send these metrics next, instead of metrics that are still queued."""
        self._figures = figures
        self._wake_up.set()

    def close(self) -> None:
        """Send the remaining records, for at most `FLUSH_TIMEOUT_S` seconds.

        Must be called on a worker thread, because it waits for the sender's thread.
        """
        self._is_closing = True
        self._wake_up.set()
        if self._failing and self._collector is not None:
            self._collector.give_up()
        self._thread.join(FLUSH_TIMEOUT_S)
        unsent = sum(record.span_count for record in self._queue)
        self._failed_count += unsent
        if unsent and not self._failing:
            self._log(f"{self._endpoint} took too long: {self.lost:,} spans were not sent before the end")

    def _run(self) -> None:
        """Send records until `close` is called. This is the function of the sender's thread."""
        try:
            from mcpdesk.features.telemetry.otlp_values import Collector
        except ImportError as error:
            return self._give_up(f"{_missing(error)} Nothing is sent to {self._endpoint} until then.")
        try:
            self._collector = collector = Collector(self._endpoint, self._headers)
        except DeskUserError as error:
            return self._give_up(str(error))
        deadline = float("inf")
        while True:
            self._wake_up.wait(SEND_PERIOD_S)
            self._wake_up.clear()
            if self._is_closing:
                deadline = min(deadline, monotonic() + FLUSH_TIMEOUT_S)
            self._send(collector, deadline)
            if self._is_closing and (not self._queue or monotonic() >= deadline or "traces" in self._failing):
                break
        collector.close()

    def _send(self, collector: Collector, deadline: float) -> None:
        """Send the queued records, then the metrics. The metrics include the number of sent records."""
        while self._queue and monotonic() < deadline:
            cpu_start_s = thread_time()
            batch = [self._queue.popleft() for _ in range(min(MAX_BATCH_RECORDS, len(self._queue)))]
            self._on_delivery(collector.send_spans(batch))
            if "traces" in self._failing and self._is_closing:
                return
            if not self._is_closing:
                self._wake_up.wait((PROCESSOR_DIVISOR - 1) * (thread_time() - cpu_start_s))
        figures, self._figures = self._figures, None
        if figures is not None:
            self._on_delivery(collector.send_figures(figures))

    def _on_delivery(self, delivery: Delivery) -> None:
        """Count the spans of a batch. Log the first failure of a signal, and its next success."""
        signal = delivery.signal
        was_accepted = signal not in self._failing
        if not delivery.reason:
            self.sent += delivery.span_count
            if not was_accepted:
                self._failing.remove(signal)
                self._log(f"{self._endpoint} accepts {signal} again; {self.lost:,} spans were lost", "info")
            return
        self._failed_count += delivery.span_count
        if was_accepted:
            self._failing.add(signal)
            message = "rejected data is dropped and counted in /metrics"
            if self._endpoint.rstrip("/").endswith(GRPC_PORT):
                message += f"; port {GRPC_PORT[1:]} is for gRPC, OTLP over HTTP usually has port 4318"
            self._log(f"{self._endpoint} rejects {signal} ({delivery.reason}): {message}")

    def _give_up(self, message: str) -> None:
        """Stop sending, and log the reason."""
        self._is_disabled = True
        self._failed_count += sum(record.span_count for record in self._queue)
        self._queue.clear()
        self._log(message)

    def _log(self, message: str, level: str = "warning") -> None:
        self._journal.log(level, SOURCE, message)


def _missing(error: ImportError) -> str:
    name = (error.name or "opentelemetry").partition(".")[0]
    return f"otel_endpoint is set, but {name} is not installed. Install it: {INSTALL}."
