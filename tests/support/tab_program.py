"""A screen for a page of the desk in a browser, as small as one can be; what it does is its first argument.

It draws the messages of the page, in packets as Textual's driver for the web does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time


def packet(kind: bytes, payload: bytes) -> None:
    """Write one packet."""
    sys.stdout.buffer.write(kind + len(payload).to_bytes(4, "big") + payload)
    sys.stdout.buffer.flush()


def main(what: str) -> None:
    """Run until the page asks it to leave, unless `what` says otherwise."""
    if what == "broken":
        sys.exit("mcpdesk: No core of mcpdesk is running on this machine.")
    sys.stdout.buffer.write(b"__GANGLION__\n")
    packet(b"D", f"{os.environ['COLUMNS']}x{os.environ['ROWS']} pid {os.getpid()} ".encode())
    packet(
        b"D", f"secret {os.environ.get('MCPDESK_API_KEY')} driver {os.environ['TEXTUAL_DRIVER']} ".encode()
    )
    if what == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(1)
    while head := sys.stdin.buffer.read(5):
        payload = sys.stdin.buffer.read(int.from_bytes(head[1:], "big"))
        if head[:1] == b"M":
            document = json.loads(payload)
            if document["type"] == "quit":
                return packet(b"M", b'{"type": "exit"}')
            packet(b"D", f"told {json.dumps(document)} ".encode())
        elif payload == b"url":
            packet(b"M", b'{"type": "open_url", "url": "javascript:alert(1)", "new_tab": true}')
            packet(b"M", b'{"type": "open_url", "url": "https://example.com/", "new_tab": true}')
        elif payload == b"leave":
            return packet(b"M", b'{"type": "exit"}')
        else:
            packet(b"D", b"typed " + payload + b" ")


if __name__ == "__main__":
    main(sys.argv[1])
