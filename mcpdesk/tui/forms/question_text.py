"""Questions as text: in full, as a line, their links, and the banner that announces one."""

from __future__ import annotations

import time
import webbrowser
from collections.abc import Iterable
from urllib.parse import urlsplit

from textual.app import App
from textual.content import Content

from mcpdesk.inbox.question import Answer, Page, Question, QuestionKind, QuestionState, host_of
from mcpdesk.link.values import ClientView, Presence
from mcpdesk.recorder.masking import mask_text
from mcpdesk.tui.render.amounts import since
from mcpdesk.tui.render.safe_text import clean, one_line
from mcpdesk.tui.widgets.part_line import LinePart, PartLine

DESK = "desk"
"""Peer name of the desk's own calls."""
_ASK_TOOL = "AskUserQuestion"
"""Built-in tool whose only purpose is to ask the person."""


def question_content(question: Question) -> Content:
    """Return all pages with their options, selections marked, and the outcome of the question.

    The pages of a form share one question, which is shown once, above the fields.
    """
    pages = question.pages
    answers = question.answers or tuple(Answer() for _ in pages)
    titles = [page.header if question.is_form else page.question for page in pages]
    headers = ["" if question.is_form else page.header for page in pages]
    parts = zip(pages, titles, headers, answers, strict=False)
    blocks = [_page_content(page, title, header, answer) for page, title, header, answer in parts]
    if question.is_form:
        blocks.insert(0, Content.styled(clean(pages[0].question), "bold"))
    return Content("\n\n").join([*blocks, Content.styled(outcome_line(question), "$text-muted")])


def absence_reason(question: Question, clients: Iterable[ClientView], now: float) -> str:
    """Return the reason why the client of a waiting question is absent: `has left` or `quiet 14 min`.

    Return "" if the client is present, or if no client of the question's core is known here. A client without
    a lasting connection is identified by its name. `now` is Unix time in seconds.
    """
    clients = list(clients)
    if question.core and all(client.core != question.core for client in clients):
        return ""
    if question.peer == DESK or question.state is not QuestionState.WAITING:
        return ""
    if question.connection:
        matching_clients = [client for client in clients if client.connection == question.connection]
    else:
        matching_clients = [
            client for client in clients if (client.server, client.name) == (question.server, question.peer)
        ]
    clients_by_presence = {client.presence(now): client for client in matching_clients}
    if Presence.CONNECTED in clients_by_presence:
        return ""
    quiet_client = clients_by_presence.get(Presence.QUIET)
    return "has left" if quiet_client is None else f"quiet {since(now - (quiet_client.seen or now))}"


def announcement_line(question: Question) -> str:
    """Return the question as one line. The line of an approval contains the arguments of the call."""
    page = question.pages[0]
    if question.kind is QuestionKind.APPROVAL:
        return one_line(f"{page.question} {page.detail}")
    return one_line(f"{asker(question, 32)} asks: {page.question}")


def asker(question: Question, max_length: int = 40) -> str:
    """Return the tool, client and core that ask a question. For an approval, return the calling client.

    The built-in tool `AskUserQuestion` is left out.
    """
    core_note = f" on {one_line(question.core, 24)}" if question.core else ""
    is_tool_shown = question.kind is QuestionKind.QUESTION and question.peer != DESK
    has_tool = is_tool_shown and question.tool not in ("", _ASK_TOOL)
    tool = f"{one_line(question.tool, 24)} for " if has_tool else ""
    return f"{tool}{one_line(question.asker, max_length)}{core_note}"


def plain_text(question: Question) -> str:
    """Return the full question without styles, for the clipboard. Secrets of an approval are masked."""
    text = question_content(question).plain
    return mask_text(text) if question.kind is QuestionKind.APPROVAL else text


