"""A hostile server over stdio, of the standard library.

With `flood` it writes megabytes to stderr and answers nothing, with `garbage` it answers every line with text
that is no JSON, with `leak` it writes its arguments and variables to stderr and ends, with `token` it
writes a long JWT to stderr and ends, with `escapes` it answers with escape sequences in its name.
"""

from __future__ import annotations

import json
import os
import sys


def main(habit: str) -> None:
    """Misbehave until stdin ends."""
    if habit == "leak":
        print("starting with", *sys.argv[2:], os.environ.get("SHOP_PASSWORD"), file=sys.stderr)
        print("and", os.environ.get("SHOP_ADDRESS"), file=sys.stderr, flush=True)
        raise SystemExit(9)
    if habit == "token":
        print(f"got eyJ{'a' * 60}.eyJ{'b' * 1500}.{'c' * 70} from the vault", file=sys.stderr, flush=True)
        raise SystemExit(9)
    if habit == "flood":
        for number in range(100):
            sys.stderr.write(f"\x1b[31m{number}" + "x" * 50_000 + "\n")
        sys.stderr.write("y" * 1_000_000)
        sys.stderr.flush()
    for line in sys.stdin:
        message = json.loads(line)
        if habit == "garbage":
            print("<html>\x1b]0;title\x07 no JSON", flush=True)
        if habit == "escapes" and "id" in message:
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "serverInfo": {"name": "\x1b[2Jevil\n", "version": "\x07" * 500},
            }
            answer = {"result": result} if message["method"] == "initialize" else REFUSAL
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)


REFUSAL = {"error": {"code": -32601, "message": "\x1b[31mno\n"}}

if __name__ == "__main__":
    main(sys.argv[1])
