"""Tests outside the folder of a feature pass without it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from mcpdesk.feature_table import FEATURES

TESTS = Path(__file__).parents[1]
USED = {
    "browser_desk": r"--web\b",
    "dashboard": r"/dashboard\b|support\.dashboard\b",
    "desk_server": r"/desk/mcp\b",
    "gateway": r"/v1/(?:ws/)?mcp(?!/progress)\b|support\.gateway\b",
    "holding": r"--faults\b|\bdesk\.do\(",
    "openapi": r"--from-openapi\b",
    "program_tools": r'"commands": \[(?!\])',
    "web_tools": r"\b(?:ReadDocs|WebSearch)\b",
}
"""Endpoints, options and names of a feature, besides its modules and commands."""
RUNNERS = frozenset({"mcpdesk", "run", "invoke", "ends", "alone_on_windows", "on_windows"})
"""Functions of tests that run a command."""
UNRELATED = {
    "cli/test_options.py": {"browser_desk"},  # the syntax of an option
    "hosting/test_manifest.py": {"program_tools"},  # the reader of the manifest, which knows all keys
    "interop/test_parsers.py": {"program_tools"},
    "link/test_remote.py": {"cases"},  # `test` is a program of the shell
    "test_release.py": {"cases"},  # `test` is a job of a workflow
    "support/picture.py": {"open_connections"},  # `up` and `down` are keys
    "tui/fuzz.py": {"open_connections"},
    "tui/test_form.py": {"open_connections"},
    "tui/test_menu.py": {"open_connections"},
    "tui/test_question_dialog.py": {"open_connections"},
    "tui/test_traffic_list.py": {"open_connections"},
    "transports/http/test_request_head.py": {"desk_server"},  # part of another address
    "support/dashboard.py": {"dashboard", "gateway"},  # for tests that need the feature
    "support/gateway.py": {"gateway"},
    "support/wire.py": {"gateway"},
    "web/browsing.py": {"dashboard"},
}
"""Features that a file may name without asking whether they exist."""
ALL_FEATURES = {"test_docs.py", "test_pages.py", "support/reference_pages.py", "support/manifest_schema.py"}
"""Files about the documentation, which describes all features."""
TOOLS = {"bench", "load", "mutate", "features", "conformance"}
"""Folders that are not run with the tests, or belong to features."""


def sources() -> Iterator[Path]:
    """Every test and module for tests outside the folders of features."""
    for path in sorted(TESTS.rglob("*.py")):
        inside = path.relative_to(TESTS)
        if inside.parts[0] not in TOOLS and inside.as_posix() not in ALL_FEATURES:
            yield path


def commands(tree: ast.Module) -> set[str]:
    """First words of lists, tuples and calls that may be command lines."""
    words = set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]) if (
                name in RUNNERS
            ):
                items = [first]
            case ast.List(elts=items) | ast.Tuple(elts=items):
                pass
            case _:
                continue
        strings = [each.value for each in items if isinstance(each, ast.Constant)]
        after = [strings[at + 1] for at, each in enumerate(strings[:-1]) if each == "mcpdesk"]
        words |= {each for each in (*strings[:1], *after) if isinstance(each, str)}
    return words


def used(path: Path) -> Iterator[str]:
    """Features that a file uses without asking whether they exist."""
    text = path.read_text()
    words, unrelated = commands(ast.parse(text)), UNRELATED.get(path.relative_to(TESTS).as_posix(), set())
    for name in FEATURES.keys() - unrelated:
        owned = set(import_module(f"mcpdesk.features.{name}").FEATURE.commands)
        pattern = rf"mcpdesk\.features\.{name}\b|tests\.features\.{name}\b|{USED.get(name, '(?!)')}"
        asks = re.search(rf'\b(?:having|has_feature|needs_feature)\(\s*"{name}"', text)
        if not asks and (owned & words or re.search(pattern, text)):
            yield name


@pytest.mark.slow
def test_tests_outside_need_no_feature() -> None:
    found = {path.relative_to(TESTS).as_posix(): set(used(path)) for path in sources()}
    assert {path: names for path, names in found.items() if names} == {}
