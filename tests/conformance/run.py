"""The official suite on our server, on it through a desk, and on our client.

`python -m tests.conformance.run [--leg client] ...` ends with 0 when what does not pass is exactly what
`expected-failures.<revision>.yml` says, and when the suite cannot run here at all (no Node, no npm registry),
which it then says.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.conformance import baseline
from tests.conformance.suite import BESIDES, JUDGED, REVISIONS, ROOT, NotHere, Outcome, find
from tests.support.engine import NONE_HERE, PROGRAM, engine_server
from tests.support.ports import free_port
from tests.support.replicas import replica_cluster

FOLDER = ROOT / "sample_servers" / "conformance"
LEGS = ("server", "through", "replicas", "client")
"""`through`: the same server as a program on a desk, which passes messages on; `replicas`: three of it that
share an engine, behind a proxy that gives each request to the next one."""
NOT_THROUGH = {"server-sse-polling": "a program cannot close the connection of a client of the desk's"}
"""Scenarios that cannot pass through a desk, with the reason."""
READY_S = 60.0
Run = Callable[[str, str, Path], list[Outcome]]
"""Runs a revision or a single scenario of it, with a folder for the results."""
MAX_AGAIN = 5
"""Unexpected failures that get a second try, alone: some scenarios look at milliseconds."""


def main() -> int:
    """Run the selected revisions; return 0 if each matches its baseline."""
    given = _arguments()
    try:
        suite = find()
    except NotHere as reason:
        print(f"conformance: not run, {reason}")
        return 0
    with tempfile.TemporaryDirectory() as papers:
        kept = Path(given.output) if given.output else Path(papers)
        runs: list[int] = []
        for leg in ("server", "through", "replicas"):
            revisions = [each for each in given.revision if leg == "server" or each in JUDGED]
            if leg not in given.leg or not revisions:
                continue
            if leg == "replicas" and not PROGRAM:
                print(f"{leg}: not run, {NONE_HERE}")
                continue
            place = Path(papers) / leg
            with replicas(place) if leg == "replicas" else serving(place, leg == "through") as url:
                for revision in revisions:
                    run = partial(suite.server, url)
                    runs.append(_judged(leg, run, revision, given.scenario, kept / leg / revision))
        if "client" in given.leg:
            run = partial(suite.client, f"exec {sys.executable} -m tests.conformance.client")
            for revision in set(given.revision) & set(JUDGED):
                runs.append(_judged("client", run, revision, given.scenario, kept / f"client-{revision}"))
    return max(runs)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.run")
    parser.add_argument("--leg", action="append", choices=LEGS, help="server, through or client; else all")
    parser.add_argument("--revision", action="append", choices=REVISIONS, help="once or more; else all")
    parser.add_argument("--scenario", default="", help="one scenario only")
    parser.add_argument("--output", default="", help="a folder that keeps the suite's own papers")
    given = parser.parse_args()
    given.revision = given.revision or list(REVISIONS)
    given.leg = given.leg or list(LEGS)
    return given


def _judged(leg: str, run: Run, revision: str, scenario: str, folder: Path) -> int:
    """Run one leg of a revision and compare it with its baseline; return 0 if they match."""
    began = time.monotonic()
    expected = baseline.read(revision) | (NOT_THROUGH if leg == "through" else {})
    outcomes = run(revision, scenario, folder)
    if revision in JUDGED and not scenario:
        for name in BESIDES["client" if leg == "client" else "server"]:
            outcomes = [each for each in outcomes if each.scenario != name] + run(
                revision, name, folder / name
            )
    again = [each.scenario for each in baseline.judge(outcomes, expected).unexpected]
    if 0 < len(again) <= MAX_AGAIN:
        print(f"  tried again alone: {', '.join(again)}")
        outcomes = [each for each in outcomes if each.scenario not in again]
        outcomes += [each for name in again for each in run(revision, name, folder / name)]
    verdict = baseline.judge(outcomes, expected)
    for outcome in verdict.unexpected:
        _tell("FAIL", outcome, "; ".join(outcome.failures) or "the suite skipped it")
    for outcome in verdict.expected:
        _tell("expected", outcome, expected[outcome.scenario])
    for name in verdict.stale:
        print(f"  STALE    {name} passes: take it out of expected-failures.{revision}.yml")
    print(f"{leg} {revision}: {_totals(outcomes)}, {time.monotonic() - began:.0f} s")
    return 0 if verdict.is_good and outcomes else 1


def _tell(word: str, outcome: Outcome, reason: str) -> None:
    print(f"  {word:<8} {outcome.scenario}{'' if outcome.is_scored else ' (not scored)'}: {reason}")


def _totals(outcomes: Iterable[Outcome]) -> str:
    judged = [each for each in outcomes if not each.is_skipped]
    scored = [each.passes for each in judged if each.is_scored]
    extra = [each.passes for each in judged if not each.is_scored]
    return f"{sum(scored)}/{len(scored)} (not scored: {sum(extra)}/{len(extra)})"


@contextmanager
def serving(state: Path, through_desk: bool) -> Iterator[str]:
    """Serve the sample server in a separate process, or through a desk; yield the URL of its endpoint."""
    port, target = free_port(), FOLDER
    state.mkdir()
    if through_desk:
        program = {"command": sys.executable, "args": ["-m", "mcpdesk", "stdio", str(FOLDER), "--alone"]}
        target = state / "servers.json"
        target.write_text(json.dumps({"mcpServers": {"conformance": program}}))
    command = [sys.executable, "-m", "mcpdesk", "serve", str(target), "--no-auth", "--trust"]
    log = state / "server.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*command, "--http", f"127.0.0.1:{port}"],
            cwd=ROOT,
            env=os.environ | {"MCPDESK_STATE_DIR": str(state / "state")},
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
        )
    try:
        _await_health(process, f"http://127.0.0.1:{port}/health", log)
        yield f"http://127.0.0.1:{port}/mcp/conformance"
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def replicas(state: Path) -> Iterator[str]:
    """Three replicas of the sample server and an engine; gives the URL of its endpoint at their proxy."""
    state.mkdir()
    ready, over = threading.Event(), asyncio.Event()
    found: list[str] = []

    async def serve() -> None:
        with engine_server() as engine:
            flags, folders = ["--no-auth"], [FOLDER]
            async with replica_cluster(3, folders, engine, state, options=flags, each_alone=True) as cluster:
                found.append(cluster.url)
                ready.set()
                await over.wait()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        if not ready.wait(READY_S):
            raise SystemExit("the replicas did not come up")
        yield f"{found[0]}/mcp/conformance"
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


def _await_health(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)
    raise SystemExit(f"the server did not come up:\n{log.read_text(errors='replace')}")


if __name__ == "__main__":
    sys.exit(main())
