"""Activity screen: questions, jobs, callbacks, task lists and the plan, one section at a time.

The inbox shows waiting questions first, and then ended questions with their outcome.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import ContentSwitcher

from mcpdesk.inbox.question import Question, QuestionKind, QuestionState
from mcpdesk.link.link import Link
from mcpdesk.link.state_looks import QUESTIONS
from mcpdesk.link.values import CoreView
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.activity.job_panel import JobPanel
from mcpdesk.tui.activity.kept_panels import CallbackPanel, PlanPanel, TodoPanel, core_suffix
from mcpdesk.tui.following import TICK_S
from mcpdesk.tui.forms.question_text import absence_reason, outcome_line, plain_text, question_content
from mcpdesk.tui.render.amounts import seconds_until_since_changes, since
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.render.tones import LINE_STYLES
from mcpdesk.tui.widgets.choice_box import TabStrip
from mcpdesk.tui.widgets.line_list import Span, column
from mcpdesk.tui.widgets.menu import Choice
from mcpdesk.tui.widgets.pane import Pane
from mcpdesk.tui.widgets.section import Section

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp


STATE_CELLS = 2 + max(len(state) for state in QuestionState)
"""Width in cells of the state column, without its glyph."""
PEER_CELLS = 20
"""Width in cells of the peer column, without the space after it."""
MIN_WIDTH_WITH_PEER = 70
"""Width in cells below which the peer column is hidden."""


class InboxPanel(Section[Question]):
    """Questions of all servers."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("inbox")
    title = "Inbox"
    empty_message = (
        "No questions yet",
        "A tool that needs a decision asks here, and waits for the answer. Calls of clients wait here, too, "
        "where the policy of the tool is ask. To change it, select the tool in the workbench (1) and press "
        'space, then choose "policy".\n\n'
        'Built in: add "AskUserQuestion" to `builtins` in mcp.json; clients can then call it.\n'
        'Your own: `question = await ctx.ask([Page("Sure?", options=(Option("yes"), Option("no")))])`.\n\n'
        "To see one now, call AskUserQuestion in the workbench (1) with questions_json\n"
        '[{"question": "Tea or coffee?", "options": ["tea", "coffee"]}]',
    )
    back_action = "activity.back"
    clicks_to_open = 1

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._absences: dict[int, str] = {}
        """Question id -> reason why the client that waits for the answer is absent."""

    def version_of(self, view: CoreView) -> int:
        return view.questions_version

    def fetch(self) -> Sequence[Question]:
        return self.link.questions()

    def count_of(self, rows: Sequence[Question]) -> str:
        waiting = sum(one.state is QuestionState.WAITING for one in rows)
        return f"?{waiting}" if waiting else ""

    def keys_of(self, row: Question) -> tuple[int]:
        return (row.id,)

    def spans(self, row: Question, width: int) -> Iterable[Span]:
        look = QUESTIONS[QuestionState.DECLINED if row.word == "denied" else row.state]
        yield f" {look.glyph} {row.word:<{STATE_CELLS - 2}}  ", LINE_STYLES[look.tone]
        room = width - STATE_CELLS - 3
        if width >= MIN_WIDTH_WITH_PEER:
            yield column(f"{row.core} {row.peer}".lstrip(), PEER_CELLS) + "  ", "lines--key"
            room -= PEER_CELLS + 2
        age = f"  {self._age(row)} "
        room -= cell_len(age)
        if absence := self._absences.get(row.id, ""):
            absence = one_line(f"({absence}) ", max(0, room))
            yield absence, "lines--warn"
            room -= cell_len(absence)
        yield column(_summary(row), room), ""
        yield age, "lines--muted"

    def texts_of(self, row: Question) -> Iterable[str]:
        return plain_text(row), row.peer, row.tool, row.state, row.core

    def detail_of(self, row: Question) -> tuple[str, Content]:
        peer, tool, server = (one_line(text, 30) for text in (row.peer, row.tool, row.server))
        return f"{peer} through {tool} of {server}{core_suffix(row.core)}", question_content(row)

    def copy_choices(self, row: Question) -> list[Choice]:
        text, end = plain_text(row), outcome_line(row)
        return [Choice("question and answer", text, text, "q"), Choice("how it ended", end, end, "e")]

    def update_clock(self, view: CoreView, now: float) -> None:
        super().update_clock(view, now)
        reasons = {one.id: absence_reason(one, view.clients, now) for one in self.rows}
        absences = {number: reason for number, reason in reasons.items() if reason}
        if absences != self._absences:
            self._absences = absences
            self.update_ages()

    def seconds_until_change(self, row: Question) -> float:
        if row.state is QuestionState.WAITING:
            return TICK_S
        return seconds_until_since_changes(self.now - (row.ended or row.asked))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable `open` for every waiting question, because it opens its dialog."""
        question = self.listing.selected if action == "open" and self.is_mounted else None
        is_waiting = question is not None and question.state is QuestionState.WAITING
        return is_waiting or super().check_action(action, parameters)

    async def action_open(self) -> None:
        """Answer the selected question, or show its outcome."""
        question = self.listing.selected
        if question is not None and question.state is QuestionState.WAITING:
            self.app.main.ask(question)
        elif question is not None:
            await super().action_open()

    def action_decline(self) -> None:
        """Decline the selected question, with a reason."""
        question = self.listing.selected
        if question is None or question.state is not QuestionState.WAITING:
            self.notify("No waiting question is selected.", markup=False)
            return
        from mcpdesk.tui.forms.question_dialog import QuestionScreen

        self.app.push_screen(QuestionScreen(self.link, question, is_declining=True))

    def _age(self, question: Question) -> str:
        if question.state is QuestionState.WAITING:
            return since(self.now - question.asked).rjust(8)
        return f"{since(self.now - (question.ended or question.asked))} ago".rjust(8)


def _summary(question: Question) -> str:
    """Return the text of the first page and the number of further pages.

    For an approval, return its tool and arguments.
    """
    if question.kind is QuestionKind.APPROVAL:
        return f"approve {question.tool} · {question.pages[0].detail}"
    further_pages = len(question.pages) - 1
    return question.pages[0].question + (f" (+{further_pages})" if further_pages else "")


SECTIONS: dict[str, Callable[[Link], Section[Any]]] = {
    "inbox": InboxPanel,
    "jobs": JobPanel,
    "callbacks": CallbackPanel,
    "tasks": TodoPanel,
    "plan": PlanPanel,
}
"""Name -> class of the section, in the order of the tabs."""


class ActivityPane(Vertical, Pane):
    """Tabs with counts, and the selected section."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("activity")
    DEFAULT_CSS = """
    ActivityPane > TabStrip { background: $surface; }
    ActivityPane > ContentSwitcher { height: 1fr; }
    """
    app: DeskApp

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.sections = {name: section_type(link) for name, section_type in SECTIONS.items()}
        for name, section in self.sections.items():
            section.id = f"part-{name}"
        self._has_chosen_section = False
        """True after the first section was chosen: the first one that is not empty."""

    def compose(self) -> ComposeResult:
        yield TabStrip([section.title for section in self.sections.values()])
        with ContentSwitcher(initial="part-inbox"):
            yield from self.sections.values()

    @property
    def shown(self) -> str:
        """Name of the selected section."""
        return list(self.sections)[self.query_one(TabStrip).current]

    @property
    def section(self) -> Section[Any]:
        """Selected section."""
        return self.sections[self.shown]

    def show_view(self, view: CoreView) -> None:
        """Update the data of all sections, and the clocks of the selected one."""
        for section in self.sections.values():
            section.update_data(view)
        if not self._has_chosen_section:
            self._has_chosen_section = True
            nonempty_sections = (name for name, section in self.sections.items() if section.count)
            self.show_section(next(nonempty_sections, "inbox"))
        self.section.update_clock(view, time.time())
        if self.screen.focused is None:
            self.section.entry.focus()
        titles = [f"{section.title} {section.count}".rstrip() for section in self.sections.values()]
        self.query_one(TabStrip).show(titles)

    def tick_s(self) -> float | None:
        """Return the seconds until the selected section must be refreshed."""
        return self.section.tick_s()

    def show_section(self, name: str) -> None:
        """Select a section."""
        self.query_one(TabStrip).pick(list(self.sections).index(name))

    def action_show_tab(self, by: int) -> None:
        """Select the next or previous section."""
        self.query_one(TabStrip).action_step(by)

    @property
    def likely_actions(self) -> Sequence[str]:
        """The action that leads back to the list of the section, while the list is hidden."""
        return self.section.likely_actions if self.query(TabStrip) else ()

    @property
    def action_titles(self) -> Mapping[str, str]:
        """Title of the action that leads back to the list of the section, while the list is hidden."""
        return self.section.action_titles if self.query(TabStrip) else {}

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the filter of an empty section."""
        if action != "filter" or not self.query(TabStrip):
            return True
        return not self.section.has_class("-empty")

    def action_filter(self) -> None:
        """Focus the filter."""
        self.section.action_filter()

    def action_back(self) -> None:
        """Move the focus from the details to the list. On the list, clear the filter."""
        self.section.action_back()

    @on(TabStrip.Picked)
    def _picked(self) -> None:
        had_focus = self.has_focus_within
        self.query_one(ContentSwitcher).current = f"part-{self.shown}"
        if had_focus or self.screen.focused is None:
            self.section.entry.focus()
