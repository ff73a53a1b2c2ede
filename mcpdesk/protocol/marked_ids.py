"""Ids nobody can guess that also tell where to ask for the thing they name: the mark of a replica.

The mark stands in the middle, so that both ends of two ids differ.
"""

from __future__ import annotations

MARK_LENGTH = 8


def marked(token: str, mark: str) -> str:
    """A random token with a mark in it; without one as it is."""
    half = len(token) // 2
    return f"{token[:half]}{mark}{token[half:]}"


def mark_of(identifier: str) -> str:
    """The mark of an id. What is returned for an id without one is nobody's mark."""
    start = (len(identifier) - MARK_LENGTH) // 2
    return identifier[start : start + MARK_LENGTH] if start > 0 else ""
