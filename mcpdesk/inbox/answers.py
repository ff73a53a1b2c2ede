"""Validation of answers against the pages of a question and the bounds of its fields."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from fractions import Fraction
from typing import Any, TypeGuard

from mcpdesk.inbox.question import Answer, Page, host_of
from mcpdesk.protocol.patterns import PatternMatch, compiled

MAX_TEXT_LENGTH = 65_536
"""Maximum characters of free text in one answer."""


def checked_answers(pages: Sequence[Page], answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """Return the answers with their labels in the order of the options.

    Raises: ValueError that names the page with an invalid answer.
    """
    if len(answers) != len(pages):
        raise ValueError(f"{len(pages)} pages need as many answers, not {len(answers)}")
    pairs = enumerate(zip(pages, answers, strict=True), 1)
    return tuple(_checked_answer(page_number, page, answer) for page_number, (page, answer) in pairs)


def problem(page: Page, answer: Answer) -> str:
    """Return the error in an answer to a page, or "" if the answer is valid."""
    labels = [option.label for option in page.options]
    unknown_labels = [label for label in answer.selected if label not in labels]
    if unknown_labels:
        return f"{unknown_labels[0]!r} is not an option"
    if len(set(answer.selected)) != len(answer.selected):
        return "an option is chosen twice"
    if len(answer.other) > MAX_TEXT_LENGTH:
        return f"free text is limited to {MAX_TEXT_LENGTH} characters"
    if page.link:
        return link_problem(page.link)
    text = answer.other.strip()
    choice_count = len(answer.selected) + bool(text)
    if choice_count == 0:
        return _missing_answer_problem(page) if page.is_required else ""
    if choice_count > 1 and not page.multi_select:
        return "only one choice is possible"
    if text and not page.own_words:
        return "only the given options can be chosen"
    return bounds_problem(page.rules, choice_count if page.multi_select else text or None)


def _missing_answer_problem(page: Page) -> str:
    if not page.options:
        return "write something"
    return "choose at least one option" + (" or write something" if page.own_words else "")


def _checked_answer(page_number: int, page: Page, answer: Answer) -> Answer:
    fault = problem(page, answer)
    if fault:
        raise ValueError(f"page {page_number}: {fault}")
    ordered_labels = tuple(option.label for option in page.options if option.label in answer.selected)
    return Answer(ordered_labels, answer.other.strip())


_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)*")
_INTEGER = re.compile(r"[+-]?\d{1,300}")
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")


def bounds_problem(rules: Mapping[str, Any], value: str | int | None) -> str:
    """Return the error in `value`, or "" if `value` is valid.

    `value` is the free text of an answer, the number of choices of a page with several choices, or None for
    one chosen option, which is always valid.
    """
    if isinstance(value, int):
        return _bound_problem(value, rules.get("minItems"), rules.get("maxItems"), "choose {}")
    if value is None:
        return ""
    if rules.get("type") in ("number", "integer"):
        return _number_problem(rules, value)
    length_problem = _bound_problem(
        len(value), rules.get("minLength"), rules.get("maxLength"), "{} characters"
    )
    is_of_format = _FORMATS.get(str(rules.get("format")))
    has_valid_format = is_of_format is None or is_of_format(value)
    format_problem = "" if has_valid_format else f"write {_EXAMPLES[rules['format']]}"
    return length_problem or format_problem or _pattern_problem(rules.get("pattern"), value)


def _pattern_problem(source: Any, text: str) -> str:
    """Return the error if a text does not match a pattern of a server.

    An invalid pattern matches any text. The server checks the answer itself, so a text that is too long for
    its pattern need not match.
    """
    pattern = compiled(source) if isinstance(source, str) else None
    if pattern is None or pattern.verdict(text) in (PatternMatch.MATCHES, PatternMatch.TOO_LONG):
        return ""
    return f"the text must match {source}"


def parsed_number(text: str) -> int | float | None:
    """Return the number that a text represents, or None."""
    if _INTEGER.fullmatch(text):
        return int(text)
    value = float(text) if _DECIMAL.fullmatch(text) else math.nan
    return value if math.isfinite(value) else None


def link_problem(link: str) -> str:
    """Return the reason why a link cannot be opened, or "" if the link is valid."""
    return "" if host_of(link) else "only http and https links can be opened"


def _number_problem(rules: Mapping[str, Any], text: str) -> str:
    """Return the error in the text of a number, or "" if it is within the bounds."""
    value = parsed_number(text)
    if value is None:
        return "write a number"
    if rules["type"] == "integer" and value != int(value):
        return "write a whole number"
    lower_bound, upper_bound = rules.get("exclusiveMinimum"), rules.get("exclusiveMaximum")
    step = rules.get("multipleOf")
    if _is_bound(lower_bound) and value <= lower_bound:
        return f"more than {lower_bound}"
    if _is_bound(upper_bound) and value >= upper_bound:
        return f"less than {upper_bound}"
    if _is_bound(step) and step > 0 and Fraction(str(value)) % Fraction(str(step)):
        return f"a multiple of {step}"
    return _bound_problem(value, rules.get("minimum"), rules.get("maximum"), "{}")


def _bound_problem(value: float, minimum: Any, maximum: Any, template: str) -> str:
    """Return the violated bound in words, formatted with `template`.

    Bounds that are not finite numbers are ignored.
    """
    if _is_bound(minimum) and value < minimum:
        return template.format(f"at least {minimum}")
    if _is_bound(maximum) and value > maximum:
        return template.format(f"at most {maximum}")
    return ""


def _is_bound(value: Any) -> TypeGuard[float]:
    """Return True for a finite number. A boolean is a number in Python but not in JSON Schema."""
    if isinstance(value, int):
        return not isinstance(value, bool)
    return isinstance(value, float) and math.isfinite(value)


def _accepted_by(parse: Callable[[str], object]) -> Callable[[str], bool]:
    """Return a function that returns True for each text that `parse` accepts without a ValueError."""

    def accepts(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return accepts


def _is_uri(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:\S+", text) is not None


def _parse_date(text: str) -> None:
    if len(text) != len("2026-07-28"):  # Python also parses other forms, such as 20260728
        raise ValueError(text)
    date.fromisoformat(text)


def _parse_date_time(text: str) -> None:
    if datetime.fromisoformat(text).tzinfo is None or "T" not in text.upper():
        raise ValueError(text)


_FORMATS: dict[str, Callable[[str], bool]] = {
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "uri": _is_uri,
    "date": _accepted_by(_parse_date),
    "date-time": _accepted_by(_parse_date_time),
}
_EXAMPLES = {
    "email": "an address like ada@example.org",
    "uri": "a URI like https://example.org/",
    "date": "a date like 2026-07-28",
    "date-time": "a date and time like 2026-07-28T12:00:00Z",
}
