"""Questions of tools, asked in the terminal a command was typed in. They are written to stderr."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from mcpdesk.cli.printing import print_message
from mcpdesk.inbox.question import Answer, Page, Question, QuestionState, oddities
from mcpdesk.plain_text import clean

if TYPE_CHECKING:
    from mcpdesk.inbox.inbox import Inbox

LOOK_S = 0.1
LINE_BYTES = 65_536
DECLINE = "!"
HELP = f"{DECLINE} declines, with a reason if one follows; ctrl+c ends the call"


class AnswerDeclined(Exception):
    """The person does not want to answer; says why, if they said."""


class TerminalQuestions:
    """Asks the person at a terminal whatever waits in an inbox, which another thread may own."""

    def __init__(self, inbox: Inbox, run: Callable[[Callable[[], object]], object], terminal_fd: int) -> None:
        """`run` runs a function soon where the inbox is used; `terminal_fd` is where the person types."""
        self._inbox = inbox
        self._run = run
        self._fd = terminal_fd

    def attend(self) -> None:
        """Register the person with the inbox, and wait until that is done: a call that begins earlier would
        report that nobody can be asked.
        """
        is_present = threading.Event()

        def come() -> None:
            self._inbox.audience += 1
            is_present.set()

        self._run(come)
        is_present.wait()

    def ask_waiting(self) -> float:
        """Ask what waits, one after another; returns how many seconds that took.

        Raises: KeyboardInterrupt on ctrl+c.
        """
        began = time.monotonic()
        waiting = [each for each in self._inbox.questions() if each.state is QuestionState.WAITING]
        for question in reversed(waiting):
            self._ask(question)
        return time.monotonic() - began if waiting else 0.0

    def _ask(self, question: Question) -> None:
        print_message(f"{question.asker} asks ({HELP})")
        try:
            answers = [self._answer(question, page) for page in question.pages]
        except AnswerDeclined as declined:
            reason = str(declined)
            self._submit(question, lambda: self._inbox.decline(question.id, reason, "the terminal"))
        except TimeoutError:
            print_message("It needs no answer any more.")
        else:
            self._submit(question, lambda: self._inbox.answer(question.id, answers, "the terminal"))

    def _submit(self, question: Question, act: Callable[[], object]) -> None:
        """Submit an answer on the core's loop, and wait until it counts: the question is not asked again."""
        self._run(act)
        while self._waits(question):
            time.sleep(LOOK_S / 10)

    def _waits(self, question: Question) -> bool:
        known = (each for each in self._inbox.questions() if each.id == question.id)
        return any(each.state is QuestionState.WAITING for each in known)

    def _answer(self, question: Question, page: Page) -> Answer:
        """Ask one page until the answer fits. Raises: AnswerDeclined; TimeoutError when it has ended."""
        from mcpdesk.inbox.answers import problem

        for line in page_lines(page):
            print_message(line)
        while True:
            line = self._line(question).strip()
            if line.startswith(DECLINE):
                raise AnswerDeclined(line[1:].strip())
            answer = read_answer(page, line)
            if answer is None:
                raise AnswerDeclined
            if not (wrong := problem(page, answer)):
                return answer
            print_message(f"  {wrong}")

    def _line(self, question: Question) -> str:
        """What the person types. Raises: AnswerDeclined at the end of input; TimeoutError at its end."""
        os.write(2, b"> ")
        while not select.select([self._fd], [], [], LOOK_S)[0]:
            if not self._waits(question):
                os.write(2, b"\n")
                raise TimeoutError
        data = os.read(self._fd, LINE_BYTES)
        if not data:
            raise AnswerDeclined
        return data.decode("utf-8", "replace")


def page_lines(page: Page) -> list[str]:
    """A page as lines, its options numbered."""
    lines = [f"[{page.header}] {page.question}" if page.header else page.question]
    lines += [page.detail] if page.detail else []
    lines += [page.link, *oddities(page.link), "Open it yourself, then type y"] if page.link else []
    for number, option in enumerate(page.options, 1):
        lines.append(f"  {number}) {option.label}{f': {option.description}' if option.description else ''}")
    if page.options:
        how = "numbers, like 1,3" if page.multi_select else "a number"
        lines.append(f"Type {how}{', or your own words' if page.own_words else ''}.")
    default = " ".join((*page.default.selected, page.default.other)).strip()
    if default:
        lines.append(f"An empty line means: {default}")
    elif not page.is_required and not page.link:
        lines.append("An empty line passes it over.")
    return [clean(line) for line in lines]


def read_answer(page: Page, line: str) -> Answer | None:
    """The answer a line stands for; None when a link was not agreed to."""
    if page.link:
        return Answer() if line.casefold() in ("y", "yes") else None
    if not line:
        return page.default
    labels = [option.label for option in page.options]
    by_number = {str(number): label for number, label in enumerate(labels, 1)}
    parts = line.replace(",", " ").split()
    if all(part in by_number for part in parts):
        return Answer(tuple(dict.fromkeys(by_number[part] for part in parts)))
    named = next((label for label in labels if label.casefold() == line.casefold()), None)
    return Answer((named,)) if named is not None else Answer((), line)
