"""Every bound on memory, time or size has the value of `bounds.txt`.

Many tests replace a bound with a small one, so they stay green whatever its real value is.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import mcpdesk
from mcpdesk.feature_table import FEATURES
from tests.support.features import has_feature

PACKAGE = Path(mcpdesk.__file__).parent
TABLE = Path(__file__).with_name("bounds.txt")
WORDS = (
    "MOST|MAX|LIMIT|LARGE|LARGEST|BIGGEST|LONG|LONGEST|DEEP|DEEPEST|DEPTH|KEPT|HELD|BYTES|CHARS|CHARACTERS|LENGTH"
    "|LINES|FILES|ROWS|PIECES|ATTEMPTS|TURNS|ROUNDS|S|MS|TTL"
)
"""Words in the names of bounds. All of these are in the table; it may have other constants as well."""
BOUND = re.compile(rf"(?:.*_)?(?:{WORDS})(?:_.*)?")
NAME = "_?[A-Z][A-Z0-9_]*"
DEFINITION = re.compile(
    rf"^(?: {{4}})?({NAME}(?:, {NAME})*)(?:: [^=\n]+)? = ([\w(][\w ()*/<.,+-]*)(?: *#.*)?$", re.MULTILINE
)
"""Arithmetic that is the value of a constant of a module or class, or of several constants, on one line."""
UNITS = {"K": " * 1024", "M": " * 1024 ** 2", "G": " * 1024 ** 3"}
OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.LShift: lambda left, right: int(left) << int(right),
}

Value: TypeAlias = float | tuple[float, ...]


def evaluated(expression: ast.expr, known: dict[str, Value]) -> Value | None:
    """Value of arithmetic with numbers and known constants, None for any other expression."""
    match expression:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name):
            return known.get(name)
        case ast.Tuple(elts=elements):
            values = [evaluated(element, known) for element in elements]
            numbers = tuple(value for value in values if isinstance(value, int | float))
            return numbers if len(numbers) == len(values) else None
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            pair = evaluated(left, known), evaluated(right, known)
            match pair:
                case (int() | float() as first, int() | float() as second):
                    return OPERATORS[type(op)](first, second)
    return None


def parsed(text: str) -> ast.expr | None:
    """Expression, None if the text is not one."""
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None


def constants(module: Path) -> Iterator[tuple[str, Value]]:
    """Numbers and tuples of numbers that a module or a class in it defines.

    A bound that is calculated from one of another module is not among them.
    """
    known: dict[str, Value] = {}
    for names, text in DEFINITION.findall(module.read_text("utf-8")):
        expression = parsed(text)
        value = evaluated(expression, known) if expression else None
        if value is None:
            continue
        *several, last = names.split(", ")
        values = value if several and isinstance(value, tuple) else (value,)
        for name, each in zip((*several, last), values, strict=True):
            known[name] = each
            yield name, each


def defined() -> dict[tuple[str, str], Value]:
    """Constants of the package by module and name."""
    return {
        (str(module.relative_to(PACKAGE).with_suffix("")), name): value
        for module in sorted(PACKAGE.rglob("*.py"))
        for name, value in constants(module)
    }


def expected() -> dict[tuple[str, str], Value]:
    """Constants of the table by module and name."""
    rows: dict[tuple[str, str], Value] = {}
    lines = re.sub(r"\n +", " ", TABLE.read_text("utf-8")).splitlines()
    for line in (line for line in lines if line and not line.startswith("#")):
        module, _, bounds = line.partition(": ")
        for bound in re.split(r", (?=_?[A-Z])", bounds.strip()):
            name, _, text = bound.partition(" ")
            expression = parsed(re.sub(r"(?<=\d)[KMG]\b", lambda unit: UNITS[unit[0]], text))
            value = evaluated(expression, {}) if expression else None
            assert value is not None, f"{TABLE.name}: {module}: {bound!r} is not a name and a number"
            assert (module, name) not in rows, f"{TABLE.name}: {module}: {name} is there twice"
            rows[module, name] = value
    return rows


def test_every_bound_has_its_value() -> None:
    table, package = expected(), defined()
    bounds = {place: value for place, value in package.items() if BOUND.fullmatch(place[1])}
    missing = [
        f"{module}: {name} {value}" for (module, name), value in bounds.items() if (module, name) not in table
    ]
    assert missing == [], f"add these bounds to tests/{TABLE.name}, or the new ones of a renamed module"
    deleted = tuple(f"features/{name}/" for name in FEATURES if not has_feature(name))
    table = {place: value for place, value in table.items() if not place[0].startswith(deleted)}
    left = [f"{module}: {name}" for module, name in table if (module, name) not in package]
    assert left == [], f"remove these from tests/{TABLE.name}: they no longer exist"
    changed = {
        f"{module}: {name}": f"{value} here, {package[module, name]} in the package"
        for (module, name), value in table.items()
        if package[module, name] != value
    }
    assert changed == {}, f"if a change is intended, make it in tests/{TABLE.name} and in docs/ as well"


def test_a_bound_is_found_and_read() -> None:
    found = defined()
    assert found["upstream/passed_channel", "KEEP_ALIVE_S"] == 15.0
    assert found["protocol/outlet", "LARGE_ANSWER_BYTES"] == 64 << 10
    assert found["protocol/trace", "MAX_BAGGAGE_LENGTH"] == 8 << 10
    assert found["transports/http/job_routes", "MAX_WAIT_MS"] == 24 * 3600 * 1000
    assert expected()["protocol/outlet", "LARGE_ANSWER_BYTES"] == 64 * 1024
