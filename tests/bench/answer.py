"""Finds where an HTTP answer ends, at the least cost: answers that look like the last one are not parsed."""

from __future__ import annotations

import re

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_SESSION = re.compile(rb"\r\nmcp-session-id: *([^\r]+)", re.IGNORECASE)
_HEAD_END = b"\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"


class AnswerReader:
    """Collects the bytes of one answer after the other, of a connection with one request in flight."""

    def __init__(self) -> None:
        self._pieces = b""
        self._usual = -1
        """Length of the last answer that gave its length."""

    def feed(self, data: bytes) -> bytes | None:
        """The whole answer when `data` completes it, else None."""
        if len(data) == self._usual and not self._pieces:
            return data
        self._pieces += data
        head = self._pieces.find(_HEAD_END)
        if head < 0 or not self._is_whole(head):
            return None
        whole, self._pieces = self._pieces, b""
        return whole

    def _is_whole(self, head: int) -> bool:
        length = _LENGTH.search(self._pieces, 0, head)
        if length is None:
            return self._pieces.endswith(_LAST_CHUNK)
        wanted = head + len(_HEAD_END) + int(length[1])
        if len(self._pieces) < wanted:
            return False
        self._usual = wanted
        return True


def session_of(answer: bytes) -> str:
    """The session an answer opened.

    Raises: RuntimeError when it opened none.
    """
    found = _SESSION.search(answer)
    if found is None:
        raise RuntimeError(f"no session: {answer[:300]!r}")
    return found[1].decode()
