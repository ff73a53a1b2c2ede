"""Finds the end of an HTTP answer cheaply: answers that look like the last one are not parsed."""

from __future__ import annotations

import re

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_SESSION = re.compile(rb"\r\nmcp-session-id: *([^\r]+)", re.IGNORECASE)
_HEAD_END = b"\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"
_TO_LAST_CHUNK = -1
_LARGE = 1 << 18


class AnswerReader:
    """Collects the answers of a connection with one request in flight."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._wanted = 0
        """Length of the current answer, or `_TO_LAST_CHUNK`; 0 if unknown."""
        self._usual = -1
        """Length of the last answer that gave its length."""

    def feed(self, data: bytes) -> bytes | None:
        """Return the answer if `data` completes it (whole, or the beginning of a large one), else None."""
        if len(data) == self._usual and not self._pieces:
            return data
        self._size += len(data)
        if self._size < self._wanted and self._wanted > _LARGE:
            return None
        self._pieces.append(data)
        if not self._wanted and not self._read_head():
            return None
        if self._wanted == _TO_LAST_CHUNK:
            if not self._has_last_chunk():
                return None
        elif self._size < self._wanted:
            return None
        else:
            self._usual = self._size
        whole = self._pieces[0] if self._wanted > _LARGE else b"".join(self._pieces)
        self._pieces, self._size, self._wanted = [], 0, 0
        return whole

    def _read_head(self) -> bool:
        so_far = b"".join(self._pieces)
        end = so_far.find(_HEAD_END)
        if end < 0:
            return False
        length = _LENGTH.search(so_far, 0, end)
        is_chunked = length is None and _CHUNKED.search(so_far, 0, end)
        body = int(length[1]) if length else 0
        self._wanted = _TO_LAST_CHUNK if is_chunked else end + len(_HEAD_END) + body
        return True

    def _has_last_chunk(self) -> bool:
        end = self._pieces[-1][-len(_LAST_CHUNK) :]
        if len(end) < len(_LAST_CHUNK):
            end = b"".join(self._pieces[-len(_LAST_CHUNK) :])
        return end.endswith(_LAST_CHUNK)


def session_of(answer: bytes) -> str:
    """Session id that an answer opened; "" for a server without sessions."""
    found = _SESSION.search(answer)
    return found[1].decode() if found else ""
