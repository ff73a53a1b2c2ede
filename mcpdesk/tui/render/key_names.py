"""Key names as people read them. Knows no widget."""

from __future__ import annotations

_NAMES = {
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "space": "space",
    "enter": "⏎",
    "escape": "esc",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "full_stop": ".",
    "comma": ",",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "asterisk": "*",
    "exclamation_mark": "!",
    "apostrophe": "'",
    "quotation_mark": '"',
    "delete": "del",
}


def key_name(key: str) -> str:
    """`ctrl+p` as `^p`, `question_mark` as `?`, `shift+up` as `⇧↑`."""
    *modifiers, last = key.strip().split("+")
    short = {"ctrl": "^", "shift": "⇧", "alt": "⌥"}
    return "".join(short.get(word, word + "+") for word in modifiers) + _NAMES.get(last, last)


def key_names(keys: str) -> str:
    """All keys of an action, `? f1`."""
    return " ".join(key_name(key) for key in keys.split(","))
