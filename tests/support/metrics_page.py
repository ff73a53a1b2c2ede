"""The page of metrics, made from every `MetricFamily` of the program."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[2] / "mcpdesk"
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
KINDS = ("counter", "gauge", "summary", "histogram")
METRICS = """\
# Metrics

{made}

Prometheus reads the metrics from `/metrics`. A line there looks like this:

```text
mcpdesk_tool_calls_total{{server="hello",tool="greet",outcome="ok"}} 3
```

The table shows each name without its prefix `mcpdesk_`. `/metrics` also has the usual metrics `process_*`
with the memory, processor time and open files of the process.
[In production](production.md#health-and-metrics) explains the labels, and what callers see without the key.

Some metrics are present only in some setups. `engine_*`, `replicas` and `folder_mismatches` need
[replicas](many-machines.md#watch-it) that share an engine. `otel_*` needs an OpenTelemetry collector.
"""


class MetricRow(NamedTuple):
    """One metric in the source."""

    name: str
    kind: str
    help: str


def metric_rows() -> list[MetricRow]:
    """Every metric by its name."""
    rows = {
        row.name: row
        for path in PACKAGE.rglob("*.py")
        if "MetricFamily" in (text := path.read_text())
        for row in _rows(ast.parse(text))
    }
    return [rows[name] for name in sorted(rows)]


def _rows(tree: ast.Module) -> Iterator[MetricRow]:
    """Calls of `MetricFamily`, and rows of the tables of figures: name, kind (if any), and help."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="MetricFamily"), args=values) | ast.Tuple(elts=values):
                texts = [each.value for each in values if isinstance(each, ast.Constant)]
            case _:
                continue
        match [each for each in texts if isinstance(each, str)]:
            case [name, kind, help] if kind in KINDS and NAME.fullmatch(name):
                yield MetricRow(name, kind, help)
            case [name, help] if help.endswith(".") and NAME.fullmatch(name):
                yield MetricRow(name, "counter" if name.endswith("_total") else "gauge", help)
