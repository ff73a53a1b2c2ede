"""Lenient JSON parser, which reads values whose meaning is clear and adds a remark on each deviation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from math import isfinite
from typing import Any

from msgspec import Struct

from mcpdesk.protocol.codec import sendable
from mcpdesk.protocol.reading.remark import Remark, RemarkKind

MAX_VALUES = 1_000
"""Maximum number of consecutive values. A text with more values is not a frame of messages."""
MAX_DEPTH = 1_000
"""Maximum nesting, as in the strict parser.

The limit is checked here, because Python 3.14 has no such limit.
"""
_MAX_NAME_LENGTH = 60
"""Maximum characters of a key in a remark."""
MAX_TOKENS = 500_000
"""Maximum number of tokens that are examined one by one. Examining a token takes about a microsecond."""
_MAX_REPEATED_KEYS = 3
"""Maximum number of repeated keys that get a separate remark."""
_COMMENT = r"(?>//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z))"
_TOKEN = re.compile(
    # Atomic groups, and alternatives that match at the end of the text: untrusted input is scanned once, not
    # again for each unclosed bracket, quotation mark or comment.
    rf"""
    (?P<string>"(?:[^"\\]|\\.)*+(?:"|\\?\Z))
  | (?P<single>'(?:[^'\\]|\\.)*+(?:'|\\?\Z))
  | (?P<comment>{_COMMENT})
  | (?P<trailing>,(?=(?>(?:\s|{_COMMENT})*)[\]}}]))
  | (?P<space>\s++)
  | (?P<word>[-+]?[A-Za-z_][A-Za-z_0-9]*|[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_NON_FINITE_WORDS = frozenset({"NaN", "nan", "Infinity", "-Infinity", "+Infinity", "inf", "-inf", "-nan"})
_CONSTANTS = {"True": "true", "False": "false", "None": "null", "undefined": "null"}
_JSON_WORD = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_COLON_FOLLOWS = re.compile(r"\s*:")
_NON_JSON_NUMBER = re.compile(r"-?(?:\d{1,300}\.?\d{0,300}|\.\d{1,300})(?:[eE][-+]?\d{1,3})?")
_ESCAPE = re.compile(r'\\x([0-9a-fA-F]{2})|\\(.)|"', re.DOTALL)
_MAX_NUMBER_REMARKS = 3
"""Maximum number of remarks on numbers in a notation that JSON does not have."""
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]|[\t\n\r]")


class NotJson(ValueError):
    """The text is not JSON, even for the lenient parser."""

    def __init__(self, reason: str, at: int, kind: RemarkKind = RemarkKind.UNREADABLE) -> None:
        super().__init__(reason)
        self.at, self.kind = at, kind


class Values(Struct):
    """Consecutive values in a text, and the faults of the text."""

    values: list[Any]
    remarks: list[Remark]
    end: int
    """Position after the last value."""


class _RecordingDecoder:
    """Decodes with the standard library, and records the deviations from JSON that this decoder accepts."""

    def __init__(self) -> None:
        self.repeated_keys: list[tuple[str, bool]] = []
        """Repeated keys, each with True if both values are equal."""
        self.has_non_finite = False
        self.decode: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(
            strict=False,
            object_pairs_hook=self._object,
            parse_constant=self._on_non_finite,
            parse_float=self._float,
            parse_int=self._int,
        ).raw_decode

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            first_values: dict[str, Any] = {}
            for key, value in pairs:
                if key in first_values:
                    self.repeated_keys.append((key, first_values[key] == value))
                first_values.setdefault(key, value)
        return members

    def _on_non_finite(self, word: str) -> None:
        self.has_non_finite = True

    def _float(self, text: str) -> float | None:
        value = float(text)
        if isfinite(value):
            return value
        self.has_non_finite = True
        return None

    def _int(self, text: str) -> int | float | None:
        # Python's limit on digits also applies here.
        return int(text) if len(text) <= 4_000 else self._float(text)


def _is_deeper(values: list[Any], max_levels: int) -> bool:
    """Return True if arrays and objects in one of the values are nested more than `max_levels` levels
    deep.
    """
    level = [each for each in values if isinstance(each, (dict, list))]
    for _ in range(max_levels):
        if not level:
            return False
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, (dict, list))
        ]
    return bool(level)


