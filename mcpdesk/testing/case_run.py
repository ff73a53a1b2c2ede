"""Runs test cases: makes the call, answers its questions, and compares the outcome with the expected one."""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import re
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.errors import CallError
from mcpdesk.recorder.varying_values import fits
from mcpdesk.testing.case_files import DECLINED, Case, Expectation

if TYPE_CHECKING:
    from mcpdesk.client.connection import Questions, ServerConnection

MAX_LINES = 60
"""Maximum number of lines of a difference that are shown."""


class CaseResult(Struct, frozen=True):
    """Outcome of a case."""

    case: Case
    failures: tuple[str, ...]
    """Differences from the expected outcome, or an empty tuple if the case passed."""
    duration_ms: float
    logged: tuple[str, ...] = ()
    """Lines that the server logged and printed during the case, including tracebacks."""


class ScriptedAnswers:
    """Answers the questions of a server from the script of the current case.

    An answer of the script either has the key `elicitation`, `sampling` or `roots`, which is the kind of the
    question, or the keys `question` and `answer`, for a field of a form.
    """

    def __init__(self) -> None:
        self._script: deque[dict[str, Any]] = deque()
        self.failures: list[str] = []
        """Messages about questions without an answer in the script."""

    def begin(self, script: Sequence[dict[str, Any]]) -> None:
        """Start with a new script."""
        self._script = deque(script)
        self.failures = []

    def unused_answers(self) -> list[str]:
        """Return messages about the answers in the script for which no question was asked."""
        return [f"no question was asked for this answer: {_short(each)}" for each in self._script]

    def handlers(self) -> Questions:
        """Return the question handlers for a connection."""
        return {
            "elicitation/create": self._elicit,
            "sampling/createMessage": self._sample,
            "roots/list": self._roots,
        }

    async def _elicit(self, params: dict[str, Any], subject: str) -> dict[str, Any]:
        form_message = str(params.get("message", ""))
        if self._is_next("question"):
            return self._fill(form_message, params.get("requestedSchema") or {})
        answer = self._next("elicitation", form_message, "decline")
        if isinstance(answer, str):
            return {"action": answer}
        return {"action": "accept", "content": answer}

    def _fill(self, form_message: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Fill a form with the next answers of the script, as long as their questions match fields of the
        form.
        """
        fields: dict[str, Any] = dict(schema.get("properties") or {})
        content = dict[str, Any]()
        while self._is_next("question"):
            question, answer = str(self._script[0]["question"]), self._script[0]["answer"]
            empty_fields = {name: field for name, field in fields.items() if name not in content}
            matching_fields = _matching_fields(question, form_message, empty_fields)
            if not matching_fields:
                break
            self._script.popleft()
            is_choice = any(answer in _choices(field) for field in matching_fields.values())
            if answer in DECLINED and not is_choice:
                return {"action": answer}
            content |= _form_content(matching_fields, fields, answer)
        if not content:
            self.failures.append(f"the next answer does not match the question: {form_message}")
            return {"action": "decline"}
        return {"action": "accept", "content": content}

    async def _sample(self, params: dict[str, Any], subject: str) -> dict[str, Any]:
        messages = params.get("messages") or [{}]
        answer = self._next("sampling", _short(messages[-1]), "")
        if isinstance(answer, dict):
            return answer
        content = {"type": "text", "text": str(answer)}
        return {"role": "assistant", "content": content, "model": "scripted", "stopReason": "endTurn"}

    async def _roots(self, params: dict[str, Any], subject: str) -> dict[str, Any]:
        answer = self._next("roots", "roots/list", [])
        return {"roots": [each if isinstance(each, dict) else {"uri": str(each)} for each in answer]}

    def _is_next(self, kind: str) -> bool:
        return bool(self._script) and kind in self._script[0]

    def _next(self, kind: str, question_text: str, default: Any) -> Any:
        if self._is_next(kind):
            return self._script.popleft()[kind]
        self.failures.append(f"the case has no answer to a question ({kind}): {question_text}")
        return default


def _matching_fields(question: str, form_message: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields whose texts match a question. If only the message of the form matches, return all
    fields.
    """
    folded_question = question.casefold()
    matching_fields = {
        name: field
        for name, field in fields.items()
        if any(
            folded_question in str(each).casefold()
            for each in (name, field.get("title"), field.get("description"))
        )
    }
    return matching_fields or (dict(fields) if folded_question in form_message.casefold() else {})


def _form_content(
    matching_fields: Mapping[str, Any], all_fields: Mapping[str, Any], answer: Any
) -> dict[str, Any]:
    """Return the form content for an answer to the question of some fields.

    A multiple choice may consist of one checkbox for each option. An answer that is not an option is written
    to the field for free text.
    """
    values = answer if isinstance(answer, list) else [answer]
    first_name, first_field = next(iter(matching_fields.items()))
    are_checkboxes = all(each.get("type") == "boolean" for each in matching_fields.values())
    if are_checkboxes and not isinstance(answer, bool):
        titles = {each.get("title", name): name for name, each in matching_fields.items()}
        content: dict[str, Any] = {titles[each]: True for each in values if each in titles}
        free_texts = [str(each) for each in values if each not in titles]
        free_text_name = f"{first_name.rpartition('_')[0]}_other"
    else:
        choices = _choices(first_field)
        free_texts = [str(answer)] if choices and answer not in choices else []
        content = {} if free_texts else {first_name: answer}
        free_text_name = f"{first_name}_other"
    if free_texts:
        content[free_text_name if free_text_name in all_fields else first_name] = ", ".join(free_texts)
    return content or dict.fromkeys(matching_fields, False)


def _choices(field: Mapping[str, Any]) -> list[Any]:
    titled_values = [each.get("const") for each in field.get("oneOf") or () if isinstance(each, dict)]
    return [*(field.get("enum") or ()), *titled_values]


class CallAnswer(Struct, frozen=True):
    """Outcome of a call."""

    text: str = ""
    """Text contents, separated by line breaks."""
    structured: Any = None
    error: str | None = None
    """Error message, or None."""
    output_schema: dict[str, Any] | None = None
    """Output schema of the called tool, or None if it has none."""


async def run_case(case: Case, connection: ServerConnection, answers: ScriptedAnswers) -> CaseResult:
    """Make the call of a case and compare its outcome. Never raises for errors of the server."""
    start = time.perf_counter()
    answer = await make_call(case, connection, answers)
    duration_ms = (time.perf_counter() - start) * 1000
    failures = [*answers.failures, *differences(case.expect, answer), *answers.unused_answers()]
    if case.expect.under_ms is not None and duration_ms > case.expect.under_ms:
        failures.append(f"it took {duration_ms:.0f} ms, expected under {case.expect.under_ms:g}")
    return CaseResult(case, tuple(failures), duration_ms)


async def make_call(case: Case, connection: ServerConnection, answers: ScriptedAnswers) -> CallAnswer:
    """Make the call of a case and answer its questions. Never raises for errors of the server."""
    answers.begin(case.answers)
    arguments, unset_names = with_variables(case.arguments)
    if unset_names:
        return CallAnswer(error=f"the case needs the environment variable {unset_names[0]}, which is not set")
    case = replace(case, arguments=arguments)
    try:
        async with asyncio.timeout(case.timeout_s):
            return await _send(case, connection)
    except TimeoutError:
        return CallAnswer(error=f"no answer within {case.timeout_s:g} s")
    except CallError as error:
        return CallAnswer(error=str(error))


_VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")


def with_variables(value: Any) -> tuple[Any, list[str]]:
    """Replace texts `${NAME}` in a JSON value by environment variables. Return the new value, and the names
    of the variables that are not set.
    """
    unset_names = list[str]()

    def replace_variables(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: replace_variables(each) for key, each in item.items()}
        if isinstance(item, list):
            return [replace_variables(each) for each in item]
        if not isinstance(item, str) or (match := _VARIABLE.fullmatch(item)) is None:
            return item
        if (variable_value := os.environ.get(match[1])) is None:
            unset_names.append(match[1])
        return variable_value

    return replace_variables(value), unset_names


async def _send(case: Case, connection: ServerConnection) -> CallAnswer:
    """Send the request of a case. Raises: CallError."""
    if case.kind == "resource":
        result = await connection.result("resources/read", {"uri": case.target})
        return CallAnswer(_joined_text(result.get("contents")))
    method = "prompts/get" if case.kind == "prompt" else "tools/call"
    result = await connection.result(method, {"name": case.target, "arguments": case.arguments})
    if case.kind == "prompt":
        messages = result.get("messages") or ()
        return CallAnswer(_joined_text([each.get("content") for each in messages if isinstance(each, dict)]))
    text = _joined_text(result.get("content"))
    error = (text or "an error") if result.get("isError") else None
    schema = connection.tools.get(case.target, {}).get("outputSchema")
    return CallAnswer(
        text, result.get("structuredContent"), error, schema if isinstance(schema, dict) else None
    )


def _joined_text(blocks: Any) -> str:
    texts = [each["text"] for each in blocks or () if isinstance(each, dict) and "text" in each]
    return "\n".join(map(str, texts))


def differences(expect: Expectation, answer: CallAnswer) -> Iterator[str]:
    """Yield a message for each difference from the expected outcome."""
    if answer.error is not None and expect.error is None:
        yield f"it failed: {answer.error}"
        return
    if expect.error is not None:
        if answer.error is None:
            condition = f" with {expect.error!r}" if expect.error else ""
            yield f"expected an error{condition}, got: {answer.text!r:.200}"
        elif expect.error not in answer.error:
            yield f"expected an error with {expect.error!r}, got: {answer.error}"
    text = answer.text if answer.error is None else answer.error
    if expect.text is not None and expect.text != text:
        yield "\n".join(["the text differs (- expected, + actual):", *_difference(expect.text, text)])
    for part in expect.contains:
        if part not in text:
            yield f"expected {part!r} in the text: {text!r:.400}"
    for pattern in expect.matches:
        if not re.search(pattern, text, re.MULTILINE):
            yield f"expected the text to match {pattern!r}: {text!r:.400}"
    if expect.has_structured and expect.structured != answer.structured:
        difference = _difference(_pretty(expect.structured), _pretty(answer.structured))
        yield "\n".join(["the structured content differs (- expected, + actual):", *difference])
    if expect.like is not None and not fits(expect.like, text):
        difference = _difference(expect.like, text)
        yield "\n".join(["the text does not match `like` (- expected, + actual):", *difference])
    if expect.structured_like is not None and not fits(expect.structured_like, answer.structured):
        difference = _difference(_pretty(expect.structured_like), _pretty(answer.structured))
        heading = "the structured content does not match `structured_like` (- expected, + actual):"
        yield "\n".join([heading, *difference])
    if expect.schema is not None:
        yield from _schema_failures(expect.schema, answer)
    if expect.uses_tool_schema and answer.error is None:
        yield from _tool_schema_failures(answer)


def _tool_schema_failures(answer: CallAnswer) -> Iterator[str]:
    if answer.output_schema is None:
        yield "expected a tool with an output schema"
    elif answer.structured is None:
        yield "expected structured content, because the tool has an output schema"
    else:
        yield from _schema_failures(answer.output_schema, answer, "the output schema")


def _schema_failures(schema: dict[str, Any], answer: CallAnswer, name: str = "the schema") -> Iterator[str]:
    """Yield the violations of a schema. Without structured content, the text is parsed as JSON."""
    from mcpdesk.server.schemas.validation import SchemaError, compile_schema

    value = answer.structured
    if value is None:
        try:
            value = json.loads(answer.text)
        except ValueError:
            yield "the schema needs structured content, or a text that is JSON"
            return
    try:
        failures = compile_schema(schema).failures(value)
    except SchemaError as error:
        yield f"{name} cannot be used: {error}"
        return
    for each in failures:
        path = ".".join(map(str, each.path))
        yield f"{name}: {path}: {each.message}" if path else f"{name}: {each.message}"


def _difference(expected: str, actual: str) -> list[str]:
    lines = [
        line
        for line in difflib.ndiff(expected.splitlines() or [""], actual.splitlines() or [""])
        if not line.startswith("? ")
    ]
    omission = [f"  … {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else []
    return [*(f"  {line}" for line in lines[:MAX_LINES]), *omission]


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:200]
