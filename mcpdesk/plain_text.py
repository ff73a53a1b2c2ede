"""Text of strangers made harmless: the one place that knows which characters must not reach a terminal.

Whatever a client, a server, a model or a file says may hold terminal commands (set the clipboard, leave the
alternate screen), or characters that reorder or hide what stands around them. Three functions take them away:
`clean` shows such characters and is for reading, `json_escaped` keeps JSON text valid, and `to_field` is for
what a person edits: `from_field` gives the true text back. Knows no terminal and no widget: the screen and
the command line share it.
"""

from __future__ import annotations

import json
import re

_ALWAYS = (
    "\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""DEL, C1 controls, marks that turn the direction of writing or take no room, fillers that are drawn as
nothing, tags and variation selectors (which can spell hidden text), halves of surrogate pairs."""
_JOINERS = "\u200c\u200d"
"""Between two letters or pictures they belong to them; elsewhere they are hidden."""
_PRESENTATION = "\ufe0e\ufe0f"
"""After a picture they choose its look; elsewhere they are hidden."""
_NO_JOINER = f"[^\x00-\x7f{_JOINERS}{_PRESENTATION}]"
_HIDDEN = (
    f"(?<!{_NO_JOINER})(?<![{_PRESENTATION}])[{_JOINERS}]|[{_JOINERS}](?!{_NO_JOINER})"
    f"|(?<!{_NO_JOINER})(?<![0-9#*])[{_PRESENTATION}]"
)
_UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f{_ALWAYS}]|{_HIDDEN}")
"""Everything but newline and tab, which a caller may want to keep."""
_UNSAFE_IN_LINE = re.compile(f"[\x00-\x1f{_ALWAYS}]|{_HIDDEN}")
_FIRST_STAND_IN = 0x10_0000
"""A stand-in is this plus the code of its character, as `_FOLDED` changes it: private use, one cell wide."""
_FOLDED = ((0x1_D173, 0x1_D17A, 0xE000), (0xE_0000, 0xE_0FFF, -0x2000))
"""Codes beyond 16 bits: first, last, and what the first one becomes, counted from `_FIRST_STAND_IN`.

All are private use. U+10EEEE is not among them: kitty's protocol draws pictures with it.
"""
_QUOTE = "\U0010f8ff"
"""Stands before a character that looks like a stand-in and is none."""


def _stand_ins(pattern: str) -> str:
    """The class of characters `pattern`, moved to where the stand-ins are."""
    return "".join(each if each == "-" else chr(_folded(ord(each))) for each in pattern)


def _folded(code: int) -> int:
    """The code of a character's stand-in."""
    for first, last, start in _FOLDED:
        if first <= code <= last:
            return _FIRST_STAND_IN + start + code - first
    return _FIRST_STAND_IN + code


def _unfolded(code: int) -> int:
    """The code of the character that a stand-in is for."""
    code -= _FIRST_STAND_IN
    for first, last, start in _FOLDED:
        if start <= code <= start + last - first:
            return first + code - start
    return code


_STAND_IN_CLASS = _stand_ins(f"\x00-\x1f{_ALWAYS}{_JOINERS}{_PRESENTATION}")
_STAND_IN = re.compile(f"[{_STAND_IN_CLASS}]")
_QUOTED_OR_STAND_IN = re.compile(f"{_QUOTE}(.)|[{_STAND_IN_CLASS}]", re.DOTALL)
_UNDRAWABLE = re.compile(f"{_UNSAFE_IN_LINE.pattern}|[{_STAND_IN_CLASS}]")
_LOOKS_HELD = re.compile(f"[{_QUOTE}{_STAND_IN_CLASS}]")


def clean(text: str, *, newlines: bool = True) -> str:
    """`text` with control characters made visible: `\\x1b` becomes `␛`, others `‹200e›`.

    Newlines stay when `newlines` is true, else become `⏎`; tabs become four spaces. The result never
    contains markup of ours, but is not escaped: show it with `Content(...)` or `markup=False`.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _UNSAFE.sub(_visible, text.replace("\r\n", "\n").replace("\t", "    "))
    return text if newlines else text.replace("\n", "⏎")


def json_escaped(text: str) -> str:
    """JSON text with unsafe characters written as `\\u001b`, which means the same; newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(_escape, text)


def hidden_characters(text: str) -> list[str]:
    """The kinds of hidden characters in a text that a person is to read, newlines and tabs apart."""
    found = {_kind(ord(match.group())) for match in _UNSAFE.finditer(text)}
    return [name for name, _ in _KINDS if name in found]


_KINDS = (
    ("escape or other control characters", ((0, 0x1F), (0x7F, 0x9F))),
    ("characters that reorder text", ((0x61C, 0x61C), (0x200E, 0x200F), (0x202A, 0x202E), (0x2066, 0x2069))),
    ("invisible Unicode tags", ((0xE0000, 0xE0FFF),)),
    ("other invisible characters", ((0, 0x10FFFF),)),
)
"""Kinds of hidden characters with their ranges of codes; the first that fits counts."""


def _kind(code: int) -> str:
    return next(name for name, ranges in _KINDS if any(low <= code <= high for low, high in ranges))


def harmless(text: str) -> str:
    """`text` to hand on to other programs, as by the clipboard: newlines and tabs stay.

    Unsafe characters are escapes in JSON, and are made visible in any other text.
    """
    if _UNSAFE.search(text) is None:
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return _UNSAFE.sub(_visible, text.replace("\r\n", "\n"))
    return json_escaped(text.replace("\r\n", "\n"))


def to_field(text: str, *, lines: bool = False) -> str:
    """`text` for a field that is edited, its unsafe characters as stand-ins of one cell.

    `from_field` undoes it. With `lines`, newlines and tabs stay as they are.
    """
    if text.isascii() and text.isprintable():
        return text
    return stand_ins(_LOOKS_HELD.sub(rf"{_QUOTE}\g<0>", text), lines=lines)


def stand_ins(text: str, *, lines: bool = False) -> str:
    """What was typed or pasted into a field, its unsafe characters as stand-ins; those in it already stay."""
    return (_UNSAFE if lines else _UNSAFE_IN_LINE).sub(_stand_in, text)


def from_field(text: str) -> str:
    """The text a person edited, with its true characters."""
    return text if text.isascii() else _QUOTED_OR_STAND_IN.sub(_true, text)


def one_cell_each(text: str) -> str:
    """`text` fit for cells of a screen that are laid out already: nothing becomes wider or narrower.

    Stand-ins are drawn as one visible character. Unsafe characters take no cell and are left out; this is the
    last line of defence, and texts must be cleaned before they are laid out.
    """
    if (text.isascii() and text.isprintable()) or _UNDRAWABLE.search(text) is None:
        return text
    return _UNSAFE_IN_LINE.sub(_narrow, _STAND_IN.sub(_drawn, text))


def _escape(match: re.Match[str]) -> str:
    """A character in JSON, as two escapes if it needs a surrogate pair."""
    units = match.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    return _picture(code) or f"‹{code:x}›"


def _picture(code: int) -> str:
    """The control picture of an ASCII control character; empty for others."""
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else ""


def _stand_in(match: re.Match[str]) -> str:
    return chr(_folded(ord(match.group())))


def _true(match: re.Match[str]) -> str:
    return match.group(1) or chr(_unfolded(ord(match.group())))


def _drawn(match: re.Match[str]) -> str:
    return _picture(_unfolded(ord(match.group()))) or "\ufffd"


def _narrow(match: re.Match[str]) -> str:
    """The toolkit counts one cell for half a surrogate pair, and none for the others."""
    return "\ufffd" if "\ud800" <= match.group() <= "\udfff" else ""