def read_values(text: str, offset: Callable[[int], int], start: int = 0) -> Values:
    """Read consecutive values from `start` on.

    `offset` maps a position in the text to an offset in the bytes. Raises: NotJson if the first value is
    invalid.
    """
    reader, remarks = _RecordingDecoder(), list[Remark]()
    try:
        values, end = _consecutive_values(reader, text, start)
    except (json.JSONDecodeError, RecursionError, ValueError) as strict_error:
        if isinstance(strict_error, RecursionError):
            raise NotJson("it is nested too deeply", offset(start)) from None
        reader, repairs = _RecordingDecoder(), _Repairs(offset)
        try:
            repaired, position_in_source = _repaired_text(text, start, repairs)
            values, end = _consecutive_values(reader, repaired, 0)
        except (RecursionError, ValueError):
            at = strict_error.pos if isinstance(strict_error, json.JSONDecodeError) else start
            reason = strict_error.msg if isinstance(strict_error, json.JSONDecodeError) else str(strict_error)
            raise NotJson(f"{reason} at byte {offset(at)}", offset(at)) from None
        end = start + position_in_source(end)
        remarks += repairs.remarks
    if _is_deeper(values, MAX_DEPTH):
        raise NotJson("it is nested too deeply", offset(start))
    # Keys with different values come first, because they make the text unusable.
    conflicting_keys = [(key, is_same) for key, is_same in reader.repeated_keys if not is_same]
    for key, is_same in (conflicting_keys or reader.repeated_keys)[:_MAX_REPEATED_KEYS]:
        remarks.append(_repeated_key_remark(key, is_same, text, start, offset))
    if reader.has_non_finite and not any(each.kind is RemarkKind.NUMBER for each in remarks):
        remarks += _number_remarks(text[start:end], start, offset)
    if ("\\u" in text and _SURROGATE_ESCAPE.search(text)) or _SURROGATE.search(text):
        replacer = _SurrogateReplacer()
        try:
            values = [replacer.replaced(value) for value in values]
        except RecursionError:
            raise NotJson("it is nested too deeply", offset(start)) from None
        if replacer.count:
            remarks.append(_surrogate_remark(text, start, offset, replacer.count))
    if control_character := _control_in_string(text[start:end]):
        at = offset(start + control_character.start())
        remark = (
            f"a control character (0x{ord(control_character[0]):02X}) is not escaped in a string at byte {at}"
        )
        remarks.append(Remark(RemarkKind.CONTROL, remark, at))
    return Values(values, remarks, end)


def _consecutive_values(reader: _RecordingDecoder, text: str, start: int) -> tuple[list[Any], int]:
    """Return the consecutive values, and the end of the last one. Raises: ValueError, RecursionError."""
    position = _after_blanks(text, start)
    value, end = reader.decode(text, position)
    values = [value]
    while (
        (position := _after_blanks(text, end)) < len(text)
        and text[position] in "{["
        and len(values) < MAX_VALUES
    ):
        try:
            value, end = reader.decode(text, position)
        except ValueError:
            break
        values.append(value)
    return values, end


