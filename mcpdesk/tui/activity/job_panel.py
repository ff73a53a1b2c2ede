"""Section of the activity screen for jobs: state, name, resource usage, and live output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from rich.cells import cell_len
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.widget import Widget
from textual.widgets import Static

from mcpdesk.byte_size import size_text
from mcpdesk.link.link import Link
from mcpdesk.link.state_looks import JOBS
from mcpdesk.link.values import CoreView, JobKind, JobOutput, JobState, JobUse, JobView
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.activity.kept_panels import core_suffix
from mcpdesk.tui.following import TICK_S
from mcpdesk.tui.render.amounts import clock, duration
from mcpdesk.tui.render.safe_text import clean, ending, one_line
from mcpdesk.tui.render.tones import LINE_STYLES
from mcpdesk.tui.results.program_output import OutputView
from mcpdesk.tui.widgets.line_list import Span, column
from mcpdesk.tui.widgets.menu import Choice, is_confirmed
from mcpdesk.tui.widgets.section import Section, SectionList

STATE_CELLS = 2 + max(len(state) for state in JobState if state is not JobState.LEFT)
"""Width in cells of the state column. No space is reserved for the longest state, because it is rare."""
NUMBER_CELLS, PEER_CELLS, CPU_CELLS, MEMORY_CELLS, TIME_CELLS = 4, 18, 6, 9, 10
"""Widths in cells of the other columns. The number column is wider if a number needs more cells."""
MIN_WIDTH_WITH_PEER = 100
"""Width in cells below which the peer column is hidden."""
MIN_WIDTH_WITH_USAGE = 64
"""Width in cells below which only state, command and time are shown."""
SAMPLE_S = 1.0
"""Seconds between two measurements of resource usage, which are made only while the section is shown."""
READ_S = 0.15
"""Seconds between two reads of the output."""
_STATE_ORDER = {JobState.WAITING: 0, JobState.RUNNING: 1, JobState.QUEUED: 2}
"""State of a job -> position in the list. Jobs in other states have ended, and come last."""


class JobDetail(Vertical):
    """Facts of a job above its output."""

    DEFAULT_CSS = """
    JobDetail > VerticalScroll { height: auto; max-height: 60%; scrollbar-size-vertical: 1; }
    JobDetail > VerticalScroll:focus { background: $surface; }
    JobDetail > OutputView { margin-top: 0; }
    JobDetail.-silent > OutputView { display: none; }
    """

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(classes="facts", markup=False)
        yield OutputView()


class JobPanel(Section[JobView]):
    """Jobs of all servers, and the output of the selected job."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("jobs")
    title = "Jobs"
    empty_message = (
        "No background jobs",
        "A job is a command that continues while its caller does something else, or a call that "
        'outlives its request: a protocol task, or a call with `"mode": "async"` at /v1/mcp. '
        "Its output appears here as it is written.\n\n"
        'Built in: add "BackgroundBash" and its three companion tools to `builtins` in mcp.json. '
        'Your own: `@tool(task="optional")`.\n\n'
        "To see one now, call BackgroundBash in the workbench (1) with the command\n"
        "for n in $(seq 100); do echo line $n; sleep 1; done",
    )
    back_action = "activity.back"
    output = query_one(OutputView)

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._usage_by_job: Mapping[str, JobUse] = {}
        """Last measured processor time and memory, by job id."""
        self._job_id = ""
        """Id of the job whose output is shown."""
        self._read_position = -1
        """Position in the output up to which it was read, or -1 if it was not read yet."""
        self._is_complete = False
        """True if the output was read to its end."""
        self._has_new_output = True
        """False if the last read found no new output."""
        self._may_grow = False
        """True if the selected job has output that can grow."""
        self._number_cells = NUMBER_CELLS
        self._omitted_bytes = 0
        """Number of bytes of output that come before the shown part."""

    def parts(self) -> Iterable[Widget]:
        yield SectionList(self)
        yield JobDetail(classes="detail detail-part")

    def version_of(self, view: CoreView) -> int:
        return view.work.jobs_version

    def fetch(self) -> Sequence[JobView]:
        """Return waiting, running, queued and ended jobs, in this order, the newest of each state first."""
        jobs = self.link.jobs()
        self._number_cells = max([NUMBER_CELLS, *(len(str(job.number)) for job in jobs)])
        return sorted(jobs, key=lambda job: (_STATE_ORDER.get(job.state, 3), -(job.ended or job.started)))

    def count_of(self, rows: Sequence[JobView]) -> str:
        running_count = sum(not job.state.is_final for job in rows)
        return f"▸{running_count}" if running_count else str(len(rows) or "")

    def keys_of(self, row: JobView) -> tuple[str]:
        return (row.id,)

    def spans(self, row: JobView, width: int) -> Iterable[Span]:
        look = JOBS[row.state]
        usage_text = self._usage_text(row) if width >= MIN_WIDTH_WITH_USAGE else ""
        peer_text = ""
        if width >= MIN_WIDTH_WITH_PEER:
            peer_text = column(f"{row.core} {row.peer}".lstrip(), PEER_CELLS) + "  "
        state_cells = max(STATE_CELLS, 2 + len(row.state))
        room = width - state_cells - self._number_cells - TIME_CELLS - 7 - cell_len(usage_text + peer_text)
        number = str(row.number) if row.number else row.kind.value
        text = f"{row.name}  {row.message}" if not row.number and row.message else row.name
        yield f" {look.text:<{STATE_CELLS}}  ", LINE_STYLES[look.tone]
        yield f"{number:>{self._number_cells}}  ", "lines--muted"
        yield column(text, max(room - 1, 1)) + " ", ""
        yield peer_text, "lines--key"
        yield usage_text, "lines--number" if row.id in self._usage_by_job else "lines--muted"
        yield f"{duration(row.runtime_s(self.now)):>{TIME_CELLS}}  ", "lines--muted"

    def _usage_text(self, job: JobView) -> str:
        """Return processor time and memory of a running job, or the exit code of a job that has ended."""
        cpu_text = memory_text = ""
        if job.state.is_final and job.message.startswith("exit code"):
            memory_text = job.message.replace("exit code", "exit")  # in the place of the memory
        elif not job.state.is_final and (use := self._usage_by_job.get(job.id)) is not None:
            cpu_text = "" if use.cpu is None else f"{use.cpu * 100:.0f} %"
            memory_text = size_text(use.memory)
        return f"{cpu_text:>{CPU_CELLS}} {memory_text:>{MEMORY_CELLS}}"

    def texts_of(self, row: JobView) -> Iterable[str]:
        return row.name, row.peer, row.server, row.state, row.message, row.core

    def detail_of(self, row: JobView) -> tuple[str, Content]:
        use = self._usage_by_job.get(row.id)
        processes = 0 if use is None or row.state.is_final else use.processes
        facts = _facts_content(row, processes, self.detail_cells)
        if not row.has_output:
            return "task", facts
        follow_text = "following" if self.output.following else "not following (f)"
        storage = "in the file" if row.file else "not stored"
        omitted_note = ""
        if self._omitted_bytes:
            omitted_note = f" · {size_text(self._omitted_bytes)} before it, {storage}"
        columns_note = f" · {self.output.columns_text}" if self.output.columns_text else ""
        state = "complete" if self._is_complete else follow_text
        return f"output · {state}{columns_note}{omitted_note}", facts

    def copy_choices(self, row: JobView) -> list[Choice]:
        choices = [Choice("command" if row.number else "tool", row.name, row.name, "c")]
        if row.has_output:
            text = self.output.text
            choices.append(Choice("output", text, f"the {size_text(len(text))} shown", "o"))
        if row.file:
            choices.append(Choice("file", row.file, row.file, "f"))
        if row.kind is not JobKind.PROGRAM:
            choices.append(Choice("id", row.id, row.id, "i"))
        facts = _facts_content(row, 0, 0).plain
        return [*choices, Choice("facts", facts, one_line(facts), "a")]

    def update_clock(self, view: CoreView, now: float) -> None:
        super().update_clock(view, now)
        if self._usage_by_job or any(not job.state.is_final for job in self.rows):
            self.read("uses", SAMPLE_S, self.link.usage, self._show_usage)
        if self._job_id and not self._is_complete:
            source = partial(self.link.output, self._job_id, self._read_position)
            self.read("output", READ_S, source, partial(self._add_output, self._job_id))

    def seconds_until_change(self, row: JobView) -> float | None:
        return None if row.state.is_final else TICK_S

    def tick_s(self) -> float | None:
        """Return a shorter interval while output arrives or an ended job is still being read."""
        job = self.listing.selected
        if job is not None and job.has_output and not self._is_complete:
            return READ_S if self._has_new_output or job.state.is_final else TICK_S
        return TICK_S if self._usage_by_job else super().tick_s()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable following if the output is complete, or if the job has none."""
        if action == "follow" and not self._may_grow:
            return False
        return super().check_action(action, parameters)

    def show_detail(self) -> None:
        """Show the selected job, and start to read its output if the selection changed."""
        job = self.listing.selected
        job_id = "" if job is None else job.id
        if job_id != self._job_id:
            self._job_id = job_id
            self._read_position = -1
            self._omitted_bytes = 0
            self._is_complete = False
            self._has_new_output = True
            self.read_now("output")
            self.output.clear()
            self.output.scroll_to_column(0)
        super().show_detail()
        self.query_one(JobDetail).set_class(job is not None and not job.has_output, "-silent")
        may_grow = job is not None and job.has_output and not self._is_complete
        if may_grow != self._may_grow:
            self._may_grow = may_grow
            self.refresh_bindings()

    def focus_detail(self) -> None:
        """Focus the output. For a job without output, focus the facts if the list hides them."""
        if not self.query_one(JobDetail).has_class("-silent"):
            self.output.focus()
        elif self.hides_details:
            self.query_one("JobDetail > VerticalScroll").focus()
        else:
            self.listing.focus()

    def action_follow(self) -> None:
        """Follow the output, or stop following it."""
        self.output.toggle()

    @work
    async def action_kill(self) -> None:
        """End the selected job after a confirmation."""
        job = self.listing.selected
        if job is None or job.state.is_final:
            self.notify("No running job is selected.", markup=False)
            return
        confirm = Choice("cancel", True, "its caller is notified")
        if job.kind is JobKind.PROGRAM:
            confirm = Choice("kill", True, "and everything it started")
        question = f"{confirm.label.capitalize()} {one_line(job.name, 40)}?"
        if await is_confirmed(self.app, question, confirm, "let it run"):
            self.link.kill_job(job.id)

    @on(OutputView.FollowingChanged)
    @on(OutputView.ColumnsChanged)
    def _output_changed(self) -> None:
        self.show_detail()

    def _show_usage(self, usage_by_job: Mapping[str, JobUse]) -> None:
        self._usage_by_job = usage_by_job
        self.load()

    def _add_output(self, job_id: str, piece: JobOutput | None) -> None:
        """Append the next piece of a job's output. `piece` is None if the job has no output."""
        if job_id != self._job_id:
            return
        if piece is None:
            self._is_complete = True
            return
        is_restart = piece.start != self._read_position
        self._has_new_output = piece.end != self._read_position
        if is_restart:
            was_following = self.output.following
            self.output.clear()
            self.output.following = was_following
            self._omitted_bytes = piece.start
        self._read_position = piece.end
        self.output.add(piece.text.lstrip("\ufffd") if is_restart and piece.start else piece.text)
        if is_restart or piece.is_last != self._is_complete:
            self._is_complete = piece.is_last
            self.show_detail()