def outcome_line(question: Question) -> str:
    """Return the outcome or the deadline: `answered by desk after 12 s, at 12:03:40`."""
    if question.state is QuestionState.WAITING:
        return f"waiting until {_time_of_day(question.deadline)}"
    answerer = f" by {one_line(question.answered_by, 30)}" if question.answered_by else ""
    time_note = ""
    if question.ended is not None:
        time_note = f" after {since(question.ended - question.asked)}, at {_time_of_day(question.ended)}"
    reason = f": {clean(question.reason)}" if question.reason else ""
    return f"{question.word}{answerer}{time_note}{reason}"


def _page_content(page: Page, title: str, header: str, answer: Answer) -> Content:
    header_note = f"  [{one_line(header, 30)}]" if header else ""
    lines = [Content.assemble((clean(title), "bold"), (header_note, "$text-accent"))]
    if page.detail:
        lines.append(Content.styled(clean(page.detail), "$text-muted"))
    if page.link:
        lines.append(link_text(page.link))
    for option in page.options:
        is_chosen = option.label in answer.selected
        description = f"  {clean(option.description, newlines=False)}" if option.description else ""
        label = (clean(option.label), "bold $text-success" if is_chosen else "")
        lines.append(Content.assemble(f"  {mark(page, is_chosen)} ", label, (description, "$text-muted")))
    if answer.other:
        free_answer = (clean(answer.other), "bold $text-success")
        lines.append(Content.assemble(f"  {mark(page, True)} ", free_answer))
    return Content("\n").join(lines)


def mark(page: Page, is_chosen: bool) -> str:
    """Return the glyph before an option."""
    if page.multi_select:
        return "[x]" if is_chosen else "[ ]"
    return "(•)" if is_chosen else "( )"


def _time_of_day(moment: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(moment))


def link_text(link: str) -> Content:
    """Return a link with its host emphasised, so that its destination is visible."""
    if not host_of(link):
        return Content(clean(link, newlines=False))
    netloc = urlsplit(link).netloc
    host = netloc.rpartition("@")[2]
    before_netloc, _, after_host = link.partition(netloc)
    before_host = before_netloc + netloc.removesuffix(host)
    return Content.assemble(
        clean(before_host, newlines=False),
        (clean(host, newlines=False), "bold underline $text-accent"),
        clean(after_host, newlines=False),
    )


class QuestionBanner(PartLine):
    """Line that announces a question while the person is typing. At other times, it is hidden."""

    DEFAULT_CSS = """
    QuestionBanner { display: none; background: $warning; color: $background; text-style: bold; }
    QuestionBanner.-on { display: block; }
    QuestionBanner:ansi { background: ansi_yellow; color: ansi_black; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._announced_id: int | None = None

    def announce(self, question: Question | None) -> bool:
        """Announce a question, or hide the line if it is None.

        Return True if the question differs from the last announced one.
        """
        self.set_class(question is not None, "-on")
        if question is None:
            return False
        is_new, self._announced_id = question.id != self._announced_id, question.id
        keys = Content(" F2 to answer ")
        max_width = self.screen.size.width - keys.cell_length
        announcement = Content(one_line(f" ? {announcement_line(question)} ", max_width))
        action = "screen.open_question"
        self.show(
            [LinePart(announcement, action, "Answer", rank=1), LinePart(keys, action, rank=9, right=True)]
        )
        return is_new


async def open_link(app: App[None], link: str, fallback_hint: str = "y copies the link") -> None:
    """Open a link in a browser, or show why it cannot be opened."""
    if not host_of(link):
        app.notify("Only http and https links are opened.", severity="error", markup=False)
    elif app.is_web:
        app.open_url(link)
    elif not _opens_window():
        message = f"Cannot open a browser here: {fallback_hint}."
        app.notify(message, severity="warning", markup=False)
    else:
        app.run_worker(lambda: webbrowser.open(link), thread=True, group="browser")
        app.notify("Opening the link in the browser.", markup=False)


def _opens_window() -> bool:
    """Return True if the browser opens a window of its own. Other browsers would use the terminal."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    return type(browser) is not webbrowser.GenericBrowser
