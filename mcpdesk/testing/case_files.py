"""Files of test cases: YAML or JSON lists, each entry a call and its expected outcome."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from mcpdesk.errors import DeskUserError
from mcpdesk.protocol.catalogue.bounded_yaml import YamlFault, load_yaml

SUFFIXES = frozenset({".yaml", ".yml", ".json"})
CASES = "cases"
"""Folder of the case files in a server folder."""
KINDS = ("tool", "resource", "prompt")
MAX_BYTES = 8 << 20
"""Maximum size of a case file in bytes."""
DEFAULT_TIMEOUT_S = 30.0
DECLINED = ("decline", "cancel")
"""Answers that decline a question."""
_QUESTION_KINDS = ("question", "elicitation", "sampling", "roots")


class Expectation(Struct, frozen=True):
    """Expected outcome of a call; omitted members are not checked."""

    text: str | None = None
    """Exact text."""
    contains: tuple[str, ...] = ()
    matches: tuple[str, ...] = ()
    """Regular expressions that must be found in the text."""
    structured: Any = None
    has_structured: bool = False
    """True if structured content must equal `structured`. The expected content may be null."""
    like: str | None = None
    """Text with placeholders such as `{{time}}` for values that vary."""
    structured_like: Any = None
    """Structured content with the same placeholders as `like`, or None if it is not checked."""
    schema: dict[str, Any] | None = None
    """Schema of the structured content. Without structured content, the text is parsed as JSON and checked.
    """
    uses_tool_schema: bool = False
    """True if the structured content must be valid for the output schema of the tool."""
    error: str | None = None
    """Text that the expected error contains, "" for any error, or None if no error is expected."""
    under_ms: float | None = None


class Case(Struct, frozen=True):
    """One call, the answers to its questions, and its expected outcome."""

    name: str
    kind: str
    """One of `KINDS`."""
    target: str
    """Name of the tool or the prompt, or URI of the resource."""
    arguments: dict[str, Any]
    answers: tuple[dict[str, Any], ...]
    """Answers in the order of the questions. Each answer has one of the keys question, elicitation, sampling
    and roots.
    """
    expect: Expectation
    timeout_s: float
    location: str
    """File and line."""


def find_cases(path: Path) -> list[Case]:
    """Return the cases of a file, or of all case files in a folder, in order of the file names. Raises:
    DeskUserError with file and line, and a description of what is allowed.
    """
    if not path.exists():
        raise DeskUserError(f"{path} does not exist.", "--cases names a case file, or a folder of them.")
    if path.is_file():
        return read_cases(path)
    files = [each for each in sorted(path.rglob("*")) if each.suffix in SUFFIXES]
    return [case for file in files for case in read_cases(file)]


def read_cases(file: Path) -> list[Case]:
    """Return the cases of one file. Raises: DeskUserError."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise DeskUserError(f"{file} cannot be read: {error.strerror}.") from None
    if len(data) > MAX_BYTES:
        raise DeskUserError(f"{file} has {len(data):,} bytes; the limit is {MAX_BYTES:,}.")
    try:
        text = data.decode("utf-8-sig")
        content = json.loads(text) if file.suffix == ".json" else load_yaml(text, _Loader, MAX_BYTES)
        entry_lines = _entry_lines(text)
    except UnicodeDecodeError:
        raise DeskUserError(f"{file} is not UTF-8.") from None
    except json.JSONDecodeError as error:
        raise DeskUserError(f"{file}:{error.lineno}: invalid JSON: {error.msg}.") from None
    except YamlFault as fault:
        location = f"{file}:{fault.line}" if fault.line else str(file)
        raise DeskUserError(f"{location}: invalid YAML: {fault}.") from None
    except (RecursionError, ValueError) as error:
        raise DeskUserError(f"{file}: invalid JSON: {str(error).partition(chr(10))[0]}.") from None
    if content is None:
        return []
    if not isinstance(content, list):
        hint = "Write one `- tool: NAME` for each case, with its arguments and `expect`."
        raise DeskUserError(f"{file}: the file must be a list of cases.", hint)
    return [_case(entry, f"{file}:{_line(entry_lines, index)}") for index, entry in enumerate(content)]


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """Loader for values that JSON can express. For example, a date stays a string."""


