"""What a person has chosen so far on one page of a question. Knows no widget."""

from __future__ import annotations

from mcpdesk.inbox.answers import problem
from mcpdesk.inbox.question import Answer, Page


class Draft:
    """An answer in the making."""

    def __init__(self, page: Page) -> None:
        self.page = page
        filled = page.default
        self.chosen = {at for at, option in enumerate(page.options) if option.label in filled.selected}
        """Indexes of the chosen options."""
        self.other = filled.other
        """What was written, chosen or not."""
        self.other_chosen = bool(filled.other)

    def toggle(self, index: int) -> None:
        """Choose an option, or take the choice back; on a page for one choice it replaces the others."""
        if index in self.chosen:
            self.chosen.discard(index)
            return
        if not self.page.multi_select:
            self.chosen.clear()
            self.other_chosen = False
        self.chosen.add(index)

    def write(self, text: str) -> None:
        """Take own words; they are chosen as soon as there are any."""
        self.other = text
        self.other_chosen = bool(text.strip())
        if self.other_chosen and not self.page.multi_select:
            self.chosen.clear()

    @property
    def answer(self) -> Answer:
        """What would be answered now."""
        labels = tuple(self.page.options[index].label for index in sorted(self.chosen))
        return Answer(labels, self.other.strip() if self.other_chosen else "")

    @property
    def problem(self) -> str:
        """What keeps this page from being answered; empty when nothing does."""
        return problem(self.page, self.answer)

    def mark(self, index: int) -> str:
        """The glyph before an option; the index after the last one is that of own words."""
        on = self.other_chosen if index == len(self.page.options) else index in self.chosen
        return ("[x]" if on else "[ ]") if self.page.multi_select else ("(•)" if on else "( )")
