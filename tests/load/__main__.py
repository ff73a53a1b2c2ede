"""Load a server, and report every call and the memory of the server; exit with 1 if anything was lost."""

from __future__ import annotations

import argparse
import asyncio
import sys

from mcpdesk.hosting.core_loop.core_thread import loop_factory
from tests.load.load import Load, run


def main() -> int:
    """Run the load with the options of the command line."""
    usual = Load()
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument("--connections", type=int, default=usual.connections)
    parser.add_argument("--jobs", type=int, default=usual.jobs, help="async calls under way at a time")
    parser.add_argument("--seconds", type=float, default=usual.seconds)
    parser.add_argument(
        "--pause", type=float, default=usual.pause_s, help="seconds between calls of a connection"
    )
    given = parser.parse_args()
    load = Load(given.connections, given.jobs, given.seconds, given.pause)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        tally = runner.run(run(load))
    sys.stdout.write("\n".join(tally.lines(load.seconds)) + "\n")
    return 1 if tally.lost or tally.wrong or not tally.is_level else 0


if __name__ == "__main__":
    sys.exit(main())
