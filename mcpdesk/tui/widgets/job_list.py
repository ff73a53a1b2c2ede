"""Jobs as rows: how each stands, what it is, for whom, what it uses, and since when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.cells import set_cell_size

from mcpdesk.link.values import JobState, JobUse, JobView
from mcpdesk.tui.render.amounts import duration
from mcpdesk.tui.render.content import size_text
from mcpdesk.tui.render.text import one_line
from mcpdesk.tui.widgets.line_list import Span
from mcpdesk.tui.widgets.section import SectionList

STATES = {
    JobState.QUEUED: ("…", "lines--muted"),
    JobState.RUNNING: ("▸", "lines--key"),
    JobState.WAITING: ("?", "lines--warn"),
    JobState.SUCCEEDED: ("✓", "lines--good"),
    JobState.FAILED: ("✕", "lines--bad"),
    JobState.KILLED: ("☓", "lines--warn"),
    JobState.CANCELLED: ("⊘", "lines--muted"),
}
"""Glyph and style of each state; the word follows the glyph."""
STATE_CELLS = 2 + max(len(state) for state in JobState)
NUMBER_CELLS, PEER_CELLS, CPU_CELLS, MEMORY_CELLS, TIME_CELLS = 4, 18, 6, 9, 10
NARROW = 100
"""Cells below which the peer's column goes."""
TINY = 64
"""Cells below which only state, command and time are left."""
_ORDER = {JobState.WAITING: 0, JobState.RUNNING: 1, JobState.QUEUED: 2}


class JobList(SectionList):
    """One row a job: those under way first, newest first, then the ended ones, the last ended first."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: tuple[JobView, ...] = ()
        self.uses: Mapping[str, JobUse] = {}

    @property
    def selected(self) -> JobView | None:
        """The job under the cursor."""
        return self.jobs[self.cursor] if self.cursor < len(self.jobs) else None

    @property
    def row_count(self) -> int:
        return len(self.jobs)

    def show(self, jobs: Sequence[JobView], now: float) -> None:
        """Take the jobs as they are now; the selected one stays selected. `now` is Unix time in seconds."""
        selected, self.now = self.selected, now
        self.jobs = tuple(
            sorted(jobs, key=lambda job: (_ORDER.get(job.state, 3), -(job.ended or job.started)))
        )
        self.settle(at for at, job in enumerate(self.jobs) if selected is not None and job.id == selected.id)

    def spans(self, index: int, width: int) -> Iterable[Span]:
        job = self.jobs[index]
        glyph, style = STATES[job.state]
        yield f" {glyph} {job.state:<{STATE_CELLS - 2}}  ", style
        room = width - STATE_CELLS - 3 - TIME_CELLS - 2
        figures = ""
        if width >= TINY:
            figures = self._figures(job)
            room -= len(figures)
        peer = ""
        if width >= NARROW:
            peer = set_cell_size(one_line(job.peer, PEER_CELLS), PEER_CELLS) + "  "
            room -= PEER_CELLS + 2
        number = str(job.number) if job.number else job.kind.value
        yield f"{number:>{NUMBER_CELLS}}  ", "lines--muted"
        room -= NUMBER_CELLS + 2
        said = f"{job.name}  {job.message}" if not job.number and job.message else job.name
        yield set_cell_size(one_line(said, max(room - 1, 1)), max(room, 1)), ""
        yield peer, "lines--key"
        yield figures, "lines--number" if job.id in self.uses else "lines--muted"
        yield f"{duration(job.runtime_s(self.now)):>{TIME_CELLS}}  ", "lines--muted"

    def _figures(self, job: JobView) -> str:
        use = self.uses.get(job.id) if not job.state.is_final else None
        cpu = "" if use is None or use.cpu is None else f"{use.cpu * 100:.0f} %"
        memory = "" if use is None else size_text(use.memory)
        if job.state.is_final and job.message.startswith("exit code"):
            memory = job.message.replace("exit code", "exit")
        return f"{cpu:>{CPU_CELLS}} {memory:>{MEMORY_CELLS}}"
