"""The inbox as rows: waiting questions first, then what became of the others. State as glyph and word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size

from mcpdesk.inbox.question import Kind, Question, QuestionState
from mcpdesk.tui.render.since import since
from mcpdesk.tui.render.text import one_line
from mcpdesk.tui.widgets.line_list import Span
from mcpdesk.tui.widgets.section import SectionList

STATES = {
    QuestionState.WAITING: ("?", "lines--warn"),
    QuestionState.ANSWERED: ("✓", "lines--good"),
    QuestionState.DECLINED: ("✕", "lines--bad"),
    QuestionState.CANCELLED: ("⊘", "lines--muted"),
    QuestionState.TIMED_OUT: ("◷", "lines--muted"),
    QuestionState.WITHDRAWN: ("↶", "lines--muted"),
}
"""Glyph and style of each state; the word follows the glyph."""
STATE_CELLS = 2 + max(len(state) for state in QuestionState)
PEER_CELLS = 20
NARROW = 70
"""Cells below which the peer's column goes."""


class InboxList(SectionList):
    """One row a question. The selected question stays selected when others come and go."""

    CLICKS = 1

    def __init__(self) -> None:
        super().__init__()
        self.questions: tuple[Question, ...] = ()
        self.absences: dict[int, str] = {}
        """Of questions whose client is not there, what became of it, by their numbers."""

    @property
    def selected(self) -> Question | None:
        """The question under the cursor."""
        return self.questions[self.cursor] if self.cursor < len(self.questions) else None

    @property
    def row_count(self) -> int:
        return len(self.questions)

    def show(self, questions: Sequence[Question], now: float) -> None:
        """Take the questions as they are now; `now` is Unix time in seconds."""
        selected, self.now = self.selected, now
        self.questions = tuple(questions)
        self.settle(at for at, one in enumerate(questions) if selected is not None and one.id == selected.id)

    def mark(self, absences: dict[int, str]) -> None:
        """Take which questions belong to clients that are not there."""
        if absences != self.absences:
            self.absences = absences
            self.refresh()

    def spans(self, index: int, width: int) -> Iterable[Span]:
        question = self.questions[index]
        is_denied = question.word == "denied"
        glyph, style = STATES[QuestionState.DECLINED if is_denied else question.state]
        yield f" {glyph} {question.word:<{STATE_CELLS - 2}}  ", style
        room = width - STATE_CELLS - 3
        if width >= NARROW:
            peer = one_line(question.peer, PEER_CELLS)
            yield set_cell_size(peer, PEER_CELLS) + "  ", "lines--key"
            room -= PEER_CELLS + 2
        age = f"  {self._age(question)} "
        room -= cell_len(age)
        if away := self.absences.get(question.id, ""):
            away = one_line(f"({away}) ", max(0, room))
            yield away, "lines--warn"
            room -= cell_len(away)
        yield set_cell_size(one_line(summary(question), room), room), ""
        yield age, "lines--muted"

    def _age(self, question: Question) -> str:
        if question.state is QuestionState.WAITING:
            return since(self.now - question.asked).rjust(8)
        return f"{since(self.now - (question.ended or question.asked))} ago".rjust(8)


def summary(question: Question) -> str:
    """The first page's text, and how many more there are; of an approval, the tool and its arguments."""
    if question.kind is Kind.APPROVAL:
        return f"approve {question.tool} · {question.pages[0].detail}"
    more = len(question.pages) - 1
    return question.pages[0].question + (f" (+{more})" if more else "")
