"""Work that outlives its call, as rows: how it stands, what it is, for whom, and since when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size

from mcpdesk.link.values import JobView
from mcpdesk.tui.render.amounts import duration
from mcpdesk.tui.render.since import since
from mcpdesk.tui.render.text import one_line
from mcpdesk.tui.widgets.line_list import LineList, Span

STATES = {
    "working": ("▸", "working", "lines--key"),
    "input_required": ("?", "needs input", "lines--warn"),
    "completed": ("✓", "completed", "lines--good"),
    "failed": ("✕", "failed", "lines--bad"),
    "cancelled": ("⊘", "cancelled", "lines--muted"),
}
"""Glyph, word and style of each state."""
STATE_CELLS = max(len(word) for _, word, _ in STATES.values())
NAME_CELLS, PEER_CELLS = 26, 20
NARROW = 90
"""Cells below which the peer's column goes."""


class JobList(LineList):
    """One row a job: those under way first, then the ended ones, newest first."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: tuple[JobView, ...] = ()
        self._now = 0.0

    @property
    def selected(self) -> JobView | None:
        """The job under the cursor."""
        return self.jobs[self.cursor] if self.cursor < len(self.jobs) else None

    @property
    def row_count(self) -> int:
        return len(self.jobs)

    def show(self, jobs: Sequence[JobView], now: float) -> None:
        """Take the jobs as they are now; the selected one stays selected. `now` is Unix time in seconds."""
        selected, self._now = self.selected, now
        self.jobs = tuple(sorted(jobs, key=lambda job: (job.status.is_final, -job.updated)))
        self.rows_changed()
        same = [at for at, job in enumerate(self.jobs) if selected is not None and job.id == selected.id]
        self.cursor = same[0] if same else self.cursor

    def tick(self, now: float) -> None:
        """Let the clocks of running jobs go on."""
        if int(now) != int(self._now):
            self._now = now
            self.refresh()

    def spans(self, index: int, width: int) -> Iterable[Span]:
        job = self.jobs[index]
        glyph, word, style = STATES[job.status]
        yield f" {glyph} {word:<{STATE_CELLS}}  ", style
        room = width - STATE_CELLS - 5
        name = f"{job.server}/{job.tool}"
        yield set_cell_size(one_line(name, NAME_CELLS), NAME_CELLS) + "  ", ""
        room -= NAME_CELLS + 2
        if width >= NARROW:
            yield set_cell_size(one_line(job.peer, PEER_CELLS), PEER_CELLS) + "  ", "lines--key"
            room -= PEER_CELLS + 2
        age = f"  {self._age(job)} "
        room -= cell_len(age)
        yield set_cell_size(one_line(job.message, max(room, 0)), max(room, 0)), "lines--muted"
        yield age, "lines--muted"

    def _age(self, job: JobView) -> str:
        if not job.status.is_final:
            return since(self._now - job.created).rjust(10)
        return f"in {duration(job.updated - job.created)}".rjust(10)
