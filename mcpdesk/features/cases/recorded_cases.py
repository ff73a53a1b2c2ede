"""Recorded calls as test cases for `mcpdesk test`: request, client answers and expected result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any

import orjson

from mcpdesk.plain_text import json_escaped
from mcpdesk.protocol import codec
from mcpdesk.recorder.index.exchange import Exchange, ExchangeKind
from mcpdesk.recorder.index.traffic_index import Index, is_round, last_round
from mcpdesk.recorder.masking import MASK
from mcpdesk.recorder.readable_message import changed_request, message
from mcpdesk.recorder.record import Direction
from mcpdesk.recorder.varying_values import has_placeholder, longest_part, pattern_of, texts_in

_KINDS = {"tools/call": "tool", "prompts/get": "prompt", "resources/read": "resource"}
_MAX_EXPECTED_LENGTH = 4_000
"""Maximum length in characters of a text that a case expects completely.

If a text is longer, only a part of it is expected.
"""
_MIN_ERROR_LENGTH = 4
"""Minimum length in characters of an error text that a case expects."""
_INVALID_CHARACTER = re.compile(r"\W")


def recordable(index: Index, numbers: Iterable[int]) -> list[int]:
    """Return the exchanges that can become cases: calls of clients that are complete and have an answer."""
    return [number for number in numbers if _is_call(index.exchange(number))]


def _is_call(exchange: Exchange) -> bool:
    return (
        exchange.kind is ExchangeKind.REQUEST
        and exchange.direction is Direction.IN
        and exchange.method in _KINDS
        and exchange.part_of is None
        and exchange.ended is not None
    )


AnswerLookup = Callable[[Exchange], list[dict[str, Any]]]
"""Function that returns a person's answers to the questions of a call, in the order of the questions."""


def cases(index: Index, numbers: Iterable[int], answers_of: AnswerLookup = lambda call: []) -> list[bytes]:
    """Return calls as cases in JSON, with secrets masked.

    If several calls have the same request, only the last is used, because it shows what the code does now.
    `answers_of` returns answers that did not pass over the connection of the call.
    """
    case_lines: dict[bytes, bytes] = {}
    for number in recordable(index, numbers):
        if case := _case(index, index.exchange(number), answers_of):
            case_key = codec.dumps({key: case[key] for key in case if key != "expect"})
            case_lines.pop(case_key, None)  # the case moves to the end, because later calls may depend on it
            case_lines[case_key] = json_escaped(
                codec.dumps(case, option=orjson.OPT_INDENT_2).decode()
            ).encode()
    return list(case_lines.values())


