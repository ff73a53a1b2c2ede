"""Faults of one line that can be put into Python source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

OPPOSITES: dict[type[ast.AST], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.Add: "-",
    ast.Sub: "+",
    ast.And: "or",
    ast.Or: "and",
}
"""Replacement of each operator."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A span of one line and its replacement. Lines count from 1, columns in bytes from 0."""

    line: int
    start: int
    end: int
    text: str

    def put_into(self, source: str) -> str:
        """The source with this fault."""
        lines = source.encode().splitlines(keepends=True)
        line = lines[self.line - 1]
        lines[self.line - 1] = line[: self.start] + self.text.encode() + line[self.end :]
        return b"".join(lines).decode()


def faults(source: str) -> list[Fault]:
    """All faults that can be put into a module, each on one line and each leaving it valid Python."""
    return sorted(
        {fault for node in _running(ast.parse(source)) for fault in _of(node, source)},
        key=lambda fault: (fault.line, fault.start, fault.text),
    )


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes that run and do something: no annotations, docstrings, imports or options of classes."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        if name == "keywords" and isinstance(node, ast.ClassDef):  # options such as frozen=True
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_for_readers(child):
                yield from _running(child)


def _is_for_readers(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.JoinedStr():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
            return True
    return False


def _of(node: ast.AST, source: str) -> Iterator[Fault]:
    """The faults of one node."""
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in OPPOSITES:
            yield from _between(left, right, OPPOSITES[type(operator)], source)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPPOSITES:
            yield from _between(left, right, OPPOSITES[type(operator)], source)
        case ast.BoolOp(op=operator, values=[left, right]):
            yield from _between(left, right, OPPOSITES[type(operator)], source)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _replaced(node, f"bool({ast.unparse(operand)})")
        case ast.Constant(value=bool() as value):
            yield from _replaced(node, str(not value))
        case ast.Constant(value=int() | float() as value):
            yield from _replaced(node, str(value * 100 if value > 1 else value + 1))
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield from _replaced(test, f"(not ({ast.unparse(test)}))")
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield from _replaced(value, "None")
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield from _replaced(node, "pass")
        case ast.Break():
            yield from _replaced(node, "continue")
        case ast.Continue():
            yield from _replaced(node, "break")


def _replaced(node: ast.expr | ast.stmt, text: str) -> Iterator[Fault]:
    if node.end_lineno == node.lineno and node.end_col_offset is not None:
        yield Fault(node.lineno, node.col_offset, node.end_col_offset, text)


def _between(left: ast.expr, right: ast.expr, text: str, source: str) -> Iterator[Fault]:
    """The operator between two operands, unless brackets or lines lie between them."""
    if left.end_lineno == right.lineno and left.end_col_offset is not None:
        line = source.encode().splitlines()[right.lineno - 1]
        if not set(line[left.end_col_offset : right.col_offset]) & set(b"()"):
            yield Fault(right.lineno, left.end_col_offset, right.col_offset, f" {text} ")
