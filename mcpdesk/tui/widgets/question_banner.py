"""One line that says somebody asks something, for while the person is typing."""

from __future__ import annotations

from textual.content import Content

from mcpdesk.inbox.question import Question
from mcpdesk.tui.render.question_text import announced
from mcpdesk.tui.render.text import one_line
from mcpdesk.tui.widgets.part_line import Part, PartLine


class QuestionBanner(PartLine):
    """Hidden until there is something to announce."""

    DEFAULT_CSS = """
    QuestionBanner { display: none; background: $warning; color: $background; text-style: bold; }
    QuestionBanner.-on { display: block; }
    QuestionBanner:ansi { background: ansi_yellow; color: ansi_black; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._announced: int | None = None

    def announce(self, question: Question | None) -> bool:
        """Show a question, or nothing. True when it is one that was not announced before."""
        self.set_class(question is not None, "-on")
        if question is None:
            return False
        fresh, self._announced = question.id != self._announced, question.id
        keys = Content(" F2 answer · esc, then a ")
        room = self.screen.size.width - keys.cell_length
        said = Content(one_line(f" ? {announced(question)} ", room))
        action = "screen.open_question"
        self.show([Part(said, action, "Answer", rank=1), Part(keys, action, rank=9, right=True)])
        return fresh