def _after_blanks(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _repeated_key_remark(
    key: str, is_same: bool, text: str, start: int, offset: Callable[[int], int]
) -> Remark:
    """Return the remark on a repeated key. Raises: NotJson if the values differ."""
    matches = re.finditer(f"{re.escape(json.dumps(key, ensure_ascii=False))}\\s*:", text[start:])
    second_match = next(islice(matches, 1, None), None)
    at = offset(start + (second_match.start() if second_match else 0))
    if is_same:
        remark = f"the key {_quoted(key)} is given twice in one object, with the same value, at byte {at}"
        return Remark(RemarkKind.DUPLICATE_KEY, remark, at)
    remark = (
        f"the key {_quoted(key)} is given more than once in one object, with different values, at byte {at}"
    )
    raise NotJson(remark, at, RemarkKind.DUPLICATE_KEY)


def _quoted(key: str) -> str:
    return json.dumps(sendable(key[:_MAX_NAME_LENGTH]), ensure_ascii=False)


def tokens(text: str, start: int) -> Iterator[re.Match[str]]:
    """Yield the first tokens of a text from `start` on: strings, words, comments, and any other character."""
    return islice(_TOKEN.finditer(text, start), MAX_TOKENS)


class _Repairs:
    """Collects remarks on the first deviation of each kind, and on the first few invalid numbers."""

    def __init__(self, offset: Callable[[int], int]) -> None:
        self._offset = offset
        self._reported_kinds = set[str]()
        self.remarks = list[Remark]()

    def add_remark(self, kind: str, template: str, position: int) -> None:
        """Add a remark on the first deviation of a kind. `{at}` in `template` is replaced by the offset."""
        if kind not in self._reported_kinds:
            self._reported_kinds.add(kind)
            at = self._offset(position)
            self.remarks.append(Remark(RemarkKind.SYNTAX, template.format(at=at), at))

    def add_number_remark(self, word: str, key: str, position: int) -> None:
        """Add a remark on a number that JSON does not have, the value of `key`."""
        if sum(each.kind is RemarkKind.NUMBER for each in self.remarks) < _MAX_NUMBER_REMARKS:
            self.remarks.append(_number_remark(word, key, self._offset(position)))


def _repaired_text(text: str, start: int, repairs: _Repairs) -> tuple[str, Callable[[int], int]]:
    """Return the text from `start` on as JSON, and a function that maps positions in the JSON to the text."""
    pieces = list[str]()
    position_pairs = list[tuple[int, int]]()  # end of each token in the JSON, and in the text after `start`
    length = 0
    key = last_string = ""
    for token in tokens(text, start):
        kind, piece = token.lastgroup, token[0]
        if kind == "single" and len(piece) > 1 and piece.endswith("'"):
            piece = _double_quoted(piece)
            repairs.add_remark(kind, "a string is in single quotes at byte {at}", token.start())
        elif kind == "comment":
            piece = " "
            repairs.add_remark(kind, "a comment at byte {at}", token.start())
        elif kind == "trailing":
            piece = " "
            repairs.add_remark(kind, "a comma before a closing bracket at byte {at}", token.start())
        elif kind == "word" and not _JSON_WORD.fullmatch(piece):
            piece = _other_word(text, token, key, repairs)
        if piece == ":":
            key = last_string
        elif kind in ("string", "single"):
            last_string = piece
        elif piece in (",", "{", "["):
            key = ""
        pieces.append(piece)
        length += len(piece)
        position_pairs.append((length, token.end() - start))
    if position_pairs and position_pairs[-1][1] < len(text) - start:
        raise ValueError("it is too long to be read leniently")

    def position_in_source(position: int) -> int:
        return next((source for end, source in position_pairs if end >= position), len(text) - start)

    return "".join(pieces), position_in_source


def _other_word(text: str, token: re.Match[str], key: str, repairs: _Repairs) -> str:
    """Return a bare word, or a number in another notation, as JSON if its meaning is clear.

    `key` is the key of the value, or "" if it has none.
    """
    word, position = token[0], token.start()
    if word in _NON_FINITE_WORDS:
        repairs.add_number_remark(word, key, position)
        return "null"
    if word in _CONSTANTS:
        constant = _CONSTANTS[word]
        repairs.add_remark(word, f"{word} at byte {{at}} is not JSON; it was read as {constant}", position)
        return constant
    if _COLON_FOLLOWS.match(text, token.end()) and word.isidentifier():
        template = f"the key {word[:_MAX_NAME_LENGTH]} at byte {{at}} is not in quotes"
        repairs.add_remark("key", template, position)
        return f'"{word}"'
    number = word.replace("_", "").lstrip("+")
    if _NON_JSON_NUMBER.fullmatch(number):
        template = f"the number {word[:_MAX_NAME_LENGTH]} at byte {{at}} is not valid in JSON"
        repairs.add_remark("number", template, position)
        return str(int(number)) if number.lstrip("-").isdigit() else repr(float(number))
    return word


def _double_quoted(piece: str) -> str:
    """Return a single-quoted string as JSON."""

    def escaped(match: re.Match[str]) -> str:
        if match[1]:
            return f"\\u00{match[1]}"
        if match[0] == '"':
            return '\\"'
        return "'" if match[2] == "'" else match[0]

    return f'"{_ESCAPE.sub(escaped, piece[1:-1])}"'


def _number_remarks(text: str, start: int, offset: Callable[[int], int]) -> list[Remark]:
    """Return a remark for each of the first few numbers that JSON does not have."""
    remarks = list[Remark]()
    key = last_string = ""
    for token in tokens(text, 0):
        kind, piece = token.lastgroup, token[0]
        if kind == "word" and (piece in _NON_FINITE_WORDS or _is_too_large(piece)):
            remarks.append(_number_remark(piece, key, offset(start + token.start())))
            if len(remarks) == _MAX_NUMBER_REMARKS:
                break
        if piece == ":":
            key = last_string
        elif kind == "string":
            last_string = piece
        elif piece in (",", "{", "["):
            key = ""
    return remarks


def _is_too_large(word: str) -> bool:
    return _JSON_WORD.fullmatch(word) is not None and word[-1].isdigit() and not isfinite(float(word))


def _number_remark(word: str, key: str, at: int) -> Remark:
    subject = f"{sendable(key[: _MAX_NAME_LENGTH + 2])} is " if key else ""
    reason = "which JSON does not have" if word in _NON_FINITE_WORDS else "which is out of range"
    return Remark(
        RemarkKind.NUMBER,
        f"{subject}{word[:_MAX_NAME_LENGTH]} at byte {at}, {reason}; it was read as null",
        at,
    )


class _SurrogateReplacer:
    """Replaces lone surrogates in the texts of a value by U+FFFD, and counts these texts."""

    def __init__(self) -> None:
        self.count = 0

    def replaced(self, value: Any) -> Any:
        """Return the value with surrogate pairs joined and lone surrogates replaced."""
        if isinstance(value, str):
            if not _SURROGATE.search(value):
                return value
            repaired = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            self.count += "\N{REPLACEMENT CHARACTER}" in repaired
            return repaired
        if isinstance(value, dict):
            return {self.replaced(key): self.replaced(item) for key, item in value.items()}
        return [self.replaced(item) for item in value] if isinstance(value, list) else value


_LONE_SURROGATE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


def _surrogate_remark(text: str, start: int, offset: Callable[[int], int], count: int) -> Remark:
    lone = _LONE_SURROGATE.search(text, start) or _SURROGATE.search(text, start)
    at = offset(lone.start()) if lone else None
    escape = f"{lone[0]} " if lone and lone[0].isascii() else ""
    location = "" if at is None else f" at byte {at}"
    remark = f"a lone surrogate {escape}is half of a character{location}; it was replaced by U+FFFD"
    return Remark(RemarkKind.SURROGATE, remark, at)


def _control_in_string(text: str) -> re.Match[str] | None:
    """Return the first unescaped control character in a string, or None."""
    if not _CONTROL.search(text):
        return None
    for token in tokens(text, 0):
        if token.lastgroup == "string" and (match := _CONTROL.search(text, token.start(), token.end())):
            return match
    return None