def _facts_content(job: JobView, processes: int, width: int) -> Content:
    """Return the full command and other facts of a job. `processes` is the number of its processes.

    File names are cut to `width` cells, or not cut if `width` is 0.
    """
    room = max(0, width - 4)
    job_name = f"job {job.number}" if job.number else job.kind.value
    fact_texts = [
        f"{job.state}: {job.message}" if job.message else job.state,
        f"{job_name} of {job.server}{core_suffix(job.core)}",
        f"began {clock(job.started)[:8]} by {one_line(job.peer, 30)}",
    ]
    if job.ended is not None:
        fact_texts.append(f"took {duration(job.ended - job.started)}")
    if job.number:
        fact_texts.append(f"pid {job.pid}")
        if processes > 1:
            fact_texts.append(f"{processes} processes")
    if job.has_output:
        fact_texts.append(size_text(job.size))
    facts = [
        Content.styled(clean(job.name), "bold"),
        Content.styled(one_line(" · ".join(fact_texts)), "$text-muted"),
    ]
    if job.produced_files:
        names = ", ".join(file.name for file in job.produced_files)
        facts.append(Content.styled(one_line(f"made {names}", room), "$text-muted"))
    if job.file:
        facts.append(Content.styled(ending(job.file, room), "$text-muted"))
    if job.problem:
        facts.append(Content.styled(f"! {clean(job.problem)}", "$text-warning"))
    return Content("\n").join(facts)
