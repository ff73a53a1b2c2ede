"""Jobs as rows: how each stands, what it is, for whom, what it uses, and since when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

from rich.cells import set_cell_size
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.css.query import NoMatches
from textual.widget import Widget
from textual.widgets import Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, JobKind, JobOutput, JobState, JobUse, JobView
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.activity.section import Section, SectionList
from mcpdesk.tui.render.amounts import clock, duration
from mcpdesk.tui.render.safe_text import clean, ending, one_line
from mcpdesk.tui.results.program_output import OutputView
from mcpdesk.tui.results.result_content import size_text
from mcpdesk.tui.widgets.line_list import Span
from mcpdesk.tui.widgets.menu import Choice, Menu

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


SAMPLE_S = 1.0
"""Between two looks at what programs use; only while they are in sight."""
READ_S = 0.15
"""Between two looks at the output."""
COMMAND_LINES = 3
"""Lines of a command above its output."""


class JobDetail(Vertical):
    """What is known of a job above what it wrote."""

    DEFAULT_CSS = """
    JobDetail > .facts { height: auto; }
    JobDetail > OutputView { margin-top: 0; }
    JobDetail.-silent > OutputView { display: none; }
    """

    def compose(self) -> ComposeResult:
        """Facts, output."""
        yield Static(classes="facts", markup=False)
        yield OutputView()


class JobPanel(Section):
    """Rows above, the selected job below."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("jobs")
    title = "Jobs"
    lesson = (
        "Nothing runs in the background",
        "A command that goes on while its caller does something else is a job, and so is a call that "
        'outlives its request: a task of the protocol, or a call with `"mode": "async"` at /v1/mcp. '
        "Their output is shown as it comes.\n\n"
        'Built in: put "BackgroundBash" into `builtins` of mcp.json, and the three tools around it. '
        'Your own: `@tool(task="optional")`.\n\n'
        "To see one now, call BackgroundBash in the workbench (1) with the command\n"
        "for n in $(seq 100); do echo line $n; sleep 1; done",
    )

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._version: int | None = None
        self._jobs: tuple[JobView, ...] = ()
        self._shown = ""
        """The job whose output is shown."""
        self._read_to = -1
        self._is_whole = False
        """Whether there is nothing more to be read of it."""
        self._looks: dict[str, float] = {}
        self._left_out = 0

    def parts(self) -> Iterable[Widget]:
        """Rows, detail."""
        yield JobList()
        yield JobDetail(classes="detail")

    @property
    def jobs(self) -> JobList:
        """The rows."""
        return self.query_one(JobList)

    @property
    def output(self) -> OutputView:
        """What the selected job wrote."""
        return self.query_one(OutputView)

    def take(self, view: CoreView) -> None:
        """Take the jobs when one began or ended."""
        if view.work.jobs_version != self._version:
            self._version = view.work.jobs_version
            self._show(self.link.jobs())

    def look(self, view: CoreView, now: float) -> None:
        """Let clocks go on; measure and read, each at its own pace."""
        self.jobs.tick(now)
        running = any(not job.state.is_final for job in self._jobs)
        if (running or self.jobs.uses) and self._is_due("sample", SAMPLE_S):
            self._sample()
        if self._shown and not self._is_whole and self._is_due("read", READ_S):
            self._read(self._shown)

    def narrow(self) -> None:
        """Show the jobs that have the words."""
        self._show(self._jobs)

    def action_open(self) -> None:
        """Go to the output."""
        if self.jobs.selected is not None:
            (self.output if self.output.display else self.jobs).focus()

    def action_follow(self) -> None:
        """Stay at the end of the output, or stop."""
        self.output.toggle()

    @work
    async def action_kill(self) -> None:
        """End the selected job, once the person says so again."""
        job = self.jobs.selected
        if job is None or job.state.is_final:
            self.notify("No running job is selected.", markup=False)
            return
        is_program = job.kind is JobKind.PROGRAM
        hint = "with everything it has started" if is_program else "its caller is told"
        choices = [
            Choice("kill" if is_program else "cancel", True, hint, "x"),
            Choice("let it run", False, key="n"),
        ]
        verb = "Kill" if is_program else "Cancel"
        if await self.app.push_screen_wait(Menu(f"{verb} {one_line(job.name, 40)}?", choices)):
            self.link.kill_job(job.id)

    @work
    async def action_copy(self) -> None:
        """Copy the command, the output, its file, or all that is known."""
        job = self.jobs.selected
        if job is None:
            return
        choices = [Choice("command" if job.number else "tool", job.name, job.name, "c")]
        if job.has_output:
            text = self.output.text
            choices.append(Choice("output", text, f"the {size_text(len(text))} shown", "o"))
        if job.file:
            choices.append(Choice("file", job.file, job.file, "f"))
        if job.kind is not JobKind.PROGRAM:
            choices.append(Choice("id", job.id, job.id, "i"))
        facts = _facts(job, 0, 0).plain
        choices.append(Choice("facts", facts, one_line(facts), "a"))
        if text := await self.app.push_screen_wait(Menu("Copy", choices)):
            self.app.copy(text, one_line(text, 40))

    @on(JobList.Opened)
    def _opened(self) -> None:
        self.action_open()

    @on(JobList.Moved)
    def _moved(self) -> None:
        job = self.jobs.selected
        shown = "" if job is None else job.id
        if shown != self._shown:
            self._shown, self._read_to, self._is_whole, self._left_out = shown, -1, False, 0
            self._looks.pop("read", None)
            self.output.clear()
        self._tell()

    @on(OutputView.Changed)
    def _tell(self) -> None:
        """Bring the facts and the frame of the detail up to date."""
        detail, job = self.query_one(JobDetail), self.jobs.selected
        detail.display = job is not None
        if job is None:
            return
        has_output = job.has_output
        detail.set_class(not has_output, "-silent")
        use = self.jobs.uses.get(job.id)
        processes = 0 if use is None or job.state.is_final else use.processes
        detail.query_one(".facts", Static).update(_facts(job, processes, self.size.width))
        follows = "following" if self.output.following else "not following (f)"
        state = "whole" if self._is_whole else follows
        kept = "in the file" if job.file else "not kept"
        before = f" · {size_text(self._left_out)} before it, {kept}" if self._left_out else ""
        detail.border_title = f"output · {state}{before}" if has_output else "task"

    def _show(self, jobs: tuple[JobView, ...]) -> None:
        self._jobs = jobs
        running = sum(1 for job in jobs if not job.state.is_final)
        self.count = f"▸{running}" if running else str(len(jobs) or "")
        self.set_empty(is_empty=not jobs)
        shown = [job for job in jobs if self.admits(job.name, job.peer, job.server, job.state, job.message)]
        self.jobs.show(shown, time.time())

    def _is_due(self, what: str, after_s: float) -> bool:
        now = time.monotonic()
        if now < self._looks.get(what, 0.0):
            return False
        self._looks[what] = now + after_s
        return True

    @work(group="sample")
    async def _sample(self) -> None:
        """What programs use is looked up beside the screen."""
        self._looks["sample"] = float("inf")
        try:
            uses = await asyncio.to_thread(self.link.usage)
        finally:
            self._looks["sample"] = time.monotonic() + SAMPLE_S
        with suppress(NoMatches):  # the screen may be taken down meanwhile
            self.jobs.uses = uses
            self._show(self.link.jobs())

    @work(group="read")
    async def _read(self, job: str) -> None:
        """The next piece of the output, read beside the screen."""
        self._looks["read"] = float("inf")
        try:
            piece = await asyncio.to_thread(self.link.output, job, self._read_to)
        finally:
            self._looks["read"] = time.monotonic() + READ_S
        with suppress(NoMatches):
            if job == self._shown:
                self._add(piece)

    def _add(self, piece: JobOutput | None) -> None:
        if piece is None:
            self._is_whole = True
            return
        is_fresh = piece.start != self._read_to
        if is_fresh:
            follows = self.output.following
            self.output.clear()
            self.output.following = follows
            self._left_out = piece.start
        self._read_to = piece.end
        self.output.add(piece.text.lstrip("\ufffd") if is_fresh and piece.start else piece.text)
        if is_fresh or piece.is_last != self._is_whole:
            self._is_whole = piece.is_last
            self._tell()


