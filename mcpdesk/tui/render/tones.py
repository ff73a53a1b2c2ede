"""Styles for the tones of states."""

from __future__ import annotations

from collections.abc import Mapping

from mcpdesk.link.state_looks import Tone

LINE_STYLES: Mapping[Tone, str] = {
    Tone.GOOD: "lines--good",
    Tone.BAD: "lines--bad",
    Tone.WARN: "lines--warn",
    Tone.ACTIVE: "lines--key",
    Tone.MUTED: "lines--muted",
    Tone.PLAIN: "",
}
"""Component classes of a `LineList`."""
TRAFFIC_STYLES: Mapping[Tone, str] = {
    Tone.GOOD: "traffic--good",
    Tone.BAD: "traffic--bad",
    Tone.WARN: "traffic--warn",
    Tone.ACTIVE: "traffic--clock",
    Tone.MUTED: "traffic--muted",
    Tone.PLAIN: "",
}
"""Component classes of the traffic list."""
TEXT_STYLES: Mapping[Tone, str] = {
    Tone.GOOD: "$text-success",
    Tone.BAD: "$text-error",
    Tone.WARN: "$text-warning",
    Tone.ACTIVE: "$text-accent",
    Tone.MUTED: "$text-muted",
    Tone.PLAIN: "$text",
}
"""Styles of text outside lists."""
