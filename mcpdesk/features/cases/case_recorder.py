"""Recorder of calls as test cases: writes a file of cases for each server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import strftime
from typing import Any

from mcpdesk.feature import CaseRecorder, MenuLine
from mcpdesk.features.cases.recorded_cases import case_file, cases, recordable
from mcpdesk.inbox.question import Question, QuestionKind
from mcpdesk.recorder.index.exchange import Exchange
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.testing.case_files import CASES
from mcpdesk.tui.render.amounts import counted


def save_cases(
    index: Index, numbers: Sequence[int], folders: Mapping[str, str], questions: Sequence[Question]
) -> str:
    """Write the calls of each server to a file of test cases. Return a message with the command to run them.

    For a hosted server, the file is written to `cases/` in the server folder. For an upstream server, it is
    written to `cases/NAME/` in the working folder. `folders` has the folder of each hosted server, by name.
    Raises: OSError.
    """
    numbers_by_server = dict[str, list[int]]()
    for number in recordable(index, numbers):
        numbers_by_server.setdefault(index.exchange(number).server, []).append(number)
    messages = [
        _save_cases_of(index, server, call_numbers, folders.get(server, ""), questions)
        for server, call_numbers in numbers_by_server.items()
    ]
    no_cases = "No test case was written: none of these is an answered call of a client"
    return "; ".join(filter(None, messages)) or no_cases


def _save_cases_of(
    index: Index, server: str, numbers: Sequence[int], folder_path: str, questions: Sequence[Question]
) -> str:
    """Write the calls of one server, and return a message, or "" if no call can become a case.

    `folder_path` is the folder of a hosted server, or "".
    """
    case_lines = cases(index, numbers, partial(answers_of, questions))
    if not case_lines:
        return ""
    folder = folder_of(server, folder_path)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"recorded-{strftime('%Y%m%d-%H%M%S')}.json"
    with open(path, "xb", opener=partial(os.open, mode=0o600)) as file:
        file.writelines(case_file(case_lines))
    target = folder_path if _is_hosted_here(folder_path) else f"TARGET --cases {folder}"
    count = f"{counted(len(case_lines), 'test case')} of {counted(len(numbers), 'call')}"
    return f"{count} written to {path} · mcpdesk test {target}"


def folder_of(server: str, folder_path: str) -> Path:
    """Return the folder of the test cases of a server.

    `folder_path` is the folder of a hosted server, or "".
    """
    name = "".join(each if each.isalnum() or each in "-_" else "-" for each in server) or "server"
    return Path(folder_path) / CASES if _is_hosted_here(folder_path) else Path.cwd() / CASES / name


def _is_hosted_here(folder_path: str) -> bool:
    return bool(folder_path) and Path(folder_path).is_dir()


def answers_of(questions: Sequence[Question], call: Exchange) -> list[dict[str, Any]]:
    """Return a person's answers to the inbox questions of a call, in the format of a test case."""
    call_questions = sorted(
        (
            question
            for question in questions
            if (question.server, question.tool, question.peer) == (call.server, call.name, call.peer)
            and call.started <= question.asked <= (call.ended or 0.0)
            and question.kind is QuestionKind.QUESTION
        ),
        key=lambda question: question.asked,
    )
    return [answer for question in call_questions for answer in _page_answers(question)]


def _page_answers(question: Question) -> Iterator[dict[str, Any]]:
    if not question.answers:
        yield {"question": question.pages[0].question, "answer": "decline"}
    for page, answer in zip(question.pages, question.answers, strict=False):
        texts = [*answer.selected, *filter(None, [answer.other])]
        value = texts if page.multi_select else texts[0] if texts else ""
        yield {"question": page.question, "answer": value}


RECORDER = CaseRecorder(
    menu=MenuLine("test cases", "for mcpdesk test", "c"),
    menu_of_one=MenuLine("test case", "", "t"),
    recordable=recordable,
    cases=cases,
    case_file=case_file,
    folder=folder_of,
    save=save_cases,
)
