"""`mcpdesk call` asks in the terminal if it has one, and otherwise reports at once that it has none."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pexpect
import pytest

from mcpdesk.cli.command_client import page_lines, read_answer
from mcpdesk.inbox.question import Answer, Option, Page
from tests.interop.test_bridge import official
from tests.support.folders import write
from tests.support.patience import WITHIN_S
from tests.support.terminal import Desk

if TYPE_CHECKING:
    from tests.cli.conftest import Run, Service

ROOT = Path(__file__).parents[2]
FILES = {
    "mcp.json": '{"name": "asks", "version": "1", "builtins": ["AskUserQuestion"]}',
    "tools/asks.py": """
        from mcpdesk import Context, Option, Page, SyncContext

        TEA = Page("Which tea?", options=(Option("green", "from Uji\\x1b]0;title\\x07"), Option("black")))

        async def tea(ctx: Context) -> str:
            question = await ctx.ask([TEA])
            if not question.answers:
                return f"{question.state}: {question.reason}"
            return " ".join((*question.answers[0].selected, question.answers[0].other)).strip()

        def plain_tea(ctx: SyncContext) -> str:
            '''Asks which tea.'''
            return ctx.ask([TEA]).answers[0].selected[0]

        async def form(ctx: Context) -> str:
            fields = {"name": {"type": "string", "minLength": 2}, "age": {"type": "integer"}}
            answer = await ctx.elicit("Who are you?", {"type": "object", "properties": fields})
            return f"{answer.action} {answer.content}"

        async def think(ctx: Context) -> str:
            return (await ctx.sample("What is tea?")).text
        """,
}


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(write(tmp_path / "asks", FILES))


class Typed:
    """The command in a pseudo-terminal."""

    def __init__(self, *arguments: str) -> None:
        environ = {**os.environ, "TERM": "xterm-256color"}
        self.process = pexpect.spawn(
            sys.executable, ["-m", "mcpdesk", "call", *arguments], cwd=str(ROOT), env=environ, timeout=120,
            encoding="utf-8", echo=False,
        )  # fmt: skip

    def sees(self, text: str) -> str:
        self.process.expect_exact(text)
        return str(self.process.before)

    def types(self, line: str) -> None:
        self.sees("> ")
        self.process.sendline(line)

    def ends(self) -> tuple[str, int | None]:
        self.process.expect(pexpect.EOF)
        said = str(self.process.before)
        self.process.close()
        return said.strip(), self.process.exitstatus


@pytest.fixture
def typed(folder: str) -> Iterator[Typed]:
    program = Typed(folder, "tea")
    yield program
    program.process.close(force=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("2", "black"),
        ("GREEN", "green"),
        ("mint, please", "mint, please"),
        ("! not now", "declined: not now"),
    ],
)
def test_a_choice_by_number_or_name_own_words_and_a_refusal(typed: Typed, line: str, result: str) -> None:
    shown = typed.sees("Type a number, or your own words.")
    assert "Which tea?" in shown and "1) green: from Uji" in shown and "2) black" in shown
    assert "\x1b]" not in shown and "\x07" not in shown
    typed.types(line)
    assert typed.ends() == (result, 0)


@pytest.mark.slow
def test_a_question_that_waits_on_a_desk_is_announced_in_the_terminal(folder: str) -> None:
    with Desk([folder, "--http", "0"], columns=110, rows=40) as desk:
        desk.see("http://127.0.0.1")  # commands can use its core now
        typed = Typed(folder, "tea")
        assert "e-0" not in typed.sees("waiting for an answer on the desk")
        typed.sees("press a there to answer. With --alone, it is asked here.")
        desk.see("(?s)waiting ([2-9]|\\d\\d) s.*Which tea")
        desk.press("1\r")
        said, code = typed.ends()
        assert said.endswith("green") and code == 0


@pytest.mark.slow
def test_ctrl_c_ends_the_call(typed: Typed) -> None:
    typed.sees("> ")
    typed.process.sendintr()
    assert typed.ends()[1] == 130


@pytest.mark.slow
def test_a_form_asks_again_for_what_does_not_fit(folder: str) -> None:
    typed = Typed(folder, "form")
    typed.types("A")
    typed.types("Ada")
    typed.types("thirty")
    typed.types("30")
    said, code = typed.ends()
    assert said.endswith("accept {'name': 'Ada', 'age': 30}") and code == 0


@pytest.mark.slow
def test_a_plain_function_and_the_built_in_tool_ask_there_too(folder: str) -> None:
    typed = Typed(folder, "plain-tea")
    typed.types("1")
    assert typed.ends() == ("green", 0)
    typed = Typed(folder, "AskUserQuestion", 'questions_json=[{"question": "Go?", "options": ["yes", "no"]}]')
    typed.types("2")
    said, code = typed.ends()
    assert "-> no" in said and code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "code", "text"),
    [
        ("tea", 1, "No person can answer"),
        ("plain-tea", 1, "No person can answer"),
        ("form", 4, "does not offer elicitation"),
    ],
)
def test_without_a_terminal_the_tool_is_told_at_once(
    folder: str, mcpdesk: Run, tool: str, code: int, text: str
) -> None:
    began = time.monotonic()
    done = mcpdesk("call", folder, tool)
    assert done.returncode == code and text in done.stdout + done.stderr
    assert time.monotonic() - began < WITHIN_S


@pytest.fixture
def stateless_url(folder: str, serve: Callable[..., Service]) -> str:
    return serve(folder, "--port", "0").says("serving asks at").rpartition(" ")[2]


@pytest.fixture
def session_url() -> Iterator[str]:
    with official("session", "/mcp") as url:
        yield url


@pytest.mark.slow
@pytest.mark.parametrize(("fixture", "tool"), [("stateless_url", "form"), ("session_url", "ask")])
def test_what_a_server_at_a_url_asks_is_answered_or_declined(
    request: pytest.FixtureRequest, fixture: str, tool: str
) -> None:
    url = request.getfixturevalue(fixture)
    typed = Typed(url, tool)
    shown = typed.sees("Who are you?")
    assert f"{tool} of {url} asks" in shown
    typed.types("Ada")
    if tool == "form":
        typed.types("30")
    said, code = typed.ends()
    assert (
        said.endswith("accept {'name': 'Ada', 'age': 30}" if tool == "form" else "accept Ada") and code == 0
    )
    typed = Typed(url, tool)
    typed.types("! no")
    said, code = typed.ends()
    assert said.startswith("decline") and code == 0


@pytest.mark.slow
def test_own_questions_of_a_tool_at_a_url_are_asked_as_well(stateless_url: str) -> None:
    typed = Typed(stateless_url, "tea")
    typed.types("2")
    typed.sees("in own words")
    typed.types("")
    said, code = typed.ends()
    assert said.endswith("black") and code == 0


@pytest.mark.slow
def test_the_person_writes_what_a_model_would_for_a_server_at_a_url(stateless_url: str) -> None:
    typed = Typed(stateless_url, "think")
    assert "user: What is tea?" in typed.sees("tokens")
    typed.types("A leaf.")
    said, code = typed.ends()
    assert said.endswith("A leaf.") and code == 0


@pytest.mark.slow
@pytest.mark.parametrize(("fixture", "tool"), [("stateless_url", "form"), ("session_url", "ask")])
def test_ctrl_c_ends_the_call_of_a_server_at_a_url(
    request: pytest.FixtureRequest, fixture: str, tool: str
) -> None:
    typed = Typed(request.getfixturevalue(fixture), tool)
    typed.sees("> ")
    typed.process.sendintr()
    said, code = typed.ends()
    assert code == 130 and "Traceback" not in said


@pytest.mark.slow
def test_timeout_of_a_call_at_a_url_does_not_run_while_a_question_waits(stateless_url: str) -> None:
    typed = Typed(stateless_url, "form", "--timeout", "4")
    typed.sees("> ")
    asked = time.monotonic()
    with pytest.raises(pexpect.TIMEOUT):
        typed.process.expect(pexpect.EOF, timeout=4.5)
    assert time.monotonic() - asked > 4
    typed.process.sendline("! no")
    assert typed.ends()[0].endswith("decline None")


@pytest.mark.slow
def test_server_at_a_url_is_told_at_once_that_there_is_no_terminal(
    stateless_url: str, session_url: str, mcpdesk: Run
) -> None:
    for url, tool, code in ((stateless_url, "tea", 1), (stateless_url, "form", 4), (session_url, "ask", 4)):
        done = mcpdesk("call", url, tool)
        assert (tool, done.returncode) == (tool, code), done.stdout
        assert "elicitation" in done.stdout + done.stderr or "Nobody" in done.stdout + done.stderr


BOTH = Page("Which?", options=(Option("a"), Option("b")), multi_select=True)


@pytest.mark.parametrize(
    ("page", "line", "answer"),
    [
        (BOTH, "2, 1", Answer(("b", "a"))),
        (BOTH, "1 1", Answer(("a",))),
        (BOTH, "3", Answer((), "3")),
        (BOTH, "1 and 2", Answer((), "1 and 2")),
        (Page("Age?"), "1", Answer((), "1")),
        (Page("Name?", default=Answer((), "Ada")), "", Answer((), "Ada")),
        (Page("Open?", link="https://example.org"), "y", Answer()),
        (Page("Open?", link="https://example.org"), "", None),
    ],
)
def test_a_line_is_an_answer(page: Page, line: str, answer: Answer | None) -> None:
    assert read_answer(page, line) == answer


def test_what_can_be_typed_is_said() -> None:
    assert page_lines(Page("Name?", "form", is_required=False)) == [
        "[form] Name?",
        "An empty line skips it.",
    ]
    assert page_lines(Page("Open?", link="http://example.org/x"))[1:] == [
        "http://example.org/x",
        "http: the connection is not encrypted",
        "Open it yourself, then type y",
    ]
    assert "Type numbers, like 1,3, or your own words." in page_lines(BOTH)
