"""One connected client as text: its capabilities, session, subscriptions, and what it has to answer. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from textual.content import Content

from mcpdesk.link.values import ClientDetail, ClientView, Presence, RunningCall, SessionView
from mcpdesk.protocol.revisions import with_era
from mcpdesk.tui.render.amounts import duration, since, size_text
from mcpdesk.tui.render.safe_text import one_line

PRESENCES = {Presence.CONNECTED: "●", Presence.QUIET: "○", Presence.LEFT: "✕"}
"""Glyph of each; a word stands beside it where it does not go without saying."""
LABEL_CELLS = 15
_MOST = 12
"""Lines of one kind; the rest is counted."""


def era(revision: str) -> str:
    """`handshake` or `stateless`; empty while no revision is known."""
    return with_era(revision).removeprefix(revision).strip()


def client_text(client: ClientView, detail: ClientDetail, now: float, width: int = 0) -> Content:
    """Everything about one client, a label and a line each, wrapped into `width` cells (0: not wrapped).

    `now` is Unix time in seconds.
    """
    lines: list[Content] = []
    for label, texts in _facts(client, detail, now):
        for at, text in enumerate(_wrapped(texts, width - LABEL_CELLS)):
            head = label if at == 0 else ""
            lines.append(
                Content.assemble((f"{head:<{LABEL_CELLS}}", "$text-accent"), Content(one_line(text)))
            )
    return Content("\n").join(lines)


def title_of(client: ClientView) -> str:
    """`claude-code 2.1 · profiles over http · 2025-11-25 handshake`."""
    spoken = with_era(client.revision) or "nothing said yet"
    return one_line(f"{client.name} · {client.server} over {client.transport} · {spoken}")


def seen_text(client: ClientView, now: float) -> str:
    """`● now`, `● 14 s`, `○ quiet 14 min`, `✕ left 3 min`; `now` is Unix time in seconds."""
    presence = client.presence(now)
    word = "" if presence is Presence.CONNECTED else f"{presence.value} "
    when = "now" if client.seen is None else since(now - client.seen)
    return f"{PRESENCES[presence]} {word}{when}"


def capabilities_text(capabilities: dict[str, Any]) -> str:
    """`elicitation (form, url) · sampling · roots`; `none declared` without any."""
    parts = []
    for name, value in capabilities.items():
        inner = ", ".join(value) if isinstance(value, dict) else ""
        parts.append(f"{name} ({inner})" if inner else str(name))
    return " · ".join(parts) or "none declared"


def duration_or_dash(seconds: float | None) -> str:
    """A figure of its calls; a dash before the first."""
    return "–" if seconds is None else duration(seconds)


def _facts(client: ClientView, detail: ClientDetail, now: float) -> Iterator[tuple[str, list[str]]]:
    if client.left is not None:
        yield "left", [f"{since(now - client.left)} ago"]
    if client.caller:
        yield "known as", [client.caller]
    if client.mode:
        yield "mode", [client.mode]
    yield "capabilities", [capabilities_text(detail.capabilities)]
    figures = (
        f" · p50 {duration_or_dash(client.p50_s)} · p95 {duration_or_dash(client.p95_s)}"
        if client.p50_s is not None
        else ""
    )
    failed = f"{client.errors} error{'' if client.errors == 1 else 's'}"
    yield "calls", [f"{client.calls} · {failed}{figures}"]
    yield (
        "tools",
        [f"last listed: {client.tools.value}" if client.tools != "never listed" else "never listed"],
    )
    if detail.session is not None:
        yield "session", list(_session(detail.session, detail.session_ttl_s, now - client.opened))
    else:
        yield "connected", [since((client.left or now) - client.opened)]
    heard = ["changes of every list"] if detail.hears_changes else []
    if heard or detail.subscribed:
        yield "is told of", _cut([*heard, *detail.subscribed])
    if detail.listens:
        yield "listens to", _cut([", ".join(one) or "nothing" for one in detail.listens])
    if detail.running:
        yield "running", _cut([_running(call) for call in detail.running])
    if detail.parked:
        yield (
            "waited for",
            _cut([f"{one.method} {one.name}: {', '.join(one.asks) or 'a retry'}" for one in detail.parked]),
        )


def _wrapped(texts: list[str], width: int) -> list[str]:
    if width <= 0:
        return texts
    return [part for text in texts for part in wrap(one_line(text), width) or [""]]


def _session(session: SessionView, ttl_s: float, age_s: float) -> Iterator[str]:
    left = "kept by a call or a stream"
    if session.left_s is not None:
        idle = since(max(0.0, ttl_s - session.left_s))
        left = f"last used {idle} ago, ends in {since(session.left_s)} unless used"
    yield f"open for {since(age_s)} · {left} · session_ttl_s {ttl_s:g}"
    standing = "standing stream open" if session.has_standing else "no standing stream"
    kept = f"{session.kept_events} kept events, {size_text(session.kept_bytes)}"
    yield f"{standing} · {session.streams} carried · {kept}"


def _running(call: RunningCall) -> str:
    asks = f" · waits for {call.asks} answer{'s' * (call.asks > 1)} of the client" if call.asks else ""
    return f"{call.method} {call.name} {duration(call.elapsed_s)}{asks}"


def _cut(lines: list[str]) -> list[str]:
    if len(lines) <= _MOST:
        return lines
    return [*lines[:_MOST], f"and {len(lines) - _MOST} more"]