def case_file(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a file with cases, in pieces."""
    yield b"[\n"
    yield b",\n".join(lines)
    yield b"\n]\n"


def _case(index: Index, exchange: Exchange, answers_of: AnswerLookup) -> dict[str, Any] | None:
    """Return a call as a case, or None if its request or response cannot be part of a case."""
    kind = _KINDS[exchange.method]
    params = _member(_received_request(index, exchange), "params")
    target = params.get("uri" if kind == "resource" else "name")
    final_round = last_round(index, exchange)
    request_texts = texts_in([target, params.get("arguments")])
    fixed_texts = frozenset(text for text in request_texts if MASK not in text)
    expect = _expectation(_message_object(index, final_round, final_round.response), fixed_texts)
    if not isinstance(target, str) or expect is None:
        return None
    case: dict[str, Any] = {"name": f"{kind} {target}", kind: target}
    if kind != "resource" and params.get("arguments"):
        case["arguments"] = _with_variables(params["arguments"])
    if answers := list(_answers(index, exchange)) or answers_of(exchange):
        case["answers"] = answers
    return case | {"expect": expect}


def _received_request(index: Index, exchange: Exchange) -> Mapping[str, Any]:
    """Return the request as the server received it, with changes made at the desk."""
    return changed_request(index, exchange) or _message_object(index, exchange, exchange.request)


def _with_variables(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Replace secret arguments with environment variables: `${API_KEY}` for `api_key`."""
    return {
        name: f"${{{_INVALID_CHARACTER.sub('_', name).upper()}}}"
        if isinstance(value, str) and MASK in value
        else value
        for name, value in arguments.items()
    }


def _expectation(response: Mapping[str, Any], fixed_texts: Set[str]) -> dict[str, Any] | None:
    """Return the expected result for a response, in the format of a case, or None.

    For a value that varies, only its form is expected. For a secret, any value is accepted. Texts of the
    request, in `fixed_texts`, do not vary.
    """
    if "error" in response:
        return {"error": _invariant_part(str(_member(response, "error").get("message", "")), fixed_texts)}
    if not isinstance(response.get("result"), dict):
        return None
    result = response["result"]
    if not {"content", "contents", "messages"} & result.keys():
        return None  # a task, or questions without answers
    text = _text(result)
    if result.get("isError"):
        return {"error": _invariant_part(text, fixed_texts)}
    if "structuredContent" in result:
        structured = result["structuredContent"]
        pattern = pattern_of(structured, fixed_texts)
        return {"structured_like": pattern} if has_placeholder(pattern) else {"structured": structured}
    if len(text) > _MAX_EXPECTED_LENGTH:
        return {"contains": _invariant_part(text, fixed_texts)}
    pattern = pattern_of(text, fixed_texts)
    return {"like": pattern} if has_placeholder(pattern) else {"text": text}


def _invariant_part(text: str, fixed_texts: Set[str]) -> Any:
    """Return the longest part of a text that does not vary, or True if that part is too short."""
    part = longest_part(pattern_of(text[:_MAX_EXPECTED_LENGTH], fixed_texts))
    return part if len(part) >= _MIN_ERROR_LENGTH or part == text else True


def _text(result: Mapping[str, Any]) -> str:
    """Return the text of a result in the form that `mcpdesk test` compares."""
    blocks = result.get("content") or result.get("contents") or ()
    if messages := result.get("messages"):
        blocks = [each.get("content") for each in messages if isinstance(each, dict)]
    return "\n".join(str(each["text"]) for each in blocks if isinstance(each, dict) and "text" in each)


def _answers(index: Index, operation: Exchange) -> Iterator[dict[str, Any]]:
    """Yield the answers that a client gave during a call, to requests of the server or in later rounds."""
    questions = _questions(_message_object(index, operation, operation.response))
    for part in map(index.exchange, operation.parts):
        if part.direction is Direction.OUT:
            response = _message_object(index, part, part.response)
            if "result" in response:
                yield from _answer(part.method, _member(response, "result"))
        elif is_round(part, operation):
            request = _message_object(index, part, part.request)
            responses = _member(_member(request, "params"), "inputResponses")
            for key, method in questions.items():
                if key in responses:
                    yield from _answer(method, _member(responses, key))
            questions = _questions(_message_object(index, part, part.response))


def _questions(response: Mapping[str, Any]) -> dict[str, str]:
    """Return the methods of the questions in a result, by key."""
    requests = _member(_member(response, "result"), "inputRequests")
    return {key: str(_member(requests, key).get("method", "")) for key in requests}


def _answer(method: str, result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a client's answer in the format of a case, or nothing for an unknown method."""
    if method == "elicitation/create":
        action = result.get("action", "cancel")
        content = result.get("content")
        yield {"elicitation": content if action == "accept" and isinstance(content, dict) else action}
    elif method == "sampling/createMessage":
        yield {"sampling": dict(result)}
    elif method == "roots/list":
        yield {"roots": list(result.get("roots") or ())}


def _message_object(index: Index, exchange: Exchange, frame: int | None) -> Mapping[str, Any]:
    """Return the message in a frame, or an empty mapping if it is missing or not an object."""
    value = message(index, exchange, frame).value if frame is not None else None
    return value if isinstance(value, dict) else {}


def _member(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a member that is an object, or an empty dictionary."""
    member = value.get(name)
    return member if isinstance(member, dict) else {}
