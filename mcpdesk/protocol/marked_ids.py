"""Ids nobody can guess that also tell where to ask for the thing they name: the mark of a replica.

The mark stands in the middle, so that both ends of two ids differ. Where a thing goes by a number, its first
digits are made of the mark.
"""

from __future__ import annotations

from zlib import crc32

MARK_LENGTH = 8
NUMBERS = 100_000
"""Numbers that a replica can give before they look like those of another one."""
BLOCKS = 900_000


def marked(token: str, mark: str) -> str:
    """A random token with a mark in it; without one as it is."""
    half = len(token) // 2
    return f"{token[:half]}{mark}{token[half:]}"


def mark_of(identifier: str) -> str:
    """The mark of an id. What is returned for an id without one is nobody's mark."""
    start = (len(identifier) - MARK_LENGTH) // 2
    return identifier[start : start + MARK_LENGTH] if start > 0 else ""


def first_number(mark: str) -> int:
    """The number with which the replica of a mark begins to count what lives at it."""
    return (crc32(mark.encode()) % BLOCKS + BLOCKS // 9) * NUMBERS + 1


def has_numbered(mark: str, number: int) -> bool:
    """Whether a number is one that the replica of a mark gives."""
    return number // NUMBERS == first_number(mark) // NUMBERS
