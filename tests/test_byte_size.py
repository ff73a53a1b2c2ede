"""Sizes in bytes as text, and that every part of the program writes them alike."""

from __future__ import annotations

import pytest

from mcpdesk.byte_size import size_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_999, "1.0 MB"),
        (5_000_000, "5.0 MB"),
        (999_950_000, "1.0 GB"),
        (1_234_567_890, "1.2 GB"),
    ],
)
def test_sizes_are_short(size: int, text: str) -> None:
    assert size_text(size) == text
