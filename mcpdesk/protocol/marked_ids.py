"""Unguessable ids of objects such as jobs. An id contains the mark of the process that holds the object.

The mark is in the middle of the id, so that ids differ at both ends. Some objects have numbers instead of
ids. The first digits of such a number are a hash of the mark.
"""

from __future__ import annotations

from zlib import crc32

MARK_LENGTH = 8
NUMBERS_PER_PROCESS = 100_000
"""Size of the block of numbers that is reserved for one process.

If a process assigns more numbers, they look like those of another process.
"""
MAX_BLOCKS = 900_000
"""Number of blocks of numbers. The hash of a mark selects the block of a process."""


def marked(token: str, mark: str) -> str:
    """Return a random token with a mark inserted, or the token itself if the mark is empty."""
    half = len(token) // 2
    return f"{token[:half]}{mark}{token[half:]}"


def process_mark(identifier: str) -> str:
    """Return the mark in an id. For an id without a mark, return a text that no process has as its mark."""
    start = (len(identifier) - MARK_LENGTH) // 2
    return identifier[start : start + MARK_LENGTH] if start > 0 else ""


def first_number(mark: str) -> int:
    """Return the first number that the process with a mark assigns."""
    return (crc32(mark.encode()) % MAX_BLOCKS + MAX_BLOCKS // 9) * NUMBERS_PER_PROCESS + 1


def has_numbered(mark: str, number: int) -> bool:
    """Return True if the process with a mark assigns that number."""
    return number // NUMBERS_PER_PROCESS == first_number(mark) // NUMBERS_PER_PROCESS
