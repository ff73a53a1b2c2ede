"""What the output of a program does not say of its end by itself, for whoever is shown the output."""

from __future__ import annotations

from mcpdesk.jobs.output import Output
from mcpdesk.jobs.process import Ended


def remarks(ended: Ended, output: Output, timeout_ms: float) -> list[str]:
    """One line each; none for a program that ended well by itself and whose output is whole."""
    notes = {
        f"[timed out after {timeout_ms:g} ms and was ended]": ended.timed_out,
        f"[exit code {ended.exit_code}]": ended.exit_code != 0,
        f"[{ended.left_over} still running in the background, ended]": ended.left_over > 0,
        f"[{output.problem}]": bool(output.problem),
    }
    return [note for note, applies in notes.items() if applies]