_Loader.yaml_implicit_resolvers = {
    first_character: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first_character, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _entry_lines(text: str) -> list[int]:
    """Return the line of each entry. Empty for JSON that is not YAML."""
    try:
        root = yaml.compose(text, _Loader)
    except (yaml.YAMLError, RecursionError):
        return []
    return [each.start_mark.line + 1 for each in root.value] if isinstance(root, yaml.SequenceNode) else []


def _line(entry_lines: list[int], index: int) -> int:
    return entry_lines[index] if index < len(entry_lines) else 1


def _case(entry: Any, location: str) -> Case:
    """Convert an entry of a case file to a case. Raises: DeskUserError."""
    fields = _CheckedObject(entry, location, "a case")
    kinds = [kind for kind in KINDS if kind in fields.values]
    if len(kinds) != 1:
        raise fields.error(f"a case has one of {', '.join(KINDS)}")
    kind = kinds[0]
    target = fields.member(kind, str)
    arguments = fields.member("arguments", dict, {})
    if kind == "resource" and arguments:
        raise fields.error("a resource has no arguments; they are part of its URI")
    answers = checked_answers(fields.member("answers", list, []), location)
    expect = _expectation(fields.member("expect", dict, {}), location)
    name = fields.member("name", str, "") or f"{kind} {target}"
    timeout_s = fields.number("timeout_s", DEFAULT_TIMEOUT_S)
    fields.refuse_unknown_keys(("name", *KINDS, "arguments", "answers", "expect", "timeout_s"))
    return Case(name, kind, target, arguments, answers, expect, timeout_s or DEFAULT_TIMEOUT_S, location)


def checked_answers(entries: list[Any], location: str) -> tuple[dict[str, Any], ...]:
    """Return the answers of a script. Raises: DeskUserError for an invalid answer."""
    return tuple(_answer(each, location) for each in entries)


def _answer(entry: Any, location: str) -> dict[str, Any]:
    fields = _CheckedObject(entry, location, "an answer")
    kinds = [kind for kind in _QUESTION_KINDS if kind in fields.values]
    if len(kinds) != 1:
        raise fields.error(f"an answer has one of {', '.join(_QUESTION_KINDS)}")
    kind = kinds[0]
    allowed = (kind, "answer") if kind == "question" else (kind,)
    if kind == "question":
        fields.check("question", fields.values["question"], str)
        if "answer" not in fields.values:
            raise fields.error('"answer" is missing')
    elif kind == "elicitation" and not isinstance(fields.values[kind], dict):
        if fields.values[kind] not in ("accept", *DECLINED):
            raise fields.error('"elicitation" must be an object of fields, or accept, decline or cancel')
    elif kind == "roots":
        fields.check("roots", fields.values["roots"], list)
    for key in set(fields.values) - set(allowed):
        raise fields.error(f'unknown key "{key}"; allowed: {", ".join(allowed)}')
    return dict(fields.values)


def _expectation(entry: dict[str, Any], location: str) -> Expectation:
    fields = _CheckedObject(entry, location, "expect")
    patterns = fields.texts("matches")
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as reason:
            raise fields.error(f'"matches": {pattern!r} is not a regular expression: {reason}') from None
    error = fields.values.get("error")
    if error is not None and error is not True and not isinstance(error, str):
        raise fields.error('"error" must be a text that the error contains, or true for any error')
    schema = fields.values.get("schema")
    if "schema" in fields.values and schema is not True and not isinstance(schema, dict):
        raise fields.error('"schema" must be a JSON Schema, or true for the output schema of the tool')
    if not isinstance(fields.values.get("like", ""), str):
        raise fields.error('"like" must be a text; for structured content, use "structured_like"')
    expectation = Expectation(
        text=fields.member("text", str, None),
        contains=fields.texts("contains"),
        matches=patterns,
        structured=fields.values.get("structured"),
        has_structured="structured" in fields.values,
        like=fields.member("like", str, None),
        structured_like=fields.values.get("structured_like"),
        schema=None if schema is True else schema,
        uses_tool_schema=schema is True,
        error="" if error is True else error,
        under_ms=fields.number("under_ms", None),
    )
    fields.refuse_unknown_keys(_EXPECTATION_KEYS)
    return expectation


_EXPECTATION_KEYS = (
    "text", "contains", "matches", "structured", "like", "structured_like", "schema", "error", "under_ms",
)  # fmt: skip


_TYPES: dict[type, str] = {str: "a text", dict: "an object", list: "a list"}


class _CheckedObject:
    """Members of one object of a case file. The methods check members and raise errors that name the
    position.
    """

    def __init__(self, entry: Any, location: str, noun: str) -> None:
        """`noun` names the object in errors, such as `a case`. Raises: DeskUserError for another value."""
        self._location = location
        self._noun = noun
        if not isinstance(entry, Mapping) or not all(isinstance(key, str) for key in entry):
            raise self.error(f"{noun} must be an object with names of fields")
        self.values = entry
        for path in _non_json_paths(entry):
            raise self.error(f'"{path}" has a value that JSON does not have')

    def error(self, message: str) -> DeskUserError:
        """Return an error with the position of the case."""
        return DeskUserError(f"{self._location}: {message}.")

    def check(self, key: str, value: Any, kind: type) -> None:
        """Check the type of a member's value. Raises: DeskUserError."""
        if not isinstance(value, kind):
            raise self.error(f'"{key}" must be {_TYPES[kind]}')

    def member(self, key: str, kind: type, *default: Any) -> Any:
        """Return a member, or the default if the member is missing and a default is given. Raises:
        DeskUserError if the member has another type than `kind`.
        """
        if default and key not in self.values:
            return default[0]
        self.check(key, self.values[key], kind)
        return self.values[key]

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a member that is one text or a list of texts."""
        value = self.values.get(key, [])
        value = value if isinstance(value, list) else [value]
        if not all(isinstance(each, str) for each in value):
            raise self.error(f'"{key}" must be a text or a list of texts')
        return tuple(value)

    def number(self, key: str, default: float | None) -> float | None:
        """Return a member that is a positive number."""
        value = self.values.get(key, default)
        if value is not default and (
            isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf
        ):
            raise self.error(f'"{key}" must be a number above 0')
        return value

    def refuse_unknown_keys(self, allowed: tuple[str, ...]) -> None:
        """Check that all members are allowed. Raises: DeskUserError for another member."""
        for key in self.values:
            if key not in allowed:
                raise self.error(f'{self._noun} has no key "{key}"; allowed: {", ".join(allowed)}')


def _non_json_paths(value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of values that JSON does not have: a non-string key, bytes, a set, infinity."""
    walk_value: Callable[[Any, str], Iterator[str]] = _non_json_paths
    if isinstance(value, Mapping):
        for key, member in value.items():
            member_path = f"{path}.{key}" if path else str(key)
            yield from walk_value(member, member_path) if isinstance(key, str) else [member_path]
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from walk_value(member, f"{path}[{index}]")
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield path
    elif not (value is None or isinstance(value, str | int | bool)):
        yield path
