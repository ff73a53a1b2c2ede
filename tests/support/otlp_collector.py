"""A test collector in a process: it takes OTLP over HTTP, decodes it, and prints what it got.

`python -m tests.support.otlp_collector PORT [STATUS [SECONDS]]` answers every request with STATUS (200) after
SECONDS. A line of its output is a span, a metric's point, or the headers of a request, as JSON.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Status as StatusMessage

from tests.support.patience import WITHIN_S
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
Line = dict[str, Any]


def plain(attributes: Any) -> Line:
    """Attributes as a dictionary."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


def spans_of(body: bytes) -> Iterator[Line]:
    """Spans of a request. Raises: google.protobuf's DecodeError if the body cannot be decoded."""
    request = ExportTraceServiceRequest()
    request.ParseFromString(body)
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield {
                    "is": "span",
                    "name": span.name,
                    "kind": SpanMessage.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
                    "trace": span.trace_id.hex(),
                    "id": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "state": span.trace_state,
                    "links": [link.span_id.hex() for link in span.links],
                    "started": span.start_time_unix_nano / 1e9,
                    "ended": span.end_time_unix_nano / 1e9,
                    "status": StatusMessage.StatusCode.Name(span.status.code).removeprefix("STATUS_CODE_"),
                    "told": span.status.message,
                    "attributes": plain(span.attributes),
                    "resource": plain(resource.resource.attributes),
                }


def points_of(body: bytes) -> Iterator[Line]:
    """The points of all metrics of a request."""
    request = ExportMetricsServiceRequest()
    request.ParseFromString(body)
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                for point in getattr(metric, kind).data_points:
                    row = {"is": "point", "name": metric.name, "kind": kind, "unit": metric.unit}
                    row["attributes"] = plain(point.attributes)
                    if kind == "histogram":
                        counts, bounds = list(point.bucket_counts), list(point.explicit_bounds)
                        row |= {"count": point.count, "sum": point.sum, "counts": counts, "bounds": bounds}
                    else:
                        row["value"] = getattr(point, point.WhichOneof("value"))
                    yield row


TAKERS: dict[str, tuple[Callable[[bytes], Iterator[Line]], bytes]] = {
    "/v1/traces": (spans_of, ExportTraceServiceResponse().SerializeToString()),
    "/v1/metrics": (points_of, ExportMetricsServiceResponse().SerializeToString()),
}


def run(port: int, status: int = 200, seconds: float = 0.0) -> None:
    """Serve until the process is ended."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            handle, answer = TAKERS[self.path]
            lines = [{"is": "request", "path": self.path, "headers": dict(self.headers)}, *handle(body)]
            sys.stdout.write("".join(f"{json.dumps(line)}\n" for line in lines))
            sys.stdout.flush()
            time.sleep(seconds)
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(json.dumps({"is": "listening"}), flush=True)
    server.serve_forever()


class StandIn:
    """The process, and the lines received from it."""

    def __init__(self, port: int, *more: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.lines: list[Line] = []
        self._came = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.otlp_collector", str(port), *more],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self.see(lambda line: line["is"] == "listening")
        self.lines.clear()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._came:
                self.lines.append(json.loads(line))
                self._came.notify_all()

    def see(self, wanted: Callable[[Line], object], most_s: float = WITHIN_S) -> Line:
        """Wait for the first line that `wanted` accepts."""

        def found() -> Line | None:
            return next((line for line in self.lines if wanted(line)), None)

        with self._came:
            self._came.wait_for(found, most_s)
            line = found()
        assert line is not None, sorted({f"{each['is']} {each.get('name', '')}" for each in self.lines})
        return line

    def span(self, name: str, **has: Any) -> Line:
        """Wait for the first span of that name with these members."""
        return self.see(
            lambda line: (
                line["is"] == "span"
                and line["name"] == name
                and all(line[key] == value for key, value in has.items())
            )
        )

    def point(self, name: str, **attributes: Any) -> Line:
        """Wait for a point of a metric with these attributes, and return the latest."""

        def is_so(line: Line) -> bool:
            has: Line = line["attributes"] if line["is"] == "point" and line["name"] == name else {}
            return bool(has) and attributes.items() <= has.items()

        self.see(is_so)
        return next(line for line in reversed(self.lines) if is_so(line))

    def end(self) -> None:
        """End the process; `lines` then holds everything it received."""
        self.process.kill()
        self.process.wait()
        self._thread.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def stand_in(*more: str, port: int = 0) -> Iterator[StandIn]:
    """Run a collector during the block."""
    collector = StandIn(port or free_port(), *more)
    try:
        yield collector
    finally:
        collector.end()


if __name__ == "__main__":
    run(int(sys.argv[1]), *map(int, sys.argv[2:3]), *map(float, sys.argv[3:4]))
