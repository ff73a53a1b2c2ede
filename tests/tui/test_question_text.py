"""Questions as text, links in it, and the line that announces one."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace
from textual.app import App, ComposeResult

from mcpdesk.inbox.question import (
    Answer,
    Approval,
    Option,
    Page,
    Question,
    QuestionKind,
    QuestionState,
    link_warnings,
)
from mcpdesk.link.values import QUIET_S, ClientView
from mcpdesk.tui.forms.question_text import (
    QuestionBanner,
    absence_reason,
    announcement_line,
    link_text,
    outcome_line,
    plain_text,
)
from tests.support.driven import driven
from tests.support.fake_link import sample_questions

NOON = time.mktime((2026, 7, 28, 12, 0, 0, 0, 0, -1))
PAGES = (
    Page("Which?", "Storage", (Option("a", "the [red]first[/red]"), Option("b\x1b[31m"))),
    Page("What else?", "", (Option("c"), Option("d")), multi_select=True),
)
ASKED = Question(1, "shop", "client", "AskUserQuestion", PAGES, NOON, NOON + 600)


def test_a_waiting_question_says_until_when() -> None:
    assert outcome_line(ASKED) == "waiting until 12:10:00"


def test_an_answer_is_marked_in_its_page() -> None:
    answers = (Answer(("a",)), Answer(("d",), "more"))
    answered = replace(
        ASKED, state=QuestionState.ANSWERED, answers=answers, answered_by="desk", ended=NOON + 61
    )
    assert plain_text(answered).splitlines() == [
        "Which?  [Storage]",
        "  (•) a  the [red]first[/red]",
        "  ( ) b␛[31m",
        "",
        "What else?",
        "  [ ] c",
        "  [x] d",
        "  [x] more",
        "",
        "answered by desk after 1 min, at 12:01:01",
    ]


def test_a_form_has_its_question_once() -> None:
    pages = (Page("Book a table", "Name"), Page("Book a table", "Guests", detail="1 to 8"))
    answers = (Answer(other="Ada"), Answer(other="2"))
    form = replace(ASKED, pages=pages, is_form=True, answers=answers, state=QuestionState.ANSWERED)
    assert plain_text(form).splitlines()[:7] == [
        "Book a table",
        "",
        "Name",
        "  (•) Ada",
        "",
        "Guests",
        "1 to 8",
    ]


def test_what_was_read_and_the_link_are_told() -> None:
    pages = (Page("Sign in", detail="once a day", link="https://example.org/\x1b"),)
    assert plain_text(replace(ASKED, pages=pages)).splitlines()[:3] == [
        "Sign in",
        "once a day",
        "https://example.org/␛",
    ]


def test_a_reason_is_told() -> None:
    ended = replace(ASKED, state=QuestionState.WITHDRAWN, reason="client gone", ended=NOON + 5)
    assert outcome_line(ended) == "withdrawn after 5 s, at 12:00:05: client gone"


APPROVAL = Page(
    "May client call Bash?", "", tuple(Option(each) for each in Approval), detail="command: ls\n-la"
)
APPROVED = replace(
    ASKED, pages=(APPROVAL,), tool="Bash", kind=QuestionKind.APPROVAL, ended=NOON + 5, answered_by="desk"
)


def test_an_approval_is_allowed_or_denied() -> None:
    allowed = replace(APPROVED, state=QuestionState.ANSWERED, answers=(Answer((Approval.ALWAYS,)),))
    denied = replace(APPROVED, state=QuestionState.DECLINED, reason="no")
    refused = replace(APPROVED, state=QuestionState.ANSWERED, answers=(Answer((Approval.DENY,)),))
    assert outcome_line(allowed) == "allowed by desk after 5 s, at 12:00:05"
    assert outcome_line(denied) == "denied by desk after 5 s, at 12:00:05: no"
    assert outcome_line(refused).startswith("denied by desk")
    assert "(•) always for this peer" in plain_text(allowed) and "command: ls" in plain_text(allowed)


def test_a_copied_approval_has_its_secrets_masked() -> None:
    page = replace(APPROVAL, detail="command: TOKEN=planted ls")
    assert "command: TOKEN=•••• ls" in plain_text(replace(ASKED, pages=(page,), kind=QuestionKind.APPROVAL))


def test_what_is_announced_is_one_line() -> None:
    assert announcement_line(ASKED) == "client asks: Which?"
    assert announcement_line(replace(ASKED, core="web-2")) == "client on web-2 asks: Which?"
    assert announcement_line(APPROVED) == "May client call Bash? command: ls⏎-la"


def test_of_two_clients_of_one_name_the_one_that_asks_counts() -> None:
    asked = replace(ASKED, connection=1)
    first = ClientView(1, "shop", "client", "http", "2025-11-25", NOON, 1, 0)
    second = replace(first, connection=2)
    assert absence_reason(asked, (first, second), NOON) == ""
    assert absence_reason(asked, (second,), NOON) == "has left"
    assert absence_reason(asked, (replace(first, seen=NOON, left=NOON), second), NOON) == "has left"
    quiet = replace(first, seen=NOON)
    assert absence_reason(asked, (quiet, second), NOON + QUIET_S) == ""
    assert absence_reason(asked, (quiet, second), NOON + 840) == "quiet 14 min"
    assert absence_reason(replace(asked, core="web-2"), (first, second), NOON) == "", (
        "its clients are not seen"
    )
    assert absence_reason(replace(asked, state=QuestionState.WITHDRAWN), (), NOON) == ""


def test_a_client_that_may_come_back_by_another_connection_is_known_by_its_name() -> None:
    other = ClientView(9, "shop", "client", "http", "2026-07-28", NOON, 1, 0)
    assert absence_reason(ASKED, (other,), NOON) == ""
    assert absence_reason(ASKED, (replace(other, server="else"),), NOON) == "has left"
    assert absence_reason(replace(ASKED, peer="desk"), (), NOON) == ""


def emphasised(link: str) -> list[str]:
    shown = link_text(link)
    return [shown.plain[span.start : span.end] for span in shown.spans]


@pytest.mark.parametrize(
    ("link", "host"),
    [
        ("https://example.org/in?next=https://other.org/", "example.org"),
        ("https://example.org@evil.org:8080/in", "evil.org:8080"),
        ("https://[::1]:80/", "[::1]:80"),
    ],
)
def test_the_host_stands_out_in_the_whole_link(link: str, host: str) -> None:
    assert link_text(link).plain == link
    assert emphasised(link) == [host]


def test_no_host_stands_out_in_other_links_and_controls_are_shown() -> None:
    assert emphasised("javascript:alert(1)") == []
    assert link_text("https://example.org/\x1b[31m\n").plain == "https://example.org/␛[31m⏎"


@pytest.mark.parametrize(
    ("link", "told"),
    [
        ("https://example.org/", []),
        ("http://localhost:3000/", []),
        ("http://example.org/", ["not encrypted"]),
        ("https://xn--e1afmkfd.org/", ["look like others"]),
        ("https://exаmple.org/", ["look like others"]),
        ("https://bank.org@evil.org/", ["not the host"]),
        ("file:///etc/passwd", ["not a web link"]),
    ],
)
def test_what_is_odd_is_said(link: str, told: list[str]) -> None:
    said = list(link_warnings(link))
    assert len(said) == len(told) and all(part in one for part, one in zip(told, said, strict=True))


QUESTION = sample_questions(0.0)[0]


class BannerApp(App[None]):
    """A banner alone."""

    def compose(self) -> ComposeResult:
        yield QuestionBanner()


async def test_banner_says_who_asks_what_and_how_to_answer() -> None:
    app = BannerApp()
    async with driven(app, size=(100, 5)) as pilot:
        banner = app.query_one(QuestionBanner)
        assert not banner.display
        assert banner.announce(QUESTION) and not banner.announce(QUESTION)
        await pilot.pause()
        text = banner.render().plain
        assert (
            banner.display
            and "claude-code 2.1 asks: Which database" in text
            and text.rstrip().endswith("F2 to answer")
        )
        assert banner.announce(replace(QUESTION, id=8, pages=(Page("\x1b[31m[b]?"),)))
        assert "␛[31m[b]?" in banner.render().plain
        assert not banner.announce(None)
        await pilot.pause()
        assert not banner.display


def test_the_tool_that_asks_is_named_whoever_calls_it() -> None:
    asked = replace(QUESTION, server="shop", tool="refund", peer="curl 7.88.1")
    assert announcement_line(asked).startswith("refund for curl 7.88.1 asks: Which database")
    assert announcement_line(replace(asked, peer="desk")).startswith("refund of shop asks: Which database")


async def test_an_approval_is_announced_with_its_arguments_as_far_as_there_is_room() -> None:
    app = BannerApp()
    page = Page("May cursor 1 call Bash?", detail="command: " + "x" * 200)
    async with driven(app, size=(80, 5)) as pilot:
        banner = app.query_one(QuestionBanner)
        banner.announce(replace(QUESTION, kind=QuestionKind.APPROVAL, pages=(page,)))
        await pilot.pause()
        text = banner.render().plain
        assert text.startswith(" ? May cursor 1 call Bash? command: xxx") and "…" in text
        assert text.rstrip().endswith("F2 to answer")