def _facts(job: JobView, processes: int, width: int) -> Content:
    """The command in full as far as it goes, and lines of what is known besides; a width of 0 cuts none."""
    room = max(0, width - 4)
    lines = clean(job.name).splitlines() or [""]
    if len(lines) > COMMAND_LINES:
        lines = [*lines[: COMMAND_LINES - 1], f"… {len(lines) - COMMAND_LINES + 1} more lines"]
    longest = max(0, width * COMMAND_LINES - 8)
    command = "\n".join(one_line(line, longest) if longest else line for line in lines)
    known = [
        f"{job.state}{': ' + job.message if job.message else ''}",
        f"{'job ' + str(job.number) if job.number else job.kind.value} of {job.server}",
        f"began {clock(job.started)[:8]} by {one_line(job.peer, 30)}",
    ]
    if job.ended is not None:
        known.append(f"took {duration(job.ended - job.started)}")
    if job.number:
        known.append(f"pid {job.pid}")
        if processes > 1:
            known.append(f"{processes} processes")
    if job.has_output:
        known.append(size_text(job.size))
    facts = [Content.styled(command, "bold"), Content.styled(one_line(" · ".join(known)), "$text-muted")]
    if job.made:
        names = ", ".join(file.name for file in job.made)
        facts.append(Content.styled(one_line(f"made {names}", room), "$text-muted"))
    if job.file:
        facts.append(Content.styled(ending(job.file, room), "$text-muted"))
    if job.problem:
        facts.append(Content.styled(f"! {clean(job.problem)}", "$text-warning"))
    return Content("\n").join(facts)
