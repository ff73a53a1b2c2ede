"""Whether answers fit the pages of a question."""

from __future__ import annotations

from collections.abc import Sequence

from mcpdesk.inbox.bounds import link_problem, out_of_bounds
from mcpdesk.inbox.question import Answer, Page

MAX_OTHER = 65_536
"""Characters of free text in one answer."""


def fitting(pages: Sequence[Page], answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """The answers with their labels in the order of the options.

    Raises: ValueError naming the page that is not answered as it asks.
    """
    if len(answers) != len(pages):
        raise ValueError(f"{len(pages)} pages want as many answers, not {len(answers)}")
    return tuple(_checked(number, *pair) for number, pair in enumerate(zip(pages, answers, strict=True), 1))


def problem(page: Page, answer: Answer) -> str:
    """What is wrong with an answer to a page; empty when nothing is."""
    labels = [option.label for option in page.options]
    unknown = [label for label in answer.selected if label not in labels]
    if unknown:
        return f"{unknown[0]!r} is none of the options"
    if len(set(answer.selected)) != len(answer.selected):
        return "an option is chosen twice"
    if len(answer.other) > MAX_OTHER:
        return f"free text is limited to {MAX_OTHER} characters"
    if page.link:
        return link_problem(page.link)
    written = answer.other.strip()
    chosen = len(answer.selected) + bool(written)
    if chosen == 0:
        return _missing(page) if page.is_required else ""
    if chosen > 1 and not page.multi_select:
        return "only one choice is possible"
    if written and not page.own_words:
        return "only what is offered can be chosen"
    return out_of_bounds(page.rules, chosen if page.multi_select else written or None)


def _missing(page: Page) -> str:
    if not page.options:
        return "write something"
    return "choose at least one option" + (" or write something" if page.own_words else "")


def _checked(number: int, page: Page, answer: Answer) -> Answer:
    wrong = problem(page, answer)
    if wrong:
        raise ValueError(f"page {number}: {wrong}")
    ordered = tuple(option.label for option in page.options if option.label in answer.selected)
    return Answer(ordered, answer.other.strip())
