"""Every requirement has a test that names it, or says why not; every id a test names is a requirement."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.conformance.requirements import REQUIREMENTS

TESTS = Path(__file__).parent.parent


def cited(path: Path) -> Iterator[str]:
    """The ids that the tests of a file prove, by their marker."""
    source = path.read_text()
    if "requirement(" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.requirement":
                    yield from (str(ast.literal_eval(each)) for each in mark.args)


@cache
def all_cited() -> set[str]:
    """The ids that all tests prove."""
    return {each for path in TESTS.rglob("test_*.py") for each in cited(path)}


def test_every_requirement_is_proven_or_says_why_not() -> None:
    assert [each.id for each in REQUIREMENTS if each.id not in all_cited() and not each.gap] == []


def test_no_gap_is_stated_where_a_test_proves_the_opposite() -> None:
    assert [each.id for each in REQUIREMENTS if each.id in all_cited() and each.gap] == []


def test_every_cited_id_is_a_requirement() -> None:
    assert {each.id for each in REQUIREMENTS} >= all_cited()


def test_no_requirement_is_stated_twice() -> None:
    assert len({each.id for each in REQUIREMENTS}) == len(REQUIREMENTS)
