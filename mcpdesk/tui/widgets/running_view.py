"""A call under way: its progress, and what it has logged so far."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from mcpdesk.link.link import Call
from mcpdesk.link.values import Progress
from mcpdesk.tui.render.text import one_line

_BAR = 20
_LOG_LINES = 200
"""The newest log lines in sight."""
_PERIOD_S = 0.1


class RunningView(Static):
    """Looks at the call ten times a second while it is on the screen."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self._call = call
        self._shown: tuple[Progress | None, int] | None = None

    def on_mount(self) -> None:
        """Start looking."""
        self._look()
        self.set_interval(_PERIOD_S, self._look)

    def _look(self) -> None:
        progress, count = self._call.progress, len(self._call.logs)
        if (progress, count) == self._shown:
            return
        self._shown = (progress, count)
        lines = [one_line(line) for line in list(self._call.logs)[-_LOG_LINES:]]
        hint = Content.styled("ctrl+x cancels", "$text-muted")
        self.update(Content("\n").join([_progress(progress), hint, *map(Content, lines)]))


def _progress(progress: Progress | None) -> Content:
    if progress is None:
        return Content("running …")
    message = Content(f"\n{one_line(progress.message)}" if progress.message else "")
    if not progress.total:
        return Content.assemble((f"{progress.progress:g}", "bold"), message)
    share = max(0.0, min(1.0, progress.progress / progress.total))
    full = round(share * _BAR)
    bar = ("━" * full, "$primary"), ("─" * (_BAR - full), "$text-muted")
    counted = f" {share:.0%} ({progress.progress:g} of {progress.total:g})"
    return Content.assemble(*bar, counted, message)
