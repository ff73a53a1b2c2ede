"""Redaction of a capture before it is shared: secrets in frames, headers, URLs and marks are masked.

Masking for the screen looks at one text at a time. Redaction first reads the whole capture. A secret that was
found once is masked everywhere, even in JSON within a text, in base64 and percent-encoded.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import orjson
from msgspec.structs import replace

from mcpdesk.protocol import codec
from mcpdesk.protocol.methods import METHODS
from mcpdesk.recorder.capture.capture_lines import (
    connection_line,
    encoded,
    frame_pieces,
    header_line,
    log_line,
    lost_line,
    mark_line,
    note_line,
    remark_line,
)
from mcpdesk.recorder.index.call_lookup import logs_by_call
from mcpdesk.recorder.index.exchange import Exchange
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.masking import (
    MASK,
    SECRET_HEADERS,
    SESSION_HEADERS,
    is_secret,
    mask_headers,
    mask_message,
    mask_text,
)
from mcpdesk.recorder.readable_message import is_too_deep
from mcpdesk.recorder.record import CallLog, Frame, HeldMark, HttpNote, RecordedRemark

MIN_SECRET_LENGTH: Final = 6
"""Minimum length in characters of a secret that is masked everywhere. Shorter ones occur in ordinary
words.
"""
MAX_SECRET_LENGTH: Final = 4_096
"""Maximum length in characters of a secret that is masked everywhere."""
_MAX_JSON_BYTES = 8 << 20
"""Size in bytes above which a frame is masked as text."""
_UNMASKED_TEXTS = frozenset({*METHODS, "2.0", MASK})
"""Texts that every capture contains. They are never masked everywhere."""
_STRING_END = re.compile(rb'(?<!\\)(?:\\\\)*"')
"""Quote that is not escaped."""
_BASE64 = re.compile(r"(?<![\w+/-])[\w+/-]{12,}+={0,2}", re.ASCII)
"""Word that may be base64."""
_BASIC = re.compile(r"\bBasic\s+([\w+/=-]+)", re.IGNORECASE)
"""Base64 of a user name and a password, after their scheme."""
_COOKIE_VALUE = re.compile(r"=([^;\s]+)")
"""Value of one cookie."""


class Redactor:
    """Masks values. Every secret that was masked before `settle` is masked everywhere after it."""

    def __init__(self, secrets: Iterable[str] = (), headers: Iterable[str] = ()) -> None:
        """`secrets` are secrets from other sources. `headers` are names of further secret headers."""
        self._secrets = set[str]()
        self._headers = tuple(headers)
        self._schemas: dict[str, Any] = {}
        """Input schemas that servers listed, by name of the tool."""
        self._pattern: re.Pattern[str] | None = None
        """Pattern for all secrets in all forms. None before `settle`, or without secrets."""
        self._is_settled = False
        for secret in secrets:
            self._learn(secret)

    def settle(self) -> None:
        """End the first pass. From now on, all secrets found so far are masked everywhere."""
        self._is_settled = True
        forms = {form for secret in self._secrets for form in (secret, quote(secret, ""), _escaped(secret))}
        longest_first = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def masked_frame(self, data: bytes) -> bytes:
        """Return the bytes of a frame, masked. A frame that is not JSON is masked as text."""
        try:
            value = orjson.loads(data) if len(data) <= _MAX_JSON_BYTES else None
        except ValueError:
            value = None
        if not isinstance(value, dict | list) or is_too_deep(data, value):
            return self.masked_text(data.decode("utf-8", "replace")).encode()
        if isinstance(value, list):
            return codec.dumps([self._masked_message(part) for part in value])
        return codec.dumps(self._masked_message(value))

    def masked_cut_frame(self, data: bytes) -> bytes:
        """Return the bytes of a frame that was cut, perhaps in the middle of a secret, masked."""
        masked = self.masked_frame(data)
        secret_beginnings = (
            secret[:length].encode() for secret in self._secrets for length in range(len(secret) - 1, 3, -1)
        )
        cut_secret = next((piece for piece in secret_beginnings if masked.endswith(piece)), b"")
        return masked.removesuffix(cut_secret) + MASK.encode() if cut_secret else masked

    def masked_note(self, note: HttpNote) -> HttpNote:
        """Return a request or status line and headers, masked."""
        masked = mask_headers(note.headers, self._headers)
        for (name, value), (_, masked_value) in zip(note.headers, masked, strict=True):
            if name.lower() in SESSION_HEADERS:
                self._learn(value)
            else:
                self._learn_hidden(value, masked_value)
            if masked_value != value and name.lower().endswith("cookie"):
                for match in _COOKIE_VALUE.finditer(value):
                    self._learn(match[1])
        headers = tuple((name, self.masked_text(value)) for name, value in masked)
        return HttpNote(self.masked_text(note.line), headers)

    def masked_mark(self, mark: HeldMark) -> HeldMark:
        """Return a decision about a held message, masked, with the message before and after."""
        was = self.masked_frame(mark.was.encode()).decode() if mark.was else ""
        now = self.masked_frame(mark.now.encode()).decode() if mark.now else ""
        return replace(mark, how=self.masked_text(mark.how), was=was, now=now)

    def masked_remark(self, remark: RecordedRemark) -> RecordedRemark:
        """Return a remark on a message of a server, masked, because it may quote the message."""
        return replace(remark, remark=replace(remark.remark, text=self.masked_text(remark.remark.text)))

    def masked_log(self, log: CallLog) -> CallLog:
        """Return a log line of the code of a call, masked."""
        return replace(log, text=self.masked_text(log.text), source=self.masked_text(log.source))

    def masked_text(self, text: str) -> str:
        """Return a text, masked. If it is JSON, the values in it are masked."""
        if text[:1] in ("{", "["):
            try:
                value = orjson.loads(text)
            except ValueError:
                value = None
            if isinstance(value, dict | list) and not is_too_deep(text.encode("utf-8", "replace"), value):
                masked_value = self._masked_value(value)
                return text if masked_value == value else codec.dumps(masked_value).decode()
        masked = mask_text(text)
        self._learn_hidden(text, masked)
        if self._pattern is not None:
            masked = self._pattern.sub(MASK, masked)
        return _BASE64.sub(self._mask_base64, masked)

    def _masked_message(self, message: Any) -> Any:
        """Return a JSON-RPC message, masked. Schemas of listed tools declare which arguments are secret."""
        if not isinstance(message, dict):
            return self._masked_value(message)
        result, params = message.get("result"), message.get("params")
        tools = result.get("tools") if isinstance(result, dict) else None
        listed_tools = tools if isinstance(tools, list) else []
        for tool in listed_tools:
            if isinstance(tool, dict):
                self._schemas[str(tool.get("name"))] = tool.get("inputSchema")
        tool_name = params.get("name") if isinstance(params, dict) else None
        schema = self._schemas.get(str(tool_name)) if message.get("method") == "tools/call" else None
        return self._masked_value(message, mask_message(message, schema))

    def _masked_value(self, value: Any, masked: Any = None) -> Any:
        """Return a JSON value, masked, with the JSON within its strings.

        `masked` is a copy of the value, masked as for the screen.
        """
        masked = mask_message(value) if masked is None else masked
        if masked == MASK:
            self._learn_leaves(value)
            return masked
        if isinstance(value, dict):
            if "value" in value and any(_is_name(value.get(key)) for key in ("name", "key", "header")):
                masked = {**masked, "value": MASK}
            # Empty values stay as they are.
            return {
                self.masked_text(key): item and self._masked_value(value[key], item)
                for key, item in masked.items()
            }
        if isinstance(value, list):
            # `--token` and its value may be neighbouring words of a command. A header may be a list of two
            # texts.
            is_after_option = [False, *map(_is_option, value[:-1])]
            masked = [
                MASK if must_mask else item for must_mask, item in zip(is_after_option, masked, strict=False)
            ]
            return [
                item and self._masked_value(item_value, item)
                for item_value, item in zip(value, masked, strict=True)
            ]
        return self.masked_text(value) if isinstance(value, str) else value

    def _learn_leaves(self, value: Any) -> None:
        """Learn a value that is masked completely, with all texts and numbers in it except plain words."""
        if isinstance(value, dict | list):
            for item in value.values() if isinstance(value, dict) else value:
                if isinstance(item, dict | list) or not str(item).isalpha():
                    self._learn_leaves(item)
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            self._learn(str(value))

    def _learn_hidden(self, text: str, masked_text: str) -> None:
        """Learn the parts of a text that `masked_text` masks."""
        if masked_text == text:
            return
        first, *pieces = masked_text.split(MASK)
        offset = len(first)
        for piece in pieces[:-1]:
            if piece:
                if (end := text.find(piece, offset + 1)) < 0:
                    return
                self._learn_word(text[offset:end])
                offset = end + len(piece)
        self._learn_word(text[offset : len(text) - len(pieces[-1])])
        for match in _BASIC.finditer(text):
            self._learn(_decoded(match[1]).partition(":")[2])

    def _learn_word(self, word: str) -> None:
        """Learn a part of a text, unless it may be prose. In `token: expired` the word is not a secret."""
        if not (word.isalpha() and word.islower()):
            self._learn(word)

    def _learn(self, secret: str) -> None:
        """Remember a secret, unless it is too short, too long, or a usual text."""
        decoded = unquote(secret.strip(" \t\r\n\"'\\"))
        is_usable = (
            MIN_SECRET_LENGTH <= len(decoded) <= MAX_SECRET_LENGTH
            and decoded not in _UNMASKED_TEXTS
            and MASK not in decoded
        )
        if is_usable and not self._is_settled:
            self._secrets.add(decoded)

    def _mask_base64(self, match: re.Match[str]) -> str:
        """Return the mask if a text is base64 of a text with a secret."""
        decoded = _decoded(match[0])
        return MASK if decoded and self.masked_text(decoded) != decoded else match[0]


def environment_secrets(environ: Mapping[str, str], state: Path) -> list[str]:
    """Return the secrets in an environment, and the keys in the state folder."""
    secrets = [value for name, value in environ.items() if is_secret(name)]
    for path in state.glob("*-key"):
        with suppress(OSError, ValueError):
            secrets.append(path.read_text("ascii").strip())
    return secrets


def redacted(
    index: Index, call_logs: Iterable[CallLog], redactor: Redactor, numbers: Iterable[int] | None = None
) -> Iterator[bytes]:
    """Yield the lines of a masked capture, with all exchanges of `index` or only those in `numbers`.

    First, all frames, marks, logs and remarks are searched for secrets, even those that are left out. If
    frames are left out, the other frames get new numbers.
    """
    marks, remarks, logs = list(index.marks), list(index.remarks), list(call_logs)
    connections = dict(index.connections)
    for frame_number in range(index.frame_count):
        redactor.masked_frame(index.frame_bytes(frame_number))
        if (note := index.note(frame_number)) is not None:
            redactor.masked_note(note)
    for mark in marks:
        redactor.masked_mark(mark)
    for log in logs:
        redactor.masked_log(log)
    for remark in remarks:
        redactor.masked_remark(remark)
    redactor.settle()
    frame_numbers: Sequence[int] = range(index.frame_count)
    gaps = {gap.before: gap for gap in index.gaps}
    if numbers is not None:
        exchanges = [index.exchange(number) for number in numbers]
        gaps = {}
        frame_numbers = sorted(
            {frame_number for exchange in exchanges for frame_number in _frame_numbers(exchange)}
        )
        marks = list(dict.fromkeys(mark for exchange in exchanges for mark in index.marks_of(exchange)))
        remarks = list(
            dict.fromkeys(remark for exchange in exchanges for remark in index.recorded_remarks(exchange))
        )
        logs_of = logs_by_call(logs)
        logs = list(dict.fromkeys(line for exchange in exchanges for line in logs_of(exchange)))
        used_connections = {exchange.connection for exchange in exchanges}
        connections = {key: info for key, info in connections.items() if key in used_connections}
    first = index.frame(frame_numbers[0]) if frame_numbers else None
    yield header_line(1, 0, first.time if first is not None else 0.0)
    for info in connections.values():
        masked = {name: redactor.masked_text(getattr(info, name)) for name in ("server", "peer", "principal")}
        yield connection_line(replace(info, **masked))
    new_number = 0
    for frame_number in frame_numbers:
        if (gap := gaps.get(frame_number)) is not None:
            yield lost_line(new_number, new_number + gap.frames, redactor.masked_text(gap.why))
            new_number += gap.frames
        if (frame := index.frame(frame_number)) is None:
            continue
        yield from _frame_line(redactor, frame, index.frame_bytes(frame_number), new_number)
        if (note := index.note(frame_number)) is not None:
            yield note_line(new_number, encoded(redactor.masked_note(note)))
        new_number += 1
    yield from (mark_line(redactor.masked_mark(mark)) for mark in marks)
    yield from (remark_line(redactor.masked_remark(remark)) for remark in remarks)
    yield from (log_line(redactor.masked_log(log)) for log in logs)


def _frame_numbers(exchange: Exchange) -> Iterator[int]:
    """Yield the numbers of the frames of an exchange."""
    yield from (number for number in (exchange.request, exchange.response) if number is not None)
    yield from exchange.notifications


def _frame_line(redactor: Redactor, frame: Frame, full_data: bytes, number: int) -> Sequence[bytes]:
    """Return the line of one frame, masked, in pieces.

    The `end` of a cut frame begins after a complete string, because half a secret could not be recognized.
    """
    is_cut = frame.size > len(full_data)
    end = b""
    data = redactor.masked_cut_frame(full_data) if is_cut else redactor.masked_frame(full_data)
    size = len(data)
    if is_cut:
        size = max(frame.size, len(data) + 1)
        if (match := _STRING_END.search(frame.end)) is not None:
            end_text = frame.end[match.end() :].decode("utf-8", "replace")
            end = redactor.masked_text(end_text).encode()
    masked = Frame(number, frame.time, frame.connection, frame.direction, data, size, end, frame.phases)
    return frame_pieces(masked, data, is_json=False)


def _is_name(name: Any) -> bool:
    """Return True if a text is the name of a secret."""
    return isinstance(name, str) and (is_secret(name) or name.lower() in SECRET_HEADERS)


def _is_option(word: Any) -> bool:
    """Return True if the next word in a list is a secret. Names in `required` of a schema do not count."""
    if not isinstance(word, str):
        return False
    return is_secret(word) if word.startswith("--") and "=" not in word else word.lower() in SECRET_HEADERS


def _decoded(text: str) -> str:
    """Decode base64. Empty if the text is not base64."""
    stripped = text.rstrip("=").replace("+", "-").replace("/", "_")
    try:
        return urlsafe_b64decode(stripped + "=" * (-len(stripped) % 4)).decode()
    except ValueError:
        return ""


def _escaped(text: str) -> str:
    """Return a text as it is written in a JSON string."""
    return codec.dumps(text).decode()[1:-1]
