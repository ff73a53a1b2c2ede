"""`python -m tests.bench [NAME ...]`: measure, and print a line for every figure as soon as it is known.

With `--page`, what was measured is also written to `docs/figures.md`, on a machine without other work only.
"""

from __future__ import annotations

import argparse
import os
from importlib import import_module

from tests.bench import page, table, typescript
from tests.bench.figure import PEERS, TYPESCRIPT, Effort

FAMILIES = {
    "paint": "first paint of the desk",
    "start": "process start to the first answer over stdio, as a pump and alone",
    "cold": "process start to the first answer, over stdio and HTTP",
    "http": "calls over HTTP, both eras",
    "tail": "the slowest calls of 32 connections beside the usual ones, with new and with full rings",
    "cycle": "whole sessions over HTTP",
    "big": "one MiB of text, over HTTP and stdio",
    "progress": "progress events through one answer, over HTTP and stdio",
    "catalogue": "a server of 1,000 tools",
    "large": "keys on a desk with 300 tools and results of 5 MB of a server elsewhere",
    "stdio": "round trips over stdio, both eras",
    "ws": "round trips over a WebSocket",
    "guard": "a key and tokens beside a server that asks for nothing",
    "gateway": "the gateway dialect beside the standard endpoint, and its jobs",
    "relay": "what is added by the tap and by the desk in front of servers elsewhere",
    "memory": "memory of `mcpdesk serve`, idle and after 50,000 calls",
    "replicas": "servers that share an engine beside one alone, and what lies in the engine",
    "capacity": "sizes and rates of what replicas share by one engine, at the size its page names",
    "manydesk": "one desk over eight replicas of 2,000 frames a second: its lag and what it costs",
    "rest": "CPU and memory of an idle desk",
    "idle": "wake-ups and CPU of an idle desk, attached desk and `serve`, screen by screen",
    "desk": "keys and calls with the desk on screen",
    "tools": "programs, output, tasks and callbacks by the built-in tools",
    "traffic": "the traffic screen with 100,000 frames",
    "million": "a capture of 1,000,000 frames under `mcpdesk open`",
    "dashboard": "the dashboard in a browser, with and without 100,000 frames",
}
"""Every family of figures (a module of this folder each), and its subject."""


def main() -> None:
    """Run the named families, or all of them."""
    parser = _parser()
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in FAMILIES]:
        parser.error(f"unknown: {', '.join(unknown)}")
    if given.page and (refusal := page.refusal(os.getloadavg()[0])):
        parser.error(refusal)
    peers = tuple(given.beside or PEERS)
    if TYPESCRIPT in peers and (reason := typescript.missing()):
        print(f"not measured: the TypeScript SDK; {reason}")
        peers = tuple(peer for peer in peers if peer != TYPESCRIPT)
    effort = Effort(1, 0.7, peers) if given.quick else Effort(max(1, given.rounds), peers=peers)
    print(table.heading(), flush=True)
    for name in given.names or (page.FAMILIES if given.page else FAMILIES):
        measured, figures = page.circumstances(effort.rounds), []
        for figure in import_module(f"tests.bench.{name}").figures(effort):
            print(table.row(figure), flush=True)
            figures.append(figure)
        if given.page:
            page.write(name, page.part(name, FAMILIES[name], figures, measured))


def _parser() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {name:11}{what}" for name, what in FAMILIES.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="Measure mcpdesk beside its peers.",
        epilog=f"families:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="families to measure (all)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; medians of them are shown (3)")
    parser.add_argument("--quick", action="store_true", help="one short round: a glance, not a measurement")
    parser.add_argument(
        "--page",
        action="store_true",
        help="write the figures to docs/figures.md too; without a NAME: " + ", ".join(page.FAMILIES),
    )
    parser.add_argument("--beside", action="append", choices=PEERS, help="a peer to measure (all)")
    return parser


if __name__ == "__main__":
    main()
