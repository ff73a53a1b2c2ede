"""A witness in the path of bytes: `python tee_pipe.py LOG COMMAND ...` writes them to LOG.in and LOG.out."""

from __future__ import annotations

import os
import subprocess
import sys
import threading


def carry(source: int, sink: int, log: str) -> None:
    """Pass on and note down everything, until the end."""
    with open(log, "wb", buffering=0) as file:
        while data := os.read(source, 1 << 16):
            file.write(data)
            while data:
                data = data[os.write(sink, data) :]
    os.close(sink)


def main() -> None:
    """Carry between stdin, stdout and the command."""
    log, *command = sys.argv[1:]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert child.stdin is not None and child.stdout is not None
    stdin = os.dup(child.stdin.fileno())
    child.stdin.close()
    threading.Thread(target=carry, args=(0, stdin, f"{log}.in"), daemon=True).start()
    carry(child.stdout.fileno(), 1, f"{log}.out")
    sys.exit(child.wait())


if __name__ == "__main__":
    main()
