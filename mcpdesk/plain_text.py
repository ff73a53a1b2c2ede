"""Makes untrusted text safe to show. This is the only module that knows which characters must not reach a
terminal.

Text from a client, a server, a model or a file may contain terminal commands (set the clipboard, leave the
alternate screen), or characters that reorder or hide the text around them. Three functions make such text
safe. `clean` makes such characters visible, for reading. `json_escaped` keeps JSON text valid. `to_field` is
for text that a person edits; `from_field` restores the original. This module does not depend on a terminal or
widget, because the screen and the command line share it.
"""

from __future__ import annotations

import json
import re

from mcpdesk.late_pattern import LatePattern

_ALWAYS_UNSAFE = (
    "\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""DEL, C1 controls, characters that change text direction or have no width, fillers without a glyph, tags and
variation selectors (which can encode hidden text), and surrogates."""
_JOINERS = "\u200c\u200d"
"""Zero-width joiners. They are kept between two letters or emoji, and unsafe at other positions."""
_STYLE_SELECTORS = "\ufe0e\ufe0f"
"""Selectors of the style of an emoji. They are kept after an emoji, and unsafe at other positions."""
_JOINABLE = f"[^\x00-\x7f{_JOINERS}{_STYLE_SELECTORS}]"
_UNSAFE_BY_POSITION = (
    f"(?<!{_JOINABLE})(?<![{_STYLE_SELECTORS}])[{_JOINERS}]|[{_JOINERS}](?!{_JOINABLE})"
    f"|(?<!{_JOINABLE})(?<![0-9#*])[{_STYLE_SELECTORS}]"
)
_UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f{_ALWAYS_UNSAFE}]|{_UNSAFE_BY_POSITION}")
"""Unsafe characters except newline and tab, which are safe in text of several lines."""
_UNSAFE_IN_LINE = LatePattern(f"[\x00-\x1f{_ALWAYS_UNSAFE}]|{_UNSAFE_BY_POSITION}")
_FIRST_PLACEHOLDER = 0x10_0000
"""Code of the first placeholder. A placeholder is a private-use character, one cell wide, that represents an
unsafe character. Its code is this number plus the code of the unsafe character. A code above 16 bits is first
replaced, see `_FOLDED_RANGES`.
"""
_FOLDED_RANGES = ((0x1_D173, 0x1_D17A, 0xE000), (0xE_0000, 0xE_0FFF, -0x2000))
"""Ranges of codes above 16 bits: first code, last code, and the replacement of the first code.

With these replacements, all placeholders are private-use characters. U+10EEEE is not among them, because
kitty's protocol draws images with it.
"""
_QUOTE_MARK = "\U0010f8ff"
"""Mark before a character of the original text that has the code of a placeholder or of this mark."""


def _placeholders_of(pattern: str) -> str:
    """Return the character class `pattern` with each character replaced by its placeholder."""
    return "".join(
        character if character == "-" else chr(_placeholder_code(ord(character))) for character in pattern
    )


def _placeholder_code(code: int) -> int:
    """Return the code of a character's placeholder."""
    for first, last, replacement in _FOLDED_RANGES:
        if first <= code <= last:
            return _FIRST_PLACEHOLDER + replacement + code - first
    return _FIRST_PLACEHOLDER + code


def _original_code(code: int) -> int:
    """Return the code of the character that a placeholder represents."""
    code -= _FIRST_PLACEHOLDER
    for first, last, replacement in _FOLDED_RANGES:
        if replacement <= code <= replacement + last - first:
            return first + code - replacement
    return code


_PLACEHOLDER_CLASS = _placeholders_of(f"\x00-\x1f{_ALWAYS_UNSAFE}{_JOINERS}{_STYLE_SELECTORS}")
_PLACEHOLDER = re.compile(f"[{_PLACEHOLDER_CLASS}]")
_QUOTED_OR_PLACEHOLDER = re.compile(f"{_QUOTE_MARK}(.)|[{_PLACEHOLDER_CLASS}]", re.DOTALL)
_UNDRAWABLE = LatePattern(f"{_UNSAFE_IN_LINE.pattern}|[{_PLACEHOLDER_CLASS}]")
_LOOKS_LIKE_PLACEHOLDER = re.compile(f"[{_QUOTE_MARK}{_PLACEHOLDER_CLASS}]")


def clean(text: str, *, newlines: bool = True) -> str:
    """Return `text` with control characters made visible: `\\x1b` becomes `␛`, others `‹200e›`.

    Newlines are kept if `newlines` is true, else they become `⏎`. Tabs become four spaces. The result is not
    escaped for markup: show it with `Content(...)` or `markup=False`.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _UNSAFE.sub(_visible, text.replace("\r\n", "\n").replace("\t", "    "))
    return text if newlines else text.replace("\n", "⏎")


def json_escaped(text: str) -> str:
    """Return JSON text with unsafe characters as escapes such as `\\u001b`. Newlines and tabs are kept."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(_escape, text)


def hidden_characters(text: str) -> list[str]:
    """Return descriptions of the kinds of hidden characters in a text. Newlines and tabs are ignored."""
    kinds = {_kind(ord(match.group())) for match in _UNSAFE.finditer(text)}
    return [name for name, _ in _KINDS if name in kinds]


_KINDS = (
    ("escape or other control characters", ((0, 0x1F), (0x7F, 0x9F))),
    ("characters that reorder text", ((0x61C, 0x61C), (0x200E, 0x200F), (0x202A, 0x202E), (0x2066, 0x2069))),
    ("invisible Unicode tags", ((0xE0000, 0xE0FFF),)),
    ("other invisible characters", ((0, 0x10FFFF),)),
)
"""Kinds of hidden characters with their ranges of codes. The first match wins."""


def _kind(code: int) -> str:
    return next(name for name, ranges in _KINDS if any(low <= code <= high for low, high in ranges))


def harmless(text: str) -> str:
    """Return `text` made safe for other programs, such as for the clipboard. Newlines and tabs are kept.

    Unsafe characters become escapes in JSON, and visible characters in other text.
    """
    if _UNSAFE.search(text) is None:
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return _UNSAFE.sub(_visible, text.replace("\r\n", "\n"))
    return json_escaped(text.replace("\r\n", "\n"))


def to_field(text: str, *, keeps_lines: bool = False) -> str:
    """Return `text` for an editable field, with each unsafe character as a placeholder one cell wide.

    `from_field` is the inverse. With `keeps_lines`, newlines and tabs are kept.
    """
    if text.isascii() and text.isprintable():
        return text
    return with_placeholders(
        _LOOKS_LIKE_PLACEHOLDER.sub(rf"{_QUOTE_MARK}\g<0>", text), keeps_lines=keeps_lines
    )


def with_placeholders(text: str, *, keeps_lines: bool = False) -> str:
    """Return typed or pasted text with unsafe characters as placeholders. Existing placeholders are kept."""
    return (_UNSAFE if keeps_lines else _UNSAFE_IN_LINE.regex).sub(_placeholder, text)


def from_field(text: str) -> str:
    """Return the text of an edited field with its original characters restored."""
    return text if text.isascii() else _QUOTED_OR_PLACEHOLDER.sub(_original, text)


def one_cell_each(text: str) -> str:
    """Return `text` with the width of each character unchanged, for screen cells that are already laid out.

    Each placeholder is drawn as one visible character. Unsafe characters have no width and are removed.
    Texts must be cleaned before layout. This function is only an additional safeguard.
    """
    if (text.isascii() and text.isprintable()) or _UNDRAWABLE.regex.search(text) is None:
        return text
    return _UNSAFE_IN_LINE.regex.sub(_replacement_of_same_width, _PLACEHOLDER.sub(_visible_placeholder, text))


def _escape(match: re.Match[str]) -> str:
    """Return the JSON escape of a character. Return two escapes if the character needs a surrogate pair."""
    units = match.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[index]:02x}{units[index + 1]:02x}" for index in range(0, len(units), 2))


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    return _picture(code) or f"‹{code:x}›"


def _picture(code: int) -> str:
    """Return the control picture of an ASCII control character, or an empty string for other characters."""
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else ""


def _placeholder(match: re.Match[str]) -> str:
    return chr(_placeholder_code(ord(match.group())))


def _original(match: re.Match[str]) -> str:
    return match.group(1) or chr(_original_code(ord(match.group())))


def _visible_placeholder(match: re.Match[str]) -> str:
    return _picture(_original_code(ord(match.group()))) or "\ufffd"


def _replacement_of_same_width(match: re.Match[str]) -> str:
    """Replace a surrogate, because the toolkit counts it as one cell. Remove any other unsafe character,
    because the toolkit counts it as zero cells.
    """
    return "\ufffd" if "\ud800" <= match.group() <= "\udfff" else ""
