"""YAML of strangers in every place that loads some: bombs are refused with file and line, and at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from mcpdesk.errors import DeskUserError, RegistrationError
from mcpdesk.protocol.catalogue.bounded_yaml import (
    MAX_ALIASED_VALUES,
    MAX_DEPTH,
    MAX_DIGITS,
    YamlFault,
    load_yaml,
)
from mcpdesk.protocol.catalogue.front_matter import read_document, verbatim_fields
from mcpdesk.testing.case_files import read_cases

ALIASES = "\n".join(
    [
        "a0: &a0 [x, x, x, x, x, x, x, x, x]",
        *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)),
    ]
)
MERGES = "\n".join(
    ["a0: &a0 {k: v}", *(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 10))]
)
BOMBS = {
    "aliases": ALIASES,
    "merges": MERGES,
    "an alias of itself": "a: &a [*a]",
    "depth": "a: " + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
    "depth without end": "a: " + "[" * 50_000,
    "a number to the base 60": "a: 1" + ":1" * 20_000,
}


def _cases(text: str, folder: Path) -> Any:
    file = folder / "bomb.yaml"
    indented = text.replace("\n", "\n    ")
    file.write_text(f"- tool: t\n  arguments:\n    {indented}\n")
    return read_cases(file)


def _prompt(text: str, folder: Path) -> Any:
    return read_document(f"---\n{text}\n---\nbody", "bomb.yaml")


def _skill(text: str, folder: Path) -> Any:
    return verbatim_fields(f"---\n{text}\n---\nbody", "bomb.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("read", [_cases, _prompt, _skill])
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_with_its_file_and_line(
    bomb: str, read: Callable[[str, Path], Any], tmp_path: Path
) -> None:
    with pytest.raises((DeskUserError, RegistrationError)) as refused:
        read(BOMBS[bomb], tmp_path)
    place = f"{refused.value} {getattr(refused.value, 'place', '')}"
    assert "bomb.yaml:" in place, place


@pytest.mark.parametrize(
    ("text", "told", "line"),
    [
        (ALIASES, f"more than {MAX_ALIASED_VALUES:,} values", 6),
        ("a: 1\nb: &b\n- *b\n", r"\*b refers to a value", 3),
        ("b: 1\na: " + "[" * 200 + "]" * 200, f"more than {MAX_DEPTH} levels", 2),
        ("a: b\nc: 1" + ":1" * MAX_DIGITS, f"{MAX_DIGITS:,} are allowed", 2),
        ("a: " + "b" * 100, "are allowed", 1),
        ("a: b\nc: [", "expected the node content", 2),
        ("a: b\nc: \x07", "special characters", 2),
        ("a: 1\nb: *none", "undefined alias", 2),
    ],
)
def test_a_fault_has_its_line(text: str, told: str, line: int) -> None:
    with pytest.raises(YamlFault, match=told) as fault:
        load_yaml(text, yaml.SafeLoader, 50 if text.endswith("bbb") else 1 << 20)
    assert fault.value.line == line


def test_a_few_aliases_are_welcome() -> None:
    text = "base: &base {a: 1, b: [x, y]}\nfirst: *base\nsecond: {<<: *base, c: 2}\n"
    assert load_yaml(text, yaml.SafeLoader, 1000)["second"] == {"a": 1, "b": ["x", "y"], "c": 2}


def test_a_long_text_of_digits_in_quotes_is_no_number() -> None:
    assert load_yaml(f"a: '{'1' * 5000}'", yaml.SafeLoader, 10_000) == {"a": "1" * 5000}
