"""Arguments of a call as a person reads them before approving it: every one named, long ones cut in sight."""

from __future__ import annotations

from typing import Any

from mcpdesk.protocol.jsonrpc import JSONObject

VALUE = 3_000
"""Characters shown of one value."""
WHOLE = 24_000
"""Characters shown of all."""
AHEAD = 4
"""So many times more is looked through for secrets, so that none is cut in two."""
MOST_ITEMS = 200
DEEPEST = 12


def shortened(value: Any, depth: int = 0) -> Any:
    """A copy of a JSON value small enough to be looked through, with what is missing told in its place."""
    if isinstance(value, str):
        return _cut(value, VALUE * AHEAD)
    if isinstance(value, list | dict) and depth >= DEEPEST:
        return f"… {len(value)} more inside" if value else value
    if isinstance(value, list):
        kept = [shortened(each, depth + 1) for each in value[:MOST_ITEMS]]
        return kept if len(value) <= MOST_ITEMS else [*kept, f"… {len(value) - MOST_ITEMS:,} more"]
    if isinstance(value, dict):
        names = list(value)
        short = {_cut(name, 200): shortened(value[name], depth + 1) for name in names[:MOST_ITEMS]}
        return short if len(names) <= MOST_ITEMS else short | {"…": f"{len(names) - MOST_ITEMS:,} more"}
    return value


def argument_text(arguments: JSONObject) -> str:
    """A line an argument; texts of several lines stand below their name, further in than any name."""
    if not arguments:
        return "without arguments"
    lines = [f"{_name(name)}:{_shown(value)}" for name, value in arguments.items()]
    return _cut("\n".join(lines), WHOLE)


def _name(name: str) -> str:
    import json

    return name if name.isidentifier() else json.dumps(name, ensure_ascii=False)


def _shown(value: Any) -> str:
    import json

    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    text = _cut(text, VALUE)
    return f" {text}" if "\n" not in text else "\n" + "\n".join(f"    {line}" for line in text.split("\n"))


def _cut(text: str, limit: int) -> str:
    """A text without its middle: what a long command ends with matters no less than how it begins."""
    if len(text) <= limit:
        return text
    tail = limit // 4
    head = limit - tail
    return f"{text[:head]}\n… {len(text) - limit:,} characters are not shown …\n{text[-tail:]}"
