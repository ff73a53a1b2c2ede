"""Cost of a key and of a token for a call, compared with the same server without either."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from mcpdesk.auth.keys import jwk_keys, secret_keys
from mcpdesk.auth.tokens import read_token
from tests.bench.figure import Effort, Figure, Goal, values
from tests.bench.folder import echo_folder
from tests.bench.load import Job
from tests.bench.process import MCPDESK, Serving, running
from tests.support.tokens import AUDIENCE, ISSUER, SECRET, jwk, jwks, token

OPEN, KEY = "open", "key"
ALGORITHMS = ("HS256", "RS256", "ES256", "EdDSA")
KEY_TEXT = "a-key-as-long-as-those-that-are-made"
GOALS = {KEY: Goal(1.02, at_most=True), "HS256": Goal(1.25, at_most=True)}
"""Goals. Public-key algorithms only inform: the time of the signature alone is printed beside them."""
CHECKS = 100
SLICES = 6
"""Loads a round: short, alternating ones are equally affected by other programs."""


def figures(effort: Effort) -> Iterator[Figure]:
    """CPU time and latency of a call, by the required credentials."""
    names = (OPEN, KEY, *ALGORITHMS)
    notes = {name: f"the signature alone: {_bare_us(name):.0f} us" for name in ALGORITHMS}
    with ExitStack() as stack:
        places = {name: stack.enter_context(_serving(name)) for name in names}
        short = Effort(effort.rounds * SLICES, effort.seconds / 4, effort.peers)
        for era, connections in (("stateless", 1), ("stateless", 32), ("handshake", 32)):
            samples = short.interleaved(
                {name: _job(name, places[name], era, short.seconds, connections).run for name in names}
            )
            used, taken = values("cpu_us", samples), values("p50_ms", samples)
            for name in names[1:]:
                what = f"guard {name} {era} c{connections}"
                goal, note = GOALS.get(name), notes.get(name, "")
                yield Figure(f"{what}, CPU", "us", used[name], OPEN, used[OPEN], goal, note)
                if connections == 1:
                    yield Figure(f"{what}, p50", "ms", taken[name], OPEN, taken[OPEN], goal, note)


def _bare_us(algorithm: str) -> float:
    """CPU time of one signature check by the library alone."""
    keys = (
        secret_keys(SECRET.encode(), [algorithm])
        if algorithm == "HS256"
        else jwk_keys(jwks(jwk(algorithm, kid=algorithm)), [algorithm], with_secrets=False)
    )
    read = read_token(token(algorithm, header={"kid": algorithm}))
    (check,) = keys.find(algorithm, algorithm)
    took = []
    for _ in range(CHECKS):
        began = time.process_time()
        for _ in range(CHECKS):
            check(read.signed, read.signature)
        took.append((time.process_time() - began) / CHECKS)
    return 1e6 * min(took)


@contextmanager
def _serving(name: str) -> Iterator[Serving]:
    """A server that requires these credentials."""
    with echo_folder() as folder:
        manifest: dict[str, Any] = {"name": "echo"}
        if name not in (KEY, OPEN):
            known = {"algorithms": [name], "issuer": ISSUER, "audience": AUDIENCE, "leeway_s": 10}
            place = {"secret_env": "BENCH_SECRET"} if name == "HS256" else {"jwks_file": "keys.json"}
            manifest["auth"] = {"requires_jwt": True, "jwt": known | place}
            (folder / "mcpdesk-env.txt").write_text(f"BENCH_SECRET={SECRET}\n")
            if name != "HS256":
                (folder / "keys.json").write_bytes(jwks(jwk(name, kid=name)))
        (folder / "mcp.json").write_text(json.dumps(manifest))
        key = ("env", f"MCPDESK_API_KEY={KEY_TEXT}") if name == KEY else ()
        with running((*key, *MCPDESK, "serve", str(folder), "--port"), folder.parent) as served:
            yield served


def _job(name: str, place: Serving, era: str, seconds: float, connections: int) -> Job:
    headers = []
    if name == KEY:
        headers = [f"X-API-Key: {KEY_TEXT}"]
    elif name != OPEN:
        text = token(
            name, header={"kid": name}, exp=4_000_000_000, scope="read write", email="ada@example.org"
        )
        headers = [f"Authorization: Bearer {text}"]
    return Job(place.port, "/mcp/echo", era, seconds, connections, pid=place.pid, headers=tuple(headers))
