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

_INVISIBLE = "\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
"""DEL, C1 controls, marks that turn the direction of writing or take no room, halves of surrogate pairs."""
_UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f{_INVISIBLE}]")
"""Everything but newline and tab, which a caller may want to keep."""
_UNSAFE_IN_LINE = re.compile(f"[\x00-\x1f{_INVISIBLE}]")
_FIRST_STAND_IN = 0x10_0000
"""A stand-in is this plus the code of its character: private use, one cell wide."""
_QUOTE = "\U0010f8ff"
"""Stands before a character that looks like a stand-in and is none."""


def _stand_ins(pattern: str) -> str:
    """The class of characters `pattern`, moved to where the stand-ins are."""
    return "".join(each if each == "-" else chr(_FIRST_STAND_IN + ord(each)) for each in pattern)


_STAND_IN = re.compile(f"[{_stand_ins(chr(0) + '-' + chr(0x1F) + _INVISIBLE)}]")
_QUOTED_OR_STAND_IN = re.compile(f"{_QUOTE}(.)|{_STAND_IN.pattern}", re.DOTALL)
_UNDRAWABLE = re.compile(_UNSAFE_IN_LINE.pattern[:-1] + _STAND_IN.pattern[1:])
_LOOKS_HELD = re.compile(f"[{_QUOTE}{_STAND_IN.pattern[1:-1]}]")


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
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


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


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    return _picture(code) or f"‹{code:x}›"


def _picture(code: int) -> str:
    """The control picture of an ASCII control character; empty for others."""
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else ""


def _stand_in(match: re.Match[str]) -> str:
    return chr(_FIRST_STAND_IN + ord(match.group()))


def _true(match: re.Match[str]) -> str:
    return match.group(1) or chr(ord(match.group()) - _FIRST_STAND_IN)


def _drawn(match: re.Match[str]) -> str:
    return _picture(ord(match.group()) - _FIRST_STAND_IN) or "\ufffd"


def _narrow(match: re.Match[str]) -> str:
    """The toolkit counts one cell for half a surrogate pair, and none for the others."""
    return "\ufffd" if "\ud800" <= match.group() <= "\udfff" else ""
