"""Text for a terminal that another program shares."""

from __future__ import annotations

import os
import threading

import pytest

from mcpdesk.transports.clean_terminal import CleanStream
from tests.support.tiers import open_terminal


@pytest.mark.process
def test_a_terminal_that_was_made_non_blocking_gets_all_of_a_long_text() -> None:
    reader, terminal = open_terminal()
    os.set_blocking(terminal, False)
    text = "x" * (64 << 10)
    writer = threading.Thread(target=CleanStream(terminal).write, args=(text,))
    writer.start()
    try:
        received = 0
        while received < len(text):
            received += len(os.read(reader, 4096))
    finally:
        writer.join()
        os.close(terminal)
        os.close(reader)
    assert received == len(text)
